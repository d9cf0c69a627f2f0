//===- Windows.h - Kernels of convolution and pooling -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_WINDOWS_H
#define PASSES_CODEGEN_WINDOWS_H

#include "passes/Codegen/Kernel.h"

namespace harmony::codegen {

/// The kernel of an op that nn::isWindowOp. The range of nn.window and of the
/// pools runs over windows, that of nn.fold and nn.unpool over the positions of
/// the image: each element gathers what it is the sum of, in row-major order of
/// the offsets, so that no split changes a sum.
mlir::FailureOr<EmittedKernel> emitWindowKernel(const KernelSpec &spec,
                                                mlir::ModuleOp kernels);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_WINDOWS_H
