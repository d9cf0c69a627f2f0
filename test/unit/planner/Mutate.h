//===- Mutate.h - Small damages to a plan -----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_MUTATE_H
#define TEST_UNIT_PLANNER_MUTATE_H

#include "compiler/Planner/Plan.h"

#include <algorithm>

namespace harmony::planner::test {

/// Takes an event out; waits for it go, live ranges that ended on it end
/// before, and the account of traffic is made good, so that it is not what
/// gives it away.
inline void eraseEvent(Plan &plan, const Problem &problem, int erased) {
  plan.events.erase(plan.events.begin() + erased);
  auto moved = [&](int event) { return event > erased ? event - 1 : event; };
  for (Event &event : plan.events) {
    auto gone = [&](const Wait &wait) { return wait.event == erased; };
    event.waits.erase(
        std::remove_if(event.waits.begin(), event.waits.end(), gone),
        event.waits.end());
    for (Wait &wait : event.waits)
      wait.event = moved(wait.event);
  }
  auto steps = [&](int event) {
    const Event &e = plan.events[event];
    return e.kind == EventKind::Run
               ? static_cast<int>(plan.phases[e.phase].steps.size())
               : 1;
  };
  for (Buffer &buffer : plan.buffers) {
    if (buffer.first.event == erased)
      buffer.first = {
          std::min(erased, static_cast<int>(plan.events.size()) - 1), 0};
    else
      buffer.first.event = moved(buffer.first.event);
    if (buffer.last.event == erased) {
      buffer.last.event = std::max(0, erased - 1);
      buffer.last.step = steps(buffer.last.event) - 1;
    } else {
      buffer.last.event = moved(buffer.last.event);
    }
    if (buffer.last < buffer.first)
      buffer.last = buffer.first;
  }
  plan.traffic = trafficOf(plan, problem);
}

/// The first event of a kind, or -1.
inline int findEvent(const Plan &plan, EventKind kind, int object = -1) {
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e)
    if (plan.events[e].kind == kind &&
        (object < 0 || plan.events[e].object == object))
      return e;
  return -1;
}

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_MUTATE_H
