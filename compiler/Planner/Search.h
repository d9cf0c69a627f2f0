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

#include <string_view>
#include <variant>

namespace harmony::planner {

enum class Recompute { Auto, All, None };
enum class Residency { Auto, None };

/// Auto is the fastest of both Harmony forms and of what lies between them:
/// groups of several devices; for small problems one of the last two, which are
/// baselines (Baselines.h), if that is faster.
enum class Schedule {
  Auto,
  HarmonyPp, ///< one group: a pipeline over all devices
  HarmonyDp, ///< a group for each device, as far as there are samples
  PpSwap,
  DpSwap
};
/// "auto", "harmony-pp", "harmony-dp", "pp-swap", "dp-swap".
const char *name(Schedule schedule);
std::optional<Schedule> scheduleNamed(std::string_view name);

/// Pins; what is not pinned is searched.
struct SearchOptions {
  Schedule schedule = Schedule::Auto;
  /// Of every phase. Where it does not divide a group's share of the batch, one
  /// smaller microbatch follows. Both are in Problem::microbatches.
  std::optional<int64_t> microbatch;
  std::optional<UpdateOrder> update;     ///< default: just in time
  Recompute recompute = Recompute::Auto; ///< None: packs but the last keep
  Residency residency = Residency::Auto; ///< None: nothing stays between phases
  std::optional<int> layersPerPack;      ///< the last pack may be smaller
  std::optional<UpdatePlace> updatePlace; ///< Host or Device
  /// Instead of the fastest plan one that is drawn at random from all that fit:
  /// packs, devices, what stays and where, rings, places of updates. Pins hold.
  /// For tests: plans with equal numerics must give equal bits.
  std::optional<uint64_t> randomSeed;
};

/// Microbatch sizes for which a problem needs costs, ascending: divisors of the
/// batch and of the shares that `devices` may have of it, and what remains
/// where one divides a share but not another; or the pinned size with its
/// remainders. At most a dozen.
std::vector<int64_t> candidateMicrobatches(int64_t batch, int devices,
                                           const SearchOptions &options = {});

/// No plan at this capacity.
struct Infeasible {
  /// The least capacity, of each device, that has a plan; every larger one has.
  int64_t minDeviceBytes = 0;
  int64_t boundBytes = 0; ///< lowerBound()
  int64_t capacity = 0;   ///< of `device`
  int device = 0;         ///< the one that is too small
  int largestLayer = 0;
  int64_t hostBytesNeeded = 0; ///< > 0: the host store is what does not fit
  int64_t hostBytes = 0;
  std::string message; ///< all of it, for people
};

/// The best plan of a class of forms: groups, devices of a group, what comes
/// behind what.
struct RunnerUp {
  std::string form; ///< in words: "8 groups", "2 groups of 4 devices, ring"
  std::vector<int64_t> microbatches; ///< sizes of both directions, descending
  /// Of a group; those that go forward and backward in turn count in both.
  int forwardPacks = 0, backwardPacks = 0;
  double seconds = 0;
  int64_t swapBytes = 0;
  int64_t peakBytes = 0; ///< of the fullest device
};

struct Planned {
  Plan plan;
  int64_t minDeviceBytes = 0;
  int64_t boundBytes = 0;
  int candidates = 0; ///< plans simulated
  int64_t effort = 0; ///< events built, what the time of a search goes by
  /// What no plan is faster than (Bound.h); 0: not known.
  double boundSeconds = 0;
  /// What no plan of as many groups is faster than; 0: not known.
  double groupsBoundSeconds = 0;
  std::string form; ///< as RunnerUp's, of the plan; empty for baselines
  /// The best of every class of forms that was tried, the fastest first; the
  /// chosen plan is one of them, within 1 % of the first, or a baseline's.
  std::vector<RunnerUp> runnersUp;
  /// What it became: Auto resolves to one of the others. Groups of several
  /// devices count as data parallel, one device as a pipeline.
  Schedule schedule = Schedule::HarmonyPp;
};

/// What a plan has of each kind, as "packs 5, devices 3, ...": the spread of
/// random plans is measured by it.
std::string kinds(const Plan &plan, const Problem &problem);

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
