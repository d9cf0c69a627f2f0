//===- DevicePlans.h - Plans of several devices for tests -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_DEVICEPLANS_H
#define TEST_UNIT_PLANNER_DEVICEPLANS_H

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Partition.h"
#include "test/unit/planner/Problems.h"

namespace harmony::planner::test {

/// Equal devices with links between any two.
inline Machine linked(int devices) {
  return Machine::uniform("test", devices, unlimited, 1e9, 0,
                          {0, 0, 4e9, 0, {}});
}

/// Layers a pack, values on the devices, nothing else stays.
inline Choices pipeline(const Problem &problem, int groups, int devices,
                        int layersPerPack, int64_t microbatch) {
  Choices choices = leastChoices(problem, microbatch);
  choices.groups = groups;
  choices.phases = phasesOf(
      problem, uniformLayout(problem, groups, devices, Placement::Ring,
                             evenPartition(problem.layerCount(), layersPerPack),
                             microbatch));
  choices.slots = 2;
  choices.place.assign(problem.values.size(), Place::Device);
  choices.gradientPlace = choices.place;
  return choices;
}

/// The event of a kind for an object, the `nth` in issue order; -1: none.
inline int eventOf(const Plan &plan, EventKind kind, int object, int nth = 0) {
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e)
    if (plan.events[e].kind == kind && plan.events[e].object == object &&
        nth-- == 0)
      return e;
  return -1;
}

inline int count(const Plan &plan, EventKind kind) {
  int found = 0;
  for (const Event &event : plan.events)
    found += event.kind == kind;
  return found;
}

/// The Run of a phase that has its last step.
inline int runOf(const Plan &plan, int phase) {
  for (int e = static_cast<int>(plan.events.size()) - 1; e >= 0; --e)
    if (plan.events[e].kind == EventKind::Run && plan.events[e].phase == phase)
      return e;
  return -1;
}

inline const Wait *waitFor(const Plan &plan, int event, int awaited) {
  for (const Wait &wait : plan.events[event].waits)
    if (wait.event == awaited)
      return &wait;
  return nullptr;
}

/// The buffer into which an event copies.
inline const Buffer &destination(const Plan &plan, int event, Content content) {
  const Event &copy = plan.events[event];
  return *plan.find(content, copy.object, copy.use, copy.device, {event, 0},
                    copy.phase < 0 ? 0 : plan.phases[copy.phase].firstSample);
}

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_DEVICEPLANS_H
