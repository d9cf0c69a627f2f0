//===- Positions.h - Indices along an axis -------------------- -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_POSITIONS_H
#define PASSES_NORMALIZE_POSITIONS_H

#include "passes/Normalize/TensorBuilder.h"

namespace harmony::normalize {

/// 0 .. extent - 1 of `type` along `axis`, known elements of a shape that
/// broadcasts to a tensor of `rank`.
Tensor knownPositions(TensorBuilder &t, mlir::Type type, int64_t extent,
                      int64_t rank, int64_t axis);

/// Coordinates `first` and on of the last axis of `indices` as one index into
/// the elements of those axes of `shape`, in row-major order. Negative ones
/// count from the end.
Tensor linearIndex(TensorBuilder &t, const Tensor &indices,
                   llvm::ArrayRef<Extent> shape, int64_t first);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_POSITIONS_H
