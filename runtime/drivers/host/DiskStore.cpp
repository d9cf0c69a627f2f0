//===- DiskStore.cpp - A host store on disk -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/DiskStore.h"

#include "runtime/hal/Error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/mman.h>

namespace harmony::runtime {

/// A page, and what direct access aligns to.
static constexpr int64_t leastBlock = 4096;
/// A large page; disks are as fast with blocks of this size as with larger
/// ones.
static constexpr int64_t largestBlock = int64_t(2) << 20;
/// Blocks in memory, where it is large enough: the more, the less of it is
/// taken by parts of blocks that are not needed.
static constexpr int64_t wantedFrames = 48;
/// Of the memory, what is read ahead may have one part in so many. The rest is
/// for what will be used again: reading further ahead would only make it leave
/// and be read another time.
static constexpr size_t aheadShare = 3;
/// Transfers under way at once.
static constexpr size_t threadCount = 4;

/// The most blocks that one command needs at once.
static int64_t leastFrames(const DiskStoreOptions &options,
                           int64_t blockBytes) {
  int64_t most = 2;
  std::vector<std::pair<int64_t, int64_t>> together; // blocks, begin and end
  auto close = [&] {
    std::sort(together.begin(), together.end());
    int64_t count = 0, end = 0;
    for (auto [first, last] : together) {
      first = std::max(first, end);
      end = std::max(end, last);
      count += std::max<int64_t>(0, last - first);
    }
    most = std::max(most, count);
    together.clear();
  };
  for (const auto &accesses : options.accesses)
    for (const HostAccess &a : accesses) {
      if (!a.joins)
        close();
      if (a.whole)
        together.emplace_back(a.offset / blockBytes,
                              (a.offset + a.bytes + blockBytes - 1) /
                                  blockBytes);
    }
  close();
  return most;
}

int64_t DiskStore::leastMemory(const DiskStoreOptions &options) {
  return leastFrames(options, leastBlock) * leastBlock;
}

static int64_t chooseBlock(const DiskStoreOptions &options) {
  int64_t size = largestBlock;
  while (size > leastBlock &&
         (size * wantedFrames > options.memory ||
          leastFrames(options, size) * size > options.memory))
    size /= 2;
  if (leastFrames(options, size) * size > options.memory)
    throw Error(ExitCode::NoDevice,
                "--disk-memory is " + std::to_string(options.memory) +
                    " bytes, one command of this program needs " +
                    std::to_string(DiskStore::leastMemory(options)) +
                    " of the host store at once");
  return size;
}

static int64_t roundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

DiskStore::DiskStore(const DiskStoreOptions &options)
    : bytes(options.bytes), blockBytes(chooseBlock(options)),
      file(options.path, roundUp(bytes, blockBytes), StoreFile::Access::Direct),
      guard(options.guard), frames(options.memory / blockBytes),
      blocks(roundUp(bytes, blockBytes) / blockBytes) {
  int64_t inner = roundUp(bytes, blockBytes);
  mappedBytes = inner + largestBlock;
  mapped =
      mmap(nullptr, mappedBytes, guard ? PROT_NONE : PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(ExitCode::NoDevice,
                "host store: " + std::to_string(bytes) +
                    " bytes cannot be mapped: " + strerror(errno));
  base = reinterpret_cast<char *>(
      roundUp(reinterpret_cast<intptr_t>(mapped), largestBlock));
  if (inner)
    madvise(base, inner,
            blockBytes < largestBlock ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  for (size_t p = 0; p < orders.size(); ++p)
    orders[p] = makeOrder(options.accesses[p]);
  for (auto [offset, length] : options.kept) {
    HostAccess range;
    range.offset = offset;
    range.bytes = length;
    forEachBlock(&range, 1, [&](const HostAccess &, size_t index) {
      blocks[index].isKept = true;
    });
  }
  resident.reserve(std::min(frames, blocks.size()));
  for (size_t i = 0; i < threadCount; ++i)
    threads.emplace_back([this] { serve(); });
}

DiskStore::~DiskStore() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  work.notify_all();
  for (std::thread &thread : threads)
    thread.join();
  munmap(mapped, mappedBytes);
}

template <typename Function>
void DiskStore::forEachBlock(const HostAccess *accesses, size_t count,
                             Function function) {
  for (size_t i = 0; i < count; ++i) {
    const HostAccess &a = accesses[i];
    size_t end = (a.offset + a.bytes + blockBytes - 1) / blockBytes;
    for (size_t index = a.offset / blockBytes; a.bytes && index < end; ++index)
      function(a, index);
  }
}

bool DiskStore::covers(const HostAccess &access, size_t index) const {
  int64_t begin = static_cast<int64_t>(index) * blockBytes;
  int64_t end = std::min(begin + blockBytes, bytes);
  return access.writes && !access.reads && access.offset <= begin &&
         access.offset + access.bytes >= end;
}

DiskStore::Order
DiskStore::makeOrder(const std::vector<HostAccess> &accesses) const {
  Order result;
  result.first.assign(blocks.size() + 1, 0);
  auto *self = const_cast<DiskStore *>(this);
  self->forEachBlock(accesses.data(), accesses.size(),
                     [&](const HostAccess &access, size_t index) {
                       result.blocks.push_back(index);
                       result.covers.push_back(covers(access, index));
                       ++result.first[index + 1];
                     });
  for (size_t b = 0; b < blocks.size(); ++b)
    result.first[b + 1] += result.first[b];
  result.uses.resize(result.blocks.size());
  std::vector<uint32_t> at(result.first.begin(), result.first.end() - 1);
  for (size_t i = 0; i < result.blocks.size(); ++i)
    result.uses[at[result.blocks[i]]++] = i;
  return result;
}

int64_t DiskStore::piece(int64_t offset, int64_t most) const {
  return std::min(most, blockBytes - offset % blockBytes);
}

int64_t DiskStore::memoryBytes() const {
  return static_cast<int64_t>(std::min(frames, blocks.size())) * blockBytes;
}

HostStoreEvidence DiskStore::evidence() const {
  std::lock_guard<std::mutex> lock(mutex);
  return done;
}

void DiskStore::begin(HmProgramKind kind) {
  std::lock_guard<std::mutex> lock(mutex);
  if (program == kind)
    return;
  program = kind;
  order = &orders[kind];
  frontier = scanned = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b].usesDone = 0;
    predict(b);
  }
  work.notify_all();
}

void DiskStore::setAccessible(bool isAccessible) {
  std::unique_lock<std::mutex> lock(mutex);
  isSealed = !isAccessible;
  changed.wait(lock, [this] { return reading + leaving == 0; });
  if (!blocks.empty())
    mprotect(base, blocks.size() * blockBytes,
             isAccessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (isAccessible)
    work.notify_all();
}

void DiskStore::predict(size_t index) {
  Block &block = blocks[index];
  block.next = never;
  block.overwrittenNext = false;
  if (!order)
    return;
  uint32_t first = order->first[index], count = order->first[index + 1] - first;
  if (!count)
    return;
  uint32_t use = order->uses[first + block.usesDone % count];
  block.next = block.usesDone / count * order->blocks.size() + use;
  block.overwrittenNext = order->covers[use];
}

void DiskStore::setUsed(Block &block) {
  ahead -= block.isAhead;
  block.isAhead = false;
}

void DiskStore::claim(size_t index) {
  Block &block = blocks[index];
  block.state = State::Claimed;
  block.isDirty = false;
  block.frame = resident.size();
  resident.push_back(index);
  if (guard)
    mprotect(address(index), blockBytes, PROT_READ | PROT_WRITE);
}

void DiskStore::drop(size_t index, std::unique_lock<std::mutex> &lock) {
  Block &block = blocks[index];
  // Threads that are moved off their processor must not hold up commands.
  lock.unlock();
  madvise(address(index), blockBytes, MADV_DONTNEED);
  if (guard)
    mprotect(address(index), blockBytes, PROT_NONE);
  lock.lock();
  block.state = State::Absent;
  block.isDirty = false;
  setUsed(block);
  blocks[resident.back()].frame = block.frame;
  resident[block.frame] = resident.back();
  resident.pop_back();
  scanned = std::min(scanned, block.next);
}

bool DiskStore::isThere(const HostAccess &access, size_t index) const {
  const Block &block = blocks[index];
  return block.state == State::Present ||
         (block.state == State::Claimed &&
          (!block.isInFile || covers(access, index)));
}

bool DiskStore::areThere(const HostAccess *accesses, size_t count) {
  bool all = true;
  forEachBlock(accesses, count, [&](const HostAccess &a, size_t index) {
    all &= isThere(a, index);
  });
  return all;
}

bool DiskStore::isDead(const Block &block) const {
  return block.isDirty && block.overwrittenNext && !block.isKept;
}

size_t DiskStore::findVictim(Time time, bool isDemanded) const {
  size_t best = none;
  // Of blocks needed at the same time the one that leaves for nothing.
  std::pair<Time, bool> latest{time, true};
  for (uint32_t index : resident) {
    const Block &block = blocks[index];
    if (block.users ||
        (block.state != State::Present && block.state != State::Claimed))
      continue;
    // What is dead leaves for nothing, and is not read again.
    bool dead = isDead(block) && (isDemanded || block.next > time);
    std::pair<Time, bool> rank{dead ? never : block.next,
                               dead || !block.isDirty};
    if ((isDemanded && best == none) || rank > latest) {
      best = index;
      latest = rank;
    }
  }
  return best;
}

bool DiskStore::makeRoom(Time time, bool isDemanded, Job &job) {
  size_t victim = findVictim(time, isDemanded);
  if (victim == none)
    return false;
  Block &block = blocks[victim];
  job.kind = block.isDirty && !isDead(block) ? Job::Write : Job::Drop;
  job.block = victim;
  block.state = State::Leaving;
  ++leaving;
  return true;
}

/// What a waiting command needs. `unmet`: blocks that it still needs memory
/// for.
bool DiskStore::chooseDemanded(Job &job, size_t &unmet) {
  unmet = 0;
  forEachBlock(demanded, demandedCount, [&](const HostAccess &a, size_t index) {
    Block &block = blocks[index];
    if (block.state == State::Absent && freeFrames()) {
      claim(index);
      if (isThere(a, index))
        changed.notify_all();
    }
    if (block.state == State::Absent)
      ++unmet;
    else if (block.state == State::Claimed && !isThere(a, index) &&
             job.block == none)
      job.block = index;
  });
  if (job.block != none) {
    job.kind = Job::Read;
    blocks[job.block].state = State::Reading;
    ++reading;
    return true;
  }
  // What leaves will give its memory away.
  return unmet > leaving && makeRoom(0, true, job);
}

size_t DiskStore::nextMissing() {
  if (!order || order->blocks.empty())
    return none;
  Time horizon = frontier + order->blocks.size();
  for (; scanned < horizon; ++scanned) {
    size_t index = order->blocks[scanned % order->blocks.size()];
    if (blocks[index].state == State::Absent && blocks[index].next == scanned)
      return index;
  }
  return none;
}

/// Ahead of the commands; leaves `reserved` blocks to those that wait.
bool DiskStore::chooseAhead(Job &job, size_t reserved) {
  for (;;) {
    size_t index = nextMissing();
    if (index == none || ahead >= std::max(threadCount, frames / aheadShare))
      return false;
    Block &block = blocks[index];
    if (freeFrames() > reserved) {
      claim(index);
      block.isAhead = true;
      ++ahead;
      if (!block.isInFile || block.overwrittenNext)
        continue; // memory is all that it needs
      block.state = State::Reading;
      ++reading;
      job.kind = Job::Read;
      job.block = index;
      return true;
    }
    // Half of the threads make room for those that read.
    return leaving < threadCount / 2 && makeRoom(block.next, false, job);
  }
}

void DiskStore::perform(const Job &job, std::unique_lock<std::mutex> &lock) {
  Block &block = blocks[job.block];
  if (job.kind != Job::Drop) {
    int64_t offset = static_cast<int64_t>(job.block) * blockBytes;
    std::string error;
    lock.unlock();
    try {
      if (job.kind == Job::Write)
        file.write(offset, address(job.block), blockBytes);
      else
        file.read(offset, address(job.block), blockBytes);
    } catch (const Error &failed) {
      error = failed.what();
    }
    lock.lock();
    if (failure.empty())
      failure = error;
  }
  if (job.kind == Job::Read) {
    --reading;
    done.bytesRead += blockBytes;
    block.state = State::Present;
  } else {
    if (job.kind == Job::Write) {
      done.bytesWritten += blockBytes;
      block.isDirty = false;
      block.isInFile = true;
    }
    // A command may have come to need it meanwhile.
    if (block.users && job.kind == Job::Write)
      block.state = State::Present;
    else
      drop(job.block, lock);
    --leaving;
  }
  changed.notify_all();
}

void DiskStore::serve() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!isStopping) {
    Job job;
    size_t unmet = 0;
    if (isSealed || !failure.empty() ||
        (!chooseDemanded(job, unmet) && !chooseAhead(job, unmet))) {
      work.wait(lock);
      continue;
    }
    work.notify_one(); // there may be more to do
    perform(job, lock);
  }
}

void DiskStore::enter(const HostAccess *accesses, size_t count, bool) {
  std::unique_lock<std::mutex> lock(mutex);
  auto addUsers = [&](uint32_t number) {
    forEachBlock(accesses, count, [&](const HostAccess &, size_t index) {
      blocks[index].users += number;
    });
  };
  if (!failure.empty())
    throw Error(ExitCode::Failure, failure);
  if (areThere(accesses, count)) {
    addUsers(1);
  } else {
    auto start = std::chrono::steady_clock::now();
    // One at a time: a command that holds some of its blocks while it waits for
    // memory could wait for another that does the same.
    uint64_t ticket = ticketsDrawn++;
    changed.wait(lock, [&] { return ticketServed == ticket; });
    addUsers(1);
    demanded = accesses;
    demandedCount = count;
    work.notify_one();
    changed.wait(lock,
                 [&] { return areThere(accesses, count) || !failure.empty(); });
    demanded = nullptr;
    demandedCount = 0;
    ++ticketServed;
    changed.notify_all();
    done.waitSeconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    if (!failure.empty()) {
      addUsers(-1);
      throw Error(ExitCode::Failure, failure);
    }
  }
  forEachBlock(accesses, count, [&](const HostAccess &a, size_t index) {
    blocks[index].state = State::Present;
    blocks[index].isDirty |= a.writes;
    setUsed(blocks[index]);
  });
}

void DiskStore::leave(const HostAccess *accesses, size_t count, bool ordered) {
  std::lock_guard<std::mutex> lock(mutex);
  forEachBlock(accesses, count, [&](const HostAccess &, size_t index) {
    Block &block = blocks[index];
    --block.users;
    if (!ordered || block.next == never)
      return;
    frontier = std::max(frontier, block.next);
    ++block.usesDone;
    predict(index);
  });
  work.notify_one();
}

} // namespace harmony::runtime
