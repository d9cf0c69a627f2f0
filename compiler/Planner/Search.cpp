//===- Search.cpp - The fastest plan under capacity -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A plan is decided by its layout (data-parallel groups, packs and their
// devices, microbatch sizes), by where tensors are updated, and by what stays
// on the devices. The first two are enumerated, leaving out what cannot beat
// the best plan found; the last is filled greedily: from "nothing stays", each
// ladder of decisions is climbed as far as memory allows, in an order which
// differs by strategy.
//
// Existence does not depend on the search: one family of least plans (a layer a
// pack, nothing stays, one slot) is made for every problem, independent of
// capacity. It gives minDeviceBytes, and is the plan of last resort above it.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Search.h"

#include "compiler/Planner/Baselines.h"
#include "compiler/Planner/Bound.h"
#include "compiler/Planner/Filling.h"
#include "compiler/Planner/Partition.h"
#include "compiler/Planner/RandomPlan.h"
#include "compiler/Planner/SearchResult.h"

#include <algorithm>
#include <map>

namespace harmony::planner {

namespace {

/// Above this fewer partitions and orders of filling are tried.
constexpr int manyLayers = 200;

/// With several devices no further layout is tried once this many events were
/// built: one or two seconds. A count, so that equal input gives equal plans.
constexpr int64_t mostEffort = 3'000'000;

/// Data-parallel groups of pipelines.
struct Form {
  int groups = 1, pipeline = 1;
};

/// A layout that may be tried.
struct Entry {
  Layout layout;
  Updates updates = Updates::Device;
  Estimate estimate;
};

const Strategy firstStrategy = {Rung::Overlap,  Rung::Adjacent, Rung::Values,
                                Rung::Resident, Rung::Pin,      Rung::Keep};

/// The other orders of filling, for the best of what was found.
const Strategy otherStrategies[] = {
    {Rung::Overlap, Rung::Adjacent, Rung::Values, Rung::Keep, Rung::Pin,
     Rung::Resident},
    {Rung::Keep, Rung::Adjacent, Rung::Resident, Rung::Values, Rung::Overlap,
     Rung::Pin},
    {Rung::Resident, Rung::Overlap, Rung::Adjacent, Rung::Values, Rung::Keep,
     Rung::Pin},
    {Rung::Overlap, Rung::Pin, Rung::Adjacent, Rung::Values, Rung::Resident,
     Rung::Keep},
};

class Search {
public:
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options)
      : problem(problem), machine(machine), options(options),
        filling(problem, machine, options),
        devices(static_cast<int>(machine.devices.size())) {
    for (const Device &device : machine.devices)
      capacity.push_back(device.capacity);
    checkPins();
  }

  /// Of the least plans, the one of least peak.
  Least<Decisions> leastPlan() {
    Least<Decisions> least;
    for (Form form : forms())
      for (Updates updates : updatePlaces()) {
        Decisions decisions = filling.base(leastLayout(form), updates);
        decisions.choices.peers = false;
        Plan plan = build(problem, machine, decisions.choices).plan;
        allocate(plan);
        plan.peakBytes.resize(devices, 0);
        Least<Decisions> found{plan.peakBytes, decisions};
        bool better = found.fits(machine) != least.fits(machine)
                          ? found.fits(machine)
                          : found.bytes() < least.bytes();
        if (least.peaks.empty() || better)
          least = std::move(found);
      }
    return least;
  }

  /// The least of equal capacities that has a plan.
  int64_t leastBytes() {
    Machine equal = machine;
    for (Device &device : equal.devices)
      device.capacity = 0;
    return Search(problem, equal, options).leastPlan().bytes();
  }

  Result run() {
    Least<Decisions> least = leastPlan();
    if (!least.fits(machine))
      return refuse(problem, machine, least.peaks);
    if (options.randomSeed)
      considerRandom();
    else if (devices == 1 || !problem.training)
      for (int64_t u : microbatchOrder({1, 1}))
        searchMicrobatch(u);
    else
      searchLayouts();
    if (!options.randomSeed)
      refine();
    if (candidates.empty())
      consider(least.choices);
    if (candidates.empty())
      return refuseHost(problem, machine, least.peaks, hostNeeded);
    const Decisions &chosen = chooseFrom(candidates).choices;
    Planned planned;
    planned.plan = complete(chosen.choices);
    planned.minDeviceBytes = leastBytes();
    planned.boundBytes = lowerBound(problem);
    planned.candidates = simulated;
    planned.schedule =
        chosen.layout.groups > 1 ? Schedule::HarmonyDp : Schedule::HarmonyPp;
    planned.boundSeconds = boundSeconds(problem, machine);
    planned.form = formOf(chosen.layout);
    planned.runnersUp = bestOfForms();
    return planned;
  }

private:
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  Filling filling;
  int devices;
  Limits capacity;
  std::vector<Candidate<Decisions>> candidates;
  double best = std::numeric_limits<double>::infinity();
  int simulated = 0;
  int64_t hostNeeded = 0;

  static std::string formOf(const Layout &layout) {
    std::string groups = std::to_string(layout.groups) + " group" +
                         (layout.groups == 1 ? "" : "s");
    if (layout.pipeline == 1)
      return layout.groups == 1 ? "1 device" : groups;
    return groups + " of " + std::to_string(layout.pipeline) + " devices, " +
           (layout.placement == Placement::Ring ? "ring" : "mirror");
  }

  std::vector<RunnerUp> bestOfForms() const {
    std::map<std::string, const Candidate<Decisions> *> best;
    for (const Candidate<Decisions> &candidate : candidates) {
      const Candidate<Decisions> *&of = best[formOf(candidate.choices.layout)];
      if (!of || candidate.seconds < of->seconds)
        of = &candidate;
    }
    std::vector<RunnerUp> list;
    for (const auto &[form, candidate] : best) {
      const Layout &layout = candidate->choices.layout;
      list.push_back({form, layout.forwardMicrobatch, layout.backwardMicrobatch,
                      static_cast<int>(layout.forwardEnds.size()),
                      static_cast<int>(layout.backwardEnds.size()),
                      candidate->seconds, candidate->swapBytes,
                      candidate->peakBytes});
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const RunnerUp &a, const RunnerUp &b) {
                       return a.seconds < b.seconds;
                     });
    return list;
  }

  //===--- pins ---===//

  void checkPins() const {
    bool splits = false;
    for (int groups : groupCounts())
      splits |= !microbatches(groups).empty();
    if (!splits || options.microbatch.value_or(1) > problem.batch) {
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

  /// Places of updates that are worth trying, whatever the capacity.
  std::vector<Updates> updatePlaces() const {
    if (!problem.training)
      return {Updates::Device};
    if (options.updatePlace == UpdatePlace::Host)
      return {Updates::Host};
    if (options.updatePlace == UpdatePlace::Device)
      return {Updates::Device};
    return {Updates::Device, Updates::Host};
  }
  std::vector<Updates> updatePlaces(int groups) const {
    std::vector<Updates> places = updatePlaces();
    if (places.size() > 1 && filling.canMix(groups))
      places.push_back(Updates::Mixed);
    return places;
  }

  /// Data parallelism has as many groups as there are samples to share and
  /// microbatches to share them by.
  std::vector<int> groupCounts() const {
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

  std::vector<Form> forms() const {
    std::vector<Form> result;
    for (int groups : groupCounts()) {
      bool alone = !problem.training || options.schedule == Schedule::HarmonyDp;
      result.push_back({groups, alone ? 1 : devices / groups});
    }
    return result;
  }

  /// Sizes that the shares of so many groups can be split into.
  std::vector<int64_t> microbatches(int groups) const {
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

  Layout leastLayout(Form form) const {
    return uniformLayout(
        problem, form.groups, form.pipeline,
        filling.keepAll() ? Placement::Mirror : Placement::Ring,
        evenPartition(problem.layerCount(), options.layersPerPack.value_or(1)),
        microbatches(form.groups).front());
  }

  //===--- candidates ---===//

  Plan complete(const Choices &choices) const {
    Draft draft = build(problem, machine, choices);
    allocate(draft.plan);
    draft.plan.peakBytes.resize(devices, 0);
    synchronize(draft);
    simulate(draft.plan, problem, machine);
    return std::move(draft.plan);
  }

  /// By how much each peak is above the capacity.
  std::vector<int64_t> excess(const Plan &plan) const {
    std::vector<int64_t> bytes(devices, 0);
    for (int d = 0; d < devices; ++d)
      bytes[d] = std::max<int64_t>(0, plan.peakBytes[d] - capacity[d]);
    return bytes;
  }

  /// Builds, and keeps if it fits; returns what does not fit.
  std::vector<int64_t> consider(const Decisions &decisions) {
    Draft draft = build(problem, machine, decisions.choices);
    Plan &plan = draft.plan;
    allocate(plan);
    plan.peakBytes.resize(devices, 0);
    std::vector<int64_t> over = excess(plan);
    if (*std::max_element(over.begin(), over.end()) > 0)
      return over;
    if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes) {
      hostNeeded = hostNeeded == 0 ? plan.hostBytes
                                   : std::min(hostNeeded, plan.hostBytes);
      return over;
    }
    synchronize(draft);
    simulate(plan, problem, machine);
    ++simulated;
    candidates.push_back(
        {decisions, plan.seconds, swapBytes(plan),
         *std::max_element(plan.peakBytes.begin(), plan.peakBytes.end())});
    best = std::min(best, plan.seconds);
    return over;
  }

  /// Fills memory and considers the result; where the addresses need more than
  /// the live bytes, again with less.
  void fill(const Decisions &from, const Strategy &strategy) {
    Limits limits = capacity;
    for (int attempt = 0; attempt < 4; ++attempt) {
      if (attempt > 0 && !filling.fits(from, limits))
        return;
      std::vector<int64_t> over =
          consider(filling.climb(from, strategy, limits));
      bool fit = true;
      for (int d = 0; d < devices; ++d)
        if (over[d] > 0) {
          fit = false;
          limits[d] -= over[d] + capacity[d] / 64;
        }
      if (fit)
        return;
    }
  }

  void considerRandom() {
    RandomPlans plans(problem, machine, options, groupCounts().front());
    for (int attempt = 0; attempt < RandomPlans::attempts && candidates.empty();
         ++attempt)
      consider(plans.draw(attempt));
  }

  //===--- one device ---===//

  /// Of one sample after another through all layers, without recomputation,
  /// evenly over the devices.
  double computeBound(Form form, int64_t u) const {
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
    add(u, share / u);
    if (share % u != 0)
      add(share % u, 1);
    return seconds / form.pipeline;
  }

  std::vector<int64_t> microbatchOrder(Form form) const {
    std::vector<int64_t> order = microbatches(form.groups);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      double x = computeBound(form, a), y = computeBound(form, b);
      return x != y ? x < y : a > b;
    });
    return order;
  }

  std::vector<std::vector<int>> partitions(int64_t u, int pipeline) const {
    if (options.layersPerPack)
      return {evenPartition(problem.layerCount(), *options.layersPerPack)};
    return candidatePartitions(problem, u, pipeline);
  }

  /// From the fewest packs that fit on: more packs cost traffic and stalls, but
  /// leave room for what stays and for loading ahead.
  void searchMicrobatch(int64_t u) {
    double bound = computeBound({1, 1}, u);
    if (bound >= best)
      return;
    considerResident({1, 1}, u);
    int further = problem.layerCount() > manyLayers ? 2 : 6;
    for (Updates updates : updatePlaces()) {
      int tried = 0;
      for (const std::vector<int> &packEnds : partitions(u, 1)) {
        Decisions decisions = filling.base(
            uniformLayout(problem, 1, 1, Placement::Ring, packEnds, u),
            updates);
        if (!filling.fits(decisions, capacity))
          continue;
        fill(decisions, firstStrategy);
        // A plan at the bound of this microbatch that swaps nothing is not
        // beaten.
        if (++tried > further || reachedBound(bound))
          break;
      }
    }
  }

  bool reachedBound(double bound) const {
    return !candidates.empty() && candidates.back().swapBytes == 0 &&
           candidates.back().seconds <= bound * 1.001;
  }

  /// Plain training: a pack on each device, nothing leaves. One slot for inputs
  /// where there is no room for two.
  void considerResident(Form form, int64_t u) {
    int layers = problem.layerCount();
    if (!filling.stay() || !problem.training ||
        options.layersPerPack.value_or(layers) < layers)
      return;
    std::vector<double> seconds;
    for (int l = 0; l < layers; ++l) {
      const Cost &cost = problem.cost(l, u);
      seconds.push_back(cost.forwardSeconds + cost.backwardSeconds);
    }
    std::vector<int> packEnds = balancedPartition(seconds, form.pipeline);
    std::optional<Decisions> decisions =
        filling.resident(uniformLayout(problem, form.groups, form.pipeline,
                                       Placement::Mirror, packEnds, u),
                         updatePlaces().front(), capacity);
    if (!decisions)
      return;
    if (form.pipeline > 1)
      *decisions =
          filling.climb(std::move(*decisions),
                        {Rung::Adjacent, Rung::Values, Rung::Keep}, capacity);
    consider(*decisions);
  }

  //===--- several devices ---===//

  /// Layouts of one form, microbatch and place of updates are ranked by their
  /// estimates; the ranking is not trusted across those classes, of which the
  /// first few of each are tried, the class with the best estimate first.
  void searchLayouts() {
    std::vector<std::vector<Entry>> classes;
    for (Form form : forms())
      for (int64_t u : microbatchOrder(form)) {
        considerResident(form, u);
        for (Updates updates : updatePlaces(form.groups))
          if (std::vector<Entry> entries = entriesOf(form, u, updates);
              !entries.empty())
            classes.push_back(std::move(entries));
      }
    std::stable_sort(
        classes.begin(), classes.end(), [](const auto &a, const auto &b) {
          return a.front().estimate.seconds < b.front().estimate.seconds;
        });
    size_t deepest = problem.layerCount() > manyLayers ? 2 : 4;
    for (size_t depth = 0; depth < deepest; ++depth)
      for (std::vector<Entry> &entries : classes)
        if (depth < entries.size() && filling.effort() < mostEffort)
          tryEntry(entries, depth);
  }

  void tryEntry(std::vector<Entry> &entries, size_t at) {
    // Those that do not fit even where nothing stays give way to the next.
    while (at < entries.size()) {
      const Entry &entry = entries[at];
      if (entry.estimate.compute >= best)
        return;
      Decisions decisions = filling.base(entry.layout, entry.updates);
      if (filling.fits(decisions, capacity)) {
        fill(decisions, firstStrategy);
        return;
      }
      entries.erase(entries.begin() + static_cast<long>(at));
    }
  }

  std::vector<Entry> entriesOf(Form form, int64_t u, Updates updates) const {
    std::vector<Placement> placements = {Placement::Ring};
    if (filling.keepAll())
      placements = {Placement::Mirror};
    else if (form.pipeline > 1)
      placements = {Placement::Mirror, Placement::Ring};
    std::vector<std::vector<int>> ends = partitions(u, form.pipeline);
    if (form.pipeline > 1 && options.schedule == Schedule::Auto &&
        !options.layersPerPack)
      ends.push_back({problem.layerCount() - 1});
    std::vector<Entry> entries;
    for (Placement placement : placements)
      for (const std::vector<int> &packEnds : ends) {
        Layout layout = uniformLayout(problem, form.groups, form.pipeline,
                                      placement, packEnds, u);
        Estimate estimated =
            estimate(problem, machine, layout, updates == Updates::Host);
        entries.push_back({std::move(layout), updates, estimated});
      }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry &a, const Entry &b) {
                       return a.estimate.seconds < b.estimate.seconds;
                     });
    return entries;
  }

  //===--- refinement ---===//

  /// Around the best of what was found: other orders of filling, and with
  /// several devices other forward packs.
  void refine() {
    std::vector<Candidate<Decisions>> found = candidates;
    std::stable_sort(
        found.begin(), found.end(), [](const auto &a, const auto &b) {
          return a.seconds != b.seconds ? a.seconds < b.seconds
                                        : a.swapBytes < b.swapBytes;
        });
    size_t count = problem.layerCount() > manyLayers ? 1 : 3;
    for (size_t i = 0; i < found.size() && i < count; ++i) {
      const Layout &layout = found[i].choices.layout;
      Form form{layout.groups, layout.pipeline};
      if (found[i].swapBytes == 0 &&
          found[i].seconds <=
              computeBound(form, layout.backwardMicrobatch) * 1.001)
        return;
      Updates updates = found[i].choices.updates;
      Layout fresh = layout;
      fresh.keep.clear();
      for (const Strategy &strategy : otherStrategies)
        if (devices == 1 || filling.effort() < 2 * mostEffort)
          fill(filling.base(fresh, updates), strategy);
      std::vector<Layout> others = largerTurns(fresh, updates);
      if (devices > 1 && !filling.keepAll() && !options.layersPerPack)
        for (Layout &other :
             otherForwards(problem, fresh,
                           options.microbatch ? std::vector<int64_t>{}
                                              : microbatches(fresh.groups)))
          others.push_back(std::move(other));
      for (Layout &other : others)
        if (Decisions decisions = filling.base(std::move(other), updates);
            (devices == 1 || filling.effort() < 2 * mostEffort) &&
            filling.fits(decisions, capacity))
          fill(decisions, firstStrategy);
    }
  }

  /// The turn pack recomputes nothing: as many layers as fit, and half as many
  /// more. In a pipeline it is balanced with the other packs instead.
  std::vector<Layout> largerTurns(const Layout &layout, Updates updates) const {
    int packs = static_cast<int>(layout.forwardEnds.size());
    if (!problem.training || layout.pipeline > 1 || packs == 0 ||
        options.layersPerPack || filling.keepAll())
      return {};
    std::vector<double> seconds;
    for (int l = 0; l <= layout.forwardEnds.back(); ++l) {
      const Cost &cost = problem.cost(l, layout.backwardMicrobatch);
      seconds.push_back(cost.forwardSeconds + cost.backwardSeconds);
    }
    auto turningAt = [&](int first) {
      std::vector<int> ends =
          balancedPartition({seconds.begin(), seconds.begin() + first}, packs);
      ends.push_back(problem.layerCount() - 1);
      return uniformLayout(problem, layout.groups, layout.pipeline,
                           layout.placement, ends, layout.backwardMicrobatch);
    };
    int fits = static_cast<int>(seconds.size()), tooLarge = 0;
    while (fits - tooLarge > 1) {
      int middle = (fits + tooLarge) / 2;
      (filling.fits(filling.base(turningAt(middle), updates), capacity)
           ? fits
           : tooLarge) = middle;
    }
    int now = static_cast<int>(seconds.size());
    std::vector<Layout> larger;
    if (fits < now)
      larger.push_back(turningAt(fits));
    if (fits + 1 < now)
      larger.push_back(turningAt((fits + now) / 2));
    return larger;
  }
};

bool isBaseline(const Problem &problem, const SearchOptions &options) {
  return problem.training && (options.schedule == Schedule::PpSwap ||
                              options.schedule == Schedule::DpSwap);
}

} // namespace

Result solve(const Problem &problem, const Machine &machine,
             const SearchOptions &options) {
  problem.check();
  machine.check();
  if (isBaseline(problem, options))
    return solveBaseline(problem, machine, options);
  return Search(problem, machine, options).run();
}

int64_t minDeviceBytes(const Problem &problem, const Machine &machine,
                       const SearchOptions &options) {
  problem.check();
  machine.check();
  if (isBaseline(problem, options))
    return leastBaselineBytes(problem, machine, options);
  return Search(problem, machine, options).leastBytes();
}

} // namespace harmony::planner
