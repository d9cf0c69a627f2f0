//===- Ladders.cpp - What may stay, in order ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Filling.h"
#include "compiler/Planner/LayerPacks.h"

#include <algorithm>
#include <set>

namespace harmony::planner {

namespace {

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
  int64_t samples = roundSamples(
      from.layout, sharesOf(problem.batch, from.layout.groups).front());
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
          {v, gradients, bytes * std::max<int64_t>(0, samples - 2 * u), bytes});
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
/// the host updates cannot be resident; it is pinned by the other ladder, but
/// for Updates::Staying, which has devices update what is resident.
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
  ladder.take = [this, order, resident](Decisions &decisions, int item) {
    Choices &choices = decisions.choices;
    int t = order[item];
    if (resident) {
      choices.resident[t] = choices.stateResident[t] = 1;
      if (decisions.updates == Updates::Staying &&
          problem.tensors[t].updatePlace == UpdatePlace::Any)
        choices.updateOnHost[t] = 0;
    } else {
      choices.pinned[t] = 1;
    }
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

} // namespace harmony::planner
