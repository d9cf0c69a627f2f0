//===- LowerTask.h - Functions to launches ----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_LOWERTASK_H
#define PASSES_TASKS_LOWERTASK_H

#include "dialects/Harmony/Harmony.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony {

/// How a function becomes a task.
struct TaskOptions {
  std::string name;
  int64_t microbatch = 1;

  /// The slots that stand for the function's arguments and results, by index. A
  /// result of kind argument takes the place of that argument.
  llvm::SmallVector<schedule::SlotKind> argumentKinds, resultKinds;
  llvm::SmallVector<int64_t> argumentIndices, resultIndices;

  /// Of all saved values of the forward: type, and segment of the saved block.
  /// A segment is a slot of its own; in it, a value lies behind those before
  /// it.
  llvm::SmallVector<mlir::RankedTensorType> savedTypes;
  llvm::SmallVector<int64_t> savedSegments;

  llvm::SmallVector<bool>
      accumulate;                  ///< by result: added to what the slot holds
  llvm::SmallVector<bool> discard; ///< by result: goes to the workspace
  std::optional<schedule::Family>
      family; ///< what all kernels count as; default: each its own

  /// Results are written after everything has been read: slots may share
  /// memory.
  bool writeLast = false;

  /// The workspace lies behind the first result, in its slot, from the next
  /// multiple of 64 bytes on: for tasks that nobody gives a workspace.
  bool workspaceInResult = false;
};

/// What one launch costs.
struct LaunchCost {
  double bytes = 0;  ///< read and written
  double pieces = 1; ///< that workers can share
  /// Of a product or convolution: calls of the library, one to a block, and the
  /// extents of each: rows x columns results, sums of `depth` products.
  int64_t calls = 0;
  double flops = 0;
  int64_t rows = 0, columns = 0, depth = 0;
  double operations = 0; ///< of a kernel: countOperations over its range
};

/// What one execution of a task costs.
struct TaskCost {
  std::vector<LaunchCost> launchCosts;
  schedule::TaskOp task;   ///< the task itself
  double flops = 0;        ///< of products
  double productBytes = 0; ///< read and written by products
  double kernelBytes = 0;  ///< read and written by generated kernels
  int64_t launches = 0;
  int64_t workspace = 0; ///< bytes
  /// Where the segments of the saved block begin, multiples of 64, and at the
  /// end its bytes.
  llvm::SmallVector<int64_t> savedStarts = {0};
};

/// Lowers `function`, whose groups are formed, for one microbatch size: adds a
/// harmony.task to `module` and its kernels to `kernels`. Diagnostics at the
/// locations of the ops that no kernel can be made for.
mlir::FailureOr<TaskCost> lowerTask(mlir::func::FuncOp function,
                                    const TaskOptions &options,
                                    mlir::ModuleOp module,
                                    mlir::ModuleOp kernels);

} // namespace harmony

#endif // PASSES_TASKS_LOWERTASK_H
