//===- Passes.h - Kernel code generation ------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_PASSES_H
#define PASSES_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace harmony::codegen {

#define GEN_PASS_DECL
#include "passes/Codegen/Passes.h.inc"

/// From what emitHostKernel makes to the llvm dialect; in harmony-opt
/// `harmony-lower-host-kernels`.
void buildLowerHostKernels(mlir::OpPassManager &manager);

/// From what harmony-emit-gpu-kernels makes to a gpu.binary for `chip`, as
/// "isa" (PTX) or "bin" (a cubin: needs the CUDA toolkit); in harmony-opt
/// `harmony-lower-gpu-kernels`.
void buildLowerGpuKernels(mlir::OpPassManager &manager, llvm::StringRef chip,
                          llvm::StringRef format, llvm::StringRef toolkit);

#define GEN_PASS_REGISTRATION
#include "passes/Codegen/Passes.h.inc"

/// The passes and pipelines of this folder.
void registerCodegenPassesAndPipelines();

} // namespace harmony::codegen

namespace harmony {
/// What harmony-opt calls.
inline void registerCodegenPasses() {
  codegen::registerCodegenPassesAndPipelines();
}
} // namespace harmony

#endif // PASSES_CODEGEN_PASSES_H
