//===- Mutations.h - Kinds of damage to a plan ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_MUTATIONS_H
#define TEST_UNIT_PLANNER_MUTATIONS_H

#include "compiler/Planner/Plan.h"

#include <functional>
#include <random>

namespace harmony::planner::test {

/// Damages one thing that is drawn at random. Everything that is derived from
/// it is made good, so that it is not what gives the damage away.
struct Mutation {
  const char *name;
  /// Takes order away and nothing else: the plan may be as good without.
  bool ofWait;
  /// False: there is nothing of the kind in the plan, which is unchanged.
  std::function<bool(Plan &, const Problem &, std::mt19937 &)> apply;
};

/// Of events and what they wait for.
std::vector<Mutation> eventMutations();
/// Of phases and their steps.
std::vector<Mutation> phaseMutations();
/// Of buffers, homes and what stays on devices.
std::vector<Mutation> memoryMutations();
/// All of them.
const std::vector<Mutation> &mutations();

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_MUTATIONS_H
