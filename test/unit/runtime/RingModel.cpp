//===- RingModel.cpp - A pipeline that wraps around devices ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/RingModel.h"

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/engine/VirtualClock.h"

#include <cstring>

namespace harmony::runtime::test {

namespace {

constexpr float factor = 1.25f;

float *asFloats(void *buffer) { return static_cast<float *>(buffer); }

void stage(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    asFloats(b[2])[i] = factor * asFloats(b[0])[i] + *asFloats(b[1]);
}
void addOne(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    asFloats(b[0])[i] += 1;
}
const HmRangeFunction functions[] = {stage, addOne};

/// Where things lie in every arena.
struct Arena {
  explicit Arena(const RingModel &m)
      : slot((m.bytes() + 63) / 64 * 64), weights(0), in{64, 64 + 2 * slot},
        out{in[1] + m.microbatches * slot, in[1] + (m.microbatches + 2) * slot},
        bytes(out[1] + 2 * slot) {}
  int64_t slot, weights, in[2], out[2], bytes; // by round
};

} // namespace

BlobBuilder RingModel::build() const {
  BlobBuilder b;
  Arena arena(*this);
  const int64_t n = devices, m = microbatches;
  for (int64_t d = 0; d < n; ++d)
    b.device(arena.bytes);
  b.header.hostBytes = hostBytes();
  if (bytesPerSecond > 0)
    for (int64_t d = 0; d < n; ++d) {
      b.link(HM_HOST_ENDPOINT, d, bytesPerSecond, latencySeconds);
      b.link(d, HM_HOST_ENDPOINT, bytesPerSecond, latencySeconds);
      if (n > 1)
        b.link(d, (d + 1) % n, bytesPerSecond, latencySeconds);
    }
  uint32_t stageKernel = b.kernel("stage", 0);
  uint32_t update = b.kernel("add one", 1, HM_FAMILY_UPDATE);
  // The value that reaches a stage lies in a ring of two slots; that which
  // wraps around waits for all of the first round.
  auto input = [&](int64_t s) {
    int64_t round = s / n, d = s % n;
    return onDevice(d, arena.in[round], bytes(), arena.slot, s == n ? m : 2);
  };
  auto output = [&](int64_t s) {
    return onDevice(s % n, arena.out[s / n], bytes(), arena.slot, 2);
  };
  auto weight = [&](int64_t s) {
    return onDevice(s % n, arena.weights + s / n * 4, 4);
  };
  for (HmProgramKind kind : {HM_PROGRAM_LOAD, HM_PROGRAM_STORE}) {
    for (int64_t d = 0; d < n; ++d) {
      bool load = kind == HM_PROGRAM_LOAD;
      auto &q = b.queue(kind, "d" + std::to_string(d) + (load ? ".in" : ".out"),
                        load ? HM_QUEUE_IN : HM_QUEUE_OUT, d);
      for (int64_t s : {d, n + d}) {
        HmRef home = in(HM_SPACE_HOST, weightHome(s), 4);
        if (load)
          q.copy(weight(s), home);
        else
          q.copy(home, weight(s), HM_TRAFFIC_SWAP_OUT);
        q.signal();
      }
    }
    b.program(kind, 0);
  }

  auto compute = [&](int64_t d) { return static_cast<uint32_t>(d); };
  auto peer = [&](int64_t d) { return static_cast<uint32_t>(n + d); };
  const auto inQueue = static_cast<uint32_t>(2 * n), outQueue = inQueue + 1;
  for (int64_t d = 0; d < n; ++d) {
    auto &q = b.queue(HM_PROGRAM_STEP, "d" + std::to_string(d) + ".compute",
                      HM_QUEUE_COMPUTE, d);
    for (int64_t round : {0, 1}) {
      int64_t s = round * n + d, before = s == 0 ? 0 : (s - 1) / n * m;
      bool last = s == stages() - 1;
      q.loop(m);
      q.wait(s == 0 ? inQueue : peer((s - 1) % n), before + 1, 1);
      q.wait(last ? outQueue : peer(d), (last ? 0 : round * m) - 1, 1);
      q.launch(stageKernel, {input(s), weight(s), output(s)}, floats)
          .takes(kernelSeconds)
          .label("stage " + std::to_string(s));
      q.release(input(s)).signal().end();
    }
    q.launch(update, {onDevice(d, arena.weights, 8)}, 2);
  }
  for (int64_t d = 0; d < n; ++d) {
    auto &q = b.queue(HM_PROGRAM_STEP, "d" + std::to_string(d) + ".peer",
                      HM_QUEUE_PEER, d);
    for (int64_t round : {0, 1}) {
      int64_t s = round * n + d;
      if (s == stages() - 1)
        continue;
      q.loop(m).wait(compute(d), round * m + 1, 1);
      if (s + 1 != n)
        q.wait(compute((s + 1) % n), (s + 1) / n * m - 1, 1);
      q.copy(input(s + 1), output(s), HM_TRAFFIC_PEER)
          .label("value " + std::to_string(s));
      q.release(output(s)).signal().end();
    }
  }
  b.queue(HM_PROGRAM_STEP, "d0.in", HM_QUEUE_IN, 0)
      .loop(m)
      .wait(compute(0), -1, 1)
      .copy(input(0), in(HM_SPACE_HOST, inputHome(), bytes(), bytes()),
            HM_TRAFFIC_INPUT)
      .signal()
      .end();
  b.queue(HM_PROGRAM_STEP, "out", HM_QUEUE_OUT, n - 1)
      .loop(m)
      .wait(compute(n - 1), m + 1, 1)
      .copy(in(HM_SPACE_HOST, outputHome(), bytes(), bytes()),
            output(stages() - 1), HM_TRAFFIC_OUTPUT)
      .release(output(stages() - 1))
      .signal()
      .end();
  b.program(HM_PROGRAM_STEP, microbatches);
  return b;
}

std::vector<char> RingModel::initialHost() const {
  std::vector<char> host(hostBytes());
  for (int64_t s = 0; s < stages(); ++s) {
    auto weight = static_cast<float>(3 * s + 1);
    std::memcpy(host.data() + weightHome(s), &weight, sizeof(weight));
  }
  for (int64_t i = 0; i < microbatches * floats; ++i) {
    auto value = static_cast<float>(i * 37 % 101) / 7;
    std::memcpy(host.data() + inputHome() + 4 * i, &value, sizeof(value));
  }
  return host;
}

std::vector<float> RingModel::expected(int64_t steps) const {
  std::vector<char> host = initialHost();
  auto *values = reinterpret_cast<const float *>(host.data());
  std::vector<float> outputs;
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t i = 0; i < microbatches * floats; ++i) {
      float x = values[inputHome() / 4 + i];
      for (int64_t s = 0; s < stages(); ++s)
        x = factor * x + (values[weightHome(s) / 4] + static_cast<float>(step));
      outputs.push_back(x);
    }
  return outputs;
}

RingRun::RingRun(const RingModel &model, const EngineOptions &options,
                 unsigned threads, bool enforceLinks)
    : model(model), bytes(model.build().finish()), host(model.initialHost()) {
  blob = std::make_unique<Blob>(bytes.data.get(), bytes.size,
                                std::size(functions));
  DriverOptions driverOptions;
  for (const HmDevice &d : blob->devices())
    driverOptions.devices.push_back({d.capacity, d.capacity, 0});
  driverOptions.kernels = kernelTable(*blob, functions, std::size(functions));
  driverOptions.threads = threads;
  driverOptions.poison = true;
  driverOptions.links = linkTable(*blob);
  driverOptions.enforceLinks = enforceLinks;
  driver = createHostDriver(driverOptions);
  driver->setHostMemory(HM_SPACE_HOST, host.data(),
                        static_cast<int64_t>(host.size()));
  engine = std::make_unique<Engine>(*blob, *driver, options);
}

RingRun::~RingRun() = default;

std::vector<float> RingRun::run(int64_t steps) {
  engine->run(HM_PROGRAM_LOAD);
  driver->resetEvidence();
  std::vector<float> outputs;
  auto count = model.microbatches * model.floats;
  for (int64_t step = 0; step < steps; ++step) {
    engine->run(HM_PROGRAM_STEP);
    auto *first =
        reinterpret_cast<const float *>(host.data() + model.outputHome());
    outputs.insert(outputs.end(), first, first + count);
  }
  return outputs;
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace harmony::runtime::test
