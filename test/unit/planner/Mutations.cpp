//===- Mutations.cpp - All kinds of damage to a plan ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Mutations.h"

namespace harmony::planner::test {

const std::vector<Mutation> &mutations() {
  static const std::vector<Mutation> all = [] {
    std::vector<Mutation> mutations = eventMutations();
    for (const auto &more : {phaseMutations(), memoryMutations()})
      mutations.insert(mutations.end(), more.begin(), more.end());
    return mutations;
  }();
  return all;
}

} // namespace harmony::planner::test
