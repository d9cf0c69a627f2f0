//===- ScatterAdd.h - Kernels that add at indices ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_SCATTERADD_H
#define PASSES_CODEGEN_SCATTERADD_H

#include "passes/Codegen/Kernel.h"
#include "passes/Codegen/LaneTarget.h"

namespace harmony::codegen {

/// Writes the body of a range function over `pointers`, [begin, end).
using RangeBody = llvm::function_ref<void(
    mlir::OpBuilder &, mlir::Location, llvm::ArrayRef<mlir::Value> pointers,
    mlir::Value begin, mlir::Value end,
    llvm::function_ref<mlir::Value(int64_t bytes)> allocate)>;

/// Adds `void name(ptr buffers, i64 begin, i64 end)` over `count` buffers, and
/// the function of bare pointers that it calls; equal bodies give one function.
/// Returns its name.
std::string buildRangeFunction(mlir::ModuleOp kernels, mlir::Location loc,
                               llvm::StringRef prefix, unsigned count,
                               RangeBody body);

/// The range runs over the rows of the result; every range scans all indices in
/// order and adds the updates of its own rows, so that no split changes the
/// sums.
mlir::FailureOr<EmittedKernel> emitScatterAdd(nn::ScatterAddOp op,
                                              const KernelSpec &spec,
                                              mlir::ModuleOp kernels);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_SCATTERADD_H
