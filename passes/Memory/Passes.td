//===- Passes.td - Addresses and their proof ----------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MEMORY_PASSES_TD
#define PASSES_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignAddressesPass : Pass<"harmony-assign-addresses", "mlir::ModuleOp"> {
  let summary = "Gives buffers and homes the plan's addresses";
  let description = [{
    Homes beside the plan (loss denominators, variables that no layer reads, what only the evaluation needs) follow
    behind its host bytes.
  }];
  let options = [
    Option<"stepFile", "step", "std::string", "", "The plan of the step, as JSON (harmony.plan)">,
    Option<"evaluateFile", "evaluate", "std::string", "", "The plan of the evaluation">
  ];
}

def VerifyMemoryPass : Pass<"harmony-verify-memory", "mlir::ModuleOp"> {
  let summary = "Proves the addresses by a replay of the commands";
  let description = [{
    Reads no plan: queues, waits and addresses alone. No byte is read before it is written or after it is overwritten, no
    write meets an earlier access that it does not wait for, nothing lies outside of its arena, and
    no queue waits for ever; over load, two steps and store, and over two evaluations.
  }];
}

#endif // PASSES_MEMORY_PASSES_TD
