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
#include "compiler/Planner/Estimate.h"
#include "compiler/Planner/Filling.h"
#include "compiler/Planner/Partition.h"
#include "compiler/Planner/RandomPlan.h"
#include "compiler/Planner/SearchResult.h"
#include "compiler/Planner/Shape.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace harmony::planner {

namespace {

/// No further layout is tried once so many events were built, and no further
/// step taken once twice as many were: a third of a second each. Counts, so
/// that equal input gives equal plans. The events of what is simulated, whose
/// addresses and waits are found too, count so many times.
constexpr int64_t simulationEffort = 6;
int64_t mostEffortFor(const Problem &problem) {
  return 430'000 * std::clamp(problem.layerCount(), 500, 1500) / 500;
}

/// Data-parallel groups of pipelines.
struct Form {
  int groups = 1, pipeline = 1;
};

/// A layout that may be tried; `shape` where it has one.
struct Entry {
  std::optional<Shape> shape;
  Layout layout;
  Updates updates = Updates::Device;
  LayoutCost cost;
};

/// What led to a candidate of the same index.
struct Origin {
  std::optional<Shape> shape;
  const Strategy *strategy = nullptr;
  bool climbed = false; ///< with that strategy, not taken over
};

/// Orders of filling: transfers first, recomputation first, and mixtures.
const Strategy strategies[] = {
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
const Strategy &transfersFirst = strategies[0];
const Strategy &recomputationFirst = strategies[1];

class Search {
public:
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options)
      : Search(problem, machine, options, machine, 0, false) {}

  /// Of equal groups one alone, with its part of what links share; `whole`:
  /// the machine that estimates are made for.
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options, const Machine &whole, int others,
         bool othersGather)
      : problem(problem), machine(machine), options(options),
        filling(problem, machine, options, others, othersGather),
        estimator(problem, whole), shapes(problem, whole),
        devices(static_cast<int>(machine.devices.size())),
        mostEffort(mostEffortFor(problem)) {
    for (const Device &device : machine.devices)
      capacity.push_back(device.capacity);
    checkPins();
  }

  /// Of the least plans, the one of least peak among those that fit, if any do.
  const Least<Decisions> &leastPlan() {
    const std::vector<Least<Decisions>> &all = leastPlans();
    return *std::min_element(
        all.begin(), all.end(), [&](const auto &a, const auto &b) {
          return a.fits(machine) != b.fits(machine) ? a.fits(machine)
                                                    : a.bytes() < b.bytes();
        });
  }

  /// The least of equal capacities that has a plan.
  int64_t leastBytes() {
    int64_t bytes = std::numeric_limits<int64_t>::max();
    for (const Least<Decisions> &least : leastPlans())
      bytes = std::min(bytes, least.bytes());
    return bytes;
  }

  Result run() {
    const Least<Decisions> &least = leastPlan();
    if (!least.fits(machine))
      return refuse(problem, machine, least.peaks);
    if (options.randomSeed)
      considerRandom();
    else if (problem.training)
      searchLayouts();
    else
      for (int64_t u : microbatchOrder({1, 1}))
        searchEvaluation(u);
    if (!options.randomSeed && problem.training)
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
    planned.effort = filling.effort() + effortAlone;
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
  Estimator estimator;
  Shapes shapes;
  int devices;
  int64_t mostEffort;
  Limits capacity;
  std::vector<Least<Decisions>> leasts; ///< see leastPlans()
  std::vector<Candidate<Decisions>> candidates;
  std::vector<Origin> origins; ///< of the candidates
  /// Choices that were filled: several places of updates may be the same.
  struct Filled {
    Choices choices;
    const Strategy *strategy;
    bool fits;
  };
  std::vector<Filled> filled;
  double best = std::numeric_limits<double>::infinity();
  int simulated = 0;
  int64_t effortAlone = 0; ///< of searches in one group
  int64_t costliest = 0;   ///< of one filling
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
    if (places.size() > 1)
      places.push_back(Updates::Early);
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

  /// One of every form and place of updates, whatever the capacity.
  const std::vector<Least<Decisions>> &leastPlans() {
    if (!leasts.empty())
      return leasts;
    for (Form form : forms())
      for (Updates updates : updatePlaces()) {
        Decisions decisions = filling.base(leastLayout(form), updates);
        decisions.choices.peers = false;
        Plan plan = build(problem, machine, decisions.choices).plan;
        allocate(plan);
        plan.peakBytes.resize(devices, 0);
        leasts.push_back({std::move(plan.peakBytes), std::move(decisions)});
      }
    return leasts;
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
    allocate(draft.plan, capacity);
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

  /// Builds, and keeps if it fits and is new; returns what does not fit.
  std::vector<int64_t> consider(const Decisions &decisions,
                                const Origin &origin = {}) {
    for (const Candidate<Decisions> &other : candidates)
      if (other.choices.choices == decisions.choices)
        return std::vector<int64_t>(devices, 0);
    Draft draft = build(problem, machine, decisions.choices);
    Plan &plan = draft.plan;
    allocate(plan, capacity);
    plan.peakBytes.resize(devices, 0);
    std::vector<int64_t> over = excess(plan);
    if (*std::max_element(over.begin(), over.end()) > 0)
      return over;
    if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes) {
      hostNeeded = hostNeeded == 0 ? plan.hostBytes
                                   : std::min(hostNeeded, plan.hostBytes);
      return over;
    }
    filling.spend(simulationEffort * static_cast<int64_t>(plan.events.size()));
    synchronize(draft);
    simulate(plan, problem, machine);
    ++simulated;
    candidates.push_back(
        {decisions, plan.seconds, plan.computeSeconds, swapBytes(plan),
         *std::max_element(plan.peakBytes.begin(), plan.peakBytes.end())});
    origins.push_back(origin);
    best = std::min(best, plan.seconds);
    return over;
  }

  /// Fills memory and considers the result; where the addresses need more than
  /// the live bytes, again with less.
  void fill(const Decisions &from, const Strategy &strategy,
            const std::optional<Shape> &shape = {}) {
    Limits limits = filling.lessOthers(from, capacity);
    for (int attempt = 0; attempt < 4; ++attempt) {
      int64_t before = filling.effort();
      if (!filling.fits(from, limits))
        return;
      std::vector<int64_t> over = consider(
          filling.climb(from, strategy, limits), {shape, &strategy, true});
      costliest = std::max(costliest, filling.effort() - before);
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

  /// From the fewest packs that fit on: more packs cost traffic and stalls, but
  /// leave room for what stays and for loading ahead.
  void searchEvaluation(int64_t u) {
    double bound = computeBound({1, 1}, u);
    if (bound >= best)
      return;
    constexpr int further = 6;
    int tried = 0;
    std::vector<std::vector<int>> partitions;
    if (options.layersPerPack)
      partitions = {
          evenPartition(problem.layerCount(), *options.layersPerPack)};
    else
      partitions = candidatePartitions(problem, u);
    for (const std::vector<int> &packEnds : partitions) {
      Decisions decisions = filling.base(
          uniformLayout(problem, 1, 1, Placement::Ring, packEnds, u),
          Updates::Device);
      if (!filling.fits(decisions, capacity))
        continue;
      fill(decisions, transfersFirst);
      // A plan at the bound of this microbatch that swaps nothing is not
      // beaten.
      if (++tried > further || reachedBound(bound))
        break;
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

  //===--- layouts ---===//

  /// Layouts of one form, microbatch and place of updates are ranked by their
  /// estimates; the ranking is not trusted across those classes, of which the
  /// first few of each are tried, the class with the best estimate first.
  void searchLayouts() {
    std::vector<std::vector<Entry>> classes;
    for (Form form : forms()) {
      if (form.pipeline == 1 && form.groups > 1 && !options.layersPerPack &&
          searchOneGroup(form.groups))
        continue;
      std::vector<int64_t> sizes = microbatchOrder(form);
      if (form.pipeline == 1 && shapes.mayMix() && !options.microbatch &&
          !options.layersPerPack && sizes.size() > 1)
        sizes.push_back(0); // each pack its own
      for (int64_t u : sizes) {
        if (u > 0)
          considerResident(form, u);
        for (Updates updates : updatePlaces(form.groups))
          if (std::vector<Entry> entries = entriesOf(form, u, updates);
              !entries.empty())
            classes.push_back(std::move(entries));
      }
    }
    std::stable_sort(classes.begin(), classes.end(),
                     [](const auto &a, const auto &b) {
                       return isBetter(a.front(), b.front());
                     });
    // The best of every form, and then as many as there is time for.
    std::set<std::string> begun;
    for (std::vector<Entry> &entries : classes)
      if (begun.insert(formOf(entries.front().layout)).second)
        tryEntry(entries, 0, /*always=*/true);
    constexpr size_t deepest = 4;
    for (size_t depth = 0; depth < deepest; ++depth)
      for (std::vector<Entry> &entries : classes)
        if (depth < entries.size() && mayTry() &&
            mayWin(formOf(entries[depth].layout)))
          tryEntry(entries, depth);
  }

  /// Whether the form's best so far is close enough.
  bool mayWin(const std::string &form) const {
    constexpr double close = 1.3;
    double seconds = std::numeric_limits<double>::infinity();
    for (const Candidate<Decisions> &candidate : candidates)
      if (formOf(candidate.choices.layout) == form)
        seconds = std::min(seconds, candidate.seconds);
    return !(seconds < std::numeric_limits<double>::infinity()) ||
           seconds <= close * best;
  }

  /// Equal groups of one device do the same: the best shapes of one alone,
  /// which are found with fewer events, are the first to be tried.
  bool searchOneGroup(int groups) {
    const Filling::OneGroup *one = filling.oneGroupOf(groups);
    if (!one || options.microbatch.value_or(1) > one->problem.batch)
      return false;
    for (int64_t u : microbatchOrder({groups, 1}))
      considerResident({groups, 1}, u);
    Machine single = aloneOf(*one, groups, false);
    Machine estimated = aloneOf(*one, groups, true);
    SearchOptions alone = options;
    alone.schedule = Schedule::Auto;
    Search search(one->problem, single, alone, estimated, groups - 1,
                  machine.hasLink(0, 1));
    search.mostEffort = mostEffort * 4 / 5; // small plans
    search.searchLayouts();
    search.refine();
    effortAlone += search.filling.effort();
    std::vector<Layout> seen;
    constexpr size_t most = 4;
    for (size_t i : search.byTime()) {
      Origin origin = search.origins[i];
      if (!origin.shape || seen.size() == most)
        continue;
      origin.shape->groups = groups;
      Layout layout = shapes.layoutOf(*origin.shape);
      // Of those with as many packs the fastest: the others are hardly slower,
      // or all do not fit.
      if (std::any_of(seen.begin(), seen.end(), [&](const Layout &other) {
            return other.forwardEnds.size() == layout.forwardEnds.size() &&
                   other.backwardEnds.size() == layout.backwardEnds.size() &&
                   other.backwardMicrobatch == layout.backwardMicrobatch;
          }))
        continue;
      Updates updates = search.candidates[i].choices.updates;
      if (tryLayout(layout, updates, origin.shape, *origin.strategy))
        seen.push_back(std::move(layout));
    }
    return !seen.empty();
  }

  /// One device with its part of what links share. To be estimated: tensors
  /// come once for all groups, values for each.
  static Machine aloneOf(const Filling::OneGroup &one, int groups,
                         bool estimated) {
    Machine single = one.machine;
    single.devices.resize(1);
    single.links.clear();
    single.resources.clear();
    double once = 0, each = 0;
    for (const Tensor &tensor : one.problem.tensors)
      once += 2 * static_cast<double>(tensor.bytes);
    for (const Value &value : one.problem.values)
      each += static_cast<double>(value.bytesPerSample) *
              static_cast<double>(one.problem.batch);
    for (bool in : {true, false}) {
      Link link = in ? one.machine.link(hostEndpoint, 0)
                     : one.machine.link(0, hostEndpoint);
      for (int r : link.shares) {
        double rate = one.machine.resources[r].bytesPerSecond;
        double part = in && estimated ? (once + each) / (once + each * groups)
                                      : 1.0 / groups;
        link.bytesPerSecond = std::min(link.bytesPerSecond, rate * part);
      }
      link.shares.clear();
      single.links.push_back(std::move(link));
    }
    return single;
  }

  /// Twice as much where nothing fits so far.
  bool mayTry() const {
    return filling.effort() < (candidates.empty() ? 2 : 1) * mostEffort;
  }

  static bool isBetter(const Entry &a, const Entry &b) {
    return a.cost.fits != b.cost.fits ? a.cost.fits
                                      : a.cost.seconds < b.cost.seconds;
  }

  /// `always`: however many events were built, and however it is estimated,
  /// which is too low where it is wrong.
  static constexpr double hopeless = 1.15;
  void tryEntry(std::vector<Entry> &entries, size_t at, bool always = false) {
    // Those that do not fit even where nothing stays give way to the next.
    while (at < entries.size() && (always || mayTry())) {
      const Entry &entry = entries[at];
      if (entry.cost.compute >= best ||
          (!always && entry.cost.seconds > hopeless * best) ||
          (!entry.cost.fits && !candidates.empty()))
        return;
      if (std::optional<size_t> same = candidateOf(entry.layout)) {
        if (candidates[*same].choices.updates != entry.updates)
          tryMoved(*same, entry);
        return;
      }
      // What links carry anyway need not stay.
      const Strategy &strategy = entry.cost.transfers < entry.cost.compute
                                     ? recomputationFirst
                                     : transfersFirst;
      if (tryLayout(entry.layout, entry.updates, entry.shape, strategy))
        return;
      entries.erase(entries.begin() + static_cast<long>(at));
    }
  }

  /// False: it does not fit.
  bool tryLayout(const Layout &layout, Updates updates,
                 const std::optional<Shape> &shape, const Strategy &strategy) {
    Decisions decisions = filling.base(layout, updates);
    for (const Filled &other : filled)
      if (other.strategy == &strategy && other.choices == decisions.choices)
        return other.fits;
    size_t before = candidates.size();
    if (filling.fits(decisions, capacity))
      fill(decisions, strategy, shape);
    filled.push_back(
        {std::move(decisions.choices), &strategy, candidates.size() > before});
    return filled.back().fits;
  }

  std::vector<Entry> entriesOf(Form form, int64_t u, Updates updates) {
    std::vector<Entry> entries;
    auto add = [&](const std::optional<Shape> &shape, Layout layout) {
      if (filling.keepAll() && layout.placement == Placement::Ring)
        return;
      for (const Entry &other : entries)
        if (isSame(other.layout, layout))
          return;
      LayoutCost cost = estimator.estimate(layout, updates);
      if (cost.compute < best)
        entries.push_back({shape, std::move(layout), updates, cost});
    };
    auto addEnds = [&](const std::vector<int> &ends) {
      for (Placement placement : {Placement::Mirror, Placement::Ring})
        add({}, uniformLayout(problem, form.groups, form.pipeline, placement,
                              ends, u));
    };
    if (options.layersPerPack) {
      addEnds(evenPartition(problem.layerCount(), *options.layersPerPack));
    } else {
      for (const Shape &shape : shapes.of(form.groups, form.pipeline, u))
        add(shape, shapes.layoutOf(shape));
      if (form.pipeline > 1 && options.schedule == Schedule::Auto)
        addEnds({problem.layerCount() - 1});
    }
    std::stable_sort(entries.begin(), entries.end(), isBetter);
    return entries;
  }

  /// One of the same shape, but for levels of keeping beyond segments.
  std::optional<size_t> candidateOf(const Layout &layout) const {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Layout &other = candidates[i].choices.layout;
      if (other.groups == layout.groups && other.pipeline == layout.pipeline &&
          origins[i].strategy && isSame(layoutOf(i), layout))
        return i;
    }
    return std::nullopt;
  }

  static bool isSame(const Layout &a, const Layout &b) {
    return a.placement == b.placement && a.forwardEnds == b.forwardEnds &&
           a.backwardEnds == b.backwardEnds &&
           a.forwardMicrobatch == b.forwardMicrobatch &&
           a.backwardMicrobatch == b.backwardMicrobatch &&
           a.forwardSizes == b.forwardSizes &&
           a.backwardSizes == b.backwardSizes && a.keep == b.keep;
  }

  //===--- refinement ---===//

  /// Steps around the best of what was found, as long as they are better:
  /// other orders of filling, other shapes.
  void refine() {
    constexpr double hopeful = 1.2, close = 1.05; // times the best
    std::vector<size_t> begun = startsOf(hopeful);
    for (double most = hopeful; !begun.empty() && mayGoOn(); most = close) {
      std::vector<size_t> better;
      for (size_t start : begun)
        if (candidates[start].seconds < most * best && mayGoOn())
          if (size_t found = stepFrom(start); found != start)
            better.push_back(found);
      begun = std::move(better);
    }
  }

  /// The three best that differ in packs, and the best of every other form that
  /// is within `most` times the best: they take turns.
  std::vector<size_t> startsOf(double most) const {
    constexpr size_t starts = 3;
    std::vector<size_t> begun;
    std::set<std::string> forms;
    for (size_t i : byTime()) {
      const Layout &layout = candidates[i].choices.layout;
      bool isNew = std::none_of(begun.begin(), begun.end(), [&](size_t other) {
        return candidates[other].choices.layout.backwardEnds ==
               layout.backwardEnds;
      });
      bool isFirst = forms.insert(formOf(layout)).second &&
                     candidates[i].seconds < most * best;
      if (isFirst || (isNew && begun.size() < starts))
        begun.push_back(i);
    }
    return begun;
  }

  std::vector<size_t> byTime() const {
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return candidates[a].seconds != candidates[b].seconds
                 ? candidates[a].seconds < candidates[b].seconds
                 : candidates[a].swapBytes < candidates[b].swapBytes;
    });
    return order;
  }

  bool mayGoOn() const { return filling.effort() + costliest < 2 * mostEffort; }

  /// One step in every direction; `from` if none is better.
  size_t stepFrom(size_t from) {
    if (isAtBound(from))
      return from;
    size_t begin = from;
    size_t tried = candidates.size();
    auto toBest = [&] {
      for (size_t i = tried; i < candidates.size(); ++i)
        if (candidates[i].seconds < candidates[from].seconds)
          from = i;
    };
    climbAgain(from);
    toBest();
    Origin origin = origins[from];
    Updates updates = candidates[from].choices.updates;
    for (Updates other : updatePlaces(candidates[from].choices.layout.groups))
      if (other != updates && mayGoOn())
        tryMoved(from, {origin.shape, layoutOf(from), other, {}});
    toBest();
    updates = candidates[from].choices.updates;
    if (origin.shape && !options.layersPerPack)
      for (Entry &entry : neighbours(*origin.shape, updates))
        if (entry.cost.compute < candidates[from].seconds && mayGoOn())
          tryMoved(from, entry);
    toBest();
    tryRuns(from);
    toBest();
    return candidates[from].seconds < candidates[begin].seconds * 0.9995
               ? from
               : begin;
  }

  /// With its phases in more Runs, or fewer.
  void tryRuns(size_t from) {
    Decisions decisions = candidates[from].choices;
    Origin origin = origins[from];
    int current = decisions.choices.runs;
    for (int runs = 2; runs <= Choices::mostRuns; runs *= 2) {
      decisions.choices.runs = runs;
      if (runs != current && mayGoOn())
        consider(decisions, origin);
    }
  }

  /// Without what was filled in.
  Layout layoutOf(size_t candidate) const {
    if (origins[candidate].shape)
      return shapes.layoutOf(*origins[candidate].shape);
    Layout layout = candidates[candidate].choices.layout;
    layout.keep.clear();
    return layout;
  }

  /// With its own order of filling, if what stays was taken over; with the
  /// others where a device waits.
  void climbAgain(size_t from) {
    constexpr double waits = 1.02;
    Layout layout = layoutOf(from);
    Origin origin = origins[from];
    Updates updates = candidates[from].choices.updates;
    bool waiting =
        candidates[from].seconds > waits * candidates[from].computeSeconds;
    for (const Strategy &strategy : strategies) {
      bool own = &strategy == origin.strategy;
      if (mayGoOn() && (own ? !origin.climbed : waiting))
        tryLayout(layout, updates, origin.shape, strategy);
    }
  }

  /// With what stays as it was, if there is room for it; else anew.
  void tryMoved(size_t from, const Entry &entry) {
    Origin origin{entry.shape, origins[from].strategy, false};
    Decisions decisions =
        filling.moved(candidates[from].choices, entry.layout, entry.updates);
    if (filling.fits(decisions, capacity))
      consider(decisions, origin);
    else if (entry.cost.seconds > 0 &&
             entry.cost.seconds < candidates[from].seconds)
      tryLayout(entry.layout, entry.updates, entry.shape,
                origin.strategy ? *origin.strategy : transfersFirst);
  }

  bool isAtBound(size_t candidate) const {
    const Layout &layout = candidates[candidate].choices.layout;
    Form form{layout.groups, layout.pipeline};
    return layout.backwardSizes.empty() &&
           candidates[candidate].swapBytes == 0 &&
           candidates[candidate].seconds <=
               computeBound(form, layout.backwardMicrobatch) * 1.001;
  }

  /// Those with the best estimates first.
  std::vector<Entry> neighbours(const Shape &shape, Updates updates) {
    std::vector<int64_t> sizes;
    if (!options.microbatch)
      sizes = microbatches(shape.groups);
    Layout here = shapes.layoutOf(shape);
    std::vector<Entry> entries;
    for (const Shape &other : shapes.around(shape, sizes)) {
      Layout layout = shapes.layoutOf(other);
      LayoutCost cost = estimator.estimate(layout, updates);
      bool isNew = !isSame(layout, here);
      for (const Entry &entry : entries)
        isNew &= !isSame(entry.layout, layout);
      if (cost.fits && isNew)
        entries.push_back({other, std::move(layout), updates, cost});
    }
    std::stable_sort(entries.begin(), entries.end(), isBetter);
    constexpr size_t most = 16;
    if (entries.size() > most)
      entries.resize(most);
    return entries;
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
