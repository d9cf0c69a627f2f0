//===- Baselines.cpp - Training on virtualised memory ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The programs of the baselines: their operations in order, and what each of
// them touches.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Baselines.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Paging.h"
#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <tuple>

namespace harmony::planner {

namespace {

/// A microbatch of one group.
struct Microbatch {
  int group = 0;
  int64_t firstSample = 0, size = 0;
  int64_t number = 0; ///< over all groups
};

class ProgramBuilder {
public:
  ProgramBuilder(const Problem &problem, const Machine &machine,
                 const Baseline &baseline, const std::vector<int64_t> &limits)
      : problem(problem), baseline(baseline), limits(limits),
        devices(static_cast<int>(machine.devices.size())),
        layers(problem.layerCount()) {
    program.groups = baseline.groups;
    splitBatch();
    splitLayers();
  }

  PagedProgram build() {
    if (baseline.pipeline)
      addPipeline();
    else
      addReplicas();
    addUpdates();
    return std::move(program);
  }

private:
  const Problem &problem;
  const Baseline &baseline;
  const std::vector<int64_t> &limits;
  int devices, layers;
  PagedProgram program;
  std::vector<std::vector<Microbatch>> microbatches; ///< by group
  std::vector<int> stageOf;                          ///< by layer
  std::map<std::tuple<Content, int, int, int64_t>, int> pieceIndex;
  std::vector<char> touched; ///< by piece: it holds something

  void splitBatch() {
    int64_t sample = 0, number = 0;
    for (int64_t share : sharesOf(problem.batch, program.groups)) {
      microbatches.emplace_back();
      int group = static_cast<int>(microbatches.size()) - 1;
      for (int64_t at = 0; at < share; at += baseline.microbatch) {
        int64_t size = std::min(baseline.microbatch, share - at);
        microbatches.back().push_back({group, sample + at, size, number++});
      }
      sample += share;
    }
  }

  /// Contiguous stages, balanced by time.
  void splitLayers() {
    stageOf.assign(layers, 0);
    if (!baseline.pipeline)
      return;
    std::vector<double> seconds;
    int64_t u = std::min(baseline.microbatch, problem.batch);
    for (int l = 0; l < layers; ++l) {
      const Cost &cost = problem.cost(l, u);
      seconds.push_back(cost.forwardSeconds * (baseline.keep ? 1 : 2) +
                        cost.backwardSeconds);
    }
    std::vector<int> ends = balancedPartition(seconds, devices);
    for (int l = 0, stage = 0; l < layers; ++l) {
      stageOf[l] = stage;
      stage += ends[stage] == l;
    }
  }

  int stages() const { return stageOf.back() + 1; }
  int deviceOf(int layer, int group) const {
    return baseline.pipeline ? stageOf[layer] : group;
  }

  //===--- program order ---===//

  /// Replicas side by side: every microbatch forward, then backward, through
  /// all layers.
  void addReplicas() {
    size_t most = microbatches.front().size();
    for (size_t i = 0; i < most; ++i) {
      for (int step = 0; step < 2 * layers - 1; ++step)
        for (const std::vector<Microbatch> &list : microbatches)
          if (i < list.size()) {
            bool forward = step < layers - 1;
            addPhase(step == layers - 1 ? PhaseKind::Turn
                     : forward          ? PhaseKind::Forward
                                        : PhaseKind::Backward,
                     step < layers ? step : 2 * layers - 2 - step, list[i]);
          }
    }
  }

  /// A stage runs as many forwards ahead as there are stages behind it, then
  /// one backward for each forward.
  void addPipeline() {
    const std::vector<Microbatch> &list = microbatches.front();
    int count = static_cast<int>(list.size());
    std::vector<int> forwards(stages(), 0), backwards(stages(), 0);
    bool progress = true;
    while (progress) {
      progress = false;
      for (int s = 0; s < stages(); ++s) {
        bool last = s == stages() - 1;
        int ahead = forwards[s] - backwards[s];
        bool mayForward = forwards[s] < count &&
                          (s == 0 || forwards[s - 1] > forwards[s]) &&
                          ahead < stages() - s;
        bool mayBackward = backwards[s] < forwards[s] &&
                           (last || backwards[s + 1] > backwards[s]);
        if (last && mayForward) {
          // The last layer turns: its stage goes forward and backward at once.
          addStage(s, list[forwards[s]], true);
          addStage(s, list[forwards[s]++], false);
          ++backwards[s];
        } else if (mayBackward) {
          addStage(s, list[backwards[s]++], false);
        } else if (mayForward) {
          addStage(s, list[forwards[s]++], true);
        } else {
          continue;
        }
        progress = true;
      }
    }
  }

  void addStage(int stage, const Microbatch &microbatch, bool forward) {
    for (int i = 0; i < layers; ++i) {
      int layer = forward ? i : layers - 1 - i;
      if (stageOf[layer] != stage)
        continue;
      if (layer < layers - 1)
        addPhase(forward ? PhaseKind::Forward : PhaseKind::Backward, layer,
                 microbatch);
      else if (forward)
        addPhase(PhaseKind::Turn, layer, microbatch);
    }
  }

  //===--- phases ---===//

  void addPhase(PhaseKind kind, int layer, const Microbatch &microbatch) {
    Phase phase;
    phase.device = deviceOf(layer, microbatch.group);
    phase.kind = kind;
    phase.firstLayer = phase.lastLayer = layer;
    phase.microbatch = microbatch.size;
    phase.firstSample = microbatch.firstSample;
    phase.firstMicrobatch = microbatch.number;
    phase.group = microbatch.group;
    bool keeps = baseline.keep && kind != PhaseKind::Turn;
    if (keeps)
      phase.keep = keepAll(problem, layer, layer);
    const Cost &cost = problem.cost(layer, phase.microbatch);
    bool recomputes =
        kind == PhaseKind::Backward && !keeps && cost.savedBytes > 0;
    if (kind != PhaseKind::Backward)
      phase.steps.push_back({layer, StepKind::Forward});
    if (recomputes)
      phase.steps.push_back({layer, StepKind::Recompute});
    if (kind != PhaseKind::Forward)
      phase.steps.push_back({layer, StepKind::Backward});

    Operation operation;
    operation.device = phase.device;
    operation.phase = static_cast<int>(program.phases.size());
    needTensors(operation, phase, recomputes);
    needValues(operation, phase, recomputes);
    operation.transientBytes = transients(phase, cost, recomputes);
    program.phases.push_back(std::move(phase));
    program.operations.push_back(std::move(operation));
  }

  /// Workspaces of steps follow each other; what a step saves lasts to the end.
  int64_t transients(const Phase &phase, const Cost &cost,
                     bool recomputes) const {
    bool forward = phase.kind != PhaseKind::Backward || recomputes;
    bool backward = phase.kind != PhaseKind::Forward;
    int64_t bytes =
        std::max(forward ? alignedBytes(cost.forwardWorkspace) : 0,
                 backward ? alignedBytes(cost.backwardWorkspace) : 0);
    if (phase.keep.empty())
      bytes += alignedBytes(cost.savedBytes);
    for (int v : problem.layers[phase.firstLayer].outputs)
      if (recomputes || problem.values[v].consumers.empty())
        bytes += alignedBytes(problem.values[v].bytes(phase.microbatch));
    return bytes;
  }

  void need(Operation &operation, Content content, int object, int use,
            int64_t firstSample, int64_t bytes, bool writes, bool creates) {
    auto [it, fresh] =
        pieceIndex.insert({{content, object, use, firstSample},
                           static_cast<int>(program.pieces.size())});
    if (fresh)
      program.pieces.push_back({content, object, use, firstSample, bytes});
    for (Need &known : operation.needs)
      if (known.piece == it->second) {
        known.writes |= writes;
        return;
      }
    operation.needs.push_back({it->second, writes, creates});
  }

  void needTensors(Operation &operation, const Phase &phase, bool recomputes) {
    bool forward = phase.kind != PhaseKind::Backward;
    bool backward = phase.kind != PhaseKind::Forward;
    const Layer &layer = problem.layers[phase.firstLayer];
    for (const TensorUse &use : layer.tensors)
      if (forward || recomputes || use.backwardReads)
        need(operation, Content::Tensor, use.tensor, -1, 0,
             problem.tensors[use.tensor].bytes, forward && use.forwardWrites,
             false);
    if (!backward)
      return;
    for (int i = 0; i < static_cast<int>(layer.tensors.size()); ++i)
      if (layer.tensors[i].gradient)
        needGradient(operation, layer.tensors[i].tensor,
                     partOf(phase.firstLayer, i, phase.group));
  }

  int partOf(int layer, int position, int group) const {
    const std::vector<GradientUse> &uses =
        problem.tensors[problem.layers[layer].tensors[position].tensor]
            .gradientUses;
    int use = 0;
    while (uses[use].layer != layer || uses[use].position != position)
      ++use;
    return group * static_cast<int>(uses.size()) + use;
  }

  void needGradient(Operation &operation, int tensor, int part) {
    need(operation, Content::Gradient, tensor, part, 0,
         problem.tensors[tensor].gradientBytes, operation.phase >= 0, false);
  }

  void needValues(Operation &operation, const Phase &phase, bool recomputes) {
    bool forward = phase.kind != PhaseKind::Backward;
    bool backward = phase.kind != PhaseKind::Forward;
    const Layer &layer = problem.layers[phase.firstLayer];
    int64_t u = phase.microbatch, sample = phase.firstSample;
    for (const ValueUse &use : layer.inputs)
      if (forward || recomputes || use.backwardReads)
        need(operation, Content::Value, use.value, -1, sample,
             problem.values[use.value].bytes(u), false, false);
    for (int v : layer.outputs) {
      const Value &value = problem.values[v];
      if (forward && !value.consumers.empty())
        need(operation, Content::Value, v, -1, sample, value.bytes(u), true,
             true);
      if (backward && value.differentiable && problem.contributions(v) > 0)
        need(operation, Content::ValueGradient, v, -1, sample, value.bytes(u),
             false, false);
    }
    for (const ValueUse &use : layer.inputs)
      if (backward && use.gradient)
        need(operation, Content::ValueGradient, use.value, -1, sample,
             problem.values[use.value].bytes(u), true,
             firstToAdd(use.value, phase.firstLayer));
    int64_t saved = problem.cost(phase.firstLayer, u).savedBytes;
    if (!phase.keep.empty() && saved > 0)
      need(operation, Content::Saved, phase.firstLayer, keptPart, sample, saved,
           forward, forward);
  }

  /// Whether a layer's backward is the first to add to the gradient of a value:
  /// its last consumer's.
  bool firstToAdd(int value, int layer) const {
    for (int consumer : problem.values[value].consumers)
      if (consumer > layer)
        for (const ValueUse &use : problem.layers[consumer].inputs)
          if (use.value == value && use.gradient)
            return false;
    return true;
  }

  //===--- updates ---===//

  void addUpdates() {
    std::vector<int> order = updateOrder();
    std::vector<int> owners = ownersOf(order);
    if (problem.epilogue) {
      for (int t : order)
        if (problem.tensors[t].contribution >= 0)
          addUpdate(EventKind::Contribute, t, owners[t]);
      Operation epilogue;
      epilogue.kind = EventKind::Epilogue;
      program.operations.push_back(epilogue);
    }
    for (int t : order)
      addUpdate(EventKind::Update, t, owners[t]);
  }

  /// As backward leaves them: those of the last layers first.
  std::vector<int> updateOrder() const {
    std::vector<int> order;
    for (int t = 0; t < static_cast<int>(problem.tensors.size()); ++t) {
      const Tensor &tensor = problem.tensors[t];
      if (!tensor.gradientUses.empty())
        order.push_back(t);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return problem.tensors[a].gradientUses.front().layer >
             problem.tensors[b].gradientUses.front().layer;
    });
    return order;
  }

  /// In a pipeline the stage of the first use; else the device that has least
  /// to update so far.
  std::vector<int> ownersOf(const std::vector<int> &order) const {
    std::vector<int> owners(problem.tensors.size(), 0);
    std::vector<int64_t> load(program.groups, 0);
    for (int t : order) {
      const Tensor &tensor = problem.tensors[t];
      if (baseline.pipeline) {
        owners[t] = stageOf[tensor.gradientUses.front().layer];
        continue;
      }
      auto least = std::min_element(load.begin(), load.end());
      owners[t] = static_cast<int>(least - load.begin());
      *least += tensor.bytes + tensor.stateBytes;
    }
    return owners;
  }

  void addUpdate(EventKind kind, int t, int device) {
    const Tensor &tensor = problem.tensors[t];
    Operation operation;
    operation.kind = kind;
    operation.device = device;
    operation.tensor = t;
    int parts = program.groups * static_cast<int>(tensor.gradientUses.size());
    for (int part = 0; part < parts; ++part)
      needGradient(operation, t, part);
    if (kind == EventKind::Update) {
      need(operation, Content::Tensor, t, -1, 0, tensor.bytes, true, false);
      if (tensor.stateBytes > 0)
        need(operation, Content::State, t, -1, 0, tensor.stateBytes, true,
             false);
    }
    operation.onHost = updatesOnHost(tensor, device);
    program.operations.push_back(std::move(operation));
  }

  /// Where a device has no room for the tensor, its state and all gradients.
  bool updatesOnHost(const Tensor &tensor, int device) const {
    int64_t parts =
        program.groups * static_cast<int64_t>(tensor.gradientUses.size());
    int64_t bytes = alignedBytes(tensor.bytes) +
                    alignedBytes(tensor.stateBytes) +
                    parts * alignedBytes(tensor.gradientBytes);
    return tensor.updatePlace == UpdatePlace::Host ||
           (tensor.updatePlace == UpdatePlace::Any && baseline.hostUpdates &&
            bytes > limits[device]);
  }
};

} // namespace

std::optional<Draft> virtualised(const Problem &problem, const Machine &machine,
                                 const Baseline &baseline,
                                 const std::vector<int64_t> &limits) {
  return page(problem, machine,
              ProgramBuilder(problem, machine, baseline, limits).build(),
              limits);
}

std::vector<int64_t> leastLimits(const Problem &problem, const Machine &machine,
                                 const Baseline &baseline) {
  std::vector<int64_t> limits(machine.devices.size(), 0);
  PagedProgram program =
      ProgramBuilder(problem, machine, baseline, limits).build();
  for (const Operation &operation : program.operations)
    if (!operation.onHost)
      limits[operation.device] =
          std::max(limits[operation.device], footprint(program, operation));
  return limits;
}

} // namespace harmony::planner
