//===- Differentiate.h - Reverse mode on functions --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The contract between a forward function and its backward:
//
//   @f(a0, a1, ..) -> (r0, r1, .., saved0, saved1, ..)     attributes {nn.saved
//   = N}
//   @f.bwd(aI {nn.primal = I}.., savedJ {nn.saved = J}.., dR {nn.cotangent =
//   R}..)
//       -> (dI {nn.gradient = I}..)
//
// Arguments with nn.differentiable have exactly one gradient each, results with
// nn.differentiable at most one cotangent argument (none where no gradient
// depends on it). Arguments of the backward come in the order shown, ascending
// within each kind; each is read. A function without a differentiable argument
// has no backward and nn.saved = 0.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_AUTODIFF_DIFFERENTIATE_H
#define PASSES_AUTODIFF_DIFFERENTIATE_H

#include "dialects/NN/Autodiff.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>

namespace harmony::autodiff {

/// The name of the backward of a function.
std::string getBackwardName(llvm::StringRef forward);

struct DifferentiateOptions {
  /// Replaces term `index` (counted per op) of the adjoint of `op`; for
  /// mutation tests.
  std::function<mlir::Value(mlir::Operation *op, unsigned index,
                            mlir::Value term, nn::Algebra &algebra)>
      mutate;
};

/// Builds the backward of a function of one block behind it, and appends the
/// values that it needs to the function's results. Callers are not updated.
/// Returns a null function where no argument is differentiable. Fails after
/// reporting every op that a gradient would have to pass and cannot.
mlir::FailureOr<mlir::func::FuncOp>
differentiate(mlir::func::FuncOp forward,
              const DifferentiateOptions &options = {});

} // namespace harmony::autodiff

#endif // PASSES_AUTODIFF_DIFFERENTIATE_H
