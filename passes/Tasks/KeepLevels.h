//===- KeepLevels.h - Parts of a saved block to keep ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a forward saves for its backward is kept from one to the other by
// levels: each keeps a beginning of the saved block, and a task of its own
// makes the rest again. Values stand in the block by the seconds that keeping a
// byte of them saves.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_KEEPLEVELS_H
#define PASSES_TASKS_KEEPLEVELS_H

#include "passes/Tasks/BuildModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony {

/// The segments of a saved block: level k keeps the first k - 1 of them.
struct SavedSegments {
  llvm::SmallVector<int64_t> segmentOf; ///< by saved value
  int count = 0;
};

/// Divides the last `saved` results of a layer's forward into at most
/// `mostSegments` segments. Values are dropped one by one, first the one whose
/// recomputation, with what is needed of those dropped before, takes the least
/// seconds for a byte; a boundary is where bytes against seconds has a corner
/// of its lower hull. Seconds are those of products and of memory traffic, op
/// by op, at `microbatch`.
SavedSegments divideSaved(mlir::func::FuncOp forward, int64_t saved,
                          int64_t microbatch, const CostRates &rates);

inline constexpr int mostSegments = 4;

struct Recomputation {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  /// The forward's arguments that it has, ascending: those which it reads.
  llvm::SmallVector<int64_t> arguments;
};

/// The forward again from its arguments, as far as they are still read, and
/// what is kept: the saved values of the first `kept` segments become further
/// arguments, in order; the others are all that is returned. Groups are left
/// whole, so that their kernels are those of the forward. The more is kept, the
/// fewer arguments are read.
Recomputation makeRecomputation(mlir::func::FuncOp forward,
                                const SavedSegments &segments, int kept);

} // namespace harmony

#endif // PASSES_TASKS_KEEPLEVELS_H
