//===- BaselineTest.cpp - Plans on virtualised memory ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Devices.h"

#include "compiler/Planner/Baselines.h"

#include <ctime>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

const Schedule both[] = {Schedule::PpSwap, Schedule::DpSwap};

SearchOptions optionsOf(Schedule schedule, int64_t microbatch = 0,
                        Recompute recompute = Recompute::Auto) {
  SearchOptions options;
  options.schedule = schedule;
  if (microbatch > 0)
    options.microbatch = microbatch;
  options.recompute = recompute;
  return options;
}

std::vector<Problem> typical() {
  return {chain(6, 8), mlp({64, 128, 128, 10}, 32),
          transformer(4, 8, 64, 32, 96)};
}

int count(const Plan &plan, EventKind kind, int object = -1) {
  int found = 0;
  for (const Event &event : plan.events)
    found += event.kind == kind && (object < 0 || event.object == object);
  return found;
}

TEST(Baseline, PlansAreValidFromTheLeastOn) {
  for (const Problem &problem : typical())
    for (Schedule schedule : both)
      for (int devices : {1, 2, 3, 4}) {
        SearchOptions options = optionsOf(schedule, 2);
        for (bool peers : {true, false}) {
          int64_t least = minDeviceBytes(
              problem, machines(devices, unlimited, peers), options);
          for (double factor : {1.0, 1.2, 1.7, 3.0, 50.0})
            solvedOn(problem, machines(devices, times(least, factor), peers),
                     options);
          Result below =
              solve(problem, machines(devices, least - 1, peers), options);
          ASSERT_TRUE(std::holds_alternative<Infeasible>(below));
          EXPECT_EQ(std::get<Infeasible>(below).minDeviceBytes, least);
        }
      }
}

bool forwardWrites(const Problem &problem) {
  bool writes = false;
  for (const Layer &layer : problem.layers)
    for (const TensorUse &use : layer.tensors)
      writes |= use.forwardWrites;
  return writes;
}

TEST(Baseline, RandomProblems) {
  std::mt19937 generator(11);
  for (int round = 0; round < 60; ++round) {
    Problem problem = random(generator);
    if (generator() % 3 == 0)
      problem = withEpilogue(problem);
    int devices = 1 + static_cast<int>(generator() % 4);
    SearchOptions options =
        optionsOf(both[generator() % 2], 1 + static_cast<int>(generator() % 3),
                  generator() % 2 ? Recompute::All : Recompute::Auto);
    options.microbatch = problem.splittable
                             ? std::min(*options.microbatch, problem.batch)
                             : problem.batch;
    problem = splitFor(problem, devices, options);
    if (forwardWrites(problem))
      options.schedule = Schedule::PpSwap;
    bool peers = generator() % 2;
    int64_t least =
        minDeviceBytes(problem, machines(devices, unlimited, peers), options);
    for (double factor : {1.0, 1.5, 4.0})
      solvedOn(problem, machines(devices, times(least, factor), peers),
               options);
  }
}

// As much memory as one operation touches: every layer's weights are loaded for
// every forward and backward of every microbatch, but where one microbatch ends
// and the next begins, and once more for the update ...
TEST(Baseline, LeastMemoryLoadsWeightsForEveryMicrobatch) {
  int layers = 6;
  Problem problem = chain(layers, 8, 1 << 16, 64);
  for (Tensor &tensor : problem.tensors)
    tensor.stateBytes = 0;
  SearchOptions options = optionsOf(Schedule::DpSwap, 1, Recompute::All);
  int64_t least = minDeviceBytes(problem, machines(1, unlimited), options);
  Plan plan = solvedOn(problem, machines(1, least), options).plan;
  EXPECT_GE(count(plan, EventKind::LoadTensor), (2 * layers - 2) * 8);
  EXPECT_LE(count(plan, EventKind::LoadTensor), 2 * layers * 8 + layers);
  // Gradients leave between microbatches: nothing is grouped.
  EXPECT_GE(count(plan, EventKind::StoreGradient), (layers - 1) * 8);
  EXPECT_GE(count(plan, EventKind::LoadGradient), (layers - 1) * 8);
  EXPECT_EQ(count(plan, EventKind::StoreTensor), layers);
}

// ... and none of it where all fits: what is loaded once stays.
TEST(Baseline, UnlimitedMemoryLoadsOnce) {
  Problem problem = chain(8, 8);
  for (int devices : {1, 2, 4}) {
    Plan plan = solvedOn(problem, machines(devices, unlimited),
                         optionsOf(Schedule::DpSwap, 1, Recompute::All))
                    .plan;
    EXPECT_EQ(count(plan, EventKind::LoadTensor), 8 * devices);
    EXPECT_EQ(count(plan, EventKind::StoreTensor), 8);
    EXPECT_EQ(count(plan, EventKind::StoreGradient), 0);
    EXPECT_EQ(count(plan, EventKind::StoreValue), 0);
    EXPECT_EQ(count(plan, EventKind::CopyGradient), 8 * (devices - 1));
    plan = solvedOn(problem, machines(devices, unlimited),
                    optionsOf(Schedule::PpSwap, 1, Recompute::All))
               .plan;
    EXPECT_EQ(count(plan, EventKind::LoadTensor), 8);
    EXPECT_EQ(count(plan, EventKind::CopyValue), 8 * (devices - 1));
    EXPECT_EQ(count(plan, EventKind::CopyValueGradient), 8 * (devices - 1));
  }
}

// Three layers, two of which fit: forward 0 1 2, backward 2 1 0, forward 0 ...
// The least recently used of the other two leaves at every access but the
// first after a turn.
TEST(Baseline, TheLeastRecentlyUsedLeaves) {
  Problem problem = chain(3, 4, 1 << 20, 64);
  SearchOptions options = optionsOf(Schedule::DpSwap, 1, Recompute::All);
  // In backward two weights and two gradients, at the update a weight, its
  // gradient and its state of twice the size.
  Plan plan =
      solvedOn(problem, machines(1, (4 << 20) + (1 << 16)), options).plan;
  // Layer 1 is used in the middle of each sweep: it is never the victim of
  // its neighbours' loads both ways, so it is loaded least.
  EXPECT_LE(count(plan, EventKind::LoadTensor, 1),
            count(plan, EventKind::LoadTensor, 0));
  EXPECT_LT(count(plan, EventKind::LoadTensor), 4 * 5 + 3);
  EXPECT_GT(count(plan, EventKind::LoadTensor), 3);
}

TEST(Baseline, SwapsFarMoreThanHarmony) {
  Problem problem = chain(32, 16, 1 << 16, 256);
  for (int devices : {1, 3}) {
    int64_t capacity = problem.trainingStateBytes() / (4 * devices);
    Machine machine = machines(devices, capacity);
    for (auto [baseline, harmony] :
         {std::pair{Schedule::PpSwap, Schedule::HarmonyPp},
          std::pair{Schedule::DpSwap, Schedule::HarmonyDp}}) {
      Plan slow = solvedOn(problem, machine, optionsOf(baseline, 1)).plan;
      Plan fast = solvedOn(problem, machine, optionsOf(harmony)).plan;
      EXPECT_GT(swaps(slow), 4 * swaps(fast))
          << name(harmony) << " on " << devices;
      EXPECT_GT(slow.seconds, fast.seconds);
    }
  }
}

TEST(Baseline, InputsAreNotStored) {
  Problem problem = chain(4, 6);
  for (int l : {1, 3})
    problem.layers[l].inputs.push_back(problem.layers[0].inputs[0]);
  problem.link();
  for (int devices : {1, 2, 3}) {
    SearchOptions options = optionsOf(Schedule::PpSwap, 2);
    int64_t least =
        minDeviceBytes(problem, machines(devices, unlimited, true), options);
    for (int64_t memory : {least, unlimited}) {
      Planned planned =
          solvedOn(problem, machines(devices, memory, true), options);
      EXPECT_GT(count(planned.plan, EventKind::LoadValue, 0), 0);
      EXPECT_EQ(count(planned.plan, EventKind::StoreValue, 0), 0);
    }
  }
}

TEST(Baseline, PinsThatContradictAreErrors) {
  Problem problem = chain(4, 6);
  Machine machine = machines(2, unlimited);
  SearchOptions options = optionsOf(Schedule::PpSwap, 4);
  EXPECT_THROW(solve(problem, machine, options), Error);
  options = optionsOf(Schedule::PpSwap);
  options.update = UpdateOrder::JustInTime;
  EXPECT_THROW(solve(problem, machine, options), Error);
  options = optionsOf(Schedule::DpSwap);
  options.updatePlace = UpdatePlace::Host;
  EXPECT_THROW(solve(problem, machine, options), Error);
  Problem statistics = chain(4, 6);
  statistics.layers[2].tensors[0].forwardWrites = true;
  EXPECT_THROW(solve(statistics, machine, optionsOf(Schedule::DpSwap)), Error);
}

TEST(Baseline, TheHostUpdatesWhatDevicesHaveNoRoomFor) {
  Problem problem = withEpilogue(chain(4, 8, 1 << 16, 64));
  SearchOptions options = optionsOf(Schedule::DpSwap, 1);
  for (int devices : {1, 2, 4}) {
    int64_t least =
        minDeviceBytes(problem, machines(devices, unlimited), options);
    // A tensor and its gradient; an update has four times that and more.
    EXPECT_LT(least, 3 << 16);
    auto hostUpdates = [&](int64_t capacity) {
      int found = 0;
      for (const Event &event :
           solvedOn(problem, machines(devices, capacity), options).plan.events)
        found += event.kind == EventKind::Update && event.onHost;
      return found;
    };
    EXPECT_EQ(hostUpdates(least), 4);
    options.updatePlace = UpdatePlace::Device;
    EXPECT_GE(minDeviceBytes(problem, machines(devices, unlimited), options),
              4 << 16);
    options.updatePlace.reset();
    EXPECT_EQ(hostUpdates(unlimited), 0);
    problem.tensors[1].updatePlace = UpdatePlace::Host;
    EXPECT_EQ(hostUpdates(unlimited), 1);
    problem.tensors[1].updatePlace = UpdatePlace::Any;
  }
}

TEST(Baseline, IsPlannedFast) {
  Problem problem = transformer(48, 32, 256, 128, 4096);
  for (Schedule schedule : both) {
    Machine machine = machines(4, problem.trainingStateBytes() / 8);
    std::clock_t begin = std::clock();
    Plan plan = solvedOn(problem, machine, optionsOf(schedule, 1)).plan;
    double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%s, 50 layers, 32 microbatches, 4 devices: %zu events, "
                "%.2f s with verifying\n",
                name(schedule), plan.events.size(), seconds);
    EXPECT_LT(seconds, 10);
  }
}

} // namespace
