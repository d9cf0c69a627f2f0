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
    padding = given.padding;
    forward = given.forward;
    batchNorm = given.batchNorm;
    runningVariance = given.runningVariance;
    samples = given.samples;
    fuse = given.fuse;
  }

  void runOnOperation() override {
    auto list = [](auto &option) {
      return std::vector<std::string>(option.begin(), option.end());
    };
    NormalizeOptions given{
        list(dims),      batchSymbol,  loss,    lossOutput,
        list(trainable), list(freeze), forward, batchNorm,
        runningVariance, samples,      fuse,    list(padding)};
    ModuleOp module = getOperation();
    llvm::SmallPtrSet<Operation *, 16> original;
    for (Operation &op : *module.getBody())
      original.insert(&op);
    DictionaryAttr attributes = module->getDiscardableAttrDictionary();
    Attempt split = attempt(given, 0);
    int64_t size = samples;
    if (auto fixed = module->getAttrOfType<IntegerAttr>("nn.fixed_batch");
        fixed && size == 0)
      size = fixed.getInt();
    if (split.succeeded || size == 0)
      return finish(std::move(split));

    // What follows the batch through the model has failed. Where all samples
    // of a microbatch are one value there is nothing to follow.
    for (Operation &op : llvm::make_early_inc_range(
             llvm::reverse(module.getBody()->getOperations())))
      if (!original.contains(&op))
        op.erase();
    module->setDiscardableAttrs(attributes);
    Attempt whole = attempt(given, size);
    if (whole.succeeded)
      noteUnsplittable(split, size);
    finish(std::move(whole));
  }

private:
  struct Attempt {
    bool succeeded = false;
    std::vector<Diagnostic> diagnostics;
  };

  Attempt attempt(const NormalizeOptions &given, int64_t wholeBatch) {
    Attempt result;
    ScopedDiagnosticHandler handler(&getContext(), [&](Diagnostic &diagnostic) {
      result.diagnostics.push_back(std::move(diagnostic));
      return success();
    });
    result.succeeded = mlir::succeeded(
        normalize::Normalizer(getOperation(), given, wholeBatch).run());
    return result;
  }

  /// Reports what an attempt had to say.
  void finish(Attempt attempt) {
    for (Diagnostic &diagnostic : attempt.diagnostics)
      getContext().getDiagEngine().emit(std::move(diagnostic));
    if (!attempt.succeeded)
      signalPassFailure();
  }

  /// Keeps why samples cannot be told apart, and says it.
  void noteUnsplittable(const Attempt &split, int64_t size) {
    Builder builder(&getContext());
    SmallVector<Attribute> reasons;
    if (auto present =
            getOperation()->getAttrOfType<ArrayAttr>(nn::kUnsplittableAttr))
      llvm::append_range(reasons, present);
    for (const Diagnostic &diagnostic : split.diagnostics)
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        reasons.push_back(builder.getStringAttr(diagnostic.str()));
    getOperation()->setAttr(nn::kUnsplittableAttr,
                            builder.getArrayAttr(reasons));
    getOperation()->setAttr(nn::kWholeBatchAttr,
                            builder.getI64IntegerAttr(size));
    InFlightDiagnostic warning =
        emitWarning(getOperation().getLoc())
        << "the model combines samples: each microbatch is computed with all "
           "of its "
        << size << " samples together";
    for (Attribute reason : reasons)
      warning.attachNote() << cast<StringAttr>(reason).getValue();
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
