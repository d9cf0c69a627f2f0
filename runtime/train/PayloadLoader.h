//===- PayloadLoader.h - Finds the program of this executable ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_PAYLOADLOADER_H
#define RUNTIME_TRAIN_PAYLOADLOADER_H

#include "runtime/program.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace harmony::runtime {

/// What an executable trains: the blob and the functions that its kernels name.
/// The memory stays valid for the life of the process.
struct Payload {
  const void *program = nullptr;
  uint64_t programSize = 0;
  const HmRangeFunction *functions = nullptr;
  size_t functionCount = 0;
  std::string executable; // path; weights are beside it
};

/// Reads the trailer of `path` (format: Payload.h), loads the payload from
/// memory and looks its symbols up. Throws Usage when the file carries no
/// payload and Failure when what it carries cannot be loaded.
Payload loadPayload(const std::string &path);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_PAYLOADLOADER_H
