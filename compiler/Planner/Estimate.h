//===- Estimate.h - What a layout takes, without a plan ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search: time and memory of a layout by arithmetic over its
// packs, to decide which ones are worth a plan. Some microseconds each.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_ESTIMATE_H
#define COMPILER_PLANNER_ESTIMATE_H

#include "compiler/Planner/Filling.h"

#include <map>

namespace harmony::planner {

struct LayoutCost {
  /// Seconds of the busiest device that no residency takes away: forwards,
  /// backwards, updates, ends of phases.
  double compute = 0;
  /// With recomputation, transfers, and filling of the pipeline, as far as the
  /// memory that the packs leave is not used against them.
  double seconds = 0;
  /// Of the busiest link or what links share, where nothing stays on devices.
  double transfers = 0;
  /// Whether every pack may have room in its device's memory.
  bool fits = true;
};

/// Bytes a second of a link where so many devices use theirs, and with it what
/// these share, at once.
double rateAtOnce(const Machine &machine, int from, int to, int devices);

class Estimator {
public:
  Estimator(const Problem &problem, const Machine &machine);

  LayoutCost estimate(const Layout &layout, Updates updates);

private:
  /// One pack of one direction, for one microbatch.
  struct Pack {
    bool forward = false, backward = false;
    /// Of both directions, in a turn of several packs, of which it is not the
    /// last: so many microbatches are between them. 0: none.
    int64_t underWay = 0;
    int64_t microbatch = 1;
    double forwardSeconds = 0, backwardSeconds = 0;
    double tensors = 0;     ///< bytes
    double gradients = 0;   ///< of them
    double states = 0;      ///< of optimizer state that is updated behind it
    double updated = 0;     ///< bytes of tensors that are
    double saved = 0;       ///< saved blocks and inner values, all layers
    double segment = 0;     ///< those of the largest segment
    double largest = 0;     ///< of one layer: saved block, workspace, values
    double beside = 0;      ///< of one layer: the least that is not in `saved`
    double inputs = 0;      ///< of a sample: values from other packs
    double stashes = 0;     ///< of a sample: what segments begin with
    double leaves = 0;      ///< what a forward pack leaves for backward packs
    bool fromBatch = false; ///< the first input comes from the batch memory
    double tensorCount = 0, gradientCount = 0; ///< of those above
  };
  /// Of a layout.
  struct Packs {
    std::vector<Pack> forward, backward;
  };
  /// All that one device does.
  struct Load {
    double compute = 0, recompute = 0;
    double in = 0, out = 0; ///< bytes over its links to the host
    double needed = 0;      ///< bytes of all that could stay
    double most = 0;        ///< bytes of the largest pack
    double least = 0;       ///< those that it cannot do without
    double ahead = 0; ///< bytes of a pack's tensors and gradients, at most
    double saved = 0; ///< bytes of all saved blocks that may be kept
    double peer = 0;  ///< bytes that it sends to the other groups
    double waits = 0; ///< seconds that values of a pack take longer than it
  };

  const Problem &problem;
  const Machine &machine;
  std::vector<int> seenBy; ///< by tensor: the last pack that has it
  int packs = 0;
  std::vector<Load> loads;
  std::map<int64_t, std::vector<const Cost *>> costs; ///< by u, by layer
  std::map<Layout, Packs> described;                  ///< the last ones

  const Packs &packsOf(const Layout &layout);
  Pack describe(const Layout &layout, int first, int last, int64_t microbatch,
                bool forward, bool backward);
  void add(const Layout &layout, const Pack &pack, int device, Updates updates);
  double tail(const Layout &layout, const Pack &last, Updates updates) const;
  LayoutCost total(const Layout &layout, Updates updates) const;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_ESTIMATE_H
