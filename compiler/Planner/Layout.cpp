//===- Layout.cpp - Packs on devices --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace harmony::planner {

static auto membersOf(const Layout &layout) {
  return std::tie(layout.groups, layout.pipeline, layout.placement,
                  layout.turnPacks, layout.rounds, layout.forwardMicrobatch,
                  layout.backwardMicrobatch, layout.forwardEnds,
                  layout.backwardEnds, layout.forwardSizes,
                  layout.backwardSizes, layout.keep);
}

bool Layout::operator==(const Layout &o) const {
  return membersOf(*this) == membersOf(o);
}

bool Layout::operator<(const Layout &o) const {
  return membersOf(*this) < membersOf(o);
}

int Layout::backwardDevice(int pack) const {
  if (placement == Placement::Mirror)
    return pack % pipeline;
  int packs = static_cast<int>(backwardEnds.size());
  int behind = isTurn(pack) ? pack - turn() : packs - 1 - pack;
  return (static_cast<int>(forwardEnds.size()) + behind) % pipeline;
}

std::vector<char> Layout::canKeep() const {
  std::vector<char> can(static_cast<size_t>(lastPackLayer()), 1);
  int f = 0, b = 0;
  for (int l = 0; l < turnLayer(); ++l) {
    f += forwardEnds[f] < l;
    b += backwardEnds[b] < l;
    can[l] = forwardDevice(f) == backwardDevice(b) &&
             forwardSize(f) == backwardSize(b);
  }
  return can;
}

Layout uniformLayout(const Problem &problem, int groups, int pipeline,
                     Placement placement, const std::vector<int> &packEnds,
                     int64_t microbatch) {
  Layout layout;
  layout.groups = groups;
  layout.pipeline = pipeline;
  layout.placement = placement;
  layout.forwardEnds = packEnds;
  if (problem.training) {
    layout.forwardEnds.pop_back();
    layout.backwardEnds = packEnds;
  }
  layout.forwardMicrobatch = layout.backwardMicrobatch = microbatch;
  return layout;
}

Layout withTurnOf(int packs, Layout layout) {
  layout.turnPacks = packs;
  layout.forwardEnds.resize(static_cast<size_t>(layout.turn()));
  return layout;
}

std::vector<int64_t> sharesOf(int64_t batch, int groups) {
  std::vector<int64_t> shares;
  for (int g = 0; g < groups; ++g)
    shares.push_back(batch / groups + (g < batch % groups ? 1 : 0));
  return shares;
}

int64_t roundSamples(const Layout &layout, int64_t share) {
  if (layout.rounds == 1 || layout.turnPacks > 1)
    return share;
  std::vector<int64_t> sizes = layout.backwardSizes;
  sizes.insert(sizes.end(), layout.forwardSizes.begin(),
               layout.forwardSizes.end());
  if (sizes.empty())
    sizes = {layout.forwardMicrobatch, layout.backwardMicrobatch};
  int64_t unit = 1;
  for (int64_t u : sizes) {
    int64_t times = u / std::gcd(unit, u);
    if (times > share / unit)
      return share;
    unit *= times;
  }
  int64_t units = (share + unit - 1) / unit;
  return std::min(share, (units + layout.rounds - 1) / layout.rounds * unit);
}

bool canSplit(const Problem &problem, int groups, int64_t microbatch) {
  if (microbatch < 1)
    return false;
  auto known = [&](int64_t u) {
    return std::binary_search(problem.microbatches.begin(),
                              problem.microbatches.end(), u);
  };
  for (int64_t share : sharesOf(problem.batch, groups))
    if ((share >= microbatch && !known(microbatch)) ||
        (share % microbatch != 0 && !known(share % microbatch)))
      return false;
  return problem.batch >= groups;
}

bool canTakeTurns(const Problem &problem, int groups) {
  return groups == 1 || !problem.forwardsWrite();
}

namespace {

/// Phases of all groups.
class PhaseList {
public:
  PhaseList(const Problem &problem, const Layout &layout)
      : problem(problem), layout(layout),
        shares(sharesOf(problem.batch, layout.groups)), can(layout.canKeep()),
        packOf(static_cast<size_t>(layout.groups) * layout.pipeline,
               {-1, -1, PhaseKind::Forward}) {}

  /// A pack of all groups, all its microbatches of a round.
  void add(int round, PhaseKind kind, int first, int last, int device,
           int64_t microbatch) {
    int64_t sample = 0;
    std::vector<int> keep = levels(kind, first, last, microbatch);
    for (int g = 0; g < layout.groups; ++g) {
      PhaseChoice phase = phaseOf(g, kind, first, last, device);
      phase.keep = keep;
      int64_t size = roundSamples(layout, shares[g]), before = round * size;
      if (before < shares[g])
        for (Part part :
             partsOf(sample + before, std::min(size, shares[g] - before),
                     microbatch))
          addPart(phase, part);
      sample += shares[g];
    }
  }

  int rounds() const {
    int64_t most = 1;
    for (int64_t share : shares) {
      int64_t size = roundSamples(layout, share);
      most = std::max(most, (share + size - 1) / size);
    }
    return static_cast<int>(most);
  }

  /// The packs of a turn, each device going through its own in 1F1B order, all
  /// devices at once: in every round the next of each that has what it needs.
  void addTurn() {
    int64_t sample = 0;
    std::vector<std::vector<Part>> parts; // by group
    for (int g = 0; g < layout.groups; ++g) {
      parts.push_back(
          partsOf(sample, shares[g], layout.backwardSize(layout.turn())));
      sample += shares[g];
    }
    Counts forwards(layout.groups, std::vector<size_t>(layout.turnPacks, 0));
    Counts backwards = forwards;
    for (bool more = true; more;) {
      more = false;
      const Counts forwardsBefore = forwards, backwardsBefore = backwards;
      for (int j = 0; j < layout.turnPacks; ++j)
        for (int g = 0; g < layout.groups; ++g) {
          size_t &f = forwards[g][j], &b = backwards[g][j];
          size_t ahead = layout.turnPacks - 1 - j;
          bool last = ahead == 0;
          bool forward = f < parts[g].size() && f - b <= ahead &&
                         (j == 0 || f < forwardsBefore[g][j - 1]);
          bool backward = !last && b < f && b < backwardsBefore[g][j + 1] &&
                          (f == parts[g].size() || f - b > ahead);
          if (backward)
            addTurnPart(g, j, PhaseKind::Backward, parts[g][b++]);
          else if (forward)
            addTurnPart(g, j, last ? PhaseKind::Turn : PhaseKind::Forward,
                        parts[g][f++]);
          if (last)
            b = f;
          more |= forward || backward || b < parts[g].size();
        }
    }
  }

  std::vector<PhaseChoice> phases;

private:
  /// Microbatches of one size.
  struct Part {
    int64_t firstSample = 0, microbatch = 1, trips = 1;
  };
  using Counts = std::vector<std::vector<size_t>>; ///< by group and pack

  const Problem &problem;
  const Layout &layout;
  std::vector<int64_t> shares;
  std::vector<char> can;
  struct Pack {
    int first, last;
    PhaseKind kind;
  };
  std::vector<Pack> packOf; ///< by device: its last

  /// Levels that keep bytes where they cannot stay become the highest that
  /// keeps none. Empty: nothing is kept.
  std::vector<int> levels(PhaseKind kind, int first, int last,
                          int64_t microbatch) const {
    if (kind == PhaseKind::Turn || !problem.training || layout.keep.empty())
      return {};
    std::vector<int> keep(static_cast<size_t>(last - first) + 1, 0);
    for (int l = first; l <= last; ++l) {
      const Cost &cost = problem.cost(l, microbatch);
      int level = layout.keep[l];
      while (!can[l] && cost.keptBytes(level) > 0)
        --level;
      if (kind == PhaseKind::Backward || cost.keptBytes(level) > 0)
        keep[l - first] = level;
    }
    if (std::none_of(keep.begin(), keep.end(), [](int k) { return k > 0; }))
      return {};
    return keep;
  }

  PhaseChoice phaseOf(int group, PhaseKind kind, int first, int last,
                      int device) const {
    PhaseChoice phase;
    phase.device = group * layout.pipeline + device;
    phase.group = group;
    phase.kind = kind;
    phase.firstLayer = first;
    phase.lastLayer = last;
    return phase;
  }

  /// Of so many samples of a group, which begin with `sample`.
  std::vector<Part> partsOf(int64_t sample, int64_t samples,
                            int64_t microbatch) const {
    int64_t whole = samples / microbatch;
    int64_t left = samples % microbatch;
    std::vector<Part> parts;
    if (layout.turnPacks > 1)
      for (int64_t i = 0; i < whole; ++i)
        parts.push_back({sample + i * microbatch, microbatch, 1});
    else if (whole > 0)
      parts.push_back({sample, microbatch, whole});
    if (left > 0)
      parts.push_back({sample + whole * microbatch, left, 1});
    return parts;
  }

  void addTurnPart(int group, int j, PhaseKind kind, const Part &part) {
    int pack = layout.turn() + j;
    PhaseChoice phase =
        phaseOf(group, kind, layout.firstBackward(pack),
                layout.backwardEnds[pack], layout.backwardDevice(pack));
    phase.keep =
        levels(kind, phase.firstLayer, phase.lastLayer, part.microbatch);
    addPart(phase, part);
  }

  void addPart(PhaseChoice phase, const Part &part) {
    phase.microbatch = part.microbatch;
    phase.firstSample = part.firstSample;
    phase.trips = part.trips;
    Pack &pack = packOf[phase.device];
    phase.goesOn = pack.first == phase.firstLayer &&
                   pack.last == phase.lastLayer &&
                   (layout.turnPacks > 1 || pack.kind == phase.kind);
    pack = {phase.firstLayer, phase.lastLayer, phase.kind};
    phases.push_back(phase);
  }
};

} // namespace

std::vector<PhaseChoice> phasesOf(const Problem &problem,
                                  const Layout &layout) {
  PhaseList list(problem, layout);
  for (int round = 0; round < list.rounds(); ++round) {
    for (int f = 0; f < static_cast<int>(layout.forwardEnds.size()); ++f) {
      int first = layout.firstForward(f), last = layout.forwardEnds[f];
      list.add(round, PhaseKind::Forward, first, last, layout.forwardDevice(f),
               layout.forwardSize(f));
    }
    int pack = layout.lastPack();
    if (layout.turnPacks > 1) {
      list.addTurn();
      pack = layout.turn() - 1;
    }
    for (; pack >= 0; --pack)
      list.add(round,
               layout.isTurn(pack) ? PhaseKind::Turn : PhaseKind::Backward,
               layout.firstBackward(pack), layout.backwardEnds[pack],
               layout.backwardDevice(pack), layout.backwardSize(pack));
  }
  return std::move(list.phases);
}

std::vector<int> spreadOwners(const Problem &problem, const Layout &layout) {
  std::vector<int> owners(problem.tensors.size(), -1);
  std::vector<int64_t> load(
      static_cast<size_t>(layout.groups) * layout.pipeline, 0);
  for (int pack = static_cast<int>(layout.backwardEnds.size()) - 1; pack >= 0;
       --pack) {
    // The tensors whose last gradient use lies in this pack: the first layer's.
    std::vector<int> tensors;
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
      if (!uses.empty() && uses.front().layer >= layout.firstBackward(pack) &&
          uses.front().layer <= layout.backwardEnds[pack])
        tensors.push_back(static_cast<int>(t));
    }
    std::stable_sort(tensors.begin(), tensors.end(), [&](int a, int b) {
      return problem.tensors[a].bytes > problem.tensors[b].bytes;
    });
    for (int t : tensors) {
      int best = layout.backwardDevice(pack);
      for (int g = 1; g < layout.groups; ++g) {
        int device = g * layout.pipeline + layout.backwardDevice(pack);
        if (load[device] < load[best])
          best = device;
      }
      owners[t] = best;
      load[best] += problem.tensors[t].bytes + problem.tensors[t].stateBytes;
    }
  }
  return owners;
}

/// Copies of slices that a plan may have. Their number grows with the square of
/// the groups, and waits are found in memory for each event and each queue.
static int64_t mostSliceCopies(const Problem &problem, const Layout &layout) {
  constexpr int64_t copies = 100'000, ofLayers = 500, timesDevices = 8'000'000;
  int64_t devices = int64_t(layout.groups) * layout.pipeline;
  int64_t layers = std::max<int64_t>(ofLayers, problem.layerCount());
  return std::min(copies * layers / ofLayers, timesDevices / devices);
}

void dealLoads(const Problem &problem, const Layout &layout, Choices &choices) {
  choices.gather.assign(problem.tensors.size(), Gather::Each);
  choices.loader.assign(problem.tensors.size(), 0);
  if (layout.groups == 1)
    return;
  const std::vector<int> &ends =
      problem.training ? layout.backwardEnds : layout.forwardEnds;
  std::vector<char> dealt(problem.tensors.size(), 0);
  for (size_t pack = 0; pack < ends.size(); ++pack) {
    std::vector<int> tensors;
    int64_t bytes = 0;
    for (int l = pack == 0 ? 0 : ends[pack - 1] + 1; l <= ends[pack]; ++l)
      for (const TensorUse &use : problem.layers[l].tensors)
        if (!dealt[use.tensor]) {
          dealt[use.tensor] = 1;
          tensors.push_back(use.tensor);
          bytes += problem.tensors[use.tensor].bytes;
        }
    std::stable_sort(tensors.begin(), tensors.end(), [&](int a, int b) {
      return problem.tensors[a].bytes > problem.tensors[b].bytes;
    });
    std::vector<int64_t> load(layout.groups, 0);
    for (int t : tensors) {
      bool owned = !choices.owner.empty() && choices.owner[t] >= 0 &&
                   !choices.updateOnHost[t];
      choices.gather[t] = problem.tensors[t].bytes * layout.groups > bytes
                              ? Gather::Slices
                              : Gather::One;
      choices.loader[t] =
          owned ? choices.owner[t] / layout.pipeline
                : static_cast<int>(std::min_element(load.begin(), load.end()) -
                                   load.begin());
      if (choices.gather[t] == Gather::One)
        load[choices.loader[t]] += problem.tensors[t].bytes;
    }
  }
  // Every slice is copied to all other groups, forward and backward.
  int64_t copies =
      2 * layout.groups *
      std::count(choices.gather.begin(), choices.gather.end(), Gather::Slices);
  if (copies > 0)
    choices.slices = static_cast<int>(
        std::max<int64_t>(1, mostSliceCopies(problem, layout) / copies));
}

} // namespace harmony::planner
