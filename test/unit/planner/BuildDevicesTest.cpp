//===- BuildDevicesTest.cpp - Plans of several devices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/DevicePlans.h"

#include <set>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

TEST(BuildDevices, CopiesGoIntoRingsWhereTheReceiverIsFree) {
  // F0 on device 0, F1 on 1, F2 on 0, T on 1, B2 on 0, B1 on 1, B0 on 0.
  Problem problem = chain(4, 8);
  Choices choices = pipeline(problem, 1, 2, 1, 1);
  Plan plan = makePlan(problem, linked(2), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
  // The output of layer 0: device 1 has nothing before it. Layer 1 reads it
  // forward, and its backward again, so that all microbatches stay.
  int first = eventOf(plan, EventKind::CopyValue, 1);
  ASSERT_GE(first, 0);
  EXPECT_EQ(plan.events[first].source, 0);
  EXPECT_EQ(plan.events[first].device, 1);
  EXPECT_EQ(destination(plan, first, Content::Value).slots, 8);
  EXPECT_EQ(plan.queues[plan.events[first].queue].kind, QueueKind::Peer);
  EXPECT_EQ(plan.queues[plan.events[first].queue].device, 0);
  // The output of layer 2 is read by the turn alone: a ring, since device 1 is
  // idle but for layer 1, which is over when layer 2 begins. But layer 2 itself
  // begins only when layer 0 is over, so that nothing holds layer 0 up.
  int ring = eventOf(plan, EventKind::CopyValue, 3);
  ASSERT_GE(ring, 0);
  EXPECT_EQ(destination(plan, ring, Content::Value).slots, 2);
  const Wait *wait = waitFor(plan, ring, runOf(plan, 3));
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->lag, 2);
  EXPECT_FALSE(wait->previousStep);
  // Its gradient goes back to device 0, which has to finish layer 2 first: were
  // that a ring too, the turn would wait for layer 2 and layer 2 for the turn.
  int back = eventOf(plan, EventKind::CopyValueGradient, 3);
  ASSERT_GE(back, 0);
  EXPECT_EQ(destination(plan, back, Content::ValueGradient).slots, 8);
  // Thus nothing holds the turn up, and layer 2 may wait for it to be over.
  int next = eventOf(plan, EventKind::CopyValueGradient, 2);
  ASSERT_GE(next, 0);
  EXPECT_EQ(destination(plan, next, Content::ValueGradient).slots, 2);
}

/// Updates on a device between two Runs of one phase there.
int updatesAmongRuns(const Plan &plan) {
  int found = 0;
  for (const std::vector<QueueLoop> &loops : queueLoops(plan))
    for (size_t i = 1; i + 1 < loops.size(); ++i) {
      auto eventAt = [&](size_t at) -> const Event & {
        return plan.events[loops[at].events.front()];
      };
      size_t behind = i + 1;
      while (behind < loops.size() && eventAt(behind).phase < 0)
        ++behind;
      size_t before = i;
      while (before > 0 && eventAt(before).phase < 0)
        --before;
      found += eventAt(i).kind == EventKind::Update && behind < loops.size() &&
               eventAt(before).phase >= 0 &&
               eventAt(before).phase == eventAt(behind).phase;
    }
  return found;
}

TEST(BuildDevices, UpdatesStandAmongTheRunsOfOneMicrobatch) {
  auto among = [](int64_t batch, int groups, int runs, bool overlap = true) {
    Problem problem = chain(9, batch);
    Choices choices = pipeline(problem, groups, 1, 3, 1);
    choices.stay = true;
    choices.overlap = overlap;
    choices.updateOnHost.assign(problem.tensors.size(), 0);
    choices.runs = runs;
    Plan plan = makePlan(problem, linked(groups), choices);
    EXPECT_EQ(problemsOf(plan, problem, linked(groups)), "");
    return updatesAmongRuns(plan);
  };
  // Alone, a gradient is complete behind its own Run, but for the last of each
  // of the three packs. Of several groups gradients come from elsewhere while
  // another Run goes on: one is added up among the Runs, one behind the last of
  // them, and one in the phase behind, of which there is one less.
  EXPECT_EQ(among(1, 1, 8), 6);
  EXPECT_EQ(among(2, 2, 8), 5);
  EXPECT_EQ(among(2, 2, 8, /*overlap=*/false), 3);
  EXPECT_EQ(among(2, 2, 1), 0);
  // A loop has all of its Runs before it is left.
  EXPECT_EQ(among(4, 2, 8), 0);
}

TEST(BuildDevices, GradientsForTheHostLeaveBehindTheRunThatCompletesThem) {
  // Of one microbatch; a loop has to be left before.
  for (int64_t batch : {2, 4}) {
    Problem problem = chain(9, batch);
    Choices choices = pipeline(problem, 2, 1, 9, 1);
    choices.stay = choices.overlap = true;
    choices.updateOnHost.assign(problem.tensors.size(), 1);
    choices.runs = 18;
    Plan plan = makePlan(problem, linked(2), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
    int last = eventOf(plan, EventKind::StoreGradient, 8);
    ASSERT_GE(last, 0);
    EXPECT_EQ(last < runOf(plan, 0), batch == 2);
  }
}

TEST(BuildDevices, NoRingHoldsUpWhatAnUpdateWaitsFor) {
  // Two packs back and forth between devices 0 and 1; the last but one backward
  // pack (device 0) hands its gradient to the next (device 1).
  Problem problem = chain(5, 8);
  auto slots = [](const Problem &problem) {
    Choices choices = pipeline(problem, 1, 2, 1, 1);
    choices.phases.clear();
    auto add = [&](int device, PhaseKind kind, int first, int last) {
      choices.phases.push_back({device, 0, kind, first, last, 1, 0, 8});
    };
    add(0, PhaseKind::Forward, 0, 1);
    add(1, PhaseKind::Forward, 2, 2);
    add(0, PhaseKind::Forward, 3, 3);
    add(1, PhaseKind::Turn, 4, 4);
    add(0, PhaseKind::Backward, 2, 3);
    add(1, PhaseKind::Backward, 1, 1);
    add(0, PhaseKind::Backward, 0, 0);
    choices.updateOnHost.assign(problem.tensors.size(), 0);
    choices.holdGradient.assign(problem.tensors.size(), 1);
    Plan plan = makePlan(problem, linked(2), choices);
    EXPECT_EQ(problemsOf(plan, problem, linked(2)), "");
    return destination(plan, eventOf(plan, EventKind::CopyValueGradient, 2),
                       Content::ValueGradient)
        .slots;
  };
  EXPECT_EQ(slots(problem), 2);
  // A weight of layers 3 and 4 is updated on device 0. The part of layer 4
  // leaves device 1 when the pack of layer 3 is over; the next pack on device 1
  // may need its room.
  int tied = static_cast<int>(problem.tensors.size());
  problem.tensors.push_back(
      {"tied", 4096, true, 4096, 0, UpdatePlace::Any, -1, {}});
  for (int layer : {3, 4})
    problem.layers[layer].tensors.push_back({tied, true, true, false});
  problem.link();
  EXPECT_EQ(slots(problem), 8);
}

TEST(BuildDevices, WithoutPeersAllGoesThroughTheHost) {
  Problem problem = chain(4, 8);
  Choices choices = pipeline(problem, 1, 2, 1, 2);
  Machine apart = Machine::uniform("test", 2, unlimited, 1e9, 0);
  for (bool peers : {true, false}) {
    choices.peers = peers;
    const Machine &machine = peers ? apart : linked(2);
    Plan plan = makePlan(problem, machine, choices);
    EXPECT_EQ(problemsOf(plan, problem, machine), "");
    EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Peer)], 0);
    for (const Queue &queue : plan.queues)
      EXPECT_NE(queue.kind, QueueKind::Peer);
  }
}

TEST(BuildDevices, RecomputesBeforeTheGradientIsThere) {
  Problem problem = chain(4, 8);
  Plan plan = makePlan(problem, linked(2), pipeline(problem, 1, 2, 1, 1));
  int split = 0;
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
    const Event &event = plan.events[e];
    if (event.kind != EventKind::Run || event.firstStep == 0)
      continue;
    ++split;
    const Event *first = &plan.events[e];
    while (first->kind != EventKind::Run || first->firstStep > 0)
      --first;
    EXPECT_EQ(first->phase, event.phase);
    EXPECT_EQ(first->endStep, event.firstStep);
    // What is recomputed does not wait for gradients.
    for (const Wait &wait : first->waits)
      EXPECT_NE(plan.events[wait.event].kind, EventKind::CopyValueGradient);
    bool waits = false;
    for (const Wait &wait : event.waits)
      waits |= plan.events[wait.event].kind == EventKind::CopyValueGradient &&
               wait.lag == 0;
    EXPECT_TRUE(waits);
  }
  EXPECT_EQ(split, 3);
}

TEST(BuildDevices, PhasesOfDifferentSizesWaitByMicrobatches) {
  Problem problem = chain(3, 8);
  for (Value &value : problem.values)
    value.sliceable = true;
  for (auto [forward, backward] : {std::pair(4, 2), std::pair(2, 4)}) {
    Layout layout = uniformLayout(problem, 1, 2, Placement::Ring, {0, 1, 2}, 1);
    layout.forwardMicrobatch = forward;
    layout.backwardMicrobatch = backward;
    Choices choices = pipeline(problem, 1, 2, 1, 1);
    choices.phases = phasesOf(problem, layout);
    Plan plan = makePlan(problem, linked(2), choices);
    ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
    // The turn (device 0) loads what the last forward pack (device 1) stores.
    int store = eventOf(plan, EventKind::StoreValue, 2);
    int load = eventOf(plan, EventKind::LoadValue, 2);
    ASSERT_GE(store, 0);
    ASSERT_GE(load, 0);
    const Wait *wait = waitFor(plan, load, store);
    ASSERT_TRUE(wait);
    EXPECT_EQ(wait->lag, 0);
    EXPECT_EQ(wait->times, backward > forward ? 2 : 1);
    EXPECT_EQ(wait->every, backward < forward ? 2 : 1);
  }
}

TEST(BuildDevices, WhatCannotBeSlicedIsRefused) {
  Problem problem = chain(3, 8);
  Layout layout = uniformLayout(problem, 1, 2, Placement::Ring, {0, 1, 2}, 1);
  layout.forwardMicrobatch = 4;
  layout.backwardMicrobatch = 2;
  Choices choices = pipeline(problem, 1, 2, 1, 1);
  choices.phases = phasesOf(problem, layout);
  try {
    makePlan(problem, linked(2), choices);
    FAIL() << "a plan was made";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("'layer0.out' cannot be sliced"),
              std::string::npos)
        << error.what();
  }
}

TEST(BuildDevices, WhatTheSizeLeavesOfAShareIsAPhaseOfItsOwn) {
  // Shares of 3 and 2 samples, microbatches of 2: 2 + 1 and 2.
  Problem problem = chain(2, 5);
  for (Function &function : problem.functions)
    function.costs.insert(function.costs.begin() + 1,
                          {2, 1e-6, 2e-6, 2048, 512, 512});
  problem.microbatches.insert(problem.microbatches.begin() + 1, 2);
  Choices choices = pipeline(problem, 2, 1, 1, 2);
  Plan plan = makePlan(problem, linked(2), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
  ASSERT_EQ(plan.phases.size(), 9u);
  EXPECT_EQ(plan.phases[0].trips, 1);
  EXPECT_EQ(plan.phases[1].microbatch, 1);
  EXPECT_EQ(plan.phases[1].firstSample, 2);
  EXPECT_EQ(plan.phases[1].firstMicrobatch, 1);
  EXPECT_EQ(plan.phases[2].group, 1);
  EXPECT_EQ(plan.phases[2].firstMicrobatch, 2);
  // A group's part is zeroed once, and added to by both of its phases.
  EXPECT_EQ(count(plan, EventKind::ZeroGradient), 4);
  EXPECT_EQ(count(plan, EventKind::Update), 2);
}

TEST(BuildDevices, PacksOfATurnGoForwardAndBackwardInTurn) {
  // Three packs on three devices, all in the turn; five microbatches.
  Problem problem = chain(3, 5);
  Layout layout = uniformLayout(problem, 1, 3, Placement::Ring, {0, 1, 2}, 1);
  layout = withTurnOf(3, std::move(layout));
  layout.keep = keepAll(problem, 0, 2);
  Choices choices = pipeline(problem, 1, 3, 1, 1);
  choices.phases = phasesOf(problem, layout);
  choices.overlap = true;
  Plan plan = makePlan(problem, linked(3), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(3)), "");
  auto order = [&](int device) {
    std::string text;
    for (const Phase &phase : plan.phases)
      if (phase.device == device)
        text += name(phase.kind) + std::to_string(phase.firstSample) + " ";
    return text;
  };
  EXPECT_EQ(order(0), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 ");
  EXPECT_EQ(order(1), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4 ");
  EXPECT_EQ(order(2), "T0 T1 T2 T3 T4 ");
  // A tensor comes once and stays, gradients are added up and stay.
  EXPECT_EQ(count(plan, EventKind::LoadTensor), 3);
  EXPECT_EQ(count(plan, EventKind::ZeroGradient), 3);
  EXPECT_EQ(count(plan, EventKind::StoreGradient), 3);
  // Nothing is made again, and of what is kept no more than three microbatches
  // are there at once.
  for (const Phase &phase : plan.phases)
    for (const Step &step : phase.steps)
      EXPECT_NE(step.kind, StepKind::Recompute);
  int64_t saved = 0;
  for (const Buffer &buffer : plan.buffers)
    if (buffer.content == Content::Saved && buffer.device == 0)
      saved = std::max(saved, buffer.end());
  EXPECT_LE(saved, plan.peakBytes[0]);
  // All go through at the pace of one device.
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapOut)],
            3 * problem.tensors[0].gradientBytes);
}

/// A pack of a turn keeps levels of what it has under way, and makes the rest
/// again; it is freed once.
TEST(BuildDevices, PacksOfATurnKeepLevels) {
  Problem problem = chain(6, 5);
  Layout layout = withTurnOf(
      3, uniformLayout(problem, 1, 3, Placement::Mirror, {1, 3, 5}, 1));
  layout.keep = {1, 0, 0, 1, 1, 1};
  EXPECT_EQ(layout.canKeep(), std::vector<char>(4, 1));
  Choices choices = pipeline(problem, 1, 3, 1, 1);
  choices.phases = phasesOf(problem, layout);
  Machine machine = linked(3);
  Plan plan = makePlan(problem, machine, choices);
  ASSERT_EQ(problemsOf(plan, problem, machine), "");
  std::vector<int> again(6, 0), kept(6, 0), freed(3, 0);
  for (const Phase &phase : plan.phases) {
    for (const Step &step : phase.steps)
      again[step.layer] += step.kind == StepKind::Recompute;
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
      kept[l] += phase.kind == PhaseKind::Backward && phase.level(l) > 0;
    freed[phase.device] += phase.frees;
  }
  EXPECT_EQ(again, (std::vector<int>{0, 5, 5, 0, 0, 0}));
  EXPECT_EQ(kept, (std::vector<int>{5, 0, 0, 5, 0, 0}));
  EXPECT_EQ(freed, (std::vector<int>{1, 1, 1}));
  double before = plan.computeSeconds;
  machine.phaseSeconds = 10;
  simulate(plan, problem, machine);
  EXPECT_NEAR(plan.computeSeconds - before, 10, 1e-6);
}

TEST(BuildDevices, TheNextPackIsLoadedWhenATurnBegins) {
  // Packs 2 and 3 in the turn, 0 and 1 before and behind it.
  Problem problem = chain(4, 4);
  Layout layout =
      uniformLayout(problem, 1, 2, Placement::Ring, {0, 1, 2, 3}, 1);
  layout = withTurnOf(2, std::move(layout));
  Choices choices = pipeline(problem, 1, 2, 1, 1);
  choices.phases = phasesOf(problem, layout);
  choices.overlap = true;
  Plan plan = makePlan(problem, linked(2), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
  // Behind the turn (layer 2 on device 0) comes layer 1: loaded before the
  // first microbatch of the turn.
  int load = eventOf(plan, EventKind::LoadTensor, 1, 1);
  ASSERT_GE(load, 0);
  EXPECT_EQ(plan.events[load].device, 0);
  int turn = -1;
  for (int p = static_cast<int>(plan.phases.size()) - 1; p >= 0; --p)
    if (plan.phases[p].device == 0 && plan.phases[p].firstLayer == 2)
      turn = p;
  EXPECT_LT(load, runOf(plan, turn));
}

TEST(BuildDevices, UpdatesOnTheHostHaveTheEngineOfTheirDevice) {
  // Layers on three devices, two engines.
  Problem problem = chain(6, 4);
  Choices choices = pipeline(problem, 1, 3, 1, 1);
  Machine machine = linked(3);
  for (int engines : {1, 2, 8}) {
    machine.hostQueues = engines;
    Plan plan = makePlan(problem, machine, choices);
    ASSERT_EQ(problemsOf(plan, problem, machine), "");
    std::set<int> lanes;
    for (const Event &event : plan.events)
      if (event.kind == EventKind::Update)
        lanes.insert(plan.queues[event.queue].lane);
    EXPECT_EQ(lanes.size(), static_cast<size_t>(std::min(engines, 3)));
  }
}

TEST(BuildDevices, ResidentCopiesAreRenewedFromTheOwner) {
  Problem problem = chain(2, 4);
  Choices choices = pipeline(problem, 4, 1, 2, 1);
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  choices.owner = {0, 3};
  Plan plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  EXPECT_EQ(plan.load.size(), 2 * 4 + 2u);
  EXPECT_EQ(plan.store.size(), 4u);
  for (const ResidentTransfer &transfer : plan.store)
    EXPECT_EQ(transfer.device, choices.owner[transfer.object]);
  EXPECT_EQ(count(plan, EventKind::CopyTensor), 6);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapIn)], 0);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapOut)], 0);

  choices.peers = false;
  plan = makePlan(problem, linked(4), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(4)), "");
  EXPECT_EQ(count(plan, EventKind::StoreTensor), 2);
  EXPECT_EQ(count(plan, EventKind::LoadTensor), 6);
}

TEST(BuildDevices, ContributionsComeBeforeTheEpilogueAndThatBeforeUpdates) {
  Problem problem = chain(3, 4);
  problem.epilogue = true;
  for (Tensor &tensor : problem.tensors) {
    tensor.contribution = static_cast<int>(problem.scalars.size());
    problem.scalars.push_back(
        {"square of " + tensor.name, 8, ScalarRole::Contribution, -1});
  }
  for (bool onHost : {true, false})
    for (bool hold : {true, false}) {
      Choices choices = pipeline(problem, 2, 1, 1, 1);
      choices.updateOnHost.assign(3, onHost);
      choices.holdGradient.assign(3, hold);
      Plan plan = makePlan(problem, linked(2), choices);
      ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
      EXPECT_EQ(plan.update, UpdateOrder::Deferred);
      int epilogue = eventOf(plan, EventKind::Epilogue, -1);
      for (int t = 0; t < 3; ++t) {
        EXPECT_LT(eventOf(plan, EventKind::Contribute, t), epilogue);
        EXPECT_GT(eventOf(plan, EventKind::Update, t), epilogue);
      }
      // Both need the parts of the other device; what is held is copied once,
      // to where it waits.
      EXPECT_EQ(count(plan, EventKind::CopyGradient), onHost ? 0 : 3);
      EXPECT_EQ(count(plan, EventKind::StoreGradient), !onHost && hold ? 0 : 6);
    }
}

TEST(BuildDevices, WhatForwardWritesIsHandedOnInTheOrderOfSamples) {
  Problem problem = chain(2, 4);
  int statistics = static_cast<int>(problem.tensors.size());
  problem.tensors.push_back(
      {"statistics", 64, false, 0, 0, UpdatePlace::Any, -1, {}});
  problem.layers[0].tensors.push_back({statistics, false, false, true});
  problem.link();
  Choices choices = pipeline(problem, 2, 1, 1, 1);
  choices.resident.assign(3, 1);
  Plan plan = makePlan(problem, linked(2), choices);
  ASSERT_EQ(problemsOf(plan, problem, linked(2)), "");
  int store = eventOf(plan, EventKind::StoreTensor, statistics);
  int load = eventOf(plan, EventKind::LoadTensor, statistics, 1);
  EXPECT_EQ(plan.events[store].device, 0);
  EXPECT_EQ(plan.events[load].device, 1);
  EXPECT_TRUE(waitFor(plan, load, store));
}

TEST(BuildDevices, KeepingNeedsTheSameBackwardPhase) {
  Problem problem = chain(3, 4);
  Choices choices = pipeline(problem, 1, 2, 1, 1);
  PhaseChoice &phase = choices.phases[0];
  phase.keep = keepAll(problem, phase.firstLayer, phase.lastLayer);
  EXPECT_THROW(makePlan(problem, linked(2), choices), Error);
}

} // namespace
