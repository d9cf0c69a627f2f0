//===- TaskBuilder.cpp - Tasks while they grow ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/TaskBuilder.h"

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace harmony;
using schedule::SlotKind;

int TaskBuilder::addSlot(SlotKind kind, int64_t index, int64_t bytes) {
  for (auto [position, slot] : llvm::enumerate(slots))
    if (slot.kind == kind && slot.index == index)
      return position;
  slots.push_back({kind, index, bytes});
  return slots.size() - 1;
}

int TaskBuilder::addBuffer(int slot, int64_t bytes) {
  buffers.push_back({slot, 0, bytes});
  return buffers.size() - 1;
}

static int64_t savedBytes(const TaskOptions &options, size_t index) {
  return tensorBytes(
      nn::instantiate(options.savedTypes[index], options.microbatch));
}

void TaskBuilder::placeSaved() {
  for (auto [index, segment] : llvm::enumerate(options.savedSegments)) {
    if (static_cast<int64_t>(segmentBytes.size()) <= segment)
      segmentBytes.resize(segment + 1, 0);
    savedOffsets.push_back(schedule::alignTo64(segmentBytes[segment]));
    segmentBytes[segment] = savedOffsets.back() + savedBytes(options, index);
  }
  for (int64_t bytes : segmentBytes) {
    cost.savedStarts.back() = schedule::alignTo64(cost.savedStarts.back());
    cost.savedStarts.push_back(cost.savedStarts.back() + bytes);
  }
}

int TaskBuilder::addSaved(int64_t index) {
  if (savedOffsets.empty())
    placeSaved();
  int64_t segment = options.savedSegments[index];
  int buffer =
      addBuffer(addSlot(SlotKind::saved, segment, segmentBytes[segment]),
                savedBytes(options, index));
  buffers[buffer].offset = savedOffsets[index];
  return buffer;
}

void TaskBuilder::Launch::touch(const View &view, Type type,
                                schedule::Access access) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t size = elementBytes(tensor.getElementType());
  operands.push_back({view.buffer, view.offset * size,
                      view.span(tensor.getShape()) * size, access});
}

/// Read and written. Of a table that rows are gathered from, no more than is
/// written.
static double bytesOf(const TaskBuilder::Launch &launch) {
  double read = 0, written = 0;
  for (const TaskBuilder::Launch::Operand &operand : launch.operands)
    if (operand.access != schedule::Access::Read)
      written += static_cast<double>(operand.bytes);
  // Products that add to what is there read it, too. Kernels that do so may
  // touch a part, as scatters do.
  if (launch.kind == TaskBuilder::Launch::Kind::Product)
    for (const TaskBuilder::Launch::Operand &operand : launch.operands)
      if (operand.access == schedule::Access::ReadWrite)
        read += static_cast<double>(operand.bytes);
  for (const TaskBuilder::Launch::Operand &operand : launch.operands)
    if (operand.access == schedule::Access::Read) {
      double bytes = static_cast<double>(operand.bytes);
      read +=
          launch.family == HM_FAMILY_GATHER ? std::min(bytes, written) : bytes;
    }
  return read + written;
}

static LaunchCost costOf(const TaskBuilder::Launch &launch) {
  LaunchCost cost;
  cost.bytes = bytesOf(launch);
  cost.flops = launch.flops;
  switch (launch.kind) {
  case TaskBuilder::Launch::Kind::Product: {
    const HmGemm &gemm = launch.gemm;
    cost.calls = launch.extent;
    cost.rows = std::min(gemm.m, gemm.blockM);
    cost.columns = std::min(gemm.n, gemm.blockN);
    cost.depth = gemm.k;
    break;
  }
  case TaskBuilder::Launch::Kind::Convolution: {
    const HmConvolution &c = launch.convolution;
    int64_t window = c.kernel[0] * c.kernel[1] * c.channels,
            positions = c.blockSamples * c.out[0] * c.out[1];
    bool ofWeights = c.direction == HM_CONVOLUTION_WEIGHTS;
    cost.calls = llvm::divideCeil(c.samples, c.blockSamples);
    // Registers are filled with positions, or with the window, however few the
    // outputs are: the library is as fast as with products of long sides.
    constexpr int64_t least = 256;
    cost.rows = std::max(least, ofWeights ? window : positions);
    cost.columns = std::max(least, c.outputs);
    cost.depth = std::max(least, ofWeights ? positions : window);
    break;
  }
  case TaskBuilder::Launch::Kind::Kernel:
    cost.operations = launch.operations * static_cast<double>(launch.extent);
    cost.pieces = static_cast<double>(launch.extent) /
                  static_cast<double>(std::max<int64_t>(1, launch.grain));
    break;
  case TaskBuilder::Launch::Kind::Fill: {
    constexpr double block = 256 << 10; // the driver's
    cost.pieces = cost.bytes / block;
    break;
  }
  }
  if (cost.calls > 0)
    cost.pieces = static_cast<double>(cost.calls);
  return cost;
}

void TaskBuilder::add(Launch launch) {
  bool isProduct = launch.kind == Launch::Kind::Product ||
                   launch.kind == Launch::Kind::Convolution;
  for (const Launch::Operand &operand : launch.operands) {
    Buffer &buffer = buffers[operand.buffer];
    buffer.first = std::min<int>(buffer.first, launches.size());
    buffer.last = std::max<int>(buffer.last, launches.size());
    (isProduct ? cost.productBytes : cost.kernelBytes) += operand.bytes;
  }
  cost.flops += launch.flops;
  cost.launchCosts.push_back(costOf(launch));
  launches.push_back(std::move(launch));
}

/// Interval packing: largest first, at the lowest offset free over the whole
/// life.
void TaskBuilder::assignWorkspace() {
  SmallVector<Buffer *> order;
  for (Buffer &buffer : buffers)
    if (buffer.slot < 0 && buffer.last >= 0)
      order.push_back(&buffer);
  llvm::stable_sort(order, [](const Buffer *a, const Buffer *b) {
    return a->bytes > b->bytes;
  });
  SmallVector<Buffer *> placed;
  for (Buffer *buffer : order) {
    SmallVector<Buffer *> conflicts;
    for (Buffer *other : placed)
      if (buffer->first <= other->last && other->first <= buffer->last)
        conflicts.push_back(other);
    llvm::sort(conflicts, [](const Buffer *a, const Buffer *b) {
      return a->offset < b->offset;
    });
    int64_t offset = 0;
    for (Buffer *other : conflicts) {
      if (offset + schedule::alignTo64(buffer->bytes) <= other->offset)
        break;
      offset =
          std::max(offset, other->offset + schedule::alignTo64(other->bytes));
    }
    buffer->offset = offset;
    cost.workspace = std::max(cost.workspace, offset + buffer->bytes);
    placed.push_back(buffer);
  }
}

void TaskBuilder::emit(ModuleOp module, Location loc) {
  cost.launches = launches.size();
  int workspaceSlot = -1;
  int64_t workspaceOffset = 0;
  if (cost.workspace && options.workspaceInResult) {
    workspaceSlot = addSlot(SlotKind::result, 0, 0);
    workspaceOffset = schedule::alignTo64(slots[workspaceSlot].bytes);
    slots[workspaceSlot].bytes = workspaceOffset + cost.workspace;
    ++cost.launches;
  } else if (cost.workspace) {
    workspaceSlot = addSlot(SlotKind::workspace, 0, cost.workspace);
  }
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  MLIRContext *context = module.getContext();
  SmallVector<schedule::SlotAttr> slotAttributes;
  for (const Slot &slot : slots)
    slotAttributes.push_back(
        schedule::SlotAttr::get(context, slot.kind, slot.index, slot.bytes));
  auto task = cost.task =
      schedule::TaskOp::create(builder, loc, options.name, slotAttributes);
  builder.setInsertionPointToEnd(&task.getBlock());
  if (workspaceOffset) // the slot is copied as a whole
    schedule::FillOp::create(builder, loc,
                             schedule::RefAttr::get(context, workspaceSlot, 0,
                                                    slots[workspaceSlot].bytes,
                                                    schedule::Access::Write),
                             /*value=*/0);
  for (const Launch &launch : launches)
    emitLaunch(builder, launch, workspaceSlot, workspaceOffset);
}

void TaskBuilder::emitLaunch(OpBuilder &builder, const Launch &launch,
                             int workspaceSlot, int64_t workspaceOffset) const {
  SmallVector<schedule::RefAttr> refs;
  for (const Launch::Operand &operand : launch.operands) {
    const Buffer &buffer = buffers[operand.buffer];
    bool isWorkspace = buffer.slot < 0;
    int64_t offset =
        buffer.offset + operand.offset + (isWorkspace ? workspaceOffset : 0);
    refs.push_back(schedule::RefAttr::get(
        builder.getContext(), isWorkspace ? workspaceSlot : buffer.slot, offset,
        operand.bytes, operand.access));
  }
  switch (launch.kind) {
  case Launch::Kind::Kernel:
    schedule::LaunchOp::create(
        builder, launch.loc, launch.kernel, refs, launch.extent, launch.grain,
        options.family.value_or(static_cast<schedule::Family>(launch.family)));
    break;
  case Launch::Kind::Product:
    schedule::GemmOp::create(builder, launch.loc, launch.gemm, refs);
    break;
  case Launch::Kind::Convolution:
    schedule::ConvolutionOp::create(builder, launch.loc, launch.convolution,
                                    refs);
    break;
  case Launch::Kind::Fill:
    schedule::FillOp::create(builder, launch.loc, refs.front(),
                             /*value=*/0);
    break;
  }
}

TaskCost TaskBuilder::finish(ModuleOp module, Location loc) {
  assignWorkspace();
  emit(module, loc);
  return cost;
}
