//===- SlotAccess.cpp - What a task does to its slots ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Memory/SlotAccess.h"

#include <map>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

std::vector<SlotAccess> harmony::findSlotAccesses(TaskOp task) {
  std::vector<SlotAccess> accesses;
  std::vector<std::map<int64_t, int64_t>> written(
      task.getSlots().size()); // begin -> end, disjoint
  auto read = [&](RefAttr ref) {
    int64_t begin = ref.getOffset(), end = begin + ref.getBytes();
    for (auto [from, to] : written[ref.getSlot()]) {
      if (to <= begin || from >= end)
        continue;
      if (from > begin)
        accesses.push_back({ref.getSlot(), begin, from, false});
      begin = std::max(begin, to);
    }
    if (begin < end)
      accesses.push_back({ref.getSlot(), begin, end, false});
  };
  auto write = [&](RefAttr ref) {
    int64_t begin = ref.getOffset(), end = begin + ref.getBytes();
    auto &intervals = written[ref.getSlot()];
    for (auto it = intervals.begin(); it != intervals.end();) {
      if (it->second < begin || it->first > end) {
        ++it;
        continue;
      }
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = intervals.erase(it);
    }
    if (begin < end)
      intervals[begin] = end;
  };
  for (Operation &op : task.getBlock()) {
    SmallVector<RefAttr> refs = getRefs(&op);
    for (RefAttr ref : refs)
      if (ref.getAccess() != Access::Write)
        read(ref);
    for (RefAttr ref : refs)
      if (ref.getAccess() != Access::Read)
        write(ref);
  }
  for (auto [slot, intervals] : llvm::enumerate(written))
    for (auto [begin, end] : intervals)
      accesses.push_back({static_cast<int64_t>(slot), begin, end, true});
  return accesses;
}
