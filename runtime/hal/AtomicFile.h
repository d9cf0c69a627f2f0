//===- AtomicFile.h - Files that appear when they are complete --*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_ATOMICFILE_H
#define RUNTIME_HAL_ATOMICFILE_H

#include "runtime/hal/Error.h"

#include <string>
#include <sys/types.h>

namespace harmony::runtime {

/// A file that is written under a temporary name beside its own and renamed
/// when it is complete: until then, and after any failure, what was there
/// before is unchanged. Symbolic links are followed. A device or a pipe, which
/// has nothing to lose, is written as it is. Everything throws Failure.
class AtomicFile {
public:
  /// `mode`: as for open(2), less the umask.
  explicit AtomicFile(const std::string &path, mode_t mode = 0666);
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// Where a new file for `path` grows until commit, in this process.
  static std::string temporaryOf(const std::string &path);

  void write(const char *data, size_t bytes);
  /// Puts everything on the disk. Nothing can be written after it.
  void finish();
  /// finish(), then the file takes its name.
  void commit();

private:
  [[noreturn]] void fail(const char *what) const;

  std::string path;              ///< as given, for messages
  std::string target, temporary; ///< temporary: "" when there is none
  int file = -1;
  bool isRegular = true;
};

/// Whether an AtomicFile could be written there, tried before there is
/// something to lose. Throws Failure.
void checkWritable(const std::string &path);

/// Whether two paths are one file, or would be.
bool isSameFile(const std::string &a, const std::string &b);

/// Writes all of a file. Throws Failure.
void writeAtomically(const std::string &path, const std::string &text);

} // namespace harmony::runtime

#endif // RUNTIME_HAL_ATOMICFILE_H
