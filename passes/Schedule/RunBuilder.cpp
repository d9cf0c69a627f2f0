//===- RunBuilder.cpp - Tasks of a plan bound to its places ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/RunBuilder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

AtAttr RunBuilder::at(StringRef place, int64_t offset) {
  return place.empty() ? AtAttr()
                       : AtAttr::get(module.getContext(), ref(place), offset);
}

FloatAttr RunBuilder::seconds(double seconds) {
  return seconds > 0 ? builder.getF64FloatAttr(seconds) : FloatAttr();
}

int RunBuilder::partsOf(int tensor) const {
  return static_cast<int>(problem.tensors[tensor].gradientUses.size()) *
         plan.groups;
}

LogicalResult RunBuilder::missing(const Twine &what, int64_t event) {
  return module.emitError()
         << "the plan has no buffer for " << what << " at "
         << planner::describe(plan, problem, static_cast<int>(event));
}

LogicalResult RunBuilder::bindSlots(TaskOp task, int64_t event,
                                    SlotBinding bind,
                                    SmallVectorImpl<Attribute> &at) {
  for (auto slot : task.getSlots().getAsRange<SlotAttr>()) {
    AtAttr address = bind(slot);
    if (!address)
      return missing("slot " + stringifySlotKind(slot.getKind()) + " " +
                         Twine(slot.getIndex()) + " of task @" +
                         task.getSymName(),
                     event);
    at.push_back(address);
  }
  return success();
}

LogicalResult RunBuilder::addRun(TaskOp task, Direction direction,
                                 int64_t layer, StringRef label, int64_t event,
                                 SlotBinding bind, double workSeconds,
                                 double lastSeconds) {
  SmallVector<Attribute> addresses;
  if (failed(bindSlots(task, event, bind, addresses)))
    return failure();
  RunOp::create(builder, task.getLoc(), ref(task.getSymName()),
                builder.getArrayAttr(addresses),
                DirectionAttr::get(module.getContext(), direction),
                builder.getI64IntegerAttr(layer), builder.getStringAttr(label),
                builder.getI64IntegerAttr(event), seconds(workSeconds),
                seconds(lastSeconds));
  return success();
}
