//===- PlanFile.cpp - Plans and problems from JSON files ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/PlanFile.h"

#include "compiler/Planner/Json.h"
#include "compiler/Planner/Replay.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace harmony {

template <typename Convert>
static auto read(const std::string &file, std::string &error, Convert convert)
    -> std::optional<decltype(convert(nlohmann::json()))> {
  std::ifstream stream(file);
  if (!stream) {
    error = "cannot read '" + file + "'";
    return std::nullopt;
  }
  std::ostringstream text;
  text << stream.rdbuf();
  try {
    return convert(planner::parseJson(text.str(), file));
  } catch (const planner::Error &failure) {
    error = failure.what();
    return std::nullopt;
  }
}

std::optional<planner::Plan> readPlanFile(const std::string &file,
                                          std::string &error) {
  return read(file, error, [&](const nlohmann::json &json) {
    return planner::planFromJson(json, file);
  });
}

std::optional<planner::Problem> readProblemFile(const std::string &file,
                                                std::string &error) {
  return read(file, error, [&](const nlohmann::json &json) {
    return planner::problemFromJson(json, file);
  });
}

bool fits(const planner::Plan &plan, const planner::Problem &problem,
          std::string &error) {
  int devices = 1;
  for (const planner::Queue &queue : plan.queues)
    devices = std::max(devices, queue.device + 1);
  planner::Link peer;
  peer.bytesPerSecond = 1;
  planner::Machine machine =
      planner::Machine::uniform("any", devices, int64_t(1) << 62, 1, 0, peer);
  planner::Report report(1);
  planner::checkStructure(plan, problem, machine, report);
  if (!report.violations().empty())
    error = report.violations().front().message;
  return report.violations().empty();
}

} // namespace harmony
