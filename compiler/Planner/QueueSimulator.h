//===- QueueSimulator.h - Work on queues, in time ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The core of every estimate: events on queues that execute them in order, one
// at a time, after their waits. An event takes its seconds, or is a transfer
// over a link. What is simulated (a plan, a schedule of Harmony's artifact) and
// what each piece of it takes is for the caller to say.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_QUEUESIMULATOR_H
#define COMPILER_PLANNER_QUEUESIMULATOR_H

#include "compiler/Planner/Machine.h"

namespace harmony::planner {

/// What queues execute, `executions` times over. Filled by addX() in any order
/// of queues; the waits of an event may be added at any time before run().
class QueueWork {
public:
  /// As Wait of a plan (Plan.h), of any event: `lag` below 0 is the whole.
  struct Wait {
    int event = 0;
    int64_t lag = -1;
    int64_t times = 1, every = 1;
    bool previousExecution = false;
  };
  struct Event {
    double seconds = 0;     ///< of one iteration; of a transfer its latency
    double lastSeconds = 0; ///< beside that, of the last iteration
    double bytes = 0;       ///< transfers: of one iteration
    int link = -1;          ///< in Machine::links; -1: no transfer
    int64_t trips = 1;
    std::vector<Wait> waits;
  };
  /// `trips` times its events, in order.
  struct Loop {
    std::vector<int> events;
    int64_t trips = 1;
  };

  std::vector<Event> events;
  std::vector<std::vector<Loop>> queues;
};

struct QueueInterval {
  int event = 0;
  int64_t iteration = 0;
  double begin = 0, end = 0; ///< seconds from the start
};

struct QueueTimes {
  std::vector<double> finish; ///< seconds from the start, by execution
  /// An event that never becomes ready: the work deadlocks. -1: none.
  int blocked = -1;
};

/// Executes the work so many times; executions overlap as far as queues and
/// waits let them. `used`: how many of the machine's devices the work uses, for
/// Sharing::Static. `last`: where to put the intervals of the last execution,
/// in the order in which they end; null: nowhere. `following`: further
/// executions, simulated as far as they overlap with these, since what they do
/// ahead shares links with the last. Without `last`, executions behind one that
/// leaves all as an earlier one did are not simulated: their times, which
/// follow, may differ in the last bits. Takes about 0.1 us an
/// iteration, and for transfers that share a link or resource with n others
/// about n * 10 ns more.
QueueTimes simulateQueues(const QueueWork &work, const Machine &machine,
                          int used, int executions,
                          std::vector<QueueInterval> *last = nullptr,
                          int following = 0);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_QUEUESIMULATOR_H
