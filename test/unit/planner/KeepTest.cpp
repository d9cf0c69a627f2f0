//===- KeepTest.cpp - Levels of keeping, layer by layer -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Search.h"

#include <functional>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

/// Level 1 keeps outputs alone, 2 a quarter of the block, which spares four
/// fifths of the time, 3 all of it.
Problem withLevels(Problem problem) {
  for (Function &function : problem.functions)
    for (Cost &cost : function.costs)
      cost.keeps = {{0, cost.forwardSeconds * 0.9, cost.forwardWorkspace},
                    {cost.savedBytes / 4, cost.forwardSeconds / 5, 64},
                    {cost.savedBytes, 0, 0}};
  return problem;
}

/// Packs that end with the given layers, on one device.
Choices choicesWith(const Problem &problem, const std::vector<int> &ends,
                    int64_t microbatch, std::vector<int> keep, bool ahead) {
  Layout layout =
      uniformLayout(problem, 1, 1, Placement::Ring, ends, microbatch);
  layout.keep = std::move(keep);
  Choices choices = leastChoices(problem, microbatch);
  choices.phases = phasesOf(problem, layout);
  choices.recomputeAhead = ahead;
  return choices;
}

/// "R0 B1": steps of the last phase.
std::string lastSteps(const Plan &plan) {
  std::string text;
  for (const Step &step : plan.phases.back().steps)
    text += (text.empty() ? "" : " ") +
            std::string(step.kind == StepKind::Backward ? "B" : "R") +
            std::to_string(step.layer);
  return text;
}

const Buffer *savedOf(const Plan &plan, int layer, int part) {
  for (const Buffer &buffer : plan.buffers)
    if (buffer.content == Content::Saved && buffer.object == layer &&
        buffer.use == part)
      return &buffer;
  return nullptr;
}

TEST(Keep, RecomputationGoesBySegments) {
  Problem problem = withLevels(chain(4, 4));
  auto steps = [&](std::vector<int> keep, bool ahead) {
    Plan plan = makePlan(
        problem, choicesWith(problem, {2, 3}, 1, std::move(keep), ahead));
    EXPECT_EQ(problemsOf(plan, problem), "");
    return lastSteps(plan);
  };
  EXPECT_EQ(steps({}, false), "R0 R1 R2 B2 B1 B0");
  EXPECT_EQ(steps({1, 1, 1, 0}, true), "R0 R1 R2 B2 B1 B0");
  EXPECT_EQ(steps({1, 1, 1, 0}, false), "R2 B2 R1 B1 R0 B0");
  // Layer 1 reads what layer 0 makes again.
  EXPECT_EQ(steps({0, 1, 0, 0}, false), "R2 B2 R0 R1 B1 B0");
  EXPECT_EQ(steps({1, 3, 2, 0}, false), "R2 B2 B1 R0 B0");
  EXPECT_EQ(steps({3, 3, 3, 0}, false), "B2 B1 B0");
}

TEST(Keep, SegmentsNeedLessMemory) {
  Problem problem = withLevels(chain(8, 4));
  auto bytes = [&](std::vector<int> keep, bool ahead) {
    return liveBytes(
        build(problem, machine(unlimited),
              choicesWith(problem, {6, 7}, 4, std::move(keep), ahead))
            .plan)[0];
  };
  std::vector<int> outputs(8, 1);
  EXPECT_LT(bytes(outputs, false), bytes({}, true));
  // One saved block at a time instead of seven.
  EXPECT_GT(bytes(outputs, true) - bytes(outputs, false),
            5 * problem.cost(0, 4).savedBytes);
}

/// Of the last phase, in issue order.
std::vector<int> loadedValues(const Plan &plan) {
  std::vector<int> values;
  for (const Event &event : plan.events)
    if (event.kind == EventKind::LoadValue &&
        event.phase == static_cast<int>(plan.phases.size()) - 1)
      values.push_back(event.object);
  return values;
}

TEST(Keep, SegmentsBeginWithWhatComesInTime) {
  Problem problem = withLevels(chain(8, 4));
  Choices choices = choicesWith(problem, {6, 7}, 4, {1, 1, 1, 1, 1, 1, 1, 0},
                                /*ahead=*/false);
  auto liveAtOnce = [&](int runs) {
    choices.runs = runs;
    Plan plan = makePlan(problem, choices);
    EXPECT_EQ(problemsOf(plan, problem), "");
    // What the last layer begins with is needed first.
    std::vector<int> values = loadedValues(plan);
    EXPECT_EQ(values.size(), 7u);
    for (size_t i = 1; runs > 1 && i < values.size(); ++i)
      EXPECT_LT(problem.values[values[i]].producer,
                problem.values[values[i - 1]].producer);
    return liveBytes(plan)[0];
  };
  // Of seven values two or three are there at a time.
  EXPECT_GE(liveAtOnce(1) - liveAtOnce(32), 4 * problem.values[1].bytes(4));
}

TEST(Keep, WhatAPhaseBeginsWithMayComeAhead) {
  Problem problem = chain(6, 8, 64, 1 << 20);
  for (int64_t u : {1, 8}) {
    Choices choices = choicesWith(problem, {1, 3, 5}, u, {}, /*ahead=*/false);
    for (bool ahead : {false, true}) {
      choices.valuesAhead = ahead;
      Plan plan = makePlan(problem, choices);
      EXPECT_EQ(problemsOf(plan, problem), "");
      // The batch input, for the B phase behind another one.
      int last = static_cast<int>(plan.phases.size()) - 1, runOf = -1;
      for (size_t e = 0; e < plan.events.size(); ++e)
        if (plan.events[e].kind == EventKind::Run &&
            plan.events[e].phase == last - 1)
          runOf = static_cast<int>(e);
      const Buffer *input = nullptr;
      for (const Buffer &buffer : plan.buffers)
        if (buffer.content == Content::Value && buffer.object == 0 &&
            buffer.last.event > runOf)
          input = &buffer;
      ASSERT_TRUE(input);
      EXPECT_EQ(input->first.event <= runOf, ahead) << u;
    }
  }
}

TEST(Keep, APartOfTheBlockStays) {
  Problem problem = withLevels(chain(3, 4));
  Plan plan =
      makePlan(problem, choicesWith(problem, {1, 2}, 1, {2, 3, 0}, false));
  EXPECT_EQ(problemsOf(plan, problem), "");
  int64_t saved = problem.cost(0, 1).savedBytes;
  const Buffer *kept = savedOf(plan, 0, keptPart), *rest = savedOf(plan, 0, -1);
  ASSERT_TRUE(kept && rest);
  EXPECT_EQ(kept->slots, 4); // a slot for each microbatch
  EXPECT_EQ(kept->slotBytes, saved / 4);
  EXPECT_EQ(rest->slots, 1);
  EXPECT_EQ(rest->slotBytes, saved - saved / 4);
  EXPECT_EQ(savedOf(plan, 1, keptPart)->slotBytes, saved);
  EXPECT_EQ(savedOf(plan, 1, -1), nullptr);
}

TEST(Keep, OutputsNeedNoForwardOfTheSameMicrobatches) {
  Problem problem = withLevels(chain(4, 4));
  for (Value &value : problem.values)
    value.sliceable = true;
  Layout layout =
      uniformLayout(problem, 1, 1, Placement::Ring, {0, 1, 2, 3}, 1);
  layout.backwardEnds = {2, 3};
  layout.forwardMicrobatch = 2;
  layout.keep = {1, 2, 3, 0}; // bytes cannot stay: all become level 1
  Choices choices = leastChoices(problem, 1);
  choices.phases = phasesOf(problem, layout);
  choices.recomputeAhead = false;
  Plan plan = makePlan(problem, choices);
  EXPECT_EQ(problemsOf(plan, problem), "");
  EXPECT_EQ(lastSteps(plan), "R2 B2 R1 B1 R0 B0");
}

TEST(Keep, TimeIsThatOfTheLevel) {
  Problem problem = withLevels(chain(2, 1));
  const Cost &cost = problem.cost(0, 1);
  auto seconds = [&](int level) {
    Plan plan =
        makePlan(problem, choicesWith(problem, {0, 1}, 1, {level, 0}, false));
    return plan.computeSeconds;
  };
  double none = seconds(3);
  EXPECT_NEAR(seconds(2) - none, cost.forwardSeconds / 5, 1e-12);
  EXPECT_NEAR(seconds(1) - none, cost.forwardSeconds * 0.9, 1e-12);
  EXPECT_NEAR(seconds(0) - none, cost.forwardSeconds, 1e-12);
}

struct Damage {
  const char *rule;
  std::function<void(Plan &)> damage;
};

TEST(Keep, WhatDisagreesIsCaught) {
  Problem problem = withLevels(chain(3, 4));
  Plan plan =
      makePlan(problem, choicesWith(problem, {1, 2}, 1, {2, 1, 0}, false));
  ASSERT_EQ(problemsOf(plan, problem), "");
  auto index = [](Plan &p, int part) {
    return const_cast<Buffer *>(savedOf(p, 0, part));
  };
  const std::vector<Damage> rows = {
      {"coverage", [](Plan &p) { p.phases[0].keep[0] = 3; }},
      {"coverage", [](Plan &p) { p.phases.back().keep[0] = 1; }},
      {"coverage", [](Plan &p) { p.phases.back().keep[0] = 4; }},
      {"coverage", [](Plan &p) { p.phases.back().keep[1] = -1; }},
      {"coverage", [](Plan &p) { p.phases.back().keep.pop_back(); }},
      {"coverage", [](Plan &p) { p.phases[1].keep = {1}; }}, // the turn
      // Level 0 makes the output again, for which there is no room.
      {"live-range", [](Plan &p) { p.phases.back().keep[1] = 0; }},
      {"coverage",
       [](Plan &p) {
         std::vector<Step> &steps = p.phases.back().steps;
         ASSERT_EQ(lastSteps(p), "R1 B1 R0 B0");
         std::swap(steps[0], steps[1]); // after its backward
       }},
      {"live-range",
       [](Plan &p) { // what is recomputed is not there any more
         std::vector<Step> &steps = p.phases.back().steps;
         std::rotate(steps.begin(), steps.begin() + 2, steps.begin() + 3);
       }},
      {"coverage",
       [](Plan &p) {
         std::vector<Step> &steps = p.phases.back().steps;
         steps.insert(steps.begin(), steps[0]); // twice
       }},
      {"size", [&](Plan &p) { index(p, keptPart)->slotBytes -= 64; }},
      {"size", [&](Plan &p) { index(p, -1)->slotBytes -= 64; }},
      {"live-range", [&](Plan &p) { index(p, keptPart)->use = -1; }},
      {"live-range", [&](Plan &p) { index(p, -1)->use = keptPart; }},
      {"structure", [&](Plan &p) { index(p, -1)->use = 1; }},
      {"live-range",
       [&](Plan &p) { index(p, keptPart)->last = index(p, keptPart)->first; }},
      {"read", [&](Plan &p) { index(p, keptPart)->slots = 2; }},
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    Plan damaged = plan;
    rows[i].damage(damaged);
    std::vector<Violation> found =
        damaged.verify(problem, machine(unlimited), 20);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                            [&](const Violation &violation) {
                              return violation.rule == rows[i].rule;
                            }))
        << "row " << i << " expects " << rows[i].rule << ", finds "
        << problemsOf(damaged, problem);
  }
}

TEST(Keep, LevelsOfAProblemAreChecked) {
  auto error = [](const std::function<void(Cost &)> &change) {
    Problem problem = withLevels(chain(2, 2));
    change(problem.functions[0].costs[1]);
    try {
      problem.check();
    } catch (const Error &e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error([](Cost &) {}), "");
  EXPECT_NE(error([](Cost &c) { c.keeps.pop_back(); }).find("keeps"),
            std::string::npos);
  EXPECT_NE(error([](Cost &c) { c.keeps[1].bytes = -1; }).find("accepted is"),
            std::string::npos);
  EXPECT_NE(error([](Cost &c) { c.keeps.back().bytes -= 1; }).find("bytes is"),
            std::string::npos);
  EXPECT_NE(error([](Cost &c) {
              c.keeps[0].recomputeSeconds = -1;
            }).find("recomputeSeconds"),
            std::string::npos);
}

/// A level that recomputes from what is kept alone does without the input and
/// the tensor of its layer; the verifier knows by level what has to be there.
TEST(Keep, LevelsReadWhatTheySay) {
  Problem all = withLevels(chain(3, 4));
  all.layers[0].inputs[0].backwardReads = false;
  all.layers[0].tensors[0].backwardReads = false;
  Problem fewer = all;
  fewer.layers[0].inputs[0].recomputeReads = 2;
  fewer.layers[0].tensors[0].recomputeReads = 2;
  auto planOf = [&](const Problem &problem, int level) {
    Plan plan = makePlan(problem,
                         choicesWith(problem, {1, 2}, 1, {level, 1, 0}, false));
    EXPECT_EQ(problemsOf(plan, problem), "") << level;
    return plan;
  };
  auto in = [](const Plan &plan, Traffic traffic) {
    return plan.traffic[static_cast<int>(traffic)];
  };
  for (int level : {0, 1, 2}) {
    Plan before = planOf(all, level), after = planOf(fewer, level);
    bool reads = level < 2;
    EXPECT_EQ(in(before, Traffic::Input) - in(after, Traffic::Input),
              reads ? 0 : all.values[0].bytesPerSample * all.batch);
    EXPECT_EQ(in(before, Traffic::SwapIn) - in(after, Traffic::SwapIn),
              reads ? 0 : all.tensors[0].bytes);
    EXPECT_EQ(problemsOf(before, fewer), "");
    std::vector<Violation> found = after.verify(all, machine(unlimited), 20);
    EXPECT_EQ(found.empty(), reads);
    for (const Violation &violation : found)
      EXPECT_EQ(violation.rule, "live-range");
  }
  // What a layer makes again is not made for one that no longer reads it.
  all.layers[1].inputs[0].backwardReads = false;
  fewer = all;
  fewer.layers[1].inputs[0].recomputeReads = 2;
  auto steps = [&](const Problem &problem) {
    Plan plan =
        makePlan(problem, choicesWith(problem, {1, 2}, 1, {0, 2, 0}, true));
    EXPECT_EQ(problemsOf(plan, problem), "");
    return plan;
  };
  auto outputs = [](const Plan &plan) {
    int count = 0;
    for (const Buffer &buffer : plan.buffers)
      if (buffer.content == Content::RecomputedValue)
        count += buffer.last.step > buffer.first.step;
    return count;
  };
  EXPECT_EQ(outputs(steps(all)), 1);
  EXPECT_EQ(outputs(steps(fewer)), 0);
  fewer.layers[1].inputs[0].recomputeReads = 0;
  EXPECT_THROW(fewer.check(), Error);
}

/// Where not all fits, parts are kept: never slower than all or nothing, and
/// somewhere faster.
TEST(Keep, PartsAreChosenWhereNotAllFits) {
  Problem parts = withLevels(chain(8, 8, 1024, 4096)), whole = parts;
  for (Function &function : whole.functions)
    for (Cost &cost : function.costs)
      cost.keeps.clear();
  SearchOptions options;
  options.layersPerPack = 2;
  options.microbatch = 2;
  int64_t least = minDeviceBytes(parts, machine(unlimited), options);
  int faster = 0, mixed = 0;
  for (int64_t capacity : {2 * least, 3 * least, 4 * least}) {
    auto solved = [&](const Problem &problem) {
      return std::get<Planned>(solve(problem, machine(capacity), options)).plan;
    };
    Plan plan = solved(parts);
    double allOrNothing = solved(whole).seconds;
    EXPECT_EQ(problemsOf(plan, parts, machine(capacity)), "");
    EXPECT_LE(plan.seconds, allOrNothing * 1.01);
    faster += plan.seconds < allOrNothing * 0.99;
    for (const Phase &phase : plan.phases)
      mixed += std::count(phase.keep.begin(), phase.keep.end(), 2);
  }
  EXPECT_GT(faster, 0);
  EXPECT_GT(mixed, 0);
}

} // namespace
