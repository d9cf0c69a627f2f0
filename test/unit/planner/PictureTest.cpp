//===- PictureTest.cpp - What a picture of a plan shows -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Picture.h"

#include "compiler/Planner/Simulate.h"
#include "compiler/Planner/SteadyState.h"
#include "compiler/Planner/Svg.h"
#include "test/unit/planner/Devices.h"

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

struct Drawn {
  Problem problem;
  Machine machine;
  Plan plan;
};

Drawn randomPlan(std::mt19937 &generator, int devices) {
  Drawn result;
  result.problem = randomSizes(generator);
  result.machine = randomMachine(devices, generator);
  result.plan =
      makePlan(result.problem, result.machine,
               randomChoices(result.problem, result.machine, generator));
  return result;
}

/// What is live at once has addresses of its own, and the buffer that ends
/// highest is live at some time.
TEST(SteadyState, MemoryReachesThePeakAndNoMore) {
  std::mt19937 generator(11);
  int64_t points = 0;
  for (int round = 0; round < 60; ++round) {
    int devices = 1 + round % 4;
    Drawn drawn = randomPlan(generator, devices);
    SteadyState state(drawn.plan, drawn.problem, drawn.machine);
    for (int d = 0; d < devices; ++d) {
      int64_t peak = d < static_cast<int>(drawn.plan.peakBytes.size())
                         ? drawn.plan.peakBytes[d]
                         : 0;
      int64_t highest = 0;
      double before = 0;
      for (const MemoryPoint &point : state.memory(d)) {
        highest = std::max(highest, alignedBytes(point.highest));
        EXPECT_LE(point.live(), point.highest);
        EXPECT_GE(point.live(), 0);
        EXPECT_GE(point.begin, before);
        EXPECT_LE(point.begin, state.period);
        before = point.begin;
        ++points;
      }
      EXPECT_EQ(highest, alignedBytes(peak)) << "device " << d;
    }
  }
  EXPECT_GT(points, 1000);
}

TEST(SteadyState, StretchesFillTheirInterval) {
  std::mt19937 generator(12);
  for (int round = 0; round < 20; ++round) {
    Drawn drawn = randomPlan(generator, 2);
    // A phase takes longer than its steps.
    drawn.machine.phaseSeconds = 0.25;
    simulate(drawn.plan, drawn.problem, drawn.machine);
    SteadyState state(drawn.plan, drawn.problem, drawn.machine);
    double released = 0;
    for (const Interval &interval : state.intervals) {
      double at = interval.begin;
      for (const Stretch &stretch : state.stretches(interval)) {
        EXPECT_EQ(stretch.begin, at);
        at = stretch.end;
        if (stretch.activity == Activity::Release)
          released += stretch.end - stretch.begin;
      }
      EXPECT_EQ(at, interval.end);
    }
    auto freed =
        std::count_if(drawn.plan.phases.begin(), drawn.plan.phases.end(),
                      [](const Phase &phase) { return phase.frees; });
    EXPECT_NEAR(released, 0.25 * static_cast<double>(freed), 1e-6);
  }
}

Planned planned(Drawn &drawn) {
  Planned result;
  result.plan = drawn.plan;
  return result;
}

/// Tags are closed in the order in which they are opened, attributes have
/// quotes, and what XML reserves stands nowhere else.
void expectWellFormed(const std::string &text) {
  std::vector<std::string> open;
  size_t at = text.find("?>") + 2;
  while (at < text.size()) {
    char c = text[at];
    if (c == '&') {
      size_t end = text.find(';', at);
      std::string entity = text.substr(at, end - at + 1);
      ASSERT_TRUE(entity == "&amp;" || entity == "&lt;" || entity == "&gt;" ||
                  entity == "&quot;")
          << entity;
      at = end + 1;
      continue;
    }
    ASSERT_NE(c, '>');
    if (c != '<') {
      ++at;
      continue;
    }
    size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = text.substr(at + 1, end - at - 1);
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}

TEST(Picture, EveryQueueHasARow) {
  std::mt19937 generator(13);
  for (int round = 0; round < 12; ++round) {
    Drawn drawn = randomPlan(generator, 1 + round % 8);
    drawn.plan.problem = "a<b> & \"c\"";
    std::string text = drawPlan(planned(drawn), drawn.problem, drawn.machine);
    expectWellFormed(text);
    for (size_t q = 0; q < drawn.plan.queues.size(); ++q)
      EXPECT_NE(
          text.find("<g class=\"row\" id=\"queue" + std::to_string(q) + "\">"),
          std::string::npos)
          << q;
    for (size_t d = 0; d < drawn.machine.devices.size(); ++d)
      EXPECT_NE(text.find("id=\"memory" + std::to_string(d) + "\""),
                std::string::npos);
    EXPECT_EQ(text.find("nan"), std::string::npos);
  }
}

TEST(Picture, ALargePlanIsASmallFile) {
  Problem problem = sliceable(splitFor(transformer(24, 32, 256, 64, 1024), 8));
  SearchOptions options;
  options.schedule = Schedule::DpSwap;
  options.microbatch = 1;
  Machine machine = machines(8, problem.trainingStateBytes() / 4);
  Planned result = solvedOn(problem, machine, options);
  EXPECT_GT(result.plan.events.size(), 8000U);
  std::string text = drawPlan(result, problem, machine);
  EXPECT_LT(text.size(), 2000000U);
  EXPECT_GT(text.size(), 100000U);
}

TEST(Picture, ACapacityOffTheScaleIsNotInTheLegend) {
  Problem problem = chain(2, 4);
  Drawn drawn{problem, machine(unlimited),
              makePlan(problem, leastChoices(problem, 4))};
  auto isNamed = [&] {
    return drawPlan(planned(drawn), problem, drawn.machine)
               .find(">capacity<") != std::string::npos;
  };
  EXPECT_FALSE(isNamed());
  drawn.machine = machine(2 * drawn.plan.peakBytes[0]);
  EXPECT_TRUE(isNamed());
}

TEST(Picture, AProgramThatTakesNoTimeIsDrawn) {
  Problem problem = chain(2, 4);
  for (Function &function : problem.functions)
    for (Cost &cost : function.costs)
      cost.forwardSeconds = cost.backwardSeconds = 0;
  Drawn drawn{problem, machine(unlimited),
              makePlan(problem, leastChoices(problem, 4))};
  drawn.plan.seconds = 0;
  expectWellFormed(drawPlan(planned(drawn), problem, drawn.machine));
}

TEST(Svg, NumbersAndText) {
  EXPECT_EQ(svgNumber(3), "3");
  EXPECT_EQ(svgNumber(2.25), "2.3");
  EXPECT_EQ(svgNumber(-0.04), "0");
  EXPECT_EQ(svgEscape("a<b>&\"\x01"), "a&lt;b&gt;&amp;&quot;");
  EXPECT_EQ(svgEscape("\u00e4\u20ac\U0001f600"), "\u00e4\u20ac\U0001f600");
  EXPECT_GT(svgTextWidth("wide", 10), svgTextWidth("ill", 10));
}

} // namespace
