//===- Passes.td - From a plan to queues --------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PASSES_TD
#define PASSES_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

class PlannedPass<string name> : Pass<name, "mlir::ModuleOp"> {
  list<Option> planOptions = [
    Option<"planFile", "plan", "std::string", "", "The plan, as JSON (harmony.plan)">,
    Option<"problemFile", "problem", "std::string", "", "What was planned, as JSON (harmony.profile)">,
    Option<"programName", "program", "std::string", "\"step\"", "Which program: step or evaluate">
  ];
  let options = planOptions;
  let dependentDialects = ["schedule::HarmonyDialect"];
}

def InsertSwapsPass : Pass<"harmony-insert-swaps", "mlir::ModuleOp"> {
  let summary = "Swaps around every pack: correct, and as slow as it gets";
  let description = [{
    Before: programs in issue order without transfers. After: every tensor, stash and gradient that a pack or
    an update touches is copied in before it and out after it; batch inputs and the seeds of the loss are
    loaded, results and loss accumulators stored. What the plan never swaps gets a temporary home. What a pack
    makes is copied to every device that holds it too; collectives around updates on devices bring the parts of
    their gradients (reduce_scatter) and spread the tensors (all_gather; all_reduce where both are needed).
  }];
  let dependentDialects = ["schedule::HarmonyDialect"];
}

def ExpandCollectivesPass : Pass<"harmony-expand-collectives", "mlir::ModuleOp"> {
  let summary = "Collectives as copies from device to device";
  let description = [{
    The order is that of the collective. Nothing is added on the way: the update reads all parts, in order.
  }];
  let dependentDialects = ["schedule::HarmonyDialect"];
}

def ElideSwapsPass : PlannedPass<"harmony-elide-swaps"> {
  let summary = "Removes the transfers that the plan does not list";
  let description = [{
    Exactly those: a transfer stays when the plan lists it for the same thing around the same work, and takes the
    number of the plan's event. One that the plan lists and the program lacks is an error.
  }];
}

def HoistSwapsPass : PlannedPass<"harmony-hoist-swaps"> {
  let summary = "Moves transfers to their place in the plan's issue order";
  let description = [{
    Loads move up to where the plan prefetches, stores down to where it delays them.
  }];
}

def VerifySwapsPass : PlannedPass<"harmony-verify-swaps"> {
  let summary = "The program's transfers are the plan's, in the plan's order";
}

def ScheduleQueuesPass : PlannedPass<"harmony-schedule-queues"> {
  let summary = "Splits a program into queues that wait for each other's timelines";
  let description = [{
    Before: one sequence in issue order, which means that each op waits for the one before. After: a
    `harmony.queue` for each of the plan's queues; a pack is a loop on every queue that takes part in it. Each event
    signals its queue once an iteration, and waits are the plan's. Buffers are released after
    their last event where queue order and waits order that with all else that uses their bytes.
  }];
}

#endif // PASSES_SCHEDULE_PASSES_TD
