//===- Order.h - What is over when an event starts --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_ORDER_H
#define PASSES_SCHEDULE_ORDER_H

#include "compiler/Planner/Plan.h"

namespace harmony {

/// Happens-before of a plan's events, as queue order and waits give it over two
/// executions: vector clocks with one entry per queue. Linear in events and
/// waits, times queues.
class EventOrder {
public:
  explicit EventOrder(const planner::Plan &plan);

  /// Two events of one loop of a queue: they alternate.
  bool inOneLoop(int a, int b) const;

  /// Whether `later` starts only when all of `earlier` is over; with
  /// `nextExecution` that of the execution after. `behindLoop`: and what stands
  /// behind its loop on the queue, for which those wait who wait for the whole
  /// of `earlier`.
  bool startsAfter(int later, int earlier, bool nextExecution,
                   bool behindLoop) const;

  /// Whether `later` is over only when all of `earlier` is.
  bool endsAfter(int later, int earlier) const;

private:
  /// An event of the first or second execution: event + execution * count.
  using Instance = int;

  const planner::Plan &plan;
  int count, queues;
  /// By instance a clock, that is by queue twice the last instance known to be
  /// over, plus 1 where its loop is left. When the instance starts; when it
  /// ends, so far as those know who wait for it; when it ends, with what its
  /// iterations have waited for.
  std::vector<int> started, ended, covered;

  int *at(std::vector<int> &clocks, Instance i) const {
    return &clocks[static_cast<size_t>(i) * queues];
  }
  void join(int *clock, const int *other) const;
  void follow(Instance self, Instance before);
  void wait(Instance self, const planner::Wait &wait);
};

} // namespace harmony

#endif // PASSES_SCHEDULE_ORDER_H
