//===- Devices.h - Machines and problems of several devices -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_DEVICES_H
#define TEST_UNIT_PLANNER_DEVICES_H

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Search.h"

#include <algorithm>

namespace harmony::planner::test {

/// `devices` equal ones; 1 GB/s to and from the host, 4 GB/s between any two.
inline Machine machines(int devices, int64_t capacity, bool peers = true) {
  Machine machine = Machine::uniform("test", devices, capacity, 1e9, 0);
  for (int from = 0; from < devices; ++from)
    for (int to = 0; peers && to < devices; ++to)
      if (from != to)
        machine.links.push_back({from, to, 4e9, 0, {}});
  return machine;
}

inline int64_t times(int64_t bytes, double factor) {
  return static_cast<int64_t>(static_cast<double>(bytes) * factor);
}

inline int64_t swaps(const Plan &plan) {
  return plan.traffic[static_cast<int>(Traffic::SwapIn)] +
         plan.traffic[static_cast<int>(Traffic::SwapOut)];
}

/// A problem with costs for other microbatch sizes: in proportion.
inline Problem withSizes(Problem problem, std::vector<int64_t> sizes) {
  int64_t unit = problem.microbatches.front();
  for (Function &function : problem.functions) {
    const Cost least = function.costs.front();
    function.costs.clear();
    for (int64_t u : sizes) {
      double factor = static_cast<double>(u) / static_cast<double>(unit);
      function.costs.push_back({u, least.forwardSeconds * factor,
                                least.backwardSeconds * factor,
                                times(least.savedBytes, factor),
                                times(least.forwardWorkspace, factor),
                                times(least.backwardWorkspace, factor)});
    }
  }
  problem.microbatches = std::move(sizes);
  return problem;
}

/// With costs for every size that so many devices may use.
inline Problem splitFor(const Problem &problem, int devices,
                        const SearchOptions &options = {}) {
  if (!problem.splittable)
    return problem;
  return withSizes(problem,
                   candidateMicrobatches(problem.batch, devices, options));
}

/// All values can be passed on in slices.
inline Problem sliceable(Problem problem) {
  for (Value &value : problem.values)
    value.sliceable = value.fixedBytes == 0;
  return problem;
}

/// Every update reads a scalar of every gradient.
inline Problem withEpilogue(Problem problem) {
  problem.epilogue = true;
  for (Tensor &tensor : problem.tensors)
    if (!tensor.gradientUses.empty()) {
      tensor.contribution = static_cast<int>(problem.scalars.size());
      problem.scalars.push_back(
          {"square of " + tensor.name, 8, ScalarRole::Contribution, -1});
    }
  return problem;
}

/// The plan, checked; fails the test if there is none.
Planned solvedOn(const Problem &problem, const Machine &machine,
                 const SearchOptions &options);

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_DEVICES_H
