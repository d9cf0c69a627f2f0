//===- Passes.td - The compiler's later stages as passes ----*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PASSES_TD
#define COMPILER_DRIVER_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanProgramsPass : Pass<"harmony-plan-programs", "mlir::ModuleOp"> {
  let summary = "Lowers tasks, plans both programs, and schedules them up to a stage";
  let description = [{
    Before: layer functions and their backwards with groups formed. After: as `harmonyc compile` leaves
    the module behind the stage named by `until`: `plan` (tasks), `schedule` (programs as queues with
    waits) or `memory` (addresses assigned and proved).
  }];
  let options = [
    Option<"until", "until", "std::string", "\"memory\"", "plan, schedule or memory">,
    Option<"batch", "batch", "int64_t", "0", "Samples per optimizer step">,
    Option<"microbatch", "microbatch", "int64_t", "0", "Samples per microbatch; 0: chosen by the planner">,
    Option<"deviceMemory", "device-memory", "std::string", "\"1GiB\"", "Capacity, as --device-memory of harmonyc">,
    Option<"forward", "forward", "bool", "false", "Outputs alone">
  ];
  let dependentDialects = ["schedule::HarmonyDialect", "mlir::arith::ArithDialect", "mlir::math::MathDialect",
                           "mlir::scf::SCFDialect", "mlir::vector::VectorDialect", "mlir::LLVM::LLVMDialect",
                           "mlir::func::FuncDialect"];
}

#endif // COMPILER_DRIVER_PASSES_TD
