//===- Trials.h - Plans that a search has tried -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search: builds what is proposed, fills memory, and keeps what
// fits, as long as there is effort left.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_TRIALS_H
#define COMPILER_PLANNER_TRIALS_H

#include "compiler/Planner/SearchContext.h"
#include "compiler/Planner/SearchResult.h"

#include <optional>

namespace harmony::planner {

/// A layout that may be tried; `shape` where it has one, or has begun with it.
struct Proposal {
  std::optional<Shape> shape;
  Layout layout;
  Updates updates = Updates::Device;
  LayoutCost cost;                       ///< as estimated
  std::optional<UpdateOrder> order = {}; ///< none: as in what it comes of
};

/// Orders of filling: transfers first, recomputation first, and mixtures.
extern const Strategy strategies[5];
inline const Strategy &transfersFirst = strategies[0];
inline const Strategy &recomputationFirst = strategies[1];

/// What led to a trial.
struct Origin {
  std::optional<Shape> shape;
  /// Without what was filled in, where it is not the shape's: ends of packs
  /// were moved, or there is no shape.
  std::optional<Layout> layout;
  const Strategy *strategy = nullptr; ///< null: none was climbed by
  bool climbed = false;               ///< with that strategy, not taken over
  /// Taken over from a search of one group, which has made its packs as few as
  /// is better.
  bool joined = false;
  /// That search has tried what is around it, and it is about as fast for all
  /// groups.
  bool refined = false;
};

struct Trial : Candidate<Decisions> {
  Origin origin;
};

class Trials {
public:
  /// `context` is kept by reference. `others`, `othersGather`: see Filling.
  Trials(SearchContext &context, int others, bool othersGather);

  Filling filling;

  const std::vector<Trial> &all() const { return list; }
  const Trial &operator[](size_t i) const { return list[i]; }
  size_t size() const { return list.size(); }
  bool empty() const { return list.empty(); }
  /// Seconds; infinity: none.
  double best() const { return bestSeconds; }
  /// Of those of a form (formOf); infinity: none.
  double bestOf(const PlacedForm &form) const;
  /// Indices, the fastest first.
  std::vector<size_t> byTime() const;
  std::vector<RunnerUp> bestOfForms() const;
  /// One of the same shape, but for levels of keeping beyond segments.
  std::optional<size_t> find(const Layout &layout) const;
  /// A trial's layout without what was filled in.
  Layout layoutOf(size_t trial) const;
  /// The same of what a strategy has filled.
  Layout layoutOf(const Origin &origin) const;

  /// Least host store of what fits devices and not the host; 0: none.
  int64_t hostBytesNeeded() const { return hostNeeded; }

  /// Whether a trial swaps nothing and takes no longer than `seconds`, which no
  /// plan of its microbatch size is below.
  bool isAt(size_t trial, double seconds) const;

  /// Capacity, by device.
  const Limits &limits() const { return capacity; }
  /// Of SearchSpace, and those that only so many groups have.
  std::vector<Updates> updatePlaces(int groups) const;
  /// And those to which plans may be changed.
  std::vector<Updates> otherPlaces(int groups) const;

  //===--- effort ---===//

  /// What has been spent so far is not counted below; but for the first time
  /// without effect.
  void countFromHere();
  /// Whether there is effort left for a further layout; `part`: of that effort.
  bool mayTry(double part = 1) const;
  /// Whether there is for a further step.
  bool mayGoOn() const;

  //===--- trying ---===//

  /// With addresses, waits and times.
  Plan complete(const Choices &choices);

  /// Builds, and keeps if it fits and is new; returns what does not fit, by
  /// device.
  std::vector<int64_t> consider(const Decisions &decisions,
                                const Origin &origin = {});

  /// Fills memory and considers the result. False: it does not fit.
  bool tryLayout(const Layout &layout, Updates updates,
                 const std::optional<Shape> &shape, const Strategy &strategy,
                 UpdateOrder order = UpdateOrder::JustInTime);

  /// With what stays as in a trial, if there is room for it; else anew, unless
  /// it is estimated as slower. Always anew for Updates::Staying, if the trial
  /// has another place of updates.
  void tryMoved(size_t from, const Proposal &proposal);

  /// Keeps what another search of the same problem has tried, if it is new.
  void adopt(const Trial &found);

  /// What a search of one of the groups has found, for all of them. False: it
  /// does not fit.
  bool takeOver(const Trial &found, const Layout &layout, const Origin &origin);

private:
  SearchContext &context;
  const Problem &problem; ///< of the context, and so is the machine
  const Machine &machine;
  int devices;
  Limits capacity;
  /// The trial that was chosen of all when it was added, and its plan: mostly
  /// what is chosen in the end.
  std::optional<size_t> kept;
  Plan keptPlan;
  std::vector<Trial> list;
  /// Choices that were filled: several places of updates may be the same.
  struct Filled {
    Choices choices;
    const Strategy *strategy;
    bool fits;
  };
  std::vector<Filled> filled;
  double bestSeconds;
  std::optional<int64_t> notCounted; ///< of the effort
  int64_t costliest = 0; ///< of one filling
  int64_t hostNeeded = 0;

  Allocator allocator;
  Synchronizer synchronizer;

  Draft &placed(const Choices &choices);
  void finish(Draft &draft);
  std::vector<int64_t> excess(const Plan &plan) const;
  /// A layout, unless it is the shape's.
  std::optional<Layout> unlessOf(const std::optional<Shape> &shape,
                                 const Layout &layout) const;
  void fill(const Decisions &from, const Origin &origin);
};

/// Those that fit first, then those of the least estimate.
bool isBetter(const Proposal &a, const Proposal &b);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_TRIALS_H
