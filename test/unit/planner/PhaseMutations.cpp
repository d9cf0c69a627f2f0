//===- PhaseMutations.cpp - Damage to phases and their steps --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Draw.h"
#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Mutations.h"

namespace harmony::planner::test {

std::vector<Mutation> phaseMutations() {
  return {
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
      {"drop a step", false,
       [](Plan &plan, const Problem &, Generator &g) {
         std::vector<Step> &steps =
             plan.phases[below(g, plan.phases.size())].steps;
         if (steps.size() < 2)
           return false;
         steps.erase(steps.begin() + below(g, steps.size()));
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
      {"a pack that is not freed, and with which nothing goes on", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int p = draw(g, plan.phases.size(), [&](int i) {
           const Phase &phase = plan.phases[i];
           for (size_t n = static_cast<size_t>(i) + 1; n < plan.phases.size();
                ++n)
             if (const Phase &next = plan.phases[n];
                 next.device == phase.device)
               return next.firstLayer != phase.firstLayer ||
                      next.lastLayer != phase.lastLayer;
           return true;
         });
         if (p < 0)
           return false;
         plan.phases[p].frees = false;
         return true;
       }},
      {"microbatches of another size", false,
       [](Plan &plan, const Problem &, Generator &g) {
         Phase &phase = plan.phases[below(g, plan.phases.size())];
         phase.microbatch = phase.microbatch == 1 ? 2 : phase.microbatch - 1;
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
  };
}

} // namespace harmony::planner::test
