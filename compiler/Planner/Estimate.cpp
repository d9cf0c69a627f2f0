//===- Estimate.cpp - What a layout takes, without a plan -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Estimate.h"

#include <algorithm>

namespace harmony::planner {

double rateAtOnce(const Machine &machine, int from, int to, int devices) {
  const Link &link = machine.link(from, to);
  double rate = link.bytesPerSecond;
  for (int r : link.shares)
    rate = std::min(rate, machine.resources[r].bytesPerSecond / devices);
  return rate;
}

Estimator::Estimator(const Problem &problem, const Machine &machine)
    : problem(problem), machine(machine), seenBy(problem.tensors.size(), -1) {}

/// Most of the updates.
static bool onHost(Updates updates) {
  return updates == Updates::Host || updates == Updates::Early ||
         updates == Updates::Staying;
}

Estimator::Pack Estimator::describe(const Layout &layout, int first, int last,
                                    int64_t microbatch, bool forward,
                                    bool backward) {
  int64_t samples =
      roundSamples(layout, sharesOf(problem.batch, layout.groups).front());
  Pack pack;
  pack.forward = forward;
  pack.backward = backward;
  pack.microbatch = std::min(microbatch, samples);
  int64_t u = pack.microbatch;
  ++packs;
  std::vector<const Cost *> &ofSize = costs[u];
  if (ofSize.empty())
    for (int l = 0; l < problem.layerCount(); ++l)
      ofSize.push_back(&problem.cost(l, u));
  double segment = 0;
  for (int l = first; l <= last; ++l) {
    const Layer &layer = problem.layers[l];
    const Cost &cost = *ofSize[l];
    pack.forwardSeconds += cost.forwardSeconds;
    pack.backwardSeconds += cost.backwardSeconds;
    double values = 0, gradients = 0, outputs = 0;
    for (const ValueUse &use : layer.inputs) {
      const Value &value = problem.values[use.value];
      auto bytes = static_cast<double>(value.bytes(u));
      values += use.gradient && backward ? 2 * bytes : bytes;
      gradients += use.gradient ? bytes : 0;
      if (value.producer >= first) {
        pack.saved += bytes;
        segment += bytes;
      } else {
        pack.inputs += static_cast<double>(value.bytesPerSample);
        pack.fromBatch |= value.isInput();
      }
    }
    for (int v : layer.outputs)
      outputs += static_cast<double>(problem.values[v].bytes(u));
    values += outputs;
    auto saved = static_cast<double>(cost.savedBytes);
    pack.saved += saved;
    segment += saved;
    bool keeps = !layout.keep.empty() && layout.keep[l] > 0;
    if (!backward &&
        (keeps || std::binary_search(layout.backwardEnds.begin(),
                                     layout.backwardEnds.end(), l)))
      for (int v : layer.outputs)
        pack.leaves += static_cast<double>(problem.values[v].bytes(u));
    if (backward && !forward && l < last && keeps) {
      for (int v : layer.outputs)
        pack.stashes += static_cast<double>(problem.values[v].bytesPerSample);
      pack.segment = std::max(pack.segment, segment);
      segment = 0;
    }
    auto workspace = static_cast<double>(
        backward ? std::max(cost.forwardWorkspace, cost.backwardWorkspace)
                 : cost.forwardWorkspace);
    pack.largest = std::max(pack.largest, saved + workspace + values);
    // Saved blocks and values of the pack are there in backward.
    auto forwardWorkspace = static_cast<double>(cost.forwardWorkspace);
    pack.beside = std::max(
        pack.beside,
        backward ? std::max(static_cast<double>(cost.backwardWorkspace) +
                                outputs + gradients,
                            forwardWorkspace)
                 : saved + forwardWorkspace + values);
    for (const TensorUse &use : layer.tensors) {
      const Tensor &tensor = problem.tensors[use.tensor];
      if (use.gradient && backward) {
        pack.gradients += static_cast<double>(tensor.gradientBytes);
        ++pack.gradientCount;
        if (tensor.gradientUses.front().layer == l) {
          pack.states += static_cast<double>(tensor.stateBytes);
          pack.updated += static_cast<double>(tensor.bytes);
        }
      }
      if (seenBy[use.tensor] == packs)
        continue;
      seenBy[use.tensor] = packs;
      pack.tensors += static_cast<double>(tensor.bytes);
      ++pack.tensorCount;
    }
  }
  pack.segment = std::max(pack.segment, segment);
  return pack;
}

void Estimator::add(const Layout &layout, const Pack &pack, int device,
                    Updates updates) {
  Load &load = loads[device];
  auto samples =
      static_cast<double>(sharesOf(problem.batch, layout.groups).front());
  double trips = samples / static_cast<double>(pack.microbatch);
  double rounds = layout.rounds;
  bool copied =
      layout.groups > 1 && machine.hasLink(device, layout.pipeline + device);
  double readers = copied ? layout.groups : 1;

  double computing = trips * ((pack.forward ? pack.forwardSeconds : 0) +
                              (pack.backward ? pack.backwardSeconds : 0));
  load.compute += computing + rounds * machine.phaseSeconds;
  bool again = pack.backward && (!pack.forward || pack.underWay > 0);
  if (again) {
    load.recompute += trips * pack.forwardSeconds;
    load.saved +=
        pack.saved * (pack.underWay > 0 ? static_cast<double>(pack.underWay)
                                        : trips / rounds);
  }
  // What a link could carry while a transfer begins: rounds multiply transfers,
  // of which small ones take little else.
  const Link &in = machine.link(hostEndpoint, device);
  const Link &out = machine.link(device, hostEndpoint);
  double inBegin = in.latencySeconds * in.bytesPerSecond;
  double outBegin = out.latencySeconds * out.bytesPerSecond;
  load.in +=
      (rounds * pack.tensors + (rounds - 1) * pack.tensorCount * inBegin) /
      readers;
  double others = layout.groups - 1, groups = layout.groups;
  if (copied && pack.backward)
    load.peer +=
        rounds * (onHost(updates) ? 2 : 1) * pack.tensors * others / groups;
  if (copied && pack.backward && !onHost(updates))
    load.peer += pack.gradients * others / groups;
  double values = samples * (pack.inputs + pack.stashes);
  load.in += values;
  load.needed += values / rounds;
  load.out += pack.fromBatch ? samples * pack.stashes : values;
  if (again)
    computing += trips * pack.forwardSeconds;
  int devices = layout.groups * layout.pipeline;
  load.waits += std::max(
      0.0, pack.backward
               ? values / rateAtOnce(machine, hostEndpoint, device, devices) -
                     computing
               : trips * pack.leaves /
                         rateAtOnce(machine, device, hostEndpoint, devices) -
                     computing);

  double held = pack.tensors + (pack.backward ? pack.gradients : 0) +
                pack.stashes * static_cast<double>(pack.microbatch) +
                pack.leaves;
  // Groups of one device recompute one segment at a time.
  double saved = again && layout.pipeline == 1 ? pack.segment
                 : pack.backward               ? pack.saved
                                               : 0;
  load.most = std::max(load.most, held + saved + pack.largest);
  load.least = std::max(load.least, held + saved + pack.beside);
  load.ahead =
      std::max(load.ahead, pack.tensors + (pack.backward ? pack.gradients : 0));
  if (pack.backward || !problem.training)
    load.needed += pack.tensors;
  if (!pack.backward)
    return;
  load.needed += pack.gradients;
  load.in += (rounds - 1) * (pack.gradients + pack.gradientCount * inBegin);
  load.out += (rounds - 1) * (pack.gradients + pack.gradientCount * outBegin);
  if (onHost(updates)) {
    load.out += pack.gradients;
    return;
  }
  if (pack.updated > 0)
    load.compute += problem.deviceUpdate.perByte * pack.updated / groups;
  load.needed += pack.states / groups;
  load.in += pack.states / groups;
  load.out += (pack.states + pack.updated) / groups;
}

const Estimator::Packs &Estimator::packsOf(const Layout &layout) {
  auto known = described.find(layout);
  if (known != described.end())
    return known->second;
  // Those of one microbatch size, which differ in who updates.
  constexpr size_t most = 128;
  if (described.size() >= most)
    described.clear();
  Packs &of = described[layout];
  for (int f = 0; f < static_cast<int>(layout.forwardEnds.size()); ++f)
    of.forward.push_back(describe(layout, layout.firstForward(f),
                                  layout.forwardEnds[f], layout.forwardSize(f),
                                  true, false));
  int64_t share = sharesOf(problem.batch, layout.groups).front();
  for (int p = 0; p <= layout.lastPack(); ++p) {
    Pack pack =
        describe(layout, layout.firstBackward(p), layout.backwardEnds[p],
                 layout.backwardSize(p), layout.isTurn(p), true);
    if (pack.forward && p != layout.lastPack())
      pack.underWay =
          layout.underWay(p, (share + pack.microbatch - 1) / pack.microbatch);
    of.backward.push_back(pack);
  }
  return of;
}

LayoutCost Estimator::estimate(const Layout &layout, Updates updates) {
  loads.assign(layout.pipeline, {});
  double slowestForward = 0, slowestBackward = 0;
  const Packs &packs = packsOf(layout);
  for (size_t f = 0; f < packs.forward.size(); ++f) {
    const Pack &pack = packs.forward[f];
    slowestForward = std::max(slowestForward, pack.forwardSeconds);
    add(layout, pack, layout.forwardDevice(static_cast<int>(f)), updates);
  }
  for (size_t p = packs.backward.size(); p-- > 0;) {
    const Pack &pack = packs.backward[p];
    slowestBackward =
        std::max(slowestBackward, pack.backwardSeconds + pack.forwardSeconds);
    add(layout, pack, layout.backwardDevice(static_cast<int>(p)), updates);
  }
  LayoutCost result = total(layout, updates);
  if (!packs.backward.empty())
    result.seconds += tail(layout, packs.backward.front(), updates);
  result.seconds += (layout.pipeline - 1) * (slowestForward + slowestBackward);
  return result;
}

/// From the end of the last pack to the first forward of the next iteration:
/// its update; of one microbatch, that of the last Run's tensors.
double Estimator::tail(const Layout &layout, const Pack &last,
                       Updates updates) const {
  int device = layout.backwardDevice(0);
  bool once =
      last.microbatch >=
      roundSamples(layout, sharesOf(problem.batch, layout.groups).front());
  double part = once ? 1.0 / fineRuns : 1;
  double in = machine.link(hostEndpoint, device).bytesPerSecond;
  double out = machine.link(device, hostEndpoint).bytesPerSecond;
  // All packs of a turn end with it.
  if (updates == Updates::Host || updates == Updates::Staying ||
      (updates == Updates::Early && layout.turn() == 0 && layout.turnPacks > 1))
    return part * (last.gradients * layout.groups / out + last.tensors / in +
                   problem.hostUpdate.perByte * last.updated);
  double seconds = problem.deviceUpdate.perByte * last.updated / layout.groups;
  int other = layout.pipeline + device;
  if (layout.groups > 1 && machine.hasLink(device, other))
    seconds += (last.gradients + last.tensors) * (layout.groups - 1) /
               layout.groups / machine.link(device, other).bytesPerSecond;
  return part * seconds;
}

LayoutCost Estimator::total(const Layout &layout, Updates updates) const {
  LayoutCost result;
  std::vector<double> shared(machine.resources.size(), 0), all = shared;
  for (int q = 0; q < layout.pipeline; ++q) {
    const Load &load = loads[q];
    auto capacity = static_cast<double>(machine.devices[q].capacity);
    const Link &in = machine.link(hostEndpoint, q);
    const Link &out = machine.link(q, hostEndpoint);
    // Known to within a few percent: trying tells.
    constexpr double inDoubt = 1.03;
    result.fits &= load.least <= inDoubt * capacity;
    double spare = std::max(0.0, capacity - load.most);
    double moved = 1 - std::min(1.0, capacity / std::max(1.0, load.needed));
    double recompute =
        load.recompute * (1 - std::min(1.0, spare / std::max(1.0, load.saved)));
    result.compute = std::max(result.compute, load.compute);
    double busy = load.compute + recompute;
    // Where there is no room to load ahead and to store behind, both are
    // waited for.
    double late = load.needed > capacity && load.ahead > spare
                      ? 1 - spare / load.ahead
                      : 0;
    busy +=
        late * load.in * moved /
        rateAtOnce(machine, hostEndpoint, q, layout.groups * layout.pipeline);
    busy += load.waits * moved;
    if (load.peer > 0)
      busy += late * load.peer /
              machine.link(q, layout.pipeline + q).bytesPerSecond;
    result.seconds =
        std::max({result.seconds, busy, load.in * moved / in.bytesPerSecond,
                  load.out * moved / out.bytesPerSecond});
    result.transfers = std::max({result.transfers, load.in / in.bytesPerSecond,
                                 load.out / out.bytesPerSecond});
    auto share = [&](const Link &link, double bytes) {
      for (int r : link.shares) {
        shared[r] += bytes * moved * layout.groups;
        all[r] += bytes * layout.groups;
      }
    };
    share(in, load.in);
    share(out, load.out);
  }
  for (size_t r = 0; r < shared.size(); ++r) {
    double rate = machine.resources[r].bytesPerSecond;
    result.seconds = std::max(result.seconds, shared[r] / rate);
    result.transfers = std::max(result.transfers, all[r] / rate);
  }
  if (!onHost(updates))
    return result;
  double onHostSeconds = 0;
  for (const Tensor &tensor : problem.tensors)
    if (!tensor.gradientUses.empty())
      onHostSeconds += tensor.hostUpdateSeconds >= 0
                           ? tensor.hostUpdateSeconds
                           : problem.hostUpdate.seconds(tensor.bytes);
  int engines =
      std::min(machine.hostQueues, static_cast<int>(machine.devices.size()));
  result.seconds = std::max(result.seconds, onHostSeconds / engines);
  return result;
}

} // namespace harmony::planner
