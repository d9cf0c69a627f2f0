//===- Filling.cpp - What stays on the devices ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Filling.h"

#include "compiler/Planner/LayerPacks.h"
#include "compiler/Planner/SearchPolicy.h"

#include <algorithm>
#include <limits>

namespace harmony::planner {

Filling::Filling(const Problem &problem, const Machine &machine,
                 const SearchOptions &options, int others, bool othersGather)
    : problem(problem), machine(machine), options(options), others(others),
      othersGather(othersGather), firstLayer(problem.tensors.size(), 0),
      lastLayer(problem.tensors.size(), -1) {
  for (int l = problem.layerCount() - 1; l >= 0; --l)
    for (const TensorUse &use : problem.layers[l].tensors) {
      firstLayer[use.tensor] = l;
      if (lastLayer[use.tensor] < 0)
        lastLayer[use.tensor] = l;
    }
}

void Filling::renew(Decisions &decisions) const {
  decisions.choices.phases = phasesOf(problem, decisions.layout);
}

/// Tensor, state and all gradients: what an update on a device has there.
bool Filling::isLarge(const Tensor &tensor, int groups) const {
  int64_t bytes = tensor.bytes + tensor.stateBytes +
                  groups * static_cast<int64_t>(tensor.gradientUses.size()) *
                      tensor.gradientBytes;
  for (const Device &device : machine.devices)
    if (3 * bytes > device.capacity)
      return true;
  return false;
}

bool Filling::canMix(int groups) const {
  bool host = false, device = false;
  for (const Tensor &tensor : problem.tensors)
    if (!tensor.gradientUses.empty() && tensor.updatePlace == UpdatePlace::Any)
      (isLarge(tensor, groups) ? host : device) = true;
  return host && device;
}

bool Filling::areSmall() const {
  const Link &link = machine.link(hostEndpoint, 0);
  double small = link.latencySeconds * link.bytesPerSecond;
  return std::any_of(problem.tensors.begin(), problem.tensors.end(),
                     [&](const Tensor &tensor) {
                       return !tensor.gradientUses.empty() &&
                              tensor.updatePlace == UpdatePlace::Any &&
                              static_cast<double>(tensor.bytes) < small;
                     });
}

Decisions Filling::base(Layout layout, Updates updates,
                        UpdateOrder order) const {
  Decisions decisions;
  decisions.layout = std::move(layout);
  decisions.updates = updates;
  Choices &choices = decisions.choices;
  choices.groups = decisions.layout.groups;
  choices.others = others;
  choices.othersGather = othersGather;
  choices.update =
      problem.epilogue ? UpdateOrder::Deferred : options.update.value_or(order);
  choices.stay = stay();
  choices.overlap = false;
  choices.slots = 1;
  size_t tensors = problem.tensors.size();
  choices.resident.assign(tensors, 0);
  choices.pinned = choices.stateResident = choices.holdGradient =
      choices.resident;
  // Of what stays the ladder changes it.
  choices.updateOnHost.assign(tensors, updates == Updates::Host ||
                                           updates == Updates::Staying);
  int lastLayer = decisions.layout.backwardEnds.empty()
                      ? 0
                      : decisions.layout.backwardEnds.front();
  for (size_t t = 0; t < tensors; ++t) {
    const Tensor &tensor = problem.tensors[t];
    if (tensor.updatePlace != UpdatePlace::Any)
      choices.updateOnHost[t] = tensor.updatePlace == UpdatePlace::Host;
    else if (updates == Updates::Mixed)
      choices.updateOnHost[t] = isLarge(tensor, decisions.layout.groups);
    else if (updates == Updates::Early)
      choices.updateOnHost[t] = tensor.gradientUses.empty() ||
                                tensor.gradientUses.front().layer > lastLayer;
  }
  if (decisions.layout.groups > 1)
    choices.owner = spreadOwners(problem, decisions.layout);
  dealLoads(problem, decisions.layout, choices);
  choices.place.assign(problem.values.size(), Place::Host);
  choices.gradientPlace = choices.place;
  choices.recomputeAhead = decisions.layout.pipeline > 1;
  if (keepAll()) {
    decisions.layout.keep =
        planner::keepAll(problem, 0, problem.layerCount() - 1);
    keepOutputs(decisions);
  }
  renew(decisions);
  return decisions;
}

Decisions Filling::moved(const Decisions &from, Layout layout, Updates updates,
                         UpdateOrder order) const {
  Decisions decisions = base(std::move(layout), updates, order);
  Choices &choices = decisions.choices;
  choices.stay = from.choices.stay;
  choices.overlap = from.choices.overlap;
  choices.slots = from.choices.slots;
  choices.valuesAhead = from.choices.valuesAhead;
  choices.runs = from.choices.runs;
  choices.resident = from.choices.resident;
  for (size_t t = 0; t < choices.resident.size(); ++t)
    if (updates == Updates::Staying && choices.resident[t])
      choices.updateOnHost[t] = from.choices.updateOnHost[t];
  choices.pinned = from.choices.pinned;
  choices.stateResident = from.choices.stateResident;
  choices.holdGradient = from.choices.holdGradient;
  choices.place = from.choices.place;
  choices.gradientPlace = from.choices.gradientPlace;
  for (bool gradients : {false, true}) {
    std::vector<char> mixed = mixedValues(problem, decisions.layout, gradients);
    std::vector<Place> &places =
        gradients ? choices.gradientPlace : choices.place;
    for (size_t v = 0; v < mixed.size(); ++v)
      if (mixed[v])
        places[v] = Place::Host;
  }
  std::vector<int> &keep = decisions.layout.keep;
  keep.resize(problem.layers.size(), 0);
  std::vector<char> can = decisions.layout.canKeep();
  // Outputs alone are kept where segments end, which are other layers in other
  // packs, and where that saves recomputation.
  bool samePacks = decisions.layout.pipeline == 1 &&
                   decisions.layout.backwardEnds == from.layout.backwardEnds;
  std::vector<int64_t> sizes =
      LayerPacks(problem, decisions.layout).backwardSize;
  for (size_t l = 0; l < can.size() && l < from.layout.keep.size(); ++l) {
    const Cost &cost = problem.cost(static_cast<int>(l), sizes[l]);
    int level = from.layout.keep[l];
    bool saves = cost.recomputeSeconds(level) < cost.recomputeSeconds(0);
    if (cost.keptBytes(level) > 0 ? can[l] != 0 : samePacks && saves)
      keep[l] = std::max(keep[l], level);
  }
  keepOutputs(decisions);
  renew(decisions);
  return decisions;
}

/// What layers that keep hand on within their packs stays on the device.
void Filling::keepOutputs(Decisions &decisions) const {
  const Layout &layout = decisions.layout;
  if (layout.keep.empty())
    return;
  LayerPacks packs(problem, layout);
  std::vector<char> mixed = mixedValues(problem, layout, false);
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const Value &value = problem.values[v];
    if (value.isInput() || value.consumers.empty() || mixed[v])
      continue;
    int layer = value.producer, pack = packs.backward[layer];
    const Cost &cost = problem.cost(layer, packs.backwardSize[layer]);
    if (pack >= 0 && pack != layout.lastPack() &&
        cost.keptBytes(layout.keep[layer]) > 0 &&
        packs.backward[value.consumers.back()] == pack)
      decisions.choices.place[v] = Place::Device;
  }
}

//===----------------------------------------------------------------------===//
// Climbing
//===----------------------------------------------------------------------===//

const Filling::OneGroup *Filling::oneGroupOf(int groups) {
  auto [it, isNew] = oneGroups.insert({groups, std::nullopt});
  std::optional<OneGroup> &one = it->second;
  if (!isNew)
    return one ? &*one : nullptr;
  bool equal = groups > 1 && problem.batch % groups == 0 && !problem.epilogue &&
               !problem.forwardsWrite();
  for (const Device &device : machine.devices)
    equal &= device.capacity == machine.devices.front().capacity;
  if (!equal)
    return nullptr;
  one = {problem, machine};
  one->problem.batch = problem.batch / groups;
  double engines = std::min(machine.hostQueues, groups);
  for (Tensor &tensor : one->problem.tensors) {
    tensor.stateBytes = (tensor.stateBytes + groups - 1) / groups;
    if (tensor.hostUpdateSeconds > 0)
      tensor.hostUpdateSeconds /= engines;
  }
  one->problem.hostUpdate.perByte /= engines;
  one->problem.deviceUpdate.perByte /= groups;
  return &*one;
}

Machine Filling::OneGroup::alone(int groups, bool estimated) const {
  Machine single = machine;
  single.devices.resize(1);
  single.links.clear();
  single.resources.clear();
  double once = 0, each = 0;
  for (const Tensor &tensor : problem.tensors)
    once += 2 * static_cast<double>(tensor.bytes);
  for (const Value &value : problem.values)
    each += static_cast<double>(value.bytesPerSample) *
            static_cast<double>(problem.batch);
  for (bool in : {true, false}) {
    Link link =
        in ? machine.link(hostEndpoint, 0) : machine.link(0, hostEndpoint);
    for (int r : link.shares) {
      double rate = machine.resources[r].bytesPerSecond;
      double part = in && estimated ? (once + each) / (once + each * groups)
                                    : 1.0 / groups;
      link.bytesPerSecond = std::min(link.bytesPerSecond, rate * part);
    }
    link.shares.clear();
    single.links.push_back(std::move(link));
  }
  return single;
}

std::vector<int64_t> Filling::peaksOf(const Problem &of, const Machine &on,
                                      const Choices &choices) {
  for (const Known &last : known)
    if (last.of == &of && last.choices == choices)
      return last.peaks;
  PlanBuilder::Peaks peaks = builderOf(of, on).peaks(choices);
  built += peaks.events;
  constexpr size_t most = 16;
  if (known.size() == most)
    known.pop_front();
  known.push_back({&of, choices, std::move(peaks.bytes)});
  return known.back().peaks;
}

std::vector<int64_t> Filling::peaksOfOne(const OneGroup &one,
                                         const Decisions &decisions) {
  Choices choices = decisions.choices;
  choices.others = choices.groups - 1;
  choices.groups = 1;
  choices.gather.clear();
  choices.loader.clear();
  choices.phases.clear();
  for (const PhaseChoice &phase : decisions.choices.phases)
    if (phase.group == 0)
      choices.phases.push_back(phase);
  for (int &owner : choices.owner)
    owner = owner < 0 ? owner : owner % decisions.layout.pipeline;
  return peaksOfRounds(one.problem, one.machine, decisions.layout,
                       std::move(choices));
}

std::vector<int64_t> Filling::peaksOfRounds(const Problem &of,
                                            const Machine &on, Layout layout,
                                            Choices choices) {
  layout.groups = 1;
  int64_t samples = roundSamples(layout, of.batch);
  if (samples * SearchPolicy::roundsForPeaks >= of.batch)
    return peaksOf(of, on, choices);
  layout.rounds = SearchPolicy::roundsForPeaks;
  int64_t batch = samples * layout.rounds;
  Problem &fewer = fewerSamples.try_emplace({&of, batch}, of).first->second;
  fewer.batch = batch;
  choices.phases = phasesOf(fewer, layout);
  return peaksOf(fewer, on, choices);
}

Limits Filling::lessOthers(const Decisions &decisions, const Limits &limits) {
  const OneGroup *one = oneGroupOf(decisions.layout.groups);
  if (!one)
    return limits;
  Limits less = limits;
  std::vector<int64_t> all = peaksOf(problem, machine, decisions.choices);
  std::vector<int64_t> alone = peaksOfOne(*one, decisions);
  for (size_t d = 0; d < all.size(); ++d)
    less[d] -= std::max<int64_t>(0, all[d] - alone[d % alone.size()]);
  return less;
}

std::vector<int64_t> Filling::excess(const Decisions &decisions,
                                     const Limits &limits) {
  const OneGroup *one = oneGroupOf(decisions.layout.groups);
  std::vector<int64_t> peaks =
      one ? peaksOfOne(*one, decisions)
      : decisions.layout.groups == 1
          ? peaksOfRounds(problem, machine, decisions.layout, decisions.choices)
          : peaksOf(problem, machine, decisions.choices);
  int places = decisions.layout.pipeline;
  std::vector<int64_t> result(places, std::numeric_limits<int64_t>::min());
  for (size_t d = 0; d < peaks.size(); ++d) {
    int64_t &most = result[d % places];
    for (size_t same = d % places; same < limits.size(); same += places)
      if (one || same == d)
        most = std::max(most, peaks[d] - limits[same]);
  }
  return result;
}

bool Filling::fits(const Decisions &decisions, const Limits &limits) {
  for (int64_t bytes : excess(decisions, limits))
    if (bytes > 0)
      return false;
  return true;
}

/// All of a ladder first, which often fits. Otherwise every place's height,
/// all at once, by interpolation between one that fits and one that does not:
/// bytes grow about evenly with the height. A decision is taken where all its
/// places reach it. As a place's memory also depends on the others', heights
/// that do not fit together are lowered until they do.
class Filling::Climb {
public:
  Climb(Filling &filling, const Decisions &from, const Ladder &ladder,
        const Limits &limits)
      : filling(filling), from(from), ladder(ladder), limits(limits),
        places(from.layout.pipeline), count(places, 0), low(places, 0) {
    for (const std::vector<int> &item : ladder.places) {
      rank.emplace_back();
      for (int q : item)
        rank.back().push_back(count[q]++);
    }
  }

  Decisions run() {
    if (ladder.places.empty())
      return from;
    Decisions all = taken(count);
    std::vector<int64_t> above = filling.excess(all, limits);
    if (fit(above))
      return all;
    findHeights(std::move(above));
    return places > 1 ? lowered() : taken(low);
  }

private:
  Filling &filling;
  const Decisions &from;
  const Ladder &ladder;
  const Limits &limits;
  const int places;
  std::vector<int> count;             ///< of a place's decisions
  std::vector<std::vector<int>> rank; ///< of each decision, at its places
  std::vector<int> low;               ///< heights that fit, each for itself

  static bool fit(const std::vector<int64_t> &excess) {
    return std::none_of(excess.begin(), excess.end(),
                        [](int64_t bytes) { return bytes > 0; });
  }

  int step(int place) const {
    return std::max(1, count[place] / SearchPolicy::heightParts);
  }

  Decisions taken(const std::vector<int> &heights) const {
    Decisions decisions = from;
    for (size_t i = 0; i < rank.size(); ++i) {
      bool take = true;
      for (size_t k = 0; k < rank[i].size(); ++k)
        take &= rank[i][k] < heights[ladder.places[i][k]];
      if (take)
        ladder.take(decisions, static_cast<int>(i));
    }
    if (ladder.finish)
      ladder.finish(decisions);
    return decisions;
  }

  /// `above`: by how many bytes the full heights do not fit.
  void findHeights(std::vector<int64_t> above) {
    std::vector<int> high = count;
    std::vector<int64_t> below = filling.excess(from, limits);
    for (int q = 0; q < places; ++q)
      if (above[q] <= 0)
        low[q] = count[q];
    for (int probe = 0; probe < SearchPolicy::heightProbes; ++probe) {
      std::vector<int> middle = low;
      bool open = false;
      for (int q = 0; q < places; ++q) {
        int between = high[q] - low[q];
        if (between <= step(q))
          continue;
        open = true;
        double room = static_cast<double>(-below[q]);
        double part = room / (room + static_cast<double>(above[q]));
        // Every other probe in the middle, in case bytes are not even.
        if (probe % 2 == 1 || !(part >= 0))
          part = 0.5;
        middle[q] +=
            std::clamp(static_cast<int>(between * part), 1, between - 1);
      }
      if (!open)
        break;
      std::vector<int64_t> found = filling.excess(taken(middle), limits);
      for (int q = 0; q < places; ++q)
        if (middle[q] != low[q]) {
          (found[q] > 0 ? high : low)[q] = middle[q];
          (found[q] > 0 ? above : below)[q] = found[q];
        }
    }
  }

  /// Until the heights fit together. Nothing taken is what fits for sure.
  Decisions lowered() {
    for (bool lower = true; lower;) {
      Decisions decisions = taken(low);
      std::vector<int64_t> found = filling.excess(decisions, limits);
      if (fit(found))
        return decisions;
      auto lowerAt = [&](int q) {
        lower |= low[q] > 0;
        low[q] = std::max(0, low[q] - step(q));
      };
      lower = false;
      for (int q = 0; q < places; ++q)
        if (found[q] > 0)
          lowerAt(q);
      for (int q = 0; q < places && !lower; ++q)
        lowerAt(q);
    }
    return taken(low);
  }
};

Decisions Filling::climb(Decisions from, const Strategy &strategy,
                         const Limits &limits) {
  for (Rung rung : strategy)
    from = Climb(*this, from, ladder(rung, from), limits).run();
  return from;
}

std::optional<Decisions>
Filling::resident(const Layout &layout, Updates updates, const Limits &limits) {
  Decisions decisions = base(layout, updates);
  Ladder all = tensorLadder(decisions, true);
  for (int i = 0; i < static_cast<int>(all.places.size()); ++i)
    all.take(decisions, i);
  if (!fits(decisions, limits))
    return std::nullopt;
  return climb(std::move(decisions), {Rung::Overlap}, limits);
}

} // namespace harmony::planner
