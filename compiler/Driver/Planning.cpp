//===- Planning.cpp - From a problem to a plan, with flags ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Planning.h"

#include "compiler/Driver/OutputFiles.h"
#include "compiler/Planner/Build.h"
#include "compiler/Planner/Explain.h"
#include "compiler/Planner/Json.h"
#include "compiler/Planner/Picture.h"
#include "compiler/Planner/Simulate.h"
#include "compiler/Planner/Text.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace harmony;

namespace {

bool updatesOnHost(const planner::Plan &plan) {
  return std::any_of(
      plan.events.begin(), plan.events.end(), [](const planner::Event &event) {
        return event.kind == planner::EventKind::Update && event.onHost;
      });
}

/// The plan counts host and device as two processors. The built-in machine's
/// are the same cores, which the host's updates take from computing: there
/// updates on the device cost no more, as long as they move no more and make
/// the plan longer by no more than the host would be at work.
void preferDeviceUpdates(const planner::Problem &problem,
                         const planner::Machine &machine,
                         planner::SearchOptions search,
                         planner::Planned &planned) {
  auto swapped = [](const planner::Plan &plan) {
    return plan.traffic[static_cast<int>(planner::Traffic::SwapIn)] +
           plan.traffic[static_cast<int>(planner::Traffic::SwapOut)];
  };
  if (!updatesOnHost(planned.plan))
    return;
  double hostSeconds = 0;
  for (const planner::Event &event : planned.plan.events)
    if (event.onHost)
      hostSeconds += planner::workSeconds(planned.plan, problem, event);
  search.updatePlace = planner::UpdatePlace::Device;
  planner::Result result = planner::solve(problem, machine, search);
  auto *onDevice = std::get_if<planner::Planned>(&result);
  if (!onDevice || swapped(onDevice->plan) > swapped(planned.plan) ||
      onDevice->plan.seconds > planned.plan.seconds + hostSeconds)
    return;
  // The least capacity is that of the search without the preference.
  onDevice->minDeviceBytes = planned.minDeviceBytes;
  planned = std::move(*onDevice);
}

} // namespace

std::string harmony::machineNames() {
  std::string text;
  for (const std::string &name : planner::Machine::names())
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

planner::SearchOptions harmony::searchOptions(const CompilerOptions &options,
                                              bool training) {
  planner::SearchOptions search;
  search.microbatch = options.microbatch;
  if (options.residency == "none")
    search.residency = planner::Residency::None;
  if (!training)
    return search; // the other pins are about the training step
  // The command line accepts no other names.
  search.schedule = *planner::scheduleNamed(options.schedule);
  search.randomSeed = options.randomPlan;
  if (options.update == "jit")
    search.update = planner::UpdateOrder::JustInTime;
  if (options.update == "deferred")
    search.update = planner::UpdateOrder::Deferred;
  if (options.recompute != "auto")
    search.recompute = options.recompute == "all" ? planner::Recompute::All
                                                  : planner::Recompute::None;
  if (options.optimizerOn != "auto")
    search.updatePlace = options.optimizerOn == "host"
                             ? planner::UpdatePlace::Host
                             : planner::UpdatePlace::Device;
  search.layersPerPack = options.pack;
  return search;
}

namespace {

/// By name, or from a file.
planner::Machine readMachine(const std::string &path) {
  if (std::optional<planner::Machine> known = planner::Machine::named(path))
    return *known;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    throw planner::Error(
        path + ": cannot be read; machines known by name: " + machineNames());
  planner::Machine machine =
      planner::machineFromJson(planner::parseJson(text.str(), path), path);
  // Costs are divided by these; plans whose costs are given do without.
  for (const planner::Device &device : machine.devices)
    for (auto [key, rate] :
         {std::pair("flopsPerSecond", device.flopsPerSecond),
          std::pair("bytesPerSecond", device.bytesPerSecond)})
      if (!(rate > 0))
        throw planner::Error(path + ": " + key + " of device '" + device.name +
                             "' is " + std::to_string(rate) +
                             ", accepted is more than 0");
  return machine;
}

/// docs/Planner.md: devices in the host's memory that share its processors and
/// its bandwidth. Arenas and store lie in the same memory, and a copy between
/// them runs at about a third of what one processor can read.
planner::Machine builtInMachine(int devices) {
  constexpr double copyBytesPerSecond = 8e9, latencySeconds = 2e-6;
  planner::Machine machine = planner::Machine::uniform(
      "host", devices, availableMemory() / 2 / devices, copyBytesPerSecond,
      latencySeconds);
  for (planner::Device &device : machine.devices) {
    device.flopsPerSecond = 60e9 / devices;
    device.bytesPerSecond = 15e9 / devices;
  }
  if (devices == 1)
    return machine;
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to)
        machine.links.push_back(
            {from, to, copyBytesPerSecond, latencySeconds, {}});
  machine.resources.push_back({"memory", 12e9});
  for (planner::Link &link : machine.links)
    link.shares.push_back(0);
  return machine;
}

/// The first `count` devices of a machine and the links between them.
void keepDevices(planner::Machine &machine, int count) {
  int has = static_cast<int>(machine.devices.size());
  if (count > has)
    throw planner::Error("--devices " + std::to_string(count) + ": machine '" +
                         machine.name + "' has " + std::to_string(has));
  machine.devices.resize(count);
  machine.links.erase(std::remove_if(machine.links.begin(), machine.links.end(),
                                     [&](const planner::Link &link) {
                                       return std::max(link.from, link.to) >=
                                              count;
                                     }),
                      machine.links.end());
}

} // namespace

planner::Machine harmony::loadMachine(const CompilerOptions &options,
                                      int64_t trainingState,
                                      const planner::Plan *given,
                                      std::string &error) {
  try {
    planner::Machine machine;
    if (options.machine.empty()) {
      int planned = given ? static_cast<int>(given->peakBytes.size()) : 1;
      machine = builtInMachine(options.devices.value_or(std::max(1, planned)));
    } else {
      machine = readMachine(options.machine);
      if (options.devices)
        keepDevices(machine, *options.devices);
    }
    if (options.deviceMemory) {
      double count = static_cast<double>(machine.devices.size());
      for (planner::Device &device : machine.devices)
        device.capacity = options.deviceMemory->share > 0
                              ? static_cast<int64_t>(
                                    options.deviceMemory->share *
                                    static_cast<double>(trainingState) / count)
                              : options.deviceMemory->bytes;
    }
    if (options.hostMemory)
      machine.hostBytes = options.hostMemory->bytes;
    if (!options.diskPath.empty())
      machine.hostBytes = 0; // the disk's room is seen when the program runs
    return machine;
  } catch (const planner::Error &e) {
    error = e.what();
    return {};
  }
}

std::optional<planner::Plan> harmony::readPlan(const std::string &path,
                                               std::string &error) {
  try {
    return planner::planFromJson(planner::readJson(path), path);
  } catch (const planner::Error &e) {
    error = e.what();
    return std::nullopt;
  }
}

/// A plan of --plan-in, whose time depends on the machine.
static planner::Planned takePlan(const planner::Plan &given,
                                 const planner::Problem &problem,
                                 const planner::Machine &machine) {
  planner::Planned planned;
  planned.plan = given;
  planned.boundBytes = planner::lowerBound(problem);
  for (int64_t bytes : given.peakBytes)
    planned.minDeviceBytes = std::max(planned.minDeviceBytes, bytes);
  // A plan does not say what schedule it came from; groups tell the two forms
  // apart.
  planned.schedule = given.groups > 1 ? planner::Schedule::HarmonyDp
                                      : planner::Schedule::HarmonyPp;
  planner::simulate(planned.plan, problem, machine);
  return planned;
}

PlanOutcome harmony::planProblem(planner::Problem &problem,
                                 const planner::Machine &machine,
                                 const CompilerOptions &options,
                                 const planner::Plan *given) {
  PlanOutcome outcome;
  outcome.machine = machine;
  try {
    problem.link();
    problem.check();
    planner::SearchOptions search = searchOptions(options, problem.training);
    if (given) {
      std::vector<planner::Violation> violations =
          given->verify(problem, machine);
      if (!violations.empty()) {
        outcome.exitCode = kRefused;
        outcome.message = options.planIn + ": is no plan for this model on " +
                          "machine '" + machine.name +
                          "': " + violations.front().rule + ": " +
                          violations.front().message;
        return outcome;
      }
      outcome.planned = takePlan(*given, problem, machine);
      return outcome;
    }
    planner::Result result = planner::solve(problem, machine, search);
    if (auto *infeasible = std::get_if<planner::Infeasible>(&result)) {
      outcome.exitCode = kDoesNotFit;
      outcome.message = infeasible->message;
      return outcome;
    }
    outcome.planned = std::move(std::get<planner::Planned>(result));
    if (options.machine.empty() && options.preferDeviceUpdates &&
        problem.training && !search.updatePlace && !search.randomSeed)
      preferDeviceUpdates(problem, machine, search, outcome.planned);
    std::vector<planner::Violation> violations =
        outcome.planned.plan.verify(problem, machine);
    if (!violations.empty()) {
      outcome.exitCode = kInternalError;
      outcome.message = "the plan does not hold: " + violations.front().rule +
                        ": " + violations.front().message;
    }
  } catch (const planner::Error &e) {
    outcome.exitCode = kRefused;
    outcome.message = e.what();
  }
  return outcome;
}

CompilerOptions harmony::pinnedOptions(const CompilerOptions &options,
                                       const NumericsPins &pins, int devices) {
  CompilerOptions pinned = options;
  if (pins.microbatch)
    pinned.microbatch = pins.microbatch;
  if (!pins.key.empty() && pinned.schedule == "auto") {
    if (pins.groups == 1)
      pinned.schedule = "harmony-pp";
    else if (pins.groups == devices)
      pinned.schedule = "harmony-dp";
  }
  return pinned;
}

std::set<int> harmony::busyDevices(const planner::Plan &plan) {
  std::set<int> busy;
  for (const planner::Event &event : plan.events)
    if (int device = plan.queues[event.queue].device; device >= 0)
      busy.insert(device);
  return busy;
}

void harmony::warnOfIdleDevices(const planner::Plan &plan,
                                const planner::Problem &problem, int devices) {
  std::set<int> busy = busyDevices(plan);
  std::vector<int> idle;
  for (int device = 0; device < devices; ++device)
    if (!busy.count(device))
      idle.push_back(device);
  if (idle.empty())
    return;
  llvm::errs() << "harmonyc: warning: of " << devices
               << " devices the plan uses " << busy.size()
               << ": nothing is placed on " << planner::rangesText(idle)
               << "; the model has " << problem.layers.size()
               << " layers and the batch " << plan.batch
               << " samples to share out, and nothing that was tried on more "
                  "devices is faster\n";
}

std::string harmony::describePlanned(const planner::Planned &planned,
                                     const planner::Problem &problem,
                                     const planner::Machine &machine) {
  return planner::describe(planned, problem, machine);
}

std::string harmony::explainPlanned(
    const planner::Planned &planned, const planner::Problem &problem,
    const planner::Machine &machine, const CompilerOptions &options,
    bool withOthers,
    const std::function<PlanOutcome(const planner::Machine &,
                                    const CompilerOptions &)> &planWider) {
  std::string text = planner::describe(
      planner::explain(planned.plan, problem, machine), planned);
  if (!withOthers)
    return text;
  // Times of plans that update elsewhere do not compare where host and device
  // are the same cores.
  CompilerOptions alike = options;
  if (options.machine.empty() && options.optimizerOn == "auto") {
    alike.preferDeviceUpdates = false;
    if (!updatesOnHost(planned.plan))
      alike.optimizerOn = "device";
  }
  auto solve =
      [&](const planner::Machine &changed) -> std::optional<planner::Planned> {
    planner::Problem same = problem;
    PlanOutcome outcome =
        changed.devices.size() == machine.devices.size()
            ? planProblem(same, changed, alike, /*given=*/nullptr)
            : planWider(changed, alike);
    if (outcome.exitCode)
      return std::nullopt;
    return std::move(outcome.planned);
  };
  // The machine may have more devices than are used.
  CompilerOptions wider = options;
  size_t devices = machine.devices.size();
  wider.devices = static_cast<int>(devices) + 1;
  std::string error;
  planner::Machine more = loadMachine(wider, 0, nullptr, error);
  if (error.empty()) {
    for (size_t d = 0; d < devices; ++d)
      more.devices[d].capacity = machine.devices[d].capacity;
    // A share of the training state would be less for each of more devices.
    if (options.machine.empty() || options.deviceMemory)
      more.devices[devices].capacity = machine.devices.back().capacity;
  }
  std::vector<planner::WhatIf> others =
      planner::whatIfs(machine, error.empty() ? &more : nullptr, solve);
  // Measured costs say nothing of devices with other shares of the processors.
  if (options.machine.empty() && !options.profile.empty())
    others.pop_back();
  return text + planner::describe(others, planned);
}

std::string harmony::writePicture(const std::string &path,
                                  const planner::Planned &planned,
                                  const planner::Problem &problem,
                                  const planner::Machine &machine,
                                  const std::string &model) {
  std::filesystem::path source(model);
  // A profile's problem is named as its file, whose name may have any bytes.
  std::string file = source.stem() == planned.plan.problem
                         ? std::string()
                         : llvm::json::fixUTF8(source.filename().string());
  return writeTextFile(path,
                       planner::drawPlan(planned, problem, machine, file));
}

std::string harmony::writePlan(const std::string &path,
                               const planner::Planned &planned,
                               const planner::Problem &problem,
                               const std::string &numericsKey) {
  nlohmann::json summary = planner::summaryJson(planned, problem);
  summary["numerics_key"] = numericsKey;
  summary["schedule"] = planner::name(planned.schedule);
  summary["groups"] = planned.plan.groups;
  summary["kinds"] = planner::kinds(planned.plan, problem);
  return writeTextFile(path, planner::jsonText(planned.plan, &summary) + '\n');
}
