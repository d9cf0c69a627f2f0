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
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace harmony;

void harmony::buildNormalizeStage(OpPassManager &passes,
                                  const PipelineOptions &options) {
  // onnx -> nn: no opset differences, static but for the microbatch, roles
  // known.
  passes.addPass(createNormalizePass(options.normalize));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Every parameter has an update.
  if (!options.normalize.forward)
    passes.addPass(
        createAddOptimizerPass(options.optimizer, options.clipGradientNorm));
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
  // What is one kernel is decided, before packs, for forward and backward
  // alike.
  passes.addPass(createFormGroupsPass());
}

void harmony::registerHarmonyDialects(DialectRegistry &registry) {
  registry.insert<onnx::ONNXDialect, nn::NNDialect, schedule::HarmonyDialect,
                  arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  LLVM::LLVMDialect, scf::SCFDialect, vector::VectorDialect>();
  // Kernels on their way to the llvm dialect.
  arith::registerConvertArithToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
}
