//===- WorkerPool.h - Threads that share a launch ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_WORKERPOOL_H
#define RUNTIME_DRIVERS_HOST_WORKERPOOL_H

#include "runtime/hal/CurrentCommand.h"
#include "runtime/hal/Futex.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace harmony::runtime {

/// Work over [begin, end); the context says which kernel.
using RangeTask = void (*)(const void *context, void *const *buffers,
                           int64_t begin, int64_t end);

/// Persistent threads that cut a range into pieces. The thread that calls run()
/// is worker 0 and takes pieces like the others, so a pool of one worker has no
/// threads.
class WorkerPool {
public:
  /// `chunk` > 0 fixes the size of pieces (the last may be smaller) and makes
  /// sure that every worker runs one before any runs many: for tests.
  WorkerPool(unsigned workers, int64_t chunk);
  ~WorkerPool();
  WorkerPool(const WorkerPool &) = delete;
  WorkerPool &operator=(const WorkerPool &) = delete;

  /// Runs the task over [0, extent) in pieces of at least `grain` and returns
  /// when all are done. Callers from several threads take turns. The first
  /// exception of a task is thrown here; pieces not yet begun by then are
  /// skipped. A thread that ends within a task ends the process; the message
  /// names the caller's current command.
  void run(RangeTask task, const void *context, void *const *buffers,
           int64_t extent, int64_t grain);

  /// Runs the task once on every worker, range [i, i + 1) on one of them.
  void runOnEach(RangeTask task, const void *context);

  unsigned size() const { return workers; }

  /// Pieces run by each worker so far.
  std::vector<int64_t> pieceCounts() const;

private:
  struct alignas(64) Counter {
    std::atomic<int64_t> value{0};
  };

  void help(unsigned worker);
  bool takePiece(unsigned worker, int64_t &piece);
  void runPiece(int64_t piece, unsigned worker);
  void workUntilEmpty(unsigned worker);
  void execute();
  bool mustLetOthersStart(unsigned worker) const;
  void requireThreads() const;

  const unsigned workers;
  const int64_t fixedChunk;
  std::mutex turn;
  std::vector<std::thread> threads;
  std::vector<std::atomic<pid_t>> threadIds; // 0: not started yet
  std::unique_ptr<Counter[]> counts;

  // The launch in progress. Written before `remaining` becomes positive; read
  // only by workers that hold a piece, and `finished` reaches `pieces` after
  // the last of them.
  RangeTask task = nullptr;
  const void *context = nullptr;
  void *const *buffers = nullptr;
  const CurrentCommand *command = nullptr;
  int64_t extent = 0;
  int64_t pieceSize = 1;
  int64_t pieces = 0;
  std::exception_ptr failure;
  std::mutex failureMutex;
  std::atomic<bool> failed{false};

  alignas(64) std::atomic<int64_t> remaining{0};
  alignas(64) std::atomic<int64_t> finished{0};
  std::atomic<bool> stopping{false};
  Signal work, done;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_WORKERPOOL_H
