//===- VerifyDevicesTest.cpp - Invariants of several devices, broken ------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What a plan of several devices must never do, by invariant: each row breaks
// one in a plan that is valid, and names the rule that is to say so. Bytes,
// peaks and traffic are made good where the damage would give itself away by
// them.
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Mutate.h"
#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Partition.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

struct Case {
  Problem problem;
  Machine machine;
  Plan plan;

  const Event &event(int e) const { return plan.events[e]; }
  Event &event(int e) { return plan.events[e]; }

  /// The first event that satisfies `accept`; the test fails without one.
  template <typename Accept>
  int find(Accept accept) const {
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e)
      if (accept(plan.events[e]))
        return e;
    ADD_FAILURE() << "the plan has no such event";
    return 0;
  }
  int first(EventKind kind) const {
    return find([&](const Event &event) { return event.kind == kind; });
  }
  void erase(int e) { eraseEvent(plan, problem, e); }
  void dropWaits(int e, const std::function<bool(const Wait &)> &which) {
    std::vector<Wait> &waits = plan.events[e].waits;
    size_t before = waits.size();
    waits.erase(std::remove_if(waits.begin(), waits.end(), which), waits.end());
    EXPECT_LT(waits.size(), before) << "no such wait";
  }
  void dropWaitsFor(int e, EventKind kind) {
    dropWaits(e, [&](const Wait &wait) {
      return plan.events[wait.event].kind == kind;
    });
  }
};

Machine linked(int devices) {
  Link peer;
  peer.bytesPerSecond = 4e9;
  return Machine::uniform("test", devices, unlimited, 1e9, 0, peer);
}

/// A layer a pack; values stay on devices and go from one to the other.
Case laidOut(Problem problem, int groups, int pipeline, int64_t microbatch,
             const std::function<void(Choices &)> &change = {}) {
  Case c;
  c.problem = std::move(problem);
  c.machine = linked(groups * pipeline);
  Choices choices = leastChoices(c.problem, microbatch);
  choices.groups = groups;
  choices.phases = phasesOf(
      c.problem,
      uniformLayout(c.problem, groups, pipeline, Placement::Ring,
                    evenPartition(c.problem.layerCount(), 1), microbatch));
  choices.slots = 2;
  choices.place.assign(c.problem.values.size(), Place::Device);
  choices.gradientPlace = choices.place;
  if (change)
    change(choices);
  c.plan = makePlan(c.problem, c.machine, choices);
  return c;
}

/// A ring of two devices, eight microbatches of one sample.
Case ring() { return laidOut(chain(4, 8), 1, 2, 1); }

/// The same through the host store.
Case stashed() {
  return laidOut(chain(4, 8), 1, 2, 1, [](Choices &choices) {
    choices.peers = false;
    choices.place.assign(choices.place.size(), Place::Host);
  });
}

/// Two groups of a device each, of 4 and 3 samples in microbatches of 2: the
/// second ends with one of 1. Everything stays on both devices, updates are
/// where they are decided to be.
Case replicas() {
  Problem problem = chain(3, 7);
  problem.microbatches = {1, 2};
  for (Function &function : problem.functions) {
    Cost one = function.costs[0], two = one;
    two.microbatch = 2;
    two.savedBytes *= 2;
    two.forwardWorkspace *= 2;
    two.backwardWorkspace *= 2;
    function.costs = {one, two};
  }
  return laidOut(std::move(problem), 2, 1, 2, [](Choices &choices) {
    choices.updateOnHost.assign(3, 0);
    choices.resident.assign(3, 1);
    choices.stateResident.assign(3, 1);
    choices.owner = {0, 1, 0};
  });
}

/// Clipping by the global norm on two devices; tensor 0 is updated on the host.
Case clipped() {
  Problem problem = chain(3, 4);
  problem.epilogue = true;
  for (Tensor &tensor : problem.tensors) {
    tensor.contribution = static_cast<int>(problem.scalars.size());
    problem.scalars.push_back(
        {"square of " + tensor.name, 8, ScalarRole::Contribution, -1});
  }
  return laidOut(std::move(problem), 1, 2, 1, [](Choices &choices) {
    choices.update = UpdateOrder::Deferred;
    choices.updateOnHost = {1, 0, 0};
  });
}

/// Forward by 2 samples, backward by 4 on the other device: stashes are
/// gathered.
Case gathered() {
  Problem problem = chain(3, 8);
  for (Value &value : problem.values)
    value.sliceable = true;
  Layout layout =
      uniformLayout(problem, 1, 2, Placement::Ring, evenPartition(3, 1), 4);
  layout.forwardMicrobatch = 2;
  return laidOut(problem, 1, 2, 4, [&](Choices &choices) {
    choices.phases = phasesOf(problem, layout);
  });
}

/// Each of three devices loads a third of every tensor, and copies it to the
/// others.
Case sliced() {
  return laidOut(chain(3, 6), 3, 1, 1, [](Choices &choices) {
    choices.overlap = true;
    choices.gather.assign(3, Gather::Slices);
  });
}

/// The host updates what each of two devices has, on an engine of its own.
Case twoEngines() {
  Case c = ring();
  c.machine.hostQueues = 2;
  Choices choices = leastChoices(c.problem, 1);
  choices.phases = phasesOf(
      c.problem, uniformLayout(c.problem, 1, 2, Placement::Ring,
                               evenPartition(c.problem.layerCount(), 1), 1));
  c.plan = makePlan(c.problem, c.machine, choices);
  return c;
}

struct Row {
  int invariant;
  const char *what;
  const char *rule;
  Case (*make)();
  std::function<void(Case &)> damage;
};

const std::vector<Row> &rows() {
  static const std::vector<Row> table = {
      // 1: everything runs once, after its inputs; no deadlock.
      {1, "a phase does not run", "coverage", ring,
       [](Case &c) { c.erase(c.first(EventKind::Run)); }},
      {1, "a phase runs twice", "coverage", ring,
       [](Case &c) {
         int e = c.first(EventKind::Run);
         c.plan.events.push_back(c.event(e));
       }},
      {1, "samples are combined otherwise backwards than forwards",
       "microbatch", gathered, [](Case &c) { c.problem.mixing = true; }},
      {1, "a Run does not wait for the copy of its input", "read-order", ring,
       [](Case &c) {
         int e = c.find([&](const Event &event) {
           return event.kind == EventKind::Run && event.device == 1;
         });
         c.dropWaitsFor(e, EventKind::CopyValue);
       }},
      {1, "a copy and its receiver wait for each other", "deadlock", ring,
       [](Case &c) {
         int copy = c.first(EventKind::CopyValue);
         int run = c.find([&](const Event &event) {
           return event.kind == EventKind::Run &&
                  event.device == c.event(copy).device;
         });
         c.event(copy).waits.push_back({run, 0, false});
       }},
      {1, "a ring waits for a microbatch too many", "deadlock", ring,
       [](Case &c) {
         bool found = false;
         for (Event &event : c.plan.events)
           for (Wait &wait : event.waits)
             if (!found && wait.lag > 0 && event.kind == EventKind::CopyValue) {
               wait.lag = 0;
               found = true;
             }
         EXPECT_TRUE(found);
       }},
      // 2: capacity at every instant; periodic.
      {2, "the second device is too small", "capacity", ring,
       [](Case &c) {
         c.machine.devices[1].capacity = c.plan.peakBytes[1] - 1;
       }},
      {2, "two live buffers share bytes", "overlap", replicas,
       [](Case &c) {
         int last = -1;
         for (size_t b = 0; b < c.plan.buffers.size(); ++b) {
           if (c.plan.buffers[b].device != 1 || !c.plan.buffers[b].persistent)
             continue;
           if (last >= 0)
             c.plan.buffers[b].offset = c.plan.buffers[last].offset;
           last = static_cast<int>(b);
         }
       }},
      {2, "a copy that stays is not refreshed", "persistent", replicas,
       [](Case &c) { c.erase(c.first(EventKind::CopyTensor)); }},
      {2, "the old copy is read in the next execution", "read", replicas,
       [](Case &c) { c.erase(c.first(EventKind::CopyTensor)); }},
      {2, "a copy that stays is never brought", "read", replicas,
       [](Case &c) {
         auto &load = c.plan.load;
         load.erase(std::find_if(load.begin(), load.end(),
                                 [](const ResidentTransfer &transfer) {
                                   return transfer.content == Content::Tensor &&
                                          transfer.device == 1;
                                 }));
       }},
      // 3: every layer has every sample once, in order; recomputation follows
      // its stash.
      {3, "the smaller microbatch is left out", "coverage", replicas,
       [](Case &c) {
         int p = static_cast<int>(std::find_if(c.plan.phases.begin(),
                                               c.plan.phases.end(),
                                               [](const Phase &phase) {
                                                 return phase.microbatch == 1;
                                               }) -
                                  c.plan.phases.begin());
         for (int e = static_cast<int>(c.plan.events.size()) - 1; e >= 0; --e)
           if (c.event(e).phase == p)
             c.erase(e);
         c.plan.phases.erase(c.plan.phases.begin() + p);
         for (Event &event : c.plan.events)
           event.phase -= event.phase > p;
       }},
      {3, "a sample is in two microbatches", "coverage", replicas,
       [](Case &c) {
         for (Phase &phase : c.plan.phases)
           phase.firstSample -= phase.microbatch == 1;
       }},
      {3, "a group has samples of another", "coverage", replicas,
       [](Case &c) { c.plan.phases[0].group = 1; }},
      {3, "recomputation does not wait for its stash", "read-order", stashed,
       [](Case &c) {
         int e = c.find([&](const Event &event) {
           return event.kind == EventKind::Run &&
                  c.plan.phases[event.phase].kind == PhaseKind::Backward &&
                  c.plan.phases[event.phase].steps[event.firstStep].kind ==
                      StepKind::Recompute &&
                  std::any_of(event.waits.begin(), event.waits.end(),
                              [&](const Wait &wait) {
                                return c.event(wait.event).kind ==
                                       EventKind::LoadValue;
                              });
         });
         c.dropWaitsFor(e, EventKind::LoadValue);
       }},
      {3, "the stash is not stored", "source", stashed,
       [](Case &c) { c.erase(c.first(EventKind::StoreValue)); }},
      // 4: a tensor is there, and not overwritten, while it is read.
      {4, "a tensor is not loaded for the second device", "read", ring,
       [](Case &c) {
         c.erase(c.find([&](const Event &event) {
           return event.kind == EventKind::LoadTensor && event.device == 1;
         }));
       }},
      {4, "a tensor is given up before its last step", "live-range", ring,
       [](Case &c) {
         for (Buffer &buffer : c.plan.buffers)
           if (buffer.content == Content::Tensor && buffer.device == 1)
             buffer.last = buffer.first;
       }},
      {4, "a copy is refreshed while it is still read", "write-order", replicas,
       [](Case &c) {
         for (Event &event : c.plan.events)
           if (event.kind == EventKind::CopyTensor)
             event.waits.clear();
       }},
      // 5: a gradient has all samples of all groups, once, and is used by one
      // update, before the next read.
      {5, "a group's part does not reach the update", "gradient", replicas,
       [](Case &c) { c.erase(c.first(EventKind::CopyGradient)); }},
      {5, "another tensor's part comes instead", "gradient", replicas,
       [](Case &c) {
         c.event(c.first(EventKind::CopyGradient)).use = 0;
         c.event(c.first(EventKind::CopyGradient)).object = 1;
       }},
      {5, "the update does not wait for the other group's part", "read-order",
       replicas,
       [](Case &c) {
         int copy = c.first(EventKind::CopyGradient);
         int e = c.find([&](const Event &event) {
           return event.kind == EventKind::Update &&
                  event.object == c.event(copy).object;
         });
         c.dropWaitsFor(e, EventKind::CopyGradient);
       }},
      {5, "a part is not zeroed", "gradient", replicas,
       [](Case &c) { c.erase(c.first(EventKind::ZeroGradient)); }},
      {5, "a tensor is updated by both groups", "update", replicas,
       [](Case &c) {
         Event event = c.event(c.first(EventKind::Update));
         event.device = 1 - event.device;
         event.queue = c.event(c.find([&](const Event &other) {
                          return other.kind == EventKind::Run &&
                                 other.device == event.device;
                        })).queue;
         c.plan.events.push_back(event);
       }},
      {5, "the next execution does not wait for the update", "read-order", ring,
       [](Case &c) {
         for (Event &event : c.plan.events)
           event.waits.erase(
               std::remove_if(event.waits.begin(), event.waits.end(),
                              [](const Wait &w) { return w.previousStep; }),
               event.waits.end());
       }},
      {5, "an update does not wait for the epilogue", "epilogue", clipped,
       [](Case &c) { c.erase(c.first(EventKind::Epilogue)); }},
      {5, "the epilogue does not wait for a contribution", "read-order",
       clipped,
       [](Case &c) { c.event(c.first(EventKind::Epilogue)).waits.clear(); }},
      {5, "a device's update does not wait for the epilogue", "read-order",
       clipped,
       [](Case &c) {
         for (Event &event : c.plan.events)
           if (event.kind == EventKind::Update && !event.onHost)
             event.waits.erase(
                 std::remove_if(event.waits.begin(), event.waits.end(),
                                [&](const Wait &wait) {
                                  return c.event(wait.event).kind ==
                                         EventKind::Epilogue;
                                }),
                 event.waits.end());
       }},
      {5, "a contribution is missing", "epilogue", clipped,
       [](Case &c) { c.erase(c.first(EventKind::Contribute)); }},
      {5, "a contribution is delivered before it is there", "read-order",
       clipped,
       [](Case &c) {
         int e = c.find([&](const Event &event) {
           return event.kind == EventKind::StoreScalar &&
                  c.problem.scalars[event.object].role ==
                      ScalarRole::Contribution;
         });
         c.event(e).waits.clear();
       }},
      // 6: the source of a transfer holds the bytes all the while.
      {6, "a value is copied before it is made", "read-order", ring,
       [](Case &c) {
         int e = c.first(EventKind::CopyValue);
         c.dropWaitsFor(e, EventKind::Run);
       }},
      {6, "a slot is overwritten before its receiver is done", "write-order",
       ring,
       [](Case &c) {
         bool found = false;
         for (Event &event : c.plan.events)
           for (Wait &wait : event.waits)
             if (!found && wait.lag > 0 && event.device != event.source &&
                 event.source >= 0) {
               ++wait.lag;
               found = true;
             }
         EXPECT_TRUE(found);
       }},
      {6, "an old copy is spread instead of the new one", "read", replicas,
       [](Case &c) {
         Event &event = c.event(c.first(EventKind::CopyTensor));
         int back = c.find([&](const Event &other) {
           return c.plan.queues[other.queue].kind == QueueKind::Peer &&
                  other.source == event.device;
         });
         std::swap(event.source, event.device);
         event.queue = c.event(back).queue;
       }},
      {6, "a copy takes a way that is not there", "structure", ring,
       [](Case &c) {
         auto &links = c.machine.links;
         links.erase(std::remove_if(links.begin(), links.end(),
                                    [](const Link &link) {
                                      return link.from == 0 && link.to == 1;
                                    }),
                     links.end());
       }},
      // 7: what is gathered is there to the last byte.
      {7, "a gathered stash lacks the samples of one store", "source", gathered,
       [](Case &c) { c.erase(c.first(EventKind::StoreValue)); }},
      {7, "a gathering load does not wait for both of its stores", "read-order",
       gathered,
       [](Case &c) {
         bool found = false;
         for (Event &event : c.plan.events)
           for (Wait &wait : event.waits)
             if (!found && wait.times == 2) {
               ++wait.lag;
               found = true;
             }
         EXPECT_TRUE(found);
       }},
      {1, "an update runs on an engine that the host has not", "structure",
       twoEngines, [](Case &c) { c.machine.hostQueues = 1; }},
      {7, "a slice is not copied", "slices", sliced,
       [](Case &c) { c.erase(c.first(EventKind::CopyTensor)); }},
      {7, "a slice is not loaded", "slices", sliced,
       [](Case &c) { c.erase(c.first(EventKind::LoadTensor)); }},
      {7, "a slice is copied twice", "slices", sliced,
       [](Case &c) {
         int first = c.first(EventKind::CopyTensor);
         c.event(first).firstByte = c.event(first).firstByte == 0 ? 64 : 0;
       }},
      {7, "a slice is copied before it is loaded", "read-order", sliced,
       [](Case &c) {
         c.dropWaitsFor(c.first(EventKind::CopyTensor), EventKind::LoadTensor);
       }},
      {7, "a run does not wait for a slice", "read-order", sliced,
       [](Case &c) {
         auto isCopy = [&](const Wait &wait) {
           return c.event(wait.event).kind == EventKind::CopyTensor;
         };
         int run = c.find([&](const Event &event) {
           return event.kind == EventKind::Run &&
                  std::any_of(event.waits.begin(), event.waits.end(), isCopy);
         });
         c.dropWaits(run, isCopy);
       }},
      {7, "a slice begins between two multiples of the alignment", "traffic",
       sliced,
       [](Case &c) {
         Event &slice = c.event(c.find([](const Event &event) {
           return event.kind == EventKind::LoadTensor && event.firstByte > 0;
         }));
         slice.firstByte += 4;
         slice.bytes -= 4;
       }},
      {7, "a copy moves less than the tensor", "slices", replicas,
       [](Case &c) {
         c.event(c.first(EventKind::CopyTensor)).bytes -= 64;
         c.plan.traffic = trafficOf(c.plan, c.problem);
       }},
  };
  return table;
}

std::string brokenRules(const Case &c) {
  std::string rules;
  for (const Violation &violation : c.plan.verify(c.problem, c.machine, 100))
    rules += violation.rule + ": " + violation.message + "\n";
  return rules;
}

TEST(VerifyDevices, AcceptsTheUndamaged) {
  for (auto make : {ring, stashed, replicas, clipped, gathered}) {
    Case c = make();
    EXPECT_EQ(problemsOf(c.plan, c.problem, c.machine), "");
  }
}

TEST(VerifyDevices, EveryInvariantIsBrokenByItsRows) {
  std::set<int> invariants;
  for (const Row &row : rows()) {
    SCOPED_TRACE("invariant " + std::to_string(row.invariant) + ", " +
                 row.what);
    Case c = row.make();
    row.damage(c);
    std::string broken = brokenRules(c);
    EXPECT_NE(("\n" + broken).find(std::string("\n") + row.rule + ": "),
              std::string::npos)
        << row.rule << " is not broken, but:\n"
        << broken;
    invariants.insert(row.invariant);
  }
  EXPECT_EQ(invariants.size(), 7u);
}

TEST(VerifyDevices, SecondCopiesAreReportedNotRefused) {
  // Nothing stays, but the turn reads the tensor that the pack before it read
  // on the same device.
  Problem problem = chain(2, 4);
  problem.layers[1].tensors = problem.layers[0].tensors;
  problem.link();
  Case once = laidOut(problem, 1, 1, 1, [](Choices &choices) {
    choices.pinned.assign(choices.pinned.size(), 1);
  });
  Case again =
      laidOut(problem, 1, 1, 1, [](Choices &choices) { choices.stay = false; });
  for (const Case *c : {&once, &again})
    EXPECT_EQ(problemsOf(c->plan, c->problem, c->machine), "");
  EXPECT_TRUE(redundantLoads(once.plan).empty());
  std::vector<int> loads = redundantLoads(again.plan);
  ASSERT_FALSE(loads.empty());
  for (int e : loads)
    EXPECT_EQ(again.plan.events[e].kind, EventKind::LoadTensor);
}

} // namespace
