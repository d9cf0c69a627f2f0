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

namespace harmony::planner {

//===--- accesses ---===//

/// Phases that use a value as Content::Value: its producer's, and those that
/// read it without making it again.
Range ValueBuilder::findAccesses(int v) {
  const Value &value = problem.values[v];
  int begin = static_cast<int>(accesses.size());
  if (!value.isInput())
    for (int p : b.forwardPhases[value.producer]) {
      Parts made = b.partsOf(p, value.producer, StepKind::Forward);
      accesses.push_back({p, made, made});
    }
  for (int consumer : value.consumers) {
    for (int p : b.forwardPhases[consumer])
      accesses.push_back({p, b.partsOf(p, consumer, StepKind::Forward), 0});
    for (int p : b.backwardPhases[consumer])
      if (Parts parts = partsBackward(v, consumer, p); parts != 0)
        accesses.push_back({p, parts, 0});
  }
  return mergeByPhase(accesses, begin);
}

/// What a consumer's backward phase reads of the value itself rather than of a
/// copy that the phase makes again.
Parts ValueBuilder::partsBackward(int v, int consumer, int p) const {
  const Phase &phase = b.phase(p);
  if (int producer = problem.values[v].producer;
      producer >= phase.firstLayer && b.makesAgain(p, producer))
    return 0;
  Parts parts = 0;
  const ValueUse &use = b.inputUse(consumer, v);
  if (b.readsAgain(p, consumer, use))
    parts = b.partsOf(p, consumer, StepKind::Recompute);
  if (use.backwardReads)
    parts |= b.partsOf(p, consumer, StepKind::Backward);
  return parts;
}

/// Phases that add to the gradient, and those that consume it.
Range ValueBuilder::findGradientAccesses(int v) {
  const Value &value = problem.values[v];
  int begin = static_cast<int>(accesses.size());
  for (int consumer : value.consumers)
    if (b.inputUse(consumer, v).gradient)
      for (int p : b.backwardPhases[consumer]) {
        Parts adds = b.partsOf(p, consumer, StepKind::Backward);
        accesses.push_back({p, adds, adds});
      }
  for (int p : b.backwardPhases[value.producer])
    accesses.push_back(
        {p, b.partsOf(p, value.producer, StepKind::Backward), 0});
  return mergeByPhase(accesses, begin);
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
  Elements<const Access> all = elementsOf(accesses, flow.accesses);
  const Access *access = std::upper_bound(
      all.begin(), all.end(), p,
      [](int phase, const Access &access) { return phase < access.phase; });
  for (; access != all.end() && access->phase < q; ++access) {
    int other = access->phase;
    if (b.phases[other].chain != b.phases[q].chain &&
        b.phase(other).device == b.phase(q).device && overlap(other, q))
      return true;
  }
  return false;
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
  flows.clear();
  accesses.clear();
  segments.clear();
  for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
    Flow &flow = flows.emplace_back();
    flow.value = v;
    flow.accesses = findAccesses(v);
    linkValue(flow);
    if (!problem.values[v].differentiable)
      continue;
    Flow &gradient = flows.emplace_back();
    gradient.value = v;
    gradient.content = Content::ValueGradient;
    gradient.accesses = findGradientAccesses(v);
    linkGradient(gradient);
  }
  chooseRings();
}

int ValueBuilder::addSegment(Flow &flow, int access, Source source, int from) {
  int segment = static_cast<int>(segments.size());
  segments.push_back({access, access, source, from});
  flow.segments.end = segment + 1;
  accesses[access].segment = segment;
  if (source == Source::Copy)
    segments[accesses[from].segment].copied = true;
  return segment;
}

void ValueBuilder::join(int access, int segment) {
  int &last = segments[segment].last;
  accesses[last].next = access;
  last = access;
  accesses[access].segment = segment;
}

void ValueBuilder::linkValue(Flow &flow) {
  auto isBefore = [](const Member &x, const Member &y) {
    return x.chain < y.chain;
  };
  members.clear();
  for (int i = flow.accesses.begin; i < flow.accesses.end; ++i)
    members.push_back({b.phases[accesses[i].phase].chain, i});
  if (!std::is_sorted(members.begin(), members.end(), isBefore))
    std::stable_sort(members.begin(), members.end(), isBefore);
  flow.segments.begin = flow.segments.end = static_cast<int>(segments.size());
  const Member *all = members.data();
  for (size_t begin = 0, end; begin < members.size(); begin = end) {
    for (end = begin;
         end < members.size() && members[end].chain == members[begin].chain;)
      ++end;
    linkChain(flow, all + begin, all + end);
  }
}

/// The producer makes a value once; every other device gets it from there or
/// from the home.
void ValueBuilder::linkChain(Flow &flow, const Member *begin,
                             const Member *end) {
  const Value &value = problem.values[flow.value];
  Place place = choices.place[flow.value];
  int producer = accesses[begin->access].writes != 0 ? begin->access : -1;
  if (producer >= 0 && value.output)
    accesses[producer].stores = true;
  open.clear();
  for (const Member *member = begin; member != end; ++member) {
    int i = member->access, p = accesses[i].phase;
    int device = b.phase(p).device;
    auto it = std::find_if(open.begin(), open.end(), [&](const Open &other) {
      return other.device == device;
    });
    bool isFirst = it == open.end();
    if (isFirst) {
      it = open.insert(open.end(), {device, -1});
    } else {
      int last = accesses[segments[it->segment].last].phase;
      if (staysBetween(place, last, p) && !usedBetween(flow, last, p)) {
        join(i, it->segment);
        continue;
      }
    }
    if (value.isInput()) {
      it->segment = addSegment(flow, i, Source::Batch);
    } else if (i == producer) {
      it->segment = addSegment(flow, i, Source::Run);
    } else if (isFirst && producer >= 0 &&
               copiesBetween(place, accesses[producer].phase, p) &&
               !usedBetween(flow, accesses[producer].phase, p)) {
      it->segment = addSegment(flow, i, Source::Copy, producer);
    } else {
      sources.clear();
      if (producer >= 0)
        sources.push_back(producer);
      for (int j = flow.accesses.begin; producer < 0 && j < i; ++j)
        if (accesses[j].writes != 0 && overlap(accesses[j].phase, p))
          sources.push_back(j);
      loadFromSources(flow, i);
      it->segment = accesses[i].segment;
    }
  }
}

/// An access loads what `sources` store.
void ValueBuilder::loadFromSources(Flow &flow, int access) {
  addSegment(flow, access, Source::Home);
  int p = accesses[access].phase;
  int64_t samples = 0;
  for (int source : sources) {
    const Phase &from = b.phase(accesses[source].phase);
    const Phase &to = b.phase(p);
    checkPassing(flow.value, accesses[source].phase, p);
    accesses[source].stores = true;
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
  flow.segments.begin = flow.segments.end = static_cast<int>(segments.size());
  latest.clear();
  for (int i = flow.accesses.begin; i < flow.accesses.end; ++i) {
    int p = accesses[i].phase;
    int64_t begin = b.phase(p).firstSample;
    takeLatest(begin, begin + b.phase(p).trips * b.phase(p).microbatch, i);
    for (int source : sources)
      splitRuns(p, accesses[source].phase);
    if (sources.empty()) {
      addSegment(flow, i, Source::Run);
      continue;
    }
    int before = accesses[sources.front()].phase;
    bool direct = b.phases[before].chain == b.phases[p].chain;
    bool same = b.phase(before).device == b.phase(p).device;
    if (direct && same && staysBetween(place, before, p))
      join(i, accesses[sources.front()].segment);
    else if (direct && copiesBetween(place, before, p) && !wasThere(flow, i))
      addSegment(flow, i, Source::Copy, sources.front());
    else
      loadFromSources(flow, i);
  }
}

/// Samples go to an access: `sources` are those that had some of them.
void ValueBuilder::takeLatest(int64_t begin, int64_t end, int access) {
  auto first =
      std::partition_point(latest.begin(), latest.end(),
                           [&](const Last &last) { return last.end <= begin; });
  auto behind = first;
  sources.clear();
  for (; behind != latest.end() && behind->begin < end; ++behind)
    sources.push_back(behind->access);
  // What is left of them in front and behind.
  Last pieces[3];
  int count = 0;
  if (first != behind && first->begin < begin)
    pieces[count++] = {first->begin, begin, first->access};
  pieces[count++] = {begin, end, access};
  if (first != behind && std::prev(behind)->end > end)
    pieces[count++] = {end, std::prev(behind)->end, std::prev(behind)->access};
  int replaced = static_cast<int>(std::min<long>(count, behind - first));
  std::copy(pieces, pieces + replaced, first);
  if (replaced < count)
    latest.insert(first + replaced, pieces + replaced, pieces + count);
  else
    latest.erase(first + replaced, behind);
}

/// Whether an earlier sum of the same samples was on the device: the place of a
/// copy may have to be free since before that was gone.
bool ValueBuilder::wasThere(const Flow &flow, int access) const {
  int p = accesses[access].phase;
  for (int i = flow.accesses.begin; i < access; ++i) {
    int q = accesses[i].phase;
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
  edges.clear();
  for (int s = 0; s < static_cast<int>(segments.size()); ++s) {
    const Segment &segment = segments[s];
    if (segment.source != Source::Copy || segment.first != segment.last)
      continue;
    int from = accesses[segment.from].phase;
    if (b.phase(from).trips > choices.slots)
      edges.push_back({from, accesses[segment.first].phase, s});
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge &a, const Edge &c) {
                     return a.from != c.from ? a.from < c.from : a.to < c.to;
                   });
  for (const Edge &edge : edges) {
    if (!mayRing(edge.from, edge.to))
      continue;
    segments[edge.segment].ring = true;
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
