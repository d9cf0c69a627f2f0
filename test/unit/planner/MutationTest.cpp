//===- MutationTest.cpp - Random damages to random plans ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each mutation damages one thing. It must be caught, unless it is a wait
// without which the plan is as good, which the test finds out for itself and
// counts apart: either happens-before is the same as before (other waits imply
// it), or no two instances that it leaves unordered touch a byte in common
// (waits are made for whole events; for the slots that really meet, other waits
// may do).
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Devices.h"
#include "test/unit/planner/HappensBefore.h"
#include "test/unit/planner/Mutations.h"
#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Layout.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

struct Count {
  int caught = 0, unchanged = 0, unneeded = 0, missed = 0;
};

/// Damages a plan once by each kind, or by those that are named.
void damage(const Draft &draft, const Problem &problem, const Machine &machine,
            std::mt19937 &generator, std::map<std::string, Count> &counts,
            const std::vector<std::string> &kinds = {}) {
  const Plan &plan = draft.plan;
  std::vector<Violation> violations = plan.verify(problem, machine);
  if (!violations.empty()) {
    ADD_FAILURE() << "undamaged: " << violations[0].message;
    return;
  }
  std::vector<std::vector<Clock>> order; // worked out when it is asked for
  for (const Mutation &mutation : mutations()) {
    if (!kinds.empty() &&
        std::find(kinds.begin(), kinds.end(), mutation.name) == kinds.end())
      continue;
    Plan damaged = plan;
    if (!mutation.apply(damaged, problem, generator))
      continue;
    Count &count = counts[mutation.name];
    if (!damaged.verify(problem, machine).empty()) {
      ++count.caught;
      continue;
    }
    if (mutation.ofWait && order.empty())
      order = happensBefore(plan);
    if (mutation.ofWait && happensBefore(damaged) == order) {
      ++count.unchanged;
    } else if (mutation.ofWait && !races(draft, problem, damaged)) {
      ++count.unneeded;
    } else {
      ++count.missed;
      ADD_FAILURE() << mutation.name << " is not caught";
    }
  }
}

void print(const std::map<std::string, Count> &counts) {
  Count sum;
  auto line = [](const std::string &name, const Count &count) {
    std::printf(
        "%-45s caught %5d, order unchanged %3d, not needed %3d, missed %3d\n",
        name.c_str(), count.caught, count.unchanged, count.unneeded,
        count.missed);
  };
  for (const auto &[name, count] : counts) {
    line(name, count);
    sum.caught += count.caught;
    sum.unchanged += count.unchanged;
    sum.unneeded += count.unneeded;
    sum.missed += count.missed;
  }
  line("all", sum);
}

Draft draftOf(const Problem &problem, const Machine &machine,
              const Choices &choices) {
  Draft draft = build(problem, machine, choices);
  allocate(draft.plan);
  synchronize(draft);
  return draft;
}

/// Others with --gtest_shuffle --gtest_random_seed=N.
std::mt19937 seeded(unsigned seed) {
  // Without a shuffle the seed is the time.
  int other = GTEST_FLAG_GET(shuffle)
                  ? testing::UnitTest::GetInstance()->random_seed()
                  : 0;
  return std::mt19937(seed + 1000 * static_cast<unsigned>(other));
}

/// The suite's number of plans, so many times over as HARMONY_MUTATION_ROUNDS
/// says: see docs/Testing.md.
int roundsOf(int suite) {
  const char *times = std::getenv("HARMONY_MUTATION_ROUNDS");
  return suite * std::max(1, times ? std::atoi(times) : 1);
}

TEST(Mutation, OfOneDeviceAreCaught) {
  std::mt19937 generator = seeded(11);
  std::map<std::string, Count> counts;
  for (int round = 0; round < roundsOf(400); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Problem problem = random(generator);
    Machine one = machine(unlimited);
    Draft draft = draftOf(problem, one, randomChoices(problem, generator));
    damage(draft, problem, one, generator, counts);
  }
  print(counts);
  for (const auto &[name, count] : counts)
    EXPECT_GT(count.caught, 20) << name;
}

TEST(Mutation, OfSeveralDevicesAreCaught) {
  std::mt19937 generator = seeded(12);
  std::map<std::string, Count> counts;
  for (int round = 0; round < roundsOf(700); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Problem problem = randomSizes(generator);
    Machine several =
        randomMachine(2 + static_cast<int>(generator() % 4), generator);
    Draft draft =
        draftOf(problem, several, randomChoices(problem, several, generator));
    damage(draft, problem, several, generator, counts);
  }
  print(counts);
  for (const Mutation &mutation : mutations())
    EXPECT_GT(counts[mutation.name].caught, 0) << mutation.name;
}

/// A pipeline of 8 samples in one group or two, whose forward microbatches are
/// larger or smaller than the backward ones; groups get tensors in slices.
Choices choicesOfTwoSizes(const Problem &problem, const Machine &machine,
                          std::mt19937 &generator) {
  auto below = [&](unsigned n) { return static_cast<int>(generator() % n); };
  Choices choices = randomChoices(problem, machine, generator);
  choices.groups = below(4) ? 2 : 1;
  choices.peers = true;
  choices.owner.clear();
  choices.loader.assign(problem.tensors.size(), 0);
  choices.gather.assign(problem.tensors.size(), Gather::Slices);
  std::vector<int> ends;
  for (int l = 0; l < problem.layerCount(); ++l)
    if (l + 1 == problem.layerCount() || below(2))
      ends.push_back(l);
  int64_t small = 1 + below(2), large = 2 * small;
  bool forward = below(2);
  int devices = static_cast<int>(machine.devices.size());
  Layout layout =
      uniformLayout(problem, choices.groups, devices / choices.groups,
                    Placement::Ring, ends, forward ? small : large);
  layout.forwardMicrobatch = forward ? large : small;
  choices.phases = phasesOf(problem, layout);
  return choices;
}

/// Kinds that few random plans have the place for, on plans that do.
TEST(Mutation, OfRarePlacesAreCaught) {
  const std::vector<std::string> kinds = {
      "wait for fewer small microbatches",
      "wait less often for large microbatches",
      "move another slice of a tensor", "swap the loss of two groups"};
  std::mt19937 generator = seeded(13);
  std::map<std::string, Count> counts;
  for (int round = 0; round < roundsOf(400); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Problem problem;
    do
      problem = randomSizes(generator, 8);
    while (!problem.splittable || problem.layerCount() < 3);
    for (Value &value : problem.values)
      value.fixedBytes = 0;
    problem = sliceable(problem);
    Machine several = machines(2 + round % 3, unlimited);
    Draft draft = draftOf(problem, several,
                          choicesOfTwoSizes(problem, several, generator));
    for (int times = 0; times < 4; ++times)
      damage(draft, problem, several, generator, counts, kinds);
  }
  print(counts);
  for (const std::string &kind : kinds)
    EXPECT_GT(counts[kind].caught, 100) << kind;
}

} // namespace
