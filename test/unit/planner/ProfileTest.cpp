//===- ProfileTest.cpp - Problems of artifact profiles, bounds ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/ArtifactProfile.h"
#include "compiler/Planner/Bound.h"
#include "compiler/Planner/Json.h"
#include "compiler/Planner/Search.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

constexpr int64_t mebi = 1 << 20;

/// Two layers, measured at 1 and 4 (forward) and 1, 2 and 4 (backward).
nlohmann::json document() {
  auto sample = [](double seconds, double bytes) {
    return nlohmann::json{{"t", {seconds, 2 * seconds}},
                          {"mem", {bytes, bytes}}};
  };
  return {{"model", "two"},
          {"R", 2},
          {"W_bytes", {130 * mebi, 0}},
          {"B_bytes", {0, 64}},
          {"K_bytes", {260 * mebi, 0}},
          {"X_bytes_u1", {1024, 2048}},
          {"upd_cpu_sec", {0.3, 0.0}},
          {"fwd",
           {{"1", sample(1, 200.0 * mebi)}, {"4", sample(2.5, 230.0 * mebi)}}},
          {"bwd",
           {{"1", sample(3, 300.0 * mebi)},
            {"2", sample(4, 320.0 * mebi)},
            {"4", sample(7, 400.0 * mebi)}}}};
}

Device device() {
  Device device;
  device.bytesPerSecond = 1e9;
  return device;
}

TEST(Profile, InterpolatesBetweenSamples) {
  ArtifactProfile profile = artifactProfileFromJson(document(), "two");
  EXPECT_EQ(profile.forwardSeconds(0, 1), 1);
  EXPECT_EQ(profile.forwardSeconds(0, 3), 2);
  EXPECT_EQ(profile.backwardSeconds(1, 3), 11);
  EXPECT_EQ(profile.backwardBytes(0, 3), 360.0 * mebi);
  EXPECT_EQ(profile.forwardSeconds(0, 9), 2.5); // constant beyond
  EXPECT_EQ(profile.largestMicrobatch(), 4);
}

TEST(Profile, BecomesAChain) {
  ArtifactProfile profile = artifactProfileFromJson(document(), "two");
  Problem problem = problemOf(profile, 8, {1, 2, 4, 8}, device());
  EXPECT_EQ(problem.microbatches, (std::vector<int64_t>{1, 2, 4}));
  ASSERT_EQ(problem.layerCount(), 2);
  // 130 MiB are three equal tensors, which share state and host time.
  ASSERT_EQ(problem.tensors.size(), 4u);
  int64_t bytes = 0, states = 0;
  double seconds = 0;
  for (const Tensor &tensor : problem.tensors)
    if (tensor.trainable) {
      bytes += tensor.bytes;
      states += tensor.stateBytes;
      seconds += tensor.hostUpdateSeconds;
      EXPECT_LE(tensor.bytes, 64 * mebi);
    }
  EXPECT_EQ(bytes, 130 * mebi);
  EXPECT_EQ(states, 260 * mebi);
  EXPECT_NEAR(seconds, 0.3, 1e-12);
  EXPECT_EQ(problem.tensors.back().name, "layer1.buffer");
  EXPECT_FALSE(problem.tensors.back().trainable);
  // A parameter, its gradient and two states: 7 bytes a byte.
  EXPECT_DOUBLE_EQ(problem.deviceUpdate.perByte, 7e-9);
  const Cost &cost = problem.cost(0, 2);
  EXPECT_EQ(cost.forwardSeconds, 1.5);
  EXPECT_EQ(cost.backwardSeconds, 2.5); // 4 less the forward in it
  // Of 320 MiB: weight, gradient, input, its gradient, the output's.
  EXPECT_EQ(cost.savedBytes, 320 * mebi - 260 * mebi - 4 * 1024 - 2 * 2048);
}

TEST(Profile, HostSecondsSurviveJson) {
  Problem problem = problemOf(artifactProfileFromJson(document(), "two"), 4,
                              {1, 2, 4}, device());
  Problem again = problemFromJson(toJson(problem), "again");
  EXPECT_EQ(again.tensors[0].hostUpdateSeconds,
            problem.tensors[0].hostUpdateSeconds);
}

TEST(Profile, RefusesWhatIsIncomplete) {
  for (const char *key : {"W_bytes", "K_bytes", "upd_cpu_sec", "fwd"}) {
    nlohmann::json broken = document();
    broken.erase(key);
    try {
      artifactProfileFromJson(broken, "broken.json");
      ADD_FAILURE() << key;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos);
    }
  }
  nlohmann::json shorter = document();
  shorter["bwd"]["2"]["t"] = {1.0};
  EXPECT_THROW(artifactProfileFromJson(shorter, "s"), Error);
  EXPECT_THROW(
      problemOf(artifactProfileFromJson(document(), "two"), 64, {16}, device()),
      Error);
}

TEST(Bound, IsBelowEveryPlan) {
  Problem problem = transformer(12, 16, 128, 64, 512);
  int64_t least = minDeviceBytes(problem, machine(unlimited));
  double before = 0;
  for (double factor : {40.0, 4.0, 2.0, 1.0}) {
    Machine small =
        machine(static_cast<int64_t>(static_cast<double>(least) * factor));
    Planned planned = std::get<Planned>(solve(problem, small));
    EXPECT_LE(planned.boundSeconds, planned.plan.seconds) << factor;
    EXPECT_EQ(planned.boundSeconds, boundSeconds(problem, small));
    // Less memory: more to recompute.
    EXPECT_GE(planned.boundSeconds, before);
    before = planned.boundSeconds;
  }
  // With room for everything nothing is recomputed.
  EXPECT_NEAR(boundSeconds(problem, machine(unlimited)),
              problem.computeBoundSeconds(), 1e-9);
}

TEST(Bound, OfAsManyGroupsIsCloser) {
  Problem problem = transformer(12, 16, 128, 64, 512);
  int64_t least = minDeviceBytes(problem, machine(unlimited));
  Machine four = Machine::uniform("four", 4, 2 * least, 1e9, 0);
  Planned planned = std::get<Planned>(solve(problem, four));
  EXPECT_LE(planned.boundSeconds, planned.groupsBoundSeconds);
  EXPECT_LE(planned.groupsBoundSeconds, planned.plan.seconds);
  EXPECT_EQ(planned.groupsBoundSeconds,
            boundSeconds(problem, four, planned.plan.groups));
  EXPECT_TRUE(std::isinf(boundSeconds(problem, four, 5)));
  // Groups of one device have its memory alone.
  EXPECT_LT(boundSeconds(problem, four, 1), boundSeconds(problem, four, 4));
}

TEST(Bound, PipelinesWaitForOneMicrobatch) {
  Problem problem = chain(8, 8);
  Machine one = machine(unlimited);
  double work = boundSeconds(problem, one, 1, 1, {8});
  Machine eight = Machine::uniform("eight", 8, unlimited, 1e9, 0);
  // A single microbatch is on one device at a time.
  EXPECT_NEAR(boundSeconds(problem, eight, 1, 8, {8}), work, 1e-9 * work);
  EXPECT_LT(boundSeconds(problem, eight, 1, 8, {1}), work);
}

} // namespace
