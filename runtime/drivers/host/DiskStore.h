//===- DiskStore.h - A host store on disk -----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The store has addresses for all of its bytes and memory for some: blocks come
// from a file straight to their address and give their pages back when they
// leave. What programs will touch is known in order and repeats, so blocks are
// read ahead exactly, and the block that leaves is the one needed last (L. A.
// Belady, A study of replacement algorithms for a virtual-storage computer,
// 1966). When to read ahead follows the algorithm "aggressive" of P. Cao,
// E. W. Felten, A. R. Karlin and K. Li, A study of integrated prefetching and
// caching strategies, 1995: always the next missing block, in place of the one
// needed last, unless that is needed before it. A part of the memory is the
// limit of what is read ahead.
//
// Predictions decide what is fast. Only one of them decides what is right: a
// block that is written all over before it is read again is not written to the
// file. It holds because a block's accesses that conflict come in their order,
// and all of them are counted.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_DISKSTORE_H
#define RUNTIME_DRIVERS_HOST_DISKSTORE_H

#include "runtime/drivers/host/StoreFile.h"
#include "runtime/hal/HostStore.h"

#include <array>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace harmony::runtime {

struct DiskStoreOptions {
  std::string path;   // a folder
  int64_t bytes = 0;  // of the store
  int64_t memory = 0; // bytes of it that are in memory at once, at most
  /// Of one execution of every program, in order: see hostAccesses.
  std::array<std::vector<HostAccess>, HM_PROGRAM_COUNT> accesses;
  /// Ranges (offset, bytes) that are read outside of executions.
  std::vector<std::pair<int64_t, int64_t>> kept;
  /// Tests: bytes that are not in memory are unreadable.
  bool guard = false;
};

class DiskStore final : public HostStore {
public:
  /// Throws NoDevice where `memory` is less than what one command needs, and
  /// as StoreFile does.
  explicit DiskStore(const DiskStoreOptions &options);
  ~DiskStore() override;

  /// The least `memory` that these accesses need.
  static int64_t leastMemory(const DiskStoreOptions &options);

  char *data() const override { return base; }
  int64_t size() const override { return bytes; }
  void enter(const HostAccess *accesses, size_t count, bool ordered) override;
  void leave(const HostAccess *accesses, size_t count, bool ordered) override;
  int64_t piece(int64_t offset, int64_t most) const override;
  void begin(HmProgramKind kind) override;
  void setAccessible(bool isAccessible) override;
  int64_t memoryBytes() const override;
  HostStoreEvidence evidence() const override;

  int64_t blockSize() const { return blockBytes; }
  int descriptor() const { return file.descriptor(); }

private:
  static constexpr size_t none = ~size_t(0);
  using Time = uint64_t; // an execution's number times its accesses, and index
  static constexpr Time never = std::numeric_limits<Time>::max();

  enum class State : uint8_t {
    Absent,  // no memory
    Claimed, // has memory, of zeros
    Reading,
    Present,
    Leaving // being written, or giving its memory back
  };
  struct Block {
    State state = State::Absent;
    bool isDirty = false;  // differs from the file
    bool isInFile = false; // has been written there; zeros otherwise
    bool isKept = false;   // has bytes that are read outside of executions
    bool overwrittenNext = false; // by the next access, all over
    bool isAhead = false;         // came ahead and has not been used
    uint32_t users = 0;           // entered and not left, or about to be
    uint32_t frame = 0;           // in `resident`
    uint64_t usesDone = 0;        // accesses of the program since begin()
    Time next = never;            // access
  };

  /// One program's accesses, by block.
  struct Order {
    std::vector<uint32_t> blocks; // in order
    std::vector<bool> covers;     // writes all of the block and reads nothing
    std::vector<uint32_t> first;  // by block: where its uses begin, and the end
    std::vector<uint32_t> uses;   // indices in `blocks`, ascending by block
  };

  struct Job {
    enum { Read, Write, Drop } kind = Read;
    size_t block = none;
  };

  Order makeOrder(const std::vector<HostAccess> &accesses) const;
  template <typename Function>
  void forEachBlock(const HostAccess *accesses, size_t count,
                    Function function);
  bool covers(const HostAccess &access, size_t index) const;
  char *address(size_t index) const { return base + index * blockBytes; }
  size_t freeFrames() const { return frames - resident.size(); }

  // With the mutex held.
  bool isThere(const HostAccess &access, size_t index) const;
  bool areThere(const HostAccess *accesses, size_t count);
  void predict(size_t index);
  void setUsed(Block &block);
  void claim(size_t index);
  void drop(size_t index, std::unique_lock<std::mutex> &lock);
  bool isDead(const Block &block) const;
  /// A block that leaves for another, which is needed at `time`: the one needed
  /// last, and after `time` unless the other is demanded; `none` without one.
  size_t findVictim(Time time, bool isDemanded) const;
  /// Chooses a block that leaves; false without one.
  bool makeRoom(Time time, bool isDemanded, Job &job);
  bool chooseDemanded(Job &job, size_t &unmet);
  bool chooseAhead(Job &job, size_t reserved);
  size_t nextMissing();
  void perform(const Job &job, std::unique_lock<std::mutex> &lock);

  void serve();

  const int64_t bytes;
  const int64_t blockBytes;
  StoreFile file;
  void *mapped = nullptr;
  size_t mappedBytes = 0;
  char *base = nullptr;
  const bool guard;
  const size_t frames; // blocks that may be in memory

  std::array<Order, HM_PROGRAM_COUNT> orders;

  mutable std::mutex mutex;
  std::condition_variable work;    // for the threads that move blocks
  std::condition_variable changed; // for commands
  std::vector<Block> blocks;
  std::vector<uint32_t> resident;             // blocks that have memory
  size_t reading = 0, leaving = 0, ahead = 0; // blocks
  const Order *order = nullptr;
  int program = -1;
  Time frontier = 0; // of the access done last
  Time scanned = 0;  // every access before it is done, or its block has memory

  // Commands that wait for blocks, one at a time.
  uint64_t ticketsDrawn = 0, ticketServed = 0;
  const HostAccess *demanded = nullptr;
  size_t demandedCount = 0;

  bool isSealed = false;
  bool isStopping = false;
  std::string failure;
  HostStoreEvidence done;
  std::vector<std::thread> threads;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_DISKSTORE_H
