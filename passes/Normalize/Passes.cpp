//===- Passes.cpp - The passes of this folder -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Normalize/Normalizer.h"

namespace harmony {
#define GEN_PASS_DEF_NORMALIZEPASS
#include "passes/Normalize/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {
struct NormalizePass : harmony::impl::NormalizePassBase<NormalizePass> {
  NormalizePass() = default;
  explicit NormalizePass(const NormalizeOptions &given) {
    dims = given.dims;
    batchSymbol = given.batchSymbol;
    loss = given.loss;
    lossOutput = given.lossOutput;
    trainable = given.trainable;
    freeze = given.freeze;
    forward = given.forward;
    batchNorm = given.batchNorm;
    runningVariance = given.runningVariance;
  }

  void runOnOperation() override {
    auto list = [](auto &option) {
      return std::vector<std::string>(option.begin(), option.end());
    };
    NormalizeOptions given{list(dims),      batchSymbol,  loss,   lossOutput,
                           list(trainable), list(freeze), forward,
                           batchNorm,       runningVariance};
    if (failed(normalize::Normalizer(getOperation(), given).run()))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> harmony::createNormalizePass() {
  return std::make_unique<NormalizePass>();
}

std::unique_ptr<Pass>
harmony::createNormalizePass(const NormalizeOptions &options) {
  return std::make_unique<NormalizePass>(options);
}
