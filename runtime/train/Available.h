//===- Available.h - What a process can still get ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Limits are those of control groups, version 1 or 2, the process's own and
// those above. `root`: in front of every path that is read, for tests.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_AVAILABLE_H
#define RUNTIME_TRAIN_AVAILABLE_H

#include <cstdint>
#include <string>

namespace harmony::runtime {

/// Bytes that the process can still get without swapping: what the system has
/// available, and no more than its control groups leave it, page cache that can
/// be dropped counting as free. -1 where the system does not say.
int64_t availableMemory(const std::string &root = "");

/// Processors that the process may run on, and no more than the whole ones that
/// its control groups give it the time of, as threads that share work wait for
/// the one that is held up; at least 1.
unsigned availableProcessors(const std::string &root = "");

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_AVAILABLE_H
