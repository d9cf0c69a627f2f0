//===- HostAccesses.h - When programs touch the host store ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_HOSTACCESSES_H
#define RUNTIME_ENGINE_HOSTACCESSES_H

#include "runtime/engine/Blob.h"
#include "runtime/hal/HostStore.h"

#include <utility>
#include <vector>

namespace harmony::runtime {

/// Every access of one execution to the host store, in the order of the machine
/// that was planned for (VirtualClock.h). An execution makes all of them,
/// conflicting ones in this order, since waits see to that; others may change
/// places. Commands that dump are left out, releases unless they are asked for.
std::vector<HostAccess> hostAccesses(const Blob &blob, HmProgramKind kind,
                                     bool withReleases);

/// Ranges (offset, bytes) of the host store that outlive an execution:
/// variables, outputs, terms of the loss.
std::vector<std::pair<int64_t, int64_t>> keptHostRanges(const Blob &blob);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_HOSTACCESSES_H
