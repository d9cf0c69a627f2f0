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

#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Problems.h"

#include <functional>
#include <map>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

using Clock = std::vector<int64_t>;

/// The vector clocks of all instances of two executions, by queue; empty on
/// deadlock. Written apart from the verifier's.
std::vector<std::vector<Clock>> happensBefore(const Plan &plan) {
  struct Instance {
    int event;
    int64_t execution, iteration;
  };
  size_t queueCount = plan.queues.size();
  std::vector<std::vector<QueueLoop>> loops = queueLoops(plan);
  std::vector<std::vector<Instance>> order(queueCount);
  std::map<std::tuple<int, int64_t, int64_t>, int64_t>
      position; // from 1, on its queue
  for (size_t q = 0; q < queueCount; ++q)
    for (int64_t execution = 0; execution < 2; ++execution)
      for (const QueueLoop &loop : loops[q])
        for (int64_t i = 0; i < loop.trips; ++i)
          for (int e : loop.events) {
            order[q].push_back({e, execution, i});
            position[{e, execution, i}] = static_cast<int64_t>(order[q].size());
          }
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
          int64_t i = wait.lag == Wait::whole
                          ? plan.events[wait.event].trips - 1
                          : self.iteration - wait.lag;
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

/// Whether two instances, neither before the other, touch a byte in common that
/// one of them writes; after the builder's own list of what events touch.
bool races(const Draft &draft, const Problem &problem, const Plan &plan) {
  struct Range {
    int space;
    int64_t begin, end;
    bool writes;
  };
  struct Instance {
    size_t queue;
    int64_t position;
    Clock clock;
    std::vector<Range> ranges;
  };
  std::vector<std::vector<Clock>> clocks = happensBefore(plan);
  std::vector<std::vector<QueueLoop>> loops = queueLoops(plan);
  auto rangesOf = [&](int e, int64_t i) {
    std::vector<Range> ranges;
    for (const Touch &touch : draft.bufferTouches)
      if (touch.event == e) {
        const Buffer &buffer = draft.plan.buffers[touch.index];
        bool slot = buffer.slots > 1;
        int64_t begin = slot ? buffer.address(i) : buffer.offset;
        ranges.push_back({1, begin,
                          slot ? begin + buffer.slotBytes : buffer.end(),
                          touch.writes});
      }
    for (const Touch &touch : draft.homeTouches)
      if (touch.event == e) {
        const Home &home = draft.plan.homes[touch.index];
        Extent extent =
            homeExtent(plan, problem, home, plan.events[e].phase, i);
        ranges.push_back(
            {0, extent.offset, extent.offset + extent.bytes, touch.writes});
      }
    return ranges;
  };
  std::vector<Instance> all;
  for (size_t q = 0; q < loops.size(); ++q) {
    int64_t position = 0;
    for (int execution = 0; execution < 2; ++execution)
      for (const QueueLoop &loop : loops[q])
        for (int64_t i = 0; i < loop.trips; ++i)
          for (int e : loop.events) {
            const Clock &clock = clocks[q][static_cast<size_t>(position)];
            all.push_back({q, ++position, clock, rangesOf(e, i)});
          }
  }
  for (const Instance &a : all)
    for (const Instance &b : all) {
      if (a.queue >= b.queue || a.clock[b.queue] >= b.position ||
          b.clock[a.queue] >= a.position)
        continue;
      for (const Range &x : a.ranges)
        for (const Range &y : b.ranges)
          if (x.space == y.space && x.begin < y.end && y.begin < x.end &&
              (x.writes || y.writes))
            return true;
    }
  return false;
}

using Generator = std::mt19937;

int below(Generator &generator, size_t n) {
  return static_cast<int>(generator() % static_cast<unsigned>(n));
}

/// An index that satisfies `accept`, or -1 if none is found at random.
template <typename Accept>
int draw(Generator &generator, size_t count, Accept accept) {
  for (int attempt = 0; attempt < 50 && count > 0; ++attempt)
    if (int i = below(generator, count); accept(i))
      return i;
  return -1;
}

/// Damages the plan; false: nothing of the kind in it.
struct Mutation {
  const char *name;
  std::function<bool(Plan &, const Problem &, Generator &)> apply;
};

bool onWait(Plan &plan, Generator &generator,
            const std::function<bool(const Wait &)> &accept,
            const std::function<void(Event &, size_t)> &change) {
  int e = draw(generator, plan.events.size(), [&](int i) {
    const std::vector<Wait> &waits = plan.events[i].waits;
    return std::any_of(waits.begin(), waits.end(), accept);
  });
  if (e < 0)
    return false;
  std::vector<Wait> &waits = plan.events[e].waits;
  int w =
      draw(generator, waits.size(), [&](int i) { return accept(waits[i]); });
  if (w < 0)
    return false;
  change(plan.events[e], static_cast<size_t>(w));
  return true;
}

bool anyWait(const Wait &) { return true; }

const std::vector<Mutation> &mutations() {
  static const std::vector<Mutation> table = {
      {"drop a wait",
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(plan, g, anyWait, [](Event &event, size_t w) {
           event.waits.erase(event.waits.begin() + static_cast<long>(w));
         });
       }},
      {"wait one iteration less",
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(
             plan, g, [](const Wait &wait) { return wait.lag != Wait::whole; },
             [](Event &event, size_t w) { ++event.waits[w].lag; });
       }},
      {"wait for the execution before instead",
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(
             plan, g,
             [](const Wait &wait) {
               return wait.lag == Wait::whole && !wait.previousStep;
             },
             [](Event &event, size_t w) {
               event.waits[w].previousStep = true;
             });
       }},
      {"wait for itself",
       [](Plan &plan, const Problem &, Generator &g) {
         int e = below(g, plan.events.size());
         plan.events[e].waits.push_back({e, Wait::whole, false});
         return true;
       }},
      {"drop an event",
       [](Plan &plan, const Problem &problem, Generator &g) {
         eraseEvent(plan, problem, below(g, plan.events.size()));
         return true;
       }},
      {"swap two Runs",
       [](Plan &plan, const Problem &, Generator &g) {
         int p = draw(g, plan.phases.size(), [&](int i) {
           return static_cast<size_t>(i) + 1 < plan.phases.size();
         });
         if (p < 0)
           return false;
         for (Event &event : plan.events)
           if (event.kind == EventKind::Run &&
               (event.phase == p || event.phase == p + 1))
             event.phase = 2 * p + 1 - event.phase;
         return true;
       }},
      {"end a live range at its beginning",
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(), [&](int i) {
           const Buffer &buffer = plan.buffers[i];
           return !buffer.persistent && buffer.first < buffer.last;
         });
         if (b < 0)
           return false;
         plan.buffers[b].last = plan.buffers[b].first;
         return true;
       }},
      {"begin a live range at its end",
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(), [&](int i) {
           const Buffer &buffer = plan.buffers[i];
           return !buffer.persistent && buffer.first < buffer.last;
         });
         if (b < 0)
           return false;
         plan.buffers[b].first = plan.buffers[b].last;
         return true;
       }},
      {"move a buffer onto one that is live",
       [](Plan &plan, const Problem &, Generator &g) {
         int a = below(g, plan.buffers.size());
         int b = draw(g, plan.buffers.size(), [&](int i) {
           return i != a && plan.buffers[i].first <= plan.buffers[a].last &&
                  plan.buffers[a].first <= plan.buffers[i].last;
         });
         if (b < 0)
           return false;
         plan.buffers[a].offset = plan.buffers[b].offset;
         return true;
       }},
      {"shift an offset by less than the alignment",
       [](Plan &plan, const Problem &, Generator &g) {
         plan.buffers[below(g, plan.buffers.size())].offset += 4;
         return true;
       }},
      {"make a buffer smaller",
       [](Plan &plan, const Problem &, Generator &g) {
         plan.buffers[below(g, plan.buffers.size())].slotBytes -= 1;
         return true;
       }},
      {"take a slot away",
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(),
                      [&](int i) { return plan.buffers[i].slots > 1; });
         if (b < 0)
           return false;
         --plan.buffers[b].slots;
         return true;
       }},
      {"one microbatch less",
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(),
                      [&](int i) { return plan.events[i].phase >= 0; });
         if (e < 0)
           return false;
         --plan.events[e].trips;
         return true;
       }},
      {"transfer something else",
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e = draw(g, plan.events.size(), [&](int i) {
           EventKind kind = plan.events[i].kind;
           return kind == EventKind::LoadTensor ||
                  kind == EventKind::LoadState ||
                  kind == EventKind::StoreTensor || kind == EventKind::Update;
         });
         if (e < 0 || problem.tensors.size() < 2)
           return false;
         Event &event = plan.events[e];
         event.object =
             (event.object + 1) % static_cast<int>(problem.tensors.size());
         const Tensor &tensor = problem.tensors[event.object];
         if (isTransfer(event.kind))
           event.bytes = event.kind == EventKind::LoadState ? tensor.stateBytes
                                                            : tensor.bytes;
         plan.traffic = trafficOf(plan, problem);
         return true;
       }},
      {"update in another place",
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(), [&](int i) {
           return plan.events[i].kind == EventKind::Update;
         });
         if (e < 0)
           return false;
         plan.events[e].onHost = !plan.events[e].onHost;
         return true;
       }},
      {"drop a step",
       [](Plan &plan, const Problem &, Generator &g) {
         std::vector<Step> &steps =
             plan.phases[below(g, plan.phases.size())].steps;
         if (steps.size() < 2)
           return false;
         steps.erase(steps.begin() + below(g, steps.size()));
         return true;
       }},
      {"forget to load what stays",
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.load.empty())
           return false;
         plan.load.erase(plan.load.begin() + below(g, plan.load.size()));
         return true;
       }},
      {"forget to store what stays",
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.store.empty())
           return false;
         plan.store.erase(plan.store.begin() + below(g, plan.store.size()));
         return true;
       }},
      {"move a home onto another",
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.homes.size() < 2)
           return false;
         int h = below(g, plan.homes.size());
         plan.homes[h].offset =
             plan.homes[(static_cast<size_t>(h) + 1) % plan.homes.size()]
                 .offset;
         return true;
       }},
  };
  return table;
}

TEST(Mutation, AreCaught) {
  Generator generator(11);
  struct Count {
    int caught = 0, unchanged = 0, unneeded = 0, missed = 0;
  };
  std::map<std::string, Count> counts;
  for (int round = 0; round < 400; ++round) {
    Problem problem = random(generator);
    Draft draft =
        build(problem, machine(unlimited), randomChoices(problem, generator));
    allocate(draft.plan);
    synchronize(draft);
    const Plan &plan = draft.plan;
    std::vector<std::vector<Clock>> order = happensBefore(plan);
    for (const Mutation &mutation : mutations()) {
      Plan damaged = plan;
      if (!mutation.apply(damaged, problem, generator))
        continue;
      Count &count = counts[mutation.name];
      std::vector<Violation> violations =
          damaged.verify(problem, machine(unlimited));
      bool wait = std::string(mutation.name).find("wait") != std::string::npos;
      if (!violations.empty()) {
        ++count.caught;
      } else if (wait && happensBefore(damaged) == order) {
        ++count.unchanged;
      } else if (wait && !races(draft, problem, damaged)) {
        ++count.unneeded;
      } else {
        ++count.missed;
        ADD_FAILURE() << "round " << round << ": " << mutation.name
                      << " is not caught";
      }
    }
  }
  for (const auto &[name, count] : counts) {
    std::printf(
        "%-45s caught %4d, order unchanged %3d, not needed %3d, missed %3d\n",
        name.c_str(), count.caught, count.unchanged, count.unneeded,
        count.missed);
    EXPECT_GT(count.caught, 20) << name;
  }
}

} // namespace
