//===- LowerKernels.cpp - Pipelines from kernels to machines --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

namespace harmony::codegen {
#define GEN_PASS_DEF_APPROXIMATEMATHPASS
#define GEN_PASS_DEF_USEDEVICEINSTRUCTIONSPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace harmony::codegen

using namespace mlir;
using namespace harmony::codegen;

namespace {
struct ApproximateMath
    : harmony::codegen::impl::ApproximateMathPassBase<ApproximateMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    // Functions without a polynomial of their own, by those that have one.
    math::populateExpansionPatterns(
        patterns, {"sinh", "cosh", "tan", "asinh", "acosh", "atanh", "powf",
                   "fpowi", "exp2", "rsqrt", "round"});
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    // Nothing may be left to a library that rounds vectors and scalars
    // differently.
    WalkResult result = getOperation()->walk([](Operation *op) {
      if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
          op->getNumResults() != 1 ||
          !getElementTypeOrSelf(op->getResult(0).getType()).isF32() ||
          isa<math::AbsFOp, math::FmaOp, math::SqrtOp, math::FloorOp,
              math::CeilOp, math::TruncOp, math::RoundEvenOp, math::CopySignOp>(
              op))
        return WalkResult::advance();
      op->emitOpError("has no approximation in kernels");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

struct UseDeviceInstructions
    : harmony::codegen::impl::UseDeviceInstructionsPassBase<
          UseDeviceInstructions> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    SmallVector<LLVM::CallOp> calls;
    getOperation().walk([&](LLVM::CallOp call) { calls.push_back(call); });
    for (LLVM::CallOp call : calls) {
      builder.setInsertionPoint(call);
      ValueRange operands = call.getArgOperands();
      Location loc = call.getLoc();
      Operation *op =
          llvm::StringSwitch<llvm::function_ref<Operation *()>>(
              call.getCallee().value_or(""))
              .Case("__nv_fabsf",
                    [&] {
                      return LLVM::FAbsOp::create(builder, loc, operands[0]);
                    })
              .Case("__nv_fmaf",
                    [&] {
                      return LLVM::FMAOp::create(builder, loc, operands[0],
                                                 operands[1], operands[2]);
                    })
              .Case("__nv_sqrtf",
                    [&] {
                      return LLVM::SqrtOp::create(builder, loc, operands[0]);
                    })
              .Case("__nv_floorf",
                    [&] {
                      return LLVM::FFloorOp::create(builder, loc, operands[0]);
                    })
              .Case("__nv_ceilf",
                    [&] {
                      return LLVM::FCeilOp::create(builder, loc, operands[0]);
                    })
              .Case("__nv_truncf",
                    [&] {
                      return LLVM::FTruncOp::create(builder, loc, operands[0]);
                    })
              .Case("__nv_rintf",
                    [&] {
                      return LLVM::RoundEvenOp::create(builder, loc,
                                                       operands[0]);
                    })
              .Default([]() -> Operation * { return nullptr; })();
      if (!op)
        continue;
      call.replaceAllUsesWith(op->getResults());
      call.erase();
    }
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<LLVM::LLVMFuncOp>()))
      if (function.isExternal() &&
          SymbolTable::symbolKnownUseEmpty(function, getOperation()))
        function.erase();
  }
};

struct GpuPipelineOptions : PassPipelineOptions<GpuPipelineOptions> {
  Option<std::string> chip{*this, "chip",
                           llvm::cl::desc("architecture, such as sm_90"),
                           llvm::cl::init("sm_90")};
  Option<std::string> format{*this, "format",
                             llvm::cl::desc("isa (PTX) or bin (a cubin)"),
                             llvm::cl::init("isa")};
  Option<std::string> toolkit{
      *this, "toolkit", llvm::cl::desc("folder of the CUDA toolkit, for bin"),
      llvm::cl::init("")};
};
} // namespace

void harmony::codegen::buildLowerHostKernels(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addNestedPass<func::FuncOp>(createApproximateMathPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLoopInvariantCodeMotionPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createConvertMathToLibmPass()); // what is left of f64
  manager.addPass(createSCFToControlFlowPass());
  // Never reassociates: the order of a reduction is part of what a kernel
  // means.
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void harmony::codegen::buildLowerGpuKernels(OpPassManager &manager,
                                            StringRef chip, StringRef format,
                                            StringRef toolkit) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createApproximateMathPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  GpuNVVMAttachTargetOptions target;
  target.chip = chip.str();
  target.optLevel = 3;
  manager.addPass(createGpuNVVMAttachTarget(target));
  OpPassManager &kernels = manager.nest<gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  ConvertGpuOpsToNVVMOpsOptions convert;
  convert.useBarePtrCallConv = true;
  kernels.addPass(createConvertGpuOpsToNVVMOps(convert));
  kernels.addPass(createUseDeviceInstructionsPass());
  kernels.addPass(createArithToLLVMConversionPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = format.str();
  binary.toolkitPath = toolkit.str();
  manager.addPass(createGpuModuleToBinaryPass(binary));
}

void harmony::codegen::registerCodegenPassesAndPipelines() {
  registerCodegenPasses();
  PassPipelineRegistration<>("harmony-lower-host-kernels",
                             "kernels of the host to the llvm dialect",
                             buildLowerHostKernels);
  PassPipelineRegistration<GpuPipelineOptions>(
      "harmony-lower-gpu-kernels", "kernels of a GPU to a binary",
      [](OpPassManager &manager, const GpuPipelineOptions &options) {
        buildLowerGpuKernels(manager, options.chip, options.format,
                             options.toolkit);
      });
}
