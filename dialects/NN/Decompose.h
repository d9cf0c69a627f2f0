//===- Decompose.h - What the composites of nn mean -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one definition of each composite op (softmax, log_softmax, layer_norm, gelu,
// sigmoid, cross_entropy, random) in primitives. The order of operations here
// is the meaning: code generation, the reference evaluator and recomputation in
// the backward all take it from here, so that they agree bit by bit.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_DECOMPOSE_H
#define DIALECTS_NN_DECOMPOSE_H

#include "dialects/NN/Algebra.h"

#include <array>

namespace harmony::nn {

/// Whether `op` is defined by decompose().
bool isComposite(mlir::Operation *op);

/// Adds the primitives that compute the results of a composite, at the
/// builder's insertion point and with the op's location, and returns one value
/// per result, of the result's type. The op itself is left in place. Fails,
/// without a diagnostic, for an op that is not a composite.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
decompose(mlir::Operation *op, mlir::OpBuilder &builder);

/// (operand - mean) * inverseDeviation: what layer_norm scales and shifts.
/// `mean` and `inverseDeviation` have the leading axes of `operand`; a null
/// mean is not subtracted.
mlir::Value normalize(Algebra &algebra, mlir::Value operand, mlir::Value mean,
                      mlir::Value inverseDeviation);

/// The first result of a layer_norm from the statistics it also returns: the
/// same bits as the op itself. `shift` and `mean` may be null.
mlir::Value applyLayerNorm(Algebra &algebra, mlir::Value operand,
                           mlir::Value scale, mlir::Value shift,
                           mlir::Value mean, mlir::Value inverseDeviation);

/// The first result of a batch_norm from the statistics it also returns: the
/// same bits as the op itself.
mlir::Value applyBatchNorm(Algebra &algebra, mlir::Value operand,
                           mlir::Value scale, mlir::Value shift,
                           mlir::Value mean, mlir::Value inverseDeviation);

/// Word 0 of Philox4x32-10 (Salmon, Moraes, Dror and Shaw: Parallel random
/// numbers: as easy as 1, 2, 3; SC 2011), elementwise on i64 values below 2^32.
mlir::Value philox(Algebra &algebra, std::array<mlir::Value, 4> counter,
                   std::array<mlir::Value, 2> key);

/// Constants of the tanh form of gelu: tanh(kGeluScale * (x + kGeluCubic *
/// x^3)).
inline constexpr double kGeluScale = 0.79788456080286535588; ///< sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;
inline constexpr double kInverseSqrt2 = 0.70710678118654752440;

} // namespace harmony::nn

#endif // DIALECTS_NN_DECOMPOSE_H
