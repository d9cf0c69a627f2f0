//===- VerifyTest.cpp - Every rule of Plan::verify, broken once -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Problems.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

struct Case {
  Problem problem;
  Machine machine = test::machine(unlimited);
  Plan plan;
};

/// Three layers, a pack each; everything is swapped, updates on the host.
Case swapped() {
  Case c;
  c.problem = chain(3, 4);
  c.plan = makePlan(c.problem, leastChoices(c.problem, 1));
  return c;
}

/// The same with everything resident and updates on the device.
Case resident() {
  Case c;
  c.problem = chain(3, 4);
  Choices choices = leastChoices(c.problem, 1);
  choices.updateOnHost.assign(3, 0);
  choices.resident.assign(3, 1);
  choices.stateResident.assign(3, 1);
  c.plan = makePlan(c.problem, choices);
  return c;
}

Case delivering() {
  Case c;
  c.problem = evaluation(chain(3, 4));
  c.plan = makePlan(c.problem, leastChoices(c.problem, 1));
  return c;
}

Buffer &bufferOf(Plan &plan, Content content) {
  return *std::find_if(
      plan.buffers.begin(), plan.buffers.end(),
      [&](const Buffer &buffer) { return buffer.content == content; });
}

void eraseOne(Case &c, EventKind kind) {
  eraseEvent(c.plan, c.problem, findEvent(c.plan, kind));
}

/// The next execution loads the first weight without waiting for its update.
void forgetUpdate(Plan &plan) {
  std::vector<Wait> &waits =
      plan.events[findEvent(plan, EventKind::LoadTensor, 0)].waits;
  waits.erase(std::remove_if(waits.begin(), waits.end(),
                             [&](const Wait &wait) {
                               return plan.events[wait.event].kind ==
                                      EventKind::Update;
                             }),
              waits.end());
}

struct Row {
  const char *rule;
  Case (*make)();
  std::function<void(Case &)> damage;
};

const std::vector<Row> &rows() {
  static const std::vector<Row> table = {
      {"structure", swapped, [](Case &c) { c.plan.events[3].queue = 99; }},
      {"structure", swapped,
       [](Case &c) { c.plan.events[3].waits.push_back({1000, 0, false}); }},
      {"structure", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::LoadTensor)].queue = 0;
       }},
      {"structure", swapped, [](Case &c) { c.plan.phases[0].frees = false; }},
      {"structure", swapped,
       [](Case &c) { c.plan.phases.back().frees = false; }},
      {"coverage", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::Run)].trips = 3;
       }},
      {"coverage", swapped, [](Case &c) { c.plan.phases[2].steps.pop_back(); }},
      {"coverage", swapped, [](Case &c) { c.plan.phases[0].keep = {1}; }},
      {"coverage", swapped, [](Case &c) { eraseOne(c, EventKind::Run); }},
      {"coverage", swapped, [](Case &c) { c.plan.phases[1].microbatch = 2; }},
      {"microbatch", swapped, [](Case &c) { c.problem.microbatches = {2, 4}; }},
      {"epilogue", swapped, [](Case &c) { c.problem.epilogue = true; }},
      {"size", swapped,
       [](Case &c) { bufferOf(c.plan, Content::Value).slotBytes -= 4; }},
      {"size", swapped, [](Case &c) { c.plan.homes[0].size += 4; }},
      {"alignment", swapped,
       [](Case &c) { bufferOf(c.plan, Content::Tensor).offset += 4; }},
      {"live-range", swapped,
       [](Case &c) {
         Buffer &buffer = bufferOf(c.plan, Content::Tensor);
         buffer.last = buffer.first;
       }},
      {"overlap", swapped,
       [](Case &c) {
         // A weight and the value that is computed with it.
         bufferOf(c.plan, Content::Value).offset =
             bufferOf(c.plan, Content::Tensor).offset;
       }},
      {"capacity", swapped,
       [](Case &c) {
         c.machine.devices[0].capacity = c.plan.peakBytes[0] - 1;
       }},
      {"capacity", swapped,
       [](Case &c) { c.machine.hostBytes = c.plan.hostBytes - 1; }},
      {"peak", swapped, [](Case &c) { c.plan.peakBytes[0] -= 64; }},
      {"host", swapped,
       [](Case &c) { c.plan.homes[1].offset = c.plan.homes[0].offset; }},
      {"host", swapped, [](Case &c) { c.plan.homes.pop_back(); }},
      {"traffic", swapped, [](Case &c) { c.plan.traffic[0] += 1; }},
      {"traffic", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::LoadTensor)].bytes += 4;
       }},
      {"traffic", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::LoadTensor)].bytes = 0;
       }},
      {"slices", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::LoadTensor)].bytes -= 4;
       }},
      {"deadlock", swapped,
       [](Case &c) {
         int last = static_cast<int>(c.plan.events.size()) - 1;
         c.plan.events[findEvent(c.plan, EventKind::LoadTensor)]
             .waits.push_back({last, Wait::whole, false});
       }},
      {"read", swapped, [](Case &c) { eraseOne(c, EventKind::LoadTensor); }},
      {"read-order", swapped,
       [](Case &c) {
         c.plan.events[findEvent(c.plan, EventKind::Run)].waits.clear();
       }},
      {"write-order", swapped, [](Case &c) { forgetUpdate(c.plan); }},
      {"source", swapped, [](Case &c) { eraseOne(c, EventKind::StoreValue); }},
      {"gradient", swapped,
       [](Case &c) { eraseOne(c, EventKind::ZeroGradient); }},
      {"gradient", swapped,
       [](Case &c) { eraseOne(c, EventKind::StoreGradient); }},
      {"update", swapped, [](Case &c) { eraseOne(c, EventKind::Update); }},
      {"update", swapped,
       [](Case &c) {
         c.plan.events.push_back(
             c.plan.events[findEvent(c.plan, EventKind::Update)]);
       }},
      {"update", resident,
       [](Case &c) { c.problem.tensors[1].updatePlace = UpdatePlace::Host; }},
      {"scalar", swapped, [](Case &c) { eraseOne(c, EventKind::ZeroScalar); }},
      {"scalar", swapped, [](Case &c) { eraseOne(c, EventKind::LoadScalar); }},
      {"scalar", swapped, [](Case &c) { eraseOne(c, EventKind::StoreScalar); }},
      {"output", delivering,
       [](Case &c) {
         int logits = static_cast<int>(c.problem.values.size()) - 1;
         eraseEvent(c.plan, c.problem,
                    findEvent(c.plan, EventKind::StoreValue, logits));
       }},
      {"persistent", resident, [](Case &c) { c.plan.store.pop_back(); }},
      {"persistent", resident,
       [](Case &c) { bufferOf(c.plan, Content::State).last = {3, 0}; }},
      {"persistent", resident,
       [](Case &c) {
         c.plan.buffers[c.plan.load[0].buffer].persistent = false;
       }},
      {"update", resident, [](Case &c) { c.plan.load.pop_back(); }},
  };
  return table;
}

std::set<std::string> rulesBroken(const Case &c) {
  std::set<std::string> rules;
  for (const Violation &violation : c.plan.verify(c.problem, c.machine, 100))
    rules.insert(violation.rule);
  return rules;
}

TEST(Verify, AcceptsTheUndamaged) {
  for (auto make : {swapped, resident, delivering}) {
    Case c = make();
    EXPECT_EQ(problemsOf(c.plan, c.problem, c.machine), "");
  }
}

TEST(Verify, EveryRuleIsBrokenByItsMutation) {
  for (size_t i = 0; i < rows().size(); ++i) {
    const Row &row = rows()[i];
    Case c = row.make();
    row.damage(c);
    EXPECT_TRUE(rulesBroken(c).count(row.rule))
        << "row " << i << " (" << row.rule
        << "): " << problemsOf(c.plan, c.problem, c.machine);
  }
}

TEST(Verify, EveryRuleHasARow) {
  std::set<std::string> tested;
  for (const Row &row : rows())
    tested.insert(row.rule);
  EXPECT_EQ(tested,
            std::set<std::string>(verifyRules.begin(), verifyRules.end()));
}

TEST(Verify, NamesBothEvents) {
  Case c = swapped();
  forgetUpdate(c.plan);
  std::vector<Violation> violations = c.plan.verify(c.problem, c.machine);
  ASSERT_EQ(violations.size(), 1u);
  // The load overwrites the address at which the last Run still reads.
  EXPECT_EQ(violations[0].rule, "read-order");
  EXPECT_EQ(violations[0].first, findEvent(c.plan, EventKind::LoadTensor, 0));
  ASSERT_GE(violations[0].second, 0);
  EXPECT_EQ(c.plan.events[violations[0].second].kind, EventKind::Run);
  EXPECT_NE(violations[0].message.find("layer0.weight"), std::string::npos);
}

TEST(Verify, StopsAtTheLimit) {
  Case c = swapped();
  for (Event &event : c.plan.events)
    event.waits.clear();
  EXPECT_EQ(c.plan.verify(c.problem, c.machine, 3).size(), 3u);
}

} // namespace
