//===- Search.h - From a problem to a plan ----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The entry point of the planner: the fastest simulated plan under capacity.
// Deterministic: equal input, equal plan.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SEARCH_H
#define COMPILER_PLANNER_SEARCH_H

#include "compiler/Planner/Plan.h"

#include <variant>

namespace harmony::planner {

enum class Recompute { Auto, All, None };
enum class Residency { Auto, None };

/// Pins; what is not pinned is searched.
struct SearchOptions {
  std::optional<int64_t> microbatch;     ///< one of Problem::microbatches
  std::optional<UpdateOrder> update;     ///< default: just in time
  Recompute recompute = Recompute::Auto; ///< None: packs but the last keep
  Residency residency = Residency::Auto; ///< None: nothing stays between phases
  std::optional<int> layersPerPack;      ///< the last pack may be smaller
  std::optional<UpdatePlace> updatePlace; ///< Host or Device
};

/// No plan at this capacity.
struct Infeasible {
  int64_t minDeviceBytes =
      0; ///< the least capacity that has a plan; every larger one has
  int64_t boundBytes = 0; ///< lowerBound()
  int64_t capacity = 0;
  int largestLayer = 0;
  int64_t hostBytesNeeded = 0; ///< > 0: the host store is what does not fit
  int64_t hostBytes = 0;
  std::string message; ///< all of it, for people
};

struct Planned {
  Plan plan;
  int64_t minDeviceBytes = 0;
  int64_t boundBytes = 0;
  int candidates = 0; ///< plans simulated
};

using Result = std::variant<Planned, Infeasible>;

/// Throws Error on an invalid problem or machine and on pins that contradict.
Result solve(const Problem &problem, const Machine &machine,
             const SearchOptions &options = {});

/// The same command's least capacity, without a search.
int64_t minDeviceBytes(const Problem &problem, const Machine &machine,
                       const SearchOptions &options = {});

/// For people: packs, residency, traffic, peaks, time.
std::string describe(const Planned &planned, const Problem &problem,
                     const Machine &machine);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SEARCH_H
