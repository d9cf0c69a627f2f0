//===- SearchPolicy.h - How far a search goes -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SEARCHPOLICY_H
#define COMPILER_PLANNER_SEARCHPOLICY_H

#include "compiler/Planner/Problem.h"

#include <algorithm>

namespace harmony::planner {

/// All that decides when a search has seen enough. Effort is events of plans
/// built, as equal input must give equal plans on any machine. Ratios are of
/// seconds, to those of the best plan so far where nothing else is said. All
/// were chosen by what bench/planner.py and small random problems lose.
struct SearchPolicy {
  //===--- effort ---===//

  /// No further layout is tried once so much is spent, about half a second, and
  /// no further step begun once twice as much is. Problems of more layers than
  /// 500 have larger plans, of which some must be seen at all.
  static int64_t effortFor(const Problem &problem) {
    return 600'000 * std::clamp(problem.layerCount(), 500, 1500) / 500;
  }
  /// What one of equal groups has alone: its plans are small, and what it finds
  /// is still to be tried for all groups.
  static int64_t effortAlone(int64_t effort) { return effort * 4 / 5; }
  /// The part of the effort for layouts up to which ends of packs move.
  static constexpr double partForEnds = 0.8;
  /// Times the effort for layouts, while nothing fits: any plan is better than
  /// the least one.
  static constexpr int factorWhileNothingFits = 2;
  /// Events of what is simulated, whose addresses and waits are found too,
  /// count so many times.
  static constexpr int64_t simulationEffort = 6;
  /// Microbatches of a group, each of which is simulated; ten times as many
  /// where nothing fits with so few.
  static constexpr int64_t mostTrips = 10'000;

  //===--- layouts ---===//

  /// Of a class of layouts, those with the best estimates. The ranking within a
  /// class is nearly right: deeper ones hardly ever win.
  static constexpr size_t layoutsOfClass = 4;
  /// A form whose best is slower than this is left out: what fills memory or
  /// moves packs gains less.
  static constexpr double formMayWin = 1.3;
  /// A layout estimated above this is left out: estimates are lower bounds but
  /// for 1 % in one of a hundred.
  static constexpr double estimateMayWin = 1.03;
  /// Rounds are looked at where they are estimated below this times the best
  /// estimate without: their plans are as many times larger.
  static constexpr double roundsMayWin = 0.98;
  static constexpr int mostRounds = 64;
  /// Of a layout whose packs are all in the turn, where every microbatch is a
  /// phase.
  static constexpr int64_t mostPhasesOfTurn = 2'000;
  /// Partitions of a forward-only problem behind the first that fits: more
  /// packs leave room for what stays, but cost traffic and stalls.
  static constexpr int furtherPartitions = 6;

  //===--- plans of one group, for all ---===//

  /// So many, of different numbers of packs, no slower than this times the best
  /// of one group: all groups share links and gather gradients, which may
  /// change an order as close as that.
  static constexpr size_t takenFromOneGroup = 4;
  static constexpr int takenOfRounds = 2; ///< of a number of rounds
  static constexpr double takenMayBe = 1.05;
  /// A plan of all groups that takes less than this times what one takes alone
  /// needs no steps of its own: the one group has made them.
  static constexpr double asFastAsAlone = 1.02;

  //===--- filling memory ---===//

  /// A ladder's height is found to a part of it, or by so many probes: each is
  /// a plan, and seconds change little with a decision of so many.
  static constexpr int heightParts = 32;
  static constexpr int heightProbes = 6;
  /// Live bytes may fit where addresses do not: the memory is filled again with
  /// what was missing and a part of the capacity less.
  static constexpr int fillings = 4;
  /// Rounds that have the peaks of all: a first, a middle and a last one.
  static constexpr int roundsForPeaks = 3;
  static constexpr int64_t fillingMargin = 64; ///< of the capacity

  //===--- parts of the space ---===//

  /// For searches of what one more pin leaves: about a sixth of a second; and
  /// for steps around what they found.
  static constexpr int64_t effortForPins = 800'000;
  static constexpr int64_t effortForKinds = effortForPins / 2;
  /// The parts of it, of what is left each time, for one pin more, and for
  /// another beside the best.
  static constexpr double effortAtOnce[] = {0.7, 1};
  /// Problems of more layers have a space that so little does not go far in,
  /// and take long enough. So many trials, by what one has cost so far, must go
  /// into it: with fewer these searches find nothing.
  static constexpr int layersWithPins = 40;
  static constexpr int64_t trialsWithPins = 20;
  /// Packs of so few layers are pinned, too.
  static constexpr int pinnedLayers = 3;
  /// The best plans with a pin, of which steps without it are taken.
  static constexpr size_t takenFromPin = 2;
  /// Layers times microbatches, each of which is simulated, of what is pinned,
  /// and of a baseline's smallest microbatches.
  static constexpr int64_t stepsOfPin = 8'000;
  static constexpr int64_t stepsOfBaseline = 1'000;
  /// Steps are taken from the best of every kind no slower than this.
  static constexpr double kindMayWin = 1.3;
  /// The plan of a baseline is chosen if it takes less than this times the
  /// best.
  static constexpr double baselineWins = 0.99;
  /// Links are the limit where transfers take so many times as long as
  /// computing, if nothing stays.
  static constexpr double linksLimit = 2;

  //===--- steps ---===//

  /// The best plans that differ in packs, beside the best of each form, that
  /// steps begin from.
  static constexpr size_t starts = 3;
  /// Starts are no slower than this, first while estimates are trusted and
  /// then, where effort for layouts is left, as for small problems, when they
  /// are not.
  static constexpr double startsTrusting = 1.07;
  static constexpr double startsNotTrusting = 1.2;
  /// What steps have made better is stepped from again if no slower than this.
  static constexpr double againFrom = 1.05;
  /// A step is one if it takes less than this times what it began from; less is
  /// not worth another round in all directions.
  static constexpr double gain = 0.9995;
  /// Joins of two packs, and shapes one step away, with the best estimates.
  static constexpr size_t joins = 6;
  static constexpr size_t shapesAround = 16;
  /// Ends of packs move in what is no slower than this.
  static constexpr double endsMayWin = 1.1;
  /// Other orders of filling are tried where a plan takes longer than this
  /// times the computing of its busiest device: elsewhere no device waits.
  static constexpr double waits = 1.02;
  /// A plan that swaps nothing is at a bound if it takes no longer than this
  /// times the bound: phases begin and end within the rest.
  static constexpr double atBound = 1.001;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SEARCHPOLICY_H
