//===- StoreFile.h - The file behind a host store ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_STOREFILE_H
#define RUNTIME_DRIVERS_HOST_STOREFILE_H

#include <cstdint>
#include <string>

namespace harmony::runtime {

/// A file of zeros without a name: it is gone when the process is, however that
/// ends. All of its space is taken at once.
class StoreFile {
public:
  enum class Access {
    Direct, // past the page cache, where the file system allows it
    Cached
  };

  /// In the folder `path`. Throws Failure where no file can be made there and
  /// NoDevice where there is no room for `bytes`.
  StoreFile(const std::string &path, int64_t bytes, Access access);
  ~StoreFile();
  StoreFile(const StoreFile &) = delete;
  StoreFile &operator=(const StoreFile &) = delete;

  int descriptor() const { return file; }

  /// All of the bytes. With direct access, addresses, offsets and bytes are
  /// multiples of 4096. Throw Failure.
  void read(int64_t offset, char *to, int64_t bytes) const;
  void write(int64_t offset, const char *from, int64_t bytes) const;

private:
  [[noreturn]] void fail(const char *what, int64_t offset, int64_t bytes,
                         int error) const;

  std::string path;
  int file = -1;
  bool isDirect = false;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_STOREFILE_H
