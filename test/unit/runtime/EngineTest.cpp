//===- EngineTest.cpp - Programs read, checked and executed ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Engine.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/train/Shuffle.h"
#include "test/unit/runtime/BlobBuilder.h"

#include <cstring>
#include <gtest/gtest.h>

namespace harmony::runtime {
namespace {

using namespace test;

void addOne(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(b[1])[i] = static_cast<float *>(b[0])[i] + 1;
}
void failing(void *const *, int64_t, int64_t) {
  throw std::runtime_error("kernel failed");
}
const HmRangeFunction functions[] = {addOne, failing};
constexpr size_t functionCount = 2;

/// A blob and what it needs to run; memory stays until the next start().
struct Machine {
  void start(BlobBuilder &builder, bool singleThread = false,
             bool poison = false) {
    engine.reset();
    driver.reset();
    bytes = builder.finish();
    blob = std::make_unique<Blob>(bytes.data.get(), bytes.size, functionCount);
    DriverOptions options;
    for (const HmDevice &d : blob->devices())
      options.devices.push_back({d.capacity, d.capacity, 0});
    options.kernels = kernelTable(*blob, functions, functionCount);
    options.threads = 2;
    options.poison = poison;
    options.paranoid = singleThread;
    driver = createHostDriver(options);
    host = std::make_unique<Mapping>(blob->header().hostBytes, "host");
    driver->setHostMemory(HM_SPACE_HOST, host->data(), host->size());
    EngineOptions engineOptions;
    engineOptions.singleThread = singleThread;
    engine = std::make_unique<Engine>(*blob, *driver, engineOptions);
  }
  float *floats(int64_t offset) {
    return reinterpret_cast<float *>(host->data() + offset);
  }

  // A mapping rather than a vector: paranoid mode protects whole pages of it.
  struct Mapping {
    Mapping(int64_t bytes, const char *)
        : memory((bytes + 4095) / 4096 * 4096 + 4096), bytes(bytes) {}
    char *data() {
      auto at = reinterpret_cast<uintptr_t>(memory.data());
      return memory.data() + (4096 - at % 4096) % 4096;
    }
    int64_t size() const { return bytes; }
    std::vector<char> memory;
    int64_t bytes;
  };

  BlobBuilder::Bytes bytes;
  std::unique_ptr<Blob> blob;
  std::unique_ptr<Mapping> host;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Engine> engine;
};

/// Six microbatches stream through a channel of two slots: host [0, 24) ->
/// device -> plus one -> host [64, 88). Two slots for what comes in, two for
/// what goes out.
void buildStream(BlobBuilder &b) {
  b.header.hostBytes = 128;
  b.device(256);
  uint32_t kernel = b.kernel("add one", 0);
  auto &in = b.queue(HM_PROGRAM_STEP, "in", HM_QUEUE_IN, 0);
  auto &compute = b.queue(HM_PROGRAM_STEP, "compute", HM_QUEUE_COMPUTE, 0);
  auto &out = b.queue(HM_PROGRAM_STEP, "out", HM_QUEUE_OUT, 0);
  HmRef slotIn = onDevice(0, 64, 4, 64, 2), slotOut = onDevice(0, 192, 4, 4, 2);
  // A slot is free again when the iteration two before has been computed; in
  // the first two iterations that is one of the step before.
  in.loop(6)
      .wait(1, -1, 1)
      .copy(slotIn, test::in(HM_SPACE_HOST, 0, 4, 4), HM_TRAFFIC_SWAP_IN)
      .signal()
      .end();
  compute.loop(6)
      .wait(0, 1, 1)
      .wait(2, -1, 1)
      .launch(kernel, {slotIn, slotOut}, 1)
      .signal()
      .end();
  out.loop(6)
      .wait(1, 1, 1)
      .copy(test::in(HM_SPACE_HOST, 64, 4, 4), slotOut, HM_TRAFFIC_SWAP_OUT)
      .signal()
      .end();
  b.program(HM_PROGRAM_STEP, 6);
}

TEST(Engine, StreamsThroughSlotsOverManySteps) {
  for (bool singleThread : {false, true}) {
    BlobBuilder b;
    buildStream(b);
    Machine m;
    m.start(b, singleThread);
    for (int step = 0; step < 200; ++step) {
      for (int i = 0; i < 6; ++i)
        m.floats(0)[i] = static_cast<float>(100 * step + i);
      m.engine->run(HM_PROGRAM_STEP);
      for (int i = 0; i < 6; ++i)
        ASSERT_EQ(m.floats(64)[i], static_cast<float>(100 * step + i + 1))
            << step;
    }
    EXPECT_EQ(m.engine->executions(HM_PROGRAM_STEP), 200);
    EXPECT_EQ(m.driver->traffic()[HM_TRAFFIC_SWAP_IN], 200 * 24);
    EXPECT_EQ(m.driver->peak(0), m.blob->devices()[0].peak);
    EXPECT_EQ(m.driver->peak(0), 200);
  }
}

TEST(Engine, LoopsOfNoIterationsAndEmptyProgramsEnd) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.device(64);
  auto &q = b.queue(HM_PROGRAM_STEP, "q", HM_QUEUE_IN, 0);
  q.loop(0).fill(onDevice(0, 0, 4), 1).signal().end().loop(3).end();
  q.fill(test::in(HM_SPACE_HOST, 0, 4), 7).signal();
  b.program(HM_PROGRAM_STEP, 1);
  b.program(HM_PROGRAM_LOAD, 1);
  Machine m;
  m.start(b);
  m.engine->run(HM_PROGRAM_LOAD);
  m.engine->run(HM_PROGRAM_STEP);
  m.engine->run(HM_PROGRAM_STEP);
  EXPECT_EQ(m.host->data()[3], 7);
  EXPECT_EQ(m.driver->peak(0), 0);
}

TEST(Engine, DumpCommandsAreSkippedButSignal) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.header.dumpBytes = 4;
  b.device(64);
  auto &q = b.queue(HM_PROGRAM_STEP, "a", HM_QUEUE_OUT, 0);
  q.fill(onDevice(0, 0, 4), 5)
      .copy(test::in(HM_SPACE_DUMP, 0, 4), onDevice(0, 0, 4))
      .signal();
  b.queue(HM_PROGRAM_STEP, "b", HM_QUEUE_IN, 0)
      .wait(0, 1)
      .fill(test::in(HM_SPACE_HOST, 0, 1), 1);
  b.program(HM_PROGRAM_STEP, 1);
  Machine m;
  m.start(b);
  m.engine->run(HM_PROGRAM_STEP); // there is no dump space
  char dump[4] = {};
  m.driver->setHostMemory(HM_SPACE_DUMP, dump, 4);
  m.engine->run(HM_PROGRAM_STEP);
  EXPECT_EQ(dump[0], 0);
  m.engine->run(HM_PROGRAM_STEP, true);
  EXPECT_EQ(dump[0], 5);
}

TEST(Engine, AFailingQueueStopsTheOthersAndIsNamed) {
  for (bool singleThread : {false, true}) {
    BlobBuilder b;
    b.header.hostBytes = 64;
    b.device(64);
    uint32_t kernel = b.kernel("failing", 1);
    auto &first = b.queue(HM_PROGRAM_STEP, "d0.compute", HM_QUEUE_COMPUTE, 0);
    first.loop(3).launch(kernel, {onDevice(0, 0, 4)}, 1).signal().end();
    b.queue(HM_PROGRAM_STEP, "d0.out", HM_QUEUE_OUT, 0)
        .wait(0, 3)
        .fill(onDevice(0, 0, 4), 1);
    b.program(HM_PROGRAM_STEP, 1);
    Machine m;
    m.start(b, singleThread);
    try {
      m.engine->run(HM_PROGRAM_STEP);
      FAIL();
    } catch (const Error &error) {
      EXPECT_STREQ(
          error.what(),
          "device 0, queue 'd0.compute' command 1 (launch 'command1'), "
          "iteration 0: "
          "kernel failed");
    }
    EXPECT_THROW(m.engine->run(HM_PROGRAM_STEP), Error);
  }
}

// ---- corrupt programs
// ---------------------------------------------------------

std::string problemOf(BlobBuilder::Bytes &bytes) {
  try {
    Blob(bytes.data.get(), bytes.size, functionCount);
    return "";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::Internal);
    return error.what();
  }
}

template <typename Change>
std::string problemAfter(Change change) {
  BlobBuilder b;
  buildStream(b);
  b.variable("w", HM_ROLE_PARAMETER, {2}, 0, {0});
  BlobBuilder::Bytes bytes = b.finish();
  EXPECT_EQ(problemOf(bytes), "");
  change(bytes);
  return problemOf(bytes);
}

#define EXPECT_PROBLEM(change, text)                                           \
  EXPECT_EQ(problemAfter([](BlobBuilder::Bytes &b) { change; }),               \
            "corrupt program: " text)

TEST(BlobCheck, NamesWhatIsWrong) {
  EXPECT_PROBLEM(b.header().magic = 1, "wrong magic number");
  EXPECT_PROBLEM(b.header().version = 9,
                 "version 9, this runtime reads version 5");
  EXPECT_PROBLEM(b.at<HmCommand>(b.header().commands)[0].a = -1,
                 "queue 'in' command 0: iterations is -1, accepted range is "
                 "[0, 16777216)");
  EXPECT_PROBLEM(b.at<HmCommand>(b.header().commands)[0].op = 9,
                 "queue 'in' command 0: opcode is 9, accepted range is [0, 7)");
  EXPECT_PROBLEM(b.at<HmCommand>(b.header().commands)[3].op = HM_OP_LOOP,
                 "queue 'in' command 3: loops do not nest");
  EXPECT_PROBLEM(b.at<HmQueue>(b.header().queues)[0].period = 5,
                 "queue 'in': period is 5, its commands signal 6 times");
  EXPECT_PROBLEM(b.at<HmRef>(b.header().refs)[1].offset = 250,
                 "queue 'in' command 2: reference at 250 of 4 bytes exceeds "
                 "the 128 bytes there "
                 "are");
  EXPECT_PROBLEM(b.at<HmRef>(b.header().refs)[1].stride = 1 << 20,
                 "queue 'in' command 2: reference of the last iteration at "
                 "5242880 of 4 bytes "
                 "exceeds the 128 bytes there are");
  EXPECT_PROBLEM(b.at<HmKernel>(b.header().kernels)[0].index = 2,
                 "kernel 0: index is 2, accepted range is [0, 2)");
  EXPECT_PROBLEM(b.at<HmVariable>(b.header().variables)[0].bytes = 12,
                 "variable 'w': bytes do not follow from its shape");
}

TEST(BlobCheck, FindsWaitsThatNobodySatisfies) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.device(64);
  b.queue(HM_PROGRAM_STEP, "a", HM_QUEUE_IN, 0)
      .wait(1, 1)
      .fill(onDevice(0, 0, 4), 1)
      .signal();
  b.queue(HM_PROGRAM_STEP, "b", HM_QUEUE_OUT, 0)
      .wait(0, 1)
      .fill(onDevice(0, 0, 4), 1)
      .signal();
  b.program(HM_PROGRAM_STEP, 1);
  BlobBuilder::Bytes bytes = b.finish();
  EXPECT_EQ(problemOf(bytes), "corrupt program: program 1: in execution 1 "
                              "queue 'a' command 0, iteration 0, waits "
                              "for 'b' to reach 1, it stops at 0");
}

TEST(BlobCheck, ConvolutionsWhoseExtentsDoNotAgreeAreRefused) {
  const HmConvolution good{2,      1,      8,      8,      {4, 4}, {4, 4},
                           {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0,      8};
  auto problem = [](const HmConvolution &shape) {
    BlobBuilder b;
    buildStream(b);
    b.convolution("convolution", shape);
    BlobBuilder::Bytes bytes = b.finish();
    return problemOf(bytes);
  };
  EXPECT_EQ(problem(good), "");
  auto expect = [&](const char *text, auto change) {
    HmConvolution bad = good;
    change(bad);
    EXPECT_NE(problem(bad).find(text), std::string::npos)
        << text << " in: " << problem(bad);
  };
  expect("direction", [](HmConvolution &c) { c.direction = 3; });
  expect("lanes", [](HmConvolution &c) { c.lanes = 4; });
  expect("samples of a block", [](HmConvolution &c) { c.blockSamples = 3; });
  expect("whole blocks", [](HmConvolution &c) { c.outputs = 12; });
  expect("padding in front", [](HmConvolution &c) { c.low[1] = 3; });
  expect("do not agree", [](HmConvolution &c) { c.out[0] = 5; });
}

TEST(BlobCheck, SurvivesRandomDamage) {
  BlobBuilder b;
  buildStream(b);
  b.variable("w", HM_ROLE_PARAMETER, {2}, 0, {0});
  b.variable("c", HM_ROLE_CONSTANT, {2}, 8, {}, b.constant({1, 2}));
  b.input("x", HM_F32, {0, 3}, 0, 2);
  b.header.batchBytes = 6 * 12;
  b.output("y", {0, 1}, 0);
  b.lossTerm(0, 4, 1, HM_PROGRAM_STEP);
  b.scalar(HM_SCALAR_LR, 0);
  HmGemm g{2, 2, 2, 2, 2, 2, {1, 1, 1}, {}, {}, {}, 2, 2, 0, 0, 0, {}};
  b.gemm("product", g);
  HmConvolution c{2,      1,      8,      8,      {4, 4}, {4, 4},
                  {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0,      8};
  b.convolution("convolution", c);
  BlobBuilder::Bytes good = b.finish();
  BlobBuilder::Bytes bad = b.finish();
  SplitMix random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::memcpy(bad.data.get(), good.data.get(), good.size);
    for (uint64_t n = 1 + random.below(3); n > 0; --n)
      bad.data.get()[random.below(good.size)] =
          static_cast<char>(random.next());
    // Loops of millions of iterations are allowed and replayed: not here.
    auto *commands = good.at<HmCommand>(good.header().commands);
    for (size_t i = 0; i < good.header().commands.count; ++i)
      if (commands[i].op == HM_OP_LOOP)
        bad.at<HmCommand>(good.header().commands)[i].a = 6;
    refused += !problemOf(bad).empty();
  }
  EXPECT_GT(refused, 1000);
  for (uint64_t size = 0; size < good.size; size += 8)
    EXPECT_THROW(Blob(good.data.get(), size, functionCount), Error);
}

} // namespace
} // namespace harmony::runtime
