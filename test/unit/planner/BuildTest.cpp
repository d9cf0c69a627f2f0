//===- BuildTest.cpp - Plans from choices ---------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/CountingSort.h"
#include "compiler/Planner/Json.h"
#include "test/unit/planner/Problems.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

std::string eventNames(const Plan &plan, const Problem &problem) {
  std::string text;
  for (const Event &event : plan.events) {
    text += name(event.kind);
    if (event.kind == EventKind::Run)
      text += std::string(" ") + name(plan.phases[event.phase].kind) +
              std::to_string(plan.phases[event.phase].firstLayer);
    else if (event.kind == EventKind::LoadValue ||
             event.kind == EventKind::StoreValue ||
             event.kind == EventKind::LoadValueGradient ||
             event.kind == EventKind::StoreValueGradient)
      text += " " + problem.values[event.object].name;
    else if (event.kind == EventKind::Prologue)
      ;
    else if (event.kind == EventKind::LoadScalar ||
             event.kind == EventKind::ZeroScalar ||
             event.kind == EventKind::StoreScalar)
      text += " " + problem.scalars[event.object].name;
    else
      text += " " + problem.tensors[event.object].name;
    text += "\n";
  }
  return text;
}

TEST(Build, SwapsAroundEveryPack) {
  // Two layers, a pack each, nothing stays: everything is loaded for each
  // phase.
  Problem problem = chain(2, 4);
  Plan plan = makePlan(problem, leastChoices(problem, 2));
  EXPECT_EQ(eventNames(plan, problem), "Prologue\n"
                                       "LoadScalar seed\n"
                                       "ZeroScalar loss\n"
                                       "LoadTensor layer0.weight\n"
                                       "LoadValue x\n"
                                       "Run F0\n"
                                       "StoreValue layer0.out\n"
                                       "LoadTensor layer1.weight\n"
                                       "ZeroGradient layer1.weight\n"
                                       "LoadValue layer0.out\n"
                                       "Run T1\n"
                                       "StoreValueGradient layer0.out\n"
                                       "StoreScalar loss\n"
                                       "StoreGradient layer1.weight\n"
                                       "Update layer1.weight\n"
                                       "LoadTensor layer0.weight\n"
                                       "ZeroGradient layer0.weight\n"
                                       "LoadValue x\n"
                                       "LoadValueGradient layer0.out\n"
                                       "Run B0\n"
                                       "StoreGradient layer0.weight\n"
                                       "Update layer0.weight\n");
  EXPECT_EQ(problemsOf(plan, problem), "");
  // In: three weights of 4096, the cut (4 samples of 512) and its gradient.
  // Out: two gradients, the cut and its gradient. Input: x twice.
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapIn)],
            3 * 4096 + 2 * 2048);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapOut)],
            2 * 4096 + 2 * 2048);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Input)], 2 * 2048 + 4);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Output)], 8);
}

TEST(Build, OnePackResidentMovesInputsAlone) {
  Problem problem = chain(4, 4);
  Choices choices = leastChoices(problem, 2, 4);
  choices.updateOnHost.assign(problem.tensors.size(), 0);
  choices.resident.assign(problem.tensors.size(), 1);
  choices.stateResident = choices.resident;
  Plan plan = makePlan(problem, choices);
  EXPECT_EQ(problemsOf(plan, problem), "");
  EXPECT_EQ(plan.phases.size(), 1u);
  EXPECT_EQ(plan.phases[0].kind, PhaseKind::Turn);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapIn)], 0);
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::SwapOut)], 0);
  EXPECT_EQ(plan.load.size(), 8u); // four weights, four states
  EXPECT_EQ(plan.store.size(), 8u);
}

TEST(Build, RecomputesOnlyWhatBackwardNeeds) {
  // No saved blocks: a single layer's backward reads its input and weight
  // alone.
  Problem problem = mlp({8, 8, 8, 4}, 2);
  Plan plan = makePlan(problem, leastChoices(problem, 1));
  for (const Phase &phase : plan.phases) {
    if (phase.kind == PhaseKind::Backward) {
      EXPECT_EQ(phase.steps.size(), 1u);
    }
  }
  // Two layers in a pack: the first is made again, since the second reads its
  // output; the second is not.
  plan = makePlan(problem, leastChoices(problem, 1, 2));
  ASSERT_EQ(plan.phases.size(), 3u);
  ASSERT_EQ(plan.phases[2].steps.size(), 3u);
  EXPECT_EQ(plan.phases[2].steps[0].kind, StepKind::Recompute);
  EXPECT_EQ(plan.phases[2].steps[0].layer, 0);
  EXPECT_EQ(problemsOf(plan, problem), "");
}

TEST(Build, PrefetchComesOnePhaseAhead) {
  Problem problem = chain(4, 4);
  Choices choices = leastChoices(problem, 2);
  choices.overlap = true;
  choices.slots = 2;
  Plan plan = makePlan(problem, choices);
  EXPECT_EQ(problemsOf(plan, problem), "");
  // Before the Run of layer 0: the weights of layers 0 and 1.
  std::string names = eventNames(plan, problem);
  EXPECT_LT(names.find("LoadTensor layer1.weight"), names.find("Run F0"));
  EXPECT_GT(names.find("LoadTensor layer2.weight"), names.find("Run F0"));
  EXPECT_LT(names.find("LoadTensor layer2.weight"), names.find("Run F1"));
  // The gradient of layer 3 leaves after the Run that follows.
  EXPECT_GT(names.find("StoreGradient layer3.weight"), names.find("Run B2"));
}

TEST(Build, TiedWeightIsUpdatedOnceAfterBothUses) {
  Problem problem = transformer(2, 2, 8, 4, 32);
  for (bool onHost : {true, false})
    for (UpdateOrder order : {UpdateOrder::JustInTime, UpdateOrder::Deferred}) {
      Choices choices = leastChoices(problem, 1);
      choices.updateOnHost.assign(problem.tensors.size(), onHost);
      choices.update = order;
      Plan plan = makePlan(problem, choices);
      EXPECT_EQ(problemsOf(plan, problem), "");
      int zeros = 0;
      for (const Event &event : plan.events)
        zeros += event.kind == EventKind::ZeroGradient && event.object == 0;
      EXPECT_EQ(zeros, 2);
    }
}

TEST(Build, ForwardOnlyDeliversOutputs) {
  Problem problem = evaluation(mlp({16, 8, 8, 4}, 4));
  Plan plan = makePlan(problem, leastChoices(problem, 2));
  EXPECT_EQ(problemsOf(plan, problem), "");
  EXPECT_EQ(plan.traffic[static_cast<int>(Traffic::Output)], 4 * 40 + 8);
  for (const Event &event : plan.events)
    EXPECT_NE(event.kind, EventKind::Update);
}

TEST(Build, RandomChoicesGiveValidPlans) {
  std::mt19937 generator(1);
  for (int round = 0; round < 1500; ++round) {
    Problem problem = random(generator);
    ASSERT_NO_THROW(problem.check()) << "round " << round;
    Choices choices = randomChoices(problem, generator);
    Plan plan = makePlan(problem, choices);
    ASSERT_EQ(problemsOf(plan, problem), "") << "round " << round;
    ASSERT_GE(plan.peakBytes[0], 0);
    ASSERT_GE(plan.seconds, 0);
    if (round % 3 == 0) {
      Problem forward = evaluation(problem);
      Choices forwardChoices = randomChoices(forward, generator);
      forwardChoices.resident.assign(forward.tensors.size(), 0);
      ASSERT_EQ(problemsOf(makePlan(forward, forwardChoices), forward), "")
          << "round " << round;
    }
  }
}

TEST(Build, RandomChoicesOnSeveralDevicesGiveValidPlans) {
  std::mt19937 generator(21);
  int copies = 0, splits = 0, divided = 0;
  for (int round = 0; round < 1500; ++round) {
    Problem problem = randomSizes(generator, round % 2 ? 0 : 24);
    ASSERT_NO_THROW(problem.check()) << "round " << round;
    Machine machine = randomMachine(1 + round % 8, generator);
    Choices choices = randomChoices(problem, machine, generator);
    Plan plan;
    ASSERT_NO_THROW(plan = makePlan(problem, machine, choices))
        << "round " << round;
    ASSERT_EQ(problemsOf(plan, problem, machine), "") << "round " << round;
    for (const Event &event : plan.events) {
      copies += event.kind == EventKind::CopyValue ||
                event.kind == EventKind::CopyValueGradient;
      splits += event.kind == EventKind::Run && event.firstStep > 0;
      for (const Wait &wait : event.waits)
        divided += wait.times > 1 || wait.every > 1;
    }
  }
  EXPECT_GT(copies, 1000);
  EXPECT_GT(splits, 100);
  EXPECT_GT(divided, 100);
}

/// Runs the queues by their timelines alone, as an engine does, in a given
/// order of preference; false on deadlock.
bool runsByTimelines(const Plan &plan, const std::vector<int> &preference) {
  std::vector<std::vector<QueueLoop>> loops = queueLoops(plan);
  Timelines lines = timelines(plan);
  struct Cursor {
    int64_t execution = 0, iteration = 0;
    size_t loop = 0, member = 0;
  };
  std::vector<Cursor> cursors(loops.size());
  std::vector<int64_t> reached(loops.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int q : preference) {
      Cursor &at = cursors[q];
      if (loops[q].empty() || at.execution == 3)
        continue;
      const QueueLoop &loop = loops[q][at.loop];
      int e = loop.events[at.member];
      bool ready = true;
      for (const Wait &wait : plan.events[e].waits) {
        TimelineWait line = timelineWait(plan, lines, wait);
        ready &= at.iteration < line.from ||
                 reached[line.queue] >=
                     at.execution * lines.period[line.queue] + line.base +
                         at.iteration / line.every * line.perIteration;
      }
      if (!ready)
        continue;
      const Signals &signals = lines.signals[e];
      EXPECT_EQ(++reached[q], at.execution * lines.period[q] + signals.start +
                                  at.iteration * signals.stride + 1);
      moved = true;
      if (++at.member < loop.events.size())
        break;
      at.member = 0;
      if (++at.iteration < loop.trips)
        break;
      at.iteration = 0;
      if (++at.loop < loops[q].size())
        break;
      at.loop = 0;
      ++at.execution;
      break;
    }
  }
  for (size_t q = 0; q < loops.size(); ++q)
    if (!loops[q].empty() && cursors[q].execution < 3)
      return false;
  return true;
}

TEST(Build, TimelinesNeverDeadlock) {
  std::mt19937 generator(9);
  for (int round = 0; round < 300; ++round) {
    Problem problem = randomSizes(generator);
    Machine machine = randomMachine(1 + round % 8, generator);
    Plan plan =
        makePlan(problem, machine, randomChoices(problem, machine, generator));
    std::vector<int> preference(plan.queues.size());
    std::iota(preference.begin(), preference.end(), 0);
    std::shuffle(preference.begin(), preference.end(), generator);
    ASSERT_TRUE(runsByTimelines(plan, preference)) << "round " << round;
  }
}

TEST(Build, CountingSortIsStable) {
  std::mt19937 generator(5);
  CountingSort<std::pair<int, int>> sort;
  for (int keys : {1, 3, 40, 2}) {
    std::vector<std::pair<int, int>> list; // key, place
    for (int i = 0; i < 100; ++i)
      list.push_back({static_cast<int>(generator() % keys), i});
    std::vector<std::pair<int, int>> expected = list;
    std::sort(expected.begin(), expected.end());
    sort(list, keys, [](const auto &element) { return element.first; });
    EXPECT_EQ(list, expected);
    for (int key = 0; key < keys; ++key)
      EXPECT_EQ(sort.end(key), std::count_if(list.begin(), list.end(),
                                             [&](const auto &element) {
                                               return element.first <= key;
                                             }));
  }
}

/// What is kept from one plan to the next leaves no trace in it, and the memory
/// that is found without making a plan is that of the plan.
TEST(Build, BuilderMakesWhatBuildMakes) {
  std::mt19937 generator(4);
  for (int round = 0; round < 100; ++round) {
    Problem problem = randomSizes(generator);
    Machine machine = randomMachine(1 + round % 8, generator);
    PlanBuilder builder(problem, machine);
    for (int plan = 0; plan < 4; ++plan) {
      Choices choices = randomChoices(problem, machine, generator);
      Draft once = build(problem, machine, choices);
      PlanBuilder::Peaks peaks = builder.peaks(choices);
      EXPECT_EQ(peaks.bytes, liveBytes(once.plan));
      EXPECT_EQ(peaks.events, static_cast<int64_t>(once.plan.events.size()));
      Draft &draft = builder.build(choices);
      for (Draft *each : {&once, &draft}) {
        allocate(each->plan);
        synchronize(*each);
      }
      ASSERT_EQ(toJson(draft.plan), toJson(once.plan)) << "round " << round;
    }
  }
}

TEST(Build, AddressesAreCloseToTheLiveBytes) {
  std::mt19937 generator(2);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    Problem problem = randomSizes(generator);
    Machine machine = randomMachine(1 + round % 4, generator);
    Plan plan =
        makePlan(problem, machine, randomChoices(problem, machine, generator));
    std::vector<int64_t> live = liveBytes(plan);
    ASSERT_EQ(live.size(), plan.peakBytes.size());
    for (size_t d = 0; d < live.size(); ++d)
      if (live[d] > 0)
        worst = std::max(worst, static_cast<double>(plan.peakBytes[d]) /
                                    static_cast<double>(live[d]));
  }
  EXPECT_LT(worst, 1.15);
}

} // namespace
