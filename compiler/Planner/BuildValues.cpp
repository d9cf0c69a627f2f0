//===- BuildValues.cpp - Activations and their gradients ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildValues.h"

namespace harmony::planner {

void ValueBuilder::emit() {
  for (const Flow &flow : flows) {
    if (flow.content == Content::Value)
      addRecomputed(flow.value);
    emitFlow(flow);
  }
}

/// Made and used up in one microbatch of one phase.
bool ValueBuilder::isInner(const Segment &segment) const {
  return segment.source == Source::Run && segment.first == segment.last &&
         !segment.copied && !accesses[segment.first].stores;
}

/// Buffers for the stretches that it stays on a device, transfers and copies in
/// between.
void ValueBuilder::emitFlow(const Flow &flow) {
  bool isGradient = flow.content == Content::ValueGradient;
  for (Segment &segment : elementsOf(segments, flow.segments)) {
    int first = accesses[segment.first].phase;
    if (isInner(segment)) {
      if (isGradient)
        addInnerGradient(flow.value, first);
      else
        addInnerValue(flow.value, first, StepKind::Forward, Content::Value);
      continue;
    }
    int buffer = segment.buffer = makeSegmentBuffer(flow, segment);
    for (int i = segment.first; i >= 0; i = accesses[i].next)
      b.touchRuns(accesses[i].phase, accesses[i].parts, buffer,
                  accesses[i].writes);
    if (segment.source == Source::Batch || segment.source == Source::Home) {
      addLoad(flow, accesses[segment.first],
              transfer(flow, first, true, buffer), buffer);
    } else if (segment.source == Source::Copy) {
      int from = accesses[segment.from].phase;
      b.append(
          b.sections[from].after,
          b.makeCopy(isGradient ? EventKind::CopyValueGradient
                                : EventKind::CopyValue,
                     peerValues, flow.value, -1, from,
                     problem.values[flow.value].bytes(b.phase(from).microbatch),
                     segments[accesses[segment.from].segment].buffer, buffer));
      coverCopied(buffer, from);
    }
    for (int i = segment.first; i >= 0; i = accesses[i].next)
      if (accesses[i].stores)
        b.append(b.sections[accesses[i].phase].after,
                 transfer(flow, accesses[i].phase, false, buffer));
  }
}

/// Of one microbatch: some Runs before the one that needs it.
void ValueBuilder::addLoad(const Flow &flow, const Access &access, int event,
                           int buffer) {
  int p = access.phase;
  const PhaseInfo &info = b.phases[p];
  int need = b.firstOf(access.parts);
  b.issues[event].neededBy = need;
  int ahead = std::max(1, b.partCount(p) / 8);
  int part = b.phase(p).trips == 1 ? std::max(0, need - ahead) : 0;
  if (flow.content == Content::ValueGradient && info.split > 0)
    part = std::max(part, b.partOf(p, info.split));
  b.issues[event].part = part;
  b.append(b.sections[p].values, event);
  if (part == 0 && need < ahead && mayComeAhead(flow, p)) {
    int run = b.phase(info.previous).trips == 1 ? b.lastRun(info.previous)
                                                : b.firstRun(info.previous);
    int step = b.events[run].firstStep;
    b.cover(buffer, run, step, step);
  }
}

/// Whether all that it is loaded from is stored when the phase before `p` on
/// its device begins, and that phase has none of it.
bool ValueBuilder::mayComeAhead(const Flow &flow, int p) const {
  int before = b.phases[p].previous;
  Elements<const Access> all = elementsOf(accesses, flow.accesses);
  return choices.stay && choices.valuesAhead && before >= 0 &&
         std::all_of(all.begin(), all.end(), [&](const Access &access) {
           return access.phase != before &&
                  (!access.stores || !overlap(access.phase, p) ||
                   access.phase < before || access.phase > p);
         });
}

int ValueBuilder::makeSegmentBuffer(const Flow &flow, const Segment &segment) {
  const Phase &phase = b.phase(accesses[segment.first].phase);
  bool ring = segment.first == segment.last &&
              (segment.source != Source::Copy || segment.ring);
  return b.makeBuffer(flow.content, phase.device, flow.value, -1,
                      problem.values[flow.value].bytes(phase.microbatch),
                      ring ? std::min<int64_t>(choices.slots, phase.trips)
                           : phase.trips,
                      phase.firstSample);
}

/// A copy must not wait for the end of a phase (to reuse its addresses) that
/// rings connect with its sender.
void ValueBuilder::coverCopied(int buffer, int from) {
  int device = b.draft.plan.buffers[buffer].device;
  for (const auto *list : {&b.devicePhases[device], &b.foreignWork[device]}) {
    auto it = std::lower_bound(list->begin(), list->end(), b.phases[from].root);
    if (it != list->end() && *it < from)
      b.cover(buffer, b.firstRun(*it), 0, 0);
  }
}

int ValueBuilder::homeOf(const Flow &flow) {
  const Value &value = problem.values[flow.value];
  bool isGradient = flow.content == Content::ValueGradient;
  int64_t microbatches = 0;
  for (int p :
       (isGradient ? b.backwardPhases : b.forwardPhases)[value.producer])
    microbatches += b.phase(p).trips;
  return b.home(
      isGradient ? HomeKind::ValueGradient : HomeKind::Value, flow.value, -1,
      value.bytesPerSample * problem.batch + value.fixedBytes * microbatches);
}

/// A load or store of all microbatches of a phase.
int ValueBuilder::transfer(const Flow &flow, int p, bool load, int buffer) {
  static constexpr EventKind kinds[2][2] = {
      {EventKind::StoreValue, EventKind::LoadValue},
      {EventKind::StoreValueGradient, EventKind::LoadValueGradient}};
  const Value &value = problem.values[flow.value];
  const Phase &phase = b.phase(p);
  bool isGradient = flow.content == Content::ValueGradient;
  int event = b.makeTransfer(kinds[isGradient][load],
                             load ? inValues : outValues, flow.value, -1, p,
                             value.bytes(phase.microbatch), buffer, -1);
  if (!b.peaksOnly && (isGradient || !value.isInput()))
    b.draft.homeTouches.push_back(
        {event, homeOf(flow), !load,
         phase.firstSample * value.bytesPerSample +
             phase.firstMicrobatch * value.fixedBytes,
         phase.trips * value.bytes(phase.microbatch)});
  return event;
}

/// Copies made again in the B phases of the producer.
void ValueBuilder::addRecomputed(int v) {
  int producer = problem.values[v].producer;
  if (producer < 0)
    return;
  for (int p : b.backwardPhases[producer])
    if (b.makesAgain(p, producer))
      addInnerValue(v, p, StepKind::Recompute, Content::RecomputedValue);
}

/// Scratch of one microbatch, from the step that makes the value to the last
/// one of the phase that reads it.
void ValueBuilder::addInnerValue(int v, int p, StepKind made, Content content) {
  const Phase &phase = b.phase(p);
  const Value &value = problem.values[v];
  int first = b.findStep(p, value.producer, made), last = first;
  for (int consumer : value.consumers) {
    if (consumer > phase.lastLayer)
      break;
    const ValueUse &use = b.inputUse(consumer, v);
    if (made == StepKind::Forward || b.readsAgain(p, consumer, use))
      last = std::max(last, b.findStep(p, consumer, made));
    if (use.backwardReads)
      last = std::max(last, b.findStep(p, consumer, StepKind::Backward));
  }
  b.touchSteps(p,
               b.makeBuffer(content, phase.device, v, -1,
                            value.bytes(phase.microbatch), 1,
                            phase.firstSample),
               true, first, last);
}

void ValueBuilder::addInnerGradient(int v, int p) {
  const Phase &phase = b.phase(p);
  const Value &value = problem.values[v];
  int lastConsumer = -1;
  for (int consumer : value.consumers)
    if (b.inputUse(consumer, v).gradient)
      lastConsumer = consumer;
  b.touchSteps(p,
               b.makeBuffer(Content::ValueGradient, phase.device, v, -1,
                            value.bytes(phase.microbatch), 1,
                            phase.firstSample),
               true, b.findStep(p, lastConsumer, StepKind::Backward),
               b.findStep(p, value.producer, StepKind::Backward));
}

} // namespace harmony::planner
