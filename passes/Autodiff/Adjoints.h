//===- Adjoints.h - Adjoint rules of all ops --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_AUTODIFF_ADJOINTS_H
#define PASSES_AUTODIFF_ADJOINTS_H

#include "dialects/NN/Autodiff.h"

namespace harmony {

/// Attaches the adjoints of arith, math and nn ops as models of
/// nn::AutodiffOpInterface, when the dialects are loaded.
void registerAutodiffModels(mlir::DialectRegistry &registry);

namespace autodiff {

void attachNNAdjoints(mlir::MLIRContext &context);
void attachWindowAdjoints(mlir::MLIRContext &context);

/// An external model whose adjoint is a function of the op.
template <typename OpTy, void (*Rule)(OpTy, nn::AdjointContext &)>
struct AdjointModel
    : nn::AutodiffOpInterface::ExternalModel<AdjointModel<OpTy, Rule>, OpTy> {
  void buildAdjoint(mlir::Operation *op, nn::AdjointContext &context) const {
    Rule(mlir::cast<OpTy>(op), context);
  }
};

template <typename OpTy, void (*Rule)(OpTy, nn::AdjointContext &)>
void attach(mlir::MLIRContext &context) {
  OpTy::template attachInterface<AdjointModel<OpTy, Rule>>(context);
}

} // namespace autodiff
} // namespace harmony

#endif // PASSES_AUTODIFF_ADJOINTS_H
