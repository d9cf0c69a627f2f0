//===- Passes.h - Layers and groups -----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LAYERS_PASSES_H
#define PASSES_LAYERS_PASSES_H

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace harmony {

/// On nn.loss ops of layered functions: which result of @prologue is the
/// denominator.
inline constexpr llvm::StringLiteral kDenominatorAttr = "nn.denominator";
inline constexpr llvm::StringLiteral kMainName = "main";
inline constexpr llvm::StringLiteral kEvaluateName = "evaluate";
inline constexpr llvm::StringLiteral kPrologueName = "prologue";

#define GEN_PASS_DECL
#include "passes/Layers/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Layers/Passes.h.inc"

/// Forms the groups of one function: see FormGroupsPass. Returns their number.
size_t formGroups(mlir::func::FuncOp function);

} // namespace harmony

#endif // PASSES_LAYERS_PASSES_H
