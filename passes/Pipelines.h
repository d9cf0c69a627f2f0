//===- Pipelines.h - The stages of the compiler -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PIPELINES_H
#define PASSES_PIPELINES_H

#include "passes/Normalize/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

namespace harmony {

/// The project's dialects and the upstream ones that they build on.
void registerHarmonyDialects(mlir::DialectRegistry &registry);

struct PipelineOptions {
  NormalizeOptions normalize;
  std::string optimizer =
      "adamw"; ///< for models that bring none; unused by forward models
  bool clipGradientNorm = false;
};

// One builder per stage, in order; a verifier ends each.
void buildNormalizeStage(mlir::OpPassManager &passes,
                         const PipelineOptions &options);
void buildLayersStage(mlir::OpPassManager &passes);
void buildDifferentiateStage(mlir::OpPassManager &passes);

} // namespace harmony

#endif // PASSES_PIPELINES_H
