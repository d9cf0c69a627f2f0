//===- JsonTest.cpp - Documents, and what is refused in them --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Json.h"
#include "compiler/Planner/Layout.h"

#include <nlohmann/json.hpp>

#include <functional>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;
using nlohmann::json;

namespace {

TEST(Json, RoundTrips) {
  std::mt19937 generator(3);
  for (int round = 0; round < 50; ++round) {
    Problem problem = random(generator);
    json written = toJson(problem);
    Problem read =
        problemFromJson(parseJson(written.dump(), "text"), "problem.json");
    EXPECT_EQ(toJson(read), written);
    Plan plan = makePlan(problem, randomChoices(problem, generator));
    written = toJson(plan);
    EXPECT_EQ(jsonText(plan), written.dump(1));
    Plan again = planFromJson(parseJson(written.dump(), "text"), "plan.json");
    EXPECT_EQ(toJson(again), written);
    EXPECT_EQ(problemsOf(again, read), "");
    json summary = {{"form", "1 group"}, {"peak_bytes", plan.peakBytes}};
    written["summary"] = summary;
    EXPECT_EQ(jsonText(plan, &summary), written.dump(1));
  }
  Machine machine = Machine::uniform("two", 2, 1000, 1e9, 1e-6);
  machine.sharing = Sharing::Static;
  EXPECT_EQ(toJson(machineFromJson(toJson(machine), "machine.json")),
            toJson(machine));
  EXPECT_EQ(machineFromJson(toJson(machine), "machine.json").sharing,
            Sharing::Static);
}

TEST(Json, MachinesKeepWhatLinksShare) {
  for (const std::string &name : Machine::names()) {
    Machine machine = *Machine::named(name);
    Machine again = machineFromJson(parseJson(toJson(machine).dump(), "text"),
                                    "machine.json");
    EXPECT_EQ(toJson(again), toJson(machine));
    EXPECT_EQ(again.hostQueues, machine.hostQueues);
    EXPECT_EQ(again.phaseSeconds, machine.phaseSeconds);
    ASSERT_EQ(again.resources.size(), machine.resources.size());
    for (size_t r = 0; r < machine.resources.size(); ++r) {
      EXPECT_EQ(again.resources[r].name, machine.resources[r].name);
      EXPECT_EQ(again.resources[r].bytesPerSecond,
                machine.resources[r].bytesPerSecond);
    }
    for (size_t l = 0; l < machine.links.size(); ++l)
      EXPECT_EQ(again.links[l].shares, machine.links[l].shares);
  }
}

/// Every member at a value that is not its default.
TEST(Json, PlansOfSeveralDevicesKeepEveryMember) {
  Plan plan;
  plan.problem = "p";
  plan.batch = 7;
  plan.groups = 2;
  plan.update = UpdateOrder::Deferred;
  plan.queues = {{QueueKind::Peer, 1, 1}};
  Phase phase{1, PhaseKind::Backward, 2, 3, 2, 4, 1, 5, 1, false, {1, 2}, {}};
  phase.steps = {{3, StepKind::Recompute}};
  plan.phases = {phase};
  Event event;
  event.kind = EventKind::CopyValueGradient;
  event.device = 2;
  event.source = 1;
  event.object = 3;
  event.use = 4;
  event.phase = 0;
  event.firstStep = 1;
  event.endStep = 2;
  event.onHost = true;
  event.trips = 3;
  event.bytes = 64;
  event.waits = {
      {0, 2, false, 3, 1}, {0, 1, false, 1, 4}, {0, Wait::whole, true, 1, 1}};
  plan.events = {event};
  Buffer buffer;
  buffer.content = Content::Gradient;
  buffer.object = 1;
  buffer.use = 3;
  buffer.firstSample = 4;
  buffer.device = 1;
  buffer.offset = 128;
  buffer.slotBytes = 60;
  buffer.stride = 64;
  buffer.slots = 2;
  buffer.persistent = true;
  plan.buffers = {buffer};
  plan.homes = {{HomeKind::Gradient, 1, 3, 64, 60}};
  plan.load = plan.store = {{Content::State, 1, 1, 0}};
  plan.peakBytes = {1, 2};
  plan.hostBytes = 3;
  plan.traffic = {1, 2, 3, 4, 5};
  plan.seconds = 0.5;
  plan.computeSeconds = 0.25;
  Plan again =
      planFromJson(parseJson(toJson(plan).dump(), "text"), "plan.json");
  EXPECT_EQ(toJson(again), toJson(plan));
  EXPECT_EQ(again.groups, 2);
  EXPECT_EQ(again.queues[0].kind, QueueKind::Peer);
  const Phase &p = again.phases[0];
  EXPECT_EQ(p.firstSample, 4);
  EXPECT_EQ(p.trips, 1);
  EXPECT_EQ(p.firstMicrobatch, 5);
  EXPECT_EQ(p.group, 1);
  EXPECT_FALSE(p.frees);
  const Event &e = again.events[0];
  EXPECT_EQ(e.kind, EventKind::CopyValueGradient);
  EXPECT_EQ(e.source, 1);
  EXPECT_EQ(e.firstStep, 1);
  EXPECT_EQ(e.endStep, 2);
  ASSERT_EQ(e.waits.size(), 3u);
  EXPECT_EQ(e.waits[0].times, 3);
  EXPECT_EQ(e.waits[1].every, 4);
  EXPECT_TRUE(e.waits[2].previousStep);
  EXPECT_EQ(again.buffers[0].firstSample, 4);
  EXPECT_EQ(again.homes[0].size, 60);
}

TEST(Json, ProblemsKeepContributionsAndSlices) {
  Problem problem = chain(2, 4);
  problem.epilogue = true;
  problem.scalars.push_back({"norm", 4, ScalarRole::Contribution, -1});
  problem.tensors[0].contribution = 2;
  problem.values[0].sliceable = true;
  problem.layers[0].tensors[0].recomputeReads = 1;
  problem.layers[1].inputs[0].recomputeReads = 2;
  Problem again = problemFromJson(toJson(problem), "problem.json");
  EXPECT_EQ(toJson(again), toJson(problem));
  EXPECT_TRUE(again.epilogue);
  EXPECT_EQ(again.tensors[0].contribution, 2);
  EXPECT_EQ(again.scalars[2].role, ScalarRole::Contribution);
  EXPECT_EQ(again.scalars[1].layer, 1);
  EXPECT_TRUE(again.values[0].sliceable);
  EXPECT_FALSE(again.values[1].sliceable);
  EXPECT_EQ(again.layers[0].tensors[0].recomputeReads, 1);
  EXPECT_EQ(again.layers[0].inputs[0].recomputeReads, everyLevel);
  EXPECT_EQ(again.layers[1].inputs[0].recomputeReads, 2);
}

TEST(Json, DamagedMachinesAreRefused) {
  struct Row {
    const char *message;
    std::function<void(json &)> damage;
  };
  const Row rows[] = {
      {"f.json.links[0].shares[0] is \"a\", accepted is an integer",
       [](json &j) { j["links"][0]["shares"][0] = "a"; }},
      {"shares resource 9", [](json &j) { j["links"][0]["shares"][0] = 9; }},
      {"f.json.resources[0]: key 'bytesPerSecond' is missing",
       [](json &j) { j["resources"][0].erase("bytesPerSecond"); }},
      {"f.json.resources[1]: unknown key 'speed'",
       [](json &j) { j["resources"][1]["speed"] = 1; }},
      {"f.json.sharing is 'equal', accepted are max-min, static",
       [](json &j) { j["sharing"] = "equal"; }},
      {"hostQueues is 0, accepted range is [1, 256]",
       [](json &j) { j["hostQueues"] = 0; }},
      {"phaseSeconds is -1, accepted is from 0 to 1e9",
       [](json &j) { j["phaseSeconds"] = -1; }},
      {"hostUpdateBytesPerSecond is -2, accepted is 0 (not known), or from 1 "
       "to 1e30",
       [](json &j) { j["hostUpdateBytesPerSecond"] = -2; }},
      {"f.json.devices[0].capacity is 9223372036854775808, accepted is at most "
       "9223372036854775807",
       [](json &j) { j["devices"][0]["capacity"] = uint64_t(1) << 63; }},
      {"f.json.links[0].shares[0] is 18446744073709551615, accepted is at most",
       [](json &j) { j["links"][0]["shares"][0] = UINT64_MAX; }},
      // Times of plans are finite.
      {"flopsPerSecond of device 'device0' is 1e-300, accepted is from 1 to "
       "1e30",
       [](json &j) { j["devices"][0]["flopsPerSecond"] = 1e-300; }},
      {"launchSeconds of device 'device0' is 1e+300, accepted is from 0 to 1e9",
       [](json &j) { j["devices"][0]["launchSeconds"] = 1e300; }},
      {"link from the host to device 0 has bandwidth 0.5 and latency 0, "
       "accepted is from 1 to 1e30, and from 0 to 1e9",
       [](json &j) { j["links"][0]["bytesPerSecond"] = 0.5; }},
      {"link from the host to device 0 has bandwidth 1.2348e+10 and latency "
       "1e+308",
       [](json &j) { j["links"][0]["latencySeconds"] = 1e308; }},
      {"resource 'from the host' has bandwidth 1e+31, accepted is from 1 to "
       "1e30",
       [](json &j) { j["resources"][0]["bytesPerSecond"] = 1e31; }},
      // One of two would be left aside, or count twice.
      {"a second link from the host to device 0, accepted is one in each",
       [](json &j) { j["links"].push_back(j["links"][0]); }},
      {"link from the host to device 0 shares a resource twice",
       [](json &j) { j["links"][0]["shares"] = {0, 0}; }},
  };
  json good = toJson(*Machine::named("harmony-1080ti"));
  for (const Row &row : rows) {
    json document = good;
    row.damage(document);
    try {
      machineFromJson(document, "f.json");
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
}

TEST(Json, TextThatMeansTwoThingsOrNoneIsRefused) {
  auto refusal = [](const std::string &text) -> std::string {
    try {
      parseJson(text, "m.json");
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(R"({"a": [1, {"b": null}], "b": {"a": 2}})"), "");
  EXPECT_EQ(refusal("{\"a\": 1,\n \"a\": 1}"),
            "m.json: key 'a' is there twice, the second time in line 2");
  EXPECT_EQ(refusal("{\"devices\": [{\"name\": 0},\n{\"memory\": {\n"
                    "\"rates\": [],\n\"\\u0072ates\":\n[]}}]}"),
            "m.json.devices[1].memory: key 'rates' is there twice, the second "
            "time in line 4");
  EXPECT_EQ(refusal("{\"a\": 1,\n\"b\" 2}").substr(0, 41),
            "m.json: is not JSON: parse error at line ");
  EXPECT_EQ(refusal("[1e999]"),
            "m.json: is not JSON: number overflow parsing '1e999'");
  auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_EQ(refusal("\n" + nested(1000000)),
            "m.json: line 2 is nested more than 64 levels deep");
}

TEST(Json, NamesKeyValueAndWhatIsAccepted) {
  struct Row {
    const char *message;
    std::function<void(json &)> damage;
  };
  const Row rows[] = {
      {"f.json: key 'batch' is missing", [](json &j) { j.erase("batch"); }},
      {"f.json.batch is \"8\", accepted is an integer",
       [](json &j) { j["batch"] = "8"; }},
      {"f.json: unknown key 'extra'", [](json &j) { j["extra"] = 1; }},
      {"f.json.schema is 'harmony.plan', accepted is 'harmony.profile'; this "
       "is a plan, for --plan-in FILE beside its model",
       [](json &j) { j["schema"] = "harmony.plan"; }},
      {"f.json.version is 2, accepted is 1", [](json &j) { j["version"] = 2; }},
      {"f.json.layers[1].isLoss is 0, accepted is true or false",
       [](json &j) { j["layers"][1]["isLoss"] = 0; }},
      {"f.json.tensors[0].updatePlace is 'disk', accepted are any, host, "
       "device",
       [](json &j) { j["tensors"][0]["updatePlace"] = "disk"; }},
      {"f.json.tensors is {}, accepted is a list",
       [](json &j) { j["tensors"] = json::object(); }},
      {"f.json.values[0] is 3, accepted is an object",
       [](json &j) { j["values"][0] = 3; }},
      {"f.json: layer 'layer1': tensor index is 77",
       [](json &j) { j["layers"][1]["tensors"][0]["tensor"] = 77; }},
      {"f.json: batch is 0", [](json &j) { j["batch"] = 0; }},
  };
  json good = toJson(chain(3, 4));
  for (const Row &row : rows) {
    json document = good;
    row.damage(document);
    try {
      problemFromJson(document, "f.json");
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(parseJson("{\"a\": ", "f.json"), Error);
}

/// Every number of a plan, one at a time, replaced by others: an error, a
/// violation or a plan that is as good, never a crash.
void damageNumbers(const Plan &plan, const Problem &problem,
                   const Machine &machine) {
  ASSERT_EQ(problemsOf(plan, problem, machine), "");
  json good = toJson(plan);
  std::vector<json::json_pointer> places;
  json flat = good.flatten();
  for (const auto &[key, value] : flat.items())
    if (value.is_number_integer())
      places.push_back(json::json_pointer(key));
  int refused = 0;
  for (const json::json_pointer &place : places)
    for (int64_t value : {int64_t(-2), int64_t(-1), int64_t(0), int64_t(1),
                          int64_t(1000000), int64_t(1) << 40}) {
      json document = good;
      if (document[place] == value)
        continue;
      document[place] = value;
      try {
        Plan damaged = planFromJson(document, "plan.json");
        refused += !damaged.verify(problem, machine).empty();
      } catch (const Error &) {
        ++refused;
      }
    }
  EXPECT_GT(refused, static_cast<int>(places.size()) * 4);
}

TEST(Json, DamagedPlansNeverCrash) {
  Problem problem = chain(2, 2);
  damageNumbers(makePlan(problem, leastChoices(problem, 1)), problem,
                machine(unlimited));
}

TEST(Json, DamagedPlansOfSeveralDevicesNeverCrash) {
  // Two groups of a device each; gradients and tensors are copied.
  Problem problem = chain(2, 2);
  Link peer;
  peer.bytesPerSecond = 1e9;
  Machine two = Machine::uniform("two", 2, unlimited, 1e9, 0, peer);
  Choices choices = leastChoices(problem, 1);
  choices.groups = 2;
  choices.phases = phasesOf(
      problem, uniformLayout(problem, 2, 1, Placement::Ring, {0, 1}, 1));
  choices.updateOnHost.assign(2, 0);
  choices.resident.assign(2, 1);
  Plan plan = makePlan(problem, two, choices);
  EXPECT_GT(plan.traffic[static_cast<int>(Traffic::Peer)], 0);
  damageNumbers(plan, problem, two);
}

TEST(Json, SummaryHasTheKeysOfTheInterface) {
  Problem problem = chain(3, 4);
  Planned planned = std::get<Planned>(solve(problem, machine(unlimited)));
  json summary = summaryJson(planned, problem);
  for (const char *key :
       {"iteration_s", "samples_per_s", "compute_bound_s",
        "training_state_bytes", "min_device_bytes", "swap_in_bytes",
        "swap_out_bytes", "peer_bytes", "peak_bytes", "host_bytes"})
    EXPECT_TRUE(summary.contains(key)) << key;
  EXPECT_EQ(summary["training_state_bytes"], 3 * 4 * 4096);
  EXPECT_EQ(summary["peak_bytes"].size(), 1u);
  ASSERT_GT(summary["best_of_forms"].size(), 0u);
  EXPECT_LE(summary["best_of_forms"][0]["iteration_s"], summary["iteration_s"]);
}

TEST(Describe, TellsPacksTrafficAndPeaks) {
  Problem problem = transformer(4, 8, 64, 32, 96);
  Machine small = machine(2 * minDeviceBytes(problem, machine(unlimited)));
  Planned planned = std::get<Planned>(solve(problem, small));
  std::string text = describe(planned, problem, small);
  for (const char *part : {"plan of transformer", "microbatches of", "packs",
                           "update:", "moves:", "device 0: peak",
                           "host store:", "least device memory:"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Describe, TellsDevicesAndGroups) {
  Problem problem = transformer(4, 8, 64, 32, 96);
  Link peer;
  peer.bytesPerSecond = 1e9;
  Machine two = Machine::uniform("two", 2, unlimited, 1e9, 0, peer);
  SearchOptions options;
  options.schedule = Schedule::HarmonyDp;
  options.microbatch = 2;
  Planned planned = std::get<Planned>(solve(problem, two, options));
  std::string text = describe(planned, problem, two);
  for (const char *part : {"on two, 2 devices, harmony-dp",
                           "batch 8 in 2 groups as 4 microbatches",
                           "on devices 0 and 1", "stays on the devices:",
                           "between devices", "device 1: peak", "computes"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Transfers, AreListedInIssueOrder) {
  Problem problem = chain(2, 4);
  Plan plan = makePlan(problem, leastChoices(problem, 2));
  std::vector<Transfer> transfers = requiredTransfers(plan, problem);
  std::array<int64_t, trafficCount> sums{};
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(transfers[i - 1].event, transfers[i].event);
    }
    sums[static_cast<int>(transfers[i].traffic)] += transfers[i].bytes;
  }
  EXPECT_EQ(sums, plan.traffic);
}

} // namespace
