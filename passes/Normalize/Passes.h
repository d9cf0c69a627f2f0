//===- Passes.h - From onnx to nn -------------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_PASSES_H
#define PASSES_NORMALIZE_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace harmony {

#define GEN_PASS_DECL
#include "passes/Normalize/Passes.h.inc"

/// What harmonyc's flags say about a model; see Passes.td.
struct NormalizeOptions {
  std::vector<std::string> dims; ///< "name=value"
  std::string batchSymbol;
  std::string loss;
  std::string lossOutput;
  std::vector<std::string> trainable;
  std::vector<std::string> freeze;
  bool forward = false;
  std::string batchNorm;       ///< as-exported, train; "": refuse what needs it
  std::string runningVariance; ///< torch, onnx; "": by the optimizer
  /// Samples of a microbatch where the model combines them, by what has no
  /// rule for a part of the minibatch; 0: such a model is refused.
  int64_t samples = 0;
  bool fuse = true; ///< put together what exporters take apart
  std::vector<std::string> padding; ///< "name=row", "name=none"
};

std::unique_ptr<mlir::Pass> createNormalizePass();
std::unique_ptr<mlir::Pass>
createNormalizePass(const NormalizeOptions &options);
std::unique_ptr<mlir::Pass> createAddOptimizerPass();
std::unique_ptr<mlir::Pass>
createAddOptimizerPass(const std::string &optimizer,
                       bool clipGradientNorm = false);
std::unique_ptr<mlir::Pass> createVerifyNormalizedPass();

/// One line per operator that can be converted: its name and since-versions.
std::vector<std::pair<std::string, std::vector<int64_t>>>
getConvertibleOperators();

/// registerNormalizePasses() and one function per pass.
#define GEN_PASS_REGISTRATION
#include "passes/Normalize/Passes.h.inc"

} // namespace harmony

#endif // PASSES_NORMALIZE_PASSES_H
