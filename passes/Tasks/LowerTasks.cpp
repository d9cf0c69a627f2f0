//===- LowerTasks.cpp - The pass on buildModel ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Harmony/Harmony.h"
#include "passes/Tasks/BuildModel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "passes/Tasks/Passes.h"

namespace harmony {
#define GEN_PASS_DEF_LOWERTASKSPASS
#include "passes/Tasks/Passes.h.inc"
} // namespace harmony

using namespace mlir;

namespace {
struct LowerTasks : harmony::impl::LowerTasksPassBase<LowerTasks> {
  using LowerTasksPassBase::LowerTasksPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t samples = batch, part = microbatch;
    if (samples < 1) {
      module.emitError("batch is ") << samples << ", expected at least 1";
      return signalPassFailure();
    }
    if (part < 0 || part > samples) {
      module.emitError("microbatch is ")
          << part << ", expected at most the batch of " << samples;
      return signalPassFailure();
    }
    auto kernels = ModuleOp::create(module.getLoc(), "kernels");
    module.push_back(kernels);
    // Only code is asked for, no seconds.
    auto machine = harmony::planner::Machine::uniform("none", 1, 1, 1, 0);
    machine.devices[0].flopsPerSecond = machine.devices[0].bytesPerSecond = 1;
    harmony::CostModel costs(machine, /*measurements=*/nullptr);
    harmony::ModelOptions options(costs);
    options.training = !evaluate;
    options.batch = samples;
    if (part)
      options.microbatches = {part};
    if (failed(harmony::buildModel(module, kernels, options)))
      signalPassFailure();
  }
};
} // namespace
