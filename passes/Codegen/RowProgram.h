//===- RowProgram.h - What one launch computes ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The unit that a target turns into code: for one index of the outermost
// parallel dimension, a few loads, elementwise ops, reductions along the row,
// and stores. It names no registers, lanes or threads; HostLanes and GpuLanes
// do.
//
// A row is an index of the `outer` axes; its elements are the indices of the
// `inner` axes in row-major order. Reductions combine a row's elements in this
// order: element i goes to lane i % 32 for i < length / 32 * 32; the lanes are
// combined by halving (lane j with j + 16, then 8, 4, 2, 1); then the remaining
// elements follow in order.
//
// Where a program is chunked, the last `reducedOuter` outer axes are combined:
// 64 consecutive rows, starting from the identity, make one partial row.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_ROWPROGRAM_H
#define PASSES_CODEGEN_ROWPROGRAM_H

#include "passes/Codegen/Graph.h"

namespace harmony::codegen {

/// Elements that an access moves by per step of each outer and inner axis.
struct AxisStrides {
  llvm::SmallVector<int64_t, 4> outer, inner;
};

/// Its operands are earlier nodes of the program.
struct RowNode : NodeBase {
  using NodeBase::NodeBase;
  /// Of a group, with its operands and memory there.
  explicit RowNode(const NodeBase &node) : NodeBase(node) {}

  AxisStrides strides;

  /// Whether the value differs along the row. Reductions are of the row as a
  /// whole.
  bool isRow = false;
  /// Passes over the row that must be over before the value can be computed.
  unsigned level = 0;
};

struct RowStore {
  RowStore(unsigned node, unsigned memory) : node(node), memory(memory) {}

  unsigned node;
  unsigned memory;
  int64_t offset = 0;
  AxisStrides strides;
  /// An element for every inner index rather than one per row.
  bool isRow = false;
  bool accumulate = false;
  /// A partial of a chunk: combined by `reduction` with what the chunk has so
  /// far.
  bool partial = false;
  nn::ReduceKind reduction = nn::ReduceKind::sum;
  int64_t chunkStride = 0;
  /// The buffer is read by the program as well: written in the last pass alone.
  bool inPlace = false;
};

struct RowProgram {
  llvm::SmallVector<int64_t> outer, inner; ///< extents
  unsigned reducedOuter = 0;
  bool chunked = false;
  /// The row is the range of the launch: a map over one axis.
  bool flat = false;
  std::vector<Memory> memories;
  std::vector<RowNode> nodes; ///< operands before users
  std::vector<RowStore> stores;

  int64_t getRowLength() const;
  /// Rows combined into partials: the product of the reduced outer extents.
  int64_t getReducedRows() const;
  int64_t getChunks() const;
  int64_t getExtent() const;
  int64_t getGrain() const;
  int getFamily() const;
};

/// The programs of a group in the order in which they must run, and the bytes
/// of its temporaries. Fails with an error at the op.
mlir::LogicalResult planRowPrograms(Graph &graph,
                                    std::vector<RowProgram> &programs);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_ROWPROGRAM_H
