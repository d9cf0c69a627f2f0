//===- BuildContext.cpp - What the parts of build() share -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildContext.h"

namespace harmony::planner {

BuildContext::BuildContext(const Problem &problem, const Machine &machine)
    : problem(problem), machine(machine),
      forwardsWrite(problem.forwardsWrite()),
      linkStride(machine.devices.size()), linked(linkStride * linkStride, 0) {
  for (const Link &link : machine.links)
    if (link.from >= 0 && link.to >= 0)
      linked[link.from * linkStride + link.to] = 1;
  for (const Tensor &tensor : problem.tensors)
    mostGradientUses = std::max(mostGradientUses, tensor.gradientUses.size());
  forwardPhases.resize(problem.layers.size());
  backwardPhases.resize(problem.layers.size());
}

int BuildContext::nextOn(int device, int p) const {
  const std::vector<int> &list = devicePhases[device];
  auto it = std::upper_bound(list.begin(), list.end(), p);
  return it == list.end() ? phaseCount() : *it;
}

int BuildContext::ordinalOn(int device, int p) const {
  const std::vector<int> &list = devicePhases[device];
  auto it = std::upper_bound(list.begin(), list.end(), p);
  int ordinal = it == list.begin() ? -1 : phases[*std::prev(it)].ordinal;
  return p < phaseCount() ? ordinal : ordinal + 1;
}

void BuildContext::clear() {
  deferred = choices.update == UpdateOrder::Deferred || problem.epilogue;
  // Phases and events have lists of their own, which are emptied one by one.
  Plan &plan = draft.plan;
  plan.queues.clear();
  plan.buffers.clear();
  plan.homes.clear();
  plan.load.clear();
  plan.store.clear();
  plan.peakBytes.clear();
  plan.hostBytes = 0;
  plan.seconds = plan.firstSeconds = plan.computeSeconds = 0;
  draft.bufferTouches.clear();
  draft.homeTouches.clear();
  draft.scalarTouches.clear();
  phases.clear();
  parts.clear();
  partOfStep.clear();
  stepsOfLayer.clear();
  devicePhases.clear();
  foreignWork.clear();
  for (auto *lists : {&forwardPhases, &backwardPhases})
    for (std::vector<int> &list : *lists)
      list.clear();
  chainCount = 0;
  events.clear();
  issues.clear();
  prefix = firstGathers = {};
  epilogue = -1;
  covers.clear();
  if (!peaksOnly)
    clearHomes();
}

void BuildContext::clearHomes() {
  for (HomeKind kind :
       {HomeKind::Tensor, HomeKind::State, HomeKind::Gradient, HomeKind::Value,
        HomeKind::ValueGradient, HomeKind::Scalar}) {
    HomeTable &table = homeTables[static_cast<int>(kind)];
    bool ofValue = kind == HomeKind::Value || kind == HomeKind::ValueGradient;
    if (kind == HomeKind::Gradient)
      table.uses = 1 + choices.groups * static_cast<int>(mostGradientUses);
    else if (kind == HomeKind::Scalar)
      table.uses = 1 + choices.groups;
    size_t objects = ofValue                    ? problem.values.size()
                     : kind == HomeKind::Scalar ? problem.scalars.size()
                                                : problem.tensors.size();
    table.index.assign(objects * table.uses, -1);
  }
}

} // namespace harmony::planner
