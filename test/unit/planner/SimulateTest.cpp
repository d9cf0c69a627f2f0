//===- SimulateTest.cpp - Times that can be worked out by hand ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

/// Two layers whose forward takes 1 s and backward 2 s a microbatch, weights of
/// 1e9 bytes (1 s on the link), values of 64 bytes (next to nothing).
Problem heavy(int64_t batch) {
  Problem problem = chain(2, batch, 1000000000, 64);
  problem.microbatches = {1};
  Cost cost{1, 1, 2, 0, 0, 0};
  problem.functions[0].costs = {cost};
  problem.hostUpdate = problem.deviceUpdate = {0, 0};
  return problem;
}

double seconds(const Problem &problem, const Choices &choices) {
  return makePlan(problem, choices).seconds;
}

constexpr double nothing = 1e-5;

TEST(Simulate, ResidentIsComputeAlone) {
  Problem problem = heavy(4);
  Choices choices = leastChoices(problem, 1, 2);
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  EXPECT_NEAR(seconds(problem, choices), 4 * 2 * 3, nothing);
}

TEST(Simulate, UpdatesTakeTheirTime) {
  Problem problem = heavy(4);
  problem.deviceUpdate = {0.5, 1e-9};
  Choices choices = leastChoices(problem, 1, 2);
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  EXPECT_NEAR(seconds(problem, choices), 4 * 2 * 3 + 2 * 1.5, nothing);
}

TEST(Simulate, WithoutOverlapLoadsAddUp) {
  // F0: load 1, run 4. T1: load 1, run 4 * 3. B0: load 1 (no saved block:
  // nothing is recomputed), run 4 * 2. W1's gradient leaves during B0's load.
  // The next execution starts when W0's gradient (1 s) has come and W0 is
  // updated, at no cost. All live ranges take the same addresses, so that each
  // load waits for the Run before it, and B0's load is under way while W1's
  // gradient leaves.
  Problem problem = heavy(4);
  double time = seconds(problem, leastChoices(problem, 1));
  EXPECT_GE(time, 24 + 3 + 1 - nothing);
  EXPECT_LE(time, 24 + 3 + 2 + nothing);
}

TEST(Simulate, OverlapHidesLoads) {
  // W1 is loaded during F0, the gradient of W1 leaves during B0. W0's round
  // trip at the end of an execution (gradient out, weight in) is all that
  // remains.
  Problem problem = heavy(4);
  Choices choices = leastChoices(problem, 1);
  choices.overlap = true;
  choices.slots = 2;
  choices.pinned.assign(2, 1);
  EXPECT_NEAR(seconds(problem, choices), 24 + 2, nothing);
}

TEST(Simulate, TransfersOnOneLinkShareIt) {
  // Values as heavy as weights: two lanes load at once, each at half the rate.
  Problem problem = heavy(1);
  problem.values[0].bytesPerSample = 1000000000;
  Choices choices = leastChoices(problem, 1, 2);
  choices.updateOnHost.assign(2, 1);
  std::vector<Interval> intervals =
      timeline(makePlan(problem, choices), problem, machine(unlimited));
  Plan plan = makePlan(problem, choices);
  for (const Interval &interval : intervals) {
    if (plan.events[interval.event].kind == EventKind::LoadValue) {
      EXPECT_NEAR(interval.end - interval.begin, 2, 1e-3);
    }
  }
}

TEST(Simulate, TimelineIsInOrderOnEveryQueue) {
  std::mt19937 generator(5);
  for (int round = 0; round < 50; ++round) {
    Problem problem = random(generator);
    Plan plan = makePlan(problem, randomChoices(problem, generator));
    std::vector<double> end(plan.queues.size(), -1e300);
    for (const Interval &interval :
         timeline(plan, problem, machine(unlimited))) {
      int queue = plan.events[interval.event].queue;
      EXPECT_LE(end[queue], interval.begin + 1e-12);
      end[queue] = interval.end;
    }
    EXPECT_GE(plan.seconds, plan.computeSeconds * (1 - 1e-9));
  }
}

TEST(Simulate, LatencyCountsPerTransfer) {
  Problem problem = heavy(4);
  Choices choices = leastChoices(problem, 1, 2);
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  Draft draft = build(problem, machine(unlimited), choices);
  allocate(draft.plan);
  synchronize(draft);
  Machine slow = Machine::uniform("slow", 1, unlimited, 1e9, 10);
  simulate(draft.plan, problem, slow);
  // Each microbatch's input takes 10 s, with one slot, before 6 s of computing.
  // The seed and the loss take theirs beside that.
  EXPECT_GE(draft.plan.seconds, 4 * 16 - nothing);
  EXPECT_LE(draft.plan.seconds, 4 * 16 + 20 + nothing);
}

} // namespace
