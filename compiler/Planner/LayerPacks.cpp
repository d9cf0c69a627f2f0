//===- LayerPacks.cpp - Packs by layer ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/LayerPacks.h"

namespace harmony::planner {

LayerPacks::LayerPacks(const Problem &problem, const Layout &layout)
    : forward(problem.layers.size(), -1), backward(forward),
      forwardSize(problem.layers.size(), layout.forwardMicrobatch),
      backwardSize(problem.layers.size(), layout.backwardMicrobatch) {
  for (int p = 0; p < static_cast<int>(layout.backwardEnds.size()); ++p)
    for (int l = layout.firstBackward(p); l <= layout.backwardEnds[p]; ++l) {
      backward[l] = p;
      forwardSize[l] = backwardSize[l] = layout.backwardSize(p);
    }
  for (int f = 0; f < static_cast<int>(layout.forwardEnds.size()); ++f)
    for (int l = layout.firstForward(f); l <= layout.forwardEnds[f]; ++l) {
      forward[l] = f;
      forwardSize[l] = layout.forwardSize(f);
    }
}

std::vector<int> usersOf(const Value &value) {
  std::vector<int> users = value.consumers;
  if (!value.isInput())
    users.push_back(value.producer);
  return users;
}

std::vector<char> mixedValues(const Problem &problem, const Layout &layout,
                              bool gradients) {
  std::vector<char> mixed(problem.values.size(), 0);
  if (layout.forwardSizes.empty() && layout.backwardSizes.empty() &&
      (layout.forwardMicrobatch == layout.backwardMicrobatch ||
       layout.backwardEnds.empty()))
    return mixed;
  LayerPacks packs(problem, layout);
  for (size_t v = 0; v < mixed.size(); ++v) {
    std::vector<int> users = usersOf(problem.values[v]);
    int64_t u = packs.backwardSize[users.front()];
    for (int l : users)
      mixed[v] |= packs.backwardSize[l] != u ||
                  (!gradients && packs.forwardSize[l] != u);
  }
  return mixed;
}

} // namespace harmony::planner
