//===- Loader.cpp - Batches, one ahead of the step ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Loader.h"

#include "runtime/train/Shuffle.h"

#include <algorithm>

namespace harmony::runtime {

Loader::Loader(const BatchFiller &filler, int64_t samples, bool shuffle,
               uint64_t seed, std::array<char *, 2> buffers)
    : filler(filler), shuffle(shuffle), seed(seed), buffers(buffers),
      order(samples) {
  for (std::vector<int64_t> &indices : batchSamples)
    indices.resize(filler.batch());
  thread = std::thread([this] { load(); });
}

Loader::~Loader() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void Loader::load() {
  const int64_t batch = filler.batch();
  const int64_t batches = static_cast<int64_t>(order.size()) / batch;
  int64_t step = 0;
  try {
    for (uint64_t epoch = 0;; ++epoch) {
      sampleOrder(order, shuffle, seed, epoch);
      for (int64_t b = 0; b < batches; ++b) {
        char *buffer = nullptr;
        {
          std::unique_lock<std::mutex> lock(mutex);
          changed.wait(lock,
                       [this] { return stopping || filled - consumed < 2; });
          if (stopping)
            return;
          buffer = buffers[filled % 2];
        }
        std::vector<int64_t> &indices = batchSamples[filled % 2];
        std::copy_n(order.begin() + b * batch, batch, indices.begin());
        filler.fill(buffer, indices.data(), {++step, seed});
        {
          std::lock_guard<std::mutex> lock(mutex);
          ++filled;
        }
        changed.notify_all();
      }
    }
  } catch (...) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
    }
    changed.notify_all();
  }
}

char *Loader::acquire() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [this] { return filled > acquired || failure; });
  if (filled == acquired)
    std::rethrow_exception(failure);
  return buffers[acquired++ % 2];
}

void Loader::release() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++consumed;
  }
  changed.notify_all();
}

} // namespace harmony::runtime
