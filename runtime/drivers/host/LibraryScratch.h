//===- LibraryScratch.h - Scratch of library calls --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// oneDNN allocates packing buffers inside each product whatever its scratchpad
// mode. The hooks of AllocationHooks.cpp, where an executable links them, serve
// these from the calling worker's own scratch, so that training allocates
// nothing and the bytes are known. Without the hooks everything here is inert.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_LIBRARYSCRATCH_H
#define RUNTIME_DRIVERS_HOST_LIBRARYSCRATCH_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace harmony::runtime {

/// State of one thread. The hooks read it inside malloc, so it must stay
/// trivially initialised.
struct LibraryScratch {
  char *base;
  size_t capacity;
  size_t used; // asked for by the call in progress, what did not fit included
  bool active; // a call is in progress and served from here
};
extern thread_local LibraryScratch libraryScratch;

/// Gives this thread `bytes` of scratch; does nothing when it has as much
/// already. The address range lives as long as the process.
void reserveLibraryScratch(size_t bytes);

/// True for addresses that any thread's scratch ever covered.
bool isLibraryScratch(const void *pointer);

/// The hooks' allocator: null when no call is in progress or the scratch is
/// full.
void *allocateLibraryScratch(size_t bytes, size_t alignment);

/// The most that one call has asked for since the process started.
int64_t libraryScratchPeak();

/// A library call in progress on this thread.
class LibraryCall {
public:
  LibraryCall() {
    libraryScratch.used = 0;
    libraryScratch.active = true;
  }
  ~LibraryCall();
  LibraryCall(const LibraryCall &) = delete;
  LibraryCall &operator=(const LibraryCall &) = delete;
};

/// Allocations that reached the C library while counting was on, over all
/// threads.
int64_t allocationCount();
void setAllocationCounting(bool on);
/// Whether the hooks are linked into this process; without them the count stays
/// zero.
bool haveAllocationHooks();

namespace detail {
extern std::atomic<bool> countingAllocations;
extern std::atomic<int64_t> allocations;
extern std::atomic<bool> hooksPresent;
} // namespace detail

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_LIBRARYSCRATCH_H
