//===- Pipelines.cpp - The stages of the compiler -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Pipelines.h"

#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "dialects/ONNX/ONNX.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Layers/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace harmony;

void harmony::buildNormalizeStage(OpPassManager &passes, const PipelineOptions &options) {
  // onnx -> nn: no opset differences, static but for the microbatch, roles known.
  passes.addPass(createNormalizePass(options.normalize));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Every parameter has an update.
  if (!options.normalize.forward)
    passes.addPass(createAddOptimizerPass(options.optimizer));
  passes.addPass(createVerifyNormalizedPass());
}

void harmony::buildLayersStage(OpPassManager &passes) {
  // The forward is a chain of layer functions; equal ones are one.
  passes.addPass(createFormLayersPass());
  passes.addPass(createVerifyLayersPass());
}

void harmony::buildDifferentiateStage(OpPassManager &passes) {
  // Every layer function has a backward and says what it saves for it.
  passes.addPass(createDifferentiatePass());
  passes.addPass(createVerifyDifferentiatedPass());
  // What is one kernel is decided, before packs, for forward and backward alike.
  passes.addPass(createFormGroupsPass());
}

namespace {
struct StageOptions : PassPipelineOptions<StageOptions> {
  Option<std::string> until{*this, "until", llvm::cl::desc("last stage: normalize, layers or differentiate"),
                            llvm::cl::init("differentiate")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::desc("adamw, adam or sgd"), llvm::cl::init("adamw")};
  Option<bool> forward{*this, "forward", llvm::cl::desc("outputs alone"), llvm::cl::init(false)};
};
} // namespace

void harmony::registerHarmonyPipelines() {
  PassPipelineRegistration<StageOptions>(
      "harmony-pipeline", "The compiler's stages from the onnx dialect on, up to one of them",
      [](OpPassManager &passes, const StageOptions &stage) {
        PipelineOptions options;
        options.optimizer = stage.optimizer;
        options.normalize.forward = stage.forward;
        buildNormalizeStage(passes, options);
        if (stage.until == "normalize")
          return;
        buildLayersStage(passes);
        if (stage.until == "layers")
          return;
        buildDifferentiateStage(passes);
      });
}

void harmony::registerHarmonyDialects(DialectRegistry &registry) {
  registry.insert<onnx::ONNXDialect, nn::NNDialect, schedule::HarmonyDialect, arith::ArithDialect, func::FuncDialect,
                  math::MathDialect, LLVM::LLVMDialect, scf::SCFDialect, vector::VectorDialect>();
  // Kernels on their way to the llvm dialect.
  arith::registerConvertArithToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
}
