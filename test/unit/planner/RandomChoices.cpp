//===- RandomChoices.cpp - Machines and choices drawn at random -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Partition.h"

#include <algorithm>

namespace harmony::planner::test {

Choices randomChoices(const Problem &problem, std::mt19937 &generator) {
  auto below = [&](int n) {
    return static_cast<int>(generator() % static_cast<unsigned>(n));
  };
  int64_t u =
      problem
          .microbatches[below(static_cast<int>(problem.microbatches.size()))];
  Choices choices = leastChoices(problem, u);
  std::vector<int> packEnds;
  for (int l = 0; l < problem.layerCount(); ++l)
    if (l + 1 == problem.layerCount() || below(2))
      packEnds.push_back(l);
  Layout layout = uniformLayout(problem, 1, 1, Placement::Ring, packEnds, u);
  choices.update = below(4) ? UpdateOrder::JustInTime : UpdateOrder::Deferred;
  choices.stay = below(5) > 0;
  choices.overlap = below(2);
  choices.runs = below(2) ? 1 : 2 + below(5);
  choices.slots = 1 + below(2);
  for (int l = 0; l < problem.layerCount() && choices.stay; ++l)
    layout.keep.push_back(below(2) ? below(1 + problem.levels(l)) : 0);
  choices.recomputeAhead = below(2);
  layout.rounds = 1 + below(3);
  choices.phases = phasesOf(problem, layout);
  for (auto *flags :
       {&choices.resident, &choices.pinned, &choices.stateResident,
        &choices.holdGradient, &choices.updateOnHost})
    for (char &flag : *flags)
      flag = static_cast<char>(below(2));
  for (auto *places : {&choices.place, &choices.gradientPlace})
    for (Place &place : *places)
      place = static_cast<Place>(below(3));
  choices.valuesAhead = below(2);
  return choices;
}

Machine randomMachine(int devices, std::mt19937 &generator) {
  Machine machine = Machine::uniform("test", devices, unlimited, 1e9, 0);
  bool sparse = generator() % 3 == 0;
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to && !(sparse && generator() % 3 == 0))
        machine.links.push_back({from, to, 4e9, 0, {}});
  machine.hostQueues = 1 + static_cast<int>(generator() % 3);
  return machine;
}

namespace {

/// Phases of one group, by pack.
class RandomGroup {
public:
  RandomGroup(const Problem &problem, std::mt19937 &generator, int group,
              int64_t firstSample, int64_t samples, std::vector<int> devices)
      : problem(problem), generator(generator), group(group),
        firstSample(firstSample), samples(samples),
        devices(std::move(devices)) {}

  /// Ends of the forward packs but the turn, and of the backward packs but the
  /// turn; both lists end with the layer before the turn, or are empty.
  std::vector<std::vector<PhaseChoice>> packs(const std::vector<int> &forward,
                                              const std::vector<int> &backward,
                                              int64_t forwardSize,
                                              int64_t backwardSize, bool stay) {
    int way = below(3); // a ring, mirrored, anywhere
    std::vector<std::vector<PhaseChoice>> list;
    size_t turn = forward.size();
    for (size_t k = 0; k < forward.size(); ++k)
      list.push_back(pack(PhaseKind::Forward, k ? forward[k - 1] + 1 : 0,
                          forward[k], device(way, k), forwardSize));
    int last = problem.layerCount() - 1;
    list.push_back(pack(problem.training ? PhaseKind::Turn : PhaseKind::Forward,
                        forward.empty() ? 0 : forward.back() + 1, last,
                        device(way, turn),
                        problem.training ? backwardSize : forwardSize));
    for (size_t i = 0; i < backward.size(); ++i) {
      size_t k = backward.size() - 1 - i;
      list.push_back(pack(PhaseKind::Backward, k ? backward[k - 1] + 1 : 0,
                          backward[k], device(way, way == 1 ? k : turn + 1 + i),
                          backwardSize));
      if (stay && below(2))
        keep(list);
    }
    return list;
  }

private:
  const Problem &problem;
  std::mt19937 &generator;
  int group;
  int64_t firstSample, samples;
  std::vector<int> devices;

  int below(size_t n) { return static_cast<int>(generator() % n); }

  int device(int way, size_t place) {
    return way == 2 ? devices[below(devices.size())]
                    : devices[place % devices.size()];
  }

  std::vector<PhaseChoice> pack(PhaseKind kind, int first, int last, int device,
                                int64_t size) {
    std::vector<PhaseChoice> parts;
    int64_t whole = samples / size;
    if (whole > 0)
      parts.push_back(
          {device, group, kind, first, last, size, firstSample, whole});
    if (samples % size > 0)
      parts.push_back({device, group, kind, first, last, samples % size,
                       firstSample + whole * size, 1});
    return parts;
  }

  /// The last pack, and what forward packs keep for it.
  void keep(std::vector<std::vector<PhaseChoice>> &list) {
    std::vector<PhaseChoice> &back = list.back();
    for (PhaseChoice &phase : back)
      phase.keep.assign(phase.lastLayer - phase.firstLayer + 1, 0);
    for (int l = back[0].firstLayer; l <= back[0].lastLayer; ++l) {
      int level = below(1 + problem.levels(l));
      for (std::vector<PhaseChoice> &front : list)
        if (front[0].kind == PhaseKind::Forward && front[0].firstLayer <= l &&
            l <= front[0].lastLayer)
          keep(front, back, l, level);
    }
  }

  /// At that level, or the highest below it that keeps no bytes where they
  /// cannot stay.
  void keep(std::vector<PhaseChoice> &front, std::vector<PhaseChoice> &back,
            int layer, int level) {
    bool stays = front[0].device == back[0].device &&
                 front[0].microbatch == back[0].microbatch;
    auto kept = [&](int atLevel) {
      return problem.cost(layer, back[0].microbatch).keptBytes(atLevel);
    };
    while (!stays && kept(level) > 0)
      --level;
    for (auto *parts : {&front, &back})
      for (PhaseChoice &phase : *parts) {
        if (parts == &front && kept(level) == 0)
          continue;
        phase.keep.resize(phase.lastLayer - phase.firstLayer + 1, 0);
        phase.keep[layer - phase.firstLayer] = level;
      }
  }
};

} // namespace

Choices randomChoices(const Problem &problem, const Machine &machine,
                      std::mt19937 &generator) {
  auto below = [&](int64_t n) {
    return static_cast<int>(generator() % static_cast<unsigned>(n));
  };
  Choices choices = randomChoices(problem, generator);
  choices.slots = 1 + below(3);
  int devices = static_cast<int>(machine.devices.size());
  choices.groups = problem.splittable && below(2)
                       ? 1 + below(std::min<int64_t>(devices, problem.batch))
                       : 1;
  int ring = devices / choices.groups;
  auto ends = [&](int layers) {
    std::vector<int> list;
    for (int l = 0; l < layers; ++l)
      if (l + 1 == layers || below(2))
        list.push_back(l);
    return list;
  };
  bool sliceable =
      std::all_of(problem.values.begin(), problem.values.end(),
                  [](const Value &value) { return value.sliceable; });
  auto size = [&] {
    return problem
        .microbatches[below(static_cast<int64_t>(problem.microbatches.size()))];
  };
  int before = below(problem.layerCount()); // layers before the turn
  std::vector<int> forward = ends(before);
  std::vector<int> backward = below(2) ? forward : ends(before);
  if (!problem.training)
    backward.clear();
  int64_t forwardSize = size();
  int64_t backwardSize = sliceable && below(2) ? size() : forwardSize;
  if (!problem.splittable)
    forwardSize = backwardSize = problem.batch;
  std::vector<std::vector<std::vector<PhaseChoice>>> groups;
  int64_t sample = 0;
  for (int g = 0; g < choices.groups; ++g) {
    int64_t share = problem.batch / choices.groups +
                    (g < problem.batch % choices.groups ? 1 : 0);
    std::vector<int> own;
    for (int d = 0; d < ring; ++d)
      own.push_back(g * ring + d);
    std::shuffle(own.begin(), own.end(), generator);
    groups.push_back(
        RandomGroup(problem, generator, g, sample, share, own)
            .packs(forward, backward, forwardSize, backwardSize, choices.stay));
    sample += share;
  }
  choices.phases.clear();
  bool inTurn = below(2);
  size_t packs = groups[0].size();
  for (size_t i = 0; i < packs * groups.size(); ++i) {
    const auto &pack = inTurn ? groups[i % groups.size()][i / groups.size()]
                              : groups[i / packs][i % packs];
    choices.phases.insert(choices.phases.end(), pack.begin(), pack.end());
  }
  if (problem.training && below(4) == 0) {
    Layout layout =
        uniformLayout(problem, choices.groups, ring,
                      below(2) ? Placement::Ring : Placement::Mirror,
                      ends(problem.layerCount()), backwardSize);
    layout.forwardMicrobatch = forwardSize;
    int most = std::min(ring, static_cast<int>(layout.backwardEnds.size()));
    if (canTakeTurns(problem, choices.groups)) {
      layout.turnPacks = 1 + below(most);
      layout.rounds = 1 + below(3); // of a turn of one pack
    }
    layout.forwardEnds.resize(static_cast<size_t>(layout.turn()));
    if (choices.stay && below(2))
      for (int l = 0; l < problem.layerCount(); ++l)
        layout.keep.push_back(below(problem.levels(l) + 1));
    choices.phases = phasesOf(problem, layout);
  }
  choices.peers = below(4) > 0;
  if (below(2))
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      choices.owner.push_back(below(devices + 1) - 1);
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    choices.gather.push_back(static_cast<Gather>(below(3)));
    choices.loader.push_back(below(choices.groups));
  }
  return choices;
}

} // namespace harmony::planner::test
