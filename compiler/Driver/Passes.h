//===- Passes.h - The compiler's later stages as passes ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PASSES_H
#define COMPILER_DRIVER_PASSES_H

#include "mlir/Pass/Pass.h"

namespace harmony {

#define GEN_PASS_DECL
#include "compiler/Driver/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/Driver/Passes.h.inc"

/// --harmony-pipeline of harmony-opt: all stages from the onnx dialect on, up
/// to one.
void registerHarmonyPipeline();

} // namespace harmony

#endif // COMPILER_DRIVER_PASSES_H
