//===- Schedule.h - From a plan to queues of commands -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps from tasks and a plan to programs of queues, in order. Each is a
// pass of Passes.td as well. All of them report errors at the op concerned and
// change nothing that they do not name. The plan is the one the program was
// built from.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_SCHEDULE_H
#define PASSES_SCHEDULE_SCHEDULE_H

#include "compiler/Planner/Plan.h"
#include "dialects/Harmony/Harmony.h"
#include "passes/Tasks/Model.h"

#include "mlir/IR/BuiltinOps.h"

namespace harmony {

/// One `harmony.device` for each device of the machine, its links and resources.
/// `used`: devices that plans use, for Sharing::Static. What the machine takes
/// at the end of a phase becomes an attribute of the module, for buildProgram.
void addDevices(mlir::ModuleOp module, const planner::Machine &machine,
                int used);
inline constexpr llvm::StringLiteral phaseSecondsAttr = "harmony.phase_seconds";

/// Adds the places and the program of `kind` (step or evaluate) in issue order,
/// without any transfer: packs, updates, zeroing, prologue. The module holds
/// the tasks that Model.h names, the model's nn.variable and nn.step_scalars
/// ops and @main (with @evaluate, where that is built), for inputs and outputs.
/// With the step come the programs load and store; what an evaluation plan
/// keeps on the device is loaded at the start of each execution. The step is
/// built before the evaluation, which shares the homes of its variables.
mlir::LogicalResult buildProgram(mlir::ModuleOp module, const Model &model,
                                 const planner::Plan &plan,
                                 schedule::ProgramKind kind);

/// Correct first: every tensor, stash and gradient is brought in before each
/// pack and update that touches it, and taken out after it. What a pack makes
/// goes to every device that ever holds it, and around updates on devices
/// stand the collectives that bring all parts of their gradients and spread
/// what they change.
mlir::LogicalResult insertSwaps(schedule::ProgramOp program);

/// Collectives as copies from one device to another, in their order.
mlir::LogicalResult expandCollectives(schedule::ProgramOp program);

/// Removes exactly the transfers that planner::requiredTransfers does not list,
/// and numbers the rest with the plan's events.
mlir::LogicalResult elideSwaps(schedule::ProgramOp program,
                               const planner::Plan &plan,
                               const planner::Problem &problem);

/// Moves each transfer to its place in the plan's issue order: prefetch and
/// delayed stores.
mlir::LogicalResult hoistSwaps(schedule::ProgramOp program,
                               const planner::Plan &plan);

/// The transfers of the program are the plan's list, in the plan's order.
mlir::LogicalResult verifySwaps(schedule::ProgramOp program,
                                const planner::Plan &plan,
                                const planner::Problem &problem);

/// Splits the sequence into the plan's queues, with the plan's waits as
/// timeline values.
mlir::LogicalResult scheduleQueues(schedule::ProgramOp program,
                                   const planner::Plan &plan);

/// The programs of a kind: step has load and store beside it.
llvm::SmallVector<schedule::ProgramOp> getPrograms(mlir::ModuleOp module,
                                                   schedule::ProgramKind kind);

/// All of the above for one plan.
mlir::LogicalResult schedulePlan(mlir::ModuleOp module, const Model &model,
                                 const planner::Plan &plan,
                                 schedule::ProgramKind kind);

} // namespace harmony

#endif // PASSES_SCHEDULE_SCHEDULE_H
