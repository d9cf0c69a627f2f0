//===- SearchSpace.h - What a search may choose -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search: the pins of a command, and what they leave open.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SEARCHSPACE_H
#define COMPILER_PLANNER_SEARCHSPACE_H

#include "compiler/Planner/Filling.h"
#include "compiler/Planner/Search.h"
#include "compiler/Planner/SearchPolicy.h"

#include <tuple>

namespace harmony::planner {

/// Data-parallel groups of pipelines.
struct Form {
  int groups = 1, pipeline = 1;
};

/// What plans are compared by: a form, and how its packs lie on the devices.
/// One device a group has one placement.
struct PlacedForm {
  int groups = 1, pipeline = 1;
  Placement placement = Placement::Mirror;
  int turnPacks = 1; ///< Layout::turnPacks

  bool operator==(const PlacedForm &o) const { return key() == o.key(); }
  bool operator<(const PlacedForm &o) const { return key() < o.key(); }

private:
  /// Mirrors come before rings.
  std::tuple<int, int, bool, int> key() const {
    return {groups, pipeline, placement == Placement::Ring, turnPacks};
  }
};
PlacedForm formOf(const Layout &layout);
/// In words: "8 groups", "2 groups of 4 devices, ring", "1 group of 2 devices,
/// mirror, 1F1B turn of 2 packs".
std::string name(const PlacedForm &form);

class SearchSpace {
public:
  /// All are kept by reference.
  SearchSpace(const Problem &problem, const Machine &machine,
              const SearchOptions &options)
      : SearchSpace(problem, static_cast<int>(machine.devices.size()),
                    options) {}
  SearchSpace(const Problem &problem, int devices, const SearchOptions &options)
      : problem(problem), options(options), devices(devices) {}

  /// Throws Error where pins contradict the problem or each other.
  void checkPins() const;

  /// Whether shares can be split into microbatches of some size.
  bool splits() const;

  /// Places of updates that are worth trying, whatever the capacity.
  std::vector<Updates> updatePlaces() const;

  /// Forms that use all devices, as many groups as there may be first.
  std::vector<Form> forms() const;
  /// Those that leave some idle, which pays where links are slow, batches small
  /// or shares unequal otherwise: any number of groups with equal shares, of as
  /// many devices as there are, half as many and so on, or a power of two.
  std::vector<Form> narrowerForms() const;

  /// Data parallelism has as many groups as there are samples to share and
  /// microbatches to share them by; descending.
  std::vector<int> groupCounts() const;

  /// The options with one pin more, of those that are left open: of each kind
  /// what a plan may be pinned to.
  std::vector<SearchOptions> withOnePinMore() const;

  /// Sizes that the shares of so many groups can be split into, ascending.
  std::vector<int64_t> microbatches(int groups) const;

  /// Those of them with which a group has no more than mostTrips()
  /// microbatches, or all if there are none.
  std::vector<int64_t> triedMicrobatches(int groups) const;
  int64_t mostTrips() const { return most; }
  void limitTrips(int64_t trips) { most = trips; }

  /// The same, those of the least computeBound first.
  std::vector<int64_t> microbatchOrder(Form form) const;

  /// Seconds that one sample after another takes through all layers, without
  /// recomputation, evenly over the devices.
  double computeBound(Form form, int64_t microbatch) const;
  /// At the microbatch where that is least.
  double computeBound(Form form) const;

private:
  const Problem &problem;
  const SearchOptions &options;
  int devices;
  int64_t most = SearchPolicy::mostTrips;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SEARCHSPACE_H
