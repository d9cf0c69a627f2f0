//===- Search.cpp - The fastest plan under capacity -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A plan is decided by the microbatch size, the partition into packs, where
// tensors are updated, and what stays on the device. The first three are
// enumerated (by ascending bound on compute time, leaving out what cannot beat
// the best plan found); the last is filled greedily: from "nothing stays", each
// ladder of decisions is climbed as far as memory allows, in an order which
// differs by strategy.
//
// Existence does not depend on the search: one family of least plans (a layer a
// pack, nothing stays, one slot) is made for every problem, independent of
// capacity. It gives minDeviceBytes, and is the plan of last resort above it.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Search.h"

#include "compiler/Planner/Build.h"
#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace harmony::planner {

namespace {

constexpr int device = 0;

/// Plans whose time is within this of the best count as equally fast.
constexpr double equalTime = 1.01;

/// What fits swaps nothing, even where swapping would be a little faster.
constexpr double noSwapTime = 1.05;

/// Above this fewer partitions and orders of filling are tried.
constexpr int manyLayers = 200;

/// Choices for one device, by packs.
struct Decisions : Choices {
  int64_t microbatch = 1;
  std::vector<int> packEnds;
  std::vector<char> keep; ///< of each pack but the last

  const Choices &withPhases(const Problem &problem) {
    Layout layout =
        uniformLayout(problem, 1, 1, Placement::Ring, packEnds, microbatch);
    for (size_t p = 0; p < layout.keep.size(); ++p)
      layout.keep[p] = keep[p];
    phases = phasesOf(problem, layout);
    return *this;
  }
};

/// A fully built candidate, small enough to be kept for the final choice.
struct Candidate {
  Decisions choices;
  double seconds = 0;
  int64_t swapBytes = 0;
};

class Search {
public:
  Search(const Problem &problem, const Machine &machine,
         const SearchOptions &options)
      : problem(problem), machine(machine), options(options),
        capacity(machine.devices[device].capacity) {
    checkPins();
    tieTensors();
  }

  /// Of the least plans, the one of least peak.
  std::pair<int64_t, Decisions> leastPlan() {
    std::pair<int64_t, Decisions> least{std::numeric_limits<int64_t>::max(),
                                        {}};
    for (bool onHost : updatePlaces()) {
      Decisions choices = base(smallestMicrobatch(), leastPartition(), onHost);
      Draft draft =
          build(problem, machine, Decisions(choices).withPhases(problem));
      allocate(draft.plan);
      if (draft.plan.peakBytes[device] < least.first)
        least = {draft.plan.peakBytes[device], choices};
    }
    return least;
  }

  Result run() {
    auto [least, leastChoices] = leastPlan();
    if (capacity < least)
      return infeasible(least);
    for (int64_t u : microbatchOrder())
      searchMicrobatch(u);
    refine();
    if (candidates.empty())
      consider(leastChoices);
    if (candidates.empty())
      return hostInfeasible(least);
    Planned planned;
    planned.plan = complete(choose());
    planned.minDeviceBytes = least;
    planned.boundBytes = lowerBound(problem);
    planned.candidates = simulated;
    return planned;
  }

private:
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  int64_t capacity;
  std::vector<Candidate> candidates;
  double best = std::numeric_limits<double>::infinity();
  int simulated = 0;
  int64_t hostNeeded = 0;
  std::vector<int> firstLayer, lastLayer; ///< of each tensor's uses

  //===--- pins ---===//

  void checkPins() const {
    if (options.microbatch &&
        std::find(problem.microbatches.begin(), problem.microbatches.end(),
                  *options.microbatch) == problem.microbatches.end()) {
      std::string accepted;
      for (int64_t u : problem.microbatches)
        accepted += (accepted.empty() ? "" : ", ") + std::to_string(u);
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
                  "saved values would "
                  "have to stay");
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

  bool stay() const { return options.residency == Residency::Auto; }
  bool keepAll() const { return options.recompute == Recompute::None; }
  UpdateOrder order() const {
    return options.update.value_or(UpdateOrder::JustInTime);
  }

  /// Preferences for updating on the host that are worth trying.
  std::vector<bool> updatePlaces() const {
    if (!problem.training)
      return {false};
    if (options.updatePlace == UpdatePlace::Host)
      return {true};
    if (options.updatePlace == UpdatePlace::Device)
      return {false};
    return {false, true};
  }

  std::vector<int64_t> microbatches() const {
    return options.microbatch ? std::vector<int64_t>{*options.microbatch}
                              : problem.microbatches;
  }
  int64_t smallestMicrobatch() const { return microbatches().front(); }

  std::vector<int> leastPartition() const {
    return evenPartition(problem.layerCount(),
                         options.layersPerPack.value_or(1));
  }

  //===--- choices ---===//

  void tieTensors() {
    firstLayer.assign(problem.tensors.size(), 0);
    lastLayer.assign(problem.tensors.size(), -1);
    for (int l = problem.layerCount() - 1; l >= 0; --l)
      for (const TensorUse &use : problem.layers[l].tensors) {
        firstLayer[use.tensor] = l;
        if (lastLayer[use.tensor] < 0)
          lastLayer[use.tensor] = l;
      }
  }

  /// Nothing stays that does not have to.
  Decisions base(int64_t u, std::vector<int> packEnds, bool onHost) const {
    Decisions choices;
    choices.microbatch = u;
    choices.packEnds = std::move(packEnds);
    choices.keep.assign(choices.packEnds.size(), keepAll());
    choices.update = order();
    choices.stay = stay();
    choices.overlap = false;
    choices.slots = 1;
    size_t tensors = problem.tensors.size();
    choices.resident.assign(tensors, 0);
    choices.pinned.assign(tensors, 0);
    choices.stateResident.assign(tensors, 0);
    choices.holdGradient.assign(tensors, 0);
    choices.updateOnHost.assign(tensors, onHost);
    for (size_t t = 0; t < tensors; ++t)
      if (problem.tensors[t].updatePlace != UpdatePlace::Any)
        choices.updateOnHost[t] =
            problem.tensors[t].updatePlace == UpdatePlace::Host;
    choices.place.assign(problem.values.size(), Place::Host);
    choices.gradientPlace = choices.place;
    if (keepAll())
      keepInner(choices);
    return choices;
  }

  /// Values inside packs that keep stay on the device.
  void keepInner(Decisions &choices) const {
    std::vector<int> pack(problem.layers.size());
    for (int l = 0, p = 0; l < problem.layerCount(); ++l) {
      pack[l] = p;
      p += choices.packEnds[p] == l;
    }
    for (size_t v = 0; v < problem.values.size(); ++v) {
      const Value &value = problem.values[v];
      if (!value.isInput() && !value.consumers.empty() &&
          choices.keep[pack[value.producer]] &&
          pack[value.consumers.back()] == pack[value.producer])
        choices.place[v] = Place::Device;
    }
  }

  //===--- candidates ---===//

  int64_t live(const Decisions &choices) const {
    return liveBytes(
        build(problem, machine, Decisions(choices).withPhases(problem)).plan,
        device);
  }

  Plan complete(const Decisions &choices) const {
    Draft draft =
        build(problem, machine, Decisions(choices).withPhases(problem));
    allocate(draft.plan);
    synchronize(draft);
    simulate(draft.plan, problem, machine);
    return std::move(draft.plan);
  }

  /// Builds, and keeps if it fits; returns the peak.
  int64_t consider(const Decisions &choices) {
    Draft draft =
        build(problem, machine, Decisions(choices).withPhases(problem));
    allocate(draft.plan);
    Plan &plan = draft.plan;
    if (plan.peakBytes[device] > capacity)
      return plan.peakBytes[device];
    if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes) {
      hostNeeded = hostNeeded == 0 ? plan.hostBytes
                                   : std::min(hostNeeded, plan.hostBytes);
      return plan.peakBytes[device];
    }
    synchronize(draft);
    simulate(plan, problem, machine);
    ++simulated;
    int64_t swaps = plan.traffic[static_cast<int>(Traffic::SwapIn)] +
                    plan.traffic[static_cast<int>(Traffic::SwapOut)];
    candidates.push_back({choices, plan.seconds, swaps});
    best = std::min(best, plan.seconds);
    return plan.peakBytes[device];
  }

  const Decisions &choose() const {
    const Candidate *chosen = nullptr;
    for (const Candidate &candidate : candidates) {
      if (candidate.seconds >
          best * (candidate.swapBytes == 0 ? noSwapTime : equalTime))
        continue;
      if (!chosen || candidate.swapBytes < chosen->swapBytes ||
          (candidate.swapBytes == chosen->swapBytes &&
           candidate.seconds < chosen->seconds))
        chosen = &candidate;
    }
    return chosen->choices;
  }

  //===--- filling memory ---===//

  /// A family of choices of which level 0 changes nothing and each level takes
  /// more memory than the one before.
  struct Ladder {
    int levels;
    std::function<void(Decisions &, int)> set;
  };

  /// The highest level that fits, by bisection; all of it first, which is
  /// common.
  Decisions climb(const Decisions &from, const Ladder &ladder,
                  int64_t limit) const {
    Decisions reached = from;
    auto fits = [&](int level) {
      Decisions choices = from;
      ladder.set(choices, level);
      if (live(choices) > limit)
        return false;
      reached = std::move(choices);
      return true;
    };
    if (ladder.levels == 0 || fits(ladder.levels))
      return reached;
    int low = 0, high = ladder.levels;
    int resolution = problem.layerCount() > manyLayers ? 8 : 32;
    while (high - low > std::max(1, ladder.levels / resolution)) {
      int middle = (low + high) / 2;
      (fits(middle) ? low : high) = middle;
    }
    return reached;
  }

  Ladder overlapLadder() const {
    return {2, [](Decisions &choices, int level) {
              choices.slots = 2;
              choices.overlap = level == 2 && choices.stay;
            }};
  }

  Ladder adjacentLadder() const {
    return {stay() ? 1 : 0, [](Decisions &choices, int) {
              for (std::vector<Place> *places :
                   {&choices.place, &choices.gradientPlace})
                for (Place &place : *places)
                  place = place == Place::Host ? Place::Adjacent : place;
            }};
  }

  /// Values that live over the fewest layers first, and their gradients.
  Ladder valueLadder() const {
    std::vector<int> order;
    for (int v = 0; stay() && v < static_cast<int>(problem.values.size()); ++v)
      if (!problem.values[v].consumers.empty())
        order.push_back(v);
    auto span = [this](int v) {
      const Value &value = problem.values[v];
      // From its first forward use to the last backward one.
      int from = value.isInput() ? value.consumers.front() : value.producer;
      return 2 * problem.layerCount() - from - value.consumers.front();
    };
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return span(a) != span(b) ? span(a) < span(b) : a < b;
    });
    return {static_cast<int>(order.size()),
            [order](Decisions &choices, int level) {
              for (int i = 0; i < level; ++i)
                choices.place[order[i]] = choices.gradientPlace[order[i]] =
                    Place::Device;
            }};
  }

  std::vector<int> tensorOrder() const {
    std::vector<int> order;
    for (int t = 0; stay() && t < static_cast<int>(problem.tensors.size()); ++t)
      if (lastLayer[t] >= 0)
        order.push_back(t);
    // Late layers first: the shortest stretch between forward and backward.
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return firstLayer[a] != firstLayer[b] ? firstLayer[a] > firstLayer[b]
                                            : a < b;
    });
    return order;
  }

  Ladder pinLadder() const {
    std::vector<int> order =
        problem.training ? tensorOrder() : std::vector<int>{};
    return {static_cast<int>(order.size()),
            [order](Decisions &choices, int level) {
              for (int i = 0; i < level; ++i)
                choices.pinned[order[i]] = choices.holdGradient[order[i]] = 1;
            }};
  }

  /// What the host updates cannot be resident; it is pinned by the other
  /// ladder.
  Ladder residentLadder() const {
    std::vector<int> order;
    if (problem.training)
      order = tensorOrder();
    std::reverse(order.begin(), order.end());
    return {
        static_cast<int>(order.size()), [order](Decisions &choices, int level) {
          for (int i = 0; i < level; ++i) {
            choices.resident[order[i]] = choices.stateResident[order[i]] = 1;
            choices.holdGradient[order[i]] = 1;
          }
        }};
  }

  /// Late packs first.
  Ladder keepLadder(int packs) const {
    bool open =
        stay() && problem.training && options.recompute == Recompute::Auto;
    return {open ? packs - 1 : 0, [this, packs](Decisions &choices, int level) {
              for (int i = 0; i < level; ++i)
                choices.keep[packs - 2 - i] = 1;
              keepInner(choices);
            }};
  }

  enum Rung { Overlap, Adjacent, Values, Pin, Resident, Keep };
  using Strategy = std::vector<Rung>;

  Ladder ladder(Rung rung, int packs) const {
    switch (rung) {
    case Overlap:
      return overlapLadder();
    case Adjacent:
      return adjacentLadder();
    case Values:
      return valueLadder();
    case Pin:
      return pinLadder();
    case Resident:
      return residentLadder();
    case Keep:
      return keepLadder(packs);
    }
    return {0, {}};
  }

  /// Fills memory and considers the result; where the addresses need more than
  /// the live bytes, again with less.
  void fill(const Decisions &from, const Strategy &strategy) {
    int64_t limit = capacity;
    for (int attempt = 0; attempt < 4; ++attempt) {
      if (attempt > 0 && live(from) > limit)
        return;
      Decisions choices = from;
      for (Rung rung : strategy)
        choices = climb(choices,
                        ladder(rung, static_cast<int>(choices.packEnds.size())),
                        limit);
      int64_t peak = consider(choices);
      if (peak <= capacity)
        return;
      limit -= (peak - capacity) + capacity / 64;
    }
  }

  //===--- enumeration ---===//

  double computeBound(int64_t u) const {
    double seconds = 0;
    for (int l = 0; l < problem.layerCount(); ++l) {
      const Cost &cost = problem.cost(l, u);
      seconds +=
          cost.forwardSeconds + (problem.training ? cost.backwardSeconds : 0);
    }
    return seconds * static_cast<double>(problem.batch / u);
  }

  std::vector<int64_t> microbatchOrder() const {
    std::vector<int64_t> order = microbatches();
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      double x = computeBound(a), y = computeBound(b);
      return x != y ? x < y : a > b;
    });
    return order;
  }

  std::vector<std::vector<int>> partitions(int64_t u) const {
    if (options.layersPerPack)
      return {evenPartition(problem.layerCount(), *options.layersPerPack)};
    return candidatePartitions(problem, u);
  }

  /// From the fewest packs that fit on: more packs cost traffic and stalls, but
  /// leave room for what stays and for loading ahead.
  void searchMicrobatch(int64_t u) {
    if (computeBound(u) >= best)
      return;
    considerResident(u);
    static const Strategy first = {Overlap,  Adjacent, Values,
                                   Resident, Pin,      Keep};
    int further = problem.layerCount() > manyLayers ? 2 : 6;
    for (bool onHost : updatePlaces()) {
      int tried = 0;
      for (const std::vector<int> &packEnds : partitions(u)) {
        Decisions choices = base(u, packEnds, onHost);
        if (live(choices) > capacity)
          continue;
        fill(choices, first);
        // A plan at the bound of this microbatch that swaps nothing is not
        // beaten.
        if (++tried > further ||
            (!candidates.empty() && candidates.back().swapBytes == 0 &&
             candidates.back().seconds <= computeBound(u) * 1.001))
          break;
      }
    }
  }

  /// Plain training: one pack, nothing leaves the device. One slot for inputs
  /// where there is no room for two.
  void considerResident(int64_t u) {
    if (!stay() || !problem.training ||
        options.layersPerPack.value_or(problem.layerCount()) <
            problem.layerCount())
      return;
    Decisions choices = base(u, {problem.layerCount() - 1},
                             options.updatePlace == UpdatePlace::Host);
    Ladder all = residentLadder();
    all.set(choices, all.levels);
    if (live(choices) <= capacity)
      consider(climb(choices, overlapLadder(), capacity));
  }

  /// The other orders of filling, for the best of what was found.
  void refine() {
    static const Strategy others[] = {
        {Overlap, Adjacent, Values, Keep, Pin, Resident},
        {Keep, Adjacent, Resident, Values, Overlap, Pin},
        {Resident, Overlap, Adjacent, Values, Keep, Pin},
        {Overlap, Pin, Adjacent, Values, Resident, Keep},
    };
    std::vector<Candidate> found = candidates;
    std::sort(found.begin(), found.end(),
              [](const Candidate &a, const Candidate &b) {
                return a.seconds != b.seconds ? a.seconds < b.seconds
                                              : a.swapBytes < b.swapBytes;
              });
    size_t count = problem.layerCount() > manyLayers ? 1 : 3;
    for (size_t i = 0; i < found.size() && i < count; ++i) {
      const Decisions &choices = found[i].choices;
      if (found[i].swapBytes == 0 &&
          found[i].seconds <= computeBound(choices.microbatch) * 1.001)
        return;
      bool onHost =
          std::find(choices.updateOnHost.begin(), choices.updateOnHost.end(),
                    1) != choices.updateOnHost.end();
      for (const Strategy &strategy : others)
        fill(base(choices.microbatch, choices.packEnds, onHost), strategy);
    }
  }

  //===--- refusals ---===//

  Infeasible infeasible(int64_t least) const {
    Infeasible result;
    result.minDeviceBytes = least;
    result.boundBytes = lowerBound(problem);
    result.capacity = capacity;
    result.largestLayer = largestLayer(problem);
    result.message =
        "does not fit: device " + std::to_string(device) + " has " +
        std::to_string(capacity) + " bytes, the least plan needs " +
        std::to_string(least) + "; the largest layer is '" +
        problem.layers[result.largestLayer].name +
        "': its tensors, gradients, values and workspace have " +
        std::to_string(result.boundBytes) + " bytes at a microbatch of " +
        std::to_string(problem.microbatches.front());
    return result;
  }

  Infeasible hostInfeasible(int64_t least) const {
    Infeasible result = infeasible(least);
    result.hostBytesNeeded = hostNeeded;
    result.hostBytes = machine.hostBytes;
    result.message = "does not fit: the host store has " +
                     std::to_string(machine.hostBytes) +
                     " bytes, the plan that needs least of it " +
                     std::to_string(hostNeeded);
    return result;
  }
};

void prepare(const Problem &problem, const Machine &machine) {
  problem.check();
  machine.check();
  if (machine.devices.size() != 1)
    throw Error("machine '" + machine.name + "' has " +
                std::to_string(machine.devices.size()) +
                " devices, the search accepts 1");
}

constexpr const char *scheduleNames[] = {"auto", "harmony-pp", "harmony-dp",
                                         "pp-swap", "dp-swap"};

} // namespace

const char *name(Schedule schedule) {
  return scheduleNames[static_cast<int>(schedule)];
}

std::optional<Schedule> scheduleNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(scheduleNames); ++i)
    if (name == scheduleNames[i])
      return static_cast<Schedule>(i);
  return std::nullopt;
}

Result solve(const Problem &problem, const Machine &machine,
             const SearchOptions &options) {
  prepare(problem, machine);
  return Search(problem, machine, options).run();
}

int64_t minDeviceBytes(const Problem &problem, const Machine &machine,
                       const SearchOptions &options) {
  prepare(problem, machine);
  return Search(problem, machine, options).leastPlan().first;
}

} // namespace harmony::planner
