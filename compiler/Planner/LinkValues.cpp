//===- LinkValues.cpp - Ways of values from phase to phase ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Phases of the same samples and microbatches (a chain) can hand a value over
// on a device or by a copy; all others through the host store.
//
// Rings. A copy into a ring holds its sender up until the receiver has used a
// slot. That cannot deadlock where everything that the receiver needs and that
// is not there already comes microbatch by microbatch from phases which are not
// held up by anything else. Let root(p) be the earliest phase that is connected
// with p through rings. A ring from p to q is chosen only if no phase of these
// samples in (p, q] has to wait for the end of a phase from root(p) on. Then,
// if the first unfinished phase m is held up by rings, all phases that these
// connect have begun, and each iteration of one waits only for the same
// iteration of earlier phases, or for an earlier iteration of later ones.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildValues.h"

#include <map>

namespace harmony::planner {

//===--- accesses ---===//

/// Phases that use a value as Content::Value: its producer's, and those that
/// read it without making it again.
std::vector<ValueBuilder::Access> ValueBuilder::valueAccesses(int v) const {
  const Value &value = problem.values[v];
  std::vector<Access> accesses;
  if (!value.isInput())
    for (int p : b.forwardPhases[value.producer]) {
      Parts made = b.partsOf(p, value.producer, StepKind::Forward);
      accesses.push_back({p, made, made});
    }
  for (int consumer : value.consumers) {
    for (int p : b.forwardPhases[consumer])
      accesses.push_back({p, b.partsOf(p, consumer, StepKind::Forward), 0});
    for (int p : b.backwardPhases[consumer]) {
      Access access = backwardAccess(v, consumer, p);
      if (access.parts != 0)
        accesses.push_back(access);
    }
  }
  return mergeByPhase(std::move(accesses));
}

/// What a consumer's backward phase reads of the value itself rather than of a
/// copy that the phase makes again.
ValueBuilder::Access ValueBuilder::backwardAccess(int v, int consumer,
                                                  int p) const {
  const Phase &phase = b.phase(p);
  if (int producer = problem.values[v].producer;
      producer >= phase.firstLayer && b.makesAgain(p, producer))
    return {p, 0, 0};
  Parts parts = 0;
  if (b.readsAgain(p, consumer, b.inputUse(consumer, v)))
    parts = b.partsOf(p, consumer, StepKind::Recompute);
  if (b.inputUse(consumer, v).backwardReads)
    parts |= b.partsOf(p, consumer, StepKind::Backward);
  return {p, parts, 0};
}

/// Phases that add to the gradient, and those that consume it.
std::vector<ValueBuilder::Access> ValueBuilder::gradientAccesses(int v) const {
  const Value &value = problem.values[v];
  std::vector<Access> accesses;
  for (int consumer : value.consumers)
    if (b.inputUse(consumer, v).gradient)
      for (int p : b.backwardPhases[consumer]) {
        Parts adds = b.partsOf(p, consumer, StepKind::Backward);
        accesses.push_back({p, adds, adds});
      }
  for (int p : b.backwardPhases[value.producer])
    accesses.push_back(
        {p, b.partsOf(p, value.producer, StepKind::Backward), 0});
  return mergeByPhase(std::move(accesses));
}

//===--- what may pass how ---===//

bool ValueBuilder::overlap(int p, int q) const {
  const Phase &a = b.phase(p), &c = b.phase(q);
  return a.firstSample < c.firstSample + c.trips * c.microbatch &&
         c.firstSample < a.firstSample + a.trips * a.microbatch;
}

/// Of phases of one chain.
bool ValueBuilder::isNext(int p, int q) const {
  return b.phases[q].position == b.phases[p].position + 1;
}

bool ValueBuilder::staysBetween(Place place, int p, int q) const {
  return b.phases[p].block == b.phases[q].block ||
         (choices.stay && (place == Place::Device ||
                           (place == Place::Adjacent && isNext(p, q))));
}

bool ValueBuilder::copiesBetween(Place place, int p, int q) const {
  return staysBetween(place, p, q) &&
         b.canCopy(b.phase(p).device, b.phase(q).device);
}

/// Whether phases of other microbatches use it on the device of `q` in between:
/// they need the samples in a buffer of their own, and an operand is found by
/// its samples.
bool ValueBuilder::usedBetween(const Flow &flow, int p, int q) const {
  return std::any_of(
      flow.accesses.begin(), flow.accesses.end(), [&](const Access &access) {
        int other = access.phase;
        return p < other && other < q &&
               b.phases[other].chain != b.phases[q].chain &&
               b.phase(other).device == b.phase(q).device && overlap(other, q);
      });
}

/// Through the home from one phase to another of different microbatches.
void ValueBuilder::checkPassing(int v, int p, int q) const {
  if (problem.values[v].sliceable)
    return;
  const Phase &from = b.phase(p), &to = b.phase(q);
  int64_t distance = to.firstSample - from.firstSample;
  if (from.microbatch == to.microbatch && distance % from.microbatch == 0 &&
      distance / from.microbatch == to.firstMicrobatch - from.firstMicrobatch)
    return;
  throw Error("value '" + problem.values[v].name +
              "' cannot be sliced, but passes from microbatches of " +
              std::to_string(from.microbatch) + " samples (phase " +
              std::to_string(p) + ") to microbatches of " +
              std::to_string(to.microbatch) + " (phase " + std::to_string(q) +
              ")");
}

//===--- ways ---===//

void ValueBuilder::link() {
  for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
    Flow &flow = flows.emplace_back();
    flow.value = v;
    flow.accesses = valueAccesses(v);
    linkValue(flow);
    if (!problem.values[v].differentiable)
      continue;
    Flow &gradient = flows.emplace_back();
    gradient.value = v;
    gradient.content = Content::ValueGradient;
    gradient.accesses = gradientAccesses(v);
    linkGradient(gradient);
  }
  chooseRings();
}

int ValueBuilder::addSegment(Flow &flow, int access, Source source, int from) {
  int segment = static_cast<int>(flow.segments.size());
  flow.segments.push_back({{access}, source, from});
  flow.accesses[access].segment = segment;
  if (source == Source::Copy)
    flow.segments[flow.accesses[from].segment].copied = true;
  return segment;
}

void ValueBuilder::join(Flow &flow, int access, int segment) {
  flow.segments[segment].accesses.push_back(access);
  flow.accesses[access].segment = segment;
}

void ValueBuilder::linkValue(Flow &flow) {
  std::map<int, std::vector<int>> chains;
  for (int i = 0; i < static_cast<int>(flow.accesses.size()); ++i)
    chains[b.phases[flow.accesses[i].phase].chain].push_back(i);
  for (const auto &[number, chain] : chains)
    linkChain(flow, chain);
}

/// The producer makes a value once; every other device gets it from there or
/// from the home.
void ValueBuilder::linkChain(Flow &flow, const std::vector<int> &chain) {
  const Value &value = problem.values[flow.value];
  Place place = choices.place[flow.value];
  int producer = flow.accesses[chain.front()].writes != 0 ? chain.front() : -1;
  if (producer >= 0 && value.output)
    flow.accesses[producer].stores = true;
  std::map<int, int> open; // segments by device
  for (int i : chain) {
    int p = flow.accesses[i].phase;
    auto [it, isFirst] = open.insert({b.phase(p).device, -1});
    if (!isFirst) {
      int last = flow.segments[it->second].accesses.back();
      if (staysBetween(place, flow.accesses[last].phase, p) &&
          !usedBetween(flow, flow.accesses[last].phase, p)) {
        join(flow, i, it->second);
        continue;
      }
    }
    if (value.isInput()) {
      it->second = addSegment(flow, i, Source::Batch);
    } else if (i == producer) {
      it->second = addSegment(flow, i, Source::Run);
    } else if (isFirst && producer >= 0 &&
               copiesBetween(place, flow.accesses[producer].phase, p) &&
               !usedBetween(flow, flow.accesses[producer].phase, p)) {
      it->second = addSegment(flow, i, Source::Copy, producer);
    } else {
      std::vector<int> sources;
      if (producer >= 0)
        sources.push_back(producer);
      for (int j = 0; producer < 0 && j < i; ++j)
        if (flow.accesses[j].writes != 0 && overlap(flow.accesses[j].phase, p))
          sources.push_back(j);
      loadFromOthers(flow, i, sources);
      it->second = flow.accesses[i].segment;
    }
  }
}

void ValueBuilder::loadFromOthers(Flow &flow, int access,
                                  const std::vector<int> &sources) {
  addSegment(flow, access, Source::Home);
  int p = flow.accesses[access].phase;
  int64_t samples = 0;
  for (int source : sources) {
    const Phase &from = b.phase(flow.accesses[source].phase);
    const Phase &to = b.phase(p);
    checkPassing(flow.value, flow.accesses[source].phase, p);
    flow.accesses[source].stores = true;
    samples += std::min(from.firstSample + from.trips * from.microbatch,
                        to.firstSample + to.trips * to.microbatch) -
               std::max(from.firstSample, to.firstSample);
  }
  if (samples != b.phase(p).trips * b.phase(p).microbatch)
    throw Error("phase " + std::to_string(p) + " needs value '" +
                problem.values[flow.value].name + "' of " +
                std::to_string(b.phase(p).trips * b.phase(p).microbatch) +
                " samples, earlier phases make " + std::to_string(samples) +
                " of them");
}

/// From consumer to consumer, each adding to it, then to the producer.
void ValueBuilder::linkGradient(Flow &flow) {
  Place place = choices.gradientPlace[flow.value];
  // Who had samples last: intervals by their first sample.
  struct Last {
    int64_t end;
    int access;
  };
  std::map<int64_t, Last> latest;
  for (int i = 0; i < static_cast<int>(flow.accesses.size()); ++i) {
    int p = flow.accesses[i].phase;
    int64_t begin = b.phase(p).firstSample;
    int64_t end = begin + b.phase(p).trips * b.phase(p).microbatch;
    auto it = latest.upper_bound(begin);
    if (it != latest.begin() && std::prev(it)->second.end > begin)
      --it;
    std::vector<int> sources;
    std::vector<std::pair<int64_t, Last>> rest;
    while (it != latest.end() && it->first < end) {
      sources.push_back(it->second.access);
      if (it->first < begin)
        rest.push_back({it->first, {begin, it->second.access}});
      if (it->second.end > end)
        rest.push_back({end, it->second});
      it = latest.erase(it);
    }
    latest[begin] = {end, i};
    latest.insert(rest.begin(), rest.end());

    for (int source : sources)
      splitRuns(p, flow.accesses[source].phase);
    if (sources.empty()) {
      addSegment(flow, i, Source::Run);
      continue;
    }
    int before = flow.accesses[sources.front()].phase;
    bool direct = b.phases[before].chain == b.phases[p].chain;
    bool same = b.phase(before).device == b.phase(p).device;
    if (direct && same && staysBetween(place, before, p))
      join(flow, i, flow.accesses[sources.front()].segment);
    else if (direct && copiesBetween(place, before, p) && !wasThere(flow, i))
      addSegment(flow, i, Source::Copy, sources.front());
    else
      loadFromOthers(flow, i, sources);
  }
}

/// Whether an earlier sum of the same samples was on the device: the place of a
/// copy may have to be free since before that was gone.
bool ValueBuilder::wasThere(const Flow &flow, int access) const {
  int p = flow.accesses[access].phase;
  for (int i = 0; i < access; ++i) {
    int q = flow.accesses[i].phase;
    if (b.phase(q).device == b.phase(p).device &&
        b.phases[q].chain == b.phases[p].chain)
      return true;
  }
  return false;
}

/// A phase whose output gradients another device makes recomputes before they
/// are there.
void ValueBuilder::splitRuns(int p, int before) {
  PhaseInfo &info = b.phases[p];
  if (b.phase(p).kind == PhaseKind::Backward &&
      b.phase(p).device != b.phase(before).device)
    info.split = info.firstBackward;
}

//===--- rings ---===//

void ValueBuilder::chooseRings() {
  std::vector<Edge> edges;
  for (int f = 0; f < static_cast<int>(flows.size()); ++f)
    for (int s = 0; s < static_cast<int>(flows[f].segments.size()); ++s) {
      const Segment &segment = flows[f].segments[s];
      if (segment.source != Source::Copy || segment.accesses.size() > 1)
        continue;
      int from = flows[f].accesses[segment.from].phase;
      if (b.phase(from).trips > choices.slots)
        edges.push_back(
            {from, flows[f].accesses[segment.accesses[0]].phase, f, s});
    }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge &a, const Edge &c) {
                     return a.from != c.from ? a.from < c.from : a.to < c.to;
                   });
  for (const Edge &edge : edges) {
    if (!mayRing(edge.from, edge.to))
      continue;
    flows[edge.flow].segments[edge.segment].ring = true;
    for (int x = edge.from + 1; x <= edge.to; ++x)
      if (overlap(x, edge.from))
        b.phases[x].root = std::min(b.phases[x].root, b.phases[edge.from].root);
  }
}

bool ValueBuilder::mayRing(int p, int q) const {
  for (int x = p + 1; x <= q; ++x)
    if (overlap(x, p) && (b.phases[x].chain != b.phases[p].chain ||
                          b.phases[x].follows >= b.phases[p].root))
      return false;
  return true;
}

} // namespace harmony::planner
