//===- Chain.h - A small model as tasks and a problem -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PROGRAM_CHAIN_H
#define TEST_UNIT_PROGRAM_CHAIN_H

#include "passes/Tasks/Model.h"

#include "mlir/IR/BuiltinOps.h"

namespace harmony::test {

/// The model of Kernels.cpp: three weights of which the second is tied, a value
/// with two consumers. `microbatches`: candidates, ascending.
/// `clips`: all updates read a factor that depends on all gradients.
Model makeChain(bool training, const std::vector<int64_t> &microbatches,
                bool clips = false);

/// Its variables, graphs and tasks for microbatch sizes and a number of
/// data-parallel groups.
mlir::OwningOpRef<mlir::ModuleOp>
makeChainModule(mlir::MLIRContext *context,
                const std::vector<int64_t> &microbatches, int groups = 1,
                bool clips = false);

void loadDialects(mlir::MLIRContext *context);

} // namespace harmony::test

#endif // TEST_UNIT_PROGRAM_CHAIN_H
