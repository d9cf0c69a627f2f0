//===- MovesTest.cpp - Ends of packs elsewhere ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Moves.h"

#include "compiler/Planner/Filling.h"

#include "test/unit/planner/Devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

size_t packsOf(const Layout &layout) {
  return layout.forwardEnds.size() + layout.backwardEnds.size();
}

/// Ends in front of the turn ascend to where it begins.
void checkEnds(const Layout &layout, int layers) {
  ASSERT_FALSE(layout.backwardEnds.empty());
  EXPECT_EQ(layout.backwardEnds.back(), layers - 1);
  for (const std::vector<int> *ends :
       {&layout.forwardEnds, &layout.backwardEnds}) {
    EXPECT_TRUE(std::is_sorted(ends->begin(), ends->end(), std::less_equal<>()))
        << "no pack is empty";
    EXPECT_TRUE(ends->empty() || ends->front() >= 0);
  }
  int before = layout.forwardEnds.empty() ? -1 : layout.forwardEnds.back();
  EXPECT_EQ(before, layout.turnLayer() - 1);
  for (auto [sizes, ends] :
       {std::pair(&layout.forwardSizes, &layout.forwardEnds),
        std::pair(&layout.backwardSizes, &layout.backwardEnds)})
    EXPECT_TRUE(sizes->empty() || sizes->size() == ends->size());
}

TEST(Moves, ArePlans) {
  Problem problem = withSizes(chain(7, 8), {1, 2, 4, 8});
  for (Value &value : problem.values)
    value.sliceable = true;
  problem.link();
  Layout uniform = uniformLayout(problem, 1, 1, Placement::Mirror, {1, 2, 4, 6},
                                 /*microbatch=*/2);
  Layout own = uniform;
  own.forwardEnds = {0, 3, 4};
  own.forwardSizes = {4, 2, 8};
  own.backwardSizes = {8, 2, 4, 2};
  Layout turnOnly =
      uniformLayout(problem, 1, 1, Placement::Mirror, {6}, /*microbatch=*/2);
  Machine machine = test::machine(unlimited);
  SearchOptions options;
  Filling filling(problem, machine, options);
  for (const Layout &layout : {uniform, own, turnOnly}) {
    std::vector<Layout> moves = movesOf(problem, layout);
    std::vector<Layout> joins = joinsOf(problem, layout);
    EXPECT_FALSE(moves.empty());
    EXPECT_EQ(joins.empty(), layout.forwardEnds.empty());
    for (const Layout &join : joins) {
      EXPECT_LT(packsOf(join), packsOf(layout));
      EXPECT_NE(std::find(moves.begin(), moves.end(), join), moves.end());
    }
    for (const Layout &move : moves) {
      EXPECT_FALSE(move == layout);
      checkEnds(move, 7);
      Plan plan = makePlan(problem, filling.base(move, Updates::Host).choices);
      EXPECT_EQ(problemsOf(plan, problem), "");
    }
  }
}

/// Every layout of a chain can be reached.
TEST(Moves, ReachAllLayouts) {
  Problem problem = chain(4, 4);
  std::vector<Layout> seen{
      uniformLayout(problem, 1, 1, Placement::Mirror, {3}, 4)};
  for (size_t i = 0; i < seen.size(); ++i)
    for (Layout &move : movesOf(problem, Layout(seen[i]))) {
      move.keep.clear();
      if (std::find(seen.begin(), seen.end(), move) == seen.end())
        seen.push_back(std::move(move));
    }
  // With t layers in front of the turn each direction cuts them at any of the
  // t - 1 places between: 1 + 1 + 2 * 2 + 4 * 4.
  EXPECT_EQ(seen.size(), 22u);
}

/// Pipelines have as many packs as before, each of a layer or more.
TEST(Moves, PipelinesKeepTheirPacks) {
  Problem problem = chain(8, 8);
  Layout layout = uniformLayout(problem, 1, 2, Placement::Ring, {1, 3, 5, 7},
                                /*microbatch=*/2);
  EXPECT_TRUE(joinsOf(problem, layout).empty());
  std::vector<Layout> moves = movesOf(problem, layout);
  EXPECT_FALSE(moves.empty());
  for (const Layout &move : moves) {
    checkEnds(move, 8);
    EXPECT_EQ(move.forwardEnds.size(), layout.forwardEnds.size());
    EXPECT_EQ(move.backwardEnds.size(), layout.backwardEnds.size());
  }
}

/// And so do turns, whose packs end elsewhere.
TEST(Moves, TurnsKeepTheirPacks) {
  Problem problem = chain(8, 8);
  for (int turn : {2, 4}) {
    Layout layout =
        withTurnOf(turn, uniformLayout(problem, 1, 4, Placement::Mirror,
                                       {1, 3, 5, 7}, /*microbatch=*/2));
    bool moved = false;
    for (const Layout &move : movesOf(problem, layout)) {
      checkEnds(move, 8);
      EXPECT_EQ(move.turnPacks, turn);
      EXPECT_EQ(move.forwardEnds.size(), layout.forwardEnds.size());
      EXPECT_EQ(move.backwardEnds.size(), layout.backwardEnds.size());
      moved |= move.backwardEnds == std::vector<int>({1, 3, 4, 7});
    }
    EXPECT_TRUE(moved);
  }
}

/// Where two backward packs become one, recomputation is still of one at a
/// time.
TEST(Moves, JoinedPacksAreSegments) {
  Problem problem = chain(6, 4);
  for (Function &function : problem.functions)
    for (Cost &cost : function.costs)
      cost.keeps = {{0, cost.forwardSeconds, cost.forwardWorkspace},
                    {cost.savedBytes, 0, 0}};
  Layout layout = uniformLayout(problem, 1, 1, Placement::Mirror, {1, 3, 5}, 4);
  Layout joined = layout;
  joined.backwardEnds = {3, 5};
  joined.keep = {0, 1, 0, 0, 0, 0};
  std::vector<Layout> joins = joinsOf(problem, layout);
  EXPECT_NE(std::find(joins.begin(), joins.end(), joined), joins.end());
}

/// Transfers of tensors take little but their latency, and memory holds half of
/// them with their states: where devices update what stays and the host the
/// rest, far fewer are under way than where either updates all.
TEST(Search, DevicesUpdateWhatStays) {
  constexpr int64_t bytes = 4096;
  Problem problem = chain(12, 4, bytes, 64);
  Machine machine = test::machine(20 * bytes);
  for (Link &link : machine.links)
    link.latencySeconds = 1e-3;
  auto secondsBy = [&](std::optional<UpdatePlace> place) {
    SearchOptions options;
    options.updatePlace = place;
    Plan plan = std::get<Planned>(solve(problem, machine, options)).plan;
    EXPECT_EQ(problemsOf(plan, problem, machine), "");
    return plan.seconds;
  };
  EXPECT_LT(secondsBy(std::nullopt),
            0.8 * std::min(secondsBy(UpdatePlace::Device),
                           secondsBy(UpdatePlace::Host)));
}

} // namespace
