//===- Swaps.h - Transfers of a program in issue order ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_SWAPS_H
#define PASSES_SCHEDULE_SWAPS_H

#include "passes/Schedule/Schedule.h"

#include <optional>

namespace harmony {

/// Symbols of the module, by name: programs refer to thousands.
class Places {
public:
  explicit Places(mlir::ModuleOp module) : symbols(module) {}
  schedule::BufferOp buffer(mlir::StringRef name) {
    return symbols.lookup<schedule::BufferOp>(name);
  }
  mlir::Operation *lookup(mlir::StringRef name) { return symbols.lookup(name); }
  mlir::SymbolTable &table() { return symbols; }

private:
  mlir::SymbolTable symbols;
};

/// How a pack, update or zeroing touches buffers, in order of first use.
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
  int phase = -1;      ///< of values
  int64_t anchor = -1; ///< event of the work that it serves: the next one for
                       ///< loads, the last one for stores
  int64_t trips = 1;
};

/// The transfers of a program in issue order, nothing where one is of a kind
/// that no plan has.
mlir::FailureOr<llvm::SmallVector<ProgramTransfer>>
getTransfers(schedule::ProgramOp program, Places &places);

/// "swap_in of @step.fc1.weight before event 3": for messages.
std::string describe(const ProgramTransfer &transfer);

} // namespace harmony

#endif // PASSES_SCHEDULE_SWAPS_H
