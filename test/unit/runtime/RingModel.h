//===- RingModel.h - A pipeline that wraps around devices -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_RUNTIME_RINGMODEL_H
#define TEST_UNIT_RUNTIME_RINGMODEL_H

#include "runtime/engine/Engine.h"
#include "test/unit/runtime/BlobBuilder.h"

#include <memory>
#include <optional>
#include <vector>

namespace harmony::runtime::test {

/// 2N stages over N devices, stage s on device s mod N: y = 1.25 x + w[s],
/// microbatch by microbatch, through buffers of two slots; in between peer
/// copies. A device runs all microbatches of its first stage before those of
/// its second, then adds one to both weights, which stay there. Every value is
/// released after its last use.
struct RingModel {
  int64_t devices = 2;
  int64_t microbatches = 4;
  int64_t floats = 4; // of a microbatch
  double kernelSeconds = 0, bytesPerSecond = 0, latencySeconds = 0;

  int64_t stages() const { return 2 * devices; }
  int64_t bytes() const { return floats * 4; }
  // The host store.
  int64_t weightHome(int64_t stage) const { return 64 * stage; }
  int64_t inputHome() const { return 64 * stages(); }
  int64_t outputHome() const { return inputHome() + microbatches * bytes(); }
  int64_t hostBytes() const { return outputHome() + microbatches * bytes(); }
  /// Bytes between devices in one execution.
  int64_t peerBytes() const { return (stages() - 1) * microbatches * bytes(); }

  /// Queues of the step: compute of each device, peer of each, in, out.
  BlobBuilder build() const;

  /// Initial weights and inputs.
  std::vector<char> initialHost() const;
  /// Outputs of the steps, one after the other, computed plainly.
  std::vector<float> expected(int64_t steps) const;
};

/// Driver and engine of a ring, and its host store.
class RingRun {
public:
  RingRun(const RingModel &model, const EngineOptions &options,
          unsigned threads = 1, bool enforceLinks = false);
  ~RingRun();

  /// Loads and runs `steps` steps; outputs of all of them.
  std::vector<float> run(int64_t steps);

  const RingModel model;
  BlobBuilder::Bytes bytes;
  std::unique_ptr<Blob> blob;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Engine> engine;
  std::vector<char> host;
};

/// Equal bits; NaN is equal to NaN.
bool sameBits(const std::vector<float> &a, const std::vector<float> &b);

} // namespace harmony::runtime::test

#endif // TEST_UNIT_RUNTIME_RINGMODEL_H
