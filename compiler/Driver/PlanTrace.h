//===- PlanTrace.h - A plan's simulated timeline as a trace -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PLANTRACE_H
#define COMPILER_DRIVER_PLANTRACE_H

#include "compiler/Planner/Plan.h"

#include <string>

namespace harmony {

/// Writes one execution in steady state as Chrome trace events, with the tracks
/// and fields of the executable's --trace (docs/Runtime.md). A message on
/// failure.
std::string writeTrace(const std::string &path, const planner::Plan &plan,
                       const planner::Problem &problem,
                       const planner::Machine &machine);

} // namespace harmony

#endif // COMPILER_DRIVER_PLANTRACE_H
