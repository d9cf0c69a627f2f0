//===- MemoryStore.cpp - A host store that is always there ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/MemoryStore.h"

#include "runtime/hal/Error.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace harmony::runtime {

MemoryStore::MemoryStore(int64_t bytes, const std::string &path)
    : bytes(bytes) {
  file.emplace(path, bytes, StoreFile::Access::Cached);
  if (bytes == 0)
    return;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                 file->descriptor(), 0);
  if (p == MAP_FAILED)
    throw Error(ExitCode::NoDevice,
                "host store in " + path + ": " + std::to_string(bytes) +
                    " bytes cannot be mapped: " + strerror(errno));
  base = static_cast<char *>(p);
}

MemoryStore::~MemoryStore() {
  if (file && base)
    munmap(base, bytes);
}

void MemoryStore::setAccessible(bool isAccessible) {
  if (base)
    mprotect(base, bytes, isAccessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

} // namespace harmony::runtime
