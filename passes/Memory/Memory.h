//===- Memory.h - Addresses and their proof ---------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MEMORY_MEMORY_H
#define PASSES_MEMORY_MEMORY_H

#include "compiler/Planner/Plan.h"
#include "dialects/Harmony/Harmony.h"

#include "mlir/IR/BuiltinOps.h"

namespace harmony {

/// Gives every buffer its plan's offset, and every home that of the step's plan
/// (the evaluation's, where that is the only program); homes beside that plan
/// follow in order behind its host bytes. A plan that is null has no program in
/// the module.
mlir::LogicalResult assignAddresses(mlir::ModuleOp module,
                                    const planner::Plan *step,
                                    const planner::Plan *evaluate);

/// Replays the queues of all programs with their addresses, nothing but queue
/// order and waits ordering commands: load, two steps and store; two
/// evaluations. Knows no plan. An error at the op concerned when
///  * a queue never gets past a wait,
///  * bytes lie outside of their arena,
///  * bytes are read that hold something else, another microbatch, or nothing,
///  * a read is not ordered after the write of what it reads,
///  * a write is not ordered after earlier reads and writes of its bytes.
mlir::LogicalResult verifyMemory(mlir::ModuleOp module);

/// Highest end of the buffers of a program on a device.
int64_t getPeakBytes(mlir::ModuleOp module, schedule::ProgramKind kind,
                     int64_t device);
/// End of the host store.
int64_t getHostBytes(mlir::ModuleOp module);

} // namespace harmony

#endif // PASSES_MEMORY_MEMORY_H
