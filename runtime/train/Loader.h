//===- Loader.h - Batches, one ahead of the step ----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_LOADER_H
#define RUNTIME_TRAIN_LOADER_H

#include "runtime/train/DataSet.h"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace harmony::runtime {

/// Fills two batch buffers in turn, each again when its batch is used up.
/// Epochs follow each other; the samples after the last whole batch of an epoch
/// are left out. Allocates nothing after its construction.
class Loader {
public:
  /// Buffers and data outlive the loader. `data` has at least one batch of
  /// samples.
  Loader(const BatchFiller &filler, int64_t samples, bool shuffle,
         uint64_t seed, std::array<char *, 2> buffers);
  ~Loader();
  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  /// The buffer with the next batch, waiting for it if need be. Throws what
  /// reading it threw.
  char *acquire();

  /// The oldest batch acquired and not released: its buffer, and its samples in
  /// their order.
  char *buffer() const { return buffers[consumed % 2]; }
  const int64_t *samples() const { return batchSamples[consumed % 2].data(); }

  /// That batch is used up.
  void release();

private:
  void load();

  const BatchFiller &filler;
  const bool shuffle;
  const uint64_t seed;
  const std::array<char *, 2> buffers;
  std::vector<int64_t> order;
  std::array<std::vector<int64_t>, 2> batchSamples; // of each buffer

  std::mutex mutex;
  std::condition_variable changed;
  int64_t filled = 0;   // batches written so far
  int64_t acquired = 0; // batches handed out so far
  int64_t consumed = 0; // batches released so far
  bool stopping = false;
  std::exception_ptr failure;
  std::thread thread;
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_LOADER_H
