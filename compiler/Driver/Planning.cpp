//===- Planning.cpp - From a problem to a plan, with flags ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Planning.h"

#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

using namespace harmony;

namespace {

/// MemAvailable of /proc/meminfo, in bytes; 0 when it cannot be read.
int64_t availableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t value;
  while (file >> key >> value) {
    std::getline(file, unit);
    if (key == "MemAvailable:")
      return value * 1024;
  }
  return 0;
}

/// The plan counts host and device as two processors. The built-in machine's
/// are the same cores: there an update on the device costs no more, and nothing
/// waits for it, as long as it moves no more either.
void preferDeviceUpdates(const planner::Problem &problem,
                         const planner::Machine &machine,
                         planner::SearchOptions search,
                         planner::Planned &planned) {
  auto swapped = [](const planner::Plan &plan) {
    return plan.traffic[static_cast<int>(planner::Traffic::SwapIn)] +
           plan.traffic[static_cast<int>(planner::Traffic::SwapOut)];
  };
  bool onHost = std::any_of(
      planned.plan.events.begin(), planned.plan.events.end(),
      [](const planner::Event &event) {
        return event.kind == planner::EventKind::Update && event.onHost;
      });
  if (!onHost)
    return;
  search.updatePlace = planner::UpdatePlace::Device;
  planner::Result result = planner::solve(problem, machine, search);
  auto *onDevice = std::get_if<planner::Planned>(&result);
  if (!onDevice || swapped(onDevice->plan) > swapped(planned.plan))
    return;
  // The least capacity is that of the search without the preference.
  onDevice->minDeviceBytes = planned.minDeviceBytes;
  planned = std::move(*onDevice);
}

planner::SearchOptions searchOptions(const CompilerOptions &options) {
  planner::SearchOptions search;
  search.microbatch = options.microbatch;
  if (options.update == "jit")
    search.update = planner::UpdateOrder::JustInTime;
  if (options.update == "deferred")
    search.update = planner::UpdateOrder::Deferred;
  if (options.recompute != "auto")
    search.recompute = options.recompute == "all" ? planner::Recompute::All
                                                  : planner::Recompute::None;
  if (options.residency == "none")
    search.residency = planner::Residency::None;
  if (options.optimizerOn != "auto")
    search.updatePlace = options.optimizerOn == "host"
                             ? planner::UpdatePlace::Host
                             : planner::UpdatePlace::Device;
  search.layersPerPack = options.pack;
  return search;
}

} // namespace

planner::Machine harmony::loadMachine(const CompilerOptions &options,
                                      std::string &error) {
  if (options.machine.empty()) {
    // docs/Planner.md: one device in the host's memory. Arena and store lie in
    // the same memory, and a copy between them runs at about a third of the
    // memory's bandwidth.
    planner::Machine machine =
        planner::Machine::uniform("host", 1, availableMemory() / 2, 8e9, 2e-6);
    machine.devices[0].flopsPerSecond = 60e9;
    machine.devices[0].bytesPerSecond = 15e9;
    return machine;
  }
  try {
    std::ifstream file(options.machine);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) {
      error = options.machine + ": cannot be read";
      return {};
    }
    planner::Machine machine = planner::machineFromJson(
        planner::parseJson(text.str(), options.machine), options.machine);
    if (machine.devices.size() != 1)
      error = options.machine + ": has " +
              std::to_string(machine.devices.size()) +
              " devices, and 1 is supported";
    return machine;
  } catch (const planner::Error &e) {
    error = e.what();
    return {};
  }
}

PlanOutcome harmony::planProblem(planner::Problem &problem,
                                 planner::Machine machine,
                                 const CompilerOptions &options,
                                 int64_t trainingState) {
  PlanOutcome outcome;
  try {
    problem.link();
    problem.check();
    planner::SearchOptions search = searchOptions(options);
    if (!problem.training) {
      // Pins are about the training step.
      search = {};
      search.microbatch = options.microbatch;
      search.residency = options.residency == "none" ? planner::Residency::None
                                                     : planner::Residency::Auto;
    }
    if (options.deviceMemory)
      machine.devices[0].capacity =
          options.deviceMemory->share > 0
              ? static_cast<int64_t>(options.deviceMemory->share *
                                     trainingState)
              : options.deviceMemory->bytes;
    if (options.hostMemory)
      machine.hostBytes = options.hostMemory->bytes;
    planner::Result result = planner::solve(problem, machine, search);
    if (auto *infeasible = std::get_if<planner::Infeasible>(&result)) {
      outcome.exitCode = kDoesNotFit;
      outcome.message = infeasible->message;
      return outcome;
    }
    outcome.planned = std::move(std::get<planner::Planned>(result));
    if (options.machine.empty() && problem.training && !search.updatePlace)
      preferDeviceUpdates(problem, machine, search, outcome.planned);
    std::vector<planner::Violation> violations =
        outcome.planned.plan.verify(problem, machine);
    if (!violations.empty()) {
      outcome.exitCode = kInternalError;
      outcome.message = "the plan does not hold: " + violations.front().rule +
                        ": " + violations.front().message;
    }
    outcome.machine = std::move(machine);
  } catch (const planner::Error &e) {
    outcome.exitCode = kRefused;
    outcome.message = e.what();
  }
  return outcome;
}

std::string harmony::describePlanned(const planner::Planned &planned,
                                     const planner::Problem &problem,
                                     const planner::Machine &machine) {
  return planner::describe(planned, problem, machine);
}

std::string harmony::writePlan(const std::string &path,
                               const planner::Planned &planned,
                               const planner::Problem &problem,
                               const std::string &numericsKey) {
  nlohmann::json json = planner::toJson(planned.plan);
  json["summary"] = planner::summaryJson(planned, problem);
  json["summary"]["numerics_key"] = numericsKey;
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  return file ? "" : path + ": cannot be written";
}
