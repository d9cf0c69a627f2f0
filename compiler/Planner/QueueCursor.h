//===- QueueCursor.h - Where a queue stands in its order --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_QUEUECURSOR_H
#define COMPILER_PLANNER_QUEUECURSOR_H

#include "compiler/Planner/Plan.h"

namespace harmony::planner {

/// The next instance (execution, event, iteration) of one queue, over a number
/// of executions of a plan.
class QueueCursor {
public:
  QueueCursor() = default;
  QueueCursor(std::vector<QueueLoop> loops, int executions)
      : loops(std::move(loops)), executions(executions) {}

  bool left() const { return execution < executions && !loops.empty(); }
  int event() const { return loops[at].events[member]; }
  int executionNumber() const { return execution; }
  int64_t iterationNumber() const { return iteration; }

  void next() {
    if (++member < loops[at].events.size())
      return;
    member = 0;
    if (++iteration < loops[at].trips)
      return;
    iteration = 0;
    if (++at < loops.size())
      return;
    at = 0;
    ++execution;
  }

  /// Iterations of the awaited event, over all executions, that must be over
  /// before the next instance; 0: none.
  int64_t iterationsNeeded(const Wait &wait, int64_t trips) const {
    int64_t round = execution - (wait.previousStep ? 1 : 0);
    if (round < 0)
      return 0;
    if (wait.lag == Wait::whole)
      return (round + 1) * trips;
    int64_t needed =
        iteration / wait.every * wait.times + wait.times - wait.lag;
    return needed <= 0 ? 0 : round * trips + needed;
  }

private:
  std::vector<QueueLoop> loops;
  size_t at = 0, member = 0; ///< in loops, in its events
  int executions = 0, execution = 0;
  int64_t iteration = 0;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_QUEUECURSOR_H
