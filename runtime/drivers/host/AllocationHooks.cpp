//===- AllocationHooks.cpp - The C allocator, seen by the host driver -----===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces the C library's allocation functions in executables that link this
// file: allocations inside a library call come from the worker's scratch, all
// others are forwarded and, on request, counted. Not for sanitizer builds,
// whose runtimes replace the same functions.
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/LibraryScratch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

using namespace harmony::runtime;

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *pointer);
}

namespace {
void countAllocation() {
  if (detail::countingAllocations.load(std::memory_order_relaxed))
    detail::allocations.fetch_add(1, std::memory_order_relaxed);
}

void *allocateAligned(size_t alignment, size_t size) {
  if (void *p = allocateLibraryScratch(size, alignment))
    return p;
  countAllocation();
  return __libc_memalign(alignment, size);
}

struct MarkHooks {
  MarkHooks() { detail::hooksPresent.store(true); }
} markHooks;
} // namespace

#define HARMONY_EXPORT __attribute__((visibility("default")))

extern "C" {

HARMONY_EXPORT void *malloc(size_t size) {
  if (void *p = allocateLibraryScratch(size, alignof(max_align_t)))
    return p;
  countAllocation();
  return __libc_malloc(size);
}

HARMONY_EXPORT void *calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (libraryScratch.active && !__builtin_mul_overflow(count, size, &bytes))
    if (void *p = allocateLibraryScratch(bytes, alignof(max_align_t)))
      return std::memset(p, 0, bytes);
  countAllocation();
  return __libc_calloc(count, size);
}

HARMONY_EXPORT void *realloc(void *pointer, size_t size) {
  if (isLibraryScratch(pointer)) {
    // The old size is not recorded; within the thread's scratch, what lies
    // behind the pointer up to the new size is readable.
    void *p = malloc(size);
    const LibraryScratch &mine = libraryScratch;
    size_t behind = mine.base + mine.capacity - static_cast<char *>(pointer);
    if (p)
      std::memmove(p, pointer, size < behind ? size : behind);
    return p;
  }
  countAllocation();
  return __libc_realloc(pointer, size);
}

HARMONY_EXPORT int posix_memalign(void **result, size_t alignment,
                                  size_t size) {
  if (alignment % sizeof(void *) || (alignment & (alignment - 1)) || !alignment)
    return EINVAL;
  void *p = allocateAligned(alignment, size);
  if (!p)
    return ENOMEM;
  *result = p;
  return 0;
}

HARMONY_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  return allocateAligned(alignment, size);
}

HARMONY_EXPORT void *memalign(size_t alignment, size_t size) {
  return allocateAligned(alignment, size);
}

HARMONY_EXPORT void free(void *pointer) {
  if (!isLibraryScratch(pointer))
    __libc_free(pointer);
}

} // extern "C"
