//===- ReplayOrder.cpp - Happens-before of a replayed plan ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ReplayOrder.h"

#include <algorithm>

namespace harmony::planner {

ReplayOrder::ReplayOrder(const Plan &plan, const Problem &problem,
                         Report &report)
    : plan(plan), problem(problem), report(report),
      queueCount(plan.queues.size()), completed(plan.events.size(), 0),
      latest(queueCount * queueCount, 0), instances(queueCount, 0),
      kept(plan.events.size()) {
  for (std::vector<QueueLoop> &loops : queueLoops(plan))
    cursors.emplace_back(std::move(loops), executions);
  keepClocks();
}

/// Those of all instances would be most of what a large plan takes.
void ReplayOrder::keepClocks() {
  for (const Event &event : plan.events)
    for (const Wait &wait : event.waits) {
      auto &iterations = kept[wait.event].iterations;
      if (wait.lag != Wait::whole)
        iterations = Kept::All;
      else if (iterations == Kept::None)
        iterations = Kept::Last;
    }
  size_t count = 0;
  for (size_t e = 0; e < kept.size(); ++e) {
    kept[e].first = count;
    if (kept[e].iterations != Kept::None)
      count += executions * static_cast<size_t>(kept[e].iterations == Kept::All
                                                    ? plan.events[e].trips
                                                    : 1);
  }
  ends.resize(count * queueCount);
}

void ReplayOrder::runAll() {
  while (!report.full()) {
    bool moved = false, left = false;
    for (size_t q = 0; q < queueCount && !report.full(); ++q) {
      while (!report.full() && cursors[q].left() && ready(cursors[q])) {
        step(q);
        moved = true;
      }
      left |= cursors[q].left();
    }
    if (!left)
      return;
    if (!moved) {
      reportDeadlock();
      return;
    }
  }
}

bool ReplayOrder::ready(const QueueCursor &cursor) const {
  const std::vector<Wait> &waits = plan.events[cursor.event()].waits;
  return std::all_of(waits.begin(), waits.end(), [&](const Wait &wait) {
    return completed[wait.event] >= needed(cursor, wait);
  });
}

void ReplayOrder::startClock(size_t queue) {
  const QueueCursor &cursor = cursors[queue];
  now = &latest[queue * queueCount];
  for (const Wait &wait : plan.events[cursor.event()].waits) {
    int64_t iterations = needed(cursor, wait);
    if (iterations == 0)
      continue;
    int64_t trips = plan.events[wait.event].trips;
    const int *end =
        endOf(wait.event, (iterations - 1) / trips, (iterations - 1) % trips);
    for (size_t q = 0; q < queueCount; ++q)
      now[q] = std::max(now[q], end[q]);
  }
}

void ReplayOrder::step(size_t queue) {
  QueueCursor &cursor = cursors[queue];
  startClock(queue);
  execution = cursor.executionNumber();
  iteration = cursor.iterationNumber();
  self = {static_cast<int>(queue), ++instances[queue], cursor.event(),
          execution};
  now[queue] = self.sequence;
  const Event &event = plan.events[self.event];
  execute(event);
  auto iterations = kept[self.event].iterations;
  if (iterations == Kept::All ||
      (iterations == Kept::Last && iteration == event.trips - 1))
    std::copy_n(now, queueCount, endOf(self.event, execution, iteration));
  ++completed[self.event];
  cursor.next();
}

void ReplayOrder::reportDeadlock() {
  for (const QueueCursor &cursor : cursors) {
    if (!cursor.left())
      continue;
    for (const Wait &wait : plan.events[cursor.event()].waits)
      if (completed[wait.event] < needed(cursor, wait)) {
        report.add("deadlock",
                   text(cursor.event()) + " waits for " + text(wait.event) +
                       ", which never comes",
                   cursor.event(), wait.event);
        return;
      }
  }
}

} // namespace harmony::planner
