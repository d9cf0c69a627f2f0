//===- Extent.h - An axis's extent, whatever the batch -------- -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_EXTENT_H
#define DIALECTS_NN_EXTENT_H

#include "dialects/NN/NN.h"

namespace harmony::nn {

/// An extent, 0 + factor for the batch axis: equal extents compare equal.
struct Extent {
  int64_t size, factor;
  bool operator==(const Extent &other) const {
    return size == other.size && factor == other.factor;
  }
};

/// The extent of `axis` of `type`.
inline Extent getExtent(mlir::RankedTensorType type, int64_t axis) {
  BatchAttr batch = getBatch(type);
  if (batch && batch.getAxis() == axis)
    return {0, batch.getFactor()};
  return {type.getDimSize(axis), 0};
}

} // namespace harmony::nn

#endif // DIALECTS_NN_EXTENT_H
