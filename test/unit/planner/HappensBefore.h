//===- HappensBefore.h - Order of a plan, apart from verify() ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_HAPPENSBEFORE_H
#define TEST_UNIT_PLANNER_HAPPENSBEFORE_H

#include "compiler/Planner/Build.h"

namespace harmony::planner::test {

using Clock = std::vector<int64_t>;

/// The vector clocks of all instances of two executions, by queue and position
/// there; empty on deadlock. Written apart from the verifier's.
std::vector<std::vector<Clock>> happensBefore(const Plan &plan);

/// Whether two instances, neither before the other, touch a byte in common that
/// one of them writes; after the builder's own list of what events touch. The
/// plan has the draft's events, in their order, and its addresses.
bool races(const Draft &draft, const Problem &problem, const Plan &plan);

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_HAPPENSBEFORE_H
