//===- Autodiff.h - Adjoints of ops -----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_AUTODIFF_H
#define DIALECTS_NN_AUTODIFF_H

#include "dialects/NN/Algebra.h"

namespace harmony::nn {

/// Of a gather along axis 0 without batch dimensions: the index whose slice
/// gets no gradient.
inline constexpr llvm::StringLiteral kPaddingAttr = "nn.padding";

/// Of a copysign of a value with itself, which is that value: no gradient
/// passes, as by PyTorch's detach.
inline constexpr llvm::StringLiteral kDetachedAttr = "nn.detached";

/// What the adjoint of one op is built with: it writes algebra into the
/// backward, and mediates all access to the forward.
class AdjointContext : public Algebra {
public:
  using Algebra::Algebra;
  virtual ~AdjointContext() = default;

  /// The cotangent of a result; null where nothing differentiable depends on
  /// it.
  virtual mlir::Value cotangent(unsigned result) = 0;

  /// Whether the cotangent of an operand is wanted: it is floating and depends
  /// on a differentiable argument.
  virtual bool isNeeded(unsigned operand) = 0;

  /// The value in the backward of an operand or result of the op: what is asked
  /// for here is what the backward reads (saved, an argument of both, or
  /// recomputed).
  virtual mlir::Value primal(mlir::Value forward) = 0;

  /// Adds to the cotangent of an operand. `value` has the operand's type.
  virtual void contribute(unsigned operand, mlir::Value value) = 0;

  /// Marks `value` as one term of an adjoint's formula. The mutation test
  /// negates or drops terms one by one; otherwise this is the identity. What is
  /// contributed is a term without being marked.
  virtual mlir::Value term(mlir::Value value) = 0;
};

} // namespace harmony::nn

#include "dialects/NN/AutodiffInterface.h.inc"

#endif // DIALECTS_NN_AUTODIFF_H
