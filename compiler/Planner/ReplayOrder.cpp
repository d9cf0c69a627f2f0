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
      queueCount(plan.queues.size()), lines(timelines(plan)),
      completed(plan.events.size(), 0), ends(queueCount), clock(queueCount) {
  for (std::vector<QueueLoop> &loops : queueLoops(plan))
    cursors.emplace_back(std::move(loops), executions);
  for (size_t q = 0; q < queueCount; ++q)
    ends[q].reserve(static_cast<size_t>(lines.period[q]) * executions *
                    queueCount);
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
  if (ends[queue].empty())
    clock.assign(queueCount, 0);
  else
    clock.assign(ends[queue].end() - static_cast<long>(queueCount),
                 ends[queue].end());
  for (const Wait &wait : plan.events[cursor.event()].waits) {
    int64_t iterations = needed(cursor, wait);
    if (iterations == 0)
      continue;
    const Event &awaited = plan.events[wait.event];
    const Signals &signals = lines.signals[wait.event];
    int64_t round = (iterations - 1) / awaited.trips;
    int64_t i = (iterations - 1) % awaited.trips;
    int64_t position = round * lines.period[awaited.queue] + signals.start +
                       i * signals.stride;
    const int *end =
        &ends[awaited.queue][static_cast<size_t>(position) * queueCount];
    for (size_t q = 0; q < queueCount; ++q)
      clock[q] = std::max(clock[q], end[q]);
  }
}

void ReplayOrder::step(size_t queue) {
  QueueCursor &cursor = cursors[queue];
  startClock(queue);
  execution = cursor.executionNumber();
  iteration = cursor.iterationNumber();
  self = {static_cast<int>(queue),
          static_cast<int>(ends[queue].size() / queueCount) + 1, cursor.event(),
          execution};
  clock[queue] = self.sequence;
  execute(plan.events[self.event]);
  ends[queue].insert(ends[queue].end(), clock.begin(), clock.end());
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
