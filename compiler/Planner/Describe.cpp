//===- Describe.cpp - A plan for people -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Search.h"

#include <cstdio>

namespace harmony::planner {

namespace {

std::string bytesText(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value,
                units[unit]);
  return text;
}

std::string secondsText(double seconds) {
  char text[64];
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

std::string layersText(const Phase &phase, const Problem &problem) {
  std::string text = problem.layers[phase.firstLayer].name;
  if (phase.lastLayer != phase.firstLayer)
    text += " .. " + problem.layers[phase.lastLayer].name;
  return text;
}

std::string packsText(const Plan &plan, const Problem &problem) {
  constexpr int shown = 6; // at either end
  std::string text;
  int packs = 0, pack = 0;
  for (const Phase &phase : plan.phases)
    packs += phase.kind != PhaseKind::Backward;
  for (const Phase &phase : plan.phases) {
    if (phase.kind == PhaseKind::Backward)
      continue;
    if (pack == shown && packs > 2 * shown)
      text += "  ... " + std::to_string(packs - 2 * shown) + " more\n";
    if (++pack > shown && pack <= packs - shown)
      continue;
    text += std::string("  ") + name(phase.kind) + " layers " +
            std::to_string(phase.firstLayer) + "-" +
            std::to_string(phase.lastLayer) + " (" +
            layersText(phase, problem) + ")";
    if (problem.training)
      text += phase.kind == PhaseKind::Turn ? ", forward and backward fused"
              : phase.keep                  ? ", activations kept"
                                            : ", recomputed";
    text += "\n";
  }
  return text;
}

std::string updatesText(const Plan &plan) {
  int host = 0, onDevice = 0;
  for (const Event &event : plan.events)
    if (event.kind == EventKind::Update)
      ++(event.onHost ? host : onDevice);
  std::string order =
      plan.update == UpdateOrder::JustInTime ? "just in time" : "deferred";
  return order + ", " + std::to_string(onDevice) + " tensors on the device, " +
         std::to_string(host) + " on the host";
}

} // namespace

std::string describe(const Planned &planned, const Problem &problem,
                     const Machine &machine) {
  const Plan &plan = planned.plan;
  auto traffic = [&](Traffic kind) {
    return bytesText(plan.traffic[static_cast<int>(kind)]);
  };
  int packs = 0;
  for (const Phase &phase : plan.phases)
    packs += phase.kind != PhaseKind::Backward;
  int64_t u = plan.phases[0].microbatch, resident = 0;
  for (const ResidentTransfer &transfer : plan.load)
    resident += plan.buffers[transfer.buffer].bytes();

  std::string text = "plan of " + plan.problem + " on " + machine.name + "\n";
  auto count = [](int64_t number, const std::string &thing) {
    return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
  };
  text += "batch " + std::to_string(plan.batch) + " as ";
  text += plan.batch == u ? "1 microbatch, "
                          : std::to_string(plan.batch / u) +
                                " microbatches of " + std::to_string(u) + ", ";
  text += count(packs, "pack") + " of " + count(problem.layerCount(), "layer") +
          "\n";
  text += packsText(plan, problem);
  if (problem.training)
    text += "update: " + updatesText(plan) + "\n";
  text += "stays on the device: " + bytesText(resident) + " of " +
          bytesText(problem.trainingStateBytes()) + " training state\n";
  text += "an iteration: " + secondsText(plan.seconds) + " (compute " +
          secondsText(plan.computeSeconds) + ", bound " +
          secondsText(problem.computeBoundSeconds()) + ")\n";
  text += "moves: " + traffic(Traffic::SwapIn) + " in, " +
          traffic(Traffic::SwapOut) + " out, " + traffic(Traffic::Input) +
          " input, " + traffic(Traffic::Output) + " output\n";
  for (size_t d = 0; d < plan.peakBytes.size(); ++d)
    text += "device " + std::to_string(d) + ": peak " +
            bytesText(plan.peakBytes[d]) + " (" +
            std::to_string(plan.peakBytes[d]) + " bytes) of " +
            bytesText(machine.devices[d].capacity) + "\n";
  text += "host store: " + bytesText(plan.hostBytes) + "\n";
  text += "least device memory: " + std::to_string(planned.minDeviceBytes) +
          " bytes; bound " + std::to_string(planned.boundBytes) + " (layer '" +
          problem.layers[largestLayer(problem)].name + "')\n";
  return text;
}

} // namespace harmony::planner
