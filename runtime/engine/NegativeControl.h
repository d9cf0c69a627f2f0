//===- NegativeControl.h - Step programs made wrong on purpose --*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For tests alone: with a wait dropped, or a range poisoned before its last
// reader, a run must show wrong bits or poison, or else its checks prove
// nothing. Waits and releases are numbered over the step program, queue by
// queue in command order.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_NEGATIVECONTROL_H
#define RUNTIME_ENGINE_NEGATIVECONTROL_H

#include "runtime/engine/Blob.h"
#include "runtime/engine/Order.h"
#include "runtime/engine/QueueRunner.h"

#include <optional>
#include <string>
#include <vector>

namespace harmony::runtime {

/// Every command of the step program with this opcode.
std::vector<CommandPlace> findCommands(const Blob &blob, HmOpcode opcode);

/// Which of the waits order nothing: without the wait, other waits and the
/// order of queues still imply, in every iteration of the first two executions,
/// all that it waits for. Executions overlap.
std::vector<bool> findRedundantWaits(const Blob &blob);

struct alignas(64) BlobLine {
  char bytes[64];
};

/// The blob's bytes, one of the waits made late: it waits for as many more
/// signals of its queue as it can without getting stuck, which may be none.
/// Throws Usage where there is no such wait.
std::vector<BlobLine> withLateWait(const Blob &blob, uint64_t functionCount,
                                   int64_t number);

/// The last command before a release on its queue that reads bytes which are
/// released and computes something that is used; none where no command of the
/// queue does.
std::optional<EarlyRelease> findLastReader(const Blob &blob,
                                           const CommandPlace &release);

/// One line for each wait and each release, with their numbers and whether
/// dropping or moving it changes anything.
std::string listControls(const Blob &blob);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_NEGATIVECONTROL_H
