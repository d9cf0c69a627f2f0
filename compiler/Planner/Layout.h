//===- Layout.h - Packs on devices ------------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the search enumerates: data-parallel groups, packs of each direction,
// their devices and microbatch sizes. What stays where is filled in afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_LAYOUT_H
#define COMPILER_PLANNER_LAYOUT_H

#include "compiler/Planner/Build.h"

#include <algorithm>

namespace harmony::planner {

/// How packs lie on the devices of a group, Q of them. Forward pack k is on
/// device k mod Q.
enum class Placement {
  Ring,  ///< turn and backward packs continue in the same direction
  Mirror ///< backward pack k is on device k mod Q as well: tensors and saved
         ///< blocks may stay from one direction to the other
};

/// Group g has devices [g * pipeline, (g + 1) * pipeline).
struct Layout {
  int groups = 1;   ///< G
  int pipeline = 1; ///< Q, devices of a group
  Placement placement = Placement::Ring;
  /// Last layer of each pack, ascending. The last `turnPacks` backward packs
  /// are the turn and end with layer R-1; forward packs cover the layers before
  /// it. A forward-only problem has no backward packs.
  std::vector<int> forwardEnds, backwardEnds;
  /// How many packs do forward and backward of the microbatches in turn (1F1B),
  /// each on a device of its own: up to `pipeline`. One of several is a phase
  /// of its own for every microbatch, and so are all phases of the layout.
  int turnPacks = 1;
  int64_t forwardMicrobatch = 1, backwardMicrobatch = 1;
  /// A share goes through all packs in so many rounds, one after the other, or
  /// fewer (roundSamples). What stays from forward to backward is that of one
  /// round; tensors and gradients come and go in each. A turn of several packs
  /// has one.
  int rounds = 1;
  /// By pack, where that differs. The turn has one size. Empty: the sizes above
  /// throughout.
  std::vector<int64_t> forwardSizes, backwardSizes;
  /// By layer, the level of keeping (Phase::keep) in backward packs but the
  /// last, which goes backward right behind its forward. Bytes are kept only
  /// where canKeep(). Empty: nothing.
  std::vector<int> keep;

  int firstBackward(int pack) const {
    return pack == 0 ? 0 : backwardEnds[pack - 1] + 1;
  }
  int firstForward(int pack) const {
    return pack == 0 ? 0 : forwardEnds[pack - 1] + 1;
  }
  int forwardDevice(int pack) const { return pack % pipeline; }
  int backwardDevice(int pack) const;
  /// The first backward pack of the turn.
  int turn() const { return static_cast<int>(backwardEnds.size()) - turnPacks; }
  bool isTurn(int pack) const { return pack >= turn(); }
  /// The first layer of the turn.
  int turnLayer() const {
    return backwardEnds.empty() ? 0 : firstBackward(turn());
  }
  /// The first layer of the last pack: those before it have levels.
  int lastPackLayer() const {
    return backwardEnds.empty() ? 0 : firstBackward(lastPack());
  }
  int lastPack() const { return static_cast<int>(backwardEnds.size()) - 1; }
  /// Of how many microbatches a backward pack has its forward done and its
  /// backward before it, at most, of so many of a share.
  int64_t underWay(int pack, int64_t microbatches) const {
    return isTurn(pack) ? std::min<int64_t>(microbatches, lastPack() - pack + 1)
                        : microbatches;
  }
  int64_t forwardSize(int pack) const {
    return forwardSizes.empty() ? forwardMicrobatch : forwardSizes[pack];
  }
  int64_t backwardSize(int pack) const {
    return backwardSizes.empty() ? backwardMicrobatch : backwardSizes[pack];
  }
  /// By layer before the last pack: whether its saved block can stay from
  /// forward to backward, which have the same device and microbatches.
  std::vector<char> canKeep() const;

  bool operator==(const Layout &o) const;
  bool operator<(const Layout &o) const; ///< any total order
};

/// Equal packs and microbatch sizes in both directions, nothing kept.
Layout uniformLayout(const Problem &problem, int groups, int pipeline,
                     Placement placement, const std::vector<int> &packEnds,
                     int64_t microbatch);

/// The layout with its last packs, at most one for each device of a group, as
/// the turn: they go forward there, too.
Layout withTurnOf(int packs, Layout layout);

/// The samples of each group: D / G of them, the first D mod G one more.
std::vector<int64_t> sharesOf(int64_t batch, int groups);

/// The samples of a round, of which the last one has the rest: whole
/// microbatches of every pack, as few as give no more than Layout::rounds. All
/// of the share where its packs have no common multiple below it.
int64_t roundSamples(const Layout &layout, int64_t share);

/// Whether the problem has costs for a microbatch size in every share and for
/// what remains there.
bool canSplit(const Problem &problem, int groups, int64_t microbatch);

/// Whether a turn may have several packs: groups are then mixed in issue order,
/// but what forwards write goes from sample to sample.
bool canTakeTurns(const Problem &problem, int groups);

/// In issue order: by pack, its groups side by side, what remains of a share
/// behind the phase that leaves it; a turn of several packs as its devices go
/// through it, all at once.
std::vector<PhaseChoice> phasesOf(const Problem &problem, const Layout &layout);

/// Devices that update: of each tensor the group whose device has least to
/// update so far, in the order of packs, so that the updates of a pack are
/// spread evenly.
std::vector<int> spreadOwners(const Problem &problem, const Layout &layout);

/// Loads of tensors by one group for all: by the group of the owner, where
/// there is one, else of the group that has least of the pack. What is more
/// than a group's share of a pack is loaded in slices: one a group, or fewer
/// where there are so many groups that nothing but their copies would make up
/// the plan.
void dealLoads(const Problem &problem, const Layout &layout, Choices &choices);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_LAYOUT_H
