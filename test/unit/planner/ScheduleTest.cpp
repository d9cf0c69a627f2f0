//===- ScheduleTest.cpp - The search on several devices -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Devices.h"

#include "compiler/Planner/Layout.h"

#include <ctime>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

Planned test::solvedOn(const Problem &problem, const Machine &machine,
                       const SearchOptions &options) {
  Result result = solve(problem, machine, options);
  if (auto *infeasible = std::get_if<Infeasible>(&result)) {
    ADD_FAILURE() << problem.name << ": " << infeasible->message;
    return {};
  }
  Planned planned = std::get<Planned>(std::move(result));
  EXPECT_EQ(problemsOf(planned.plan, problem, machine), "")
      << problem.name << " on " << machine.devices.size() << ", "
      << kinds(planned.plan, problem);
  EXPECT_EQ(planned.plan.peakBytes.size(), machine.devices.size());
  return planned;
}

namespace {

const Schedule harmonyForms[] = {Schedule::Auto, Schedule::HarmonyPp,
                                 Schedule::HarmonyDp};

SearchOptions optionsOf(Schedule schedule) {
  SearchOptions options;
  options.schedule = schedule;
  return options;
}

std::vector<Problem> typical() {
  return {chain(12, 8), chain(6, 8, 256, 1 << 12),
          sliceable(mlp({64, 128, 128, 64, 10}, 32)),
          transformer(4, 8, 64, 32, 96)};
}

std::set<int> devicesOf(const Plan &plan) {
  std::set<int> devices;
  for (const Phase &phase : plan.phases)
    devices.insert(phase.device);
  return devices;
}

//===--- layouts ---===//

TEST(Layout, SharesDifferByOne) {
  EXPECT_EQ(sharesOf(8, 3), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(sharesOf(8, 8), std::vector<int64_t>(8, 1));
  EXPECT_EQ(sharesOf(5, 1), std::vector<int64_t>{5});
}

TEST(Layout, WhatRemainsOfAShareIsAPhaseOfItsOwn) {
  Problem problem = withSizes(chain(2, 8), {2, 3});
  Layout layout = uniformLayout(problem, 1, 2, Placement::Ring, {0, 1}, 3);
  std::vector<PhaseChoice> phases = phasesOf(problem, layout);
  ASSERT_EQ(phases.size(), 6u);
  for (size_t i = 0; i < 6; i += 2) {
    EXPECT_EQ(phases[i].microbatch, 3);
    EXPECT_EQ(phases[i].trips, 2);
    EXPECT_EQ(phases[i].firstSample, 0);
    EXPECT_EQ(phases[i + 1].microbatch, 2);
    EXPECT_EQ(phases[i + 1].trips, 1);
    EXPECT_EQ(phases[i + 1].firstSample, 6);
    EXPECT_EQ(phases[i + 1].device, phases[i].device);
  }
}

TEST(Layout, RoundsAreOfWholeMicrobatchesOfAllPacks) {
  Layout layout;
  layout.forwardMicrobatch = layout.backwardMicrobatch = 2;
  EXPECT_EQ(roundSamples(layout, 12), 12);
  for (auto [rounds, samples] :
       {std::pair(2, 6), {3, 4}, {4, 4}, {6, 2}, {100, 2}}) {
    layout.rounds = rounds;
    EXPECT_EQ(roundSamples(layout, 12), samples) << rounds;
  }
  // What the last microbatch lacks.
  layout.rounds = 2;
  EXPECT_EQ(roundSamples(layout, 7), 4);
  // Sizes of both directions, and of packs.
  layout.forwardMicrobatch = 3;
  EXPECT_EQ(roundSamples(layout, 12), 6);
  EXPECT_EQ(roundSamples(layout, 5), 5);
  layout.forwardSizes = {4, 2};
  layout.backwardSizes = {2, 2};
  EXPECT_EQ(roundSamples(layout, 16), 8);
  layout.turnPacks = 2;
  EXPECT_EQ(roundSamples(layout, 16), 16);
}

TEST(Layout, RoundsGoThroughAllPacks) {
  Problem problem = withSizes(chain(3, 14), {1, 2});
  Layout layout = uniformLayout(problem, 2, 1, Placement::Mirror, {0, 1, 2}, 2);
  layout.rounds = 2;
  std::vector<std::tuple<PhaseKind, int, int64_t, int64_t>> found;
  for (const PhaseChoice &phase : phasesOf(problem, layout))
    if (phase.group == 1)
      found.push_back({phase.kind, phase.lastLayer, phase.firstSample,
                       phase.trips * phase.microbatch});
  std::vector<std::tuple<PhaseKind, int, int64_t, int64_t>> expected;
  // Seven samples of the second group: four, and then two and one.
  for (std::vector<std::pair<int64_t, int64_t>> parts :
       {std::vector<std::pair<int64_t, int64_t>>{{7, 4}}, {{11, 2}, {13, 1}}})
    for (auto [kind, layer] : {std::pair(PhaseKind::Forward, 0),
                               {PhaseKind::Forward, 1},
                               {PhaseKind::Turn, 2},
                               {PhaseKind::Backward, 1},
                               {PhaseKind::Backward, 0}})
      for (auto [sample, samples] : parts)
        expected.push_back({kind, layer, sample, samples});
  EXPECT_EQ(found, expected);
}

/// Links so slow that tensors had better stay, and room for the saved blocks of
/// some microbatches.
TEST(Schedule, PacksGoForwardAndBackwardInTurnWhereThatKeepsMore) {
  constexpr int devices = 2;
  Problem problem = splitFor(transformer(8, 16, 32, 64, 64), devices);
  Machine machine = Machine::uniform("test", devices, unlimited, 1e6, 1e-6);
  machine.links.push_back({0, 1, 1e8, 1e-6, {}});
  machine.links.push_back({1, 0, 1e8, 1e-6, {}});
  auto solvedWith = [&](int64_t capacity) {
    for (Device &device : machine.devices)
      device.capacity = capacity;
    return solvedOn(problem, machine, {});
  };
  std::vector<int64_t> peaks = solvedWith(unlimited).plan.peakBytes;
  int64_t most = *std::max_element(peaks.begin(), peaks.end());
  Planned planned = solvedWith(times(most, 0.3));
  EXPECT_EQ(turnPacksOf(planned.plan), devices);
  EXPECT_EQ(planned.form, "1 group of 2 devices, mirror, 1F1B turn of 2 packs");
  for (const RunnerUp &other : planned.runnersUp)
    if (other.form != planned.form) {
      EXPECT_GT(other.seconds, 2 * planned.plan.seconds) << other.form;
    }
}

/// What groups find behind slow links is slow, and takes long to be tried: it
/// leaves the other forms their effort.
TEST(Schedule, SlowGroupsLeaveEffortForPipelines) {
  constexpr int devices = 4;
  Problem problem = splitFor(transformer(48, 16, 64, 64, 64), devices);
  Machine machine = Machine::uniform("test", devices, unlimited, 2e7, 1e-5);
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to)
        machine.links.push_back({from, to, 1e7, 1e-5, {}});
  int64_t state = problem.trainingStateBytes() / devices;
  for (double part : {0.7, 0.9, 1.1}) {
    for (Device &device : machine.devices)
      device.capacity = times(state, part);
    double best = solvedOn(problem, machine, {}).plan.seconds;
    double piped =
        solvedOn(problem, machine, optionsOf(Schedule::HarmonyPp)).plan.seconds;
    EXPECT_LE(best, 1.02 * piped) << part << " of the training state";
  }
}

TEST(Layout, RingContinuesAndMirrorReturns) {
  Problem problem = chain(6, 4);
  std::vector<int> ends = {0, 1, 2, 3, 4, 5};
  Layout ring = uniformLayout(problem, 1, 4, Placement::Ring, ends, 1);
  Layout mirror = uniformLayout(problem, 1, 4, Placement::Mirror, ends, 1);
  std::vector<int> ringDevices, mirrorDevices;
  for (const PhaseChoice &phase : phasesOf(problem, ring))
    ringDevices.push_back(phase.device);
  for (const PhaseChoice &phase : phasesOf(problem, mirror))
    mirrorDevices.push_back(phase.device);
  EXPECT_EQ(ringDevices, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(mirrorDevices, (std::vector<int>{0, 1, 2, 3, 0, 1, 0, 3, 2, 1, 0}));
  EXPECT_FALSE(ring.canKeep()[0]); // forward on 0, backward on 2
  EXPECT_TRUE(ring.canKeep()[3]);  // 3 and 3
  for (int pack = 0; pack < 5; ++pack)
    EXPECT_TRUE(mirror.canKeep()[pack]);
  EXPECT_EQ(mirror.canKeep().size(), 5u); // layer 5 turns
}

TEST(Layout, OwnersAreSpreadOverGroups) {
  Problem problem = chain(8, 8);
  Layout layout = uniformLayout(problem, 4, 1, Placement::Ring, {3, 7}, 1);
  std::vector<int> owners = spreadOwners(problem, layout);
  for (int device = 0; device < 4; ++device)
    EXPECT_EQ(std::count(owners.begin(), owners.begin() + 4, device), 1);
  for (int device = 0; device < 4; ++device)
    EXPECT_EQ(std::count(owners.begin() + 4, owners.end(), device), 1);
}

TEST(Layout, CandidateSizesSplitEveryShare) {
  for (int64_t batch = 1; batch <= 130; ++batch)
    for (int devices : {1, 2, 3, 4, 7, 8}) {
      std::vector<int64_t> sizes = candidateMicrobatches(batch, devices);
      EXPECT_LE(sizes.size(), 12u);
      EXPECT_EQ(sizes.front(), 1);
      EXPECT_EQ(sizes.back(), batch);
      EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
      Problem problem = withSizes(chain(2, batch), sizes);
      for (int groups : {1, devices}) {
        if (groups > batch)
          continue;
        // The whole share is a size, too: plain data parallel.
        EXPECT_TRUE(canSplit(problem, groups, sharesOf(batch, groups).front()));
      }
    }
  SearchOptions options;
  options.microbatch = 3;
  EXPECT_EQ(candidateMicrobatches(8, 1, options), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(candidateMicrobatches(8, 2, options),
            (std::vector<int64_t>{1, 2, 3}));
}

//===--- plans ---===//

TEST(Schedule, EveryCapacityFromTheLeastOnHasAPlan) {
  for (const Problem &problem : typical())
    for (Schedule schedule : harmonyForms)
      for (int devices : {2, 3, 8}) {
        Problem split = splitFor(problem, devices);
        SearchOptions options = optionsOf(schedule);
        int64_t least =
            minDeviceBytes(split, machines(devices, unlimited), options);
        for (double factor : {1.0, 1.5}) {
          Planned planned =
              solvedOn(split, machines(devices, times(least, factor)), options);
          EXPECT_EQ(planned.minDeviceBytes, least);
        }
        Result below = solve(split, machines(devices, least - 1), options);
        ASSERT_TRUE(std::holds_alternative<Infeasible>(below));
        EXPECT_EQ(std::get<Infeasible>(below).minDeviceBytes, least);
        EXPECT_NE(std::get<Infeasible>(below).message.find(
                      "least plan needs " + std::to_string(least)),
                  std::string::npos);
      }
}

TEST(Schedule, FormsAreObeyed) {
  Problem problem = chain(12, 8);
  for (int devices : {2, 4}) {
    Problem split = splitFor(problem, devices);
    Machine machine =
        machines(devices, problem.trainingStateBytes() / (2 * devices));
    Planned pipeline = solvedOn(split, machine, optionsOf(Schedule::HarmonyPp));
    EXPECT_EQ(pipeline.plan.groups, 1);
    EXPECT_EQ(pipeline.schedule, Schedule::HarmonyPp);
    EXPECT_EQ(devicesOf(pipeline.plan).size(), size_t(devices));
    Planned replicas = solvedOn(split, machine, optionsOf(Schedule::HarmonyDp));
    EXPECT_EQ(replicas.plan.groups, devices);
    EXPECT_EQ(replicas.schedule, Schedule::HarmonyDp);
    EXPECT_EQ(devicesOf(replicas.plan).size(), size_t(devices));
    Planned best = solvedOn(split, machine, optionsOf(Schedule::Auto));
    EXPECT_LE(best.plan.seconds,
              1.02 * std::min(pipeline.plan.seconds, replicas.plan.seconds));
  }
}

TEST(Schedule, WhatFitsSwapsNothing) {
  for (const Problem &problem : typical())
    for (Schedule schedule : harmonyForms)
      for (int devices : {2, 4}) {
        Problem split = splitFor(problem, devices);
        Plan plan =
            solvedOn(split, machines(devices, unlimited), optionsOf(schedule))
                .plan;
        EXPECT_EQ(swaps(plan), 0)
            << problem.name << " " << name(schedule) << " on " << devices;
      }
}

TEST(Schedule, DevicesShareTheWork) {
  // Enough microbatches to fill a pipeline, little to transfer.
  Problem problem = splitFor(chain(16, 32, 1 << 20, 64), 4);
  double one =
      solvedOn(problem, machines(1, unlimited), optionsOf(Schedule::Auto))
          .plan.seconds;
  for (Schedule schedule : harmonyForms) {
    double four = solvedOn(problem, machines(4, unlimited), optionsOf(schedule))
                      .plan.seconds;
    EXPECT_LT(four, one / 2.5) << name(schedule);
  }
}

TEST(Schedule, MoreGroupsThanSamplesAreNotMade) {
  Problem problem = splitFor(chain(4, 3), 8);
  Plan plan =
      solvedOn(problem, machines(8, unlimited), optionsOf(Schedule::HarmonyDp))
          .plan;
  EXPECT_EQ(plan.groups, 3);
}

TEST(Schedule, UnevenSharesAndPartialMicrobatches) {
  for (Schedule schedule : harmonyForms)
    for (int devices : {1, 2, 3})
      for (int64_t u : {3, 5}) {
        SearchOptions options = optionsOf(schedule);
        options.microbatch = u;
        Problem problem = splitFor(chain(6, 8), devices, options);
        int64_t least =
            minDeviceBytes(problem, machines(devices, unlimited), options);
        for (double factor : {1.0, 2.0, 100.0}) {
          Plan plan = solvedOn(problem, machines(devices, times(least, factor)),
                               options)
                          .plan;
          int64_t samples = 0;
          for (const Phase &phase : plan.phases) {
            EXPECT_LE(phase.microbatch, u);
            if (phase.kind == PhaseKind::Turn)
              samples += phase.trips * phase.microbatch;
          }
          EXPECT_EQ(samples, 8);
        }
      }
}

TEST(Schedule, UpdatesThatReadAllGradients) {
  for (Schedule schedule : harmonyForms)
    for (int devices : {1, 2, 3}) {
      Problem problem =
          splitFor(withEpilogue(transformer(3, 6, 64, 32, 96)), devices);
      SearchOptions options = optionsOf(schedule);
      int64_t least =
          minDeviceBytes(problem, machines(devices, unlimited), options);
      for (double factor : {1.0, 2.0, 100.0}) {
        Plan plan =
            solvedOn(problem, machines(devices, times(least, factor)), options)
                .plan;
        EXPECT_EQ(plan.update, UpdateOrder::Deferred);
      }
      options.update = UpdateOrder::JustInTime;
      EXPECT_THROW(solve(problem, machines(devices, unlimited), options),
                   Error);
    }
}

TEST(Schedule, UnequalDevicesAreEachFilledToTheirOwn) {
  Problem problem = splitFor(transformer(6, 8, 64, 32, 96), 3);
  for (Schedule schedule : harmonyForms) {
    SearchOptions options = optionsOf(schedule);
    int64_t least = minDeviceBytes(problem, machines(3, unlimited), options);
    Machine machine = machines(3, least);
    machine.devices[1].capacity = 2 * least;
    machine.devices[2].capacity = 4 * least;
    Plan plan = solvedOn(problem, machine, options).plan;
    for (int d = 0; d < 3; ++d)
      EXPECT_LE(plan.peakBytes[d], machine.devices[d].capacity);
    // What is on all devices of a replica fits the least of them.
    if (schedule == Schedule::HarmonyPp)
      EXPECT_GT(plan.peakBytes[2], least);
  }
}

TEST(Schedule, RandomProblems) {
  std::mt19937 generator(5);
  for (int round = 0; round < 25; ++round) {
    Problem problem = random(generator);
    int devices = 2 + static_cast<int>(generator() % 7);
    SearchOptions options = optionsOf(harmonyForms[generator() % 3]);
    problem = splitFor(problem, devices);
    bool peers = generator() % 2;
    int64_t least =
        minDeviceBytes(problem, machines(devices, unlimited), options);
    for (double factor : {1.0, 2.0, 100.0})
      solvedOn(problem, machines(devices, times(least, factor), peers),
               options);
  }
}

//===--- random plans ---===//

/// "devices 3, packs 5, ..." by name.
std::map<std::string, int64_t> counts(const std::string &kinds) {
  std::map<std::string, int64_t> result;
  std::istringstream text(kinds);
  std::string what;
  int64_t count = 0;
  while (text >> what >> count) {
    result[what] = count;
    text.ignore(1);
  }
  return result;
}

TEST(Schedule, RandomPlansAreValidAndOfAllKinds) {
  std::map<std::string, int> with;
  int plans = 0;
  for (const Problem &problem : {chain(6, 8), mlp({64, 128, 128, 64, 10}, 32),
                                 transformer(3, 6, 64, 32, 96)})
    for (int seed = 0; seed < 60; ++seed) {
      SearchOptions options =
          optionsOf(seed % 5 == 4 ? Schedule::HarmonyDp : Schedule::HarmonyPp);
      options.microbatch = 2;
      options.randomSeed = seed;
      int devices = 1 + seed % 8;
      Problem split = splitFor(problem, devices, options);
      int64_t least =
          minDeviceBytes(split, machines(devices, unlimited), options);
      Plan plan =
          solvedOn(split, machines(devices, times(least, 1.0 + seed % 4)),
                   options)
              .plan;
      ++plans;
      for (auto [what, count] : counts(kinds(plan, split)))
        with[what] += count > (what == "devices" || what == "packs" ? 1 : 0);
    }
  for (const char *what :
       {"devices", "packs", "recomputed", "kept", "swaps", "stashes", "copies",
        "resident", "host-updates", "device-updates"})
    EXPECT_GE(10 * with[what], plans)
        << what << " in " << with[what] << " of " << plans;
}

/// Packs of sizes of their own, whose microbatches meet on a device: a value
/// stays nowhere while others need its samples in another cut.
TEST(Schedule, RandomPlansOfSeveralSizesAreValid) {
  int sizes = 0, mixed = 0;
  for (Problem problem : {chain(6, 8), transformer(3, 6, 64, 32, 96)})
    for (int seed = 0; seed < 150; ++seed) {
      SearchOptions options = optionsOf(Schedule::HarmonyPp);
      options.randomSeed = seed;
      int devices = 1 + seed % 4;
      Problem split = splitFor(sliceable(problem), devices, options);
      Plan plan = solvedOn(split, machines(devices, unlimited), options).plan;
      std::set<int64_t> forward, all;
      for (const Phase &phase : plan.phases) {
        all.insert(phase.microbatch);
        if (phase.kind == PhaseKind::Forward)
          forward.insert(phase.microbatch);
      }
      sizes += all.size() > 1;
      mixed += forward.size() > 1;
    }
  EXPECT_GT(sizes, 60);
  EXPECT_GT(mixed, 20);
}

TEST(Schedule, RandomPlansRepeatBySeed) {
  Problem problem = splitFor(chain(6, 8), 3);
  SearchOptions options = optionsOf(Schedule::HarmonyPp);
  options.microbatch = 1;
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    options.randomSeed = seed;
    Machine machine = machines(3, unlimited);
    std::string once = kinds(solvedOn(problem, machine, options).plan, problem);
    EXPECT_EQ(once, kinds(solvedOn(problem, machine, options).plan, problem));
    different.insert(once);
  }
  EXPECT_GT(different.size(), 4u);
}

//===--- speed ---===//

TEST(Schedule, IsFast) {
  Problem problem = splitFor(transformer(98, 32, 256, 128, 4096), 8);
  for (Schedule schedule : harmonyForms)
    for (double share : {0.5, 2.0}) {
      Machine machine =
          machines(8, times(problem.trainingStateBytes(), share / 8));
      std::clock_t begin = std::clock();
      Planned planned =
          std::get<Planned>(solve(problem, machine, optionsOf(schedule)));
      double seconds =
          static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      std::printf("100 layers, 8 devices, %g of the training state, %s: %.2f s "
                  "(%d plans, %.2f million events)\n",
                  share, name(schedule), seconds, planned.candidates,
                  1e-6 * static_cast<double>(planned.effort));
      // A second for a million, about; times depend on the machine.
      EXPECT_LT(planned.effort, 3'000'000);
      EXPECT_LT(seconds, 20);
    }
}

} // namespace
