//===- Problems.cpp - Small problems for the planner's tests --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <cmath>

namespace harmony::planner::test {

namespace {

std::vector<int64_t> divisors(int64_t batch) {
  std::vector<int64_t> result;
  for (int64_t u = 1; u <= batch; ++u)
    if (batch % u == 0)
      result.push_back(u);
  return result;
}

Problem empty(const char *name, int64_t batch) {
  Problem problem;
  problem.name = name;
  problem.batch = batch;
  problem.microbatches = divisors(batch);
  problem.scalars = {{"seed", 4, ScalarRole::Seed, -1},
                     {"loss", 8, ScalarRole::Accumulator, -1}};
  problem.hostUpdate = {1e-6, 1e-9};
  problem.deviceUpdate = {1e-6, 2e-10};
  return problem;
}

int addTensor(Problem &problem, const std::string &name, int64_t bytes,
              bool trainable = true) {
  problem.tensors.push_back({name,
                             bytes,
                             trainable,
                             trainable ? bytes : 0,
                             trainable ? 2 * bytes : 0,
                             UpdatePlace::Any,
                             -1,
                             {}});
  return static_cast<int>(problem.tensors.size()) - 1;
}

int addValue(Problem &problem, const std::string &name, int64_t bytes,
             bool differentiable) {
  Value value;
  value.name = name;
  value.bytesPerSample = bytes;
  value.differentiable = differentiable;
  problem.values.push_back(value);
  return static_cast<int>(problem.values.size()) - 1;
}

/// Seconds per sample; a microbatch of one costs half as much again.
int addFunction(Problem &problem, const std::string &name, double forward,
                int64_t saved, int64_t workspace) {
  Function function{name, {}};
  for (int64_t u : problem.microbatches) {
    double time = forward * (static_cast<double>(u) + 0.5);
    function.costs.push_back(
        {u, time, 2 * time, saved * u, workspace * u, workspace * u});
  }
  problem.functions.push_back(std::move(function));
  return static_cast<int>(problem.functions.size()) - 1;
}

/// An accumulator for every loss layer, beside the other scalars.
void addAccumulators(Problem &problem) {
  auto isAccumulator = [](const Scalar &scalar) {
    return scalar.role == ScalarRole::Accumulator;
  };
  problem.scalars.erase(std::remove_if(problem.scalars.begin(),
                                       problem.scalars.end(), isAccumulator),
                        problem.scalars.end());
  for (int l = 0; l < problem.layerCount(); ++l)
    if (problem.layers[l].isLoss)
      problem.scalars.push_back(
          {"loss of " + problem.layers[l].name, 8, ScalarRole::Accumulator, l});
}

TensorUse weight(int tensor) { return {tensor, true, true, false}; }
TensorUse frozen(int tensor) { return {tensor, false, true, false}; }
ValueUse activation(int value) { return {value, true, true}; }
ValueUse data(int value) { return {value, true, false}; }

} // namespace

Problem chain(int layers, int64_t batch, int64_t weightBytes,
              int64_t activationBytes) {
  Problem problem = empty("chain", batch);
  int x = addValue(problem, "x", activationBytes, false);
  int function =
      addFunction(problem, "layer", 1e-9 * static_cast<double>(weightBytes),
                  2 * activationBytes, activationBytes / 2);
  for (int l = 0; l < layers; ++l) {
    Layer layer;
    layer.name = "layer" + std::to_string(l);
    layer.function = function;
    layer.tensors = {
        weight(addTensor(problem, layer.name + ".weight", weightBytes))};
    layer.inputs = {l == 0 ? data(x) : activation(x)};
    layer.isLoss = l == layers - 1;
    if (!layer.isLoss) {
      x = addValue(problem, layer.name + ".out", activationBytes, true);
      layer.outputs = {x};
    }
    problem.layers.push_back(layer);
  }
  problem.link();
  return problem;
}

Problem heavy(int64_t batch) {
  Problem problem = chain(2, batch, 1000000000, 64);
  problem.microbatches = {1};
  Cost cost;
  cost.microbatch = 1;
  cost.forwardSeconds = 1;
  cost.backwardSeconds = 2;
  problem.functions[0].costs = {cost};
  problem.hostUpdate = problem.deviceUpdate = {0, 0};
  return problem;
}

Problem mlp(const std::vector<int64_t> &widths, int64_t batch) {
  Problem problem = empty("mlp", batch);
  int x = addValue(problem, "x", 4 * widths[0], false);
  int labels = addValue(problem, "labels", 8, false);
  for (size_t l = 1; l < widths.size(); ++l) {
    bool last = l + 1 == widths.size();
    Layer layer;
    layer.name = "fc" + std::to_string(l);
    double flops = static_cast<double>(2 * widths[l - 1] * widths[l]);
    layer.function = addFunction(problem, layer.name, flops * 1e-11,
                                 last ? 4 * widths[l] : 0, 4 * widths[l]);
    layer.tensors = {weight(addTensor(problem, layer.name + ".weight",
                                      4 * widths[l - 1] * widths[l])),
                     {addTensor(problem, layer.name + ".bias", 4 * widths[l]),
                      true, false, false}};
    layer.inputs = {l == 1 ? data(x) : activation(x)};
    if (last)
      layer.inputs.push_back(data(labels));
    layer.isLoss = last;
    if (!last) {
      x = addValue(problem, layer.name + ".out", 4 * widths[l], true);
      layer.outputs = {x};
    }
    problem.layers.push_back(layer);
  }
  problem.link();
  return problem;
}

Problem transformer(int blocks, int64_t batch, int64_t width, int64_t sequence,
                    int64_t vocabulary) {
  Problem problem = empty("transformer", batch);
  int tokens = addValue(problem, "tokens", 8 * sequence, false);
  int labels = addValue(problem, "labels", 8 * sequence, false);
  int64_t hidden = 4 * width * sequence;
  int table = addTensor(problem, "wte", 4 * width * vocabulary);
  double flop = 1e-12;
  int embed =
      addFunction(problem, "embed", flop * static_cast<double>(hidden), 0, 0);
  int block =
      addFunction(problem, "block",
                  flop * static_cast<double>(24 * width * width * sequence),
                  10 * hidden, 4 * hidden);
  int head =
      addFunction(problem, "head",
                  flop * static_cast<double>(2 * width * vocabulary * sequence),
                  4 * vocabulary * sequence, 4 * vocabulary * sequence);
  int x = addValue(problem, "embedded", hidden, true);
  int mask = addValue(problem, "mask", 4 * sequence, false);
  problem.layers.push_back({"embed",
                            embed,
                            {{table, true, false, false}},
                            {data(tokens)},
                            {x, mask},
                            false});
  for (int b = 0; b < blocks; ++b) {
    Layer layer;
    layer.name = "block" + std::to_string(b);
    layer.function = block;
    layer.tensors = {
        weight(
            addTensor(problem, layer.name + ".attention", 16 * width * width)),
        weight(addTensor(problem, layer.name + ".mlp", 32 * width * width)),
        weight(addTensor(problem, layer.name + ".norm", 8 * width))};
    layer.inputs = {activation(x), data(mask)};
    x = addValue(problem, layer.name + ".out", hidden, true);
    layer.outputs = {x};
    problem.layers.push_back(layer);
  }
  problem.layers.push_back(
      {"head", head, {weight(table)}, {activation(x), data(labels)}, {}, true});
  problem.link();
  return problem;
}

Problem evaluation(const Problem &training) {
  Problem problem = training;
  problem.name += ".evaluate";
  problem.training = false;
  for (Tensor &tensor : problem.tensors) {
    tensor.trainable = false;
    tensor.gradientBytes = tensor.stateBytes = 0;
  }
  for (Value &value : problem.values)
    value.differentiable = false;
  for (Layer &layer : problem.layers) {
    for (TensorUse &use : layer.tensors)
      use.gradient = use.backwardReads = use.forwardWrites = false;
    for (ValueUse &use : layer.inputs)
      use.gradient = use.backwardReads = false;
  }
  problem.scalars.clear();
  addAccumulators(problem);
  problem.layers.back().outputs.push_back(
      addValue(problem, "logits", 40, false));
  problem.values.back().output = true;
  problem.link();
  return problem;
}

/// Levels of equal parts; `outputs`: and one that keeps none of the block.
static void addKeeps(Function &function, int levels, bool outputs) {
  for (Cost &cost : function.costs)
    for (int level = outputs ? 0 : 1; level <= levels; ++level) {
      double made = 1 - static_cast<double>(level) / std::max(levels, 1);
      cost.keeps.push_back({cost.savedBytes * level / std::max(levels, 1),
                            cost.forwardSeconds * made,
                            level < levels ? 100 + 30 * level : 0});
    }
  if (levels == 0)
    for (Cost &cost : function.costs)
      cost.keeps.clear();
}

Problem random(std::mt19937 &generator) {
  auto below = [&](int n) {
    return static_cast<int>(generator() % static_cast<unsigned>(n));
  };
  static const int64_t batches[] = {1, 2, 4, 6, 8};
  Problem problem = empty("random", batches[below(5)]);
  if (below(6) == 0) {
    problem.splittable = false;
    problem.microbatches = {problem.batch};
  }
  int layers = 1 + below(9);
  int shared = addTensor(problem, "shared", 64 + below(5000));
  int statistics = addTensor(problem, "statistics", 8 + below(300), false);
  int constant = addTensor(problem, "constant", 8 + below(3000), false);
  std::vector<int> inputs, made;
  for (int i = 0; i < 2; ++i)
    inputs.push_back(
        addValue(problem, "input" + std::to_string(i), 4 + below(200), false));
  for (int l = 0; l < layers; ++l) {
    Layer layer;
    layer.name = "layer" + std::to_string(l);
    layer.function =
        addFunction(problem, layer.name, 1e-6 * below(20),
                    below(3) ? below(900) : 0, below(3) ? below(700) : 0);
    addKeeps(problem.functions.back(), below(4), below(2));
    if (below(4))
      layer.tensors.push_back(
          {addTensor(problem, layer.name + ".w", 16 + below(6000)), true,
           below(3) > 0, false});
    if (below(3) == 0)
      layer.tensors.push_back({shared, below(4) > 0, below(2) > 0, false});
    if (below(5) == 0)
      layer.tensors.push_back({shared, true, false, false});
    if (below(4) == 0)
      layer.tensors.push_back({statistics, false, below(2) > 0, true});
    if (below(4) == 0)
      layer.tensors.push_back(frozen(constant));
    for (int v : inputs)
      if (below(3) == 0)
        layer.inputs.push_back({v, below(2) > 0, false});
    for (size_t i = 0; i < made.size(); ++i)
      if (i + 1 == made.size() || below(3) == 0)
        layer.inputs.push_back(
            {made[i], below(2) > 0, problem.values[made[i]].differentiable});
    layer.isLoss = l == layers - 1 || below(8) == 0;
    int outputs = l == layers - 1 ? 0 : 1 + below(2);
    for (int o = 0; o < outputs; ++o) {
      made.push_back(addValue(problem, layer.name + ".out" + std::to_string(o),
                              4 + below(1500), below(4) > 0));
      problem.values.back().fixedBytes = below(4) == 0 ? below(50) : 0;
      layer.outputs.push_back(made.back());
    }
    problem.layers.push_back(layer);
  }
  for (Tensor &tensor : problem.tensors)
    if (below(4) == 0)
      tensor.stateBytes = 0;
  std::mt19937 levels = generator; // the other draws stay what they were
  for (Layer &layer : problem.layers) {
    auto draw = [&](int &reads) {
      int count = problem.functions[layer.function].costs.front().levels();
      if (levels() % 2)
        reads = 1 + static_cast<int>(levels() % static_cast<unsigned>(count));
    };
    for (TensorUse &use : layer.tensors)
      draw(use.recomputeReads);
    for (ValueUse &use : layer.inputs)
      draw(use.recomputeReads);
  }
  addAccumulators(problem);
  problem.link();
  // A differentiable value needs a consumer: give up on those that have none.
  for (size_t v = 0; v < problem.values.size(); ++v)
    if (problem.values[v].differentiable &&
        problem.contributions(static_cast<int>(v)) == 0)
      problem.values[v].differentiable = false;
  return problem;
}

Choices leastChoices(const Problem &problem, int64_t microbatch,
                     int layersPerPack) {
  Choices choices;
  choices.phases = phasesOf(
      problem, uniformLayout(problem, 1, 1, Placement::Ring,
                             evenPartition(problem.layerCount(), layersPerPack),
                             microbatch));
  choices.overlap = false;
  choices.slots = 1;
  size_t tensors = problem.tensors.size();
  choices.resident.assign(tensors, 0);
  choices.pinned = choices.stateResident = choices.holdGradient =
      choices.resident;
  choices.updateOnHost.assign(tensors, 1);
  choices.place.assign(problem.values.size(), Place::Host);
  choices.gradientPlace = choices.place;
  return choices;
}

static std::vector<Keep> timesKeeps(std::vector<Keep> keeps, int64_t factor) {
  for (Keep &keep : keeps) {
    keep.bytes *= factor;
    keep.recomputeSeconds *= double(factor);
    keep.recomputeWorkspace *= factor;
  }
  return keeps;
}

Problem randomSizes(std::mt19937 &generator, int64_t batch) {
  auto below = [&](int n) {
    return static_cast<int>(generator() % static_cast<unsigned>(n));
  };
  Problem problem = random(generator);
  if (problem.splittable) {
    problem.batch = batch == 0 ? problem.batch : batch;
    for (Function &function : problem.functions) {
      const Cost one = function.costs.front();
      function.costs.clear();
      for (int64_t u = 1; u <= problem.batch; ++u)
        function.costs.push_back(
            {u, one.forwardSeconds * double(u), one.backwardSeconds * double(u),
             one.savedBytes * u, one.forwardWorkspace * u,
             one.backwardWorkspace * u, timesKeeps(one.keeps, u)});
    }
    problem.microbatches.clear();
    for (int64_t u = 1; u <= problem.batch; ++u)
      problem.microbatches.push_back(u);
  }
  if (below(2))
    for (Value &value : problem.values) {
      value.fixedBytes = 0;
      value.sliceable = true;
    }
  if (below(3) == 0) {
    problem.epilogue = true;
    for (Tensor &tensor : problem.tensors)
      if (!tensor.gradientUses.empty() && below(3)) {
        tensor.contribution = static_cast<int>(problem.scalars.size());
        problem.scalars.push_back(
            {"square of " + tensor.name, 8, ScalarRole::Contribution, -1});
      }
  }
  return problem;
}

Plan makePlan(const Problem &problem, const Choices &choices) {
  return makePlan(problem, machine(unlimited), choices);
}

Plan makePlan(const Problem &problem, const Machine &machine,
              const Choices &choices) {
  Draft draft = build(problem, machine, choices);
  allocate(draft.plan);
  synchronize(draft);
  simulate(draft.plan, problem, machine);
  return std::move(draft.plan);
}

Machine machine(int64_t capacity) {
  return Machine::uniform("test", 1, capacity, 1e9, 0);
}

std::string problemsOf(const Plan &plan, const Problem &problem,
                       const Machine &machine) {
  std::string text;
  for (const Violation &violation : plan.verify(problem, machine, 5))
    text += violation.rule + ": " + violation.message + "\n";
  return text;
}

} // namespace harmony::planner::test
