//===- BuildModel.h - From layered IR to a planning problem -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_BUILDMODEL_H
#define PASSES_TASKS_BUILDMODEL_H

#include "passes/Tasks/CostModel.h"
#include "passes/Tasks/Model.h"

#include "mlir/Support/LLVM.h"

namespace harmony {

/// Speeds of a device, where work is compared op by op.
struct CostRates {
  double flopsPerSecond = 0; ///< of products
  double bytesPerSecond = 0; ///< of generated kernels
  double launchSeconds = 0;
};

struct ModelOptions {
  /// `costs` outlives the options.
  explicit ModelOptions(CostModel &costs)
      : costs(&costs),
        rates{costs.device().flopsPerSecond, costs.device().bytesPerSecond,
              costs.device().launchSeconds} {}

  CostModel *costs;
  CostRates rates;
  bool training = true;
  int64_t batch = 1; ///< D
  /// Candidates, ascending, from 1 to the batch; none: its divisors.
  std::vector<int64_t> microbatches;
  bool splittable = true;
  bool mixing = false; ///< Problem::mixing
  int mostGroups = 1;  ///< data-parallel, that a plan may have
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
