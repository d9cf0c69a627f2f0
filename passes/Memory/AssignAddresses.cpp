//===- AssignAddresses.cpp - The plan's offsets ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Memory/Memory.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

LogicalResult harmony::assignAddresses(ModuleOp module,
                                       const planner::Plan *step,
                                       const planner::Plan *evaluate) {
  for (auto buffer : module.getOps<BufferOp>()) {
    const planner::Plan *plan =
        buffer.getProgram() == ProgramKind::evaluate ? evaluate : step;
    int64_t id = buffer.getId(),
            count = plan ? static_cast<int64_t>(plan->buffers.size()) : 0;
    if (id < 0 || id >= count)
      return buffer.emitOpError()
             << "is buffer " << id << " of the plan of program "
             << stringifyProgramKind(buffer.getProgram()) << ", which has "
             << count;
    if (buffer.getTotalBytes() > plan->buffers[id].bytes())
      return buffer.emitOpError()
             << "takes " << buffer.getTotalBytes()
             << " bytes, but the plan has " << plan->buffers[id].bytes();
    buffer.setOffset(plan->buffers[id].offset);
  }
  const planner::Plan *primary = step ? step : evaluate;
  int64_t end = primary ? alignTo64(primary->hostBytes) : 0;
  for (auto home : module.getOps<HomeOp>()) {
    int64_t id = home.getId();
    if (id < 0) {
      home.setOffset(end);
      end = alignTo64(end + home.getBytes());
      continue;
    }
    int64_t count = primary ? static_cast<int64_t>(primary->homes.size()) : 0;
    if (id >= count)
      return home.emitOpError()
             << "is home " << id << " of a plan that has " << count;
    if (primary->homes[id].bytes() != home.getBytes())
      return home.emitOpError()
             << "takes " << home.getBytes() << " bytes, but the plan has "
             << primary->homes[id].bytes();
    home.setOffset(primary->homes[id].offset);
  }
  return success();
}

int64_t harmony::getPeakBytes(ModuleOp module, ProgramKind kind,
                              int64_t device) {
  int64_t peak = 0;
  ProgramKind owner =
      kind == ProgramKind::evaluate ? ProgramKind::evaluate : ProgramKind::step;
  for (auto buffer : module.getOps<BufferOp>())
    if (buffer.getProgram() == owner && buffer.getDevice() == device)
      peak = std::max(peak,
                      buffer.getOffset().value_or(0) + buffer.getTotalBytes());
  return peak;
}

int64_t harmony::getHostBytes(ModuleOp module) {
  int64_t end = 0;
  for (auto home : module.getOps<HomeOp>())
    end = std::max(end, home.getOffset().value_or(0) + home.getBytes());
  return end;
}
