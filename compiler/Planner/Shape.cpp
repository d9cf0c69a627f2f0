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

#include "compiler/Planner/Estimate.h"
#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace harmony::planner {

bool Shape::operator==(const Shape &o) const {
  auto all = [](const Shape &s) {
    return std::make_tuple(s.groups, s.pipeline, s.microbatch, s.turnPart,
                           s.backwardPart, s.forwardPart, s.segments, s.ahead,
                           s.resident, s.segmentPart, s.placement, s.packs,
                           s.evenTime, s.forwardMicrobatch);
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
  splits = std::all_of(problem.functions.begin(), problem.functions.end(),
                       [](const Function &function) {
                         return std::all_of(function.costs.begin(),
                                            function.costs.end(),
                                            [](const Cost &cost) {
                                              return cost.keptBytes(1) == 0;
                                            });
                       });
  crossing.assign(problem.layers.size() + 1, 0);
  for (const Value &value : problem.values)
    if (!value.isInput() && !value.consumers.empty())
      for (int l = value.producer + 1; l <= value.consumers.back(); ++l)
        crossing[l] += static_cast<double>(value.bytesPerSample);
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
      of.stashes.push_back(of.stashes.back() + (saved + values) * values);
      auto workspace = static_cast<double>(
          std::max(cost.forwardWorkspace, cost.backwardWorkspace));
      of.beside.push_back(2 * values + workspace);
      of.largest.push_back(saved + 3 * values + workspace);
    }
  }
}

//===----------------------------------------------------------------------===//
// Groups of one device
//===----------------------------------------------------------------------===//

/// The cheapest packs of the first layers, by the number of them and the size
/// (in Shapes::sums) of the last pack.
struct Shapes::Packing {
  int sizes = 0;
  std::vector<double> seconds;
  std::vector<int> first;    ///< layer of the last pack
  std::vector<int> before;   ///< size of the pack before it
  std::vector<int> segments; ///< of the last pack
  std::vector<int> best;     ///< by layers: the size of least seconds

  Packing(int layers, int sizes)
      : sizes(sizes), seconds(static_cast<size_t>(layers) * sizes,
                              std::numeric_limits<double>::infinity()),
        first(seconds.size(), 0), before(first), segments(seconds.size(), 1),
        best(layers, 0) {}

  size_t at(int layers, int size) const {
    return static_cast<size_t>(layers) * sizes + size;
  }
  /// The size of the last pack in front of one of `size`, where passing from
  /// one size to another takes so long.
  int sizeBefore(int layers, int size, double passing) const {
    int least = best[layers];
    return seconds[at(layers, least)] + passing < seconds[at(layers, size)]
               ? least
               : size;
  }
};

/// One direction after the other: backward packs first, as forward packs leave
/// behind what these begin with.
class Shapes::Packer {
public:
  Packer(const Shapes &shapes, const Shape &shape)
      : problem(shapes.problem), machine(shapes.machine), sums(shapes.sums),
        shapes(shapes), shape(shape), layers(problem.layerCount()),
        capacity(static_cast<double>(machine.devices[0].capacity)),
        share(
            static_cast<double>(sharesOf(problem.batch, shape.groups).front())),
        taken(shape.resident
                  ? shapes.tensors.back() + shapes.states / shape.groups
                  : 0),
        left(layers + 1, 0) {
    for (int i = 0; i < static_cast<int>(sums.size()); ++i) {
      int64_t u = sums[i].microbatch;
      auto samples = static_cast<int64_t>(share);
      if (shape.microbatch == 0 ? u <= samples && samples % u == 0
                                : u == shape.microbatch)
        admitted.push_back(i);
      tripsOf.push_back(std::ceil(share / static_cast<double>(u)));
    }
    toHost = 1 / rateAtOnce(machine, 0, hostEndpoint, shape.groups);
    fromHost = 1 / rateAtOnce(machine, hostEndpoint, 0, shape.groups);
    if (shape.groups > 1 && machine.hasLink(0, 1))
      tail = 2.0 * (shape.groups - 1) / shape.groups /
             machine.link(0, 1).bytesPerSecond;
    else
      tail = toHost + fromHost;
  }

  Layout run() {
    Packing backward = pack(true);
    Layout all;
    trace(backward, layers - 1, backward.best[layers - 1], all.backwardEnds,
          all.backwardSizes, &segments);
    all.backwardEnds.push_back(layers - 1);
    all.backwardSizes.push_back(sums[admitted.front()].microbatch);
    split(all);
    for (int l = 0; l < layers; ++l)
      left[l + 1] =
          left[l] +
          (all.keep[l] > 0 || std::binary_search(all.backwardEnds.begin(),
                                                 all.backwardEnds.end(), l)
               ? outputs(l)
               : 0);
    return turn(backward, pack(false));
  }

private:
  const Problem &problem;
  const Machine &machine;
  const std::vector<Sums> &sums;
  const Shapes &shapes;
  const Shape &shape;
  int layers;
  double capacity, share;
  double taken; ///< of the memory, by what is resident
  std::vector<int> admitted;
  std::vector<double> tripsOf;     ///< by index in `sums`
  double toHost = 0, fromHost = 0; ///< seconds a byte, all groups at once
  /// Seconds that the next iteration waits for a byte of the first backward
  /// pack's tensors: its gradient leaves, the tensor comes back.
  double tail = 0;
  /// Of a sample, bytes that forward packs leave behind for each backward pack
  /// and segment, sums over the layers before.
  std::vector<double> left;
  std::vector<int> segments; ///< by backward pack
  std::vector<double> least; ///< seconds, by number of layers: see findLeast()

  double outputs(int layer) const {
    double bytes = 0;
    for (int v : problem.layers[layer].outputs)
      bytes += static_cast<double>(problem.values[v].bytesPerSample);
    return bytes;
  }

  double trips(const Sums &of) const { return tripsOf[&of - sums.data()]; }
  /// Of the first `layers`, those of the last Run of their backward: tensors of
  /// the others are updated before.
  static int lastOf(int layers) { return (layers + fineRuns - 1) / fineRuns; }
  /// Of what is swapped by microbatches.
  double slots(const Sums &of) const { return std::min(2.0, trips(of)); }

  double held(int from, int to, bool backward) const {
    double bytes = 0;
    if (!shape.resident)
      bytes += shapes.tensors[to] - shapes.tensors[from];
    if (backward)
      bytes += shapes.gradients[to] - shapes.gradients[from];
    return shape.ahead ? 2 * bytes : bytes;
  }

  /// Values at both ends, and in backward their gradients.
  double edges(const Sums &of, int from, int to, bool backward) const {
    double bytes = shapes.crossing[from] + shapes.crossing[to];
    if (backward)
      bytes += shapes.crossing[from];
    return bytes * slots(of) * static_cast<double>(of.microbatch);
  }

  /// From a pack to one of another microbatch size through the host: one
  /// microbatch out and in is not hidden.
  double passing(const Sums &of, int layer) const {
    return shapes.crossing[layer] * static_cast<double>(of.microbatch) *
           (toHost + fromHost);
  }

  /// Segments of a pack whose saved blocks and outputs are so many bytes, the
  /// fewest that leave room for what they begin with; 0: there is none.
  int segmentsOf(const Sums &of, int from, int to, double room) const {
    double saved = of.saved[to] - of.saved[from];
    if (saved <= room)
      return 1;
    double stashes = slots(of) * (of.stashes[to] - of.stashes[from]);
    double root = room * room - 4 * stashes;
    if (!shape.segments || root < 0)
      return 0;
    double bytes = (room + std::sqrt(root)) / 2;
    return std::min(to - from, static_cast<int>(std::ceil(saved / bytes)));
  }

  Packing pack(bool backward) {
    Packing best(layers, static_cast<int>(sums.size()));
    findLeast(backward);
    double room =
        (backward ? shape.backwardPart : shape.forwardPart) * capacity - taken;
    for (int end = 0; end < layers; ++end) {
      for (int i : admitted)
        if (end == 0)
          best.seconds[best.at(0, i)] = 0;
        else
          last(best, end, i, room, backward);
      best.best[end] = *std::min_element(
          admitted.begin(), admitted.end(), [&](int a, int b) {
            return best.seconds[best.at(end, a)] <
                   best.seconds[best.at(end, b)];
          });
    }
    return best;
  }

  /// What no packs of the first layers are faster than.
  void findLeast(bool backward) {
    least.assign(1, 0);
    for (int l = 0; l < layers; ++l) {
      double seconds = std::numeric_limits<double>::infinity();
      for (int i : admitted)
        seconds = std::min(seconds, computing(sums[i], l, l + 1, backward));
      least.push_back(least.back() + seconds);
    }
  }

  double computing(const Sums &of, int from, int to, bool backward) const {
    double seconds = of.forward[to] - of.forward[from];
    if (backward)
      seconds += of.backward[to] - of.backward[from];
    return trips(of) * seconds;
  }

  /// The last pack of the first `end` layers, at one size.
  void last(Packing &best, int end, int i, double room, bool backward) const {
    // Sums of the same terms in another order differ by a rounding.
    constexpr double rounding = 1e-9;
    const Sums &of = sums[i];
    auto u = static_cast<double>(of.microbatch);
    double beside = 0, largest = 0;
    size_t to = best.at(end, i);
    for (int from = end - 1; from >= 0; --from) {
      // Grows with the pack, as this size may not be the best of its layers.
      if (least[from] + computing(of, from, end, backward) +
              machine.phaseSeconds >
          best.seconds[to] * (1 + rounding))
        break;
      beside = std::max(beside, of.beside[from]);
      largest = std::max(largest, of.largest[from]);
      double bytes = held(from, end, backward) + edges(of, from, end, backward);
      double inner = shapes.crossing[from]; // what it begins with, of a sample
      int count = 1;
      if (backward) {
        count = segmentsOf(of, from, end, room - bytes - beside);
        if (count > 1)
          inner += (of.stashes[end] - of.stashes[from]) /
                   ((of.saved[end] - of.saved[from]) / count) / u;
        if (count == 0)
          bytes += beside + of.saved[end] - of.saved[from];
      } else {
        inner = left[end] - left[from];
        bytes += largest + slots(of) * u * inner;
      }
      bool over = count == 0 || (!backward && bytes > room);
      if (over && from + 1 < end)
        break;
      double forward = trips(of) * (of.forward[end] - of.forward[from]);
      double computing = forward;
      if (backward)
        computing += trips(of) * (of.backward[end] - of.backward[from]);
      double seconds = computing + machine.phaseSeconds;
      if (backward)
        seconds += waiting(inner, forward, computing);
      if (backward && from == 0)
        seconds += tail * shapes.tensors[trips(of) > 1 ? end : lastOf(end)];
      // Of what does not fit, the smallest.
      if (over)
        seconds += 1e3 * std::max(bytes - room, 0.0) / capacity;
      double toPass = from == 0 ? 0 : passing(of, from);
      int before = best.sizeBefore(from, i, toPass);
      seconds += best.seconds[best.at(from, before)];
      if (before != i)
        seconds += toPass;
      if (seconds < best.seconds[to]) {
        best.seconds[to] = seconds;
        best.first[to] = from;
        best.before[to] = before;
        best.segments[to] = std::max(count, 1);
      }
    }
  }

  /// For what a backward pack's segments begin with, of a sample so many bytes:
  /// it leaves in forward and comes back in backward.
  double waiting(double bytes, double forward, double computing) const {
    return std::max(0.0, bytes * share * toHost - forward) +
           std::max(0.0, bytes * share * fromHost - computing);
  }

  Layout turn(const Packing &backward, const Packing &forward) {
    double least = std::numeric_limits<double>::infinity();
    double room = shape.turnPart * capacity - taken;
    int first = layers - 1, size = admitted.front();
    for (int i : admitted) {
      const Sums &of = sums[i];
      double beside = 0;
      for (int from = layers - 1; from >= 0; --from) {
        beside = std::max(beside, of.beside[from]);
        double bytes = held(from, layers, true) + beside +
                       edges(of, from, layers, true) + of.saved[layers] -
                       of.saved[from];
        if (bytes > room && from + 1 < layers)
          break;
        double toPass = from == 0 ? 0 : passing(of, from);
        double seconds = machine.phaseSeconds +
                         trips(of) * (of.forward[layers] - of.forward[from] +
                                      of.backward[layers] - of.backward[from]);
        for (const Packing *packs : {&forward, &backward}) {
          int before = packs->sizeBefore(from, i, toPass);
          seconds += packs->seconds[packs->at(from, before)] +
                     (before == i ? 0 : toPass);
        }
        if (bytes > room)
          seconds += 1e3 * (bytes - room) / capacity;
        if (seconds < least) {
          least = seconds;
          first = from;
          size = i;
        }
      }
    }
    Layout layout;
    layout.groups = shape.groups;
    layout.placement = Placement::Mirror;
    double toPass = first == 0 ? 0 : passing(sums[size], first);
    trace(forward, first, forward.sizeBefore(first, size, toPass),
          layout.forwardEnds, layout.forwardSizes, nullptr);
    trace(backward, first, backward.sizeBefore(first, size, toPass),
          layout.backwardEnds, layout.backwardSizes, &segments);
    layout.backwardEnds.push_back(layers - 1);
    layout.backwardSizes.push_back(sums[size].microbatch);
    layout.forwardMicrobatch = layout.backwardMicrobatch =
        layout.backwardSizes.back();
    auto uniform = [&](const std::vector<int64_t> &sizes) {
      return std::all_of(sizes.begin(), sizes.end(), [&](int64_t u) {
        return u == layout.backwardMicrobatch;
      });
    };
    if (shape.segments)
      split(layout);
    if (uniform(layout.forwardSizes) && uniform(layout.backwardSizes)) {
      layout.forwardSizes.clear();
      layout.backwardSizes.clear();
    }
    return layout;
  }

  void split(Layout &layout) const {
    layout.keep.assign(layers, 0);
    for (int pack = 0; pack < layout.turn(); ++pack)
      shapes.splitPack(layout, pack, segments[pack]);
  }

  /// Ends, sizes and segments of the packs of the first layers.
  void trace(const Packing &packs, int end, int size, std::vector<int> &ends,
             std::vector<int64_t> &sizes, std::vector<int> *counts) const {
    if (counts)
      counts->clear();
    while (end > 0) {
      size_t at = packs.at(end, size);
      ends.push_back(end - 1);
      sizes.push_back(sums[size].microbatch);
      if (counts)
        counts->push_back(packs.segments[at]);
      end = packs.first[at];
      size = packs.before[at];
    }
    std::reverse(ends.begin(), ends.end());
    std::reverse(sizes.begin(), sizes.end());
    if (counts)
      std::reverse(counts->begin(), counts->end());
  }
};

Layout Shapes::packedLayout(const Shape &shape) const {
  for (const auto &[of, layout] : packed)
    if (of == shape)
      return layout;
  packed.push_back({shape, Packer(*this, shape).run()});
  return packed.back().second;
}

/// So many segments of about equal bytes. A segment ends with a layer that
/// keeps its outputs and nothing else.
void Shapes::splitPack(Layout &layout, int pack, int segments) const {
  if (segments < 2)
    return;
  int64_t u = layout.backwardSize(pack);
  int first = layout.firstBackward(pack);
  const Sums &of = *std::find_if(sums.begin(), sums.end(), [&](const Sums &s) {
    return s.microbatch == u;
  });
  std::vector<double> bytes;
  for (int l = first; l <= layout.backwardEnds[pack]; ++l)
    bytes.push_back(of.saved[l + 1] - of.saved[l]);
  std::vector<int> ends = balancedPartition(bytes, segments);
  ends.pop_back();
  for (int end : ends)
    if (problem.cost(first + end, u).keptBytes(1) == 0)
      layout.keep[first + end] = 1;
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
      {0.95, 0.95, 0.95}, {0.6, 0.9, 0.9},   {0.6, 0.9, 0.75},
      {0.9, 0.6, 0.9},    {0.6, 0.6, 0.6},   {0.4, 0.4, 0.5},
      {0.4, 0.2, 0.4},    {0.15, 0.15, 0.2}, {1e3, 0.9, 0.9}};
  for (bool resident : {false, true})
    for (bool segments : {false, true})
      for (bool ahead : {false, true})
        for (const double (&part)[3] : parts) {
          shape.resident = resident;
          shape.segments = segments;
          shape.ahead = ahead;
          shape.turnPart = part[0];
          shape.backwardPart = part[1];
          shape.forwardPart = part[2];
          if ((splits || !segments) && (!resident || (fits && !ahead)))
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
      for (int which = 0; which < 4; ++which) {
        Shape other = shape;
        for (auto [index, part] :
             {std::pair(0, &other.turnPart), std::pair(1, &other.backwardPart),
              std::pair(2, &other.forwardPart)})
          if (which == index || which == 3)
            *part *= factor;
        addNew(shapes, other);
      }
    for (bool Shape::*flag : {&Shape::segments, &Shape::ahead}) {
      Shape other = shape;
      other.*flag = !(shape.*flag);
      if (splits || !other.segments)
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
