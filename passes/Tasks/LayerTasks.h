//===- LayerTasks.h - Tasks of layer functions ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_LAYERTASKS_H
#define PASSES_TASKS_LAYERTASKS_H

#include "passes/Tasks/KeepLevels.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

namespace harmony {

/// What attribute `name` of an argument of a layer's backward counts among its
/// like: a primal, a saved value or a cotangent. None: it has no such
/// attribute.
std::optional<int64_t> argumentIndex(mlir::func::FuncOp function,
                                     unsigned argument, llvm::StringRef name);

/// The argument whose variable a result of a layer function is assigned to.
std::optional<int64_t> assignedArgument(mlir::func::FuncOp function,
                                        unsigned result);

/// How many of the last results of a layer function are kept for its backward.
int64_t savedCount(mlir::func::FuncOp function);

/// Lowers the layers of a model, forward, recomputations and backward, for
/// every candidate microbatch size: adds tasks to `module` under the names of
/// Model.h and their kernels to `kernels`, and to the problem what each costs
/// and what recomputations read. Diagnostics as lowerTask's.
class LayerTasks {
public:
  /// Keeps references; `symbols` are the functions of `module`. The layers and
  /// values of the model's problem are complete.
  LayerTasks(mlir::ModuleOp module, mlir::ModuleOp kernels,
             mlir::SymbolTable &symbols, const ModelOptions &options,
             Model &model)
      : module(module), kernels(kernels), symbols(symbols), options(options),
        model(model) {}

  mlir::LogicalResult lower();

private:
  void setRecomputeReads(planner::Layer &layer, const LayerBinding &binding);
  mlir::LogicalResult lowerForward(const LayerBinding &binding, int64_t u,
                                   planner::Cost &cost);
  mlir::FailureOr<TaskCost> lowerRecomputation(const LayerBinding &binding,
                                               mlir::func::FuncOp forward,
                                               const SavedSegments &segments,
                                               int kept, int64_t u);
  const SavedSegments &segmentsOf(mlir::func::FuncOp function);
  mlir::LogicalResult lowerBackward(const planner::Layer &layer,
                                    const LayerBinding &binding, int64_t u,
                                    planner::Cost &cost);
  bool isLaterContribution(int layer, int value) const;

  mlir::ModuleOp module, kernels;
  mlir::SymbolTable &symbols;
  const ModelOptions &options;
  Model &model;
  llvm::StringMap<SavedSegments> savedSegments; ///< by forward function
  /// By layer function and argument: planner::TensorUse::recomputeReads.
  llvm::StringMap<llvm::SmallVector<int>> recomputeReads;
};

} // namespace harmony

#endif // PASSES_TASKS_LAYERTASKS_H
