//===- Paging.h - A device memory that is virtual ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the baselines: from operations in program order to a plan whose
// transfers are those of paging with least-recently-used replacement. The order
// of accesses is known, so that paging is simulated once, here.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PAGING_H
#define COMPILER_PLANNER_PAGING_H

#include "compiler/Planner/Build.h"

#include <map>
#include <optional>

namespace harmony::planner {

/// What is loaded and evicted as a whole.
struct Piece {
  Content content = Content::Tensor; ///< Tensor, State, Gradient, Value,
                                     ///< ValueGradient or Saved
  int object = -1;
  int use = -1;            ///< gradient part
  int64_t firstSample = 0; ///< of its microbatch
  int64_t bytes = 0;
};

struct Need {
  int piece = 0;
  bool writes = false;
  bool creates = false; ///< overwrites: there is nothing to load
};

struct Operation {
  EventKind kind = EventKind::Run; ///< Run, Contribute, Epilogue or Update
  int device = 0;
  bool onHost = false; ///< an Update or Contribute that finds all at home
  int phase = -1;
  int tensor = -1;
  std::vector<Need> needs;    ///< no piece twice
  int64_t transientBytes = 0; ///< in the operation alone
};

/// Each phase has one trip and one layer, and is run by one operation.
struct PagedProgram {
  std::vector<Phase> phases;
  int groups = 1;
  std::vector<Piece> pieces;
  std::vector<Operation> operations; ///< in program order
};

/// Pieces and transients of an operation.
int64_t footprint(const PagedProgram &program, const Operation &operation);

/// Nothing if an operation does not fit beside what cannot leave.
std::optional<Draft> page(const Problem &problem, const Machine &machine,
                          const PagedProgram &program,
                          const std::vector<int64_t> &limits);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PAGING_H
