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

/// The same around the best of each kind, be it slower: a form, one microbatch
/// size, a place of updates and their order, which is changed, too. With so
/// much further effort, in events (SearchPolicy).
void refineKinds(SearchContext &context, Trials &trials, int64_t effort);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REFINE_H
