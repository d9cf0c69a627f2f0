//===- Passes.cpp - The compiler's later stages as passes -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Compilation.h"
#include "dialects/Harmony/Harmony.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"

#include "compiler/Driver/Passes.h"

namespace harmony {
#define GEN_PASS_DEF_PLANPROGRAMSPASS
#include "compiler/Driver/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

struct PlanPrograms : harmony::impl::PlanProgramsPassBase<PlanPrograms> {
  using PlanProgramsPassBase::PlanProgramsPassBase;

  void runOnOperation() override {
    CompilerOptions options;
    options.forward = forward;
    if (batch)
      options.batch = batch;
    if (microbatch)
      options.microbatch = microbatch;
    options.deviceMemory = parseMemorySize(deviceMemory);
    if (!options.deviceMemory) {
      getOperation().emitError("device-memory: '")
          << deviceMemory << "' is not a size";
      return signalPassFailure();
    }
    if (!llvm::is_contained({"plan", "schedule", "memory"}, until)) {
      getOperation().emitError("until: no stage is named '")
          << until
          << "'; expected normalize, layers, differentiate, plan, schedule or "
             "memory";
      return signalPassFailure();
    }
    Compilation compilation(options, getContext());
    compilation.adopt(getOperation());
    std::pair<StringRef, std::function<int()>> stages[] = {
        {"plan", [&] { return compilation.plan(); }},
        {"schedule", [&] { return compilation.schedule(); }},
        {"memory", [&] { return compilation.memory(); }},
    };
    int exitCode = compilation.findBatch();
    for (auto &[name, stage] : stages) {
      if (exitCode)
        break;
      exitCode = stage();
      if (name == until)
        break;
    }
    compilation.release();
    if (exitCode)
      signalPassFailure();
  }
};

struct PipelineFlags : PassPipelineOptions<PipelineFlags> {
  Option<std::string> until{
      *this, "until",
      llvm::cl::desc("last stage: normalize, layers, differentiate, plan, "
                     "schedule or memory"),
      llvm::cl::init("memory")};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("adamw, adam or sgd"),
                                llvm::cl::init("adamw")};
  Option<bool> forward{*this, "forward", llvm::cl::desc("outputs alone"),
                       llvm::cl::init(false)};
  Option<int64_t> batch{*this, "batch",
                        llvm::cl::desc("samples per optimizer step"),
                        llvm::cl::init(0)};
  Option<int64_t> microbatch{*this, "microbatch",
                             llvm::cl::desc("samples per microbatch"),
                             llvm::cl::init(0)};
  Option<std::string> deviceMemory{*this, "device-memory",
                                   llvm::cl::desc("capacity"),
                                   llvm::cl::init("1GiB")};
};

} // namespace

void harmony::registerHarmonyPipeline() {
  PassPipelineRegistration<PipelineFlags>(
      "harmony-pipeline",
      "The compiler's stages from the onnx dialect on, up to one of them",
      [](OpPassManager &passes, const PipelineFlags &flags) {
        PipelineOptions options;
        options.optimizer = flags.optimizer;
        options.normalize.forward = flags.forward;
        buildNormalizeStage(passes, options);
        if (flags.until == "normalize")
          return;
        buildLayersStage(passes);
        if (flags.until == "layers")
          return;
        buildDifferentiateStage(passes);
        if (flags.until == "differentiate")
          return;
        PlanProgramsPassOptions plan;
        plan.until = flags.until;
        plan.batch = flags.batch;
        plan.microbatch = flags.microbatch;
        plan.deviceMemory = flags.deviceMemory;
        plan.forward = flags.forward;
        passes.addPass(createPlanProgramsPass(plan));
      });
}
