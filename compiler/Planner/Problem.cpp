//===- Problem.cpp - Consistency and bounds of a problem ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Problem.h"

#include "compiler/Planner/Limits.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace harmony::planner {

namespace {

std::string quoted(const std::string &name) { return "'" + name + "'"; }

void checkIndex(int index, size_t count, const std::string &what,
                const std::string &layer) {
  if (index < 0 || static_cast<size_t>(index) >= count)
    throw Error("layer " + quoted(layer) + ": " + what + " index is " +
                std::to_string(index) + ", accepted range is [0, " +
                std::to_string(static_cast<int64_t>(count) - 1) + "]");
}

void checkNotNegative(int64_t bytes, const std::string &what) {
  if (bytes < 0)
    throw Error(what + " is " + std::to_string(bytes) +
                ", accepted is 0 or more");
}

void checkSeconds(double seconds, const std::string &what) {
  if (!(seconds >= 0 && seconds <= maximalSeconds))
    throw Error(what + " is " + numberText(seconds) +
                ", accepted is from 0 to 1e18");
}

} // namespace

void Problem::link() {
  for (Tensor &tensor : tensors)
    tensor.gradientUses.clear();
  for (Value &value : values) {
    value.producer = -1;
    value.consumers.clear();
  }
  for (int l = 0; l < layerCount(); ++l) {
    const Layer &layer = layers[l];
    checkIndex(layer.function, functions.size(), "function", layer.name);
    for (size_t position = 0; position < layer.tensors.size(); ++position) {
      const TensorUse &use = layer.tensors[position];
      checkIndex(use.tensor, tensors.size(), "tensor", layer.name);
      if (use.gradient)
        tensors[use.tensor].gradientUses.push_back(
            {l, static_cast<int>(position)});
    }
    for (const ValueUse &use : layer.inputs) {
      checkIndex(use.value, values.size(), "input value", layer.name);
      Value &value = values[use.value];
      if (!value.consumers.empty() && value.consumers.back() == l)
        throw Error("layer " + quoted(layer.name) + " lists input value " +
                    quoted(value.name) + " twice, accepted is once");
      value.consumers.push_back(l);
    }
    for (int output : layer.outputs) {
      checkIndex(output, values.size(), "output value", layer.name);
      Value &value = values[output];
      if (value.producer >= 0)
        throw Error("value " + quoted(value.name) + " is produced by layers " +
                    quoted(layers[value.producer].name) + " and " +
                    quoted(layer.name) + ", accepted is one producer");
      value.producer = l;
    }
  }
  int loss = -1, losses = 0;
  for (int l = 0; l < layerCount(); ++l)
    if (layers[l].isLoss) {
      loss = l;
      ++losses;
    }
  for (Scalar &scalar : scalars)
    if (scalar.role == ScalarRole::Accumulator && losses == 1)
      scalar.layer = loss;
}

static void checkMicrobatches(const Problem &problem) {
  if (problem.batch < 1)
    throw Error("batch is " + std::to_string(problem.batch) +
                ", accepted is 1 or more");
  if (problem.microbatches.empty())
    throw Error("microbatches is empty, accepted is at least one size");
  int64_t before = 0;
  for (int64_t u : problem.microbatches) {
    if (u <= before || u > problem.batch)
      throw Error("microbatch is " + std::to_string(u) +
                  ", accepted are ascending sizes from 1 to " +
                  std::to_string(problem.batch));
    if (!problem.splittable && u != problem.batch)
      throw Error("microbatch is " + std::to_string(u) + ", accepted is " +
                  std::to_string(problem.batch) +
                  " alone: the batch cannot be split");
    before = u;
  }
}

static void checkBytes(int64_t each, int64_t count, const std::string &what) {
  double bytes = static_cast<double>(each) * static_cast<double>(count);
  if (bytes > static_cast<double>(maximalBytes))
    throw Error(what + " takes " + std::to_string(each) + " * " +
                std::to_string(count) + " bytes, accepted are at most " +
                std::to_string(maximalBytes));
}

static void checkTensorsAndValues(const Problem &problem) {
  for (const Tensor &tensor : problem.tensors) {
    std::string what = "tensor " + quoted(tensor.name);
    if (tensor.bytes <= 0)
      throw Error(what + ": bytes is " + std::to_string(tensor.bytes) +
                  ", accepted is 1 or more");
    checkNotNegative(tensor.gradientBytes, what + ": gradientBytes");
    checkNotNegative(tensor.stateBytes, what + ": stateBytes");
    for (int64_t bytes :
         {tensor.bytes, tensor.gradientBytes, tensor.stateBytes})
      checkBytes(bytes, 1, what);
    if (!tensor.trainable && !tensor.gradientUses.empty())
      throw Error(what + " is not trainable but layer " +
                  quoted(problem.layers[tensor.gradientUses[0].layer].name) +
                  " has a gradient of it");
    if (!tensor.gradientUses.empty() && tensor.gradientBytes == 0)
      throw Error(what + ": gradientBytes is 0, accepted is 1 or more where a "
                         "gradient is used");
    if (!problem.training && !tensor.gradientUses.empty())
      throw Error(
          what +
          " has gradient uses, accepted is none in a forward-only program");
  }
  for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
    const Value &value = problem.values[v];
    std::string what = "value " + quoted(value.name);
    checkNotNegative(value.bytesPerSample, what + ": bytesPerSample");
    checkNotNegative(value.fixedBytes, what + ": fixedBytes");
    checkBytes(value.bytesPerSample, problem.batch, what);
    checkBytes(value.fixedBytes, problem.batch, what);
    if (value.sliceable && value.fixedBytes != 0)
      throw Error(what + " is sliceable and has fixedBytes " +
                  std::to_string(value.fixedBytes) + ", accepted is 0");
    if (value.bytesPerSample + value.fixedBytes == 0)
      throw Error(what + " has no bytes, accepted is 1 or more");
    if (!value.consumers.empty() && value.consumers.front() <= value.producer)
      throw Error(what + " is read by layer " +
                  quoted(problem.layers[value.consumers.front()].name) +
                  ", which is not after its producer " +
                  quoted(problem.layers[value.producer].name));
    if (value.isInput() && value.differentiable)
      throw Error(
          what +
          " is a batch input and differentiable, accepted is one of the two");
    if (value.isInput() && value.output)
      throw Error(
          what + " is a batch input and an output, accepted is one of the two");
    if (value.differentiable && !problem.training)
      throw Error(
          what +
          " is differentiable, accepted is false in a forward-only program");
    if (value.differentiable && problem.contributions(v) == 0)
      throw Error(
          what +
          " is differentiable but no consumer contributes to its gradient");
  }
}

static void checkLayers(const Problem &problem) {
  if (problem.layers.empty())
    throw Error("layers is empty, accepted is at least one layer");
  bool loss = false;
  for (const Layer &layer : problem.layers) {
    loss |= layer.isLoss;
    auto checkLevels = [&](int level, const std::string &what) {
      if (level < 1)
        throw Error("layer " + quoted(layer.name) + ": recomputeReads of " +
                    what + " is " + std::to_string(level) +
                    ", accepted is 1 or more");
    };
    for (const TensorUse &use : layer.tensors)
      checkLevels(use.recomputeReads,
                  "tensor " + quoted(problem.tensors[use.tensor].name));
    for (const ValueUse &use : layer.inputs)
      checkLevels(use.recomputeReads,
                  "value " + quoted(problem.values[use.value].name));
    for (const ValueUse &use : layer.inputs)
      if (use.gradient && !problem.values[use.value].differentiable)
        throw Error("layer " + quoted(layer.name) +
                    " contributes to the gradient of value " +
                    quoted(problem.values[use.value].name) +
                    ", which is not differentiable");
  }
  if (problem.training && !loss)
    throw Error(
        "no layer is the loss, accepted is at least one in a training program");
}

/// Levels of keeping: as many for every microbatch, up to all of the block.
static void checkKeeps(const Cost &cost, const Function &function,
                       const std::string &what) {
  if (cost.keeps.size() != function.costs.front().keeps.size())
    throw Error(what + " has " + std::to_string(cost.keeps.size()) +
                " keeps for microbatch " + std::to_string(cost.microbatch) +
                ", accepted is as many as for the others, " +
                std::to_string(function.costs.front().keeps.size()));
  int64_t before = 0;
  for (const Keep &keep : cost.keeps) {
    checkSeconds(keep.recomputeSeconds, what + ": keeps: recomputeSeconds");
    checkNotNegative(keep.recomputeWorkspace,
                     what + ": keeps: recomputeWorkspace");
    bool last = &keep == &cost.keeps.back();
    if (keep.bytes < before || keep.bytes > cost.savedBytes ||
        (last && keep.bytes != cost.savedBytes))
      throw Error(what + ": keeps: bytes is " + std::to_string(keep.bytes) +
                  ", accepted is from " + std::to_string(before) + " to " +
                  std::to_string(cost.savedBytes) + ", which the last one has");
    before = keep.bytes;
  }
}

static void checkFunctions(const Problem &problem) {
  for (const Function &function : problem.functions) {
    std::string what = "function " + quoted(function.name);
    if (function.costs.size() != problem.microbatches.size())
      throw Error(what + " has " + std::to_string(function.costs.size()) +
                  " costs, accepted is one for each of the " +
                  std::to_string(problem.microbatches.size()) +
                  " microbatches");
    for (size_t i = 0; i < function.costs.size(); ++i) {
      const Cost &cost = function.costs[i];
      if (cost.microbatch != problem.microbatches[i])
        throw Error(what + ": cost " + std::to_string(i) +
                    " is for microbatch " + std::to_string(cost.microbatch) +
                    ", accepted is " + std::to_string(problem.microbatches[i]));
      checkSeconds(cost.forwardSeconds, what + ": forwardSeconds");
      checkSeconds(cost.backwardSeconds, what + ": backwardSeconds");
      checkNotNegative(cost.savedBytes, what + ": savedBytes");
      checkNotNegative(cost.forwardWorkspace, what + ": forwardWorkspace");
      checkNotNegative(cost.backwardWorkspace, what + ": backwardWorkspace");
      for (int64_t bytes :
           {cost.savedBytes, cost.forwardWorkspace, cost.backwardWorkspace})
        checkBytes(bytes, 1, what);
      checkKeeps(cost, function, what);
    }
  }
}

/// Every accumulator has a loss layer, every contribution one tensor.
static void checkScalars(const Problem &problem) {
  std::vector<int> given(problem.scalars.size(), 0);
  for (const Tensor &tensor : problem.tensors) {
    if (tensor.contribution < 0)
      continue;
    std::string what = "tensor " + quoted(tensor.name) + ": contribution";
    if (static_cast<size_t>(tensor.contribution) >= problem.scalars.size() ||
        problem.scalars[tensor.contribution].role != ScalarRole::Contribution)
      throw Error(what + " is " + std::to_string(tensor.contribution) +
                  ", accepted is a scalar of role contribution");
    if (tensor.gradientUses.empty())
      throw Error(what + " is given, but the tensor has no gradient");
    if (!problem.epilogue)
      throw Error(what + " is given, but no epilogue reads it");
    ++given[tensor.contribution];
  }
  for (size_t s = 0; s < problem.scalars.size(); ++s) {
    const Scalar &scalar = problem.scalars[s];
    std::string what = "scalar " + quoted(scalar.name);
    if (scalar.role == ScalarRole::Contribution && given[s] != 1)
      throw Error(what + " is the contribution of " + std::to_string(given[s]) +
                  " tensors, accepted is one");
    if (scalar.role != ScalarRole::Accumulator)
      continue;
    if (scalar.layer < 0 || scalar.layer >= problem.layerCount() ||
        !problem.layers[scalar.layer].isLoss)
      throw Error(what + ": layer is " + std::to_string(scalar.layer) +
                  ", accepted is the loss layer that adds to it");
  }
}

void Problem::check() const {
  checkMicrobatches(*this);
  checkLayers(*this);
  checkTensorsAndValues(*this);
  checkFunctions(*this);
  for (const Scalar &scalar : scalars)
    if (scalar.bytes <= 0)
      throw Error("scalar " + quoted(scalar.name) + ": bytes is " +
                  std::to_string(scalar.bytes) + ", accepted is 1 or more");
  checkScalars(*this);
  for (const Tensor &tensor : tensors)
    if (tensor.hostUpdateSeconds > 0)
      checkSeconds(tensor.hostUpdateSeconds,
                   "tensor " + quoted(tensor.name) + ": hostUpdateSeconds");
  for (const UpdateCost *cost : {&hostUpdate, &deviceUpdate}) {
    checkSeconds(cost->perByte, "update cost per byte");
    checkSeconds(cost->perTensor, "update cost per tensor");
  }
}

const Cost &Problem::cost(int layer, int64_t microbatch) const {
  for (const Cost &cost : functions[layers[layer].function].costs)
    if (cost.microbatch == microbatch)
      return cost;
  throw Error("layer " + quoted(layers[layer].name) +
              " has no cost for microbatch " + std::to_string(microbatch));
}

bool Problem::forwardsWrite() const {
  for (const Layer &layer : layers)
    for (const TensorUse &use : layer.tensors)
      if (use.forwardWrites)
        return true;
  return false;
}

int64_t Problem::trainingStateBytes() const {
  int64_t total = 0;
  for (const Tensor &tensor : tensors)
    if (tensor.trainable)
      total += tensor.bytes + tensor.stateBytes +
               tensor.gradientBytes *
                   static_cast<int64_t>(tensor.gradientUses.size());
  return total;
}

int Problem::contributions(int value) const {
  int count = 0;
  for (int consumer : values[value].consumers)
    for (const ValueUse &use : layers[consumer].inputs)
      count += use.value == value && use.gradient;
  return count;
}

double Problem::computeBoundSeconds() const {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t u : microbatches) {
    double seconds = 0;
    for (int l = 0; l < layerCount(); ++l) {
      const Cost &c = cost(l, u);
      seconds += c.forwardSeconds + (training ? c.backwardSeconds : 0);
    }
    best = std::min(best, seconds * static_cast<double>(batch) /
                              static_cast<double>(u));
  }
  return best;
}

/// Bytes that one direction of a layer has live at once, whichever is more.
static int64_t layerBytes(const Problem &problem, int l) {
  int64_t u = problem.microbatches.front();
  const Layer &layer = problem.layers[l];
  const Cost &cost = problem.cost(l, u);
  int64_t tensors = 0, gradients = 0, in = 0, out = 0, gradientsIn = 0,
          gradientsOut = 0;
  for (size_t i = 0; i < layer.tensors.size(); ++i) {
    const TensorUse &use = layer.tensors[i];
    const Tensor &tensor = problem.tensors[use.tensor];
    bool repeated = std::any_of(
        layer.tensors.begin(), layer.tensors.begin() + static_cast<long>(i),
        [&](const TensorUse &o) { return o.tensor == use.tensor; });
    tensors += repeated ? 0 : tensor.bytes;
    gradients += use.gradient ? tensor.gradientBytes : 0;
  }
  for (const ValueUse &use : layer.inputs) {
    in += problem.values[use.value].bytes(u);
    gradientsIn += use.gradient ? problem.values[use.value].bytes(u) : 0;
  }
  for (int v : layer.outputs) {
    out += problem.values[v].bytes(u);
    gradientsOut +=
        problem.values[v].differentiable ? problem.values[v].bytes(u) : 0;
  }
  int64_t forward =
      tensors + in + out + cost.savedBytes + cost.forwardWorkspace;
  int64_t backward = tensors + gradients + in + gradientsIn + gradientsOut +
                     cost.savedBytes + cost.backwardWorkspace;
  return problem.training ? std::max(forward, backward) : forward;
}

int largestLayer(const Problem &problem) {
  int largest = 0;
  for (int l = 1; l < problem.layerCount(); ++l)
    if (layerBytes(problem, l) > layerBytes(problem, largest))
      largest = l;
  return largest;
}

int64_t lowerBound(const Problem &problem) {
  int64_t scalars = 0;
  for (const Scalar &scalar : problem.scalars)
    scalars += scalar.bytes;
  return scalars + layerBytes(problem, largestLayer(problem));
}

} // namespace harmony::planner
