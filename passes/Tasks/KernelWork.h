//===- KernelWork.h - Operations of a generated kernel ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_KERNELWORK_H
#define PASSES_TASKS_KERNELWORK_H

#include "mlir/IR/BuiltinOps.h"

namespace harmony {

/// Elementwise f32 operations that a kernel of `kernels` takes for one index of
/// its range: what processors do in one instruction for a whole register counts
/// as many as a register holds, also where less is computed. Divisions, roots
/// and the functions of `math` count as what they take of simple operations.
/// Loads and stores are memory's.
double countOperations(mlir::ModuleOp kernels, llvm::StringRef kernel);

} // namespace harmony

#endif // PASSES_TASKS_KERNELWORK_H
