//===- HappensBefore.cpp - Order of a plan, apart from verify() -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/HappensBefore.h"

#include <algorithm>
#include <map>

namespace harmony::planner::test {

namespace {

struct Instance {
  int event;
  int64_t execution, iteration;
};

/// What each queue executes in two executions.
std::vector<std::vector<Instance>> instances(const Plan &plan) {
  std::vector<std::vector<QueueLoop>> loops = queueLoops(plan);
  std::vector<std::vector<Instance>> order(plan.queues.size());
  for (size_t q = 0; q < loops.size(); ++q)
    for (int64_t execution = 0; execution < 2; ++execution)
      for (const QueueLoop &loop : loops[q])
        for (int64_t i = 0; i < loop.trips; ++i)
          for (int e : loop.events)
            order[q].push_back({e, execution, i});
  return order;
}

/// The iteration that a wait names, -1: none.
int64_t awaited(const Plan &plan, const Wait &wait, int64_t iteration) {
  if (wait.lag == Wait::whole)
    return plan.events[wait.event].trips - 1;
  return iteration / wait.every * wait.times + wait.times - 1 - wait.lag;
}

} // namespace

std::vector<std::vector<Clock>> happensBefore(const Plan &plan) {
  size_t queueCount = plan.queues.size();
  std::vector<std::vector<Instance>> order = instances(plan);
  std::map<std::tuple<int, int64_t, int64_t>, int64_t> position; // from 1
  for (const std::vector<Instance> &queue : order)
    for (size_t i = 0; i < queue.size(); ++i)
      position[{queue[i].event, queue[i].execution, queue[i].iteration}] =
          static_cast<int64_t>(i) + 1;
  std::vector<std::vector<Clock>> clocks(queueCount);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t q = 0; q < queueCount; ++q)
      while (clocks[q].size() < order[q].size()) {
        const Instance &self = order[q][clocks[q].size()];
        Clock clock =
            clocks[q].empty() ? Clock(queueCount, 0) : clocks[q].back();
        bool ready = true;
        for (const Wait &wait : plan.events[self.event].waits) {
          int64_t execution = self.execution - wait.previousStep;
          int64_t i = awaited(plan, wait, self.iteration);
          if (execution < 0 || i < 0)
            continue;
          auto other = static_cast<size_t>(plan.events[wait.event].queue);
          auto at =
              static_cast<size_t>(position.at({wait.event, execution, i}));
          if (clocks[other].size() < at) {
            ready = false;
            break;
          }
          for (size_t k = 0; k < queueCount; ++k)
            clock[k] = std::max(clock[k], clocks[other][at - 1][k]);
        }
        if (!ready)
          break;
        clock[q] = static_cast<int64_t>(clocks[q].size()) + 1;
        clocks[q].push_back(clock);
        moved = true;
      }
  }
  for (size_t q = 0; q < queueCount; ++q)
    if (clocks[q].size() < order[q].size())
      return {};
  return clocks;
}

bool races(const Draft &draft, const Problem &problem, const Plan &plan) {
  struct Access {
    int space; ///< -2: scalars of the host's tasks, -1: host store, devices
    int64_t begin, end;
    bool writes;
    size_t queue, position; ///< of the instance, from 0
  };
  std::vector<std::vector<Access>> byEvent(plan.events.size());
  auto add = [&](const Touch &touch, int space, int64_t begin, int64_t end) {
    if (touch.bytes != Touch::whole) {
      begin += touch.offset;
      end = begin + touch.bytes;
    }
    byEvent[touch.event].push_back(
        {space, begin, end, touch.writes, 0, static_cast<size_t>(touch.index)});
  };
  for (const Touch &touch : draft.bufferTouches) {
    const Buffer &buffer = draft.plan.buffers[touch.index];
    add(touch, buffer.device, buffer.offset, buffer.end());
  }
  for (const Touch &touch : draft.homeTouches) {
    const Home &home = draft.plan.homes[touch.index];
    add(touch, -1, home.offset, home.offset + home.bytes());
  }
  for (const Touch &touch : draft.scalarTouches)
    add(touch, -2, 0, 1);

  // Of one iteration: the slot of a ring, the microbatch of a home.
  auto narrowed = [&](Access access, int e, int64_t iteration) {
    size_t index = access.position;
    if (access.space >= 0) {
      const Buffer &buffer = draft.plan.buffers[index];
      if (buffer.slots > 1) {
        access.begin = buffer.address(iteration);
        access.end = access.begin + buffer.slotBytes;
      }
    } else if (access.space == -1 && plan.events[e].phase >= 0) {
      Extent extent = homeExtent(plan, problem, draft.plan.homes[index],
                                 plan.events[e].phase, iteration);
      access.begin = extent.offset;
      access.end = extent.offset + extent.bytes;
    }
    return access;
  };
  std::vector<std::vector<Clock>> clocks = happensBefore(plan);
  std::vector<std::vector<Instance>> order = instances(plan);
  std::vector<Access> all;
  for (size_t q = 0; q < order.size(); ++q)
    for (size_t i = 0; i < order[q].size(); ++i)
      for (const Access &of : byEvent[order[q][i].event]) {
        Access access = narrowed(of, order[q][i].event, order[q][i].iteration);
        access.queue = q;
        access.position = i;
        all.push_back(access);
      }
  std::sort(all.begin(), all.end(), [](const Access &a, const Access &b) {
    return std::tie(a.space, a.begin) < std::tie(b.space, b.begin);
  });
  auto before = [&](const Access &a, const Access &b) {
    return clocks[b.queue][b.position][a.queue] >
           static_cast<int64_t>(a.position);
  };
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size() && all[j].space == all[i].space &&
                           all[j].begin < all[i].end;
         ++j)
      if ((all[i].writes || all[j].writes) && all[i].queue != all[j].queue &&
          !before(all[i], all[j]) && !before(all[j], all[i]))
        return true;
  return false;
}

} // namespace harmony::planner::test
