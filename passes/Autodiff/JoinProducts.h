//===- JoinProducts.h - Sums of products as one product ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_AUTODIFF_JOINPRODUCTS_H
#define PASSES_AUTODIFF_JOINPRODUCTS_H

#include "mlir/IR/Builders.h"

namespace harmony::autodiff {

/// The terms of a sum with products of one form made one, where there are
/// several: the operands of all stand one behind the other along a new axis,
/// which is contracted too. A weight that every step of a recurrence reads has
/// a gradient of one product instead of one for each step, each as large as the
/// weight. Products are joined in the order of the terms and take the first
/// one's place.
llvm::SmallVector<mlir::Value> joinProducts(mlir::OpBuilder &builder,
                                            mlir::Location loc,
                                            llvm::ArrayRef<mlir::Value> terms);

} // namespace harmony::autodiff

#endif // PASSES_AUTODIFF_JOINPRODUCTS_H
