//===- Fuse.h - Puts together what exporters take apart ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Recognises composites of nn that are written out in primitives. What replaces
// them computes the same in exact arithmetic, and is defined wherever they are.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_FUSE_H
#define PASSES_NORMALIZE_FUSE_H

#include "dialects/NN/Algebra.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace harmony::normalize {

/// Attribute of the module: one dictionary {op, nodes} for each composite that
/// was recognised, in the order of the graph. `nodes` are the names of the ONNX
/// nodes that it was made of.
inline constexpr llvm::StringLiteral kFusionsAttr = "nn.fusions";

class Fuser {
public:
  explicit Fuser(mlir::Block &block) : block(block) {}

  /// Replaces what it recognises. Ops without uses are left behind.
  void run();
  /// What was recognised and is still there, as kFusionsAttr holds it.
  mlir::ArrayAttr takeReport();

private:
  // Each looks at one op as the last of a pattern, and tells whether it
  // was one.
  bool fuseGelu(mlir::Operation *op);
  bool fuseSigmoid(mlir::Operation *op);
  bool fuseLayerNorm(mlir::Operation *op);
  bool fuseScaleAndShift(mlir::Operation *op);
  bool fuseSoftmax(mlir::Operation *op);
  bool fuseLogSoftmax(mlir::Operation *op);
  bool fuseCrossEntropy(mlir::Operation *op);

  /// `by` is computed from `leaves`, and `composite` is the op to report. Null
  /// leaves are ignored.
  void replace(mlir::Operation *root, mlir::Value by,
               mlir::Operation *composite, llvm::ArrayRef<mlir::Value> leaves);

  mlir::Block &block;
};

/// Moves unit axes, which reductions leave where they keep axes, from the
/// operands of elementwise ops to their results and into broadcasts: what
/// follows a reduction is then work on its result's own shape, and shares its
/// kernel.
void sinkUnitAxes(mlir::Block &block);

// What patterns are made of. Each gives nothing where `value` is not of
// its form.

/// The number that all elements of `value` are.
std::optional<double> getSplat(mlir::Value value);
bool isNear(double a, double b);
/// The tensor of leading axes [0, axis) that is repeated along the others.
mlir::Value getRows(mlir::Value value, int64_t axis);
/// The operand of a reduction over the trailing axes [axis, rank), for
/// `axis` being the rank of `value`.
mlir::Value getRowReduction(mlir::Value value, nn::ReduceKind kind);
/// The operands of a commutative op, in both orders.
llvm::SmallVector<std::pair<mlir::Value, mlir::Value>, 2>
bothOrders(mlir::Operation *op);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_FUSE_H
