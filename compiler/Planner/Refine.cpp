//===- Refine.cpp - Steps around the best plans ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Refine.h"

#include "compiler/Planner/Moves.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

namespace harmony::planner {

namespace {

class Refiner {
public:
  Refiner(SearchContext &context, Trials &trials)
      : problem(context.problem), options(context.options),
        space(context.space), shapes(context.shapes),
        estimator(context.estimator), trials(trials) {}

  /// Estimates are trusted first. Where there is effort left, as for small
  /// problems, what is not much slower is stepped from too.
  void run() {
    stepWithin(SearchPolicy::startsTrusting, true,
               [&] { return trials.mayGoOn(); });
    stepWithin(SearchPolicy::startsNotTrusting, false,
               [&] { return trials.mayTry(); });
    moveEnds();
  }

  void runByKind(int64_t effort) {
    until = trials.filling.effort() + effort;
    stepWithin(SearchPolicy::kindMayWin, false, [&] { return mayGoOn(); });
    moveEnds();
  }

private:
  const Problem &problem;
  const SearchOptions &options;
  const SearchSpace &space;
  Shapes &shapes;
  Estimator &estimator;
  Trials &trials;
  /// The effort at which steps around kinds end; none: around the best.
  std::optional<int64_t> until;

  bool mayGoOn() const {
    return until ? trials.filling.effort() < *until : trials.mayGoOn();
  }

  struct Kind {
    PlacedForm form;
    Updates updates;
    int64_t microbatch = 0; ///< 0: any
    UpdateOrder order = UpdateOrder::JustInTime;

    bool operator<(const Kind &o) const {
      return std::tie(form, updates, microbatch, order) <
             std::tie(o.form, o.updates, o.microbatch, o.order);
    }
  };
  Kind kindOf(size_t trial) const {
    const Decisions &choices = trials[trial].choices;
    Kind kind{formOf(choices.layout), choices.updates};
    if (until && choices.layout.backwardSizes.empty())
      kind.microbatch = choices.layout.backwardMicrobatch;
    if (until)
      kind.order = choices.choices.update;
    return kind;
  }

  /// Steps from what takes no longer than `hopeful` times the best, and then
  /// from what is better than that. `trusting`: estimates of what moves.
  void stepWithin(double hopeful, bool trusting,
                  const std::function<bool()> &mayStep) {
    std::vector<size_t> begun =
        until ? kindsWithin(hopeful) : startsOf(hopeful);
    for (double most = hopeful; !begun.empty() && mayStep();
         most = SearchPolicy::againFrom) {
      std::vector<size_t> better;
      for (size_t start : begun)
        if (trials[start].seconds < most * trials.best() && mayStep())
          if (size_t found = stepFrom(start, trusting); found != start)
            better.push_back(found);
      begun = std::move(better);
    }
  }

  /// The three best that differ in packs, and the best of every other form that
  /// is within `most` times the best: they take turns.
  std::vector<size_t> startsOf(double most) const {
    std::vector<size_t> begun;
    std::set<PlacedForm> forms;
    std::vector<size_t> order = trials.byTime();
    for (size_t i : order) {
      const Layout &layout = trials[i].choices.layout;
      const Trial &best = trials[order.front()];
      // All groups are as fast as one alone: it has seen the others, too.
      if (best.origin.refined && !trials[i].origin.refined &&
          best.choices.layout.groups == layout.groups)
        continue;
      bool isNew = std::none_of(begun.begin(), begun.end(), [&](size_t other) {
        return trials[other].choices.layout.backwardEnds == layout.backwardEnds;
      });
      bool isFirst = forms.insert(formOf(layout)).second &&
                     trials[i].seconds < most * trials.best();
      if (isFirst || (isNew && begun.size() < SearchPolicy::starts))
        begun.push_back(i);
    }
    return begun;
  }

  /// The best of every kind that is within `most` times the best.
  std::vector<size_t> kindsWithin(double most) const {
    std::vector<size_t> begun;
    std::set<Kind> kinds;
    for (size_t i : trials.byTime())
      if (trials[i].seconds < most * trials.best() &&
          kinds.insert(kindOf(i)).second)
        begun.push_back(i);
    return begun;
  }

  /// One step in every direction; `begin` if none is better.
  size_t stepFrom(size_t begin, bool trusting) {
    if (isAtBound(begin))
      return begin;
    size_t from = begin, tried = trials.size();
    auto toBest = [&] {
      for (size_t i = tried; i < trials.size(); ++i)
        if (trials[i].seconds < trials[from].seconds)
          from = i;
    };
    bool refined = trials[begin].origin.refined;
    if (!refined)
      climbAgain(from);
    toBest();
    std::optional<Shape> shape = trials[from].origin.shape;
    Updates updates = trials[from].choices.updates;
    for (Updates other : trials.otherPlaces(trials[from].choices.layout.groups))
      if (other != updates && mayGoOn())
        changeUpdates(from, other, trusting);
    toBest();
    if (until && !options.update && !problem.epilogue && mayGoOn())
      changeOrder(from);
    toBest();
    if (!refined && !trials[from].origin.joined)
      join(from);
    toBest();
    updates = trials[from].choices.updates;
    if (shape && !options.layersPerPack && !refined)
      for (const Proposal &proposal : neighbours(*shape, updates))
        if ((trusting ? proposal.cost.seconds : proposal.cost.compute) <
                trials[from].seconds &&
            mayGoOn())
          trials.tryMoved(from, proposal);
    toBest();
    tryRuns(from);
    toBest();
    return trials[from].seconds < trials[begin].seconds * SearchPolicy::gain
               ? from
               : begin;
  }

  void changeUpdates(size_t from, Updates updates, bool trusting) {
    Layout layout = trials.layoutOf(from);
    LayoutCost cost;
    if (!trusting)
      cost = estimator.estimate(layout, updates);
    trials.tryMoved(from, {trials[from].origin.shape, layout, updates, cost});
  }

  void changeOrder(size_t from) {
    const Decisions &choices = trials[from].choices;
    UpdateOrder other = choices.choices.update == UpdateOrder::Deferred
                            ? UpdateOrder::JustInTime
                            : UpdateOrder::Deferred;
    trials.tryMoved(from, {trials[from].origin.shape,
                           trials.layoutOf(from),
                           choices.updates,
                           {},
                           other});
  }

  /// Two packs become one, and again, as long as that is better.
  void join(size_t from) {
    for (bool more = !options.layersPerPack; more;) {
      more = false;
      std::vector<Proposal> proposals =
          proposalsOf(from, joinsOf(problem, trials.layoutOf(from)));
      if (proposals.size() > SearchPolicy::joins)
        proposals.resize(SearchPolicy::joins);
      for (const Proposal &proposal : proposals) {
        if (!mayGoOn())
          return;
        if (std::optional<size_t> found = findBetter(from, proposal, 1)) {
          from = *found;
          more = true;
          break;
        }
      }
    }
  }

  /// From the best plan of every form and place of updates that is not much
  /// slower than the best: one end of packs after the other until that is
  /// better, and the other steps where none is.
  void moveEnds() {
    auto mayMove = [&] {
      return until ? mayGoOn() : trials.mayTry(SearchPolicy::partForEnds);
    };
    std::set<size_t> begun;
    for (bool more = !options.layersPerPack; more && mayMove();) {
      more = false;
      std::set<Kind> kinds;
      for (size_t i : trials.byTime()) {
        if (trials[i].seconds > SearchPolicy::endsMayWin * trials.best() ||
            !mayMove())
          break;
        const Trial &trial = trials[i];
        if (!trial.origin.strategy || trial.origin.refined || isAtBound(i) ||
            !kinds.insert(kindOf(i)).second || !begun.insert(i).second)
          continue;
        more = true;
        bool moved = false;
        for (const Proposal &proposal :
             proposalsOf(i, movesOf(problem, trials.layoutOf(i))))
          if (!moved && mayMove())
            moved = findBetter(i, proposal, SearchPolicy::gain).has_value();
        if (!moved && mayMove())
          stepFrom(i, /*trusting=*/false);
      }
    }
  }

  /// A trial of the proposal that takes less than `factor` times `from`.
  std::optional<size_t> findBetter(size_t from, const Proposal &proposal,
                                   double factor) {
    size_t before = trials.size();
    trials.tryMoved(from, proposal);
    if (trials.size() > before &&
        trials.all().back().seconds < trials[from].seconds * factor)
      return trials.size() - 1;
    return std::nullopt;
  }

  /// Of layouts that have come of a trial's, those that may be better, with the
  /// best estimates first.
  std::vector<Proposal> proposalsOf(size_t from, std::vector<Layout> layouts) {
    std::vector<Proposal> proposals;
    Updates updates = trials[from].choices.updates;
    for (Layout &layout : layouts) {
      LayoutCost cost = estimator.estimate(layout, updates);
      if (cost.fits && cost.compute < trials[from].seconds)
        proposals.push_back(
            {trials[from].origin.shape, std::move(layout), updates, cost});
    }
    std::stable_sort(proposals.begin(), proposals.end(), isBetter);
    return proposals;
  }

  /// With its own order of filling, if what stays was taken over; with the
  /// others where a device waits.
  void climbAgain(size_t from) {
    Layout layout = trials.layoutOf(from);
    Origin origin = trials[from].origin;
    Updates updates = trials[from].choices.updates;
    UpdateOrder order = trials[from].choices.choices.update;
    bool waiting = trials[from].seconds >
                   SearchPolicy::waits * trials[from].computeSeconds;
    for (const Strategy &strategy : strategies) {
      bool own = &strategy == origin.strategy;
      if (mayGoOn() && (own ? !origin.climbed : waiting))
        trials.tryLayout(layout, updates, origin.shape, strategy, order);
    }
  }

  /// With its phases in more Runs as long as that is better, or in fewer.
  void tryRuns(size_t from) {
    Decisions decisions = trials[from].choices;
    Origin origin = trials[from].origin;
    int current = decisions.choices.runs;
    // Better than `best` by then: the next number in that direction.
    auto go = [&](int runs, auto next) {
      double best = trials[from].seconds;
      bool better = false;
      for (; runs >= 2 && runs <= Choices::mostRuns && mayGoOn();
           runs = next(runs)) {
        decisions.choices.runs = runs;
        size_t before = trials.size();
        trials.consider(decisions, origin);
        if (trials.size() == before || !(trials.all().back().seconds < best))
          break;
        best = trials.all().back().seconds;
        better = true;
      }
      return better;
    };
    if (!go(std::max(2, 2 * current), [](int runs) { return 2 * runs; }))
      go(current / 2, [](int runs) { return runs / 2; });
  }

  bool isAtBound(size_t trial) const {
    const Layout &layout = trials[trial].choices.layout;
    return layout.backwardSizes.empty() &&
           trials.isAt(trial,
                       space.computeBound({layout.groups, layout.pipeline},
                                          layout.backwardMicrobatch));
  }

  /// Those with the best estimates first.
  std::vector<Proposal> neighbours(const Shape &shape, Updates updates) {
    std::vector<int64_t> sizes;
    if (!options.microbatch)
      sizes = space.triedMicrobatches(shape.groups);
    const Layout &here = shapes.layoutOf(shape);
    std::vector<Proposal> proposals;
    for (const Shape &other : shapes.around(shape, sizes)) {
      const Layout &layout = shapes.layoutOf(other);
      if (layout == here ||
          std::any_of(proposals.begin(), proposals.end(),
                      [&](const Proposal &p) { return p.layout == layout; }))
        continue;
      LayoutCost cost = estimator.estimate(layout, updates);
      if (cost.fits)
        proposals.push_back({other, layout, updates, cost});
    }
    std::stable_sort(proposals.begin(), proposals.end(), isBetter);
    if (proposals.size() > SearchPolicy::shapesAround)
      proposals.resize(SearchPolicy::shapesAround);
    return proposals;
  }
};

} // namespace

void refine(SearchContext &context, Trials &trials) {
  Refiner(context, trials).run();
}

void refineKinds(SearchContext &context, Trials &trials, int64_t effort) {
  Refiner(context, trials).runByKind(effort);
}

} // namespace harmony::planner
