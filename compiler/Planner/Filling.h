//===- Filling.h - What stays on the devices --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search: from a layout, with which nothing stays on a device,
// to choices that use its memory. Each ladder is a list of decisions, of which
// as many of the first are taken as fit; devices at different places of a
// pipeline climb to heights of their own.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_FILLING_H
#define COMPILER_PLANNER_FILLING_H

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Search.h"

#include <deque>
#include <functional>
#include <map>

namespace harmony::planner {

/// Who updates tensors for which there is a choice.
enum class Updates {
  Device,
  Host,
  Mixed,  ///< the host those of which an update would take much of a device's
          ///< memory
  Early,  ///< devices those of the pack that is last to be updated and first to
          ///< be needed again
  Staying ///< devices those that stay with them
};

/// A candidate: its layout, and choices that follow from it and from what is
/// filled in.
struct Decisions {
  Layout layout;
  Updates updates = Updates::Device;
  Choices choices;
};

enum class Rung { Overlap, Adjacent, Values, Pin, Resident, Keep };
using Strategy = std::vector<Rung>;

/// Bytes, by device.
using Limits = std::vector<int64_t>;

/// Runs of a phase: enough to begin with what is there, few enough for a
/// search; its last steps try other numbers.
inline constexpr int fineRuns = 8;

class Filling {
public:
  /// `others`: of how many further groups that do the same it is one alone.
  Filling(const Problem &problem, const Machine &machine,
          const SearchOptions &options, int others = 0,
          bool othersGather = false);

  /// Nothing stays that does not have to, one slot, no look-ahead. `order`:
  /// unless it is pinned, or the problem has no choice.
  Decisions base(Layout layout, Updates updates,
                 UpdateOrder order = UpdateOrder::JustInTime) const;

  /// The phases again, after `layout` has changed.
  void renew(Decisions &decisions) const;

  /// The same choices for another layout of the same groups and devices: what
  /// stays, where it is updated and what is kept, as far as layers that the
  /// layout's own segments leave open.
  Decisions moved(const Decisions &from, Layout layout, Updates updates,
                  UpdateOrder order) const;

  /// Climbs the ladders of a strategy in order, from what fits `limits`.
  Decisions climb(Decisions from, const Strategy &strategy,
                  const Limits &limits);

  /// Everything resident; look-ahead and slots as far as they fit. Nothing if
  /// it does not fit.
  std::optional<Decisions> resident(const Layout &layout, Updates updates,
                                    const Limits &limits);

  /// Whether Mixed differs from the other two.
  bool canMix(int groups) const;

  /// Whether there are tensors of which a transfer takes longer to begin than
  /// to carry its bytes, so that much is gained where they stay and little
  /// memory lost.
  bool areSmall() const;

  /// Equal groups do the same, so that memory is looked for in a problem of one
  /// group: its share of the batch, and of the state that it updates.
  struct OneGroup {
    Problem problem;
    Machine machine;

    /// One device with its part of what links share. To be estimated: tensors
    /// come once for all groups, values for each.
    Machine alone(int groups, bool estimated) const;
  };
  /// Null: groups are not equal.
  const OneGroup *oneGroupOf(int groups);

  bool fits(const Decisions &decisions, const Limits &limits);

  /// What equal groups take beside what one of them would take alone, which is
  /// what the others' places are judged by: parts of gradients from elsewhere.
  Limits lessOthers(const Decisions &decisions, const Limits &limits);

  bool stay() const { return options.residency == Residency::Auto; }
  bool keepAll() const {
    return problem.training && options.recompute == Recompute::None;
  }

  /// The plan of some choices: see PlanBuilder::build.
  Draft &build(const Choices &choices) {
    return builderOf(problem, machine).build(choices);
  }

  /// Events of all plans built so far: what the search spends its time on.
  int64_t effort() const { return built; }
  void spend(int64_t events) { built += events; }

private:
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  const int others;
  const bool othersGather;
  std::vector<int> firstLayer, lastLayer; ///< of each tensor's uses, -1: none
  int64_t built = 0;

  std::map<int, std::optional<OneGroup>> oneGroups; ///< by count
  std::map<const Problem *, PlanBuilder> builders;
  /// Problems of fewer samples; by problem and batch.
  std::map<std::pair<const Problem *, int64_t>, Problem> fewerSamples;

  /// What was built last: a ladder begins where another one ends.
  struct Known {
    const Problem *of = nullptr;
    Choices choices;
    std::vector<int64_t> peaks;
  };
  std::deque<Known> known;

  /// The places in the pipeline whose memory a decision takes, and what to do.
  struct Ladder {
    std::vector<std::vector<int>> places;
    std::function<void(Decisions &, int)> take;
    /// After all that is taken; may be empty.
    std::function<void(Decisions &)> finish = {};
  };
  class Climb; ///< of one ladder

  bool isLarge(const Tensor &tensor, int groups) const;

  Ladder ladder(Rung rung, const Decisions &from) const;
  Ladder overlapLadder(const Decisions &from) const;
  Ladder adjacentLadder(const Decisions &from) const;
  Ladder valueLadder(const Decisions &from) const;
  Ladder tensorLadder(const Decisions &from, bool resident) const;
  Ladder keepLadder(const Decisions &from) const;
  std::vector<int> tensorOrder() const;
  void keepOutputs(Decisions &decisions) const;

  PlanBuilder &builderOf(const Problem &of, const Machine &on) {
    return builders.try_emplace(&of, of, on).first->second;
  }
  /// By device, of what build() makes.
  std::vector<int64_t> peaksOf(const Problem &of, const Machine &on,
                               const Choices &choices);
  std::vector<int64_t> peaksOfOne(const OneGroup &one,
                                  const Decisions &decisions);
  /// The same of the choices for one group, by so many of its rounds as have
  /// its peaks: they are alike.
  std::vector<int64_t> peaksOfRounds(const Problem &of, const Machine &on,
                                     Layout layout, Choices choices);
  /// By place: by how many bytes a device there is above its limit.
  std::vector<int64_t> excess(const Decisions &decisions, const Limits &limits);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_FILLING_H
