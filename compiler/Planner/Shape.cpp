//===- Shape.cpp - How large packs are, and where the turn begins ---------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a group of one device nothing depends on who has which pack: the packs of
// least time within a budget of memory, and the microbatch size of each, come
// from dynamic programming over the layers. Pipelines need packs that take the
// same time, in multiples of their devices.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Shape.h"

#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace harmony::planner {

bool Shape::operator==(const Shape &o) const {
  auto all = [](const Shape &s) {
    return std::make_tuple(s.groups, s.pipeline, s.microbatch, s.turnPart,
                           s.backwardPart, s.forwardPart, s.segmentPart,
                           s.resident, s.placement, s.packs, s.evenTime,
                           s.forwardMicrobatch);
  };
  return all(*this) == all(o);
}

Shapes::Shapes(const Problem &problem, const Machine &machine)
    : problem(problem), machine(machine) {
  mixes = problem.training && !problem.mixing &&
          std::all_of(problem.values.begin(), problem.values.end(),
                      [](const Value &value) {
                        return value.isInput() || value.sliceable;
                      });
  if (!problem.training)
    return;
  tensors = gradients = {0};
  for (const Layer &layer : problem.layers) {
    double bytes = 0, ofGradients = 0;
    for (const TensorUse &use : layer.tensors) {
      const Tensor &tensor = problem.tensors[use.tensor];
      bytes += static_cast<double>(tensor.bytes);
      ofGradients +=
          use.gradient ? static_cast<double>(tensor.gradientBytes) : 0;
    }
    tensors.push_back(tensors.back() + bytes);
    gradients.push_back(gradients.back() + ofGradients);
  }
  for (const Tensor &tensor : problem.tensors)
    states += static_cast<double>(tensor.stateBytes);
  for (int64_t u : problem.microbatches) {
    Sums &of = sums.emplace_back();
    of.microbatch = u;
    of.forward = of.backward = of.saved = of.stashes = {0};
    for (int l = 0; l < problem.layerCount(); ++l) {
      const Cost &cost = problem.cost(l, u);
      double values = 0;
      for (int v : problem.layers[l].outputs)
        values += static_cast<double>(problem.values[v].bytes(u));
      auto saved = static_cast<double>(cost.savedBytes);
      of.forward.push_back(of.forward.back() + cost.forwardSeconds);
      of.backward.push_back(of.backward.back() + cost.backwardSeconds);
      of.saved.push_back(of.saved.back() + saved + values);
      of.stashes.push_back(of.stashes.back() + saved * values);
      of.largest.push_back(saved + 3 * values +
                           static_cast<double>(std::max(
                               cost.forwardWorkspace, cost.backwardWorkspace)));
    }
  }
}

//===----------------------------------------------------------------------===//
// Groups of one device
//===----------------------------------------------------------------------===//

/// The cheapest packs of the first layers, for every number of them.
struct Shapes::Packing {
  std::vector<double> seconds;
  std::vector<int> first; ///< layer of the last pack
  std::vector<int> size;  ///< in Shapes::sums

  /// Ends and sizes of the packs of the first `layers` layers.
  void trace(int layers, const std::vector<Sums> &sums, std::vector<int> &ends,
             std::vector<int64_t> &sizes) const {
    for (int end = layers; end > 0; end = first[end]) {
      ends.push_back(end - 1);
      sizes.push_back(sums[size[end]].microbatch);
    }
    std::reverse(ends.begin(), ends.end());
    std::reverse(sizes.begin(), sizes.end());
  }
};

/// Seconds that the next iteration waits for a byte of the first backward
/// pack's tensors: its gradient leaves, the tensor comes back.
double Shapes::tailCost(int groups) const {
  if (groups > 1 && machine.hasLink(0, 1))
    return 2.0 * (groups - 1) / groups / machine.link(0, 1).bytesPerSecond;
  return 1 / machine.link(hostEndpoint, 0).bytesPerSecond +
         1 / machine.link(0, hostEndpoint).bytesPerSecond;
}

Layout Shapes::packedLayout(const Shape &shape) const {
  int layers = problem.layerCount();
  auto capacity = static_cast<double>(machine.devices[0].capacity);
  int64_t share = sharesOf(problem.batch, shape.groups).front();
  double taken = shape.resident ? tensors.back() + states / shape.groups : 0;
  double segment = shape.segmentPart * capacity;
  std::vector<int> admitted; // in sums
  for (int i = 0; i < static_cast<int>(sums.size()); ++i)
    if (shape.microbatch == 0
            ? sums[i].microbatch <= share && share % sums[i].microbatch == 0
            : sums[i].microbatch == shape.microbatch)
      admitted.push_back(i);
  auto trips = [&](const Sums &of) {
    return static_cast<double>((share + of.microbatch - 1) / of.microbatch);
  };
  auto held = [&](int from, int to, bool backward) {
    return (shape.resident ? 0 : tensors[to] - tensors[from]) +
           (backward ? gradients[to] - gradients[from] : 0);
  };
  constexpr double never = std::numeric_limits<double>::infinity();
  double tail = tailCost(shape.groups);

  // Of a sample: what forward packs leave behind for each backward pack and
  // segment, sums over the layers before. Every stash has a place of its own,
  // and two where they are swapped.
  constexpr double places = 2;
  std::vector<double> left(layers + 1, 0);
  auto pack = [&](bool backward) {
    double room =
        (backward ? shape.backwardPart : shape.forwardPart) * capacity - taken;
    Packing best;
    best.seconds.assign(layers, never);
    best.first.assign(layers, 0);
    best.size.assign(layers, admitted.front());
    best.seconds[0] = 0;
    for (int end = 1; end < layers; ++end)
      for (int i : admitted) {
        const Sums &of = sums[i];
        double largest = 0, times = trips(of);
        for (int from = end - 1; from >= 0; --from) {
          largest = std::max(largest, of.largest[from]);
          double saved = of.saved[end] - of.saved[from];
          if (segment > 0) {
            double most = std::max(segment, largest);
            saved = std::min(saved, most) +
                    places * (of.stashes[end] - of.stashes[from]) / most;
          }
          double bytes =
              held(from, end, backward) +
              (backward ? std::max(saved, largest)
                        : largest + places * (left[end] - left[from]) *
                                        static_cast<double>(of.microbatch));
          if (bytes > room && from + 1 < end)
            break;
          double seconds =
              best.seconds[from] + machine.phaseSeconds +
              times * (of.forward[end] - of.forward[from] +
                       (backward ? of.backward[end] - of.backward[from] : 0));
          if (backward && from == 0)
            seconds += tail * (tensors[end] - tensors[0]);
          // Of what does not fit, the smallest.
          if (bytes > room)
            seconds += 1e3 * (bytes - room) / capacity;
          if (seconds < best.seconds[end]) {
            best.seconds[end] = seconds;
            best.first[end] = from;
            best.size[end] = i;
          }
        }
      }
    return best;
  };
  Packing backward = pack(true);
  Layout all;
  backward.trace(layers - 1, sums, all.backwardEnds, all.backwardSizes);
  all.backwardEnds.push_back(layers - 1);
  all.backwardSizes.push_back(sums[admitted.front()].microbatch);
  beginSegments(all, segment);
  for (int l = 0; l < layers; ++l) {
    bool ends =
        all.keep[l] > 0 ||
        std::binary_search(all.backwardEnds.begin(), all.backwardEnds.end(), l);
    left[l + 1] = left[l];
    for (int v : problem.layers[l].outputs)
      left[l + 1] +=
          ends ? static_cast<double>(problem.values[v].bytesPerSample) : 0;
  }
  Packing forward = pack(false);

  double least = never, room = shape.turnPart * capacity - taken;
  int turn = layers - 1, turnSize = admitted.front();
  for (int i : admitted) {
    const Sums &of = sums[i];
    for (int from = layers - 1; from >= 0; --from) {
      double bytes =
          held(from, layers, true) + of.saved[layers] - of.saved[from];
      if (bytes > room && from + 1 < layers)
        break;
      double seconds = forward.seconds[from] + backward.seconds[from] +
                       machine.phaseSeconds +
                       trips(of) * (of.forward[layers] - of.forward[from] +
                                    of.backward[layers] - of.backward[from]);
      if (bytes > room)
        seconds += 1e3 * (bytes - room) / capacity;
      if (seconds < least) {
        least = seconds;
        turn = from;
        turnSize = i;
      }
    }
  }
  Layout layout;
  layout.groups = shape.groups;
  layout.placement = Placement::Mirror;
  forward.trace(turn, sums, layout.forwardEnds, layout.forwardSizes);
  backward.trace(turn, sums, layout.backwardEnds, layout.backwardSizes);
  layout.backwardEnds.push_back(layers - 1);
  layout.backwardSizes.push_back(sums[turnSize].microbatch);
  layout.forwardMicrobatch = layout.backwardMicrobatch =
      layout.backwardSizes.back();
  auto uniform = [&](const std::vector<int64_t> &sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [&](int64_t u) {
      return u == layout.backwardMicrobatch;
    });
  };
  if (uniform(layout.forwardSizes) && uniform(layout.backwardSizes)) {
    layout.forwardSizes.clear();
    layout.backwardSizes.clear();
  }
  if (segment > 0)
    beginSegments(layout, segment);
  return layout;
}

/// A segment ends with a layer that keeps its outputs and nothing else.
void Shapes::beginSegments(Layout &layout, double bytes) const {
  layout.keep.assign(problem.layers.size(), 0);
  for (int pack = 0; bytes > 0 && pack < layout.turn(); ++pack) {
    int64_t u = layout.backwardSize(pack);
    int first = layout.firstBackward(pack);
    double sum = 0;
    for (int l = first; l <= layout.backwardEnds[pack]; ++l) {
      auto saved = static_cast<double>(problem.cost(l, u).savedBytes);
      if (l > first && sum + saved > bytes &&
          problem.cost(l - 1, u).keptBytes(1) == 0) {
        layout.keep[l - 1] = 1;
        sum = 0;
      }
      sum += saved;
    }
  }
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::vector<double> Shapes::weightsOf(int64_t microbatch, bool ofTime) const {
  const Sums &of =
      *std::find_if(sums.begin(), sums.end(), [&](const Sums &sum) {
        return sum.microbatch == microbatch;
      });
  std::vector<double> weights;
  for (int l = 0; l < problem.layerCount(); ++l)
    weights.push_back(ofTime
                          ? of.forward[l + 1] - of.forward[l] +
                                of.backward[l + 1] - of.backward[l]
                          : of.saved[l + 1] - of.saved[l] + tensors[l + 1] -
                                tensors[l] + gradients[l + 1] - gradients[l]);
  return weights;
}

Layout Shapes::layoutOf(const Shape &shape) const {
  if (shape.pipeline == 1)
    return packedLayout(shape);
  std::vector<int> ends = balancedPartition(
      weightsOf(shape.microbatch, shape.evenTime), shape.packs);
  Layout layout = uniformLayout(problem, shape.groups, shape.pipeline,
                                shape.placement, ends, shape.microbatch);
  if (shape.forwardMicrobatch > 0)
    layout.forwardMicrobatch = shape.forwardMicrobatch;
  if (shape.segmentPart > 0)
    beginSegments(layout, shape.segmentPart *
                              static_cast<double>(machine.devices[0].capacity));
  return layout;
}

static void addNew(std::vector<Shape> &shapes, const Shape &shape) {
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
    shapes.push_back(shape);
}

std::vector<Shape> Shapes::of(int groups, int pipeline,
                              int64_t microbatch) const {
  Shape shape;
  shape.groups = groups;
  shape.pipeline = pipeline;
  shape.microbatch = microbatch;
  std::vector<Shape> shapes;
  int layers = problem.layerCount();
  if (pipeline > 1) {
    for (Placement placement : {Placement::Mirror, Placement::Ring})
      for (int rounds = 1;; rounds = rounds < 4 ? rounds + 1 : rounds * 3 / 2) {
        shape.placement = placement;
        shape.packs = std::min(layers, rounds * pipeline);
        for (bool evenTime : {false, true}) {
          shape.evenTime = evenTime;
          addNew(shapes, shape);
        }
        if (shape.packs == layers)
          break;
      }
    return shapes;
  }
  auto capacity = static_cast<double>(machine.devices[0].capacity);
  bool fits = tensors.back() + states / groups < 0.8 * capacity;
  static constexpr double parts[][3] = {
      {0.9, 0.9, 0.9}, {0.6, 0.9, 0.9}, {0.9, 0.6, 0.9},   {0.6, 0.6, 0.6},
      {0.4, 0.4, 0.5}, {0.4, 0.2, 0.4}, {0.15, 0.15, 0.2}, {1e3, 0.9, 0.9}};
  for (bool resident : {false, true})
    for (double segment : {0.0, 0.05, 0.15, 0.3})
      for (const double (&part)[3] : parts) {
        shape.resident = resident;
        shape.segmentPart = segment;
        shape.turnPart = part[0];
        shape.backwardPart = part[1];
        shape.forwardPart = part[2];
        if (!resident || fits)
          shapes.push_back(shape);
      }
  return shapes;
}

std::vector<Shape> Shapes::around(const Shape &shape,
                                  const std::vector<int64_t> &sizes) const {
  std::vector<Shape> shapes;
  if (shape.pipeline > 1) {
    for (int packs : {shape.packs - shape.pipeline, shape.packs - 1,
                      shape.packs + 1, shape.packs + shape.pipeline})
      if (packs >= 1 && packs <= problem.layerCount()) {
        Shape other = shape;
        other.packs = packs;
        addNew(shapes, other);
      }
    for (double segment : {0.0, 0.05, 0.15, 0.3}) {
      Shape other = shape;
      other.segmentPart = segment;
      addNew(shapes, other);
    }
    for (int64_t u : sizes)
      if (mixes && u > shape.microbatch && u <= 4 * shape.microbatch) {
        Shape other = shape;
        other.forwardMicrobatch = u;
        addNew(shapes, other);
      }
  } else {
    for (double factor : {0.75, 0.87, 0.94, 1.06, 1.15, 1.3})
      for (int which = 0; which < 5; ++which) {
        Shape other = shape;
        for (auto [index, part] :
             {std::pair(0, &other.turnPart), std::pair(1, &other.backwardPart),
              std::pair(2, &other.forwardPart),
              std::pair(3, &other.segmentPart)})
          if (which == index || (which == 4 && index != 3))
            *part *= factor;
        addNew(shapes, other);
      }
  }
  if (shape.microbatch > 0)
    for (int64_t u : sizes)
      if (u != shape.microbatch && u <= 2 * shape.microbatch &&
          2 * u >= shape.microbatch) {
        Shape other = shape;
        other.microbatch = u;
        addNew(shapes, other);
      }
  shapes.erase(std::remove(shapes.begin(), shapes.end(), shape), shapes.end());
  return shapes;
}

} // namespace harmony::planner
