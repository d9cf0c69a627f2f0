//===- WorkerPool.cpp - Threads that share a launch -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/WorkerPool.h"

#include "runtime/drivers/host/Faults.h"

#include <algorithm>
#include <cxxabi.h>
#include <unistd.h>
#include <utility>

namespace harmony::runtime {

/// Pieces per worker where the grain allows: few enough that taking one costs
/// nothing, enough that a worker that starts late leaves the others little to
/// wait for.
static constexpr int64_t piecesPerWorker = 16;

WorkerPool::WorkerPool(unsigned workers, int64_t chunk)
    : workers(std::max(1u, workers)), fixedChunk(chunk),
      threadIds(std::max(1u, workers)),
      counts(new Counter[std::max(1u, workers)]) {
  for (unsigned i = 1; i < this->workers; ++i)
    threads.emplace_back([this, i] { help(i); });
}

WorkerPool::~WorkerPool() {
  stopping.store(true);
  work.notify();
  for (std::thread &thread : threads)
    thread.join();
}

void WorkerPool::help(unsigned worker) {
  threadIds[worker].store(gettid());
  useFaultStack();
  for (;;) {
    work.await([this] {
      return remaining.load(std::memory_order_acquire) > 0 || stopping.load();
    });
    if (stopping.load())
      return;
    workUntilEmpty(worker);
    // Nothing left to take although a piece may still run elsewhere: wait for
    // the next launch, which makes `remaining` positive again.
  }
}

bool WorkerPool::mustLetOthersStart(unsigned worker) const {
  if (fixedChunk <= 0 ||
      counts[worker].value.load(std::memory_order_relaxed) == 0)
    return false;
  for (unsigned i = 0; i < workers; ++i)
    if (counts[i].value.load(std::memory_order_relaxed) == 0)
      return true;
  return false;
}

bool WorkerPool::takePiece(unsigned worker, int64_t &piece) {
  int64_t left = remaining.load(std::memory_order_acquire);
  while (left > 0) {
    if (mustLetOthersStart(worker)) {
      std::this_thread::yield();
      requireThreads();
      left = remaining.load(std::memory_order_acquire);
      continue;
    }
    if (remaining.compare_exchange_weak(left, left - 1,
                                        std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      piece = left;
      return true;
    }
  }
  return false;
}

void WorkerPool::runPiece(int64_t left, unsigned worker) {
  int64_t begin = (pieces - left) * pieceSize;
  int64_t end = std::min(extent, begin + pieceSize);
  if (!failed.load(std::memory_order_relaxed)) {
    CommandScope scope(command);
    try {
      task(context, buffers, begin, end);
    } catch (abi::__forced_unwind &) {
      endProcess("a thread was ended", command);
    } catch (...) {
      std::lock_guard<std::mutex> lock(failureMutex);
      if (!failure)
        failure = std::current_exception();
      failed.store(true, std::memory_order_relaxed);
    }
  }
  counts[worker].value.fetch_add(1, std::memory_order_relaxed);
}

void WorkerPool::workUntilEmpty(unsigned worker) {
  int64_t piece = 0;
  while (takePiece(worker, piece)) {
    runPiece(piece, worker);
    int64_t all = pieces;
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == all)
      done.notify();
  }
}

void WorkerPool::execute() {
  if (pieces == 1 || workers == 1) {
    // Workers that are awake see nothing of this launch.
    for (int64_t left = pieces; left > 0; --left)
      runPiece(left, 0);
  } else {
    finished.store(0, std::memory_order_relaxed);
    remaining.store(pieces, std::memory_order_release);
    work.notify();
    workUntilEmpty(0);
    done.awaitChecking(
        [this] { return finished.load(std::memory_order_acquire) == pieces; },
        [this] { requireThreads(); });
  }
  if (failed.load()) {
    std::exception_ptr first = std::exchange(failure, nullptr);
    failed.store(false);
    std::rethrow_exception(first);
  }
}

void WorkerPool::requireThreads() const {
  for (unsigned i = 1; i < workers; ++i)
    if (pid_t id = threadIds[i].load();
        id && !threadLives(id) && !stopping.load())
      endProcess("a worker thread has ended", command);
}

void WorkerPool::run(RangeTask newTask, const void *newContext,
                     void *const *newBuffers, int64_t newExtent,
                     int64_t grain) {
  if (newExtent <= 0)
    return;
  std::lock_guard<std::mutex> lock(turn);
  task = newTask;
  context = newContext;
  buffers = newBuffers;
  command = currentCommand;
  extent = newExtent;
  pieceSize = fixedChunk > 0
                  ? fixedChunk
                  : std::max({int64_t(1), grain,
                              newExtent / (workers * piecesPerWorker)});
  pieces = (newExtent + pieceSize - 1) / pieceSize;
  execute();
}

void WorkerPool::runOnEach(RangeTask newTask, const void *newContext) {
  struct Rendezvous {
    RangeTask task;
    const void *context;
    int64_t expected;
    mutable std::atomic<int64_t> arrived{0};
  } rendezvous{newTask, newContext, workers};
  // A worker that has its piece waits for the others to take theirs, so no
  // worker can take two.
  auto body = [](const void *shared, void *const *, int64_t begin,
                 int64_t end) {
    auto *r = static_cast<const Rendezvous *>(shared);
    r->arrived.fetch_add(1);
    while (r->arrived.load() < r->expected)
      std::this_thread::yield();
    r->task(r->context, nullptr, begin, end);
  };
  std::lock_guard<std::mutex> lock(turn);
  task = body;
  context = &rendezvous;
  buffers = nullptr;
  command = nullptr;
  extent = workers;
  pieceSize = 1;
  pieces = workers;
  execute();
  for (unsigned i = 0; i < workers; ++i)
    counts[i].value.store(0);
}

std::vector<int64_t> WorkerPool::pieceCounts() const {
  std::vector<int64_t> result;
  for (unsigned i = 0; i < workers; ++i)
    result.push_back(counts[i].value.load());
  return result;
}

} // namespace harmony::runtime
