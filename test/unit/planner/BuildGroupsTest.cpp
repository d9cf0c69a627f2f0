//===- BuildGroupsTest.cpp - Plans of several groups ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/DevicePlans.h"

#include "compiler/Planner/Filling.h"

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

TEST(BuildGroups, PartsOfAllGroupsGoToTheOwner) {
  Problem problem = chain(2, 4);
  Choices choices = pipeline(problem, 4, 1, 1, 1);
  choices.updateOnHost.assign(2, 0);
  choices.owner = {2, 1};
  Plan plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  EXPECT_EQ(count(plan, EventKind::CopyGradient), 6);
  EXPECT_EQ(count(plan, EventKind::StoreGradient), 0);
  EXPECT_EQ(plan.events[eventOf(plan, EventKind::Update, 0)].device, 2);
  EXPECT_EQ(plan.events[eventOf(plan, EventKind::Update, 1)].device, 1);

  choices.peers = false;
  plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  EXPECT_EQ(count(plan, EventKind::CopyGradient), 0);
  EXPECT_EQ(count(plan, EventKind::StoreGradient), 6);
  EXPECT_EQ(count(plan, EventKind::LoadGradient), 6);

  // The host adds the parts at home.
  choices.updateOnHost.assign(2, 1);
  plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  EXPECT_EQ(count(plan, EventKind::StoreGradient), 8);
  EXPECT_EQ(count(plan, EventKind::LoadGradient), 0);
}

/// Bytes that one execution loads of tensors, by device.
std::vector<int64_t> loaded(const Plan &plan, int devices) {
  std::vector<int64_t> bytes(devices, 0);
  for (const Event &event : plan.events)
    if (event.kind == EventKind::LoadTensor)
      bytes[event.device] += event.bytes;
  return bytes;
}

TEST(BuildGroups, RoundsBringTensorsAndGradientsAgain) {
  Problem problem = chain(5, 8);
  Choices choices = pipeline(problem, 2, 1, 1, 1);
  Layout layout = uniformLayout(problem, 2, 1, Placement::Mirror,
                                evenPartition(problem.layerCount(), 1), 1);
  choices.updateOnHost.assign(5, 1);
  for (bool overlap : {false, true})
    for (Gather gather : {Gather::Each, Gather::One, Gather::Slices}) {
      choices.overlap = overlap;
      choices.gather.assign(5, gather);
      choices.loader.assign(5, 0);
      int before = 0;
      for (int rounds : {1, 2, 4}) {
        layout.rounds = rounds;
        choices.phases = phasesOf(problem, layout);
        choices.holdGradient.assign(5, 0);
        Plan plan = makePlan(problem, linked(2), choices);
        ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
        int loads = count(plan, EventKind::LoadTensor);
        EXPECT_GE(loads, before + (rounds - 1) * 5);
        before = loads;
        EXPECT_EQ(count(plan, EventKind::CopyTensor),
                  gather == Gather::Each ? 0 : loads);
        // Each part leaves for the host once a round, and comes back.
        EXPECT_EQ(count(plan, EventKind::StoreGradient), 2 * 5 * rounds);
        EXPECT_EQ(count(plan, EventKind::LoadGradient), 2 * 5 * (rounds - 1));

        choices.holdGradient.assign(5, 1);
        plan = makePlan(problem, linked(2), choices);
        ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
        EXPECT_EQ(count(plan, EventKind::StoreGradient), 2 * 5);
        EXPECT_EQ(count(plan, EventKind::LoadGradient), 0);
      }
    }
}

TEST(BuildGroups, OneOfTheGroupsLoadsForAll) {
  Problem problem = chain(3, 8);
  int64_t bytes = problem.tensors[0].bytes;
  Choices choices = pipeline(problem, 4, 1, 1, 1);
  for (bool overlap : {false, true}) {
    choices.overlap = overlap;
    choices.gather = {};
    Plan plan = makePlan(problem, linked(4), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
    // Forward and backward of layers 0 and 1, turn of layer 2; layer 1 stays.
    int loads = count(plan, EventKind::LoadTensor) / 4;
    EXPECT_EQ(loaded(plan, 4), std::vector<int64_t>(4, loads * bytes));

    choices.gather.assign(3, Gather::One);
    choices.loader = {2, 2, 0};
    plan = makePlan(problem, linked(4), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
    EXPECT_EQ(count(plan, EventKind::LoadTensor), loads);
    EXPECT_EQ(count(plan, EventKind::CopyTensor), 3 * loads);
    EXPECT_EQ(loaded(plan, 4),
              (std::vector<int64_t>{bytes, 0, (loads - 1) * bytes, 0}));

    choices.gather.assign(3, Gather::Slices);
    plan = makePlan(problem, linked(4), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
    EXPECT_EQ(loaded(plan, 4), std::vector<int64_t>(4, loads * bytes / 4));
    EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Peer)], 3 * loads * bytes);
    EXPECT_EQ(count(plan, EventKind::CopyTensor), 4 * 3 * loads);

    // Two slices of each: of tensors 0 and 2 those of groups 0 and 1, of tensor
    // 1 those of the others.
    choices.slices = 2;
    plan = makePlan(problem, linked(4), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
    EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Peer)], 3 * loads * bytes);
    EXPECT_EQ(count(plan, EventKind::LoadTensor), 2 * loads);
    EXPECT_EQ(count(plan, EventKind::CopyTensor), 2 * 3 * loads);
    std::vector<int64_t> halves = loaded(plan, 4);
    EXPECT_EQ(halves[0], halves[1]);
    EXPECT_EQ(halves[2], halves[3]);
    EXPECT_EQ(halves[0] + halves[2], loads * bytes / 2);
    EXPECT_GT(halves[2], 0);
    choices.slices = 4;
  }
}

TEST(BuildGroups, CopiesOfSlicesDoNotGrowWithTheSquareOfTheGroups) {
  Problem problem = chain(12, 1024);
  for (int groups : {8, 64, 256, 1024}) {
    Choices choices;
    dealLoads(problem,
              uniformLayout(problem, groups, 1, Placement::Ring, {3, 7, 11}, 1),
              choices);
    // Every one of the twelve is more than a group's share of its pack.
    ASSERT_EQ(choices.gather, std::vector<Gather>(12, Gather::Slices));
    int slices = std::min(choices.slices, groups);
    EXPECT_LE(int64_t(2) * 12 * groups * slices, 100'000);
    EXPECT_TRUE(groups > 64 || slices == groups) << groups;
  }
}

TEST(BuildGroups, WithoutALinkADeviceLoadsForItself) {
  Problem problem = chain(3, 8);
  Machine machine = linked(3);
  machine.links.erase(std::remove_if(machine.links.begin(), machine.links.end(),
                                     [](const Link &link) {
                                       return link.from == 1 && link.to == 2;
                                     }),
                      machine.links.end());
  Choices choices = pipeline(problem, 3, 1, 1, 1);
  for (Gather gather : {Gather::One, Gather::Slices}) {
    choices.gather.assign(3, gather);
    choices.loader.assign(3, 1);
    Plan plan = makePlan(problem, machine, choices);
    ASSERT_EQ(problemsOf(plan, problem, machine), "");
    std::vector<int64_t> bytes = loaded(plan, 3);
    EXPECT_EQ(bytes[0], 0);
    EXPECT_EQ(bytes[1], bytes[2]);
  }
}

TEST(BuildGroups, GatheringHoldsUpNoRing) {
  // Two groups of a ring of two devices.
  Problem problem = chain(4, 16);
  Choices choices = pipeline(problem, 2, 2, 1, 1);
  choices.overlap = true;
  choices.gather.assign(4, Gather::One);
  choices.loader.assign(4, 1);
  Plan plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  int ring = eventOf(plan, EventKind::CopyValue, 3);
  EXPECT_EQ(destination(plan, ring, Content::Value).slots, 2);
}

/// Four groups with packs of four layers, a tensor of each pack updated by each
/// group; gathered, with overlap.
class BuildFourGroups : public testing::Test {
protected:
  Problem problem = chain(12, 8);
  Machine four = linked(4);
  SearchOptions options;
  Filling filling{problem, four, options};

  Decisions decided() const {
    Decisions decisions = filling.base(
        uniformLayout(problem, 4, 1, Placement::Ring, {3, 7, 11}, 1),
        Updates::Device);
    decisions.choices.overlap = true;
    return decisions;
  }
};

TEST_F(BuildFourGroups, GatherWhileAllOfThemRunThePhaseBefore) {
  Plan plan = makePlan(problem, four, decided().choices);
  ASSERT_EQ(problemsOf(plan, problem, four), "");
  // F0, F1, T, B1, B0 of each; what F1 loads is there beside F0.
  for (int t = 4; t < 8; ++t)
    for (int device = 0; device < 4; ++device) {
      const Buffer *buffer = plan.find(Content::Tensor, t, -1, device,
                                       {runOf(plan, 4 + device), 0}, 0);
      ASSERT_TRUE(buffer);
      EXPECT_LT(buffer->first.event, runOf(plan, 0));
    }
}

TEST_F(BuildFourGroups, GiveGradientsWhileTheirDeviceRunsTheNextPhase) {
  Plan plan = makePlan(problem, four, decided().choices);
  ASSERT_EQ(problemsOf(plan, problem, four), "");
  // The gradients of T (phases 8 to 11) while B1 (12 to 15) runs.
  int copies = 0;
  for (const Event &event : plan.events)
    if (event.kind == EventKind::CopyGradient && event.object >= 8) {
      int from = event.source;
      const Buffer *part = plan.find(Content::Gradient, event.object, event.use,
                                     from, {runOf(plan, 8 + from), 0}, 0);
      ASSERT_TRUE(part);
      EXPECT_GE(part->last.event, runOf(plan, 12 + from));
      ++copies;
    }
  EXPECT_EQ(copies, 12);
}

TEST_F(BuildFourGroups, HaveOneThatHasTheMemoryOfAll) {
  for (int runs : {1, 4}) {
    Decisions decisions = decided();
    decisions.choices.runs = runs;
    ASSERT_TRUE(filling.oneGroupOf(4));
    std::vector<int64_t> bytes =
        liveBytes(build(problem, four, decisions.choices).plan);
    auto most =
        static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
    // Within a tenth of what the fullest device takes.
    EXPECT_FALSE(
        filling.fits(decisions, Limits(4, static_cast<int64_t>(0.9 * most))));
    EXPECT_TRUE(
        filling.fits(decisions, Limits(4, static_cast<int64_t>(1.1 * most))));
  }
}

} // namespace
