//===- QueueSimulatorTest.cpp - Queues, links and their shares ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/QueueSimulator.h"

#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

/// One transfer on a queue of its own.
void addTransfer(QueueWork &work, int link, double bytes) {
  QueueWork::Event event;
  event.link = link;
  event.bytes = bytes;
  work.queues.push_back({{{static_cast<int>(work.events.size())}, 1}});
  work.events.push_back(event);
}

std::map<int, double> ends(const QueueWork &work, const Machine &machine,
                           int used = 1) {
  std::vector<QueueInterval> intervals;
  QueueTimes times = simulateQueues(work, machine, used, 1, &intervals);
  EXPECT_EQ(times.blocked, -1);
  std::map<int, double> end;
  for (const QueueInterval &interval : intervals)
    end[interval.event] = interval.end;
  return end;
}

TEST(QueueSimulator, WhatOneCannotUseIsLeftToTheOthers) {
  // A port of 10 bytes/s; its links take 2 and 20. Equal shares would be 5
  // each, of which the slow link uses 2: the fast one gets 8.
  Machine machine = Machine::uniform("m", 2, 1, 20, 0, {}, 10);
  machine.links[0].bytesPerSecond = 2;
  QueueWork work;
  addTransfer(work, 0, 20); // 10 s at 2
  addTransfer(work, 2, 80); // 10 s at 8
  std::map<int, double> end = ends(work, machine);
  EXPECT_NEAR(end[0], 10, 1e-9);
  EXPECT_NEAR(end[1], 10, 1e-9);
}

TEST(QueueSimulator, SharesGrowWhenATransferEnds) {
  Machine machine = Machine::uniform("m", 2, 1, 10, 1, {}, 10);
  QueueWork work;
  addTransfer(work, 0, 10);
  addTransfer(work, 2, 30);
  for (QueueWork::Event &event : work.events)
    event.seconds = 1; // both have their share while in it
  std::map<int, double> end = ends(work, machine);
  EXPECT_NEAR(end[0], 1 + 2, 1e-9);            // at 5
  EXPECT_NEAR(end[1], 1 + 2 + 20. / 10, 1e-9); // 10 at 5, 20 at 10
}

TEST(QueueSimulator, LatencyHoldsAShare) {
  Machine machine = Machine::uniform("m", 2, 1, 10, 0, {}, 10);
  QueueWork work;
  addTransfer(work, 0, 10);
  addTransfer(work, 2, 10);
  work.events[1].seconds = 4;
  std::map<int, double> end = ends(work, machine);
  EXPECT_NEAR(end[0], 2, 1e-9); // at 5 from the start
  EXPECT_NEAR(end[1], 5, 1e-9);
}

TEST(QueueSimulator, StaticSharesDoNotDependOnWhoIsUnderWay) {
  Machine machine = Machine::uniform("m", 4, 1, 100, 0, {}, 12);
  machine.sharing = Sharing::Static;
  QueueWork work;
  addTransfer(work, 0, 12);
  EXPECT_NEAR(ends(work, machine, 1)[0], 1, 1e-9);
  EXPECT_NEAR(ends(work, machine, 3)[0], 3, 1e-9);
  addTransfer(work, 2, 12);
  EXPECT_NEAR(ends(work, machine, 3)[0], 3, 1e-9);
}

/// Rates under way at once: nothing is full beyond its capacity, and every
/// transfer crosses something full where none gets more than it (Bertsekas and
/// Gallager, Data Networks, 6.5.2: that is what max-min fair means).
TEST(QueueSimulator, RatesAreMaxMinFair) {
  std::mt19937 generator(3);
  auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(generator);
  };
  int several = 0;
  for (int round = 0; round < 2000; ++round) {
    int devices = draw(1, 5);
    Machine machine;
    machine.devices.resize(devices);
    for (int r = draw(0, 4); r > 0; --r)
      machine.resources.push_back({"r", double(draw(1, 12))});
    for (int l = draw(1, 8); l > 0; --l) {
      Link link{0, 1, double(draw(1, 12)), 0, {}};
      for (int r = 0; r < static_cast<int>(machine.resources.size()); ++r)
        if (draw(0, 2) == 0)
          link.shares.push_back(r);
      machine.links.push_back(link);
    }
    QueueWork work;
    std::vector<int> over;
    for (int t = draw(1, 10); t > 0; --t) {
      over.push_back(draw(0, static_cast<int>(machine.links.size()) - 1));
      addTransfer(work, over.back(), 1e9);
    }
    // One more ends first, before any other can; the rates beside it are told
    // from the latest ends by giving each transfer its own number of bytes in
    // turn: so much that it alone is done, after one second at its rate.
    std::vector<double> rates;
    for (size_t t = 0; t < over.size(); ++t) {
      QueueWork one = work;
      one.events[t].bytes = 1e-3;
      rates.push_back(1e-3 / ends(one, machine)[static_cast<int>(t)]);
    }
    size_t links = machine.links.size();
    std::vector<double> load(links + machine.resources.size(), 0);
    std::vector<double> most(load.size(), 0);
    auto crossed = [&](size_t t) {
      std::vector<size_t> tracks = {static_cast<size_t>(over[t])};
      for (int share : machine.links[over[t]].shares)
        tracks.push_back(links + share);
      return tracks;
    };
    for (size_t t = 0; t < over.size(); ++t)
      for (size_t track : crossed(t)) {
        load[track] += rates[t];
        most[track] = std::max(most[track], rates[t]);
      }
    auto capacity = [&](size_t track) {
      return track < links ? machine.links[track].bytesPerSecond
                           : machine.resources[track - links].bytesPerSecond;
    };
    for (size_t track = 0; track < load.size(); ++track)
      EXPECT_LE(load[track], capacity(track) * (1 + 1e-6));
    for (size_t t = 0; t < over.size(); ++t) {
      bool held = false;
      for (size_t track : crossed(t))
        held |= load[track] >= capacity(track) * (1 - 1e-6) &&
                rates[t] >= most[track] * (1 - 1e-6);
      EXPECT_TRUE(held) << "round " << round << ", transfer " << t;
    }
    several += *std::max_element(rates.begin(), rates.end()) >
               *std::min_element(rates.begin(), rates.end()) * 1.01;
  }
  EXPECT_GT(several, 500); // otherwise equal shares would do
}

TEST(QueueSimulator, ExecutionsOverlapAndFillFirst) {
  // A load of 1 s, then work of 1 s: 2 s the first time, then 1 s each.
  QueueWork work;
  work.events.resize(2);
  work.events[0].seconds = work.events[1].seconds = 1;
  QueueWork::Wait wait;
  work.events[1].waits = {wait};
  work.queues = {{{{0}, 1}}, {{{1}, 1}}};
  Machine machine = Machine::uniform("m", 1, 1, 1, 0);
  QueueTimes times = simulateQueues(work, machine, 1, 3);
  EXPECT_EQ(times.finish, (std::vector<double>{2, 3, 4}));
}

TEST(QueueSimulator, WhatRepeatsNeedNotBeSimulated) {
  std::mt19937 random(5);
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  constexpr int executions = 9, ahead = 20;
  int irregular = 0;
  for (int round = 0; round < 300; ++round) {
    Machine machine = Machine::uniform("m", 3, 1, 4, 0.25);
    QueueWork work;
    int queues = 2 + below(4);
    work.queues.resize(queues);
    for (int e = 0, count = queues + below(12); e < count; ++e) {
      QueueWork::Event &event = work.events.emplace_back();
      event.seconds = below(5);
      if (below(2) == 0) {
        event.link = below(static_cast<int>(machine.links.size()));
        event.bytes = 1 + below(9);
      }
      work.queues[e % queues].push_back({{e}, 1});
      // Of this execution an earlier event, of the one before any.
      for (int waits = e == 0 ? 0 : below(3); waits > 0; --waits) {
        QueueWork::Wait wait;
        wait.event = below(e);
        event.waits.push_back(wait);
      }
    }
    for (QueueWork::Event &event : work.events) {
      QueueWork::Wait wait;
      wait.event = below(static_cast<int>(work.events.size()));
      wait.previousExecution = true;
      event.waits.push_back(wait);
    }
    std::vector<QueueInterval> last;
    QueueTimes all = simulateQueues(work, machine, 3, executions, &last, ahead);
    QueueTimes some =
        simulateQueues(work, machine, 3, executions, nullptr, ahead);
    ASSERT_EQ(some.finish.size(), all.finish.size());
    for (int e = 0; e < executions; ++e)
      EXPECT_NEAR(some.finish[e], all.finish[e], 1e-9 * all.finish[e])
          << "round " << round << ", execution " << e;
    double second = all.finish[1] - all.finish[0];
    irregular += std::abs(all.finish[8] - all.finish[7] - second) > 1e-9;
  }
  EXPECT_GT(irregular, 20); // else the second's time would do
}

TEST(QueueSimulator, LastIterationsTakeMore) {
  QueueWork work;
  work.events.resize(1);
  work.events[0].seconds = 1;
  work.events[0].lastSeconds = 0.5;
  work.events[0].trips = 4;
  work.queues = {{{{0}, 4}}};
  Machine machine = Machine::uniform("m", 1, 1, 1, 0);
  EXPECT_NEAR(simulateQueues(work, machine, 1, 2).finish[1], 9, 1e-9);
}

TEST(QueueSimulator, SaysWhatNeverBecomesReady) {
  QueueWork work;
  work.events.resize(3);
  QueueWork::Wait one, two;
  one.event = 1;
  two.event = 2;
  work.events[1].waits = {two};
  work.events[2].waits = {one};
  work.queues = {{{{0}, 1}}, {{{1}, 1}}, {{{2}, 1}}};
  Machine machine = Machine::uniform("m", 1, 1, 1, 0);
  EXPECT_GE(simulateQueues(work, machine, 1, 1).blocked, 1);
}

/// What a machine says of the ends of phases is charged once a phase.
TEST(QueueSimulator, PhasesTakeTheirTimeAtTheirEnd) {
  Problem problem = chain(4, 8, 1024, 64);
  Choices choices = leastChoices(problem, 2, 2);
  Plan plan = makePlan(problem, choices);
  Machine plain = machine(unlimited), charging = plain;
  charging.phaseSeconds = 10;
  simulate(plan, problem, plain);
  double without = plan.seconds, compute = plan.computeSeconds;
  simulate(plan, problem, charging);
  double phases = static_cast<double>(plan.phases.size());
  EXPECT_GT(plan.phases.size(), 2u);
  EXPECT_NEAR(plan.computeSeconds - compute, 10 * phases, 1e-6);
  EXPECT_NEAR(plan.seconds - without, 10 * phases, without);
  EXPECT_GE(plan.firstSeconds, plan.seconds * (1 - 1e-9));
}

} // namespace
