//===- Describe.cpp - A plan for people -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Search.h"
#include "compiler/Planner/Simulate.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace harmony::planner {

namespace {

std::string layersText(const Phase &phase, const Problem &problem) {
  std::string text = problem.layers[phase.firstLayer].name;
  if (phase.lastLayer != phase.firstLayer)
    text += " .. " + problem.layers[phase.lastLayer].name;
  return text;
}

std::set<int64_t, std::greater<>> microbatchSizes(const Plan &plan) {
  std::set<int64_t, std::greater<>> sizes;
  for (const Phase &phase : plan.phases)
    sizes.insert(phase.microbatch);
  return sizes;
}

/// Microbatches of the first layer's forward.
int64_t forwardTrips(const Plan &plan) {
  int64_t trips = 0;
  for (const Phase &phase : plan.phases)
    if (phase.firstLayer == 0 && phase.kind != PhaseKind::Backward)
      trips += phase.trips;
  return trips;
}

/// How often the first layer's forward begins where all samples so far have
/// gone backward.
int roundsOf(const Plan &plan) {
  int rounds = 0;
  int64_t forward = 0, backward = 0;
  for (const Phase &phase : plan.phases) {
    if (phase.firstLayer != 0 || phase.group != 0)
      continue;
    if (phase.kind == PhaseKind::Turn)
      return 1;
    int64_t samples = phase.trips * phase.microbatch;
    if (phase.kind == PhaseKind::Backward) {
      backward += samples;
      continue;
    }
    rounds += forward == backward ? 1 : 0;
    forward += samples;
  }
  return rounds;
}

/// All phases of the same layers in one direction: of all groups, and of what
/// remains of their shares.
struct Pack {
  Phase phase; ///< the first of them
  std::vector<int> devices;
  std::set<int64_t, std::greater<>> sizes; ///< of microbatches
};

/// All, or forward and turn packs alone where the backward goes back through
/// the same packs in the same places.
std::vector<Pack> packsOf(const Plan &plan) {
  std::vector<Pack> packs;
  for (const Phase &phase : plan.phases) {
    auto pack = std::find_if(packs.begin(), packs.end(), [&](const Pack &p) {
      return p.phase.kind == phase.kind &&
             p.phase.firstLayer == phase.firstLayer &&
             p.phase.lastLayer == phase.lastLayer && p.phase.keep == phase.keep;
    });
    if (pack == packs.end())
      pack = packs.insert(packs.end(), {phase, {}, {}});
    if (std::find(pack->devices.begin(), pack->devices.end(), phase.device) ==
        pack->devices.end())
      pack->devices.push_back(phase.device);
    pack->sizes.insert(phase.microbatch);
  }
  auto isBackward = [](const Pack &pack) {
    return pack.phase.kind == PhaseKind::Backward;
  };
  bool same = std::all_of(packs.begin(), packs.end(), [&](const Pack &pack) {
    return !isBackward(pack) ||
           std::any_of(packs.begin(), packs.end(), [&](const Pack &other) {
             return other.phase.kind == PhaseKind::Forward &&
                    other.phase.firstLayer == pack.phase.firstLayer &&
                    other.phase.lastLayer == pack.phase.lastLayer &&
                    other.devices == pack.devices && other.sizes == pack.sizes;
           });
  });
  if (same)
    packs.erase(std::remove_if(packs.begin(), packs.end(), isBackward),
                packs.end());
  return packs;
}

/// The backward phase of a layer, of the first samples, or null.
const Phase *backwardOf(const Plan &plan, int layer) {
  for (const Phase &phase : plan.phases)
    if (phase.kind == PhaseKind::Backward && phase.firstLayer <= layer &&
        layer <= phase.lastLayer)
      return &phase;
  return nullptr;
}

/// What becomes of the saved blocks of a pack between forward and backward.
std::string keepText(const Phase &pack, const Plan &plan,
                     const Problem &problem) {
  double saved = 0, kept = 0, forward = 0, again = 0;
  bool keeps = false;
  for (int l = pack.firstLayer; l <= pack.lastLayer; ++l) {
    const Phase *phase = backwardOf(plan, l);
    if (!phase)
      continue;
    const Cost &cost = problem.cost(l, phase->microbatch);
    int level = phase->level(l);
    keeps |= level > 0;
    saved += static_cast<double>(cost.savedBytes);
    kept += static_cast<double>(cost.keptBytes(level));
    forward += cost.forwardSeconds;
    for (const Step &step : phase->steps)
      if (step.layer == l && step.kind == StepKind::Recompute)
        again += cost.recomputeSeconds(level);
  }
  if (again == 0)
    return keeps ? ", activations kept" : ", nothing to recompute";
  auto percent = [](double part, double all) {
    return std::to_string(std::lround(100 * part / all)) + " % of ";
  };
  if (kept == 0)
    return again == forward
               ? ", recomputed"
               : ", " + percent(again, forward) + "the forward recomputed";
  return ", " + percent(kept, saved) + "the activations kept, " +
         percent(again, forward) + "the forward recomputed";
}

std::string packText(const Pack &pack, const Plan &plan,
                     const Problem &problem) {
  const Phase &phase = pack.phase;
  std::string text = std::string("  ") + name(phase.kind) + " layers " +
                     std::to_string(phase.firstLayer) + "-" +
                     std::to_string(phase.lastLayer) + " (" +
                     layersText(phase, problem) + ")";
  if (plan.peakBytes.size() > 1)
    text += std::string(" on device") + (pack.devices.size() > 1 ? "s " : " ") +
            listText(pack.devices);
  if (microbatchSizes(plan).size() > 1)
    text += ", microbatches of " + listText(pack.sizes);
  if (problem.training)
    text += phase.kind == PhaseKind::Turn ? ", forward and backward fused"
                                          : keepText(phase, plan, problem);
  return text + "\n";
}

std::string packsText(const Plan &plan, const Problem &problem) {
  constexpr size_t shown = 6; // at either end
  std::vector<Pack> packs = packsOf(plan);
  std::string text;
  for (size_t p = 0; p < packs.size(); ++p)
    if (packs.size() <= 2 * shown || p < shown || p + shown >= packs.size())
      text += packText(packs[p], plan, problem);
    else if (p == shown)
      text += "  ... " + std::to_string(packs.size() - 2 * shown) + " more\n";
  return text;
}

std::string batchText(const Plan &plan, const Problem &problem) {
  std::string text = "batch " + std::to_string(plan.batch);
  if (plan.groups > 1)
    text += " in " + std::to_string(plan.groups) + " groups";
  std::set<int64_t, std::greater<>> sizes = microbatchSizes(plan);
  if (sizes.size() > 1)
    text += " as microbatches of " + listText(sizes);
  else if (*sizes.begin() == plan.batch)
    text += " as 1 microbatch";
  else
    text += " as " + std::to_string(forwardTrips(plan)) + " microbatches of " +
            std::to_string(*sizes.begin());
  int packs = 0;
  std::set<int> ends;
  for (const Phase &phase : plan.phases)
    if (phase.kind != PhaseKind::Backward && phase.group == 0 &&
        ends.insert(phase.lastLayer).second)
      ++packs;
  text += ", " + countText(packs, "pack") + " of " +
          countText(problem.layerCount(), "layer");
  if (int turn = turnPacksOf(plan); turn > 1)
    text += ", of which the last " + std::to_string(turn) +
            " go forward and backward in turn (1F1B)";
  if (int rounds = roundsOf(plan); rounds > 1)
    text += ", in " + std::to_string(rounds) + " rounds";
  return text + "\n";
}

std::string updatesText(const Plan &plan) {
  int host = 0, onDevice = 0;
  for (const Event &event : plan.events)
    if (event.kind == EventKind::Update)
      ++(event.onHost ? host : onDevice);
  std::string order =
      plan.update == UpdateOrder::JustInTime ? "just in time" : "deferred";
  return order + ", " + countText(onDevice, "tensor") + " on the device" +
         (plan.peakBytes.size() > 1 ? "s, " : ", ") + std::to_string(host) +
         " on the host";
}

/// Of state, by device.
std::vector<int64_t> bytesThatStay(const Plan &plan, const Machine &machine) {
  std::vector<int64_t> bytes(machine.devices.size(), 0);
  for (const ResidentTransfer &transfer : plan.load)
    bytes[transfer.device] += plan.buffers[transfer.buffer].bytes();
  return bytes;
}

/// A line for each device; `stays`: bytesThatStay.
std::string devicesText(const Plan &plan, const Problem &problem,
                        const Machine &machine,
                        const std::vector<int64_t> &stays) {
  bool several = machine.devices.size() > 1;
  std::vector<double> busy = deviceSeconds(plan, problem, machine);
  std::string text;
  for (size_t d = 0; d < machine.devices.size(); ++d) {
    int64_t peak = d < plan.peakBytes.size() ? plan.peakBytes[d] : 0;
    text += "device " + std::to_string(d) + ": peak " + bytesText(peak) + " (" +
            std::to_string(peak) + " bytes) of " +
            bytesText(machine.devices[d].capacity);
    if (several)
      text += ", " + bytesText(stays[d]) + " stay, computes " +
              secondsText(busy[d]);
    text += "\n";
  }
  return text;
}

} // namespace

std::string planText(const Planned &planned) {
  const Plan &plan = planned.plan;
  std::set<std::pair<int, int>> forward, backward; // by group 0's layers
  std::set<int> devices;
  for (const Phase &phase : plan.phases) {
    devices.insert(phase.device);
    if (phase.group != 0)
      continue;
    std::pair<int, int> layers = {phase.firstLayer, phase.lastLayer};
    if (phase.kind != PhaseKind::Backward)
      forward.insert(layers);
    if (phase.kind != PhaseKind::Forward)
      backward.insert(layers);
  }
  std::string text = name(planned.schedule);
  if (!planned.form.empty())
    text += " (" + planned.form + ")";
  text += ": ";
  if (plan.groups > 1)
    text += countText(plan.groups, "group") + " on " +
            countText(static_cast<int64_t>(devices.size()), "device") + ", ";
  text += countText(static_cast<int64_t>(forward.size()), "pack") + " forward";
  if (!backward.empty())
    text += " and " + std::to_string(backward.size()) + " backward";
  text += ", microbatches of " + listText(microbatchSizes(plan));
  if (!backward.empty())
    text += "; updates " + updatesText(plan);
  return text;
}

std::string describe(const Planned &planned, const Problem &problem,
                     const Machine &machine) {
  const Plan &plan = planned.plan;
  bool several = machine.devices.size() > 1;
  auto traffic = [&](Traffic kind) {
    return bytesText(plan.traffic[static_cast<int>(kind)]);
  };
  std::vector<int64_t> stays = bytesThatStay(plan, machine);
  std::string text = "plan of " + plan.problem + " on " + machine.name;
  if (several)
    text += ", " +
            countText(static_cast<int64_t>(machine.devices.size()), "device") +
            ", " + name(planned.schedule) +
            (planned.form.empty() ? "" : " (" + planned.form + ")");
  text += "\n" + batchText(plan, problem) + packsText(plan, problem);
  if (problem.training)
    text += "update: " + updatesText(plan) + "\n";
  text += std::string("stays on the device") + (several ? "s: " : ": ") +
          bytesText(std::accumulate(stays.begin(), stays.end(), int64_t(0))) +
          " of " + bytesText(problem.trainingStateBytes()) +
          " training state\n";
  text += "an iteration: " + secondsText(plan.seconds) + " (compute " +
          secondsText(plan.computeSeconds) + ", bound " +
          secondsText(planned.boundSeconds > 0
                          ? planned.boundSeconds
                          : problem.computeBoundSeconds() /
                                static_cast<double>(machine.devices.size())) +
          ")\n";
  text += "moves: " + traffic(Traffic::SwapIn) + " in, " +
          traffic(Traffic::SwapOut) + " out, " +
          (several ? traffic(Traffic::Peer) + " between devices, " : "") +
          traffic(Traffic::Input) + " input, " + traffic(Traffic::Output) +
          " output\n";
  if (size_t again = redundantLoads(plan).size())
    text += "loads again what is still there: " +
            countText(static_cast<int64_t>(again), "time") + "\n";
  text += devicesText(plan, problem, machine, stays);
  text += "host store: " + bytesText(plan.hostBytes) + "\n";
  text += "least device memory: " + std::to_string(planned.minDeviceBytes) +
          " bytes; largest layer '" +
          problem.layers[largestLayer(problem)].name +
          "': " + std::to_string(planned.boundBytes) + "\n";
  return text;
}

} // namespace harmony::planner
