//===- OrderTest.cpp - What is over when an event starts ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Order.h"

#include <gtest/gtest.h>

using namespace harmony;
using planner::Wait;

namespace {

constexpr int whole = Wait::whole;

/// Events by hand; only queues, loops and waits matter.
struct Builder {
  explicit Builder(int queues) { plan.queues.resize(queues); }

  /// An event of a loop where `phase` is not negative.
  int add(int queue, std::vector<Wait> waits = {}, int phase = -1,
          int64_t trips = 1) {
    planner::Event event;
    event.queue = queue;
    event.phase = phase;
    event.trips = trips;
    event.waits = std::move(waits);
    plan.events.push_back(event);
    return static_cast<int>(plan.events.size()) - 1;
  }

  planner::Plan plan;
};

TEST(EventOrder, QueuesAndWaits) {
  Builder b(4);
  int load = b.add(0);
  int run = b.add(1, {{load}});
  int store = b.add(2, {{run}});
  int other = b.add(3);
  int later = b.add(0);
  EventOrder order(b.plan);
  EXPECT_TRUE(order.startsAfter(run, load, false, true));
  EXPECT_TRUE(order.startsAfter(store, load, false, true)) << "transitive";
  EXPECT_TRUE(order.startsAfter(later, load, false, true)) << "queue order";
  EXPECT_FALSE(order.startsAfter(later, run, false, true));
  EXPECT_FALSE(order.startsAfter(load, run, false, true));
  EXPECT_FALSE(order.startsAfter(other, load, false, true));
  EXPECT_FALSE(order.startsAfter(load, store, true, true))
      << "nothing orders the executions but their own queues";
  EXPECT_TRUE(order.startsAfter(load, later, true, true));
  EXPECT_TRUE(order.startsAfter(store, load, true, true));
}

TEST(EventOrder, PreviousExecution) {
  Builder b(3);
  int load = b.add(0, {{2, whole, true}});
  int run = b.add(1, {{load}});
  int store = b.add(2, {{run}});
  EventOrder order(b.plan);
  EXPECT_TRUE(order.startsAfter(load, store, true, true));
  EXPECT_TRUE(order.startsAfter(load, run, true, true));
  EXPECT_FALSE(order.startsAfter(load, store, false, true));
  EXPECT_FALSE(order.startsAfter(load, run, false, true));
}

TEST(EventOrder, LoopsAdvanceTogether) {
  Builder b(2);
  int run = b.add(0, {}, 0, 4);
  int store = b.add(1, {{run, 0}}, 0, 4);
  int next = b.add(1, {{run, 0}}, 0, 4);
  int after = b.add(1);
  EventOrder order(b.plan);
  EXPECT_TRUE(order.inOneLoop(store, next));
  EXPECT_FALSE(order.inOneLoop(run, store)) << "two queues";
  EXPECT_FALSE(order.inOneLoop(next, after));
  EXPECT_FALSE(order.startsAfter(store, run, false, true))
      << "but for its first iteration";
  EXPECT_FALSE(order.startsAfter(next, store, false, true));
  EXPECT_TRUE(order.endsAfter(store, run));
  EXPECT_TRUE(order.endsAfter(next, store));
  EXPECT_FALSE(order.endsAfter(run, store));
  EXPECT_TRUE(order.startsAfter(after, store, false, true));
  EXPECT_TRUE(order.startsAfter(after, next, false, true));
}

/// Who waits for all of one event of a loop need not wait for what stands
/// behind the loop for the sake of another.
TEST(EventOrder, BehindALoop) {
  Builder b(2);
  int first = b.add(0, {}, 0, 4);
  int second = b.add(0, {}, 0, 4);
  int waits = b.add(1, {{second}});
  int follows = b.add(0);
  int knows = b.add(1, {{follows}});
  EventOrder order(b.plan);
  EXPECT_TRUE(order.startsAfter(waits, second, false, true));
  EXPECT_TRUE(order.startsAfter(waits, first, false, false));
  EXPECT_FALSE(order.startsAfter(waits, first, false, true));
  EXPECT_TRUE(order.startsAfter(follows, first, false, true));
  EXPECT_TRUE(order.startsAfter(knows, first, false, true));
  EXPECT_TRUE(order.startsAfter(first, second, true, true));
}

TEST(EventOrder, MicrobatchesOfDifferentSizes) {
  // Two iterations of the second loop make one of the first, and the reverse.
  Builder b(3);
  int large = b.add(0, {}, 0, 4);
  int small = b.add(1, {{large, 0, false, 1, 2}}, 1, 8);
  int again = b.add(2, {{small, 0, false, 2, 1}}, 2, 4);
  EventOrder order(b.plan);
  EXPECT_TRUE(order.endsAfter(small, large));
  EXPECT_TRUE(order.endsAfter(again, small));
  EXPECT_TRUE(order.endsAfter(again, large)) << "transitive";
  EXPECT_FALSE(order.startsAfter(small, large, false, false));
}

TEST(EventOrder, RingsOrderNoWhole) {
  // The load waits for the slot that was used two iterations ago.
  Builder b(2);
  int load = b.add(0, {{1, 2}}, 0, 8);
  int run = b.add(1, {{load, 0}}, 0, 8);
  EventOrder order(b.plan);
  EXPECT_FALSE(order.startsAfter(load, run, false, false));
  EXPECT_FALSE(order.endsAfter(load, run));
  EXPECT_TRUE(order.endsAfter(run, load));
  EXPECT_FALSE(order.startsAfter(load, run, true, false))
      << "the next execution's first slot does not wait";
}

} // namespace
