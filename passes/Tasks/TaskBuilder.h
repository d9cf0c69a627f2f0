//===- TaskBuilder.h - Tasks while they grow --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_TASKBUILDER_H
#define PASSES_TASKS_TASKBUILDER_H

#include "passes/Tasks/LowerTask.h"
#include "passes/Tasks/View.h"
#include "runtime/program.h"

#include <climits>

namespace harmony {

/// A task while it grows: its slots, the buffers in them and in the workspace,
/// and its launches in their order. The workspace gets addresses at the end,
/// when it is known how long each buffer lives.
class TaskBuilder {
public:
  /// Memory that views refer to: a region of a slot, or a piece of the
  /// workspace.
  struct Buffer {
    int slot = -1;      ///< -1: workspace
    int64_t offset = 0; ///< bytes, in the slot; workspace: assigned at the end
    int64_t bytes = 0;
    int first = INT_MAX, last = -1; ///< launches that touch it
  };

  /// A launch before the workspace has addresses.
  struct Launch {
    mlir::Location loc;
    enum class Kind { Kernel, Product, Convolution, Fill } kind;
    std::string kernel = {};
    int64_t extent = 1, grain = 1;
    HmFamily family = HM_FAMILY_POINTWISE;
    HmGemm gemm = {};
    HmConvolution convolution = {};
    double flops = 0;      ///< of a product or convolution
    double operations = 0; ///< of a kernel, for each index of its extent
    struct Operand {
      int buffer;
      int64_t offset, bytes; ///< in the buffer
      schedule::Access access;
    };
    llvm::SmallVector<Operand, 4> operands = {};

    /// Adds the elements of a tensor of `type` that lies as `view` says.
    void touch(const View &view, mlir::Type type, schedule::Access access);
  };

  /// Keeps a reference to the options.
  explicit TaskBuilder(const TaskOptions &options) : options(options) {}

  /// The position of a slot. Parameters and states that are updated in place
  /// share the slot of the argument.
  int addSlot(schedule::SlotKind kind, int64_t index, int64_t bytes);
  /// The index of a new buffer at the beginning of a slot.
  int addBuffer(int slot, int64_t bytes);
  int addWorkspace(int64_t bytes) { return addBuffer(-1, bytes); }
  /// Saved value `index`, in its segment of the saved block.
  int addSaved(int64_t index);
  const Buffer &getBuffer(int index) const { return buffers[index]; }

  void add(Launch launch);

  /// Gives the workspace addresses and appends the harmony.task to `module`.
  TaskCost finish(mlir::ModuleOp module, mlir::Location loc);

private:
  struct Slot {
    schedule::SlotKind kind;
    int64_t index, bytes;
  };

  void assignWorkspace();
  void emit(mlir::ModuleOp module, mlir::Location loc);
  void emitLaunch(mlir::OpBuilder &builder, const Launch &launch,
                  int workspaceSlot, int64_t workspaceOffset) const;

  const TaskOptions &options;
  llvm::SmallVector<Slot> slots;
  llvm::SmallVector<Buffer> buffers;
  std::vector<Launch> launches;
  TaskCost cost;
  /// By saved value, within its segment; by segment.
  llvm::SmallVector<int64_t> savedOffsets, segmentBytes;

  void placeSaved();
};

} // namespace harmony

#endif // PASSES_TASKS_TASKBUILDER_H
