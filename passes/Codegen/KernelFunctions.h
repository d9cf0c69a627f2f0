//===- KernelFunctions.h - Kernels as functions of a module -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_KERNELFUNCTIONS_H
#define PASSES_CODEGEN_KERNELFUNCTIONS_H

#include "passes/Codegen/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony::codegen {

/// The one op in front of a function's return; an error where there is not
/// exactly one.
mlir::FailureOr<mlir::Operation *> getOnlyKernel(mlir::func::FuncOp function);

/// A specification with row-major buffers of their own for all operands and
/// results.
KernelSpec makeRowMajorSpec(mlir::Operation *op);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_KERNELFUNCTIONS_H
