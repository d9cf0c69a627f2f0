//===- Window.h - Geometry of convolution and pooling -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What nn.window, nn.fold, nn.max_pool, nn.sum_pool and nn.unpool share: see
// NNOps.td for what the attributes mean.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_WINDOW_H
#define DIALECTS_NN_WINDOW_H

#include "dialects/NN/Algebra.h"
#include "dialects/NN/Evaluate.h"

namespace harmony::nn {

/// Windows over the axes [axis, axis + rank) of an image; one entry per axis in
/// each list.
struct Window {
  int64_t axis = 0;
  llvm::SmallVector<int64_t, 3> kernel, strides, dilations, low;

  int64_t rank() const { return static_cast<int64_t>(kernel.size()); }
  /// Elements of one window.
  int64_t size() const;
  /// Where window `out` has offset `offset` along spatial axis `index`; it may
  /// lie in the padding.
  int64_t locate(int64_t index, int64_t out, int64_t offset) const {
    return out * strides[index] + offset * dilations[index] - low[index];
  }
};

/// Whether `op` is one of the five ops that have a window.
bool isWindowOp(mlir::Operation *op);
/// The window of such an op.
Window getWindow(mlir::Operation *op);
/// The tensor of such an op that has the extents n: the result of fold and
/// unpool, else the operand.
mlir::RankedTensorType getImageType(mlir::Operation *op);
/// The tensor that has the extents out: the other one.
mlir::RankedTensorType getWindowType(mlir::Operation *op);

/// The types of windows of an image and of what is pooled from it, for the
/// extents `out`.
mlir::RankedTensorType inferWindow(mlir::RankedTensorType image,
                                   const Window &window,
                                   llvm::ArrayRef<int64_t> out);
mlir::RankedTensorType inferPool(mlir::RankedTensorType image,
                                 const Window &window,
                                 llvm::ArrayRef<int64_t> out);
/// The type of positions in a window: the smallest integers that hold them.
mlir::Type getPositionType(mlir::MLIRContext *context, const Window &window);

/// The type of the result of an nn.depthwise; nothing where the extents do not
/// fit.
std::optional<mlir::RankedTensorType>
inferDepthwise(mlir::RankedTensorType operand, mlir::RankedTensorType weights,
               int64_t axis, llvm::ArrayRef<int64_t> strides,
               llvm::ArrayRef<int64_t> dilations);

/// The offsets of the windows of an nn.depthwise, in row-major order.
llvm::SmallVector<llvm::SmallVector<int64_t>> getOffsets(DepthwiseOp op);

/// The elements of `operand`, which is or stands for that of `op`, that the
/// windows have at `offset`, and the weights [C] of that offset.
mlir::Value sliceAt(Algebra &algebra, DepthwiseOp op, mlir::Value operand,
                    llvm::ArrayRef<int64_t> offset);
mlir::Value weightsAt(Algebra &algebra, DepthwiseOp op,
                      llvm::ArrayRef<int64_t> offset);

/// Fills `results`, zeros of static types, with what such an op computes of
/// `operands`.
void evaluateWindow(mlir::Operation *op,
                    llvm::ArrayRef<const HostTensor *> operands,
                    llvm::MutableArrayRef<HostTensor> results);

} // namespace harmony::nn

#endif // DIALECTS_NN_WINDOW_H
