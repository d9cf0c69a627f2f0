//===- DevicesTest.cpp - Programs over several devices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Adversary.h"
#include "runtime/engine/NegativeControl.h"
#include "test/unit/runtime/RingModel.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <set>

namespace harmony::runtime {
namespace {

using namespace test;

EngineOptions adversarial(uint64_t seed) {
  EngineOptions options;
  options.adversarialSeed = seed;
  return options;
}

TEST(Devices, RingsOfOneToEightGiveTheBitsOfAPlainLoop) {
  for (int64_t devices = 1; devices <= 8; ++devices) {
    RingModel model;
    model.devices = devices;
    std::vector<float> expected = model.expected(5);
    for (unsigned threads : {1u, 3u, 9u}) {
      RingRun ring(model, {}, threads);
      EXPECT_TRUE(sameBits(ring.run(5), expected))
          << devices << ", " << threads;
      Traffic traffic = ring.driver->traffic();
      EXPECT_EQ(traffic[HM_TRAFFIC_PEER], 5 * model.peerBytes());
      EXPECT_EQ(traffic[HM_TRAFFIC_SWAP_IN], 0);
      for (int64_t d = 0; d < devices; ++d)
        EXPECT_EQ(ring.driver->peak(d), ring.blob->devices()[d].peak) << d;
    }
    EngineOptions inTurn;
    inTurn.singleThread = true;
    EXPECT_TRUE(sameBits(RingRun(model, inTurn).run(5), expected));
  }
}

TEST(Devices, WhatStaysOnDevicesIsStored) {
  RingModel model;
  model.devices = 3;
  RingRun ring(model, {}, 2);
  ring.run(4);
  ring.engine->run(HM_PROGRAM_STORE);
  for (int64_t s = 0; s < model.stages(); ++s)
    EXPECT_EQ(
        *reinterpret_cast<float *>(ring.host.data() + model.weightHome(s)),
        static_cast<float>(3 * s + 1 + 4));
}

// ---- adversarial mode -------------------------------------------------------

TEST(Adversarial, AThousandSeedsGiveEqualBits) {
  RingModel model;
  model.devices = 4;
  model.microbatches = 6;
  std::vector<float> expected = model.expected(3);
  auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = 0; seed < 1000; ++seed)
    ASSERT_TRUE(sameBits(RingRun(model, adversarial(seed)).run(3), expected))
        << "seed " << seed;
  double hostile =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  RecordProperty("seconds", std::to_string(hostile));
}

TEST(Adversarial, EveryPolicyIsDrawnAndOrdersDiffer) {
  std::set<Adversary::Policy> policies;
  std::set<std::vector<size_t>> orders;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Adversary adversary(seed), same(seed);
    adversary.begin(4);
    same.begin(4);
    policies.insert(adversary.policy());
    std::vector<size_t> order;
    // Four queues of five commands each, all always ready.
    std::vector<int> left(4, 5);
    for (int i = 0; i < 20; ++i) {
      std::vector<char> ready;
      for (int n : left)
        ready.push_back(n > 0);
      order.push_back(adversary.pick(ready));
      ASSERT_EQ(order.back(), same.pick(ready));
      ASSERT_TRUE(ready[order.back()]);
      --left[order.back()];
    }
    orders.insert(order);
  }
  EXPECT_EQ(policies.size(), static_cast<size_t>(Adversary::Policy::Count));
  EXPECT_GT(orders.size(), 50u);
}

TEST(Adversarial, AStarvedQueueRunsOnlyWhenNoOtherCan) {
  int starving = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Adversary adversary(seed);
    adversary.begin(3);
    if (adversary.policy() != Adversary::Policy::Starve)
      continue;
    std::set<size_t> chosen;
    for (int i = 0; i < 100 && adversary.policy() == Adversary::Policy::Starve;
         ++i)
      chosen.insert(adversary.pick({1, 1, 1}));
    starving += chosen.size() <= 2;
  }
  EXPECT_GT(starving, 5);
}

// ---- negative controls ------------------------------------------------------

bool isCaught(const RingModel &model, EngineOptions options,
              const std::vector<float> &expected) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    options.adversarialSeed = seed;
    if (!sameBits(RingRun(model, options).run(3), expected))
      return true;
  }
  return false;
}

TEST(NegativeControl, DroppedWaitsShowUnlessTheyAreRedundant) {
  RingModel model;
  model.devices = 3;
  std::vector<float> expected = model.expected(3);
  RingRun plain(model, {});
  std::vector<bool> redundant = findRedundantWaits(*plain.blob);
  int64_t waits = 0;
  for (int64_t wait = 0; wait < static_cast<int64_t>(redundant.size());
       ++wait) {
    EngineOptions options;
    options.dropWait = wait;
    EXPECT_EQ(isCaught(model, options, expected), !redundant[wait])
        << "wait " << wait << " of\n"
        << listControls(*plain.blob);
    waits += !redundant[wait];
  }
  EXPECT_EQ(redundant.size(), 23u);
  EXPECT_GE(waits, 20);
}

TEST(NegativeControl, AWaitThatAnotherImpliesIsRedundant) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.device(64);
  HmRef bytes = onDevice(0, 0, 4);
  b.queue(HM_PROGRAM_STEP, "a", HM_QUEUE_IN, 0).fill(bytes, 1).signal();
  b.queue(HM_PROGRAM_STEP, "b", HM_QUEUE_COMPUTE, 0)
      .wait(0, 1)
      .fill(bytes, 2)
      .signal();
  // 'b' has waited for 'a', also where 'c' waits for 'b' only afterwards; a
  // wait for the step before always holds.
  b.queue(HM_PROGRAM_STEP, "c", HM_QUEUE_OUT, 0)
      .wait(0, 1)
      .wait(1, 1)
      .wait(0, 0)
      .fill(bytes, 3)
      .signal();
  b.program(HM_PROGRAM_STEP, 1);
  BlobBuilder::Bytes data = b.finish();
  Blob blob(data.data.get(), data.size, 0);
  EXPECT_EQ(findRedundantWaits(blob),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(listControls(blob),
            "waits 4\n"
            "wait 0: queue 'b' command 0 for 'a'\n"
            "wait 1: queue 'c' command 0 for 'a' redundant\n"
            "wait 2: queue 'c' command 1 for 'b'\n"
            "wait 3: queue 'c' command 2 for 'a' redundant\n"
            "releases 0\n");
}

TEST(NegativeControl, EarlyReleasesShow) {
  RingModel model;
  model.devices = 3;
  std::vector<float> expected = model.expected(3);
  RingRun plain(model, {});
  auto releases =
      static_cast<int64_t>(findCommands(*plain.blob, HM_OP_RELEASE).size());
  EXPECT_EQ(releases, 12);
  for (int64_t release = 0; release < releases; ++release) {
    EngineOptions options;
    options.singleThread = true;
    options.earlyRelease = release;
    EXPECT_FALSE(sameBits(RingRun(model, options).run(3), expected)) << release;
  }
}

TEST(NegativeControl, AReleaseBehindALoopComesBeforeTheLastIteration) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.device(64);
  b.queue(HM_PROGRAM_STEP, "q", HM_QUEUE_OUT, 0)
      .fill(onDevice(0, 0, 16), 7)
      .loop(4)
      .copy(in(HM_SPACE_HOST, 0, 4, 4), onDevice(0, 0, 4, 4),
            HM_TRAFFIC_SWAP_OUT)
      .end()
      .fill(onDevice(0, 32, 4), 7)
      .release(onDevice(0, 0, 16))
      .release(onDevice(0, 32, 4));
  b.program(HM_PROGRAM_STEP, 1);
  BlobBuilder::Bytes data = b.finish();
  Blob blob(data.data.get(), data.size, 0);
  std::optional<EarlyRelease> reader = findLastReader(blob, {0, 5});
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->reader, 2u);
  EXPECT_FALSE(findLastReader(blob, {0, 6}));
}

TEST(NegativeControl, ReadersInVainDoNotCount) {
  BlobBuilder b;
  b.header.hostBytes = 64;
  b.device(1024);
  uint32_t kernel = b.kernel("kernel", 0);
  auto at = [](int64_t offset, uint16_t access) {
    HmRef ref = onDevice(0, offset, 4);
    ref.access = access;
    return ref;
  };
  constexpr uint16_t read = 1, written = 2;
  b.queue(HM_PROGRAM_STEP, "q", HM_QUEUE_COMPUTE, 0)
      .fill(onDevice(0, 0, 4), 1)
      .loop(2)
      .launch(kernel, {at(0, read), at(64, written)}, 1)    // 2: used by 5
      .launch(kernel, {at(0, read), at(128, written)}, 1)   // 3: by 4 alone
      .launch(kernel, {at(128, read), at(192, written)}, 1) // 4: by nobody
      .launch(kernel, {at(64, read), at(256, written)}, 1)  // 5: leaves
      .end()
      .release(onDevice(0, 0, 4))    // 7
      .release(onDevice(0, 128, 4))  // 8
      .release(onDevice(0, 192, 4)); // 9
  b.queue(HM_PROGRAM_STEP, "out", HM_QUEUE_OUT, 0)
      .copy(in(HM_SPACE_HOST, 0, 4), onDevice(0, 256, 4), HM_TRAFFIC_SWAP_OUT);
  b.program(HM_PROGRAM_STEP, 1);
  BlobBuilder::Bytes data = b.finish();
  Blob blob(data.data.get(), data.size, 1);
  std::optional<EarlyRelease> reader = findLastReader(blob, {0, 7});
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->reader, 2u);
  EXPECT_FALSE(findLastReader(blob, {0, 8}));
  EXPECT_FALSE(findLastReader(blob, {0, 9}));
}

TEST(NegativeControl, NumbersBeyondTheLastAreRefused) {
  EngineOptions options;
  options.dropWait = 23;
  RingModel model;
  model.devices = 3;
  try {
    RingRun ring(model, options);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::Usage);
    EXPECT_STREQ(error.what(),
                 "wait 23 does not exist, the step program has 23");
  }
}

// ---- order ------------------------------------------------------------------

TEST(Order, EveryWaitOfARingKeepsARaceAway) {
  for (int64_t devices : {1, 2, 3}) {
    RingModel model;
    model.devices = devices;
    BlobBuilder::Bytes bytes = model.build().finish();
    Blob blob(bytes.data.get(), bytes.size, 2);
    EXPECT_EQ(findRace(blob), "");
    std::vector<CommandPlace> waits = findCommands(blob, HM_OP_WAIT);
    std::vector<bool> redundant = findRedundantWaits(blob);
    for (size_t i = 0; i < waits.size(); ++i)
      EXPECT_EQ(findRace(blob, waits[i]).empty(), redundant[i])
          << devices << " devices, wait " << i;
  }
}

TEST(Order, RacesBetweenExecutionsAreFound) {
  for (bool waits : {false, true}) {
    BlobBuilder b;
    b.header.hostBytes = 64;
    b.device(64);
    auto &q = b.queue(HM_PROGRAM_STEP, "in", HM_QUEUE_IN, 0);
    if (waits)
      q.wait(1, 0); // the execution before
    q.copy(onDevice(0, 0, 4), in(HM_SPACE_HOST, 0, 4)).label("value").signal();
    b.queue(HM_PROGRAM_STEP, "out", HM_QUEUE_OUT, 0)
        .wait(0, 1)
        .copy(in(HM_SPACE_HOST, 8, 4), onDevice(0, 0, 4), HM_TRAFFIC_OUTPUT)
        .label("result")
        .signal();
    b.program(HM_PROGRAM_STEP, 1);
    BlobBuilder::Bytes bytes = b.finish();
    Blob blob(bytes.data.get(), bytes.size, 0);
    EXPECT_EQ(findRace(blob),
              waits ? ""
                    : "device 0 bytes [0, +4): queue 'out' command 1 "
                      "('result'), iteration 0 of execution 1 and queue 'in' "
                      "command 0 ('value'), iteration 0 of execution 2 are in "
                      "no certain order");
  }
}

} // namespace
} // namespace harmony::runtime
