//===- Packing.cpp - Packs of a group of one device -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One direction after the other: backward packs first, as forward packs leave
// behind what these begin with; then the turn, where both end.
//
// The cheapest packs of the first n layers end with a pack [m, n). What those
// before it take and what passing to it takes, less what the layers before m
// would compute at its size, is a number of m alone; the least of it bounds all
// that may be better. Packs that do not fit whatever crosses their ends are
// those that begin before a layer which only grows with n.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Packing.h"

#include "compiler/Planner/Estimate.h"
#include "compiler/Planner/Partition.h"
#include "compiler/Planner/Shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harmony::planner {

static constexpr double infinity = std::numeric_limits<double>::infinity();

RangeMaximum::RangeMaximum(std::vector<double> list) {
  powers.push_back(std::move(list));
  for (size_t half = 1; 2 * half <= powers[0].size(); half *= 2) {
    const std::vector<double> &last = powers.back();
    std::vector<double> next(powers[0].size() + 1 - 2 * half);
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = std::max(last[i], last[i + half]);
    powers.push_back(std::move(next));
  }
}

double RangeMaximum::of(int from, int to) const {
  int power = 31 - __builtin_clz(static_cast<unsigned>(to - from));
  const std::vector<double> &list = powers[power];
  return std::max(list[from], list[to - (1 << power)]);
}

LayerTable::LayerTable(const Problem &problem) {
  if (!problem.training)
    return;
  tensors = gradients = inputs = {0};
  std::vector<int> userOf(problem.tensors.size(), -1);
  for (int l = 0; l < problem.layerCount(); ++l) {
    const Layer &layer = problem.layers[l];
    double bytes = 0, ofGradients = 0, ofInputs = 0, ofOutputs = 0;
    for (const TensorUse &use : layer.tensors) {
      const Tensor &tensor = problem.tensors[use.tensor];
      bytes += static_cast<double>(tensor.bytes);
      ofGradients +=
          use.gradient ? static_cast<double>(tensor.gradientBytes) : 0;
      int &user = userOf[use.tensor];
      if (user >= 0)
        shared.push_back({user, l, static_cast<double>(tensor.bytes)});
      user = l;
    }
    for (const ValueUse &use : layer.inputs)
      if (problem.values[use.value].isInput())
        ofInputs +=
            static_cast<double>(problem.values[use.value].bytesPerSample);
    for (int v : layer.outputs)
      ofOutputs += static_cast<double>(problem.values[v].bytesPerSample);
    inputs.push_back(inputs.back() + ofInputs);
    outputs.push_back(ofOutputs);
    tensors.push_back(tensors.back() + bytes);
    gradients.push_back(gradients.back() + ofGradients);
  }
  // Of those that matter there are few.
  constexpr size_t most = 8;
  std::stable_sort(
      shared.begin(), shared.end(),
      [](const Shared &a, const Shared &b) { return a.bytes > b.bytes; });
  if (shared.size() > most)
    shared.resize(most);
  for (const Tensor &tensor : problem.tensors)
    states += static_cast<double>(tensor.stateBytes);
  crossing.assign(problem.layers.size() + 1, 0);
  for (const Value &value : problem.values)
    if (!value.isInput() && !value.consumers.empty())
      for (int l = value.producer + 1; l <= value.consumers.back(); ++l)
        crossing[l] += static_cast<double>(value.bytesPerSample);
  for (int64_t u : problem.microbatches) {
    SizeTable &of = sizes.emplace_back();
    of.microbatch = u;
    of.forward = of.backward = of.saved = of.stashes = {0};
    std::vector<double> beside, largest, leanBeside, leanLargest;
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
      beside.push_back(2 * values + workspace);
      largest.push_back(saved + 3 * values + workspace);
      double ends = values + crossing[l] * static_cast<double>(u);
      leanBeside.push_back(
          std::max(static_cast<double>(cost.backwardWorkspace) + ends,
                   static_cast<double>(cost.forwardWorkspace)));
      leanLargest.push_back(saved + static_cast<double>(cost.forwardWorkspace) +
                            ends);
    }
    of.beside = RangeMaximum(std::move(beside));
    of.largest = RangeMaximum(std::move(largest));
    of.leanBeside = RangeMaximum(std::move(leanBeside));
    of.leanLargest = RangeMaximum(std::move(leanLargest));
  }
}

const SizeTable &LayerTable::at(int64_t microbatch) const {
  return *std::find_if(sizes.begin(), sizes.end(), [&](const SizeTable &of) {
    return of.microbatch == microbatch;
  });
}

/// The cheapest packs of the first layers, by the number of them and the size
/// of the last pack, an index in the sizes that are admitted.
struct Packer::Packing {
  int sizes = 0;
  std::vector<double> seconds;
  std::vector<int> first;    ///< layer of the last pack
  std::vector<int> before;   ///< size of the pack before it
  std::vector<int> segments; ///< of the last pack
  std::vector<int> best;     ///< by layers: the size of least seconds

  Packing(int layers, int sizes)
      : sizes(sizes), seconds(static_cast<size_t>(layers) * sizes, infinity),
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

/// Of one shape.
class Packer::ShapePacker {
public:
  ShapePacker(const Packer &packer, const Shape &shape)
      : problem(packer.problem), machine(packer.machine), table(packer.table),
        shape(shape), layers(problem.layerCount()),
        capacity(static_cast<double>(machine.devices[0].capacity)),
        share(static_cast<double>(
            (sharesOf(problem.batch, shape.groups).front() + shape.rounds - 1) /
            shape.rounds)),
        taken(shape.resident
                  ? table.tensors.back() + table.states / shape.groups
                  : 0),
        left(layers + 1, 0) {
    // Sizes of packs of their own leave nothing of the largest share, where
    // there are such sizes.
    auto samples = static_cast<int64_t>(share);
    auto admit = [&](bool dividing) {
      for (const SizeTable &of : table.sizes) {
        int64_t u = of.microbatch;
        bool fits = shape.microbatch == 0
                        ? u <= samples && (!dividing || samples % u == 0) &&
                              canSplit(problem, shape.groups, u)
                        : u == shape.microbatch;
        if (fits)
          admitted.push_back({&of, std::ceil(share / static_cast<double>(u))});
      }
    };
    admit(/*dividing=*/true);
    if (admitted.empty())
      admit(/*dividing=*/false);
    toHost = 1 / rateAtOnce(machine, 0, hostEndpoint, shape.groups);
    fromHost = 1 / rateAtOnce(machine, hostEndpoint, 0, shape.groups);
    if (shape.groups > 1 && machine.hasLink(0, 1))
      tail = 2.0 * (shape.groups - 1) / shape.groups /
             machine.link(0, 1).bytesPerSecond;
    else
      tail = toHost + fromHost;
  }

  Packing pack(bool backward) const {
    Packing best(layers, static_cast<int>(admitted.size()));
    double room =
        (backward ? shape.backwardPart : shape.forwardPart) * capacity - taken;
    std::vector<Row> rows;
    for (const Size &size : admitted)
      rows.emplace_back(size, layers, backward);
    for (int end = 0; end < layers; ++end) {
      double least = infinity;
      for (int i = 0; i < best.sizes; ++i) {
        double &seconds = best.seconds[best.at(end, i)];
        if (end == 0)
          seconds = 0;
        else
          last(best, rows[i], end, i, room, backward);
        if (seconds < least) {
          least = seconds;
          best.best[end] = i;
        }
      }
      for (int i = 0; i < best.sizes; ++i) {
        double toPass = passing(admitted[i], end);
        int before = best.sizeBefore(end, i, toPass);
        rows[i].add(best.seconds[best.at(end, before)] +
                    (before == i ? 0 : toPass));
      }
    }
    return best;
  }

  /// What forward packs leave behind for these backward packs.
  std::vector<char> leave(const Packing &backward) {
    Layout all;
    std::vector<int> segments;
    trace(backward, layers - 1, backward.best[layers - 1], all.backwardEnds,
          all.backwardSizes, &segments);
    all.backwardEnds.push_back(layers - 1);
    all.backwardSizes.push_back(admitted.front().of->microbatch);
    split(all, segments);
    std::vector<char> leaves(layers, 0);
    for (int l = 0; l < layers; ++l)
      leaves[l] = all.keep[l] > 0;
    for (int end : all.backwardEnds)
      leaves[end] = 1;
    for (int l = 0; l < layers; ++l)
      left[l + 1] = left[l] + (leaves[l] ? table.outputs[l] : 0);
    return leaves;
  }

  Layout turn(const Packing &backward, const Packing &forward) const {
    double least = infinity;
    double room = shape.turnPart * capacity - taken;
    int first = layers - 1, chosen = 0;
    for (int i = 0; i < static_cast<int>(admitted.size()); ++i) {
      const Size &size = admitted[i];
      const SizeTable &of = *size.of;
      for (int from = layers - 1; from >= 0; --from) {
        double bytes =
            held(from, layers, true) +
            (shape.lean ? of.leanBeside : of.beside).of(from, layers) +
            edges(size, from, layers, true) + savedOf(size, from, layers);
        if (bytes > room && from + 1 < layers)
          break;
        double toPass = passing(size, from);
        double seconds = machine.phaseSeconds +
                         size.trips * (of.forward[layers] - of.forward[from] +
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
          chosen = i;
        }
      }
    }
    Layout layout;
    layout.groups = shape.groups;
    layout.rounds = shape.rounds;
    layout.placement = Placement::Mirror;
    std::vector<int> segments;
    double toPass = passing(admitted[chosen], first);
    trace(forward, first, forward.sizeBefore(first, chosen, toPass),
          layout.forwardEnds, layout.forwardSizes, nullptr);
    trace(backward, first, backward.sizeBefore(first, chosen, toPass),
          layout.backwardEnds, layout.backwardSizes, &segments);
    layout.backwardEnds.push_back(layers - 1);
    layout.backwardSizes.push_back(admitted[chosen].of->microbatch);
    layout.forwardMicrobatch = layout.backwardMicrobatch =
        layout.backwardSizes.back();
    auto uniform = [&](const std::vector<int64_t> &sizes) {
      return std::all_of(sizes.begin(), sizes.end(), [&](int64_t u) {
        return u == layout.backwardMicrobatch;
      });
    };
    if (shape.segments)
      split(layout, segments);
    if (uniform(layout.forwardSizes) && uniform(layout.backwardSizes)) {
      layout.forwardSizes.clear();
      layout.backwardSizes.clear();
    }
    return layout;
  }

private:
  /// A microbatch size.
  struct Size {
    const SizeTable *of;
    double trips; ///< microbatches of a share
  };

  /// At one size, packs by where they begin.
  struct Row {
    static constexpr int block = 16;

    std::vector<double> computing; ///< seconds, sums over the layers before
    /// Seconds before a pack that begins here, without what the layers before
    /// it compute at this size.
    std::vector<double> before;
    std::vector<double> leastOf; ///< of every `block` of these
    int first = 0;               ///< no pack that begins before has room

    Row(const Size &size, int layers, bool backward) {
      for (int l = 0; l < layers; ++l)
        computing.push_back(
            size.trips *
            (size.of->forward[l] + (backward ? size.of->backward[l] : 0)));
    }

    /// The next.
    void add(double seconds) {
      if (before.size() % block == 0)
        leastOf.push_back(infinity);
      before.push_back(seconds - computing[before.size()]);
      leastOf.back() = std::min(leastOf.back(), before.back());
    }
  };

  const Problem &problem;
  const Machine &machine;
  const LayerTable &table;
  const Shape &shape;
  int layers;
  double capacity, share;
  double taken; ///< of the memory, by what is resident
  std::vector<Size> admitted;
  double toHost = 0, fromHost = 0; ///< seconds a byte, all groups at once
  /// Seconds that the next iteration waits for a byte of the first backward
  /// pack's tensors: its gradient leaves, the tensor comes back.
  double tail = 0;
  /// Of a sample, bytes that forward packs leave behind for each backward pack
  /// and segment, sums over the layers before.
  std::vector<double> left;

  /// Of the first `layers`, those of the last Run of their backward: tensors of
  /// the others are updated before.
  static int lastOf(int layers) { return (layers + fineRuns - 1) / fineRuns; }
  /// Of what is swapped by microbatches.
  double slots(const Size &size) const {
    return shape.lean ? 1 : std::min(2.0, size.trips);
  }

  double held(int from, int to, bool backward) const {
    double bytes = 0;
    if (!shape.resident) {
      bytes += table.tensors[to] - table.tensors[from];
      for (const LayerTable::Shared &tensor : table.shared)
        if (from <= tensor.first && tensor.last < to)
          bytes -= tensor.bytes;
    }
    if (backward)
      bytes += table.gradients[to] - table.gradients[from];
    return shape.ahead ? 2 * bytes : bytes;
  }

  /// Values at both ends, and in backward their gradients.
  double edges(const Size &size, int from, int to, bool backward) const {
    double bytes = backward ? table.crossing[from] : 0;
    if (shape.lean) // What a layer reads and writes is beside it.
      bytes += table.inputs[to] - table.inputs[from];
    else
      bytes += table.crossing[from] + table.crossing[to];
    return bytes * slots(size) * static_cast<double>(size.of->microbatch);
  }

  /// Saved blocks and outputs of a pack; its last outputs are not read in it.
  double savedOf(const Size &size, int from, int to) const {
    double bytes = size.of->saved[to] - size.of->saved[from];
    if (shape.lean)
      bytes -= table.outputs[to - 1] * static_cast<double>(size.of->microbatch);
    return bytes;
  }

  /// From a pack to one of another microbatch size through the host: one
  /// microbatch out and in is not hidden. Nothing enters the first layer.
  double passing(const Size &size, int layer) const {
    return layer == 0 ? 0
                      : table.crossing[layer] *
                            static_cast<double>(size.of->microbatch) *
                            (toHost + fromHost);
  }

  /// Segments of a pack whose saved blocks and outputs are so many bytes, the
  /// fewest that leave room for what they begin with; 0: there is none.
  int segmentsOf(const Size &size, int from, int to, double room) const {
    const SizeTable &of = *size.of;
    double saved = savedOf(size, from, to);
    if (saved <= room)
      return 1;
    double stashes = slots(size) * (of.stashes[to] - of.stashes[from]);
    double root = room * room - 4 * stashes;
    if (!shape.segments || room <= 0 || root < 0)
      return 0;
    double bytes = (room + std::sqrt(root)) / 2;
    return std::min(to - from, static_cast<int>(std::ceil(saved / bytes)));
  }

  struct Fit {
    double over = 0;  ///< bytes that it lacks
    int segments = 1; ///< 0: however many, it does not fit
  };
  /// Whether a pack has room beside `edges`.
  Fit fit(const Size &size, int from, int end, double edges, double room,
          bool backward) const {
    const SizeTable &of = *size.of;
    double bytes = held(from, end, backward) + edges;
    if (!backward) {
      bytes += (shape.lean ? of.leanLargest : of.largest).of(from, end);
      // Of one microbatch, each leaves before the next is there.
      if (!shape.lean || size.trips > 1)
        bytes += slots(size) * static_cast<double>(of.microbatch) *
                 (left[end] - left[from]);
      return {std::max(0.0, bytes - room), 1};
    }
    double beside = (shape.lean ? of.leanBeside : of.beside).of(from, end);
    int segments = segmentsOf(size, from, end, room - bytes - beside);
    if (segments > 0)
      return {0, segments};
    bytes += beside + savedOf(size, from, end);
    return {std::max(0.0, bytes - room), 0};
  }

  /// The last pack of the first `end` layers, at one size.
  void last(Packing &best, Row &row, int end, int i, double room,
            bool backward) const {
    const Size &size = admitted[i];
    auto isOver = [](const Fit &fit) {
      return fit.over > 0 || fit.segments == 0;
    };
    while (row.first + 1 < end &&
           isOver(fit(size, row.first, end, 0, room, backward)))
      ++row.first;
    double &seconds = best.seconds[best.at(end, i)];
    double ofAll = row.computing[end] + machine.phaseSeconds;
    for (int from = end; from-- > row.first;) {
      int block = from / Row::block;
      if (row.leastOf[block] + ofAll >= seconds) {
        from = block * Row::block;
        continue;
      }
      double found = row.before[from] + ofAll;
      if (found >= seconds)
        continue;
      if (found + waiting(size, row, from, end, 1, backward) >= seconds)
        continue;
      Fit fitting = fit(size, from, end, edges(size, from, end, backward), room,
                        backward);
      if (isOver(fitting) && from + 1 < end)
        continue;
      found += waiting(size, row, from, end, fitting.segments, backward);
      // Of what does not fit, the smallest.
      if (isOver(fitting))
        found += 1e3 * fitting.over / capacity;
      if (found >= seconds)
        continue;
      seconds = found;
      best.first[best.at(end, i)] = from;
      best.before[best.at(end, i)] =
          best.sizeBefore(from, i, passing(size, from));
      best.segments[best.at(end, i)] = std::max(fitting.segments, 1);
    }
  }

  /// For what a backward pack's segments begin with, of a sample so many bytes:
  /// it leaves in forward and comes back in backward. Behind the first pack the
  /// next iteration waits.
  double waiting(const Size &size, const Row &row, int from, int end,
                 int segments, bool backward) const {
    if (!backward)
      return 0;
    const SizeTable &of = *size.of;
    double bytes = table.crossing[from];
    if (segments > 1)
      bytes += (of.stashes[end] - of.stashes[from]) /
               ((of.saved[end] - of.saved[from]) / segments) /
               static_cast<double>(of.microbatch);
    double forward = size.trips * (of.forward[end] - of.forward[from]);
    double computing = row.computing[end] - row.computing[from];
    double seconds = std::max(0.0, bytes * share * toHost - forward) +
                     std::max(0.0, bytes * share * fromHost - computing);
    if (from == 0)
      seconds += tail * table.tensors[size.trips > 1 ? end : lastOf(end)];
    return seconds;
  }

  /// Segments of about equal bytes, as many by pack.
  void split(Layout &layout, const std::vector<int> &segments) const {
    layout.keep.assign(layers, 0);
    for (int pack = 0; pack < layout.turn(); ++pack)
      splitPack(layout, pack, segments[pack]);
  }

  /// A segment ends with a layer that keeps its outputs and nothing else.
  void splitPack(Layout &layout, int pack, int segments) const {
    if (segments < 2)
      return;
    int64_t u = layout.backwardSize(pack);
    int first = layout.firstBackward(pack);
    const SizeTable &of = table.at(u);
    std::vector<double> bytes;
    for (int l = first; l <= layout.backwardEnds[pack]; ++l)
      bytes.push_back(of.saved[l + 1] - of.saved[l]);
    std::vector<int> ends = balancedPartition(bytes, segments);
    ends.pop_back();
    for (int end : ends)
      if (problem.cost(first + end, u).keptBytes(1) == 0)
        layout.keep[first + end] = 1;
  }

  /// Ends, sizes and segments of the packs of the first layers.
  void trace(const Packing &packs, int end, int size, std::vector<int> &ends,
             std::vector<int64_t> &sizes, std::vector<int> *counts) const {
    while (end > 0) {
      size_t at = packs.at(end, size);
      ends.push_back(end - 1);
      sizes.push_back(admitted[size].of->microbatch);
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

Packer::Packer(const Problem &problem, const Machine &machine,
               const LayerTable &table)
    : problem(problem), machine(machine), table(table) {}

Packer::~Packer() = default;

Layout Packer::layoutOf(const Shape &shape) {
  ShapePacker packs(*this, shape);
  Key key{shape.groups,   shape.rounds, shape.microbatch, shape.backwardPart,
          shape.segments, shape.ahead,  shape.lean,       shape.resident};
  std::unique_ptr<Packing> &back = backward[key];
  if (!back)
    back = std::make_unique<Packing>(packs.pack(true));
  std::get<double>(key) = shape.forwardPart;
  std::get<4>(key) = false;
  std::unique_ptr<Packing> &forth = forward[{key, packs.leave(*back)}];
  if (!forth)
    forth = std::make_unique<Packing>(packs.pack(false));
  return packs.turn(*back, *forth);
}

} // namespace harmony::planner
