//===- Trials.cpp - Plans that a search has tried -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Trials.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace harmony::planner {

const Strategy strategies[5] = {
    {Rung::Overlap, Rung::Adjacent, Rung::Values, Rung::Resident, Rung::Pin,
     Rung::Keep},
    {Rung::Overlap, Rung::Adjacent, Rung::Values, Rung::Keep, Rung::Pin,
     Rung::Resident},
    {Rung::Keep, Rung::Adjacent, Rung::Resident, Rung::Values, Rung::Overlap,
     Rung::Pin},
    {Rung::Resident, Rung::Overlap, Rung::Adjacent, Rung::Values, Rung::Keep,
     Rung::Pin},
    {Rung::Overlap, Rung::Pin, Rung::Adjacent, Rung::Values, Rung::Resident,
     Rung::Keep},
};

Trials::Trials(SearchContext &context, int others, bool othersGather)
    : filling(context.problem, context.machine, context.options, others,
              othersGather),
      context(context), problem(context.problem), machine(context.machine),
      devices(static_cast<int>(machine.devices.size())),
      bestSeconds(std::numeric_limits<double>::infinity()) {
  for (const Device &device : machine.devices)
    capacity.push_back(device.capacity);
}

std::vector<Updates> Trials::updatePlaces(int groups) const {
  std::vector<Updates> places = context.space.updatePlaces();
  if (places.size() > 1 && filling.canMix(groups))
    places.push_back(Updates::Mixed);
  if (places.size() > 1)
    places.push_back(Updates::Early);
  return places;
}

std::vector<Updates> Trials::otherPlaces(int groups) const {
  std::vector<Updates> places = updatePlaces(groups);
  if (places.size() > 1 && filling.areSmall())
    places.push_back(Updates::Staying);
  return places;
}

double Trials::bestOf(const PlacedForm &form) const {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Trial &trial : list)
    if (formOf(trial.choices.layout) == form)
      seconds = std::min(seconds, trial.seconds);
  return seconds;
}

std::vector<size_t> Trials::byTime() const {
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return list[a].seconds != list[b].seconds
               ? list[a].seconds < list[b].seconds
               : list[a].swapBytes < list[b].swapBytes;
  });
  return order;
}

std::vector<RunnerUp> Trials::bestOfForms() const {
  std::map<PlacedForm, const Trial *> best;
  for (const Trial &trial : list) {
    const Trial *&of = best[formOf(trial.choices.layout)];
    if (!of || trial.seconds < of->seconds)
      of = &trial;
  }
  std::vector<RunnerUp> forms;
  for (const auto &[form, trial] : best) {
    const Layout &layout = trial->choices.layout;
    int forward = static_cast<int>(layout.forwardEnds.size());
    int backward = static_cast<int>(layout.backwardEnds.size());
    std::set<int64_t, std::greater<>> sizes;
    for (int p = 0; p < forward; ++p)
      sizes.insert(layout.forwardSize(p));
    for (int p = 0; p < backward; ++p)
      sizes.insert(layout.backwardSize(p));
    int turn = backward > 0 ? layout.turnPacks : 0;
    forms.push_back({name(form),
                     {sizes.begin(), sizes.end()},
                     forward + turn,
                     backward,
                     trial->seconds,
                     trial->swapBytes,
                     trial->peakBytes});
  }
  std::stable_sort(forms.begin(), forms.end(),
                   [](const RunnerUp &a, const RunnerUp &b) {
                     return a.seconds < b.seconds;
                   });
  return forms;
}

std::optional<size_t> Trials::find(const Layout &layout) const {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].origin.strategy && layoutOf(i) == layout)
      return i;
  return std::nullopt;
}

std::optional<Layout> Trials::unlessOf(const std::optional<Shape> &shape,
                                       const Layout &layout) const {
  if (shape && context.shapes.layoutOf(*shape) == layout)
    return std::nullopt;
  return layout;
}

Layout Trials::layoutOf(size_t trial) const {
  const Origin &origin = list[trial].origin;
  if (origin.strategy)
    return layoutOf(origin);
  Layout layout = list[trial].choices.layout;
  layout.keep.clear();
  return layout;
}

Layout Trials::layoutOf(const Origin &origin) const {
  return origin.layout ? *origin.layout
                       : context.shapes.layoutOf(*origin.shape);
}

bool Trials::isAt(size_t trial, double seconds) const {
  return list[trial].swapBytes == 0 &&
         list[trial].seconds <= SearchPolicy::atBound * seconds;
}

void Trials::countFromHere() {
  if (!notCounted)
    notCounted = filling.effort();
}

bool Trials::mayTry(double part) const {
  int64_t most =
      (empty() ? SearchPolicy::factorWhileNothingFits : 1) * context.effort;
  return static_cast<double>(filling.effort() - notCounted.value_or(0)) <
         part * static_cast<double>(most);
}

bool Trials::mayGoOn() const {
  return filling.effort() - notCounted.value_or(0) + costliest <
         2 * context.effort;
}

bool isBetter(const Proposal &a, const Proposal &b) {
  return a.cost.fits != b.cost.fits ? a.cost.fits
                                    : a.cost.seconds < b.cost.seconds;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

/// With addresses and peaks.
Draft &Trials::placed(const Choices &choices) {
  Draft &draft = filling.build(choices);
  allocator.allocate(draft.plan, capacity);
  draft.plan.peakBytes.resize(devices, 0);
  return draft;
}

/// With waits and times.
void Trials::finish(Draft &draft) {
  synchronizer.synchronize(draft);
  simulate(draft.plan, problem, machine);
}

Plan Trials::complete(const Choices &choices) {
  if (kept && list[*kept].choices.choices == choices)
    return keptPlan;
  Draft &draft = placed(choices);
  finish(draft);
  return std::move(draft.plan);
}

/// By how much each peak is above the capacity.
std::vector<int64_t> Trials::excess(const Plan &plan) const {
  std::vector<int64_t> bytes(devices, 0);
  for (int d = 0; d < devices; ++d)
    bytes[d] = std::max<int64_t>(0, plan.peakBytes[d] - capacity[d]);
  return bytes;
}

std::vector<int64_t> Trials::consider(const Decisions &decisions,
                                      const Origin &origin) {
  for (const Trial &other : list)
    if (other.choices.choices == decisions.choices)
      return std::vector<int64_t>(devices, 0);
  Draft &draft = placed(decisions.choices);
  Plan &plan = draft.plan;
  std::vector<int64_t> over = excess(plan);
  if (*std::max_element(over.begin(), over.end()) > 0)
    return over;
  if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes) {
    hostNeeded =
        hostNeeded == 0 ? plan.hostBytes : std::min(hostNeeded, plan.hostBytes);
    return over;
  }
  filling.spend(SearchPolicy::simulationEffort *
                static_cast<int64_t>(plan.events.size()));
  finish(draft);
  Trial trial;
  trial.choices = decisions;
  trial.seconds = plan.seconds;
  trial.computeSeconds = plan.computeSeconds;
  trial.swapBytes = swapBytes(plan);
  trial.peakBytes =
      *std::max_element(plan.peakBytes.begin(), plan.peakBytes.end());
  trial.origin = origin;
  list.push_back(std::move(trial));
  bestSeconds = std::min(bestSeconds, plan.seconds);
  if (&chooseFrom(list) == &list.back()) {
    kept = list.size() - 1;
    keptPlan = plan;
  }
  return over;
}

/// Fills memory and considers the result; where the addresses need more than
/// the live bytes, again with less.
void Trials::fill(const Decisions &from, const Origin &origin) {
  Limits limits = filling.lessOthers(from, capacity);
  for (int attempt = 0; attempt < SearchPolicy::fillings; ++attempt) {
    int64_t before = filling.effort();
    if (!filling.fits(from, limits))
      return;
    std::vector<int64_t> over =
        consider(filling.climb(from, *origin.strategy, limits), origin);
    costliest = std::max(costliest, filling.effort() - before);
    bool fit = true;
    for (int d = 0; d < devices; ++d)
      if (over[d] > 0) {
        fit = false;
        limits[d] -= over[d] + capacity[d] / SearchPolicy::fillingMargin;
      }
    if (fit)
      return;
  }
}

bool Trials::tryLayout(const Layout &layout, Updates updates,
                       const std::optional<Shape> &shape,
                       const Strategy &strategy, UpdateOrder order) {
  Decisions decisions = filling.base(layout, updates, order);
  for (const Filled &other : filled)
    if (other.strategy == &strategy && other.choices == decisions.choices)
      return other.fits;
  size_t before = list.size();
  if (filling.fits(decisions, capacity))
    fill(decisions, {shape, unlessOf(shape, layout), &strategy, true});
  filled.push_back(
      {std::move(decisions.choices), &strategy, list.size() > before});
  return filled.back().fits;
}

void Trials::tryMoved(size_t from, const Proposal &proposal) {
  Origin origin = list[from].origin;
  origin.shape = proposal.shape;
  origin.layout = unlessOf(proposal.shape, proposal.layout);
  origin.climbed = false;
  UpdateOrder order =
      proposal.order.value_or(list[from].choices.choices.update);
  Decisions decisions = filling.moved(list[from].choices, proposal.layout,
                                      proposal.updates, order);
  bool fits = filling.fits(decisions, capacity);
  bool anew = fits ? proposal.updates == Updates::Staying &&
                         list[from].choices.updates != Updates::Staying
                   : proposal.cost.seconds > 0 &&
                         proposal.cost.seconds < list[from].seconds;
  if (fits && !anew)
    consider(decisions, origin);
  else if (anew)
    tryLayout(proposal.layout, proposal.updates, proposal.shape,
              origin.strategy ? *origin.strategy : transfersFirst, order);
}

void Trials::adopt(const Trial &found) {
  for (const Trial &other : list)
    if (other.choices.choices == found.choices.choices)
      return;
  list.push_back(found);
  bestSeconds = std::min(bestSeconds, found.seconds);
}

bool Trials::takeOver(const Trial &found, const Layout &layout,
                      const Origin &origin) {
  size_t before = list.size();
  Updates updates = found.choices.updates;
  UpdateOrder order = found.choices.choices.update;
  Decisions decisions = filling.moved(found.choices, layout, updates, order);
  if (filling.fits(decisions, filling.lessOthers(decisions, capacity)))
    consider(decisions, origin);
  if (list.size() == before)
    return tryLayout(layout, updates, origin.shape, *origin.strategy, order);
  list.back().origin.joined = true;
  list.back().origin.refined =
      list.back().seconds < SearchPolicy::asFastAsAlone * found.seconds;
  return true;
}

} // namespace harmony::planner
