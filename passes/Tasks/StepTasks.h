//===- StepTasks.h - Tasks of a step that are no layer's --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_STEPTASKS_H
#define PASSES_TASKS_STEPTASKS_H

#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "passes/Tasks/Model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

namespace harmony {

/// Lowers what a training step does besides its layers: the host's prologue,
/// step scalars and epilogue, the contributions and the updates. Adds tasks to
/// `module` under the names of Model.h and their kernels to `kernels`;
/// diagnostics as lowerTask's.
class StepTasks {
public:
  /// Keeps a reference to `symbols`, the functions of `module`.
  StepTasks(mlir::ModuleOp module, mlir::ModuleOp kernels,
            mlir::SymbolTable &symbols)
      : module(module), kernels(kernels), symbols(symbols) {}

  /// @prologue with the denominators and seeds of all loss terms of `chain`
  /// for minibatches of `batch` samples.
  mlir::LogicalResult lowerPrologue(mlir::func::FuncOp chain, int64_t batch);

  mlir::LogicalResult lowerStepScalars();

  /// `positions`: by parameter, of its contribution among all.
  mlir::LogicalResult lowerEpilogue(nn::EpilogueOp epilogue,
                                    const llvm::StringMap<int64_t> &positions);

  /// The task that reads `uses` parts of the parameter's gradient; one that
  /// exists is returned as it is.
  mlir::FailureOr<schedule::TaskOp> lowerContribution(nn::ContributionOp op,
                                                      int uses);

  /// The update that reads `uses` parts of the parameter's gradient, unless
  /// there is one.
  mlir::LogicalResult lowerUpdate(nn::OptimizeOp op,
                                  const UpdateBinding &update, int uses);

private:
  mlir::ModuleOp module, kernels;
  mlir::SymbolTable &symbols;
};

} // namespace harmony

#endif // PASSES_TASKS_STEPTASKS_H
