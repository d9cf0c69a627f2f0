//===- ReplayRun.cpp - What the steps of a Run read and write -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replayer.h"

#include <algorithm>

namespace harmony::planner {

void Replayer::runSteps(const Event &event) {
  const Phase &phase = plan.phases[event.phase];
  for (int s = event.firstStep; s < event.endStep && !report.full(); ++s) {
    const Step &step = phase.steps[s];
    const Cost &cost = problem.cost(step.layer, phase.microbatch);
    bool backward = step.kind == StepKind::Backward;
    int64_t workspace = backward ? cost.backwardWorkspace
                        : step.kind == StepKind::Recompute
                            ? cost.recomputeWorkspace(phase.level(step.layer))
                            : cost.forwardWorkspace;
    if (workspace > 0)
      store(on(phase.device, Content::Workspace, step.layer, -1, s, workspace),
            {});
    if (backward)
      runBackward(phase, step.layer, s);
    else
      runForward(phase, step, s);
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

bool Replayer::makesAgain(int phase, int v) const {
  const std::vector<int> &layers = madeAgain[phase];
  return std::binary_search(layers.begin(), layers.end(),
                            problem.values[v].producer);
}

Replayer::Bytes Replayer::operand(const Phase &phase, int v, int s) {
  Content content = makesAgain(plan.events[self.event].phase, v)
                        ? Content::RecomputedValue
                        : Content::Value;
  return on(phase.device, content, v, -1, s,
            problem.values[v].bytes(phase.microbatch));
}

Replayer::Bytes Replayer::gradientOperand(const Phase &phase, int v, int s) {
  return on(phase.device, Content::ValueGradient, v, -1, s,
            problem.values[v].bytes(phase.microbatch));
}

Replayer::Bytes Replayer::savedBlock(const Phase &phase, int layer, int part,
                                     int s) {
  const Cost &cost = problem.cost(layer, phase.microbatch);
  int level = phase.level(layer);
  int64_t bytes =
      part == keptPart ? cost.keptBytes(level) : cost.restBytes(level);
  return bytes == 0 ? Bytes()
                    : on(phase.device, Content::Saved, layer, part, s, bytes);
}

/// A trained tensor has the version that the execution began with; one that
/// forward steps write has its newest in them, and any in the backward.
void Replayer::readTensor(const Phase &phase, const TensorUse &use, int s,
                          bool anyVersion) {
  Bytes bytes = on(phase.device, Content::Tensor, use.tensor, -1, s);
  if (!bytes)
    return;
  bool trained = !problem.tensors[use.tensor].gradientUses.empty();
  bool written = !trained && tensorVersion[use.tensor] > 0;
  Held expected =
      tensor(use.tensor, trained ? execution : tensorVersion[use.tensor]);
  if (!written || (use.forwardWrites && !anyVersion)) {
    expect(bytes, expected);
    return;
  }
  Held held = load(bytes, "read");
  expected = placed(expected, bytes.begin);
  expected.count = held.count;
  if (held != expected)
    report.add("read",
               text(self.event) + " needs tensor '" +
                   problem.tensors[use.tensor].name + "' and finds " +
                   print(held),
               self.event);
}

void Replayer::readSeeds(const Phase &phase, int s) {
  for (int i = 0; i < static_cast<int>(problem.scalars.size()); ++i)
    if (problem.scalars[i].role == ScalarRole::Seed)
      expect(on(phase.device, Content::Scalar, i, -1, s), scalar(i, -1, 0),
             "scalar");
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void Replayer::runForward(const Phase &phase, const Step &step, int s) {
  const Layer &layer = problem.layers[step.layer];
  bool again = step.kind == StepKind::Recompute;
  int level = again ? phase.level(step.layer) : 0;
  for (const TensorUse &use : layer.tensors)
    if (level < use.recomputeReads)
      readTensor(phase, use, s, again);
  for (const ValueUse &use : layer.inputs)
    if (level < use.recomputeReads)
      expect(operand(phase, use.value, s), value(use.value));
  Held kept = microbatch(Held::Saved, step.layer), rest = kept;
  kept.use = keptPart;
  if (again)
    expect(savedBlock(phase, step.layer, keptPart, s), kept);
  else
    store(savedBlock(phase, step.layer, keptPart, s), kept);
  if (level == 0)
    for (int v : layer.outputs)
      store(operand(phase, v, s), value(v));
  store(savedBlock(phase, step.layer, -1, s), rest);
  if (layer.isLoss)
    readSeeds(phase, s);
  if (again)
    return;
  writeTensors(phase, step.layer, s);
  if (layer.isLoss)
    accumulateLoss(phase, step.layer, s);
}

/// Microbatches follow each other by sample, over all groups.
void Replayer::writeTensors(const Phase &phase, int layer, int s) {
  bool writes = false;
  for (const TensorUse &use : problem.layers[layer].tensors)
    if (use.forwardWrites) {
      writes = true;
      store(on(phase.device, Content::Tensor, use.tensor, -1, s),
            tensor(use.tensor, ++tensorVersion[use.tensor]));
    }
  if (!writes)
    return;
  int64_t sample = phase.firstSample + iteration * phase.microbatch;
  int64_t expected = execution * plan.batch + sample;
  if (written[layer] != expected)
    report.add("read",
               text(self.event) + " writes tensors of layer '" +
                   problem.layers[layer].name + "' for sample " +
                   std::to_string(sample) + " after " +
                   std::to_string(written[layer] - execution * plan.batch) +
                   " samples of the execution",
               self.event);
  written[layer] = expected + phase.microbatch;
}

void Replayer::accumulateLoss(const Phase &phase, int layer, int s) {
  for (int i = 0; i < static_cast<int>(problem.scalars.size()); ++i) {
    const Scalar &what = problem.scalars[i];
    if (what.role != ScalarRole::Accumulator || what.layer != layer)
      continue;
    Bytes bytes = on(phase.device, Content::Scalar, i, phase.group, s);
    int64_t before = sharePosition(phase);
    expect(bytes, scalar(i, phase.group, before), "scalar");
    store(bytes, scalar(i, phase.group, before + phase.microbatch));
  }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

void Replayer::runBackward(const Phase &phase, int l, int s) {
  const Layer &layer = problem.layers[l];
  for (const TensorUse &use : layer.tensors)
    if (use.backwardReads)
      readTensor(phase, use, s, true);
  for (const ValueUse &use : layer.inputs)
    if (use.backwardReads)
      expect(operand(phase, use.value, s), value(use.value));
  Held kept = microbatch(Held::Saved, l), rest = kept;
  kept.use = keptPart;
  expect(savedBlock(phase, l, keptPart, s), kept);
  expect(savedBlock(phase, l, -1, s), rest);
  if (layer.isLoss)
    readSeeds(phase, s);
  for (int v : layer.outputs)
    if (problem.values[v].differentiable)
      expect(gradientOperand(phase, v, s),
             valueGradient(v, problem.contributions(v)), "gradient");
  for (const ValueUse &use : layer.inputs)
    if (use.gradient)
      addToValueGradient(phase, use.value, l, s);
  for (int position = 0; position < static_cast<int>(layer.tensors.size());
       ++position)
    if (layer.tensors[position].gradient)
      addToGradient(phase, layer.tensors[position].tensor, l, position, s);
}

/// The consumer of highest index writes the gradient, the others add to it.
void Replayer::addToValueGradient(const Phase &phase, int v, int l, int s) {
  int64_t before = 0;
  for (int consumer : problem.values[v].consumers)
    if (consumer > l)
      for (const ValueUse &use : problem.layers[consumer].inputs)
        before += use.value == v && use.gradient;
  Bytes bytes = gradientOperand(phase, v, s);
  if (before > 0)
    expect(bytes, valueGradient(v, before), "gradient");
  store(bytes, valueGradient(v, before + 1));
}

/// Samples of a share are added in their order.
void Replayer::addToGradient(const Phase &phase, int t, int l, int position,
                             int s) {
  const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
  int count = static_cast<int>(uses.size());
  for (int use = 0; use < count; ++use)
    if (uses[use].layer == l && uses[use].position == position) {
      int part = phase.group * count + use;
      Bytes bytes = on(phase.device, Content::Gradient, t, part, s);
      int64_t before = sharePosition(phase);
      expect(bytes, gradient(t, part, before), "gradient");
      store(bytes, gradient(t, part, before + phase.microbatch));
    }
}

} // namespace harmony::planner
