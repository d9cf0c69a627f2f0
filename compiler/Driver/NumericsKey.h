//===- NumericsKey.h - What decides the bits of a training step -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_NUMERICSKEY_H
#define COMPILER_DRIVER_NUMERICSKEY_H

#include "compiler/Planner/Plan.h"
#include "passes/Tasks/Model.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace harmony {

/// Plans of one model with equal keys give equal bits. In it: instruction set
/// and product library; the batch, the data-parallel groups, and how each
/// layer's forward and backward divide the samples into microbatches; the code
/// of every task that the step computes with; and, where values are made again
/// in other microbatches than before, which packs do so. Not in it: devices,
/// packs, memory, residency, threads, the place and time of updates. `module`
/// has the tasks of `model`.
std::string makeNumericsKey(mlir::ModuleOp module, const Model &model,
                            const planner::Plan &plan, llvm::StringRef target);

} // namespace harmony

#endif // COMPILER_DRIVER_NUMERICSKEY_H
