//===- BuildPhases.cpp - Phases, their steps and Runs ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildPhases.h"

namespace harmony::planner {

void PhaseBuilder::makePhases() {
  int count = static_cast<int>(choices.phases.size());
  b.draft.plan.phases.resize(choices.phases.size());
  b.phases.reserve(choices.phases.size());
  chains.clear();
  for (int p = 0; p < count; ++p)
    makePhase(p, choices.phases[p]);
  for (PhaseInfo &info : b.phases)
    if (info.next < 0)
      info.next = b.phaseCount();
  findBands();
  numberMicrobatches();
  b.foreignWork.resize(b.devicePhases.size());
}

void PhaseBuilder::makePhase(int p, const PhaseChoice &choice) {
  Phase &phase = b.draft.plan.phases[p];
  phase.device = choice.device;
  phase.kind = choice.kind;
  phase.firstLayer = choice.firstLayer;
  phase.lastLayer = choice.lastLayer;
  phase.microbatch = choice.microbatch;
  phase.firstSample = choice.firstSample;
  phase.trips = choice.trips;
  phase.firstMicrobatch = 0;
  phase.group = choice.group;
  phase.frees = true;
  phase.keep = choice.keep;
  phase.steps.clear();
  PhaseInfo &info = b.phases.emplace_back();
  joinChain(p, choice);
  info.root = p;
  placeOnDevice(p, choice.goesOn);
  if (phase.kind == PhaseKind::Backward) {
    addBackwardPhaseSteps(p);
  } else {
    addForwardSteps(p);
    info.firstBackward = static_cast<int>(phase.steps.size());
    for (int l = phase.lastLayer;
         phase.kind == PhaseKind::Turn && l >= phase.firstLayer; --l)
      addBackwardStep(p, l);
  }
  cutParts(p);
}

void PhaseBuilder::joinChain(int p, const PhaseChoice &choice) {
  auto key =
      std::make_tuple(choice.firstSample, choice.microbatch, choice.trips);
  auto chain = std::lower_bound(
      chains.begin(), chains.end(), key,
      [](const Chain &chain, const auto &key) { return chain.key < key; });
  if (chain == chains.end() || chain->key != key)
    chain = chains.insert(chain, {key, b.chainCount++, 0});
  b.phases[p].chain = chain->number;
  b.phases[p].position = chain->phases++;
}

void PhaseBuilder::findBands() {
  for (int p = 0; p < b.phaseCount(); ++p)
    b.phases[p].band = p > 0 && isBeside(p - 1, p) ? b.phases[p - 1].band : p;
  for (int p = b.phaseCount() - 1; p >= 0; --p)
    b.phases[p].bandEnd =
        p + 1 < b.phaseCount() && b.phases[p + 1].band == b.phases[p].band
            ? b.phases[p + 1].bandEnd
            : p + 1;
}

/// Forwards that write tensors take turns instead.
bool PhaseBuilder::isBeside(int before, int p) const {
  const Phase &a = b.phase(before), &c = b.phase(p);
  auto begin = b.parts.begin();
  Range x = b.phases[before].parts, y = b.phases[p].parts;
  return b.isOpen(before) && b.isOpen(p) && a.group < c.group &&
         a.kind == c.kind && a.firstLayer == c.firstLayer &&
         a.lastLayer == c.lastLayer &&
         std::equal(
             begin + x.begin, begin + x.end, begin + y.begin, begin + y.end,
             [](const PhasePart &m, const PhasePart &n) {
               return m.step == n.step;
             }) &&
         !b.forwardsWrite;
}

void PhaseBuilder::placeOnDevice(int p, bool goesOn) {
  size_t device = b.phase(p).device;
  if (device >= b.devicePhases.size())
    b.devicePhases.resize(device + 1);
  PhaseInfo &info = b.phases[p];
  info.block = p;
  info.next = -1;
  if (!b.devicePhases[device].empty()) {
    info.previous = b.devicePhases[device].back();
    PhaseInfo &before = b.phases[info.previous];
    goesOn &= b.phase(info.previous).firstLayer == b.phase(p).firstLayer &&
              b.phase(info.previous).lastLayer == b.phase(p).lastLayer;
    before.next = p;
    b.draft.plan.phases[info.previous].frees = !goesOn;
    info.follows = info.previous;
    info.block = goesOn ? before.block : p;
    info.blockBefore = goesOn ? before.blockBefore : before.block;
    info.ordinal = before.ordinal + !goesOn;
  }
  b.devicePhases[device].push_back(p);
}

void PhaseBuilder::addForwardSteps(int p) {
  Phase &phase = b.draft.plan.phases[p];
  for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
    b.forwardPhases[l].push_back(p);
    phase.steps.push_back({l, StepKind::Forward});
  }
}

void PhaseBuilder::addBackwardStep(int p, int layer) {
  b.backwardPhases[layer].push_back(p);
  b.draft.plan.phases[p].steps.push_back({layer, StepKind::Backward});
}

/// What is made again in front of the backward that needs it first, or all of
/// it in front of all of them.
void PhaseBuilder::addBackwardPhaseSteps(int p) {
  Phase &of = b.draft.plan.phases[p];
  PhaseInfo &info = b.phases[p];
  findRecomputed(p);
  info.layerSteps = static_cast<int>(b.stepsOfLayer.size());
  b.stepsOfLayer.resize(b.stepsOfLayer.size() + again.size());
  LayerSteps *steps = &b.stepsOfLayer[info.layerSteps];
  info.firstBackward = -1;
  for (int end = of.lastLayer; end >= of.firstLayer;) {
    int begin = end;
    while (begin > of.firstLayer &&
           (choices.recomputeAhead || joined[begin - of.firstLayer]))
      --begin;
    for (int l = begin; l <= end; ++l)
      if (again[l - of.firstLayer]) {
        steps[l - of.firstLayer].recompute = static_cast<int>(of.steps.size());
        of.steps.push_back({l, StepKind::Recompute});
      }
    if (info.firstBackward < 0)
      info.firstBackward = static_cast<int>(of.steps.size());
    for (int l = end; l >= begin; --l) {
      steps[l - of.firstLayer].backward = static_cast<int>(of.steps.size());
      addBackwardStep(p, l);
    }
    end = begin - 1;
  }
}

/// By layer of the pack: `again`, of which something is to be made again for
/// the pack's backward: what is not kept of its saved block, or outputs.
/// `joined`: it, or one behind it, needs outputs that are made again by a layer
/// before it.
void PhaseBuilder::findRecomputed(int p) {
  const Phase &of = b.phase(p);
  size_t layers = static_cast<size_t>(of.lastLayer - of.firstLayer) + 1;
  again.assign(layers, 0);
  joined.assign(layers, 0);
  for (int l = of.lastLayer; l >= of.firstLayer; --l) {
    int level = of.level(l);
    char &need = again[l - of.firstLayer];
    need = problem.cost(l, of.microbatch).restBytes(level) > 0;
    if (level > 0)
      continue;
    int last = l;
    for (int v : problem.layers[l].outputs)
      for (int consumer : problem.values[v].consumers) {
        if (consumer > of.lastLayer)
          break;
        const ValueUse &use = b.inputUse(consumer, v);
        if (use.backwardReads ||
            (again[consumer - of.firstLayer] && b.readsAgain(p, consumer, use)))
          last = std::max(last, consumer);
      }
    need |= last > l;
    for (int m = l + 1; m <= last; ++m)
      joined[m - of.firstLayer] = 1;
  }
}

/// Of about equal time, and at the first backward.
void PhaseBuilder::cutParts(int p) {
  const Phase &of = b.phase(p);
  PhaseInfo &info = b.phases[p];
  int runs = std::min(choices.runs, Choices::mostRuns);
  stepEnds.clear();
  double total = 0;
  if (runs > 1)
    for (Step step : of.steps)
      stepEnds.push_back(total += stepSeconds(problem, of, step));
  info.firstStep = static_cast<int>(b.partOfStep.size());
  info.parts.begin = static_cast<int>(b.parts.size());
  int cuts = 1;
  for (int s = 0; s <= b.lastStep(p); ++s) {
    bool cut = s == 0 || s == info.firstBackward;
    for (; s > 0 && cuts < runs && stepEnds[s - 1] >= total * cuts / runs;
         ++cuts)
      cut = true;
    if (cut)
      b.parts.push_back({s, -1});
    b.partOfStep.push_back(static_cast<signed char>(
        static_cast<int>(b.parts.size()) - info.parts.begin - 1));
  }
  info.parts.end = static_cast<int>(b.parts.size());
}

/// In each direction, by samples.
void PhaseBuilder::numberMicrobatches() {
  auto isBefore = [&](int x, int y) {
    return b.phase(x).firstSample < b.phase(y).firstSample;
  };
  for (bool backward : {false, true})
    for (int l = 0; l < problem.layerCount(); ++l) {
      bySample = backward ? b.backwardPhases[l] : b.forwardPhases[l];
      if (!std::is_sorted(bySample.begin(), bySample.end(), isBefore))
        std::sort(bySample.begin(), bySample.end(), isBefore);
      int64_t number = 0;
      for (int p : bySample) {
        Phase &of = b.draft.plan.phases[p];
        if (of.firstLayer == l && backward == (of.kind == PhaseKind::Backward))
          of.firstMicrobatch = number;
        number += of.trips;
      }
    }
}

void PhaseBuilder::makeRuns() {
  for (int p = 0; p < b.phaseCount(); ++p)
    for (int part = 0; part < b.partCount(p); ++part) {
      int first = b.partAt(p, part).step;
      bool begins = part == 0 || choices.runs > 1 || first == b.phases[p].split;
      int run =
          begins ? makeRun(p, first, b.lastStep(p) + 1) : b.runOf(p, part - 1);
      b.partAt(p, part).run = run;
      if (begins && part > 0)
        b.events[b.runOf(p, part - 1)].endStep = first;
    }
}

int PhaseBuilder::makeRun(int p, int first, int end) {
  int event =
      b.makeEvent(EventKind::Run, b.phase(p).device, computeLane, -1, -1, p);
  b.events[event].firstStep = first;
  b.events[event].endStep = end;
  return event;
}

} // namespace harmony::planner
