//===- Placement.h - Where a task computes its values -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_PLACEMENT_H
#define PASSES_TASKS_PLACEMENT_H

#include "dialects/NN/NN.h"
#include "passes/Tasks/TaskBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"

namespace harmony {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Where a value is computed, and whether what lies there is added to.
struct Destination {
  View view;
  bool accumulate = false;
};

/// Decides where the values of a function become: in the slots of its task, in
/// the memory of something bigger or in the workspace.
class Placement {
public:
  /// Adds the slots of arguments and results to `task` and the views of
  /// arguments to `views`. Keeps references to all of them; `views` gets those
  /// of results as they are computed.
  Placement(mlir::func::FuncOp function, const TaskOptions &options,
            TaskBuilder &task, llvm::DenseMap<mlir::Value, View> &views);

  /// Where `value` is computed: in its destination, in place of what is
  /// consumed for it, or in a workspace of its own.
  Destination place(mlir::Value value);

  /// Where the value can be computed in place: what reads it returns it, or
  /// makes a part of something bigger of it that nothing else reads.
  std::optional<Destination> findDestination(mlir::Value value);

  /// Where the terms of a sum of products (blockWindows) go: the first stores,
  /// the second adds to it.
  Destination findSum(mlir::arith::AddFOp sum, size_t index);

  /// The part of a concatenation's memory that operand `index` takes.
  Destination findPart(nn::ConcatOp concat, size_t index);

  /// All of a concatenation, a part of which has been found.
  const View &getWhole(nn::ConcatOp concat) const {
    return concatenations.find(concat)->second.view;
  }

  /// The memory of result `index` of the function.
  View getResult(size_t index);

  /// Contiguous workspace for a value.
  View allocate(mlir::Value value);

private:
  /// Whether result `index`, computed where it belongs, overwrites nothing that
  /// is read later: it may take the place of an argument.
  bool canOverwrite(mlir::Value value, size_t index);

  /// Workspace for a value. Rows a multiple of pages apart fall into the same
  /// few sets of the caches when a product walks down columns (the transposed
  /// operand of a weight's gradient: 110 against 142 GFLOP/s), so such rows are
  /// spaced by a line more.
  View allocateSpaced(mlir::Value value);

  /// A gradient that nothing else reads: nobody gives updates a workspace, and
  /// they may leave anything in the gradients. The sum of more of them than a
  /// launch can read is made in parts.
  std::optional<View> findConsumed(mlir::Value value);

  mlir::func::FuncOp function;
  const TaskOptions &options;
  TaskBuilder &task;
  llvm::DenseMap<mlir::Value, View> &views;
  llvm::SmallVector<int> resultBuffers;
  llvm::DenseMap<mlir::Operation *, Destination> concatenations, sums;
};

} // namespace harmony

#endif // PASSES_TASKS_PLACEMENT_H
