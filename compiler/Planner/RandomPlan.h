//===- RandomPlan.h - Choices at random -------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: plans that compute the same in very different ways.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_RANDOMPLAN_H
#define COMPILER_PLANNER_RANDOMPLAN_H

#include "compiler/Planner/Filling.h"

#include <random>

namespace harmony::planner {

class RandomPlans {
public:
  RandomPlans(const Problem &problem, const Machine &machine,
              const SearchOptions &options, int groups);

  /// How often to draw before giving up.
  static constexpr int attempts = 32;
  /// The higher `attempt`, the less stays on the devices.
  Decisions draw(int attempt);

private:
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  int groups;
  std::mt19937_64 generator;

  int below(int bound) {
    return static_cast<int>(generator() % static_cast<uint64_t>(bound));
  }
  /// True in `percent` of 100 cases.
  bool chance(int percent) { return below(100) < percent; }
  std::vector<int> cuts(int layers);
  int64_t microbatch();
  Layout layout();
  void scatter(Choices &choices, int pipeline);
  void fill(Decisions &decisions, int percent);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_RANDOMPLAN_H
