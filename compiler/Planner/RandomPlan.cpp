//===- RandomPlan.cpp - Choices at random ---------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/RandomPlan.h"

#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace harmony::planner {

RandomPlans::RandomPlans(const Problem &problem, const Machine &machine,
                         const SearchOptions &options, int groups)
    : problem(problem), machine(machine), options(options), groups(groups),
      generator(options.randomSeed.value_or(0)) {}

/// Between one and `layers` packs.
std::vector<int> RandomPlans::cuts(int layers) {
  if (options.layersPerPack)
    return evenPartition(layers, *options.layersPerPack);
  int density = 10 + below(91);
  std::vector<int> ends;
  for (int l = 0; l + 1 < layers; ++l)
    if (chance(density))
      ends.push_back(l);
  ends.push_back(layers - 1);
  return ends;
}

int64_t RandomPlans::microbatch() {
  if (options.microbatch)
    return *options.microbatch;
  std::vector<int64_t> sizes;
  int64_t largest = sharesOf(problem.batch, groups).front();
  for (int64_t u : problem.microbatches)
    if (u <= largest && canSplit(problem, groups, u))
      sizes.push_back(u);
  return sizes[below(static_cast<int>(sizes.size()))];
}

Layout RandomPlans::layout() {
  int devices = static_cast<int>(machine.devices.size());
  // Not always all devices.
  int pipeline = problem.training ? devices / groups : 1;
  if (pipeline > 1 && chance(25))
    pipeline = 1 + below(pipeline);
  Layout layout =
      uniformLayout(problem, groups, pipeline,
                    chance(50) ? Placement::Ring : Placement::Mirror,
                    cuts(problem.layerCount()), microbatch());
  // A turn of several packs.
  int packs = static_cast<int>(layout.backwardEnds.size());
  if (int most = std::min(packs, pipeline);
      most > 1 && canTakeTurns(problem, groups) && chance(30)) {
    layout.turnPacks = 2 + below(most - 1);
    layout.forwardEnds.resize(static_cast<size_t>(layout.turn()));
  }
  if (problem.training && layout.turnPacks == 1 &&
      canTakeTurns(problem, groups) && chance(30))
    layout.rounds = 2 + below(3);
  // Forward packs of their own, without those that keep.
  if (!layout.forwardEnds.empty() && problem.training && chance(40))
    layout.forwardEnds = cuts(layout.forwardEnds.back() + 1);
  bool sliceable = std::all_of(
      problem.values.begin(), problem.values.end(),
      [](const Value &value) { return value.isInput() || value.sliceable; });
  if (problem.training && sliceable && !problem.mixing && chance(30)) {
    for (size_t pack = 0; pack < layout.forwardEnds.size(); ++pack)
      layout.forwardSizes.push_back(microbatch());
    for (int pack = 0; pack < packs; ++pack)
      layout.backwardSizes.push_back(layout.isTurn(pack) && pack > layout.turn()
                                         ? layout.backwardSizes.back()
                                         : microbatch());
  }
  return layout;
}

/// Any device of its group for every pack.
void RandomPlans::scatter(Choices &choices, int pipeline) {
  std::vector<int> order(pipeline);
  std::iota(order.begin(), order.end(), 0);
  for (int i = pipeline - 1; i > 0; --i)
    std::swap(order[i], order[below(i + 1)]);
  bool permute = chance(50);
  for (size_t p = 0; p < choices.phases.size();) {
    // All groups and what remains of a share: one pack.
    int moved = below(pipeline);
    size_t end = p;
    while (end < choices.phases.size() &&
           choices.phases[end].kind == choices.phases[p].kind &&
           choices.phases[end].lastLayer == choices.phases[p].lastLayer) {
      PhaseChoice &phase = choices.phases[end++];
      int place = phase.device % pipeline;
      phase.device += (permute ? order[place] : moved) - place;
    }
    p = end;
  }
  if (!choices.owner.empty())
    choices.owner.assign(choices.owner.size(), -1);
}

/// Residency, rings and places of updates.
void RandomPlans::fill(Decisions &decisions, int percent) {
  Choices &choices = decisions.choices;
  choices.stay &= chance(90);
  choices.overlap = chance(50) && choices.stay;
  choices.slots = 1 + below(3);
  choices.valuesAhead = choices.stay && chance(50);
  choices.runs = chance(50) ? 1 : 2 + below(7);
  choices.recomputeAhead = chance(50);
  choices.peers = chance(75);
  if (!options.update && !problem.epilogue && chance(25))
    choices.update = UpdateOrder::Deferred;
  for (auto *flags : {&choices.resident, &choices.pinned,
                      &choices.stateResident, &choices.holdGradient}) {
    int share = below(2 * percent + 1);
    for (char &flag : *flags)
      flag = choices.stay && chance(share);
  }
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    if (problem.tensors[t].updatePlace == UpdatePlace::Any &&
        options.updatePlace.value_or(UpdatePlace::Any) == UpdatePlace::Any)
      choices.updateOnHost[t] = chance(50);
  if (choices.groups > 1)
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      choices.gather.push_back(static_cast<Gather>(below(3)));
      choices.loader.push_back(below(choices.groups));
    }
  for (auto *places : {&choices.place, &choices.gradientPlace}) {
    int share = below(2 * percent + 1);
    for (Place &place : *places)
      if (choices.stay && place == Place::Host && chance(share))
        place = chance(50) ? Place::Adjacent : Place::Device;
  }
}

Decisions RandomPlans::draw(int attempt) {
  Filling filling(problem, machine, options);
  int percent = std::max(0, 50 - 50 * attempt / (attempts / 2));
  Decisions decisions = filling.base(
      layout(), options.updatePlace == UpdatePlace::Host ? Updates::Host
                                                         : Updates::Device);
  Layout &drawn = decisions.layout;
  if (options.recompute == Recompute::Auto && filling.stay())
    for (int l = 0; l < problem.layerCount(); ++l)
      drawn.keep.push_back(chance(percent) ? 1 + below(problem.levels(l)) : 0);
  filling.renew(decisions);
  fill(decisions, percent);
  if (!decisions.choices.stay) // nothing can be kept
    for (PhaseChoice &phase : decisions.choices.phases)
      phase.keep.clear();
  bool keeps = std::any_of(
      decisions.choices.phases.begin(), decisions.choices.phases.end(),
      [](const PhaseChoice &phase) { return !phase.keep.empty(); });
  // What adds up over rounds is on one device.
  if (!keeps && drawn.pipeline > 1 && drawn.turnPacks == 1 &&
      drawn.rounds == 1 && chance(60))
    scatter(decisions.choices, drawn.pipeline);
  return decisions;
}

//===----------------------------------------------------------------------===//
// Spread
//===----------------------------------------------------------------------===//

std::string kinds(const Plan &plan, const Problem &problem) {
  std::set<int> devices;
  std::set<std::pair<int, PhaseKind>> packs;
  std::set<int64_t> sizes;
  int recomputed = 0, kept = 0, hostUpdates = 0, deviceUpdates = 0;
  for (const Phase &phase : plan.phases) {
    devices.insert(phase.device);
    packs.insert({phase.lastLayer, phase.kind});
    sizes.insert(phase.microbatch);
    recomputed += std::any_of(
        phase.steps.begin(), phase.steps.end(),
        [](const Step &step) { return step.kind == StepKind::Recompute; });
    kept += phase.kind == PhaseKind::Backward && !phase.keep.empty();
  }
  int swaps = 0, copies = 0, stashes = 0;
  for (const Event &event : plan.events) {
    if (event.kind == EventKind::Update)
      ++(event.onHost ? hostUpdates : deviceUpdates);
    if (!isTransfer(event.kind))
      continue;
    Traffic traffic = trafficOf(event, problem);
    copies += traffic == Traffic::Peer;
    (event.phase >= 0 ? stashes : swaps) +=
        traffic == Traffic::SwapIn || traffic == Traffic::SwapOut;
  }
  int resident = static_cast<int>(plan.load.size());
  std::string text;
  auto add = [&](const char *what, int64_t count) {
    text += (text.empty() ? "" : ", ") + std::string(what) + " " +
            std::to_string(count);
  };
  add("devices", static_cast<int64_t>(devices.size()));
  add("packs", static_cast<int64_t>(packs.size()));
  add("turn", turnPacksOf(plan));
  add("sizes", static_cast<int64_t>(sizes.size()));
  add("recomputed", recomputed);
  add("kept", kept);
  add("swaps", swaps);
  add("stashes", stashes);
  add("copies", copies);
  add("resident", resident);
  add("host-updates", hostUpdates);
  add("device-updates", deviceUpdates);
  return text;
}

} // namespace harmony::planner
