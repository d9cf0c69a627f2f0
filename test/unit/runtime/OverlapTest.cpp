//===- OverlapTest.cpp - Executions that overlap --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/engine/Engine.h"
#include "test/unit/runtime/BlobBuilder.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace harmony::runtime {
namespace {

using namespace test;

float *floats(void *buffer) { return static_cast<float *>(buffer); }

std::atomic<int> launches{0};
/// y = x * scalar + w; w += 1.
void step(void *const *b, int64_t, int64_t) {
  ++launches;
  *floats(b[3]) = *floats(b[0]) * *floats(b[1]) + *floats(b[2]);
  *floats(b[2]) += 1;
}

std::atomic<bool> released{true};
/// Until released: so that other queues run as far ahead as they may.
void slowly(void *const *b, int64_t begin, int64_t end) {
  while (!released)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  step(b, begin, end);
}

std::atomic<int> failsAt{0};
void failingLater(void *const *b, int64_t begin, int64_t end) {
  if (--failsAt == 0)
    throw std::runtime_error("kernel failed");
  step(b, begin, end);
}
const HmRangeFunction functions[] = {step, slowly, failingLater};
constexpr size_t functionCount = 3;
constexpr int64_t numerator = 0, denominator = 4;

/// The batch's float goes in and through the kernel; the result goes out as the
/// numerator, beside which the next execution's input may come in.
BlobBuilder model(uint32_t function) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.header.batchBytes = 4;
  b.header.scalarCount = 1;
  b.device(256);
  uint32_t kernel = b.kernel("kernel", function);
  HmRef x = onDevice(0, 0, 4), w = onDevice(0, 64, 4), y = onDevice(0, 128, 4);
  b.queue(HM_PROGRAM_LOAD, "in", HM_QUEUE_IN, 0).fill(w, 0).signal();
  b.program(HM_PROGRAM_LOAD, 0);
  b.queue(HM_PROGRAM_STEP, "in", HM_QUEUE_IN, 0)
      .wait(1, 0)
      .copy(x, in(HM_SPACE_BATCH, 0, 4), HM_TRAFFIC_INPUT)
      .signal();
  b.queue(HM_PROGRAM_STEP, "compute", HM_QUEUE_COMPUTE, 0)
      .wait(0, 1)
      .wait(2, 0)
      .launch(kernel, {x, in(HM_SPACE_SCALARS, 0, 4), w, y}, 1)
      .signal();
  b.queue(HM_PROGRAM_STEP, "out", HM_QUEUE_OUT, 0)
      .wait(1, 1)
      .copy(in(HM_SPACE_HOST, numerator, 4), y, HM_TRAFFIC_OUTPUT)
      .signal();
  b.program(HM_PROGRAM_STEP, 1);
  b.lossTerm(numerator, denominator, 1, HM_PROGRAM_STEP);
  return b;
}

struct Overlapped {
  explicit Overlapped(uint32_t function, EngineOptions options = {},
                      unsigned inFlight = 2)
      : bytes(model(function).finish()), host(64), inFlight(inFlight) {
    blob = std::make_unique<Blob>(bytes.data.get(), bytes.size, functionCount);
    DriverOptions driverOptions;
    driverOptions.devices.push_back({256, 256, 0});
    driverOptions.kernels = kernelTable(*blob, functions, functionCount);
    driver = createHostDriver(driverOptions);
    driver->setHostMemory(HM_SPACE_HOST, host.data(), 64);
    for (unsigned i = 0; i < inFlight; ++i) {
      driver->setHostMemory(HM_SPACE_BATCH, &batches[i], 4, i);
      driver->setHostMemory(HM_SPACE_SCALARS, &scalars[i], 4, i);
    }
    options.inFlight = inFlight;
    engine = std::make_unique<Engine>(*blob, *driver, options);
    engine->run(HM_PROGRAM_LOAD);
  }

  void begin() {
    batches[begun % inFlight] = static_cast<float>(10 * begun);
    scalars[begun % inFlight] = static_cast<float>(begun + 1);
    ++begun;
    engine->begin(HM_PROGRAM_STEP);
  }
  static float expected(int64_t n) {
    return static_cast<float>(10 * n * (n + 1) + n);
  }
  float result() const { return *engine->result(HM_PROGRAM_STEP, numerator); }

  BlobBuilder::Bytes bytes;
  std::vector<char> host;
  float batches[2] = {}, scalars[2] = {};
  const unsigned inFlight;
  int64_t begun = 0;
  std::unique_ptr<Blob> blob;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Engine> engine;
};

TEST(Overlap, EveryModeGivesTheBitsOfOneExecutionAtATime) {
  EngineOptions threads, single, adversarial, virtualTime;
  single.singleThread = true;
  adversarial.adversarialSeed = 5;
  virtualTime.virtualTime = true;
  for (const EngineOptions &options :
       {threads, single, adversarial, virtualTime})
    for (unsigned inFlight : {1u, 2u}) {
      Overlapped run(0, options, inFlight);
      constexpr int64_t steps = 100;
      for (int64_t n = 0; n < steps; ++n) {
        while (run.begun < steps &&
               run.engine->underWay(HM_PROGRAM_STEP) < inFlight)
          run.begin();
        run.engine->finish(HM_PROGRAM_STEP);
        ASSERT_EQ(run.result(), Overlapped::expected(n));
        const Evidence &evidence = run.engine->evidence(HM_PROGRAM_STEP);
        ASSERT_EQ(evidence.traffic[HM_TRAFFIC_INPUT], 4);
        ASSERT_EQ(evidence.traffic[HM_TRAFFIC_OUTPUT], 4);
        ASSERT_EQ(evidence.peak, (std::vector<int64_t>{132}));
      }
      EXPECT_EQ(run.engine->executions(HM_PROGRAM_STEP), steps);
      EXPECT_EQ(run.engine->underWay(HM_PROGRAM_STEP), 0u);
      // Nothing writes the denominator.
      EXPECT_FALSE(run.engine->result(HM_PROGRAM_STEP, denominator));
    }
}

TEST(Overlap, ResultsOutliveTheNextExecution) {
  Overlapped run(0);
  launches = 0;
  run.begin();
  run.begin();
  // The second overwrites the home without anybody having read the first.
  while (launches < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run.engine->finish(HM_PROGRAM_STEP);
  EXPECT_EQ(run.result(), Overlapped::expected(0));
  run.engine->finish(HM_PROGRAM_STEP);
  EXPECT_EQ(run.result(), Overlapped::expected(1));
}

TEST(Overlap, AFailureOfALaterExecutionIsReported) {
  for (bool single : {false, true}) {
    EngineOptions options;
    options.singleThread = single;
    failsAt = 2;
    Overlapped run(2, options);
    run.begin();
    run.begin();
    std::string message;
    try {
      run.engine->finish(HM_PROGRAM_STEP);
      run.engine->finish(HM_PROGRAM_STEP);
    } catch (const Error &error) {
      message = error.what();
    }
    EXPECT_NE(message.find("kernel failed"), std::string::npos) << message;
    EXPECT_THROW(run.engine->begin(HM_PROGRAM_STEP), Error);
  }
}

TEST(Overlap, AnEngineMayEndWhileExecutionsAreUnderWay) {
  for (int i = 0; i < 20; ++i) {
    released = false;
    std::thread later([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      released = true;
    });
    Overlapped run(1);
    run.begin();
    run.begin();
    run.engine.reset();
    later.join();
  }
}

} // namespace
} // namespace harmony::runtime
