//===- Baselines.h - Training on virtualised memory -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What swaps where nothing but the order of accesses is known: plain data
// parallel (dp-swap) and plain pipelines (pp-swap) whose device memories are
// virtual. They are ordinary plans, so that one engine runs them beside
// Harmony's and their bytes can be compared.
//
// Every microbatch passes through all layers before the next does (dp-swap:
// forward of all layers, then backward; pp-swap: stages in 1F1B order). All
// updates follow, on the devices; on the host those for which a device has no
// room. A device's memory holds pieces: tensors,
// optimizer states, gradients, and values of each microbatch. What an access
// does not find is loaded; what has not been used for longest makes room, and
// is written back if it was changed since it was loaded. What a phase needs of
// tensors is loaded while the one before it runs, as far as there is room.
// Values without a further use are dropped.
//
// Where it is better than virtual memory: a layer's pieces are known before it
// runs; every tensor is updated once, not by every replica; a value is written
// back when it was last used rather than when its place is needed. Where it is
// worse: pieces lie in one address range each, so that gaps are lost; memory
// starts empty in every step; saved blocks of layers that are not recomputed
// cannot leave the device.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BASELINES_H
#define COMPILER_PLANNER_BASELINES_H

#include "compiler/Planner/Build.h"
#include "compiler/Planner/Search.h"

namespace harmony::planner {

struct Baseline {
  bool pipeline = false; ///< pp-swap; else dp-swap
  int groups = 1;        ///< replicas of dp-swap, a device each
  int64_t microbatch = 1;
  bool keep = false; ///< saved blocks stay from forward to backward; otherwise
                     ///< every layer is recomputed
  bool hostUpdates = true; ///< of what a device has no room for
};

/// The plan without addresses, waits and time. `limits`: bytes that a device's
/// pieces may have at once. Nothing where a layer and what cannot leave do not
/// fit.
std::optional<Draft> virtualised(const Problem &problem, const Machine &machine,
                                 const Baseline &baseline,
                                 const std::vector<int64_t> &limits);

/// The least limits under which virtualised() has a plan without keeping: what
/// one operation of a device touches.
std::vector<int64_t> leastLimits(const Problem &problem, const Machine &machine,
                                 const Baseline &baseline);

/// The fastest baseline of the asked schedule: over microbatch sizes and,
/// unless it is pinned, with and without keeping. Other pins do not apply.
Result solveBaseline(const Problem &problem, const Machine &machine,
                     const SearchOptions &options);
int64_t leastBaselineBytes(const Problem &problem, const Machine &machine,
                           const SearchOptions &options);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BASELINES_H
