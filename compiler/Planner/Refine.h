//===- Refine.h - Steps around the best plans -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REFINE_H
#define COMPILER_PLANNER_REFINE_H

#include "compiler/Planner/Trials.h"

namespace harmony::planner {

/// Steps around the best trials, as long as they are better and there is effort
/// left: other orders of filling, other places of updates, fewer packs, other
/// shapes, more Runs and fewer; then, around the best of each kind, ends of
/// packs.
void refine(SearchContext &context, Trials &trials);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REFINE_H
