//===- ArtifactTest.cpp - Estimates of Harmony's artifact -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The artifact's own estimates of 26 schedules, with and without prefetch, come
// out of our simulator exactly; and they do not where a rule is left out.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ArtifactSchedule.h"
#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

using namespace harmony::planner;
using nlohmann::json;

namespace {

json read(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return parseJson(text.str(), path.string());
}

struct Case {
  std::string name;
  ArtifactSchedule schedule;
  const ArtifactProfile *profile = nullptr;
  json stated;
};

const std::vector<Case> &cases() {
  static std::map<std::string, ArtifactProfile> profiles;
  static const std::vector<Case> list = [] {
    std::vector<Case> cases;
    std::filesystem::path folder = HARMONY_TEST_DATA "/harmony-artifact";
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".json")
        continue;
      json document = read(entry.path());
      if (!isArtifactSchedule(document))
        continue;
      Case item;
      item.name = entry.path().stem();
      item.schedule = artifactScheduleFromJson(document, item.name);
      std::string model = item.schedule.model;
      if (!profiles.count(model))
        profiles[model] =
            artifactProfileFromJson(read(folder / (model + ".json")), model);
      item.profile = &profiles.at(model);
      item.stated = std::move(document);
      cases.push_back(std::move(item));
    }
    std::sort(cases.begin(), cases.end(),
              [](const Case &a, const Case &b) { return a.name < b.name; });
    return cases;
  }();
  return list;
}

Machine artifactMachine() {
  Machine machine = *Machine::named("harmony-1080ti");
  machine.sharing = Sharing::Static;
  return machine;
}

/// The largest relative error of the iteration's time and of each device's end.
double error(const Case &item, const Machine &machine, ArtifactRules rules,
             bool prefetch) {
  rules.prefetch = prefetch;
  ArtifactEstimate estimate =
      estimateArtifact(item.schedule, *item.profile, machine, rules);
  const json &stated =
      item.stated["estimate"][prefetch ? "prefetch_offload" : "no_prefetch"];
  double iteration = stated["iteration_s"].get<double>();
  double worst = std::abs(estimate.seconds / iteration - 1);
  const json &ends = stated["per_rank_end_s"];
  EXPECT_EQ(ends.size(), estimate.deviceSeconds.size()) << item.name;
  for (size_t d = 0; d < ends.size() && d < estimate.deviceSeconds.size(); ++d)
    worst = std::max(
        worst, std::abs(estimate.deviceSeconds[d] / ends[d].get<double>() - 1));
  return worst;
}

TEST(Artifact, EstimatesAreThoseOfTheArtifact) {
  ASSERT_EQ(cases().size(), 26u);
  for (const Case &item : cases())
    for (bool prefetch : {false, true})
      EXPECT_LT(error(item, artifactMachine(), {}, prefetch), 1e-12)
          << item.name << (prefetch ? " with" : " without") << " prefetch";
}

TEST(Artifact, BytesAreThoseOfItsTaskGraphs) {
  for (const Case &item : cases())
    for (bool prefetch : {false, true}) {
      ArtifactRules rules;
      rules.prefetch = prefetch;
      ArtifactBytes bytes = estimateArtifact(item.schedule, *item.profile,
                                             artifactMachine(), rules)
                                .bytes;
      const json &all = item.stated["bytes_per_iteration"];
      const json &in = all["cpu_to_gpu"], &out = all["gpu_to_cpu"];
      EXPECT_EQ(bytes.weightsIn, in["W"]) << item.name;
      EXPECT_EQ(bytes.buffersIn, in["B"]) << item.name;
      EXPECT_EQ(bytes.inputs, in["input_X"]) << item.name;
      EXPECT_EQ(bytes.stashIn, in["stash_X"]) << item.name;
      EXPECT_EQ(bytes.valuesIn, in["X"]) << item.name;
      EXPECT_EQ(bytes.gradientsIn, in["dY"]) << item.name;
      EXPECT_EQ(bytes.weightGradientsOut, out["dW"]) << item.name;
      EXPECT_EQ(bytes.buffersOut, out["B"]) << item.name;
      EXPECT_EQ(bytes.stashOut, out["stash_X"]) << item.name;
      EXPECT_EQ(bytes.valuesOut, out["Y"]) << item.name;
      EXPECT_EQ(bytes.gradientsOut, out["dX"]) << item.name;
      EXPECT_EQ(bytes.peerValues, all["p2p"]["Y_to_X"]) << item.name;
      EXPECT_EQ(bytes.peerGradients, all["p2p"]["dX_to_dY"]) << item.name;
      EXPECT_EQ(bytes.weightsPinned, all["pinned_not_moved"]["W"]) << item.name;
      EXPECT_EQ(bytes.buffersPinned, all["pinned_not_moved"]["B"]) << item.name;
      EXPECT_EQ(bytes.swapped(), all["swap_total_excl_input"]) << item.name;
    }
}

/// Each rule broken alone, and the error that this makes at the worst of the
/// schedules: a comparison that would accept any of them shows nothing.
TEST(Artifact, EveryRuleCounts) {
  struct Row {
    const char *rule;
    double least; ///< error
    std::function<void(Machine &, ArtifactRules &)> breakIt;
  };
  auto scale = [](Machine &machine, double factor) {
    for (Link &link : machine.links)
      link.bytesPerSecond *= factor;
    for (Resource &resource : machine.resources)
      resource.bytesPerSecond *= factor;
  };
  const Row rows[] = {
      {"devices share the host's link", 0.2,
       [](Machine &m, ArtifactRules &) {
         for (Link &link : m.links)
           link.shares.clear();
       }},
      {"shares are an n-th at all times", 0.05,
       [](Machine &m, ArtifactRules &) { m.sharing = Sharing::MaxMin; }},
      {"backward is what the profile has less the forward", 0.2,
       [](Machine &, ArtifactRules &r) { r.backwardHoldsForward = false; }},
      {"a pack is freed", 0.05,
       [](Machine &m, ArtifactRules &) { m.phaseSeconds = 0; }},
      {"double buffers", 0.01,
       [](Machine &, ArtifactRules &r) { r.doubleBuffers = false; }},
      {"updates run beside", 0.03,
       [](Machine &, ArtifactRules &r) { r.updatesBeside = false; }},
      {"GiB, not GB", 0.02,
       [&](Machine &m, ArtifactRules &) { scale(m, 1e9 / (1 << 30)); }},
      {"rendezvous", 0.001,
       [](Machine &, ArtifactRules &r) { r.rendezvous = false; }},
  };
  for (const Row &row : rows) {
    Machine machine = artifactMachine();
    ArtifactRules rules;
    row.breakIt(machine, rules);
    double worst = 0;
    for (const Case &item : cases())
      for (bool prefetch : {false, true})
        worst = std::max(worst, error(item, machine, rules, prefetch));
    std::printf("without '%s': error %.4f\n", row.rule, worst);
    EXPECT_GT(worst, row.least) << row.rule;
  }
}

/// Messages between the host's processes are too small a part of those 26 to
/// be told; where a stash is all there is, they are not.
TEST(Artifact, MessagesTakeTheirTime) {
  ArtifactProfile profile;
  profile.weightBytes = profile.bufferBytes = profile.stateBytes = {0, 0, 0};
  profile.inputBytes = {0, 1 << 30, 0};
  profile.updateSeconds = {0, 0, 0};
  profile.forward = profile.backward = {{1, {0, 0, 0}, {0, 0, 0}}};
  ArtifactSchedule schedule;
  schedule.devices = 2;
  schedule.batch = schedule.forwardMicrobatch = schedule.backwardMicrobatch = 1;
  // Layer 1 runs forward on the first device, backward on the second.
  schedule.forwardPacks = {{0, 1}};
  schedule.backwardPacks = {{0, 0}, {1, 1}, {2, 2}};
  Machine machine = artifactMachine();
  machine.phaseSeconds = 0;
  ArtifactRules rules;
  double before = estimateArtifact(schedule, profile, machine, rules).seconds;
  rules.messageBytesPerSecond /= 2;
  double after = estimateArtifact(schedule, profile, machine, rules).seconds;
  // Tasks are F (0), B2 (1), B1 (0), B0 (1): layer 1's stash stays on device 0.
  EXPECT_DOUBLE_EQ(after, before);
  schedule.backwardPacks = {{0, 1}, {2, 2}};
  schedule.devices = 3; // F (0), B1 (1), B0 (2)
  profile.inputBytes = {1 << 30, 0, 0};
  rules = {};
  before = estimateArtifact(schedule, profile, machine, rules).seconds;
  rules.messageBytesPerSecond /= 2;
  after = estimateArtifact(schedule, profile, machine, rules).seconds;
  // 1 GiB crosses twice at a third of 16 GiB/s, then of 8 GiB/s.
  EXPECT_NEAR(after - before, 2.0 * 3 / 16, 1e-9);
}

TEST(Artifact, DamagedSchedulesAreRefused) {
  struct Row {
    const char *message;
    std::function<void(json &)> damage;
  };
  const Row rows[] = {
      {"f.json.mode is 'PP', accepted are vPP, vDP",
       [](json &j) { j["mode"] = "PP"; }},
      {"f.json.N is 0, accepted range is [1, 256]",
       [](json &j) { j["N"] = 0; }},
      {"f.json.D is missing", [](json &j) { j.erase("D"); }},
      {"f.json.U_B is 3, accepted are divisors of a device's 16 samples",
       [](json &j) { j["U_B"] = 3; }},
      {"f.json.pack_fwd[1] is [15,27], accepted is [14, last layer]",
       [](json &j) { j["pack_fwd"][1][0] = 15; }},
      {"f.json.pack_fwd ends with layer 70, accepted is the last before the "
       "last of pack_bwd, 84",
       [](json &j) { j["pack_fwd"].erase(5); }},
      {"f.json.pack_bwd is empty",
       [](json &j) { j["pack_bwd"] = json::array(); }},
  };
  auto good = std::find_if(cases().begin(), cases().end(), [](const Case &c) {
    return c.name == "bert_96_vPP_D16_N4";
  });
  ASSERT_NE(good, cases().end());
  for (const Row &row : rows) {
    json document = good->stated;
    row.damage(document);
    try {
      artifactScheduleFromJson(document, "f.json");
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
  ArtifactSchedule schedule = good->schedule;
  schedule.backwardPacks.back().lastLayer = 98;
  EXPECT_THROW(
      estimateArtifact(schedule, *good->profile, artifactMachine(), {}), Error);
  schedule = good->schedule;
  schedule.devices = 16;
  EXPECT_THROW(
      estimateArtifact(schedule, *good->profile, artifactMachine(), {}), Error);
}

} // namespace
