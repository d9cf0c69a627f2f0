//===- Geometry.h - Windows as ONNX's attributes say ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_GEOMETRY_H
#define PASSES_NORMALIZE_GEOMETRY_H

#include "passes/Normalize/Binder.h"

#include <limits>

namespace harmony::normalize {

/// The windows of a node over an image [N, n.., C].
struct Geometry {
  nn::Window window;
  llvm::SmallVector<int64_t> image; ///< n
  llvm::SmallVector<int64_t> high;  ///< padding behind
  llvm::SmallVector<int64_t> out;

  /// Elements from the first to the last of a window, along one axis.
  int64_t getSpan(int64_t axis) const {
    return (window.kernel[axis] - 1) * window.dilations[axis] + 1;
  }
};

/// The most that an attribute may ask for along an axis: extents made of it fit
/// into 64 bits.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

/// The attribute `name` with one entry, `least` to kMost, per spatial axis; all
/// `otherwise` where it is absent.
std::optional<llvm::SmallVector<int64_t>>
readList(Binder &b, llvm::StringRef name, int64_t size, int64_t otherwise,
         int64_t least);

/// ONNX's attributes auto_pad, dilations, kernel_shape, pads, strides and
/// ceil_mode for an image [N, C, n..]. `kernel` is that of the weights, or
/// empty. As in PyTorch and newer versions of ONNX, no window of ceil_mode
/// begins in the padding behind.
std::optional<Geometry> readGeometry(Binder &b, llvm::ArrayRef<Extent> shape,
                                     llvm::ArrayRef<int64_t> kernel);

/// The window that is the whole image.
std::optional<nn::Window> getWholeImage(Binder &b, const Tensor &x);

/// Where axis `axis` of [N, C, n..] is with the channels last.
int64_t behindChannels(int64_t axis, int64_t rank);

/// The elements at `positions` along one axis, with the channels where they
/// are.
Tensor takeAlong(TensorBuilder &t, const Tensor &x, int64_t axis,
                 llvm::ArrayRef<int64_t> positions);

/// Refuses a value of the attribute `name` that is not among `accepted`.
bool isOneOf(Binder &b, llvm::StringRef name, llvm::StringRef value,
             llvm::ArrayRef<llvm::StringRef> accepted);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_GEOMETRY_H
