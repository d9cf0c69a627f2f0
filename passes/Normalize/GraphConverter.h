//===- GraphConverter.h - Nodes to tensor algebra ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_GRAPHCONVERTER_H
#define PASSES_NORMALIZE_GRAPHCONVERTER_H

#include "dialects/ONNX/InitializerData.h"
#include "passes/Normalize/Binder.h"

#include "llvm/ADT/SetVector.h"

namespace harmony::normalize {

/// The elements of a constant; null, with an error in `builder`, for types that
/// have none.
Tensor knownFromAttribute(TensorBuilder &builder, mlir::ElementsAttr elements);
/// The same from ONNX's raw layout.
Tensor knownFromBytes(TensorBuilder &builder, mlir::RankedTensorType type,
                      llvm::ArrayRef<char> bytes);

/// Calls converters on nodes, one after the other, and keeps what ONNX values
/// became.
class GraphConverter {
public:
  explicit GraphConverter(TensorBuilder &builder) : builder(builder) {}

  void bind(mlir::Value value, NodeValue converted) {
    values[value] = std::move(converted);
  }
  void bind(mlir::Value value, Tensor tensor);
  bool isBound(mlir::Value value) const { return values.count(value); }
  /// Null where the value's node was refused.
  Tensor get(mlir::Value value) const;

  /// Reports nodes among `ops` that have no converter, all of them.
  static mlir::LogicalResult
  checkSupported(llvm::ArrayRef<mlir::Operation *> ops);

  /// Converts one node; reports why it cannot be. Nodes that depend on a
  /// refused one are passed over.
  void convert(onnx::NodeOp node);
  bool hasFailed() const { return failed; }

private:
  TensorBuilder &builder;
  llvm::DenseMap<mlir::Value, NodeValue> values;
  bool failed = false;
};

/// "node 'x' (Gemm, opset version 13): " at the node.
mlir::InFlightDiagnostic emitNodeError(onnx::NodeOp node);

/// The operations of the block that `roots` depend on, in order. Operations for
/// which `stop` is true are left out, and what they alone depend on.
llvm::SmallVector<mlir::Operation *>
getLiveOps(mlir::Block &block, llvm::ArrayRef<mlir::Value> roots,
           llvm::function_ref<bool(mlir::Operation *)> stop = nullptr);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_GRAPHCONVERTER_H
