//===- Bound.h - What no plan is faster than --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BOUND_H
#define COMPILER_PLANNER_BOUND_H

#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Problem.h"

namespace harmony::planner {

/// Seconds that computing takes at least with G groups of Q devices, for the
/// first group, whose share is the largest: the larger of
///   * all forwards, backwards and recomputations over the share, evenly over
///     the Q devices, each layer at whatever admitted microbatch is best for
///     it. A layer is recomputed unless its saved block of one microbatch lies
///     in the group's memory, which all layers have to share (linear relaxation
///     of that knapsack, so that a part of a layer may lie there);
///   * one microbatch's way forward and backward through all layers, at the
///     same microbatches;
/// and what one phase costs at its end. Transfers, updates and imbalance are
/// left out. `sizes`: the microbatches that are admitted, of which the share
/// has as many as it has of their samples, also where that is no whole number.
double boundSeconds(const Problem &problem, const Machine &machine, int groups,
                    int pipeline, const std::vector<int64_t> &sizes);

/// The same with as many devices in each group as there are, and all of the
/// problem's microbatches up to the share. Infinity: there are no plans of so
/// many groups.
double boundSeconds(const Problem &problem, const Machine &machine, int groups);

/// The least of that over all G.
double boundSeconds(const Problem &problem, const Machine &machine);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BOUND_H
