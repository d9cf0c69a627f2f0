//===- Replay.h - The parts of Plan::verify ---------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REPLAY_H
#define COMPILER_PLANNER_REPLAY_H

#include "compiler/Planner/Plan.h"

namespace harmony::planner {

/// Collects violations up to a limit.
class Report {
public:
  explicit Report(int limit) : limit(limit) {}
  void add(const char *rule, std::string message, int first = -1,
           int second = -1) {
    if (!full())
      list.push_back({rule, std::move(message), first, second});
  }
  bool full() const { return static_cast<int>(list.size()) >= limit; }
  const std::vector<Violation> &violations() const { return list; }

private:
  int limit;
  std::vector<Violation> list;
};

/// The samples of each group, from its phases. Bytes are samples here.
std::vector<Extent> groupShares(const Plan &plan);

/// How many microbatches a value, or its gradient, has over all groups.
int64_t microbatchCount(const Plan &plan, const Problem &problem, int value,
                        bool gradient);

/// That the phases cover every layer and sample, with steps and microbatches
/// that can be: "structure", "coverage", "microbatch".
void checkPhases(const Plan &plan, const Problem &problem,
                 const Machine &machine, Report &report);

/// Indices, queues, trip counts and waits of everything else, with phases that
/// are sound: "structure", "coverage", "traffic", "slices", "update", "epilogue".
void checkStructure(const Plan &plan, const Problem &problem,
                    const Machine &machine, Report &report);

/// Addresses without regard to order: "size", "alignment", "overlap",
/// "capacity", "peak", "host", "persistent".
void checkMemory(const Plan &plan, const Problem &problem,
                 const Machine &machine, Report &report);

/// Everything that depends on order. The plan's indices must be sound.
void replay(const Plan &plan, const Problem &problem, Report &report);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAY_H
