//===- Mutations.cpp - Kinds of damage to a plan --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Mutations.h"

#include "test/unit/planner/Mutate.h"

#include <set>

namespace harmony::planner::test {

namespace {

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

bool isCopy(const Plan &plan, int e) {
  return plan.queues[plan.events[e].queue].kind == QueueKind::Peer;
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

const std::vector<Mutation> &mutations() {
  static const std::vector<Mutation> table = {
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
      {"drop an event", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         eraseEvent(plan, problem, below(g, plan.events.size()));
         return true;
       }},
      {"swap two Runs", false,
       [](Plan &plan, const Problem &, Generator &g) {
         // Not two that do nothing: their order does not matter.
         auto works = [&](int phase) {
           return std::any_of(plan.buffers.begin(), plan.buffers.end(),
                              [&](const Buffer &buffer) {
                                const Event &first =
                                    plan.events[buffer.first.event];
                                return !buffer.persistent &&
                                       first.phase == phase &&
                                       first.kind == EventKind::Run;
                              });
         };
         int p = draw(g, plan.phases.size(), [&](int i) {
           return static_cast<size_t>(i) + 1 < plan.phases.size() && works(i);
         });
         if (p < 0)
           return false;
         for (Event &event : plan.events)
           if (event.kind == EventKind::Run &&
               (event.phase == p || event.phase == p + 1))
             event.phase = 2 * p + 1 - event.phase;
         return true;
       }},
      {"end a live range at its beginning", false,
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
      {"begin a live range at its end", false,
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
      {"move a buffer onto one that is live", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int a = below(g, plan.buffers.size());
         int b = draw(g, plan.buffers.size(), [&](int i) {
           return i != a && plan.buffers[i].device == plan.buffers[a].device &&
                  plan.buffers[i].first <= plan.buffers[a].last &&
                  plan.buffers[a].first <= plan.buffers[i].last;
         });
         if (b < 0)
           return false;
         plan.buffers[a].offset = plan.buffers[b].offset;
         return true;
       }},
      {"shift an offset by less than the alignment", false,
       [](Plan &plan, const Problem &, Generator &g) {
         plan.buffers[below(g, plan.buffers.size())].offset += 4;
         return true;
       }},
      {"make a buffer smaller", false,
       [](Plan &plan, const Problem &, Generator &g) {
         plan.buffers[below(g, plan.buffers.size())].slotBytes -= 1;
         return true;
       }},
      {"take a slot away", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(),
                      [&](int i) { return plan.buffers[i].slots > 1; });
         if (b < 0)
           return false;
         --plan.buffers[b].slots;
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
      {"drop a step", false,
       [](Plan &plan, const Problem &, Generator &g) {
         std::vector<Step> &steps =
             plan.phases[below(g, plan.phases.size())].steps;
         if (steps.size() < 2)
           return false;
         steps.erase(steps.begin() + below(g, steps.size()));
         return true;
       }},
      {"forget to load what stays", false,
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.load.empty())
           return false;
         plan.load.erase(plan.load.begin() + below(g, plan.load.size()));
         return true;
       }},
      {"forget to store what stays", false,
       [](Plan &plan, const Problem &, Generator &g) {
         // Not one whose home is current for what other devices load.
         int s = draw(g, plan.store.size(), [&](int i) {
           const ResidentTransfer &what = plan.store[i];
           EventKind kind = what.content == Content::Tensor
                                ? EventKind::StoreTensor
                                : EventKind::StoreState;
           return findEvent(plan, kind, what.object) < 0;
         });
         if (s < 0)
           return false;
         plan.store.erase(plan.store.begin() + s);
         return true;
       }},
      {"move a home onto another", false,
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.homes.size() < 2)
           return false;
         int h = below(g, plan.homes.size());
         plan.homes[h].offset =
             plan.homes[(static_cast<size_t>(h) + 1) % plan.homes.size()]
                 .offset;
         return true;
       }},
      {"drop a copy between devices", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int e = draw(g, plan.events.size(),
                      [&](int i) { return isCopy(plan, i); });
         if (e < 0)
           return false;
         eraseEvent(plan, problem, e);
         return true;
       }},
      {"copy from another device", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(),
                      [&](int i) { return isCopy(plan, i); });
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
         int e = draw(g, plan.events.size(),
                      [&](int i) { return isCopy(plan, i); });
         int d = e < 0 ? -1 : anotherDevice(plan, g, plan.events[e]);
         if (d < 0)
           return false;
         plan.events[e].device = d;
         return true;
       }},
      {"copy the other way", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int e = draw(g, plan.events.size(),
                      [&](int i) { return isCopy(plan, i); });
         if (e < 0)
           return false;
         Event &event = plan.events[e];
         std::swap(event.source, event.device);
         event.queue = queueOf(plan, QueueKind::Peer, event.source,
                               plan.queues[event.queue].lane);
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
      {"put a phase into another group", false,
       [](Plan &plan, const Problem &, Generator &g) {
         if (plan.groups < 2)
           return false;
         Phase &phase = plan.phases[below(g, plan.phases.size())];
         phase.group = (phase.group + 1) % plan.groups;
         return true;
       }},
      {"shift the samples of a phase", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int p = draw(g, plan.phases.size(),
                      [&](int i) { return plan.phases[i].firstSample > 0; });
         if (p < 0)
           return false;
         --plan.phases[p].firstSample;
         return true;
       }},
      {"swap the samples of two phases", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int a = below(g, plan.phases.size());
         int b = draw(g, plan.phases.size(), [&](int i) {
           const Phase &x = plan.phases[a], &y = plan.phases[i];
           return x.kind == y.kind && x.firstLayer == y.firstLayer &&
                  x.microbatch == y.microbatch && x.trips == y.trips &&
                  x.firstSample != y.firstSample;
         });
         if (b < 0)
           return false;
         std::swap(plan.phases[a].firstSample, plan.phases[b].firstSample);
         std::swap(plan.phases[a].firstMicrobatch,
                   plan.phases[b].firstMicrobatch);
         return true;
       }},
      {"leave out a microbatch of a phase", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int p = draw(g, plan.phases.size(),
                      [&](int i) { return plan.phases[i].trips > 1; });
         if (p < 0)
           return false;
         --plan.phases[p].trips;
         for (Event &event : plan.events)
           if (event.phase == p)
             --event.trips;
         plan.traffic = trafficOf(plan, problem);
         return true;
       }},
      {"microbatches of another place in the home", false,
       [](Plan &plan, const Problem &, Generator &g) {
         ++plan.phases[below(g, plan.phases.size())].firstMicrobatch;
         return true;
       }},
      {"a buffer of other samples", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(), [&](int i) {
           Content content = plan.buffers[i].content;
           return content == Content::Value || content == Content::Saved ||
                  content == Content::ValueGradient ||
                  content == Content::RecomputedValue;
         });
         if (b < 0)
           return false;
         plan.buffers[b].firstSample += 1;
         return true;
       }},
      {"another level of keeping", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int p = draw(g, plan.phases.size(),
                      [&](int i) { return !plan.phases[i].keep.empty(); });
         if (p < 0)
           return false;
         Phase &phase = plan.phases[p];
         int l = phase.firstLayer + below(g, phase.keep.size());
         int &level = phase.keep[static_cast<size_t>(l - phase.firstLayer)];
         int other = below(g, problem.levels(l) + 1);
         const Cost &cost = problem.cost(l, phase.microbatch);
         if (cost.keptBytes(level) == cost.keptBytes(other))
           return false;
         level = other;
         return true;
       }},
      {"the kept part of a block for the rest", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int b = draw(g, plan.buffers.size(), [&](int i) {
           return plan.buffers[i].content == Content::Saved;
         });
         if (b < 0)
           return false;
         Buffer &buffer = plan.buffers[b];
         buffer.use = buffer.use == keptPart ? -1 : keptPart;
         return true;
       }},
      {"a buffer on another device", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int devices = static_cast<int>(plan.peakBytes.size());
         if (devices < 2)
           return false;
         Buffer &buffer = plan.buffers[below(g, plan.buffers.size())];
         buffer.device = (buffer.device + 1) % devices;
         plan.peakBytes.assign(plan.peakBytes.size(), 0);
         for (const Buffer &b : plan.buffers)
           plan.peakBytes[b.device] =
               std::max(plan.peakBytes[b.device], b.end());
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
      {"keep at another level", false,
       [](Plan &plan, const Problem &problem, Generator &g) {
         int p = draw(g, plan.phases.size(),
                      [&](int i) { return !plan.phases[i].keep.empty(); });
         if (p < 0)
           return false;
         Phase &phase = plan.phases[p];
         int l = below(g, phase.keep.size());
         // Not one that keeps as much: a forward has nothing to do then.
         const Cost &cost =
             problem.cost(phase.firstLayer + l, phase.microbatch);
         int other = (phase.keep[l] + 1) % (cost.levels() + 1);
         if (cost.keptBytes(other) == cost.keptBytes(phase.keep[l]))
           return false;
         phase.keep[l] = other;
         return true;
       }},
      {"forward instead of again", false,
       [](Plan &plan, const Problem &, Generator &g) {
         std::vector<Step> &steps =
             plan.phases[below(g, plan.phases.size())].steps;
         int s = draw(g, steps.size(), [&](int i) {
           return steps[i].kind != StepKind::Backward;
         });
         if (s < 0)
           return false;
         steps[s].kind = steps[s].kind == StepKind::Forward
                             ? StepKind::Recompute
                             : StepKind::Forward;
         return true;
       }},
      {"swap two steps", false,
       [](Plan &plan, const Problem &, Generator &g) {
         std::vector<Step> &steps =
             plan.phases[below(g, plan.phases.size())].steps;
         if (steps.size() < 2)
           return false;
         // Not of two kinds: what is made again may come later.
         int s = draw(g, steps.size() - 1, [&](int i) {
           return steps[i].kind == steps[i + 1].kind;
         });
         if (s < 0)
           return false;
         std::swap(steps[s], steps[s + 1]);
         return true;
       }},
      {"microbatches of another size", false,
       [](Plan &plan, const Problem &, Generator &g) {
         Phase &phase = plan.phases[below(g, plan.phases.size())];
         phase.microbatch = phase.microbatch == 1 ? 2 : phase.microbatch - 1;
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
      {"make a home smaller", false,
       [](Plan &plan, const Problem &, Generator &g) {
         Home &home = plan.homes[below(g, plan.homes.size())];
         home.size -= 1 + below(g, static_cast<size_t>(home.size));
         return true;
       }},
  };
  return table;
}

} // namespace harmony::planner::test
