//===- SearchSpace.cpp - What a search may choose -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/SearchSpace.h"

#include "compiler/Planner/Build.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace harmony::planner {

PlacedForm formOf(const Layout &layout) {
  return {layout.groups, layout.pipeline,
          layout.pipeline == 1 ? Placement::Mirror : layout.placement,
          layout.turnPacks};
}

std::string name(const PlacedForm &form) {
  std::string groups = countText(form.groups, "group");
  if (form.pipeline == 1)
    return form.groups == 1 ? "1 device" : groups;
  return groups + " of " + std::to_string(form.pipeline) + " devices, " +
         (form.placement == Placement::Ring ? "ring" : "mirror") +
         (form.turnPacks == 1
              ? ""
              : ", 1F1B turn of " + std::to_string(form.turnPacks) + " packs");
}

bool SearchSpace::splits() const {
  for (int groups : groupCounts())
    if (!microbatches(groups).empty())
      return true;
  return false;
}

void SearchSpace::checkPins() const {
  if (!splits() || options.microbatch.value_or(1) > problem.batch) {
    std::string accepted;
    for (int64_t u : problem.microbatches)
      accepted += (accepted.empty() ? "" : ", ") + std::to_string(u);
    if (!options.microbatch)
      throw Error("no microbatch size of the problem divides the batch of " +
                  std::to_string(problem.batch) + ": it has " + accepted);
    throw Error("the microbatch is pinned to " +
                std::to_string(*options.microbatch) +
                ", accepted for a batch of " + std::to_string(problem.batch) +
                " is " + accepted);
  }
  if (options.layersPerPack && *options.layersPerPack < 1)
    throw Error("layers per pack is pinned to " +
                std::to_string(*options.layersPerPack) +
                ", accepted is 1 or more");
  if (options.residency == Residency::None &&
      options.recompute == Recompute::None)
    throw Error("residency none and recompute none contradict each other: "
                "saved values would have to stay");
  if (problem.epilogue && options.update == UpdateOrder::JustInTime)
    throw Error("updates are pinned to just in time, but all updates read "
                "all gradients; accepted is deferred");
  if (!options.updatePlace || *options.updatePlace == UpdatePlace::Any)
    return;
  for (const Tensor &tensor : problem.tensors)
    if (!tensor.gradientUses.empty() &&
        tensor.updatePlace != UpdatePlace::Any &&
        tensor.updatePlace != *options.updatePlace)
      throw Error(
          "updates are pinned to the " +
          std::string(*options.updatePlace == UpdatePlace::Host ? "host"
                                                                : "device") +
          ", but tensor '" + tensor.name + "' can only be updated elsewhere");
}

std::vector<Updates> SearchSpace::updatePlaces() const {
  if (!problem.training)
    return {Updates::Device};
  if (options.updatePlace == UpdatePlace::Host)
    return {Updates::Host};
  if (options.updatePlace == UpdatePlace::Device)
    return {Updates::Device};
  return {Updates::Device, Updates::Host};
}

std::vector<int> SearchSpace::groupCounts() const {
  if (!problem.training || options.schedule == Schedule::HarmonyPp)
    return {1};
  int most = static_cast<int>(std::min<int64_t>(devices, problem.batch));
  std::vector<int> counts;
  for (int groups = most; groups >= 1; --groups) {
    bool asked = options.schedule == Schedule::HarmonyDp
                     ? counts.empty()
                     : groups == most || devices % groups == 0;
    if (asked && !microbatches(groups).empty())
      counts.push_back(groups);
  }
  return counts.empty() ? std::vector<int>{1} : counts;
}

std::vector<Form> SearchSpace::forms() const {
  std::vector<Form> result;
  for (int groups : groupCounts()) {
    bool alone = !problem.training || options.schedule == Schedule::HarmonyDp;
    result.push_back({groups, alone ? 1 : devices / groups});
  }
  return result;
}

std::vector<Form> SearchSpace::narrowerForms() const {
  std::vector<Form> result;
  if (options.schedule != Schedule::Auto || !problem.training)
    return result;
  std::vector<int> full = groupCounts();
  int most = static_cast<int>(std::min<int64_t>(devices, problem.batch));
  for (int groups = most; groups >= 1; --groups) {
    bool isFull = std::find(full.begin(), full.end(), groups) != full.end();
    if (!isFull &&
        (problem.batch % groups != 0 || triedMicrobatches(groups).empty()))
      continue;
    int widest = devices / groups;
    std::set<int, std::greater<>> pipelines;
    for (int half = isFull ? widest / 2 : widest; half > 0; half /= 2)
      pipelines.insert(half);
    for (int power = 1; power < widest; power *= 2)
      pipelines.insert(power);
    for (int pipeline : pipelines)
      result.push_back({groups, pipeline});
  }
  return result;
}

std::vector<int64_t> SearchSpace::microbatches(int groups) const {
  std::vector<int64_t> sizes;
  int64_t largest = sharesOf(problem.batch, groups).front();
  if (options.microbatch) {
    if (canSplit(problem, groups, *options.microbatch))
      sizes.push_back(*options.microbatch);
    return sizes;
  }
  for (int64_t u : problem.microbatches)
    if (u <= largest && canSplit(problem, groups, u))
      sizes.push_back(u);
  return sizes;
}

std::vector<SearchOptions> SearchSpace::withOnePinMore() const {
  std::vector<SearchOptions> result;
  auto pinned = [&]() -> SearchOptions & {
    result.push_back(options);
    return result.back();
  };
  if (!options.update && !problem.epilogue)
    pinned().update = UpdateOrder::Deferred;
  if (options.recompute == Recompute::Auto)
    pinned().recompute = Recompute::All;
  if (options.recompute == Recompute::Auto &&
      options.residency == Residency::Auto)
    pinned().recompute = Recompute::None;
  if (options.residency == Residency::Auto &&
      options.recompute != Recompute::None)
    pinned().residency = Residency::None;
  int layers = std::min(problem.layerCount(), SearchPolicy::pinnedLayers);
  for (int pack = 1; !options.layersPerPack && pack <= layers; ++pack)
    pinned().layersPerPack = pack;
  if (!options.microbatch)
    for (int64_t u : problem.microbatches)
      if (u <= problem.batch)
        pinned().microbatch = u;
  bool anywhere = std::all_of(problem.tensors.begin(), problem.tensors.end(),
                              [](const Tensor &tensor) {
                                return tensor.gradientUses.empty() ||
                                       tensor.updatePlace == UpdatePlace::Any;
                              });
  if (!options.updatePlace && anywhere)
    for (UpdatePlace place : {UpdatePlace::Host, UpdatePlace::Device})
      pinned().updatePlace = place;
  if (options.schedule == Schedule::Auto && devices > 1)
    for (Schedule schedule : {Schedule::HarmonyPp, Schedule::HarmonyDp})
      pinned().schedule = schedule;
  // Of the sizes some split no number of groups that the others leave.
  result.erase(
      std::remove_if(result.begin(), result.end(),
                     [&](const SearchOptions &pins) {
                       return !SearchSpace(problem, devices, pins).splits();
                     }),
      result.end());
  return result;
}

double SearchSpace::computeBound(Form form, int64_t microbatch) const {
  int64_t share = sharesOf(problem.batch, form.groups).front();
  double seconds = 0;
  auto add = [&](int64_t size, int64_t trips) {
    for (int l = 0; trips > 0 && l < problem.layerCount(); ++l) {
      const Cost &cost = problem.cost(l, size);
      seconds += (cost.forwardSeconds +
                  (problem.training ? cost.backwardSeconds : 0)) *
                 static_cast<double>(trips);
    }
  };
  add(microbatch, share / microbatch);
  if (share % microbatch != 0)
    add(share % microbatch, 1);
  return seconds / form.pipeline;
}

double SearchSpace::computeBound(Form form) const {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t u : triedMicrobatches(form.groups))
    least = std::min(least, computeBound(form, u));
  return least;
}

std::vector<int64_t> SearchSpace::triedMicrobatches(int groups) const {
  std::vector<int64_t> sizes = microbatches(groups);
  int64_t share = sharesOf(problem.batch, groups).front();
  auto first = std::find_if(sizes.begin(), sizes.end(),
                            [&](int64_t u) { return share / u <= most; });
  if (first != sizes.end())
    sizes.erase(sizes.begin(), first);
  return sizes;
}

std::vector<int64_t> SearchSpace::microbatchOrder(Form form) const {
  std::vector<int64_t> order = triedMicrobatches(form.groups);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    double x = computeBound(form, a), y = computeBound(form, b);
    return x != y ? x < y : a > b;
  });
  return order;
}

} // namespace harmony::planner
