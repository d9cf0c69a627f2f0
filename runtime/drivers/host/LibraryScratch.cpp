//===- LibraryScratch.cpp - Scratch of library calls ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/LibraryScratch.h"

#include <sys/mman.h>

namespace harmony::runtime {

thread_local LibraryScratch libraryScratch;

namespace detail {
std::atomic<bool> countingAllocations{false};
std::atomic<int64_t> allocations{0};
std::atomic<bool> hooksPresent{false};
} // namespace detail

namespace {
/// Address space only; pages come with use.
constexpr size_t reservedBytes = size_t(16) << 30;
constexpr size_t pageBytes = 4096;

std::atomic<char *> regionBase{nullptr};
std::atomic<size_t> regionUsed{0};
std::atomic<int64_t> peakBytes{0};

char *region() {
  static char *const mapped = [] {
    void *p = mmap(nullptr, reservedBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *base = p == MAP_FAILED ? nullptr : static_cast<char *>(p);
    regionBase.store(base, std::memory_order_release);
    return base;
  }();
  return mapped;
}
} // namespace

void reserveLibraryScratch(size_t bytes) {
  LibraryScratch &mine = libraryScratch;
  if (bytes <= mine.capacity || !region())
    return;
  size_t size = (bytes + pageBytes - 1) / pageBytes * pageBytes;
  size_t offset = regionUsed.fetch_add(size);
  if (offset + size > reservedBytes)
    return;
  mine.base = region() + offset;
  mine.capacity = size;
}

bool isLibraryScratch(const void *pointer) {
  const char *base = regionBase.load(std::memory_order_acquire);
  auto *p = static_cast<const char *>(pointer);
  return base && p >= base && p < base + reservedBytes;
}

void *allocateLibraryScratch(size_t bytes, size_t alignment) {
  LibraryScratch &mine = libraryScratch;
  if (!mine.active)
    return nullptr;
  if (alignment < 64)
    alignment = 64;
  size_t begin = (mine.used + alignment - 1) / alignment * alignment;
  mine.used = begin + bytes;
  if (mine.used < begin || mine.used > mine.capacity || alignment > pageBytes)
    return nullptr;
  return mine.base + begin;
}

LibraryCall::~LibraryCall() {
  libraryScratch.active = false;
  auto used = static_cast<int64_t>(libraryScratch.used);
  int64_t seen = peakBytes.load(std::memory_order_relaxed);
  while (used > seen && !peakBytes.compare_exchange_weak(
                            seen, used, std::memory_order_relaxed)) {
  }
}

int64_t libraryScratchPeak() {
  return peakBytes.load(std::memory_order_relaxed);
}

int64_t allocationCount() {
  return detail::allocations.load(std::memory_order_relaxed);
}
void setAllocationCounting(bool on) {
  detail::countingAllocations.store(on, std::memory_order_relaxed);
}
bool haveAllocationHooks() {
  return detail::hooksPresent.load(std::memory_order_relaxed);
}

} // namespace harmony::runtime
