//===- PlanArtifact.cpp - Estimates of Harmony's schedules ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/PlanArtifact.h"

#include "compiler/Planner/ArtifactSchedule.h"
#include "compiler/Planner/Json.h"
#include "compiler/Planner/Text.h"

#include <nlohmann/json.hpp>

#include <cstdio>

using namespace harmony;

namespace {

std::string describeEstimate(const planner::ArtifactSchedule &schedule,
                             const planner::ArtifactEstimate &estimate,
                             const planner::Machine &machine, bool prefetch) {
  const planner::ArtifactBytes &bytes = estimate.bytes;
  char times[128];
  std::snprintf(times, sizeof times, "iteration   %.6f s, %.3f samples/s\n",
                estimate.seconds,
                static_cast<double>(schedule.batch) / estimate.seconds);
  std::string text = "schedule of " + schedule.model + " on " + machine.name +
                     ", " + planner::countText(schedule.devices, "device") +
                     ", " + (schedule.dataParallel ? "vDP" : "vPP") +
                     ", batch " + std::to_string(schedule.batch) +
                     ", by the artifact's " + "estimator with" +
                     (prefetch ? "" : "out") + " prefetch\n" + times;
  text += "swapped     " + std::to_string(bytes.swapped()) + " bytes (" +
          planner::bytesText(bytes.swapped()) +
          "), without the batch's inputs\n";
  text += "peers       " +
          std::to_string(bytes.peerValues + bytes.peerGradients) + " bytes\n";
  for (size_t d = 0; d < estimate.deviceSeconds.size(); ++d) {
    std::snprintf(times, sizeof times, "device %-4zu ends at %.6f s\n", d,
                  estimate.deviceSeconds[d]);
    text += times;
  }
  return text;
}

} // namespace

ScheduleEstimate harmony::estimateSchedule(const CompilerOptions &options,
                                           std::string &error) {
  try {
    planner::ArtifactProfile profile = planner::artifactProfileFromJson(
        planner::readJson(options.model), options.model);
    planner::ArtifactSchedule schedule = planner::artifactScheduleFromJson(
        planner::readJson(options.planIn), options.planIn);
    CompilerOptions here = options;
    if (here.machine.empty())
      here.machine = "harmony-1080ti";
    planner::Machine machine =
        loadMachine(here, /*trainingState=*/0, nullptr, error);
    if (!error.empty())
      return {};
    machine.sharing = planner::Sharing::Static;
    planner::ArtifactRules rules;
    rules.prefetch = options.prefetch;
    planner::ArtifactEstimate estimate =
        planner::estimateArtifact(schedule, profile, machine, rules);
    return {describeEstimate(schedule, estimate, machine, rules.prefetch),
            planner::toJson(estimate, schedule, rules).dump(1) + '\n'};
  } catch (const planner::Error &e) {
    error = e.what();
    return {};
  }
}
