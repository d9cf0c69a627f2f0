//===- Order.cpp - What is over when an event starts ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Order.h"

#include <algorithm>

using namespace harmony;
using planner::Wait;

EventOrder::EventOrder(const planner::Plan &plan)
    : plan(plan), count(static_cast<int>(plan.events.size())),
      queues(static_cast<int>(plan.queues.size())),
      started(static_cast<size_t>(2) * count * queues, -1), ended(started),
      covered(started) {
  std::vector<Instance> last(queues, -1);
  for (Instance self = 0; self < 2 * count; ++self) {
    const planner::Event &event = plan.events[self % count];
    if (last[event.queue] >= 0)
      follow(self, last[event.queue]);
    for (const Wait &other : event.waits)
      wait(self, other);
    join(at(ended, self), at(started, self));
    at(ended, self)[event.queue] = 2 * self;
    join(at(covered, self), at(ended, self));
    last[event.queue] = self;
  }
}

void EventOrder::join(int *clock, const int *other) const {
  for (int q = 0; q < queues; ++q)
    clock[q] = std::max(clock[q], other[q]);
}

bool EventOrder::inOneLoop(int a, int b) const {
  const planner::Event &one = plan.events[a], &other = plan.events[b];
  return one.queue == other.queue && one.phase >= 0 &&
         one.phase == other.phase && one.trips > 1 && other.trips > 1;
}

/// The event before on the same queue. The first iteration of a loop's second
/// event comes after that of the first.
void EventOrder::follow(Instance self, Instance before) {
  bool alternates = self / std::max(count, 1) == before / std::max(count, 1) &&
                    inOneLoop(self % count, before % count);
  join(at(started, self), alternates ? at(started, before) : at(ended, before));
  join(at(covered, self), at(covered, before));
  if (!alternates)
    at(started, self)[plan.events[self % count].queue] = 2 * before + 1;
}

void EventOrder::wait(Instance self, const Wait &wait) {
  Instance before =
      self - self % count + wait.event - (wait.previousStep ? count : 0);
  if (before < 0 || before >= self)
    return; // of the execution before the first, or of a ring
  if (wait.lag == Wait::whole) {
    join(at(started, self), at(ended, before));
    join(at(covered, self), at(covered, before));
    return;
  }
  if (wait.lag < wait.times)
    join(at(started, self), at(started, before));
  int64_t iteration =
      (plan.events[self % count].trips - 1) / wait.every * wait.times +
      wait.times - 1 - wait.lag;
  if (iteration >= plan.events[wait.event].trips - 1)
    join(at(covered, self), at(covered, before));
}

bool EventOrder::startsAfter(int later, int earlier, bool nextExecution,
                             bool behindLoop) const {
  Instance self = later + count,
           before = nextExecution ? earlier : earlier + count;
  int known =
      started[static_cast<size_t>(self) * queues + plan.events[earlier].queue];
  Instance over = known / 2;
  if (known < 0 || over <= before)
    return known >= 0 && over == before;
  bool inLoop = known % 2 == 0 && over / count == before / count &&
                inOneLoop(over % count, earlier);
  return !behindLoop || !inLoop;
}

bool EventOrder::endsAfter(int later, int earlier) const {
  Instance self = later + count;
  return covered[static_cast<size_t>(self) * queues +
                 plan.events[earlier].queue] >= 2 * (earlier + count);
}
