//===- BuildModel.h - From layered IR to a planning problem -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_BUILDMODEL_H
#define PASSES_TASKS_BUILDMODEL_H

#include "passes/Tasks/Model.h"

#include "mlir/Support/LLVM.h"

namespace harmony {

/// Speeds that turn work into seconds: a roofline per launch.
struct CostRates {
  double flopsPerSecond = 50e9; ///< of products
  double bytesPerSecond = 10e9; ///< of generated kernels and updates
  double launchSeconds = 2e-6;
  double updateBytesPerSecond = 10e9; ///< host updates: bytes read and written
};

struct ModelOptions {
  bool training = true;
  int64_t batch = 1; ///< D
  /// Candidates, ascending, from 1 to the batch; none: its divisors.
  std::vector<int64_t> microbatches;
  bool splittable = true;
  bool mixing = false; ///< Problem::mixing
  CostRates rates;
};

/// Lowers every layer function, forward and backward, for every candidate
/// microbatch size, the updates, the prologue and the step scalars:
/// harmony.task ops are added to `module`, kernels to `kernels`. Returns the
/// planning problem of @main (training) or @evaluate.
mlir::FailureOr<Model> buildModel(mlir::ModuleOp module, mlir::ModuleOp kernels,
                                  const ModelOptions &options);

/// Adds the tasks that update tensors, and those of contributions, from the
/// gradients of as many data-parallel groups as the plan of `model` has.
mlir::LogicalResult lowerUpdatesForGroups(mlir::ModuleOp module,
                                          mlir::ModuleOp kernels,
                                          const Model &model, int groups);

} // namespace harmony

#endif // PASSES_TASKS_BUILDMODEL_H
