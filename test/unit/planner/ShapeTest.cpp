//===- ShapeTest.cpp - Packs of layers ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Shape.h"

#include "compiler/Planner/Filling.h"
#include "compiler/Planner/Partition.h"

#include "test/unit/planner/Devices.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

/// Every way of cutting layers into packs: the last layers.
std::vector<std::vector<int>> partitions(int layers) {
  std::vector<std::vector<int>> all;
  for (unsigned cuts = 0; cuts < 1U << (layers - 1); ++cuts) {
    std::vector<int> &ends = all.emplace_back();
    for (int l = 0; l < layers; ++l)
      if (l + 1 == layers || (cuts >> l & 1) != 0)
        ends.push_back(l);
  }
  return all;
}

double heaviest(const std::vector<double> &weights,
                const std::vector<int> &ends) {
  double most = 0;
  int first = 0;
  for (int end : ends) {
    double sum = 0;
    for (; first <= end; ++first)
      sum += weights[first];
    most = std::max(most, sum);
  }
  return most;
}

TEST(Partition, TheHeaviestPackIsAsLightAsPossible) {
  std::mt19937 generator(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> weights(1 + generator() % 9);
    for (double &weight : weights)
      weight = static_cast<double>(generator() % 50) / 10;
    int layers = static_cast<int>(weights.size());
    for (int packs = 1; packs <= layers; ++packs) {
      std::vector<int> ends = balancedPartition(weights, packs);
      ASSERT_LE(static_cast<int>(ends.size()), packs);
      ASSERT_EQ(ends.back(), layers - 1);
      double least = heaviest(weights, {layers - 1});
      for (const std::vector<int> &other : partitions(layers))
        if (static_cast<int>(other.size()) <= packs)
          least = std::min(least, heaviest(weights, other));
      EXPECT_NEAR(heaviest(weights, ends), least, 1e-9)
          << "round " << round << ", " << packs << " packs";
    }
  }
}

TEST(Shape, RangeMaximumIsThatOfTheRange) {
  std::mt19937 generator(2);
  std::vector<double> list(37);
  for (double &number : list)
    number = static_cast<double>(generator() % 1000);
  RangeMaximum maximum(list);
  for (int from = 0; from < 37; ++from)
    for (int to = from + 1; to <= 37; ++to)
      EXPECT_EQ(maximum.of(from, to),
                *std::max_element(list.begin() + from, list.begin() + to));
}

/// Layers of random sizes, each with one value from the one before.
Problem unevenChain(int layers, std::mt19937 &generator) {
  Problem problem = chain(layers, 8);
  Function function = problem.functions.front();
  problem.functions.clear();
  for (Layer &layer : problem.layers) {
    layer.function = static_cast<int>(problem.functions.size());
    problem.functions.push_back(function);
    for (Cost &cost : problem.functions.back().costs) {
      cost.savedBytes =
          cost.microbatch * static_cast<int64_t>(64 + generator() % 2048);
      cost.backwardWorkspace = static_cast<int64_t>(generator() % 512);
      cost.keeps.clear();
    }
    for (const TensorUse &use : layer.tensors) {
      Tensor &tensor = problem.tensors[use.tensor];
      tensor.bytes = tensor.gradientBytes =
          static_cast<int64_t>(256 + generator() % 8192);
    }
  }
  problem.link();
  return problem;
}

/// What a backward pack takes where each microbatch has two slots.
double bytesOf(const Problem &problem, int first, int last, int64_t u) {
  double bytes = 0, beside = 0;
  auto outputs = [&](int layer) {
    double sum = 0;
    for (int v : problem.layers[layer].outputs)
      sum += static_cast<double>(problem.values[v].bytes(u));
    return sum;
  };
  for (int l = first; l <= last; ++l) {
    const Cost &cost = problem.cost(l, u);
    for (const TensorUse &use : problem.layers[l].tensors)
      bytes += static_cast<double>(problem.tensors[use.tensor].bytes +
                                   problem.tensors[use.tensor].gradientBytes);
    bytes += static_cast<double>(cost.savedBytes) + outputs(l);
    beside = std::max(beside, 2 * outputs(l) + static_cast<double>(std::max(
                                                   cost.forwardWorkspace,
                                                   cost.backwardWorkspace)));
  }
  if (first > 0)
    bytes += 2 * 2 * outputs(first - 1);
  return bytes + beside + 2 * outputs(last);
}

TEST(Shape, NoOtherPacksAreFewer) {
  std::mt19937 generator(3);
  constexpr int layers = 9;
  for (int round = 0; round < 60; ++round) {
    Problem problem = unevenChain(layers, generator);
    double largest = 0, all = 0;
    for (int l = 0; l < layers; ++l)
      largest = std::max(largest, bytesOf(problem, l, l, 1));
    for (int l = 0; l < layers; ++l)
      all += bytesOf(problem, l, l, 1);
    double room = largest + (all - largest) *
                                static_cast<double>(generator() % 100) / 150;
    constexpr int64_t capacity = 1 << 30;
    Machine machine = test::machine(capacity);
    machine.phaseSeconds = 1e6; // more than all else
    Shape shape;
    shape.microbatch = 1;
    shape.backwardPart = room / capacity;
    shape.forwardPart = 1;
    shape.turnPart = 0; // one layer
    Layout layout = Shapes(problem, machine).layoutOf(shape);
    int first = 0;
    ASSERT_EQ(layout.turnLayer(), layers - 1);
    for (int p = 0; p < layout.turn(); ++p) {
      EXPECT_LE(bytesOf(problem, first, layout.backwardEnds[p], 1),
                room * (1 + 1e-9));
      first = layout.backwardEnds[p] + 1;
    }
    size_t fewest = layers;
    for (const std::vector<int> &ends : partitions(layers - 1)) {
      bool fits = true;
      for (size_t p = 0; p < ends.size(); ++p)
        fits &=
            bytesOf(problem, p == 0 ? 0 : ends[p - 1] + 1, ends[p], 1) <= room;
      if (fits)
        fewest = std::min(fewest, ends.size());
    }
    EXPECT_EQ(layout.backwardEnds.size() - 1, fewest) << "round " << round;
  }
}

/// Whether anything of fewer phases fits, each layer and microbatch size tried.
bool fitsInFewer(const Problem &problem, const Machine &machine,
                 size_t phases) {
  SearchOptions options;
  Filling filling(problem, machine, options);
  Limits limits{machine.devices[0].capacity};
  int layers = problem.layerCount();
  for (int64_t u : problem.microbatches)
    for (const std::vector<int> &backward : partitions(layers)) {
      int turn = backward.size() < 2 ? 0 : backward[backward.size() - 2] + 1;
      std::vector<std::vector<int>> forwards{{}};
      if (turn > 0)
        forwards = partitions(turn);
      for (const std::vector<int> &forward : forwards) {
        if (forward.size() + backward.size() >= phases ||
            !canSplit(problem, 1, u))
          continue;
        Layout layout;
        layout.placement = Placement::Mirror;
        layout.forwardEnds = forward;
        layout.backwardEnds = backward;
        layout.forwardMicrobatch = layout.backwardMicrobatch = u;
        for (Updates updates : {Updates::Device, Updates::Host})
          if (filling.fits(filling.base(layout, updates), limits))
            return true;
      }
    }
  return false;
}

TEST(Shape, NoPlanOfFewerPhasesFits) {
  for (const Problem &problem :
       {chain(6, 8), chain(7, 4, 1 << 14, 1 << 10),
        transformer(3, 8, 64, 32, 96), transformer(2, 4, 64, 32, 512),
        mlp({64, 128, 128, 64, 64, 10}, 8)}) {
    Machine machine = test::machine(unlimited);
    machine.phaseSeconds = 1; // more than all else
    int64_t least = minDeviceBytes(problem, machine, {});
    for (double times : {1.05, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0}) {
      machine.devices[0].capacity =
          static_cast<int64_t>(static_cast<double>(least) * times);
      Plan plan = std::get<Planned>(solve(problem, machine, {})).plan;
      EXPECT_FALSE(fitsInFewer(problem, machine, plan.phases.size()))
          << problem.name << " at " << times
          << " times the least: " << plan.phases.size() << " phases";
    }
  }
}

/// Groups whose shares are not equal: a size of a pack must be known in all of
/// them, and what it leaves there too. Microbatches that take as long as three
/// samples more make packs want sizes of their own.
TEST(Shape, SizesOfPacksSplitAllShares) {
  constexpr int devices = 3;
  for (int64_t batch : {40, 64}) {
    Problem problem =
        splitFor(sliceable(transformer(4, batch, 32, 16, 64)), devices);
    for (Function &function : problem.functions) {
      double start = 3 * function.costs.front().forwardSeconds;
      for (Cost &cost : function.costs) {
        cost.forwardSeconds += start;
        cost.backwardSeconds += start;
      }
    }
    problem.link();
    int64_t least = minDeviceBytes(problem, machines(devices, unlimited), {});
    for (double factor : {3.0, 6.0, 10.0})
      solvedOn(problem, machines(devices, times(least, factor)), {});
  }
}

} // namespace
