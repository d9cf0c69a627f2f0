//===- LayerPacks.h - Packs by layer ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_LAYERPACKS_H
#define COMPILER_PLANNER_LAYERPACKS_H

#include "compiler/Planner/Layout.h"

namespace harmony::planner {

/// By layer: the pack of each direction and its microbatch. Layers of the turn
/// are in no forward pack, but have its microbatch.
struct LayerPacks {
  std::vector<int> forward, backward; ///< -1: none
  std::vector<int64_t> forwardSize, backwardSize;

  LayerPacks(const Problem &problem, const Layout &layout);
};

/// Layers that make or read a value.
std::vector<int> usersOf(const Value &value);

/// By value: whether phases of different microbatches use it, or `gradients`,
/// its gradient. It then goes through the host, and no part of it may stay on
/// the way.
std::vector<char> mixedValues(const Problem &problem, const Layout &layout,
                              bool gradients);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_LAYERPACKS_H
