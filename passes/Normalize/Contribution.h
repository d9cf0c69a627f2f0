//===- Contribution.h - Reductions of gradients -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_CONTRIBUTION_H
#define PASSES_NORMALIZE_CONTRIBUTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony::normalize {

/// Splits every sum over several axes of `function` that ends with the last one
/// into a sum over the last axis and one over the others: rows in parallel, and
/// rounding errors that grow with the extents rather than their product.
void stageReductions(mlir::func::FuncOp function);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_CONTRIBUTION_H
