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

#include "compiler/Driver/Measured.h"
#include "compiler/Planner/Search.h"

#include <functional>
#include <set>

namespace harmony {

/// What the flags pin of the training step, or of the evaluation.
planner::SearchOptions searchOptions(const CompilerOptions &options,
                                     bool training);

struct PlanOutcome {
  int exitCode = kDone;
  std::string message; ///< when exitCode is not kDone
  planner::Machine machine;
  planner::Planned planned;
};

/// The machine of --machine, or the documented built-in one: --devices of them
/// (as many as the plan `given` has, else one), which share half of the memory
/// that the system has available. --devices, --device-memory and --host-memory
/// override a file; `trainingState`: bytes that a percentage refers to. On an
/// error the message is set.
planner::Machine loadMachine(const CompilerOptions &options,
                             int64_t trainingState, const planner::Plan *given,
                             std::string &error);

/// The plan in a file; nothing, and a message, on failure. It is not verified.
std::optional<planner::Plan> readPlan(const std::string &path,
                                      std::string &error);

/// Links and checks `problem`, applies the flags and solves; or verifies and
/// takes the plan `given`, where that is not null.
PlanOutcome planProblem(planner::Problem &problem,
                        const planner::Machine &machine,
                        const CompilerOptions &options,
                        const planner::Plan *given);

/// planner::describe.
std::string describePlanned(const planner::Planned &planned,
                            const planner::Problem &problem,
                            const planner::Machine &machine);

/// The options with what --keep-numerics pins on so many devices.
CompilerOptions pinnedOptions(const CompilerOptions &options,
                              const NumericsPins &pins, int devices);

/// Those that have a queue with events.
std::set<int> busyDevices(const planner::Plan &plan);

/// A warning of those of the machine's devices that the plan leaves idle.
void warnOfIdleDevices(const planner::Plan &plan,
                       const planner::Problem &problem, int devices);

/// What limits the plan, the best plans of other forms and, `withOthers`, what
/// the same search finds on other machines, for people. `planWider` plans with
/// such options on a machine with another number of devices, whose rates may be
/// others too.
std::string explainPlanned(
    const planner::Planned &planned, const planner::Problem &problem,
    const planner::Machine &machine, const CompilerOptions &options,
    bool withOthers,
    const std::function<PlanOutcome(const planner::Machine &,
                                    const CompilerOptions &)> &planWider);

/// The picture of one iteration of `model`, written to a file; a message on
/// failure.
std::string writePicture(const std::string &path,
                         const planner::Planned &planned,
                         const planner::Problem &problem,
                         const planner::Machine &machine,
                         const std::string &model);

/// Plan and summary as one JSON document, written to a file; a message on
/// failure.
std::string writePlan(const std::string &path, const planner::Planned &planned,
                      const planner::Problem &problem,
                      const std::string &numericsKey);

} // namespace harmony

#endif // COMPILER_DRIVER_PLANNING_H
