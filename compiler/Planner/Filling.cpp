//===- Filling.cpp - What stays on the devices ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Filling.h"

#include <algorithm>
#include <limits>
#include <set>

namespace harmony::planner {

namespace {

/// A ladder's height is found to a part of it.
constexpr int resolution = 32;

/// By layer: the pack of each direction and its microbatch. Layers of the turn
/// are in no forward pack, but have its microbatch.
struct LayerPacks {
  std::vector<int> forward, backward; ///< -1: none
  std::vector<int64_t> forwardSize, backwardSize;

  LayerPacks(const Problem &problem, const Layout &layout)
      : forward(problem.layers.size(), -1), backward(forward),
        forwardSize(problem.layers.size(), layout.forwardMicrobatch),
        backwardSize(problem.layers.size(), layout.backwardMicrobatch) {
    for (int p = 0; p < static_cast<int>(layout.backwardEnds.size()); ++p)
      for (int l = layout.firstBackward(p); l <= layout.backwardEnds[p]; ++l) {
        backward[l] = p;
        forwardSize[l] = backwardSize[l] = layout.backwardSize(p);
      }
    for (int f = 0; f < static_cast<int>(layout.forwardEnds.size()); ++f)
      for (int l = layout.firstForward(f); l <= layout.forwardEnds[f]; ++l) {
        forward[l] = f;
        forwardSize[l] = layout.forwardSize(f);
      }
  }
};

/// Where in a group's pipeline each layer is.
struct LayerPlaces {
  std::vector<int> forward, backward; ///< backward -1: none

  LayerPlaces(const Problem &problem, const Layout &layout)
      : forward(problem.layers.size()), backward(problem.layers.size(), -1) {
    LayerPacks packs(problem, layout);
    for (size_t l = 0; l < forward.size(); ++l) {
      if (packs.backward[l] >= 0)
        backward[l] = layout.backwardDevice(packs.backward[l]);
      forward[l] = packs.forward[l] < 0
                       ? backward[l]
                       : layout.forwardDevice(packs.forward[l]);
    }
  }

  void add(std::set<int> &places, int layer) const {
    places.insert(forward[layer]);
    if (backward[layer] >= 0)
      places.insert(backward[layer]);
  }
};

/// Layers that make or read a value.
std::vector<int> usersOf(const Value &value) {
  std::vector<int> users = value.consumers;
  if (!value.isInput())
    users.push_back(value.producer);
  return users;
}

/// By value: whether phases of different microbatches use it, or `gradients`,
/// its gradient. It then goes through the host, and no part of it may stay on
/// the way.
std::vector<char> mixedValues(const Problem &problem, const Layout &layout,
                              bool gradients) {
  std::vector<char> mixed(problem.values.size(), 0);
  if (layout.forwardSizes.empty() && layout.backwardSizes.empty() &&
      (layout.forwardMicrobatch == layout.backwardMicrobatch ||
       layout.backwardEnds.empty()))
    return mixed;
  LayerPacks packs(problem, layout);
  for (size_t v = 0; v < mixed.size(); ++v) {
    std::vector<int> users = usersOf(problem.values[v]);
    int64_t u = packs.backwardSize[users.front()];
    for (int l : users)
      mixed[v] |= packs.backwardSize[l] != u ||
                  (!gradients && packs.forwardSize[l] != u);
  }
  return mixed;
}

std::vector<int> listOf(const std::set<int> &places) {
  return {places.begin(), places.end()};
}

std::vector<int> everywhere(const Layout &layout) {
  std::vector<int> places;
  for (int q = 0; q < layout.pipeline; ++q)
    places.push_back(q);
  return places;
}

} // namespace

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

Decisions Filling::base(Layout layout, Updates updates) const {
  Decisions decisions;
  decisions.layout = std::move(layout);
  decisions.updates = updates;
  Choices &choices = decisions.choices;
  choices.groups = decisions.layout.groups;
  choices.others = others;
  choices.othersGather = othersGather;
  choices.update = problem.epilogue
                       ? UpdateOrder::Deferred
                       : options.update.value_or(UpdateOrder::JustInTime);
  choices.stay = stay();
  choices.overlap = false;
  choices.slots = 1;
  size_t tensors = problem.tensors.size();
  choices.resident.assign(tensors, 0);
  choices.pinned = choices.stateResident = choices.holdGradient =
      choices.resident;
  choices.updateOnHost.assign(tensors, updates == Updates::Host);
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

Decisions Filling::moved(const Decisions &from, Layout layout,
                         Updates updates) const {
  Decisions decisions = base(std::move(layout), updates);
  Choices &choices = decisions.choices;
  choices.overlap = from.choices.overlap;
  choices.slots = from.choices.slots;
  choices.valuesAhead = from.choices.valuesAhead;
  choices.runs = from.choices.runs;
  choices.resident = from.choices.resident;
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
  std::vector<int64_t> sizes =
      LayerPacks(problem, decisions.layout).backwardSize;
  for (size_t l = 0; l < can.size() && l < from.layout.keep.size(); ++l) {
    const Cost &cost = problem.cost(static_cast<int>(l), sizes[l]);
    if (can[l] && cost.keptBytes(from.layout.keep[l]) > 0)
      keep[l] = std::max(keep[l], from.layout.keep[l]);
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
  std::vector<int> pack(problem.layers.size(), -1);
  for (int p = 0; p + 1 < static_cast<int>(layout.backwardEnds.size()); ++p)
    for (int l = layout.firstBackward(p); l <= layout.backwardEnds[p]; ++l)
      pack[l] = p;
  std::vector<int64_t> sizes = LayerPacks(problem, layout).backwardSize;
  std::vector<char> mixed = mixedValues(problem, layout, false);
  auto keepsBytes = [&](int layer) {
    return problem.cost(layer, sizes[layer]).keptBytes(layout.keep[layer]) > 0;
  };
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const Value &value = problem.values[v];
    if (!value.isInput() && !value.consumers.empty() && !mixed[v] &&
        pack[value.producer] >= 0 && keepsBytes(value.producer) &&
        pack[value.consumers.back()] == pack[value.producer])
      decisions.choices.place[v] = Place::Device;
  }
}

//===----------------------------------------------------------------------===//
// Ladders
//===----------------------------------------------------------------------===//

Filling::Ladder Filling::overlapLadder(const Decisions &from) const {
  std::vector<int> all = everywhere(from.layout);
  return {{all, all, all, all}, [](Decisions &decisions, int item) {
            Choices &choices = decisions.choices;
            if (item == 0)
              choices.runs = fineRuns;
            else if (item == 1)
              choices.slots = 2;
            else if (item == 2)
              choices.overlap = choices.stay;
            else
              choices.valuesAhead = choices.stay;
          }};
}

/// First what passes no pack's end, which costs nothing; then what takes the
/// least memory beyond the slots it has anyway.
Filling::Ladder Filling::adjacentLadder(const Decisions &from) const {
  if (!stay())
    return {};
  struct Item {
    int value;
    bool gradient;
    int64_t more, bytes;
  };
  std::vector<Item> items;
  std::vector<std::pair<int, bool>> inner;
  LayerPacks packs(problem, from.layout);
  int64_t share = sharesOf(problem.batch, from.layout.groups).front();
  for (bool gradients : {false, true}) {
    std::vector<char> mixed = mixedValues(problem, from.layout, gradients);
    for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
      const Value &value = problem.values[v];
      if (mixed[v] || value.consumers.empty())
        continue;
      std::vector<int> users = usersOf(value);
      bool crosses = false;
      for (int l : users)
        crosses |= packs.backward[l] != packs.backward[users.front()] ||
                   packs.forward[l] != packs.forward[users.front()];
      if (!crosses) {
        inner.push_back({v, gradients});
        continue;
      }
      int64_t u = packs.backwardSize[users.front()];
      int64_t bytes = value.bytesPerSample;
      items.push_back(
          {v, gradients, bytes * std::max<int64_t>(0, share - 2 * u), bytes});
    }
  }
  std::stable_sort(
      items.begin(), items.end(), [](const Item &a, const Item &b) {
        return a.more != b.more ? a.more < b.more : a.bytes > b.bytes;
      });
  LayerPlaces layers(problem, from.layout);
  Ladder ladder;
  ladder.places.push_back(everywhere(from.layout));
  for (const Item &item : items) {
    std::set<int> places;
    for (int l : usersOf(problem.values[item.value]))
      layers.add(places, l);
    ladder.places.push_back(listOf(places));
  }
  ladder.take = [items, inner](Decisions &decisions, int taken) {
    auto stays = [&](int v, bool gradient) {
      Choices &choices = decisions.choices;
      Place &place = gradient ? choices.gradientPlace[v] : choices.place[v];
      if (place == Place::Host)
        place = Place::Adjacent;
    };
    if (taken > 0)
      stays(items[taken - 1].value, items[taken - 1].gradient);
    else
      for (auto [v, gradient] : inner)
        stays(v, gradient);
  };
  return ladder;
}

/// Values that live over the fewest layers first, and their gradients.
Filling::Ladder Filling::valueLadder(const Decisions &from) const {
  std::vector<int> order;
  std::vector<char> mixed = mixedValues(problem, from.layout, false);
  for (int v = 0; stay() && v < static_cast<int>(problem.values.size()); ++v)
    if (!problem.values[v].consumers.empty() && !mixed[v])
      order.push_back(v);
  auto span = [this](int v) {
    const Value &value = problem.values[v];
    // From its first forward use to the last backward one.
    int first = value.isInput() ? value.consumers.front() : value.producer;
    return 2 * problem.layerCount() - first - value.consumers.front();
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return span(a) != span(b) ? span(a) < span(b) : a < b;
  });
  LayerPlaces layers(problem, from.layout);
  Ladder ladder;
  for (int v : order) {
    std::set<int> places;
    if (!problem.values[v].isInput())
      layers.add(places, problem.values[v].producer);
    for (int consumer : problem.values[v].consumers)
      layers.add(places, consumer);
    ladder.places.push_back(listOf(places));
  }
  ladder.take = [order](Decisions &decisions, int item) {
    decisions.choices.place[order[item]] =
        decisions.choices.gradientPlace[order[item]] = Place::Device;
  };
  return ladder;
}

/// Late layers first: the shortest stretch between forward and backward.
std::vector<int> Filling::tensorOrder() const {
  std::vector<int> order;
  for (int t = 0; stay() && problem.training &&
                  t < static_cast<int>(problem.tensors.size());
       ++t)
    if (lastLayer[t] >= 0)
      order.push_back(t);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return firstLayer[a] != firstLayer[b] ? firstLayer[a] > firstLayer[b]
                                          : a < b;
  });
  return order;
}

/// Tensors that stay within an execution, or for good, early layers first. What
/// the host updates cannot be resident; it is pinned by the other ladder.
Filling::Ladder Filling::tensorLadder(const Decisions &from,
                                      bool resident) const {
  std::vector<int> order = tensorOrder();
  if (resident)
    std::reverse(order.begin(), order.end());
  LayerPlaces layers(problem, from.layout);
  std::vector<std::set<int>> places(problem.tensors.size());
  for (int l = 0; l < problem.layerCount(); ++l)
    for (const TensorUse &use : problem.layers[l].tensors)
      layers.add(places[use.tensor], l);
  Ladder ladder;
  for (int t : order)
    ladder.places.push_back(listOf(places[t]));
  ladder.take = [order, resident](Decisions &decisions, int item) {
    Choices &choices = decisions.choices;
    int t = order[item];
    if (resident)
      choices.resident[t] = choices.stateResident[t] = 1;
    else
      choices.pinned[t] = 1;
    choices.holdGradient[t] = 1;
  };
  return ladder;
}

/// Most seconds saved for a byte first; of equal ones late layers.
Filling::Ladder Filling::keepLadder(const Decisions &from) const {
  struct Step {
    int layer, level;
    double gain; ///< seconds a byte
  };
  const Layout &layout = from.layout;
  std::vector<Step> steps;
  std::vector<char> can = layout.canKeep();
  std::vector<int64_t> sizes = LayerPacks(problem, layout).backwardSize;
  if (stay() && options.recompute == Recompute::Auto)
    for (int l = 0; l < static_cast<int>(can.size()); ++l) {
      if (!can[l])
        continue;
      int64_t outputs = 0, u = sizes[l];
      for (int v : problem.layers[l].outputs)
        outputs += problem.values[v].bytes(u);
      const Cost &cost = problem.cost(l, u);
      // Level by level, those left out that the next one is better than.
      std::vector<Step> own;
      auto gain = [&](int low, int high) {
        int64_t bytes = cost.keptBytes(high) - cost.keptBytes(low) +
                        (low == 0 ? outputs : 0);
        return (cost.recomputeSeconds(low) - cost.recomputeSeconds(high)) /
               static_cast<double>(std::max<int64_t>(bytes, 1));
      };
      for (int level = 1; level <= cost.levels(); ++level) {
        auto below = [&](size_t kept) {
          return kept == 0 ? 0 : own[kept - 1].level;
        };
        while (!own.empty() &&
               gain(below(own.size()), level) >= own.back().gain)
          own.pop_back();
        own.push_back({l, level, gain(below(own.size()), level)});
      }
      steps.insert(steps.end(), own.begin(), own.end());
    }
  std::stable_sort(
      steps.begin(), steps.end(), [](const Step &a, const Step &b) {
        return a.gain != b.gain ? a.gain > b.gain : a.layer > b.layer;
      });
  LayerPlaces layers(problem, layout);
  Ladder ladder;
  for (const Step &step : steps)
    ladder.places.push_back({layers.backward[step.layer]});
  ladder.take = [this, steps](Decisions &decisions, int item) {
    std::vector<int> &keep = decisions.layout.keep;
    keep.resize(problem.layers.size(), 0);
    int &level = keep[steps[item].layer];
    level = std::max(level, steps[item].level);
  };
  ladder.finish = [this](Decisions &decisions) {
    keepOutputs(decisions);
    renew(decisions);
  };
  return ladder;
}

Filling::Ladder Filling::ladder(Rung rung, const Decisions &from) const {
  switch (rung) {
  case Rung::Overlap:
    return overlapLadder(from);
  case Rung::Adjacent:
    return adjacentLadder(from);
  case Rung::Values:
    return valueLadder(from);
  case Rung::Pin:
    return tensorLadder(from, false);
  case Rung::Resident:
    return tensorLadder(from, true);
  case Rung::Keep:
    return keepLadder(from);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Climbing
//===----------------------------------------------------------------------===//

const Filling::OneGroup *Filling::oneGroupOf(int groups) const {
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

std::vector<int64_t> Filling::peaksOf(const Problem &of, const Machine &on,
                                      const Choices &choices) const {
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
                                         const Decisions &decisions) const {
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
  return peaksOf(one.problem, one.machine, choices);
}

Limits Filling::lessOthers(const Decisions &decisions,
                           const Limits &limits) const {
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
                                     const Limits &limits) const {
  const OneGroup *one = oneGroupOf(decisions.layout.groups);
  std::vector<int64_t> peaks =
      one ? peaksOfOne(*one, decisions)
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

bool Filling::fits(const Decisions &decisions, const Limits &limits) const {
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
Decisions Filling::climb(const Decisions &from, const Ladder &ladder,
                         const Limits &limits) const {
  int items = static_cast<int>(ladder.places.size());
  int places = from.layout.pipeline;
  if (items == 0)
    return from;
  std::vector<int> count(places, 0);
  std::vector<std::vector<int>> rank(items);
  for (int i = 0; i < items; ++i)
    for (int q : ladder.places[i])
      rank[i].push_back(count[q]++);
  auto taken = [&](const std::vector<int> &heights) {
    Decisions decisions = from;
    for (int i = 0; i < items; ++i) {
      bool take = true;
      for (size_t k = 0; k < rank[i].size(); ++k)
        take &= rank[i][k] < heights[ladder.places[i][k]];
      if (take)
        ladder.take(decisions, i);
    }
    if (ladder.finish)
      ladder.finish(decisions);
    return decisions;
  };

  Decisions all = taken(count);
  std::vector<int64_t> above = excess(all, limits);
  if (std::none_of(above.begin(), above.end(),
                   [](int64_t bytes) { return bytes > 0; }))
    return all;
  std::vector<int> low(places, 0), high = count;
  std::vector<int64_t> below = excess(from, limits);
  for (int q = 0; q < places; ++q)
    if (above[q] <= 0)
      low[q] = count[q];
  constexpr int mostProbes = 6;
  for (int probe = 0; probe < mostProbes; ++probe) {
    std::vector<int> middle = low;
    bool open = false;
    for (int q = 0; q < places; ++q) {
      int between = high[q] - low[q];
      if (between <= std::max(1, count[q] / resolution))
        continue;
      open = true;
      double room = static_cast<double>(-below[q]);
      double part = room / (room + static_cast<double>(above[q]));
      // Every other probe in the middle, in case bytes are not even.
      if (probe % 2 == 1 || !(part >= 0))
        part = 0.5;
      middle[q] += std::clamp(static_cast<int>(between * part), 1, between - 1);
    }
    if (!open)
      break;
    std::vector<int64_t> found = excess(taken(middle), limits);
    for (int q = 0; q < places; ++q)
      if (middle[q] != low[q]) {
        (found[q] > 0 ? high : low)[q] = middle[q];
        (found[q] > 0 ? above : below)[q] = found[q];
      }
  }
  // Nothing taken is what fits for sure.
  auto step = [&](int q) { return std::max(1, count[q] / resolution); };
  for (bool lowered = places > 1; lowered;) {
    Decisions decisions = taken(low);
    std::vector<int64_t> found = excess(decisions, limits);
    if (std::none_of(found.begin(), found.end(),
                     [](int64_t bytes) { return bytes > 0; }))
      return decisions;
    auto lower = [&](int q) {
      lowered |= low[q] > 0;
      low[q] = std::max(0, low[q] - step(q));
    };
    lowered = false;
    for (int q = 0; q < places; ++q)
      if (found[q] > 0)
        lower(q);
    for (int q = 0; q < places && !lowered; ++q)
      lower(q);
  }
  return taken(low);
}

Decisions Filling::climb(Decisions from, const Strategy &strategy,
                         const Limits &limits) const {
  for (Rung rung : strategy)
    from = climb(from, ladder(rung, from), limits);
  return from;
}

std::optional<Decisions> Filling::resident(const Layout &layout,
                                           Updates updates,
                                           const Limits &limits) const {
  Decisions decisions = base(layout, updates);
  Ladder all = tensorLadder(decisions, true);
  for (int i = 0; i < static_cast<int>(all.places.size()); ++i)
    all.take(decisions, i);
  if (!fits(decisions, limits))
    return std::nullopt;
  return climb(std::move(decisions), {Rung::Overlap}, limits);
}

} // namespace harmony::planner
