//===- EventMutations.cpp - Damage to events and their waits --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Draw.h"
#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Mutations.h"

#include <set>

namespace harmony::planner::test {

namespace {

/// An event of one of the kinds, or -1.
int drawEvent(const Plan &plan, Generator &generator,
              const std::set<EventKind> &kinds) {
  return draw(generator, plan.events.size(),
              [&](int i) { return kinds.count(plan.events[i].kind) > 0; });
}

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

/// A copy between devices, or -1.
int drawCopy(const Plan &plan, Generator &generator) {
  return draw(generator, plan.events.size(), [&](int i) {
    return plan.queues[plan.events[i].queue].kind == QueueKind::Peer;
  });
}

/// A device that is neither end of a copy, -1: there is none.
int anotherDevice(const Plan &plan, Generator &g, const Event &event) {
  return draw(g, plan.peakBytes.size(),
              [&](int d) { return d != event.device && d != event.source; });
}

/// Whether the queues of two events are of different devices.
bool apart(const Plan &plan, int a, int b) {
  return plan.queues[plan.events[a].queue].device !=
         plan.queues[plan.events[b].queue].device;
}

/// The queue, which is made if it is not there.
int queueOf(Plan &plan, QueueKind kind, int device, int lane) {
  for (size_t q = 0; q < plan.queues.size(); ++q)
    if (plan.queues[q].kind == kind && plan.queues[q].device == device &&
        plan.queues[q].lane == lane)
      return static_cast<int>(q);
  plan.queues.push_back({kind, device, lane});
  return static_cast<int>(plan.queues.size()) - 1;
}

} // namespace

std::vector<Mutation> eventMutations() {
  return {
      {"drop a wait", true,
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(plan, g, anyWait, [](Event &event, size_t w) {
           event.waits.erase(event.waits.begin() + static_cast<long>(w));
         });
       }},
      {"wait one iteration less", true,
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(
             plan, g, [](const Wait &wait) { return wait.lag != Wait::whole; },
             [](Event &event, size_t w) { ++event.waits[w].lag; });
       }},
      {"wait for the execution before instead", true,
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
      {"wait for itself", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = below(g, plan.events.size());
         plan.events[e].waits.push_back({e, Wait::whole, false});
         return true;
       }},
      {"drop a wait between devices", true,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(), [&](int i) {
           const std::vector<Wait> &waits = plan.events[i].waits;
           return std::any_of(
               waits.begin(), waits.end(),
               [&](const Wait &wait) { return apart(plan, i, wait.event); });
         });
         if (e < 0)
           return false;
         std::vector<Wait> &waits = plan.events[e].waits;
         waits.erase(
             std::find_if(waits.begin(), waits.end(), [&](const Wait &wait) {
               return apart(plan, e, wait.event);
             }));
         return true;
       }},
      {"drop a wait of an update for the epilogue", true,
       [](Plan &plan, const Problem &, Generator &g) {
         auto isEpilogue = [&](const Wait &wait) {
           return plan.events[wait.event].kind == EventKind::Epilogue;
         };
         int e = draw(g, plan.events.size(), [&](int i) {
           const std::vector<Wait> &waits = plan.events[i].waits;
           return plan.events[i].kind == EventKind::Update &&
                  std::any_of(waits.begin(), waits.end(), isEpilogue);
         });
         if (e < 0)
           return false;
         std::vector<Wait> &waits = plan.events[e].waits;
         waits.erase(std::remove_if(waits.begin(), waits.end(), isEpilogue),
                     waits.end());
         return true;
       }},
      {"wait for fewer small microbatches", true,
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(
             plan, g, [](const Wait &wait) { return wait.times > 1; },
             [](Event &event, size_t w) { --event.waits[w].times; });
       }},
      {"wait less often for large microbatches", true,
       [](Plan &plan, const Problem &, Generator &g) {
         return onWait(
             plan, g, [](const Wait &wait) { return wait.every > 1; },
             [](Event &event, size_t w) { ++event.waits[w].every; });
       }},
      {"drop an event", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         eraseEvent(plan, problem, below(g, plan.events.size()));
         return true;
       }},
      {"one microbatch less", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(),
                      [&](int i) { return plan.events[i].phase >= 0; });
         if (e < 0)
           return false;
         --plan.events[e].trips;
         return true;
       }},
      {"transfer something else", false,
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
      {"update in another place", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = drawEvent(plan, g, {EventKind::Update});
         if (e < 0)
           return false;
         plan.events[e].onHost = !plan.events[e].onHost;
         return true;
       }},
      {"drop a copy between devices", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e = drawCopy(plan, g);
         if (e < 0)
           return false;
         eraseEvent(plan, problem, e);
         return true;
       }},
      {"copy from another device", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = drawCopy(plan, g);
         int d = e < 0 ? -1 : anotherDevice(plan, g, plan.events[e]);
         if (d < 0)
           return false;
         Event &event = plan.events[e];
         // Not one that gets the same tensor, which is as good a source.
         for (const Event &other : plan.events)
           if (event.kind == EventKind::CopyTensor && other.device == d &&
               other.object == event.object &&
               (other.kind == EventKind::LoadTensor ||
                other.kind == EventKind::CopyTensor))
             return false;
         event.source = d;
         event.queue =
             queueOf(plan, QueueKind::Peer, d, plan.queues[event.queue].lane);
         return true;
       }},
      {"copy to another device", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = drawCopy(plan, g);
         int d = e < 0 ? -1 : anotherDevice(plan, g, plan.events[e]);
         if (d < 0)
           return false;
         plan.events[e].device = d;
         return true;
       }},
      {"copy the other way", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = drawCopy(plan, g);
         if (e < 0)
           return false;
         Event &event = plan.events[e];
         std::swap(event.source, event.device);
         event.queue = queueOf(plan, QueueKind::Peer, event.source,
                               plan.queues[event.queue].lane);
         return true;
       }},
      {"take another part of a gradient", false,
       [](Plan &plan, const Problem &, Generator &g) {
         auto ofPart = [&](int i) {
           return plan.events[i].kind != EventKind::ZeroScalar &&
                  plan.events[i].kind != EventKind::StoreScalar &&
                  plan.events[i].use >= 0;
         };
         int a = draw(g, plan.events.size(), ofPart);
         if (a < 0)
           return false;
         int b = draw(g, plan.events.size(), [&](int i) {
           return ofPart(i) && plan.events[i].kind == plan.events[a].kind &&
                  plan.events[i].object == plan.events[a].object &&
                  plan.events[i].use != plan.events[a].use;
         });
         if (b < 0)
           return false;
         plan.events[a].use = plan.events[b].use;
         return true;
       }},
      {"swap the loss of two groups", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int a = draw(g, plan.events.size(), [&](int i) {
           return plan.events[i].kind == EventKind::StoreScalar &&
                  plan.events[i].use >= 0;
         });
         int b = a < 0 ? -1
                       : draw(
                             g, plan.events.size(),
                             [&](int i) {
                               return plan.events[i].kind ==
                                          EventKind::StoreScalar &&
                                      plan.events[i].object ==
                                          plan.events[a].object &&
                                      plan.events[i].use != plan.events[a].use;
                             });
         if (b < 0)
           return false;
         std::swap(plan.events[a].use, plan.events[b].use);
         return true;
       }},
      {"update on another device", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int devices = static_cast<int>(plan.peakBytes.size());
         int e = draw(g, plan.events.size(), [&](int i) {
           return plan.events[i].kind == EventKind::Update &&
                  !plan.events[i].onHost;
         });
         if (devices < 2 || e < 0)
           return false;
         Event &event = plan.events[e];
         event.device = (event.device + 1) % devices;
         event.queue = queueOf(plan, QueueKind::Compute, event.device, 0);
         return true;
       }},
      {"move another slice of a tensor", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         auto isSlice = [&](int i) {
           const Event &event = plan.events[i];
           return (event.kind == EventKind::LoadTensor ||
                   event.kind == EventKind::CopyTensor) &&
                  event.bytes < problem.tensors[event.object].bytes;
         };
         int e = draw(g, plan.events.size(), isSlice);
         if (e < 0)
           return false;
         Event &event = plan.events[e];
         int64_t rest = problem.tensors[event.object].bytes - event.bytes;
         event.firstByte = event.firstByte > 0 ? 0 : alignedBytes(rest);
         return true;
       }},
      {"move less of a slice", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e = draw(g, plan.events.size(), [&](int i) {
           EventKind kind = plan.events[i].kind;
           return kind == EventKind::LoadTensor ||
                  kind == EventKind::CopyTensor;
         });
         if (e < 0 || plan.events[e].bytes < 2)
           return false;
         plan.events[e].bytes -= 1 + below(g, plan.events[e].bytes - 1);
         plan.traffic = trafficOf(plan, problem);
         return true;
       }},
      {"drop a contribution", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e =
             drawEvent(plan, g, {EventKind::Contribute, EventKind::Epilogue});
         if (e < 0)
           return false;
         eraseEvent(plan, problem, e);
         return true;
       }},
      {"update twice", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = drawEvent(plan, g, {EventKind::Update});
         if (e < 0)
           return false;
         Event again = plan.events[e];
         again.waits.push_back({e, Wait::whole});
         plan.events.push_back(std::move(again));
         return true;
       }},
      {"forget to clear", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e = drawEvent(plan, g,
                           {EventKind::ZeroGradient, EventKind::ZeroScalar});
         if (e < 0)
           return false;
         eraseEvent(plan, problem, e);
         return true;
       }},
  };
}

} // namespace harmony::planner::test
