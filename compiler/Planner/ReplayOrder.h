//===- ReplayOrder.h - Happens-before of a replayed plan --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REPLAYORDER_H
#define COMPILER_PLANNER_REPLAYORDER_H

#include "compiler/Planner/QueueCursor.h"
#include "compiler/Planner/Replay.h"
#include "compiler/Planner/ReplayState.h"

namespace harmony::planner {

/// Executes the queues of a plan in an order that queue order and waits allow,
/// and gives every instance the vector clock that these two alone imply.
class ReplayOrder {
protected:
  /// Executions replayed: the second meets what the first leaves.
  static constexpr int executions = 2;

  ReplayOrder(const Plan &plan, const Problem &problem, Report &report);

  /// Calls `execute` for every instance, until all are done, the report is full
  /// or no queue can go on ("deadlock").
  void runAll();
  virtual void execute(const Event &event) = 0;
  virtual ~ReplayOrder() = default;

  /// Whether an instance is over before the one under way starts.
  bool ordered(const Stamp &before) const {
    return before.queue < 0 || now[before.queue] >= before.sequence;
  }
  std::string text(int event) const { return describe(plan, problem, event); }

  const Plan &plan;
  const Problem &problem;
  Report &report;

  // The instance under way.
  Stamp self;
  int execution = 0;
  int64_t iteration = 0;

private:
  /// Of an event: which clocks of its instances' ends some wait may ask for.
  struct Kept {
    enum { None, Last, All } iterations = None; ///< of every execution
    size_t first = 0;                           ///< in `ends`
  };

  // A clock is an array by queue: instances known to be over.
  size_t queueCount;
  std::vector<QueueCursor> cursors;
  std::vector<int64_t> completed; ///< iterations of each event, in all
  std::vector<int> latest;        ///< by queue: the clock of its last instance
  std::vector<int> instances;     ///< by queue, so far
  std::vector<Kept> kept;         ///< by event
  std::vector<int> ends;          ///< clocks that are kept
  int *now = nullptr;             ///< the clock of the instance under way

  void keepClocks();
  int *endOf(int event, int64_t round, int64_t iteration) {
    const Kept &of = kept[event];
    int64_t at = of.iterations == Kept::All
                     ? round * plan.events[event].trips + iteration
                     : round;
    return &ends[(of.first + static_cast<size_t>(at)) * queueCount];
  }

  int64_t needed(const QueueCursor &cursor, const Wait &wait) const {
    return cursor.iterationsNeeded(wait, plan.events[wait.event].trips);
  }
  bool ready(const QueueCursor &cursor) const;
  /// What is known to be over when the next instance of a queue starts.
  void startClock(size_t queue);
  void step(size_t queue);
  void reportDeadlock();
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAYORDER_H
