//===- HostStore.h - Memory of the host store -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_HOSTSTORE_H
#define RUNTIME_HAL_HOSTSTORE_H

#include "runtime/program.h"

#include <cstddef>
#include <cstdint>

namespace harmony::runtime {

/// Bytes [offset, offset + bytes) of the host store and what a command does
/// with them. A range that is written and not read is written all over.
struct HostAccess {
  int64_t offset = 0, bytes = 0;
  bool reads = true, writes = true;
  // Of predicted orders (see HostAccesses.h) alone:
  bool whole = false; // all of it is needed at once, rather than piece by piece
  bool joins = false; // at the same time as the access before it
};

/// What a store has moved from and to where it lies.
struct HostStoreEvidence {
  int64_t bytesRead = 0, bytesWritten = 0;
  double waitSeconds = 0; // commands waited so long for bytes, summed
};

/// The memory behind the host store. Addresses never change, but bytes need not
/// be there: they are from enter() to leave(). Any thread may call both.
class HostStore {
public:
  virtual ~HostStore() = default;

  virtual char *data() const = 0;
  virtual int64_t size() const = 0;

  /// Returns when the bytes of all `accesses` are in memory; they stay there
  /// until leave() with the same arguments. `ordered`: the next of the accesses
  /// that were predicted for the program that runs. Throws Failure where bytes
  /// cannot be moved.
  virtual void enter(const HostAccess *accesses, size_t count,
                     bool ordered) = 0;
  virtual void leave(const HostAccess *accesses, size_t count,
                     bool ordered) = 0;

  /// Bytes from `offset` on, at most `bytes`, that are best entered at once.
  virtual int64_t piece(int64_t offset, int64_t bytes) const = 0;

  /// Executions of the program follow. Called while none is under way.
  virtual void begin(HmProgramKind kind) = 0;

  /// Whether any of the store can be read or written: nothing is to be entered
  /// while that is not so.
  virtual void setAccessible(bool isAccessible) = 0;

  /// The most memory that the store takes, in bytes.
  virtual int64_t memoryBytes() const = 0;
  virtual HostStoreEvidence evidence() const = 0;

  /// Calls `function(address, bytes)` for the pieces of a range, one after the
  /// other, each while it is in memory.
  template <typename Function>
  void visit(HostAccess range, Function function, bool ordered) {
    while (range.bytes > 0) {
      HostAccess part = range;
      part.bytes = piece(range.offset, range.bytes);
      enter(&part, 1, ordered);
      try {
        function(data() + part.offset, part.bytes);
      } catch (...) {
        leave(&part, 1, ordered);
        throw;
      }
      leave(&part, 1, ordered);
      range.offset += part.bytes;
      range.bytes -= part.bytes;
    }
  }
};

/// Keeps bytes of a store in memory while it lives; `store` may be null.
class HostStorePresence {
public:
  HostStorePresence(HostStore *store, const HostAccess *accesses, size_t count,
                    bool ordered)
      : store(count ? store : nullptr), accesses(accesses), count(count),
        ordered(ordered) {
    if (this->store)
      store->enter(accesses, count, ordered);
  }
  ~HostStorePresence() {
    if (store)
      store->leave(accesses, count, ordered);
  }
  HostStorePresence(const HostStorePresence &) = delete;
  HostStorePresence &operator=(const HostStorePresence &) = delete;

private:
  HostStore *store;
  const HostAccess *accesses;
  size_t count;
  bool ordered;
};

} // namespace harmony::runtime

#endif // RUNTIME_HAL_HOSTSTORE_H
