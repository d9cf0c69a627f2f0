//===- SavedSet.h - What the forward saves for the backward -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_AUTODIFF_SAVEDSET_H
#define PASSES_AUTODIFF_SAVEDSET_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace harmony::autodiff {

/// Whether the backward may compute this value again from the operands that
/// getRecomputeOperands() names, with the same bits and no sum over many
/// elements: elementwise and shape ops, windows, pools, softmax, and a
/// layer_norm's result given its statistics.
bool isRecomputable(mlir::Value value);

/// The values that recomputing `value` reads.
llvm::SmallVector<mlir::Value> getRecomputeOperands(mlir::Value value);

/// The fewest bytes per sample to save such that all of `reads`, values of one
/// block, can be had in the backward: from arguments, which cost nothing, from
/// what is saved, and by recomputing. It is a minimum cut of the forward's data
/// flow (the rematerialisation of PyTorch's min-cut partitioner). Of equal cuts
/// it is one through values that are in memory anyway, and of those the latest:
/// least is recomputed. Returned in the order of the forward.
llvm::SmallVector<mlir::Value>
chooseSavedValues(llvm::ArrayRef<mlir::Value> reads);

} // namespace harmony::autodiff

#endif // PASSES_AUTODIFF_SAVEDSET_H
