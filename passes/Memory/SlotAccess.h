//===- SlotAccess.h - What a task does to its slots -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MEMORY_SLOTACCESS_H
#define PASSES_MEMORY_SLOTACCESS_H

#include "dialects/Harmony/Harmony.h"

#include <vector>

namespace harmony {

/// Bytes of one slot that a task reads before it writes them, or writes.
struct SlotAccess {
  int64_t slot = 0, begin = 0, end = 0;
  bool write = false;
};

/// What a task reads before it has written it, in order, then what it writes,
/// by slot.
std::vector<SlotAccess> findSlotAccesses(schedule::TaskOp task);

} // namespace harmony

#endif // PASSES_MEMORY_SLOTACCESS_H
