//===- Moves.h - Layouts that differ little from another --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_MOVES_H
#define COMPILER_PLANNER_MOVES_H

#include "compiler/Planner/Layout.h"

namespace harmony::planner {

/// Layouts of a training step with the same groups and devices that differ from
/// `layout` by one end of packs, which is elsewhere, or, in groups of one
/// device, left out or added. The turn must be one pack. Where two backward
/// packs become one, a segment begins between them, if layers may keep their
/// outputs alone.
std::vector<Layout> movesOf(const Problem &problem, const Layout &layout);

/// Of these, those that have a pack less.
std::vector<Layout> joinsOf(const Problem &problem, const Layout &layout);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_MOVES_H
