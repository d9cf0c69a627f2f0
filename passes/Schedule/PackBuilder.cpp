//===- PackBuilder.cpp - Packs of a plan's phases -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/PackBuilder.h"

#include "compiler/Planner/Simulate.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::Point;
using planner::StepKind;
using PlanContent = planner::Content;

LogicalResult PackBuilder::addRuns(int64_t index, const planner::Event &event) {
  const planner::Phase &phase = runs.plan.phases[event.phase];
  PackOp &pack = packs[event.phase];
  if (!pack) {
    pack = addPack(index, event, phase);
    pack.getBody().emplaceBlock();
  }
  OpBuilder::InsertionGuard guard(runs.builder);
  runs.builder.setInsertionPointToEnd(&pack.getBlock());
  for (int s = event.firstStep; s < event.endStep; ++s)
    if (failed(addStep(phase, static_cast<int>(index), s)))
      return failure();
  return success();
}

PackOp PackBuilder::addPack(int64_t index, const planner::Event &event,
                            const planner::Phase &phase) {
  std::string name = planner::name(phase.kind) + std::to_string(event.phase);
  return PackOp::create(runs.builder, runs.module.getLoc(), name,
                        static_cast<PackKind>(phase.kind), phase.firstLayer,
                        phase.lastLayer, phase.microbatch, event.trips,
                        phase.firstSample, phase.firstMicrobatch, phase.group,
                        event.device, event.phase, index);
}

/// Whether a value is made again in the phase: its operands are the copy
/// then.
bool PackBuilder::isRecomputed(const planner::Phase &phase, int value) const {
  int producer = runs.problem.values[value].producer;
  return phase.kind == planner::PhaseKind::Backward &&
         llvm::any_of(phase.steps, [&](const planner::Step &step) {
           return step.kind == StepKind::Recompute && step.layer == producer &&
                  phase.level(producer) == 0;
         });
}

std::string PackBuilder::findValue(const planner::Phase &phase, int value,
                                   Point point) const {
  PlanContent content = isRecomputed(phase, value)
                            ? PlanContent::RecomputedValue
                            : PlanContent::Value;
  return runs.places.find(content, value, -1, phase.device, point,
                          phase.firstSample);
}

/// Segment s of a saved block begins where level s + 1 ends to keep, and is
/// kept from the level behind that on.
AtAttr PackBuilder::savedSegment(const planner::Phase &phase, int layer,
                                 int64_t segment, Point point) const {
  const planner::Cost &cost = runs.problem.cost(layer, phase.microbatch);
  int level = phase.level(layer);
  int64_t start = cost.keeps.empty() ? 0 : cost.keptBytes(segment + 1);
  bool kept = start < cost.keptBytes(level);
  return runs.at(runs.places.find(PlanContent::Saved, layer,
                                  kept ? planner::keptPart : -1, phase.device,
                                  point, phase.firstSample),
                 kept ? start : start - cost.keptBytes(level));
}

/// Arguments of the layer for whose gradient a consumer that comes earlier in
/// backward order has already contributed.
std::vector<int> PackBuilder::accumulated(int layer) const {
  std::vector<int> arguments;
  const std::vector<Binding> &bindings = runs.model.layers[layer].arguments;
  for (size_t i = 0; i < bindings.size(); ++i) {
    int value = bindings[i].value;
    if (value < 0 || !contributes(layer, value))
      continue;
    bool later =
        llvm::any_of(runs.problem.values[value].consumers, [&](int consumer) {
          return consumer > layer && contributes(consumer, value);
        });
    if (later)
      arguments.push_back(static_cast<int>(i));
  }
  return arguments;
}

bool PackBuilder::contributes(int layer, int value) const {
  return llvm::any_of(runs.problem.layers[layer].inputs,
                      [&](const planner::ValueUse &use) {
                        return use.value == value && use.gradient;
                      });
}

/// The use of a tensor argument within a group's gradient: Layer::tensors
/// lists tensor arguments in order.
int PackBuilder::gradientUse(int layer, int64_t argument) const {
  const std::vector<Binding> &bindings = runs.model.layers[layer].arguments;
  int tensor = bindings[argument].tensor, position = 0;
  for (int64_t i = 0; i < argument; ++i)
    position += bindings[i].tensor >= 0;
  const std::vector<planner::GradientUse> &uses =
      runs.problem.tensors[tensor].gradientUses;
  for (size_t use = 0; use < uses.size(); ++use)
    if (uses[use].layer == layer &&
        (uses[use].position == position ||
         static_cast<int>(runs.problem.layers[layer].tensors.size()) <=
             position))
      return static_cast<int>(use);
  return -1;
}

LogicalResult PackBuilder::addStep(const planner::Phase &phase, int event,
                                   int s) {
  planner::Step step = phase.steps[s];
  const LayerBinding &layer = runs.model.layers[step.layer];
  Point point{event, s};
  auto place = [&](PlanContent content, int object, int use = -1) -> AtAttr {
    return runs.at(runs.places.find(content, object, use, phase.device, point,
                                    phase.firstSample));
  };
  auto operand = [&](const Binding &binding) -> AtAttr {
    if (binding.tensor >= 0)
      return place(PlanContent::Tensor, binding.tensor);
    if (binding.scalar >= 0)
      return place(PlanContent::Scalar, binding.scalar, phase.group);
    return binding.value >= 0 ? runs.at(findValue(phase, binding.value, point))
                              : AtAttr();
  };
  auto bind = [&](SlotAttr slot) -> AtAttr {
    int64_t i = slot.getIndex();
    bool ofResult = slot.getKind() == SlotKind::result ||
                    slot.getKind() == SlotKind::cotangent;
    bool ofArgument = slot.getKind() == SlotKind::argument ||
                      slot.getKind() == SlotKind::gradient;
    if ((ofResult && i >= static_cast<int64_t>(layer.results.size())) ||
        (ofArgument && i >= static_cast<int64_t>(layer.arguments.size())))
      return {};
    switch (slot.getKind()) {
    case SlotKind::argument:
      return operand(layer.arguments[i]);
    case SlotKind::result:
      return operand(layer.results[i]);
    case SlotKind::saved:
      return savedSegment(phase, step.layer, i, point);
    case SlotKind::workspace:
      return place(PlanContent::Workspace, step.layer);
    case SlotKind::cotangent: {
      int scalar = i < static_cast<int64_t>(layer.cotangentScalar.size())
                       ? layer.cotangentScalar[i]
                       : -1;
      if (scalar >= 0)
        return place(PlanContent::Scalar, scalar);
      return place(PlanContent::ValueGradient, layer.results[i].value);
    }
    case SlotKind::gradient:
      if (int t = layer.arguments[i].tensor; t >= 0)
        return place(PlanContent::Gradient, t,
                     phase.group * runs.partsOf(t) / runs.plan.groups +
                         gradientUse(step.layer, i));
      return place(PlanContent::ValueGradient, layer.arguments[i].value);
    default:
      return {};
    }
  };
  std::string name;
  switch (step.kind) {
  case StepKind::Forward:
    name = forwardTaskName(layer.function, phase.microbatch);
    break;
  case StepKind::Recompute:
    name = recomputeTaskName(layer.function, phase.microbatch,
                             phase.level(step.layer));
    break;
  case StepKind::Backward:
    name = backwardTaskName(layer.function, phase.microbatch,
                            accumulated(step.layer));
    break;
  }
  auto task = runs.symbols.lookup<TaskOp>(name);
  if (!task)
    return runs.module.emitError()
           << "has no task @" << name << ", which layer '"
           << runs.problem.layers[step.layer].name << "' runs in "
           << planner::describe(runs.plan, runs.problem, event);
  double atEnd = 0; // of the phase
  if (auto seconds = runs.module->getAttrOfType<FloatAttr>(phaseSecondsAttr))
    if (phase.frees && s + 1 == static_cast<int>(phase.steps.size()))
      atEnd = seconds.getValueAsDouble();
  return runs.addRun(task, static_cast<Direction>(step.kind), step.layer,
                     runs.problem.layers[step.layer].name, event, bind,
                     planner::stepSeconds(runs.problem, phase, step), atEnd);
}
