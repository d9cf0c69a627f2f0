//===- FileMapping.h - A file mapped for reading ----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_FILEMAPPING_H
#define RUNTIME_TRAIN_FILEMAPPING_H

#include "runtime/hal/Error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace harmony::runtime {

/// Read-only view of a regular file. Errors name the file and carry the given
/// code.
class FileMapping {
public:
  FileMapping(const std::string &path, ExitCode code);
  ~FileMapping();
  FileMapping(const FileMapping &) = delete;
  FileMapping &operator=(const FileMapping &) = delete;

  const char *data() const { return base; }
  size_t size() const { return bytes; }
  /// When the file was last written, in nanoseconds since 1970.
  int64_t modified() const { return modifiedNanoseconds; }

  /// Bytes of any file mapping are not needed for now: they are no longer
  /// resident, and read from the file when they are.
  static void forget(const char *first, size_t bytes);

private:
  const char *base = nullptr;
  size_t bytes = 0;
  int64_t modifiedNanoseconds = 0;
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_FILEMAPPING_H
