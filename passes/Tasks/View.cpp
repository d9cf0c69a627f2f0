//===- View.cpp - Tensors as strided memory -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/View.h"

using namespace mlir;
using namespace harmony;

int64_t harmony::elementBytes(Type element) {
  return std::max<int64_t>(element.getIntOrFloatBitWidth() / 8, 1);
}

int64_t harmony::tensorBytes(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

SmallVector<int64_t> harmony::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

View View::contiguous(int buffer, ArrayRef<int64_t> shape) {
  return {buffer, 0, rowMajorStrides(shape)};
}

bool View::isContiguous(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> expected = rowMajorStrides(shape);
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (extent != 1 && strides[axis] != expected[axis])
      return false;
  return true;
}

bool View::isSame(const View &other, ArrayRef<int64_t> shape) const {
  if (buffer != other.buffer || offset != other.offset)
    return false;
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (extent != 1 && strides[axis] != other.strides[axis])
      return false;
  return true;
}

View View::transpose(ArrayRef<int64_t> permutation) const {
  View result{buffer, offset, {}};
  for (int64_t axis : permutation)
    result.strides.push_back(strides[axis]);
  return result;
}

View View::slice(ArrayRef<int64_t> starts, ArrayRef<int64_t> steps) const {
  View result = *this;
  for (auto [axis, stride] : llvm::enumerate(strides)) {
    result.offset += starts[axis] * stride;
    result.strides[axis] = stride * steps[axis];
  }
  return result;
}

std::optional<View> View::reshape(ArrayRef<int64_t> from,
                                  ArrayRef<int64_t> to) const {
  View result{buffer, offset, SmallVector<int64_t>(to.size(), 0)};
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // The smallest runs of axes on both sides that hold equally many elements.
    size_t iEnd = i, jEnd = j;
    int64_t left = 1, right = 1;
    if (iEnd < from.size())
      left *= from[iEnd++];
    if (jEnd < to.size())
      right *= to[jEnd++];
    while (left != right) {
      if (left < right && iEnd < from.size())
        left *= from[iEnd++];
      else if (jEnd < to.size())
        right *= to[jEnd++];
      else
        return std::nullopt;
    }
    // The axes on the left must be one run of memory with a constant step.
    int64_t step = 0;
    bool first = true;
    int64_t expected = 0;
    for (size_t axis = iEnd; axis-- > i;) {
      if (from[axis] == 1)
        continue;
      if (first)
        step = strides[axis];
      else if (strides[axis] != expected)
        return std::nullopt;
      first = false;
      expected = strides[axis] * from[axis];
    }
    for (size_t axis = jEnd; axis-- > j;) {
      result.strides[axis] = step;
      step *= to[axis];
    }
    i = iEnd;
    j = jEnd;
  }
  return result;
}

int64_t View::span(ArrayRef<int64_t> shape) const {
  int64_t last = 0;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    if (extent == 0)
      return 0;
    last += (extent - 1) * std::max<int64_t>(strides[axis], 0);
  }
  return last + 1;
}
