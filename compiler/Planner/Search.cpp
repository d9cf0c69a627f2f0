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
#include "compiler/Planner/Partition.h"
#include "compiler/Planner/RandomPlan.h"
#include "compiler/Planner/Refine.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace harmony::planner {

namespace {

class Search {
public:
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options)
      : Search(problem, machine, options, machine,
               SearchPolicy::effortFor(problem), 0, false) {}

  /// Of equal groups one alone, with its part of what links share; `estimated`
  /// and `effort`: see SearchContext.
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options, const Machine &estimated, int64_t effort,
         int others, bool othersGather)
      : context(problem, machine, options, estimated, effort), problem(problem),
        machine(machine), options(options), space(context.space),
        shapes(context.shapes), trials(context, others, othersGather),
        filling(trials.filling),
        devices(static_cast<int>(machine.devices.size())) {
    space.checkPins();
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
    else
      searchSizes();
    if (trials.empty())
      trials.consider(least.choices);
    if (trials.empty())
      return refuseHost(problem, machine, least.peaks,
                        trials.hostBytesNeeded());
    const Decisions &chosen = chooseFrom(trials.all()).choices;
    Planned planned;
    planned.plan = trials.complete(chosen.choices);
    planned.minDeviceBytes = leastBytes();
    planned.boundBytes = lowerBound(problem);
    planned.candidates = static_cast<int>(trials.size());
    planned.effort = filling.effort() + effortAlone;
    planned.schedule =
        chosen.layout.groups > 1 ? Schedule::HarmonyDp : Schedule::HarmonyPp;
    planned.boundSeconds = boundSeconds(problem, machine);
    planned.groupsBoundSeconds =
        boundSeconds(problem, machine, chosen.layout.groups);
    planned.form = name(formOf(chosen.layout));
    planned.runnersUp = trials.bestOfForms();
    if (withPins)
      takeBaseline(planned);
    return planned;
  }

private:
  SearchContext context;
  const Problem &problem; ///< of the context, and so are these:
  const Machine &machine;
  const SearchOptions &options;
  SearchSpace &space;
  Shapes &shapes;
  Trials trials;
  Filling &filling; ///< of the trials
  int devices;
  std::vector<Least<Decisions>> leasts; ///< see leastPlans()
  int64_t effortAlone = 0; ///< of searches in one group, and with more pins
  bool mayPin = true;      ///< whether parts of the space may be searched
  bool withPins = false;   ///< whether they were

  /// One of every form and place of updates, whatever the capacity.
  const std::vector<Least<Decisions>> &leastPlans() {
    if (!leasts.empty())
      return leasts;
    for (Form form : space.forms())
      for (Updates updates : space.updatePlaces()) {
        Decisions decisions = filling.base(leastLayout(form), updates);
        decisions.choices.peers = false;
        Plan &plan = filling.build(decisions.choices).plan;
        allocate(plan);
        plan.peakBytes.resize(devices, 0);
        leasts.push_back({std::move(plan.peakBytes), std::move(decisions)});
      }
    return leasts;
  }

  Layout leastLayout(Form form) {
    return uniformLayout(
        problem, form.groups, form.pipeline,
        filling.keepAll() ? Placement::Mirror : Placement::Ring,
        evenPartition(problem.layerCount(), options.layersPerPack.value_or(1)),
        space.microbatches(form.groups).front());
  }

  /// With more microbatches where nothing fits otherwise.
  void searchSizes() {
    for (;; space.limitTrips(10 * space.mostTrips())) {
      if (problem.training)
        searchLayouts();
      else
        for (int64_t u : space.microbatchOrder({1, 1}))
          searchEvaluation(u);
      if (!trials.empty() || space.mostTrips() >= problem.batch)
        break;
    }
    if (!problem.training)
      return;
    refine(context, trials);
    if (mayPin)
      searchWithPins();
  }

  /// What is ruled out by estimates, or is out of reach of steps from the best,
  /// may be the best in the end: where trials are cheap each part of the space
  /// that a pin leaves is searched on its own, once more around the best of
  /// these, and steps are taken from the best of each kind.
  void searchWithPins() {
    auto tried = static_cast<int64_t>(trials.size());
    if (trials.empty() || problem.layerCount() > SearchPolicy::layersWithPins ||
        SearchPolicy::trialsWithPins * (filling.effort() + effortAlone) >
            SearchPolicy::effortForPins * tried)
      return;
    withPins = true;
    SearchOptions best = options;
    int64_t left = SearchPolicy::effortForPins;
    for (double part : SearchPolicy::effortAtOnce) {
      double before = trials.best();
      std::vector<SearchOptions> pins =
          SearchSpace(problem, devices, best).withOnePinMore();
      auto rest = static_cast<int64_t>(part * static_cast<double>(left));
      left -= rest;
      for (size_t i = 0; i < pins.size() && rest > 0; ++i) {
        double found = trials.best();
        rest -=
            searchWith(pins[i], rest / static_cast<int64_t>(pins.size() - i));
        if (trials.best() < found)
          best = pins[i];
      }
      left += rest;
      if (trials.best() >= before)
        break;
    }
    effortAlone += SearchPolicy::effortForPins - left;
    refineKinds(context, trials, SearchPolicy::effortForKinds);
  }

  int64_t stepsOf(int64_t microbatch) const {
    return problem.layerCount() * (problem.batch / microbatch);
  }

  /// Takes over the best; returns the effort, of which `most` is about all
  /// there is: half of it for layouts, as elsewhere.
  int64_t searchWith(const SearchOptions &pinned, int64_t most) {
    if (stepsOf(pinned.microbatch.value_or(problem.batch)) >
        SearchPolicy::stepsOfPin)
      return 0;
    Search search(problem, machine, pinned, machine, most / 2, 0, false);
    search.mayPin = false;
    search.searchSizes();
    std::vector<size_t> order = search.trials.byTime();
    order.resize(std::min(order.size(), SearchPolicy::takenFromPin));
    for (size_t i : order)
      trials.adopt(search.trials[i]);
    return search.filling.effort() + search.effortAlone;
  }

  /// A baseline's plan instead, where nothing is pinned and it is faster: what
  /// pages has a layer's pieces in memory while it runs, a phase those of all
  /// its layers.
  void takeBaseline(Planned &planned) const {
    if (options.schedule != Schedule::Auto || options.microbatch ||
        options.update || options.recompute != Recompute::Auto ||
        options.residency != Residency::Auto || options.layersPerPack ||
        options.updatePlace || space.microbatches(1).empty() ||
        stepsOf(problem.microbatches.front()) > SearchPolicy::stepsOfBaseline)
      return;
    for (Schedule schedule : {Schedule::PpSwap, Schedule::DpSwap}) {
      if (schedule == Schedule::DpSwap &&
          (devices == 1 || problem.forwardsWrite()))
        continue;
      SearchOptions pinned = options;
      pinned.schedule = schedule;
      Result result = solveBaseline(problem, machine, pinned);
      auto *other = std::get_if<Planned>(&result);
      if (!other || other->plan.seconds >=
                        SearchPolicy::baselineWins * planned.plan.seconds)
        continue;
      planned.plan = std::move(other->plan);
      planned.schedule = schedule;
      planned.form.clear();
      planned.groupsBoundSeconds =
          boundSeconds(problem, machine, planned.plan.groups);
    }
  }

  void considerRandom() {
    RandomPlans plans(problem, machine, options, space.groupCounts().front());
    for (int attempt = 0; attempt < RandomPlans::attempts && trials.empty();
         ++attempt)
      trials.consider(plans.draw(attempt));
  }

  /// From the fewest packs that fit on: more packs cost traffic and stalls, but
  /// leave room for what stays and for loading ahead.
  void searchEvaluation(int64_t u) {
    double bound = space.computeBound({1, 1}, u);
    if (bound >= trials.best())
      return;
    int tried = 0;
    std::vector<std::vector<int>> partitions;
    if (options.layersPerPack)
      partitions = {
          evenPartition(problem.layerCount(), *options.layersPerPack)};
    else
      partitions = candidatePartitions(problem, u);
    for (const std::vector<int> &packEnds : partitions) {
      if (!trials.tryLayout(
              uniformLayout(problem, 1, 1, Placement::Ring, packEnds, u),
              Updates::Device, {}, transfersFirst))
        continue;
      // A plan at the bound of this microbatch that swaps nothing is not
      // beaten.
      if (++tried > SearchPolicy::furtherPartitions ||
          trials.isAt(trials.size() - 1, bound))
        break;
    }
  }

  /// Plain training: a pack on each device, nothing leaves. One slot for inputs
  /// where there is no room for two.
  void considerResident(Form form, int64_t u) {
    if (space.computeBound(form, u) >= trials.best())
      return;
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
                         space.updatePlaces().front(), trials.limits());
    if (!decisions)
      return;
    if (form.pipeline > 1)
      *decisions = filling.climb(std::move(*decisions),
                                 {Rung::Adjacent, Rung::Values, Rung::Keep},
                                 trials.limits());
    trials.consider(*decisions);
  }

  //===--- layouts ---===//

  void searchLayouts() {
    searchForms(space.forms());
    // The most promising first: what they find leaves others out.
    std::vector<std::pair<double, Form>> narrower;
    for (Form form : space.narrowerForms())
      narrower.push_back({space.computeBound(form), form});
    std::stable_sort(
        narrower.begin(), narrower.end(),
        [](const auto &a, const auto &b) { return a.first < b.first; });
    for (const auto &[bound, form] : narrower)
      if (bound < trials.best())
        searchForms({form});
  }

  /// Of a class, those apart whose estimates cannot be compared with the
  /// others': that have the last layers on the device of the first, if both
  /// read a tensor, as estimates do not know what that saves; and those with
  /// turns of several packs.
  void addClasses(std::vector<Proposal> proposals,
                  std::vector<std::vector<Proposal>> &classes) const {
    std::map<std::pair<bool, bool>, std::vector<Proposal>> apart;
    for (Proposal &proposal : proposals) {
      const Layout &layout = proposal.layout;
      bool isClosed =
          shapes.areTied() && layout.pipeline > 1 &&
          layout.backwardDevice(layout.lastPack()) == layout.backwardDevice(0);
      apart[{layout.turnPacks > 1, isClosed}].push_back(std::move(proposal));
    }
    for (auto &[which, list] : apart)
      classes.push_back(std::move(list));
  }

  /// Layouts of one form, microbatch and place of updates are ranked by their
  /// estimates; the ranking is not trusted across those classes, of which the
  /// first few of each are tried, the class with the best estimate first.
  void searchForms(const std::vector<Form> &forms) {
    std::vector<std::vector<Proposal>> classes;
    for (Form form : forms) {
      if (form.pipeline == 1 && form.groups > 1 && !options.layersPerPack &&
          searchOneGroup(form.groups))
        continue;
      std::vector<int64_t> sizes = space.microbatchOrder(form);
      if (form.pipeline == 1 && shapes.mayMix() && !options.microbatch &&
          !options.layersPerPack && sizes.size() > 1)
        sizes.push_back(0); // each pack its own
      size_t begin = classes.size();
      for (int64_t u : sizes) {
        if (u > 0)
          considerResident(form, u);
        std::vector<Updates> places = trials.updatePlaces(form.groups);
        if (places.size() > 1)
          places.push_back(Updates::Staying);
        for (Updates updates : places)
          addClasses(proposalsOf(form, u, updates), classes);
      }
      addRounds(form, begin, classes);
    }
    std::stable_sort(classes.begin(), classes.end(),
                     [](const auto &a, const auto &b) {
                       return isBetter(a.front(), b.front());
                     });
    // Other forms may be far better than what groups have taken over: what
    // that has taken leaves them no effort, and is not counted.
    if (!classes.empty() &&
        SearchPolicy::formMayWin * classes.front().front().cost.seconds <
            trials.best())
      trials.countFromHere();
    // The best of every number of groups, and then as many as there is time
    // for.
    std::set<std::pair<int, bool>> begun;
    for (std::vector<Proposal> &proposals : classes)
      if (const Layout &layout = proposals.front().layout;
          layout.turnPacks == 1 &&
          begun.insert({layout.groups, layout.rounds > 1}).second)
        tryNext(proposals, 0, /*always=*/true);
    for (size_t depth = 0; depth < SearchPolicy::layoutsOfClass; ++depth)
      for (std::vector<Proposal> &proposals : classes)
        if (depth < proposals.size() && trials.mayTry() &&
            mayWin(formOf(proposals[depth].layout)))
          tryNext(proposals, depth);
  }

  /// Rounds recompute less, and move more. Whether that pays for a number of
  /// them, and at which size and place of updates, is judged by what packs of a
  /// layer are estimated to take, as these leave most room for what is kept:
  /// the best joins the form's classes, which begin with `begin`.
  void addRounds(Form form, size_t begin,
                 std::vector<std::vector<Proposal>> &classes) {
    if (!mayTakeRounds(form))
      return;
    double least = trials.best();
    for (size_t i = begin; i < classes.size(); ++i)
      if (classes[i].front().cost.fits)
        least = std::min(least, classes[i].front().cost.seconds);
    struct Way {
      double seconds;
      int64_t microbatch;
      Updates updates;
    };
    std::map<int, Way> ways; // by rounds
    int64_t share = sharesOf(problem.batch, form.groups).front();
    for (int64_t u : space.microbatchOrder(form)) {
      Layout layout = uniformLayout(problem, form.groups, 1, Placement::Mirror,
                                    evenPartition(problem.layerCount(), 1), u);
      for (int rounds = 2;
           rounds <= SearchPolicy::mostRounds && rounds * u <= share;
           rounds *= 2)
        for (Updates updates : trials.updatePlaces(form.groups)) {
          layout.rounds = rounds;
          LayoutCost cost = context.estimator.estimate(layout, updates);
          if (!cost.fits || cost.seconds >= SearchPolicy::roundsMayWin * least)
            continue;
          Way way{cost.seconds, u, updates};
          Way &best = ways.insert({rounds, way}).first->second;
          if (way.seconds < best.seconds)
            best = way;
        }
    }
    for (const auto &[rounds, way] : ways)
      if (std::vector<Proposal> proposals =
              proposalsOf(form, way.microbatch, way.updates, rounds);
          !proposals.empty())
        classes.push_back(std::move(proposals));
  }

  /// Groups of one device whose packs are free, of which something can be kept.
  bool mayTakeRounds(Form form) const {
    return form.pipeline == 1 && !options.layersPerPack && filling.stay() &&
           options.recompute == Recompute::Auto &&
           canTakeTurns(problem, form.groups);
  }

  /// Whether the form's best so far is close enough.
  bool mayWin(const PlacedForm &form) const {
    double seconds = trials.bestOf(form);
    return seconds == std::numeric_limits<double>::infinity() ||
           seconds <= SearchPolicy::formMayWin * trials.best();
  }

  /// Equal groups of one device do the same: the best plans of one alone, which
  /// are found with fewer events, are the first to be tried.
  bool searchOneGroup(int groups) {
    const Filling::OneGroup *one = filling.oneGroupOf(groups);
    if (!one || options.microbatch.value_or(1) > one->problem.batch)
      return false;
    for (int64_t u : space.microbatchOrder({groups, 1}))
      considerResident({groups, 1}, u);
    Machine single = one->alone(groups, false);
    Machine estimated = one->alone(groups, true);
    SearchOptions alone = options;
    alone.schedule = Schedule::Auto;
    Search search(one->problem, single, alone, estimated,
                  SearchPolicy::effortAlone(context.effort), groups - 1,
                  machine.hasLink(0, 1));
    search.space.limitTrips(space.mostTrips());
    search.searchLayouts();
    refine(search.context, search.trials);
    effortAlone += search.filling.effort();
    std::vector<Layout> seen;
    for (size_t i : search.trials.byTime()) {
      const Trial &trial = search.trials[i];
      if (!trial.origin.strategy ||
          seen.size() == SearchPolicy::takenFromOneGroup ||
          trial.seconds > SearchPolicy::takenMayBe * search.trials.best())
        continue;
      Origin origin = trial.origin;
      if (origin.shape)
        origin.shape->groups = groups;
      if (origin.layout)
        origin.layout->groups = groups;
      Layout layout = trials.layoutOf(origin);
      // Rounds are what links, which all groups share, may not carry: others
      // are to be among those taken.
      if (layout.rounds > 1 &&
          std::count_if(seen.begin(), seen.end(), [&](const Layout &other) {
            return other.rounds == layout.rounds;
          }) == SearchPolicy::takenOfRounds)
        continue;
      // Of those with as many packs the fastest: the others are hardly slower,
      // or all do not fit.
      if (std::any_of(seen.begin(), seen.end(), [&](const Layout &other) {
            return other.forwardEnds.size() == layout.forwardEnds.size() &&
                   other.backwardEnds.size() == layout.backwardEnds.size() &&
                   other.backwardMicrobatch == layout.backwardMicrobatch &&
                   other.rounds == layout.rounds;
          }))
        continue;
      if (trials.takeOver(trial, layout, origin))
        seen.push_back(std::move(layout));
    }
    return !seen.empty();
  }

  /// `always`: however many events were built, and however it is estimated.
  void tryNext(std::vector<Proposal> &proposals, size_t at,
               bool always = false) {
    // Those that do not fit even where nothing stays give way to the next.
    while (at < proposals.size() && (always || trials.mayTry())) {
      const Proposal &proposal = proposals[at];
      if (proposal.cost.compute >= trials.best() ||
          (!always && proposal.cost.seconds >
                          SearchPolicy::estimateMayWin * trials.best()) ||
          (!proposal.cost.fits && !trials.empty()))
        return;
      if (std::optional<size_t> same = trials.find(proposal.layout)) {
        if (trials[*same].choices.updates != proposal.updates)
          trials.tryMoved(*same, proposal);
        return;
      }
      // What links carry anyway need not stay; rounds are there to keep more.
      const Strategy &strategy =
          proposal.cost.transfers < proposal.cost.compute ||
                  proposal.layout.rounds > 1
              ? recomputationFirst
              : transfersFirst;
      if (trials.tryLayout(proposal.layout, proposal.updates, proposal.shape,
                           strategy))
        return;
      proposals.erase(proposals.begin() + static_cast<long>(at));
    }
  }

  std::vector<Proposal> proposalsOf(Form form, int64_t u, Updates updates,
                                    int rounds = 1) {
    std::vector<Proposal> proposals;
    auto add = [&](const std::optional<Shape> &shape, Layout layout) {
      if (filling.keepAll() && layout.placement == Placement::Ring)
        return;
      if (layout.turnPacks > 1 && updates == Updates::Early)
        return;
      for (const Proposal &other : proposals)
        if (other.layout == layout)
          return;
      LayoutCost cost = context.estimator.estimate(layout, updates);
      // Where links are the limit, what is updated on the host moves least of
      // all that does not stay.
      if (updates == Updates::Staying &&
          cost.transfers < SearchPolicy::linksLimit * cost.compute)
        return;
      if (cost.compute < trials.best())
        proposals.push_back({shape, std::move(layout), updates, cost});
    };
    auto addEnds = [&](const std::vector<int> &ends) {
      for (Placement placement : {Placement::Mirror, Placement::Ring})
        add({}, uniformLayout(problem, form.groups, form.pipeline, placement,
                              ends, u));
      if (form.pipeline > 1 && canTakeTurns(problem, form.groups) &&
          static_cast<int>(ends.size()) == form.pipeline)
        add({}, withTurnOf(form.pipeline,
                           uniformLayout(problem, form.groups, form.pipeline,
                                         Placement::Mirror, ends, u)));
    };
    if (options.layersPerPack) {
      addEnds(evenPartition(problem.layerCount(), *options.layersPerPack));
    } else {
      for (const Shape &shape :
           shapes.of(form.groups, form.pipeline, u, rounds))
        add(shape, shapes.layoutOf(shape));
      if (form.pipeline > 1 && options.schedule == Schedule::Auto)
        addEnds({problem.layerCount() - 1});
    }
    std::stable_sort(proposals.begin(), proposals.end(), isBetter);
    return proposals;
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
