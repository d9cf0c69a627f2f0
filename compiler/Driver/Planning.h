//===- Planning.h - From a problem to a plan, with flags --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The border between the planner, which throws, and MLIR code, which does not.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PLANNING_H
#define COMPILER_DRIVER_PLANNING_H

#include "compiler/Driver/Options.h"
#include "compiler/Planner/Search.h"

namespace harmony {

struct PlanOutcome {
  int exitCode = kDone;
  std::string message; ///< when exitCode is not kDone
  planner::Machine machine;
  planner::Planned planned;
};

/// The machine of --machine, or the documented built-in one: one device, with
/// what memory the system has available as capacity. On an error the message is
/// set.
planner::Machine loadMachine(const CompilerOptions &options,
                             std::string &error);

/// Links and checks `problem`, applies the flags and solves. `trainingState`:
/// bytes that a percentage refers to.
PlanOutcome planProblem(planner::Problem &problem, planner::Machine machine,
                        const CompilerOptions &options, int64_t trainingState);

/// planner::describe.
std::string describePlanned(const planner::Planned &planned,
                            const planner::Problem &problem,
                            const planner::Machine &machine);

/// Plan and summary as one JSON document, written to a file; a message on
/// failure.
std::string writePlan(const std::string &path, const planner::Planned &planned,
                      const planner::Problem &problem,
                      const std::string &numericsKey);

} // namespace harmony

#endif // COMPILER_DRIVER_PLANNING_H
