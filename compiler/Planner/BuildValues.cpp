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
bool ValueBuilder::isInner(const Flow &flow, const Segment &segment) const {
  return segment.source == Source::Run && segment.accesses.size() == 1 &&
         !segment.copied && !flow.accesses[segment.accesses[0]].stores;
}

/// Buffers for the stretches that it stays on a device, transfers and copies in
/// between.
void ValueBuilder::emitFlow(const Flow &flow) {
  std::vector<int> buffers;
  for (const Segment &segment : flow.segments) {
    if (isInner(flow, segment)) {
      int p = flow.accesses[segment.accesses[0]].phase;
      if (flow.content == Content::Value)
        addInnerValue(flow.value, p, StepKind::Forward, Content::Value);
      else
        addInnerGradient(flow.value, p);
      buffers.push_back(-1);
      continue;
    }
    buffers.push_back(makeSegmentBuffer(flow, segment));
    int buffer = buffers.back();
    for (int i : segment.accesses) {
      const Access &access = flow.accesses[i];
      b.touchRuns(access.phase, access.parts, buffer, access.writes);
    }
    int first = flow.accesses[segment.accesses[0]].phase;
    bool isGradient = flow.content == Content::ValueGradient;
    if (segment.source == Source::Batch || segment.source == Source::Home) {
      addLoad(flow, flow.accesses[segment.accesses[0]],
              transfer(flow, first, true, buffer), buffer);
    } else if (segment.source == Source::Copy) {
      int from = flow.accesses[segment.from].phase;
      b.sections[from].after.push_back(b.makeCopy(
          isGradient ? EventKind::CopyValueGradient : EventKind::CopyValue,
          peerValues, flow.value, -1, from,
          problem.values[flow.value].bytes(b.phase(from).microbatch),
          buffers[flow.accesses[segment.from].segment], buffer));
      coverCopied(buffer, from);
    }
    for (int i : segment.accesses)
      if (flow.accesses[i].stores) {
        int p = flow.accesses[i].phase;
        b.sections[p].after.push_back(transfer(flow, p, false, buffer));
      }
  }
}

/// Of one microbatch: some Runs before the one that needs it.
void ValueBuilder::addLoad(const Flow &flow, const Access &access, int event,
                           int buffer) {
  int p = access.phase;
  const PhaseInfo &info = b.phases[p];
  int need = b.firstOf(access.parts);
  b.neededBy[event] = need;
  int ahead = std::max(1, b.partCount(p) / 8);
  int part = b.phase(p).trips == 1 ? std::max(0, need - ahead) : 0;
  if (flow.content == Content::ValueGradient && info.split > 0)
    part = std::max(part, b.partOf(p, info.split));
  b.sections[p].values.push_back({part, event});
  if (part == 0 && need < ahead && mayComeAhead(flow, p)) {
    const std::vector<int> &runs = b.phases[info.previous].runs;
    int run = b.phase(info.previous).trips == 1 ? runs.back() : runs.front();
    int step = b.events[run].firstStep;
    b.cover(buffer, run, step, step);
  }
}

/// Whether all that it is loaded from is stored when the phase before `p` on
/// its device begins, and that phase has none of it.
bool ValueBuilder::mayComeAhead(const Flow &flow, int p) const {
  int before = b.phases[p].previous;
  return choices.stay && choices.valuesAhead && before >= 0 &&
         std::all_of(flow.accesses.begin(), flow.accesses.end(),
                     [&](const Access &access) {
                       return access.phase != before &&
                              (!access.stores || !overlap(access.phase, p) ||
                               access.phase < before || access.phase > p);
                     });
}

int ValueBuilder::makeSegmentBuffer(const Flow &flow, const Segment &segment) {
  const Phase &phase = b.phase(flow.accesses[segment.accesses[0]].phase);
  bool ring = segment.accesses.size() == 1 &&
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
      b.cover(buffer, b.phases[*it].runs.front(), 0, 0);
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
  if (isGradient || !value.isInput())
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
