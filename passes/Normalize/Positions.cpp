//===- Positions.cpp - Indices along an axis ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Positions.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Tensor harmony::normalize::knownPositions(TensorBuilder &t, Type type,
                                          int64_t extent, int64_t rank,
                                          int64_t axis) {
  Shape shape(rank, Extent{1, 0});
  shape[axis] = Extent{extent, 0};
  std::vector<Element> elements;
  for (int64_t i = 0; i < extent; ++i) {
    Element element{i};
    element.real = isa<FloatType>(type) ? static_cast<double>(i) : 0;
    elements.push_back(element);
  }
  return t.known(type, shape, std::move(elements));
}

Tensor harmony::normalize::linearIndex(TensorBuilder &t, const Tensor &indices,
                                       ArrayRef<Extent> shape, int64_t first) {
  int64_t last = indices.rank() - 1;
  Tensor linear;
  for (int64_t axis = first; axis < indices.shape().back().size; ++axis) {
    int64_t extent = shape[axis].size;
    Tensor coordinate = t.fromEnd(
        t.squeeze(t.sliceAxis(indices, last, axis, 1), {last}), extent);
    linear = linear ? t.add(t.multiply(linear, t.scalarLike(linear, extent)),
                            coordinate)
                    : coordinate;
  }
  return linear;
}
