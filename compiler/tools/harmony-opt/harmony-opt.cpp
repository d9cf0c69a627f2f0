//===- harmony-opt.cpp - Run passes on text -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Passes.h"
#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "dialects/ONNX/ONNX.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Codegen/Passes.h"
#include "passes/Layers/Passes.h"
#include "passes/Memory/Passes.h"
#include "passes/Normalize/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Schedule/Passes.h"
#include "passes/Tasks/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllGPUToLLVMIRTranslations(registry);
  mlir::NVVM::registerNVVMTargetInterfaceExternalModels(registry);
  harmony::registerHarmonyDialects(registry);

  mlir::registerAllPasses();
  harmony::registerNormalizePasses();
  harmony::registerLayersPasses();
  harmony::registerAutodiffPasses();
  harmony::registerTasksPasses();
  harmony::registerSchedulePasses();
  harmony::registerMemoryPasses();
  harmony::registerCodegenPasses();
  harmony::registerDriverPasses();
  harmony::registerHarmonyPipeline();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "harmonyc pass driver\n", registry));
}
