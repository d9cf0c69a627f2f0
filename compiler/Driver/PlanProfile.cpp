//===- PlanProfile.cpp - Plans of profiles --------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/PlanProfile.h"

#include "compiler/Planner/ArtifactProfile.h"
#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

using namespace harmony;

bool harmony::isProfile(const std::string &path) {
  std::ifstream file(path);
  char first = 0;
  return (file >> first) && first == '{';
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
    given = readPlan(options.planIn, error);
    if (!given)
      return refuse(error);
  }
  const planner::Plan *givenPlan = given ? &*given : nullptr;
  planner::Machine machine;
  try {
    std::ifstream file(options.model);
    std::stringstream text;
    text << file.rdbuf();
    nlohmann::json document = planner::parseJson(text.str(), options.model);
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
