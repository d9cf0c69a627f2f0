//===- ExplainTest.cpp - What limits plans that can be worked out ---------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Explain.h"

#include "test/unit/planner/Devices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

double of(const DeviceTime &time, Activity activity) {
  return time.works[static_cast<int>(activity)];
}
double of(const DeviceTime &time, Lack lack) {
  return time.waits[static_cast<int>(lack)];
}
double of(const Explanation &explanation, Activity activity) {
  return explanation.critical[static_cast<int>(activity)];
}

TEST(Explain, ResidentTrainingIsComputing) {
  Problem problem = heavy(4);
  Choices choices = leastChoices(problem, 1, 2);
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  Explanation why =
      explain(makePlan(problem, choices), problem, machine(unlimited));
  EXPECT_NEAR(of(why.devices[0], Activity::Forward), 8, nothing);
  EXPECT_NEAR(of(why.devices[0], Activity::Backward), 16, nothing);
  EXPECT_NEAR(of(why, Activity::Forward), 8, nothing);
  EXPECT_NEAR(of(why, Activity::Backward), 16, nothing);
}

TEST(Explain, AGapIsWhatItWaitedFor) {
  // As Simulate.OverlapHidesLoads: W0's gradient leaves for 1 s, is applied on
  // the host at no cost, and W0 comes again in 1 s.
  Problem problem = heavy(4);
  Choices choices = leastChoices(problem, 1);
  choices.overlap = true;
  choices.slots = 2;
  choices.pinned.assign(2, 1);
  Explanation why =
      explain(makePlan(problem, choices), problem, machine(unlimited));
  const DeviceTime &time = why.devices[0];
  EXPECT_NEAR(why.period, 26, nothing);
  EXPECT_NEAR(of(time, Lack::Store), 1, nothing);
  EXPECT_NEAR(of(time, Lack::Load), 1, nothing);
  EXPECT_NEAR(of(time, Lack::Room), 0, nothing);
  EXPECT_NEAR(of(why, Activity::SwapIn), 1, nothing);
  EXPECT_NEAR(of(why, Activity::SwapOut), 1, nothing);
  // Two weights in, two gradients out, 26 s.
  ASSERT_EQ(why.carriers.size(), 2U);
  EXPECT_NEAR(why.carriers[0].share, 2.0 / 26, 1e-6);
}

TEST(Explain, UpdatesOnTheHostAreNamed) {
  Problem problem = heavy(4);
  problem.hostUpdate = {3, 0};
  Choices choices = leastChoices(problem, 1);
  choices.overlap = true;
  choices.slots = 2;
  choices.pinned.assign(2, 1);
  choices.updateOnHost.assign(2, 1);
  Explanation why =
      explain(makePlan(problem, choices), problem, machine(unlimited));
  EXPECT_NEAR(of(why.devices[0], Lack::Host), 3, nothing);
  EXPECT_NEAR(of(why, Activity::Update), 3, nothing);
}

TEST(Explain, LoadsThatWaitForMemoryAreNamed) {
  // All live ranges take the same addresses: W1 is loaded when F0 has run,
  // although the link was idle meanwhile.
  Problem problem = heavy(4);
  Explanation why = explain(makePlan(problem, leastChoices(problem, 1)),
                            problem, machine(unlimited));
  EXPECT_GT(of(why.devices[0], Lack::Room), 1 - nothing);
  EXPECT_GT(why.criticalRoom, 1 - nothing);
}

TEST(Explain, PipelinesHaveBubbles) {
  // Both devices have half the layers of one microbatch: one works while the
  // other waits.
  Problem problem = heavy(1);
  Machine machine = machines(2, unlimited);
  Choices choices = leastChoices(problem, 1);
  for (PhaseChoice &phase : choices.phases)
    phase.device = phase.firstLayer;
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  choices.stateResident.assign(2, 1);
  choices.place.assign(problem.values.size(), Place::Adjacent);
  choices.gradientPlace.assign(problem.values.size(), Place::Adjacent);
  Explanation why =
      explain(makePlan(problem, machine, choices), problem, machine);
  EXPECT_NEAR(of(why.devices[0], Lack::Devices), 3, 0.1);
  EXPECT_NEAR(of(why.devices[1], Lack::Devices), 3, 0.1);
}

/// What a device does and waits for is the whole iteration, and so is the
/// critical path.
TEST(Explain, NothingIsLeftOut) {
  std::mt19937 generator(31);
  double unknown = 0, periods = 0;
  for (int round = 0; round < 80; ++round) {
    int devices = 1 + round % 4;
    Problem problem = randomSizes(generator);
    Machine machine = randomMachine(devices, generator);
    Plan plan =
        makePlan(problem, machine, randomChoices(problem, machine, generator));
    Explanation why = explain(plan, problem, machine);
    for (int d = 0; d < devices; ++d) {
      const DeviceTime &time = why.devices[d];
      double sum = std::accumulate(time.works.begin(), time.works.end(), 0.0) +
                   std::accumulate(time.waits.begin(), time.waits.end(), 0.0) +
                   time.unknown;
      bool computes = std::any_of(
          plan.events.begin(), plan.events.end(), [&](const Event &event) {
            return event.device == d &&
                   plan.queues[event.queue].kind == QueueKind::Compute;
          });
      // Executions that are not equal yet leave gaps or overlap.
      if (computes) {
        EXPECT_NEAR(sum, why.period, 0.05 * why.period);
      }
      for (double seconds : time.waits)
        EXPECT_GE(seconds, -1e-9 * why.period);
      unknown += time.unknown;
      periods += why.period;
    }
    double path =
        std::accumulate(why.critical.begin(), why.critical.end(), 0.0) +
        why.criticalUnknown;
    EXPECT_NEAR(path, why.period, 1e-6 * why.period);
    EXPECT_LE(why.criticalRoom, why.period);
    unknown += why.criticalUnknown;
  }
  EXPECT_LT(unknown, 0.02 * periods);
}

TEST(Explain, OtherMachinesAreTried) {
  Machine machine = machines(2, int64_t(16) << 30);
  machine.resources.push_back({"port", 1.5e9});
  for (Link &link : machine.links)
    if (link.from == hostEndpoint)
      link.shares = {0};
  std::vector<Machine> tried;
  std::vector<WhatIf> found =
      whatIfs(machine, nullptr, [&](const Machine &changed) {
        changed.check();
        tried.push_back(changed);
        return std::optional<Planned>();
      });
  ASSERT_EQ(tried.size(), 4U);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(tried[0].devices[1].capacity, int64_t(17) << 30);
  EXPECT_EQ(tried[1].link(hostEndpoint, 0).bytesPerSecond, 2e9);
  EXPECT_EQ(tried[1].link(0, 1).bytesPerSecond, 4e9);
  EXPECT_EQ(tried[1].resources[0].bytesPerSecond, 3e9);
  EXPECT_EQ(tried[2].link(hostEndpoint, 0).bytesPerSecond, 1e9);
  EXPECT_EQ(tried[2].link(1, 0).bytesPerSecond, 8e9);
  EXPECT_EQ(tried[2].resources[0].bytesPerSecond, 1.5e9);
  EXPECT_EQ(tried[3].devices.size(), 3U);
  EXPECT_EQ(tried[3].link(hostEndpoint, 2).shares, std::vector<int>{0});
  for (auto [from, to] : {std::pair(0, 2), {1, 2}, {2, 0}, {2, 1}})
    EXPECT_EQ(tried[3].link(from, to).bytesPerSecond, 4e9);

  machine.devices[0].capacity = machine.devices[1].capacity = 1000;
  tried.clear();
  Machine more = machines(3, 7);
  whatIfs(machine, &more, [&](const Machine &changed) {
    tried.push_back(changed);
    return std::optional<Planned>();
  });
  EXPECT_EQ(tried[0].devices[0].capacity, 1100);
  EXPECT_EQ(tried[3].devices[2].capacity, 7);
}

/// What the last device's links alone share is its own: its copy has another.
TEST(Explain, OneMoreDeviceHasPortsOfItsOwn) {
  Machine machine = *Machine::named("8xh100-80g");
  size_t resources = machine.resources.size();
  Machine wider;
  whatIfs(machine, nullptr, [&](const Machine &changed) {
    wider = changed;
    return std::optional<Planned>();
  });
  wider.check();
  ASSERT_EQ(wider.devices.size(), 9U);
  // It sends by one, receives by the other, and shares the host's.
  ASSERT_EQ(wider.resources.size(), resources + 2);
  auto shares = [&](int from, int to) {
    const std::vector<int> &list = wider.link(from, to).shares;
    return std::set<int>(list.begin(), list.end());
  };
  std::set<int> out = shares(8, 0), in = shares(0, 8);
  int sends = -1, receives = -1;
  for (int share : out)
    if (share >= static_cast<int>(resources))
      sends = share;
  for (int share : in)
    if (share >= static_cast<int>(resources))
      receives = share;
  EXPECT_NE(sends, receives);
  for (int other = 0; other < 8; ++other) {
    int othersPort = 2 + 2 * other;
    EXPECT_EQ(shares(8, other), (std::set<int>{sends, othersPort + 1}));
    EXPECT_EQ(shares(other, 8), (std::set<int>{othersPort, receives}));
  }
  EXPECT_EQ(shares(hostEndpoint, 8), shares(hostEndpoint, 0));
  EXPECT_EQ(shares(8, hostEndpoint), shares(0, hostEndpoint));
}

/// The fastest form's row says what the plan has, where that is the plan: all
/// sizes of its packs, and in both directions the packs of the turn.
TEST(Explain, FormsHaveTheSizesAndPacksOfTheirPlans) {
  int compared = 0, several = 0;
  for (int devices : {1, 2})
    for (double factor : {1.0, 1.3, 1.7, 2.5, 4.0, 8.0}) {
      Problem problem =
          splitFor(sliceable(transformer(4, 8, 32, 16, 64)), devices);
      problem.link();
      int64_t least = minDeviceBytes(problem, machines(devices, unlimited), {});
      Planned planned =
          solvedOn(problem, machines(devices, times(least, factor)), {});
      auto form = std::find_if(
          planned.runnersUp.begin(), planned.runnersUp.end(),
          [&](const RunnerUp &other) { return other.form == planned.form; });
      ASSERT_NE(form, planned.runnersUp.end());
      if (form->swapBytes != swaps(planned.plan) ||
          std::abs(form->seconds - planned.plan.seconds) >
              1e-3 * planned.plan.seconds)
        continue; // the one that swaps less was taken
      std::set<int64_t, std::greater<>> sizes;
      std::set<int> forward, backward; // first layers
      for (const Phase &phase : planned.plan.phases) {
        sizes.insert(phase.microbatch);
        if (phase.kind != PhaseKind::Backward)
          forward.insert(phase.firstLayer);
        if (phase.kind != PhaseKind::Forward)
          backward.insert(phase.firstLayer);
      }
      EXPECT_EQ(form->microbatches,
                std::vector<int64_t>(sizes.begin(), sizes.end()));
      EXPECT_EQ(form->forwardPacks, static_cast<int>(forward.size()));
      EXPECT_EQ(form->backwardPacks, static_cast<int>(backward.size()));
      ++compared;
      several += sizes.size() > 1;
    }
  EXPECT_GE(compared, 4);
  EXPECT_GE(several, 1);
}

TEST(Explain, IsSaidInWords) {
  Problem problem = heavy(4);
  Planned planned;
  planned.plan = makePlan(problem, leastChoices(problem, 1));
  planned.boundSeconds = 20;
  planned.runnersUp = {{"one", {1}, 1, 1, 30, 0, 64},
                       {"other", {2, 1}, 2, 3, 60, 1 << 20, 64}};
  std::string text =
      describe(explain(planned.plan, problem, machine(unlimited)), planned);
  EXPECT_EQ(text.rfind("limited by computing", 0), 0U) << text;
  for (const char *part :
       {"critical path: ", "waits: room to load", "bandwidth in use: ",
        "no plan is faster than 20.000 s; this one takes 1.",
        "  other                   2 and 1        2 / 3   60.000 s        200 "
        "% "
        " 1.00 MiB  64 B\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  std::vector<WhatIf> others(2);
  others[0] = {"twice", planned};
  others[0].planned->plan.seconds /= 2;
  others[1].change = "none";
  text = describe(others, planned);
  EXPECT_NE(text.find("50 %"), std::string::npos) << text;
  EXPECT_NE(text.find("no plan fits"), std::string::npos) << text;
}

} // namespace
