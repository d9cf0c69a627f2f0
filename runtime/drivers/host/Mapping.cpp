//===- Mapping.cpp - Anonymous memory with guard pages --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Mapping.h"

#include "runtime/hal/Error.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace harmony::runtime {

static constexpr size_t pageBytes = 4096;

Mapping::Mapping(int64_t bytes, const char *what) : bytes(bytes) {
  size_t inner =
      (static_cast<size_t>(bytes) + pageBytes - 1) / pageBytes * pageBytes;
  mappedBytes = inner + 2 * pageBytes;
  void *p = mmap(nullptr, mappedBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || (inner && mprotect(static_cast<char *>(p) + pageBytes,
                                            inner, PROT_READ | PROT_WRITE))) {
    int error = errno;
    if (p != MAP_FAILED)
      munmap(p, mappedBytes);
    throw Error(ExitCode::NoDevice,
                std::string(what) + ": " + std::to_string(bytes) +
                    " bytes cannot be mapped: " + strerror(error));
  }
  base = static_cast<char *>(p) + pageBytes;
  if (inner)
    madvise(base, inner, MADV_HUGEPAGE);
}

Mapping::~Mapping() {
  if (base)
    munmap(base - pageBytes, mappedBytes);
}

Mapping::Mapping(Mapping &&other) noexcept
    : base(std::exchange(other.base, nullptr)),
      bytes(std::exchange(other.bytes, 0)),
      mappedBytes(std::exchange(other.mappedBytes, 0)) {}

} // namespace harmony::runtime
