//===- AvailableMemory.h - What a process can still get ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_AVAILABLEMEMORY_H
#define RUNTIME_TRAIN_AVAILABLEMEMORY_H

#include <cstdint>
#include <string>

namespace harmony::runtime {

/// Bytes that the process can still get without swapping: what the system has
/// available, and no more than its memory cgroup (version 1 or 2) and those
/// above leave it, page cache that can be dropped counting as free. -1 where
/// the system does not say. `root`: in front of every path, for tests.
int64_t availableMemory(const std::string &root = "");

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_AVAILABLEMEMORY_H
