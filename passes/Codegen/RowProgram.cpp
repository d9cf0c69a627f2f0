//===- RowProgram.cpp - What one launch computes --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/RowProgram.h"

#include "runtime/program.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

static int64_t product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

int64_t RowProgram::getRowLength() const { return product(inner); }

int64_t RowProgram::getReducedRows() const {
  return product(ArrayRef<int64_t>(outer).take_back(reducedOuter));
}

int64_t RowProgram::getChunks() const {
  return llvm::divideCeil(getReducedRows(), kChunkRows);
}

int64_t RowProgram::getExtent() const {
  if (flat)
    return getRowLength();
  if (chunked)
    return product(ArrayRef<int64_t>(outer).drop_back(reducedOuter)) *
           getChunks();
  return product(outer);
}

int64_t RowProgram::getGrain() const {
  // Enough elements to be worth a worker's attention.
  constexpr int64_t kElements = 16384;
  if (flat)
    return kElements;
  return std::max<int64_t>(
      1, kElements / (getRowLength() * (chunked ? kChunkRows : 1)));
}

int RowProgram::getFamily() const {
  if (chunked)
    return HM_FAMILY_COLUMN;
  bool computes = false, gathers = false;
  for (const RowNode &node : nodes) {
    if (node.kind == Node::Reduce)
      return HM_FAMILY_ROW;
    computes |= node.kind == Node::Element || node.kind == Node::Combine;
    gathers |= node.indexed;
  }
  return gathers    ? HM_FAMILY_GATHER
         : computes ? HM_FAMILY_POINTWISE
                    : HM_FAMILY_COPY;
}
