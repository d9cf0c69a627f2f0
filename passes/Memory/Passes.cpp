//===- Passes.cpp - The steps of Memory.h as passes -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Memory/Passes.h"
#include "passes/Memory/Memory.h"
#include "passes/Schedule/PlanFile.h"

namespace harmony {
#define GEN_PASS_DEF_ASSIGNADDRESSESPASS
#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "passes/Memory/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

struct AssignAddresses
    : harmony::impl::AssignAddressesPassBase<AssignAddresses> {
  using AssignAddressesPassBase::AssignAddressesPassBase;

  void runOnOperation() override {
    std::optional<planner::Plan> step, evaluate;
    if (failed(read("step", stepFile, step)) ||
        failed(read("evaluate", evaluateFile, evaluate)) ||
        failed(assignAddresses(getOperation(), step ? &*step : nullptr,
                               evaluate ? &*evaluate : nullptr)))
      signalPassFailure();
  }

private:
  LogicalResult read(StringRef option, const std::string &file,
                     std::optional<planner::Plan> &plan) {
    if (file.empty())
      return success();
    std::string error;
    plan = readPlanFile(file, error);
    if (!plan)
      return getOperation().emitError()
             << "option '" << option << "': " << error;
    return success();
  }
};

struct VerifyMemory : harmony::impl::VerifyMemoryPassBase<VerifyMemory> {
  void runOnOperation() override {
    if (failed(verifyMemory(getOperation())))
      signalPassFailure();
  }
};

} // namespace
