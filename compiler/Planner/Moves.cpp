//===- Moves.cpp - Layouts that differ little from another ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Moves.h"

#include <algorithm>

namespace harmony::planner {

namespace {

/// Packs of one direction in front of the turn, by their last layers.
struct Packs {
  std::vector<int> ends;
  std::vector<int64_t> sizes;

  int first(size_t pack) const { return pack == 0 ? 0 : ends[pack - 1] + 1; }
  /// Two packs become one, of the size of the latter.
  void join(size_t pack) {
    ends.erase(ends.begin() + static_cast<long>(pack));
    sizes.erase(sizes.begin() + static_cast<long>(pack));
  }
  void split(size_t pack) {
    ends.insert(ends.begin() + static_cast<long>(pack),
                (first(pack) + ends[pack]) / 2);
    sizes.insert(sizes.begin() + static_cast<long>(pack), sizes[pack]);
  }
  /// The last pack ends with `layer`, be there packs behind it; -1: there is
  /// none. `size`: of one that there was not.
  void endWith(int layer, int64_t size) {
    while (!ends.empty() && first(ends.size() - 1) > layer)
      join(ends.size() - 1);
    if (layer < 0)
      return;
    if (ends.empty()) {
      ends.push_back(layer);
      sizes.push_back(size);
    }
    ends.back() = layer;
  }
};

class Moves {
public:
  Moves(const Problem &problem, const Layout &layout)
      : problem(problem), layout(layout), layers(problem.layerCount()) {
    for (int f = 0; f < static_cast<int>(layout.forwardEnds.size()); ++f) {
      forward.ends.push_back(layout.forwardEnds[f]);
      forward.sizes.push_back(layout.forwardSize(f));
    }
    for (int b = 0; b < layout.turn(); ++b) {
      backward.ends.push_back(layout.backwardEnds[b]);
      backward.sizes.push_back(layout.backwardSize(b));
    }
    for (int b = layout.turn(); b < layout.lastPack(); ++b)
      turnEnds.push_back(layout.backwardEnds[b]);
  }

  std::vector<Layout> all() {
    constexpr int part = 32; // of the layers: a step
    std::vector<int> steps{1};
    if (layers >= 2 * part)
      steps.push_back(layers / part);
    if (layout.pipeline == 1)
      joinAndSplit(true);
    for (int step : steps)
      for (int by : {-step, step}) {
        moveTurn(by);
        for (bool ofForward : {false, true}) {
          Packs &packs = ofForward ? forward : backward;
          for (size_t p = 0; p + 1 < packs.ends.size(); ++p) {
            int end = packs.ends[p] + by;
            if (end < packs.first(p) || end >= packs.ends[p + 1])
              continue;
            std::swap(packs.ends[p], end);
            add();
            std::swap(packs.ends[p], end);
          }
        }
        moveTurnEnds(by);
      }
    return std::move(found);
  }

  std::vector<Layout> joins() {
    if (layout.pipeline == 1)
      joinAndSplit(false);
    return std::move(found);
  }

private:
  const Problem &problem;
  const Layout &layout;
  int layers;
  Packs forward, backward;
  std::vector<int> turnEnds; ///< of its packs but the last
  std::vector<Layout> found;

  void joinAndSplit(bool splits) {
    const Packs before[] = {forward, backward};
    for (bool ofForward : {false, true}) {
      Packs &packs = ofForward ? forward : backward;
      const Packs &old = before[ofForward ? 0 : 1];
      for (size_t p = 0; p < old.ends.size(); ++p) {
        if (p + 1 < old.ends.size()) {
          packs.join(p);
          add(ofForward ? -1 : old.ends[p]);
          packs = old;
        }
        if (splits && old.first(p) < old.ends[p]) {
          packs.split(p);
          add();
          packs = old;
        }
      }
    }
    // The turn takes the pack in front of it.
    for (const Packs &old : before)
      if (!old.ends.empty())
        moveTurnTo(old.first(old.ends.size() - 1) - 1);
  }

  void moveTurn(int by) {
    int last = layout.turnLayer() - 1;
    int most = turnEnds.empty() ? layers - 1 : turnEnds.front();
    if (last + by < most)
      moveTurnTo(last + by);
  }

  void moveTurnEnds(int by) {
    for (size_t p = 0; p < turnEnds.size(); ++p) {
      int before = p == 0 ? layout.turnLayer() - 1 : turnEnds[p - 1];
      int behind = p + 1 < turnEnds.size() ? turnEnds[p + 1] : layers - 1;
      if (turnEnds[p] + by <= before || turnEnds[p] + by >= behind)
        continue;
      turnEnds[p] += by;
      add();
      turnEnds[p] -= by;
    }
  }

  /// Packs in front of the turn end with a layer.
  void moveTurnTo(int layer) {
    if (layer < -1)
      return;
    const Packs before[] = {forward, backward};
    int64_t size = layout.backwardSize(layout.turn());
    forward.endWith(layer, size);
    backward.endWith(layer, size);
    if (layout.pipeline == 1 || (forward.ends.size() == before[0].ends.size() &&
                                 backward.ends.size() == before[1].ends.size()))
      add();
    forward = before[0];
    backward = before[1];
  }

  /// `segment`: the last layer of one that a pack now has; -1: none.
  void add(int segment = -1) {
    Layout other = layout;
    int64_t size = layout.backwardSize(layout.turn());
    other.forwardEnds = forward.ends;
    other.backwardEnds = backward.ends;
    other.backwardEnds.insert(other.backwardEnds.end(), turnEnds.begin(),
                              turnEnds.end());
    other.backwardEnds.push_back(layers - 1);
    if (!layout.backwardSizes.empty() || !layout.forwardSizes.empty()) {
      other.forwardSizes = forward.sizes;
      other.backwardSizes = backward.sizes;
      other.backwardSizes.resize(other.backwardEnds.size(), size);
    }
    if (segment >= 0 && problem.cost(segment, size).keptBytes(1) == 0) {
      other.keep.resize(layers, 0);
      other.keep[segment] = std::max(other.keep[segment], 1);
    }
    found.push_back(std::move(other));
  }
};

} // namespace

std::vector<Layout> movesOf(const Problem &problem, const Layout &layout) {
  return Moves(problem, layout).all();
}

std::vector<Layout> joinsOf(const Problem &problem, const Layout &layout) {
  return Moves(problem, layout).joins();
}

} // namespace harmony::planner
