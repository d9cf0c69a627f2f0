//===- FileMapping.cpp - A file mapped for reading ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/FileMapping.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace harmony::runtime {

FileMapping::FileMapping(const std::string &path, ExitCode code) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    throw Error(code, path + ": " + strerror(errno));
  struct stat status;
  if (fstat(file, &status) || !S_ISREG(status.st_mode)) {
    close(file);
    throw Error(code, path + ": not a regular file");
  }
  bytes = status.st_size;
  modifiedNanoseconds =
      int64_t(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
  void *p =
      bytes ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  int error = errno;
  close(file);
  if (p == MAP_FAILED)
    throw Error(code, path + ": cannot be mapped: " + strerror(error));
  base = static_cast<const char *>(p);
}

FileMapping::~FileMapping() {
  if (base)
    munmap(const_cast<char *>(base), bytes);
}

void FileMapping::forget(const char *first, size_t bytes) {
  constexpr uintptr_t pageBytes = 4096;
  auto begin = reinterpret_cast<uintptr_t>(first) / pageBytes * pageBytes;
  auto end =
      (reinterpret_cast<uintptr_t>(first) + bytes) / pageBytes * pageBytes;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

} // namespace harmony::runtime
