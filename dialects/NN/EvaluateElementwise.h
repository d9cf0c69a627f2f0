//===- EvaluateElementwise.h - Elementwise reference semantics --*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_EVALUATEELEMENTWISE_H
#define DIALECTS_NN_EVALUATEELEMENTWISE_H

#include "dialects/NN/Evaluate.h"

namespace harmony::nn {

/// Fills `result`, of the type of the only result of `op`, with what an arith
/// or math op computes of `operands`. Fails after reporting an op that is not
/// known.
mlir::LogicalResult
evaluateElementwise(mlir::Operation *op,
                    llvm::ArrayRef<const HostTensor *> operands,
                    HostTensor &result);

/// Copies element `from` of `source` to element `to` of `target`.
void copyElement(const HostTensor &source, int64_t from, HostTensor &target,
                 int64_t to);

/// The value of an integer in the form that HostTensor holds: sign-extended
/// from `width` bits, or one bit.
int64_t wrap(int64_t value, unsigned width);

/// arith.maximumf and minimumf: NaN if one operand is, and -0 < 0.
double maximum(double lhs, double rhs);
double minimum(double lhs, double rhs);

/// Bits of an element, 64 for an index.
unsigned widthOf(mlir::Type element);

} // namespace harmony::nn

#endif // DIALECTS_NN_EVALUATEELEMENTWISE_H
