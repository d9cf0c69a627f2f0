//===- Passes.td - Functions to tasks -----------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_PASSES_TD
#define PASSES_TASKS_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerTasksPass : Pass<"harmony-lower-tasks", "mlir::ModuleOp"> {
  let summary = "Lowers layer functions, updates and host work to tasks";
  let description = [{
    Before: layer functions and their backwards, with groups formed. After: in addition a
    harmony.task for each of them and each candidate microbatch size: kernel launches, library
    products and fills on slots. Values inside a function live at fixed offsets of its
    workspace; reshapes, transposes and slices are strides; what is returned, or becomes a
    part of something returned, is computed in place. The kernels are in a nested module
    `kernels`.
  }];
  let options = [
    Option<"batch", "batch", "int64_t", "1", "Samples per optimizer step">,
    Option<"microbatch", "microbatch", "int64_t", "0", "The only candidate; 0: every divisor of the batch">,
    Option<"evaluate", "evaluate", "bool", "false", "The tasks of @evaluate rather than of @main">
  ];
  let dependentDialects = ["schedule::HarmonyDialect", "mlir::arith::ArithDialect", "mlir::math::MathDialect",
                           "mlir::scf::SCFDialect", "mlir::vector::VectorDialect", "mlir::LLVM::LLVMDialect",
                           "mlir::func::FuncDialect"];
}

#endif // PASSES_TASKS_PASSES_TD
