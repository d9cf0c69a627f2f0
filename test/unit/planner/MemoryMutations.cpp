//===- MemoryMutations.cpp - Damage to buffers and homes ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Draw.h"
#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Mutations.h"

namespace harmony::planner::test {

namespace {

/// A buffer that is live for more than a step, or -1.
int drawLiving(const Plan &plan, Generator &generator) {
  return draw(generator, plan.buffers.size(), [&](int i) {
    const Buffer &buffer = plan.buffers[i];
    return !buffer.persistent && buffer.first < buffer.last;
  });
}

} // namespace

std::vector<Mutation> memoryMutations() {
  return {
      {"end a live range at its beginning", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int b = drawLiving(plan, g);
         if (b < 0)
           return false;
         plan.buffers[b].last = plan.buffers[b].first;
         return true;
       }},
      {"begin a live range at its end", false,
       [](Plan &plan, const Problem &, Generator &g) {
         int b = drawLiving(plan, g);
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
      {"make a home smaller", false,
       [](Plan &plan, const Problem &, Generator &g) {
         Home &home = plan.homes[below(g, plan.homes.size())];
         home.size -= 1 + below(g, static_cast<size_t>(home.size));
         return true;
       }},
  };
}

} // namespace harmony::planner::test
