//===- PlanProfile.cpp - Plans of profiles --------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/PlanProfile.h"

#include "compiler/Planner/ArtifactPlan.h"
#include "compiler/Planner/ArtifactProfile.h"
#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

using namespace harmony;

bool harmony::isProfile(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return false; // reading a pipe would wait
  std::ifstream file(path);
  char first = 0;
  return (file >> first) && first == '{';
}

std::string harmony::whyNoModel(const std::string &path) {
  std::string use;
  try {
    nlohmann::json document = planner::readJson(path);
    if (planner::isArtifactProfile(document))
      use = "a profile of Harmony's artifact, for harmonyc plan alone";
    else if (planner::isArtifactSchedule(document))
      use = "a schedule of Harmony's artifact, for harmonyc plan PROFILE "
            "--plan-in FILE";
    else if (auto schema = document.find("schema");
             schema != document.end() && schema->is_string())
      use = planner::useOfSchema(schema->get<std::string>());
  } catch (const planner::Error &e) {
    return e.what();
  }
  return path + ": no ONNX model, but " + (use.empty() ? "JSON" : use);
}

namespace {

/// An artifact profile at the flags' batch. Costs of updates on devices are
/// those of the machine's first.
planner::Problem problemOfArtifact(const planner::ArtifactProfile &profile,
                                   const CompilerOptions &options,
                                   const planner::Machine &machine,
                                   const planner::Plan *given) {
  std::vector<int64_t> sizes = planner::candidateMicrobatches(
      *options.batch, static_cast<int>(machine.devices.size()),
      searchOptions(options, /*training=*/true));
  if (given) {
    sizes.clear();
    for (const planner::Phase &phase : given->phases)
      if (std::find(sizes.begin(), sizes.end(), phase.microbatch) ==
          sizes.end())
        sizes.push_back(phase.microbatch);
    std::sort(sizes.begin(), sizes.end());
  }
  return planner::problemOf(profile, *options.batch, sizes,
                            machine.devices.front());
}

int64_t stateBytes(const planner::ArtifactProfile &profile) {
  auto sum = [](const std::vector<int64_t> &bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
  };
  return 2 * sum(profile.weightBytes) + sum(profile.stateBytes);
}

/// The artifact's schedule in --plan-in as a plan of ours, in whatever memory
/// it needs: devices get so much.
ProfilePlan planSchedule(const CompilerOptions &options,
                         const nlohmann::json &document) {
  ProfilePlan result;
  PlanOutcome &outcome = result.outcome;
  try {
    planner::ArtifactSchedule schedule =
        planner::artifactScheduleFromJson(document, options.planIn);
    planner::ArtifactProfile profile = planner::artifactProfileFromJson(
        planner::readJson(options.model), options.model);
    CompilerOptions wanted = options;
    wanted.devices = schedule.devices;
    outcome.machine =
        loadMachine(wanted, stateBytes(profile), nullptr, outcome.message);
    if (outcome.message.empty()) {
      std::vector<int64_t> sizes = {schedule.forwardMicrobatch,
                                    schedule.backwardMicrobatch};
      std::sort(sizes.begin(), sizes.end());
      sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
      result.problem = planner::problemOf(profile, schedule.batch, sizes,
                                          outcome.machine.devices.front());
      planner::Planned &planned = outcome.planned;
      planned.plan = planner::planOf(schedule, result.problem, outcome.machine);
      planned.schedule = schedule.dataParallel ? planner::Schedule::HarmonyDp
                                               : planner::Schedule::HarmonyPp;
      for (size_t d = 0; d < planned.plan.peakBytes.size(); ++d) {
        int64_t &capacity = outcome.machine.devices[d].capacity;
        capacity = std::max(capacity, planned.plan.peakBytes[d]);
        planned.minDeviceBytes =
            std::max(planned.minDeviceBytes, planned.plan.peakBytes[d]);
      }
      std::vector<planner::Violation> violations =
          planned.plan.verify(result.problem, outcome.machine);
      if (!violations.empty())
        outcome.message = "the plan does not hold: " + violations.front().rule +
                          ": " + violations.front().message;
    }
  } catch (const planner::Error &e) {
    outcome.message = e.what();
  }
  if (!outcome.message.empty())
    outcome.exitCode = kRefused;
  return result;
}

} // namespace

ProfilePlan harmony::planProfile(const CompilerOptions &options,
                                 const planner::Machine *wanted) {
  ProfilePlan result;
  PlanOutcome &outcome = result.outcome;
  auto refuse = [&](const std::string &message, int exitCode = kRefused) {
    outcome.exitCode = exitCode;
    outcome.message = message;
    return std::move(result);
  };
  std::string error;
  std::optional<planner::Plan> given;
  if (!options.planIn.empty()) {
    try {
      if (nlohmann::json document = planner::readJson(options.planIn);
          planner::isArtifactSchedule(document))
        return planSchedule(options, document);
    } catch (const planner::Error &e) {
      return refuse(e.what());
    }
    given = readPlan(options.planIn, error);
    if (!given)
      return refuse(error);
  }
  const planner::Plan *givenPlan = given ? &*given : nullptr;
  planner::Machine machine;
  try {
    nlohmann::json document = planner::readJson(options.model);
    if (planner::isArtifactProfile(document)) {
      if (!options.batch)
        return refuse("--batch is needed: a profile of Harmony's artifact "
                      "leaves the number of samples open",
                      kUsage);
      planner::ArtifactProfile profile =
          planner::artifactProfileFromJson(document, options.model);
      machine =
          wanted ? *wanted
                 : loadMachine(options, stateBytes(profile), givenPlan, error);
      if (error.empty())
        result.problem =
            problemOfArtifact(profile, options, machine, givenPlan);
    } else {
      result.problem = planner::problemFromJson(document, options.model);
      if (options.batch && *options.batch != result.problem.batch)
        return refuse("--batch " + std::to_string(*options.batch) +
                      ": the profile is of " +
                      std::to_string(result.problem.batch) + " samples");
      machine = wanted
                    ? *wanted
                    : loadMachine(options, result.problem.trainingStateBytes(),
                                  givenPlan, error);
    }
  } catch (const planner::Error &e) {
    error = e.what();
  }
  if (!error.empty())
    return refuse(error);
  outcome = planProblem(result.problem, machine, options, givenPlan);
  return result;
}
