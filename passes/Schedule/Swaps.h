//===- Swaps.h - Transfers of a program in issue order ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_SWAPS_H
#define PASSES_SCHEDULE_SWAPS_H

#include "compiler/Planner/BufferIndex.h"
#include "passes/Schedule/Schedule.h"

namespace harmony {

/// Whether a task reads a slot, in the order of its launches, before it has
/// written it, and whether it writes it.
struct SlotUse {
  bool readFirst = false, written = false;
};

/// Symbols of the module, by name: programs refer to thousands.
class Places {
public:
  explicit Places(mlir::ModuleOp module) : symbols(module) {}
  schedule::BufferOp buffer(mlir::StringRef name) {
    return symbols.lookup<schedule::BufferOp>(name);
  }
  mlir::Operation *lookup(mlir::StringRef name) { return symbols.lookup(name); }
  /// By slot of a task; valid until the next call.
  llvm::ArrayRef<SlotUse> slotUses(schedule::TaskOp task);

private:
  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<SlotUse>> tasks;
};

/// How a pack, run, update or zeroing touches buffers, in order of first use.
struct BufferUse {
  schedule::BufferOp buffer;
  bool readFirst =
      false; ///< read, in the order of the tasks, before it is written
  bool written = false;
};
llvm::SmallVector<BufferUse> getBufferUses(mlir::Operation *work,
                                           Places &places);

/// A pack, an update, a zeroing or a run: what transfers stand around.
bool isWork(mlir::Operation *op);

/// A transfer of the program as the plan would name it.
struct ProgramTransfer {
  schedule::Copy copy;
  planner::EventKind kind = planner::EventKind::LoadTensor;
  int object = -1, use = -1;
  int phase = -1; ///< of values
  /// Event of the work beside it, which for values is their pack's: the next
  /// for what fills a buffer before that is used, else the last.
  int64_t beside = -1;
  int64_t trips = 1;
};
/// Whether the work that a transfer is for comes after it.
bool servesLater(planner::EventKind kind);

/// The transfers of a program in issue order, nothing where one is of a kind
/// that no plan has.
mlir::FailureOr<llvm::SmallVector<ProgramTransfer>>
getTransfers(schedule::ProgramOp program, Places &places);

/// "swap_in of @step.fc1.weight before event 3": for messages.
std::string describe(const ProgramTransfer &transfer);

} // namespace harmony

#endif // PASSES_SCHEDULE_SWAPS_H
