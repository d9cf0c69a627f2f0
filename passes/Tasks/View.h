//===- View.h - Tensors as strided memory -----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_VIEW_H
#define PASSES_TASKS_VIEW_H

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace harmony {

/// Bytes of one element in memory: booleans take a whole byte.
int64_t elementBytes(mlir::Type element);
/// Bytes of a static tensor, contiguous.
int64_t tensorBytes(mlir::RankedTensorType type);

/// Where the elements of a static tensor lie: element (i0, ..) is `offset +
/// sum i * stride` elements from the beginning of buffer `buffer` (an index
/// that the owner of the view gives its meaning). Strides are 0 along repeated
/// axes.
struct View {
  int buffer = -1;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;

  /// Row-major from the beginning of a buffer.
  static View contiguous(int buffer, llvm::ArrayRef<int64_t> shape);
  bool isContiguous(llvm::ArrayRef<int64_t> shape) const;
  /// Whether the elements of a tensor of `shape` lie in the same places.
  /// Strides of axes of one element do not matter.
  bool isSame(const View &other, llvm::ArrayRef<int64_t> shape) const;

  View transpose(llvm::ArrayRef<int64_t> permutation) const;
  View slice(llvm::ArrayRef<int64_t> starts,
             llvm::ArrayRef<int64_t> steps) const;
  /// The same elements, in row-major order of the axes, as another shape;
  /// nothing where strides cannot say it.
  std::optional<View> reshape(llvm::ArrayRef<int64_t> from,
                              llvm::ArrayRef<int64_t> to) const;
  /// Elements from `offset` to the last one, plus one.
  int64_t span(llvm::ArrayRef<int64_t> shape) const;
};

/// The strides of a row-major tensor.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

} // namespace harmony

#endif // PASSES_TASKS_VIEW_H
