//===- SearchContext.h - What the parts of a search share -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SEARCHCONTEXT_H
#define COMPILER_PLANNER_SEARCHCONTEXT_H

#include "compiler/Planner/Estimate.h"
#include "compiler/Planner/SearchSpace.h"
#include "compiler/Planner/Shape.h"

namespace harmony::planner {

/// A problem and what is known of it before a plan is built. The problem, its
/// machine and the options are kept by reference.
struct SearchContext {
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  int64_t effort; ///< for layouts: SearchPolicy::effortFor
  SearchSpace space;
  Shapes shapes;
  Estimator estimator;

  /// `estimated`: the machine that shapes and estimates are made for, where it
  /// is another one.
  SearchContext(const Problem &problem, const Machine &machine,
                const SearchOptions &options, const Machine &estimated,
                int64_t effort)
      : problem(problem), machine(machine), options(options), effort(effort),
        space(problem, machine, options), shapes(problem, estimated),
        estimator(problem, estimated) {}
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SEARCHCONTEXT_H
