//===- Build.cpp - Events and live ranges from choices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildContext.h"

#include <algorithm>
#include <set>

namespace harmony::planner {

namespace {

class Builder : BuildContext {
public:
  using BuildContext::BuildContext;

  Draft build() {
    size_t size = 2 * (problem.tensors.size() + problem.values.size() +
                       problem.layers.size());
    events.reserve(3 * size);
    ranges.reserve(2 * size);
    draft.plan.buffers.reserve(2 * size);
    draft.bufferTouches.reserve(4 * size);
    makePhases();
    indexSteps();
    sections.resize(static_cast<size_t>(phaseCount()) + 1);
    for (int p = 0; p < phaseCount(); ++p) {
      runs.push_back(makeEvent(EventKind::Run, computeLane, -1, -1, p));
      events.back().endStep = lastStep(p) + 1;
    }
    for (int p = 0; p < phaseCount(); ++p)
      addSteps(p);
    addScalars();
    buildTensors(*this);
    buildValues(*this);
    return finish();
  }

private:
  //===--- phases ---===//

  void makePhases() {
    forwardPhase.resize(problem.layers.size());
    backwardPhase.assign(problem.layers.size(), -1);
    for (const PhaseChoice &choice : choices.phases) {
      Phase phase{choice.device,
                  choice.kind,
                  choice.firstLayer,
                  choice.lastLayer,
                  choice.microbatch,
                  choice.firstSample,
                  choice.trips,
                  0,
                  choice.group,
                  choice.keep,
                  {}};
      if (phase.kind != PhaseKind::Backward)
        for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
          forwardPhase[l] = phaseCount();
          phase.steps.push_back({l, StepKind::Forward});
        }
      else if (!phase.keep)
        addRecomputeSteps(phase);
      if (phase.kind != PhaseKind::Forward)
        addBackwardSteps(phase);
      draft.plan.phases.push_back(std::move(phase));
    }
  }

  void addBackwardSteps(Phase &phase) {
    for (int l = phase.lastLayer; l >= phase.firstLayer; --l) {
      backwardPhase[l] = phaseCount();
      phase.steps.push_back({l, StepKind::Backward});
    }
  }

  void indexSteps() {
    for (std::vector<int> &index : stepIndex)
      index.assign(problem.layers.size(), -1);
    for (const Phase &phase : draft.plan.phases)
      for (size_t s = 0; s < phase.steps.size(); ++s)
        stepIndex[static_cast<int>(phase.steps[s].kind)][phase.steps[s].layer] =
            static_cast<int>(s);
  }

  /// The layers whose saved block or outputs something in the pack's backward
  /// needs.
  void addRecomputeSteps(Phase &phase) {
    std::vector<char> needed(problem.layers.size(), 0);
    for (int l = phase.lastLayer; l >= phase.firstLayer; --l) {
      needed[l] = problem.cost(l, phase.microbatch).savedBytes > 0;
      for (int v : problem.layers[l].outputs)
        for (int consumer : problem.values[v].consumers)
          if (consumer <= phase.lastLayer)
            needed[l] |=
                needed[consumer] || inputUse(consumer, v).backwardReads;
    }
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
      if (needed[l])
        phase.steps.push_back({l, StepKind::Recompute});
  }

  //===--- what one microbatch of a Run needs ---===//

  /// Saved blocks and workspaces.
  void addSteps(int p) {
    const Phase &phase = draft.plan.phases[p];
    for (int s = 0; s <= lastStep(p); ++s) {
      Step step = phase.steps[s];
      const Cost &cost = problem.cost(step.layer, phase.microbatch);
      bool backward = step.kind == StepKind::Backward;
      int64_t workspace =
          backward ? cost.backwardWorkspace : cost.forwardWorkspace;
      if (workspace > 0)
        touch(runs[p],
              makeBuffer(Content::Workspace, step.layer, -1, workspace, 1,
                         steps(p, s, s)),
              true);
      if (backward || cost.savedBytes == 0)
        continue;
      int until = phase.kind == PhaseKind::Forward
                      ? -1
                      : findStep(step.layer, StepKind::Backward);
      if (phase.keep) {
        int buffer = makeBuffer(Content::Saved, step.layer, -1, cost.savedBytes,
                                trips(), wholeRuns(p, keepingPhase(phase)));
        touch(runs[p], buffer, true);
        touch(runs[keepingPhase(phase)], buffer, false);
      } else {
        touch(runs[p],
              makeBuffer(Content::Saved, step.layer, -1, cost.savedBytes, 1,
                         steps(p, s, until < 0 ? s : until)),
              true);
      }
    }
  }

  /// The B phase of the pack of an F phase.
  int keepingPhase(const Phase &forward) const {
    return backwardPhase[forward.firstLayer];
  }

  //===--- scalars ---===//

  void addScalars() {
    std::set<int> forward, both; // phases of the loss layers
    for (int l = 0; l < problem.layerCount(); ++l)
      if (problem.layers[l].isLoss) {
        forward.insert(forwardPhase[l]);
        both.insert(forwardPhase[l]);
        if (backwardPhase[l] >= 0)
          both.insert(backwardPhase[l]);
      }
    int lastLoss = forward.empty() ? 0 : *forward.rbegin();

    int prologue = -1;
    for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s) {
      const Scalar &scalar = problem.scalars[s];
      bool seed = scalar.role == ScalarRole::Seed;
      int buffer =
          makeBuffer(Content::Scalar, s, -1, scalar.bytes, 1, always());
      int place = home(HomeKind::Scalar, s, -1, scalar.bytes, 1);
      if (seed && prologue < 0) {
        prologue = makeEvent(EventKind::Prologue, hostLane, -1, -1, -1);
        prefix.insert(prefix.begin(), prologue);
      }
      if (seed) {
        draft.homeTouches.push_back({prologue, place, true});
        prefix.push_back(makeTransfer(EventKind::LoadScalar, inValues, s, -1,
                                      -1, scalar.bytes, buffer, place));
      } else {
        int zero = makeEvent(EventKind::ZeroScalar, computeLane, s, -1, -1);
        touch(zero, buffer, true);
        prefix.push_back(zero);
        sections[lastLoss].storesNow.push_back(
            makeTransfer(EventKind::StoreScalar, outValues, s, -1, -1,
                         scalar.bytes, buffer, place));
      }
      for (int p : seed ? both : forward)
        touch(runs[p], buffer, !seed);
    }
  }

  //===--- the order ---===//

  static void append(std::vector<int> &to, const std::vector<int> &from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Draft finish() {
    std::vector<int> order = prefix;
    int count = phaseCount();
    bool overlap = choices.overlap;
    if (overlap)
      append(order, sections[0].loads);
    for (int p = 0; p <= count; ++p) {
      const Section &section = sections[p];
      if (!overlap)
        append(order, section.loads);
      else if (p < count)
        append(order, sections[p + 1].loads);
      append(order, section.lateLoads);
      append(order, section.zeros);
      append(order, section.before);
      if (p < count)
        order.push_back(runs[p]);
      append(order, section.after);
      append(order, section.updates);
      append(order, section.storesNow);
      if (!overlap)
        append(order, section.stores);
      else if (p > 0)
        append(order, sections[p - 1].stores);
    }
    if (overlap)
      append(order, sections[count].stores);
    return renumber(order);
  }

  Draft renumber(const std::vector<int> &order) {
    Plan &plan = draft.plan;
    plan.problem = problem.name;
    plan.batch = problem.batch;
    plan.update = choices.update;
    plan.events.reserve(order.size());
    plan.queues = {
        {QueueKind::Compute, 0, 0}, {QueueKind::In, 0, 0},
        {QueueKind::In, 0, 1},      {QueueKind::Out, 0, 0},
        {QueueKind::Out, 0, 1},     {QueueKind::Host, hostEndpoint, 0}};
    std::vector<int> index(events.size());
    for (size_t i = 0; i < order.size(); ++i) {
      index[order[i]] = static_cast<int>(i);
      plan.events.push_back(std::move(events[order[i]]));
    }
    const Event &tail = plan.events.back();
    int tailSteps = tail.kind == EventKind::Run ? lastStep(tail.phase) : 0;
    for (size_t b = 0; b < ranges.size(); ++b) {
      Buffer &buffer = plan.buffers[b];
      const Range &range = ranges[b];
      if (buffer.persistent) {
        buffer.last = {static_cast<int>(plan.events.size()) - 1, tailSteps};
        continue;
      }
      buffer.first = {index[range.first], range.firstStep};
      buffer.last = {index[range.last], range.lastStep};
    }
    for (auto *touches : {&draft.bufferTouches, &draft.homeTouches})
      for (Touch &touch : *touches)
        touch.event = index[touch.event];
    plan.traffic = trafficOf(plan, problem);
    return std::move(draft);
  }
};

} // namespace

Draft build(const Problem &problem, const Machine &, const Choices &choices) {
  return Builder(problem, choices).build();
}

} // namespace harmony::planner
