//===- Build.cpp - Events and live ranges from choices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildOrder.h"
#include "compiler/Planner/BuildPhases.h"
#include "compiler/Planner/BuildTensors.h"
#include "compiler/Planner/BuildValues.h"

#include <utility>

namespace harmony::planner {

std::vector<int> keepAll(const Problem &problem, int firstLayer,
                         int lastLayer) {
  std::vector<int> levels;
  for (int l = firstLayer; l <= lastLayer; ++l)
    levels.push_back(problem.levels(l));
  return levels;
}

class PlanBuilder::Builder : BuildContext {
public:
  Builder(const Problem &problem, const Machine &machine)
      : BuildContext(problem, machine), phaseBuilder(*this), tensors(*this),
        values(*this), orderBuilder(*this) {}

  Draft &build(const Choices &from) {
    make(from, /*forPeaks=*/false);
    orderBuilder.number();
    return draft;
  }

  Peaks peaks(const Choices &from) {
    make(from, /*forPeaks=*/true);
    return {orderBuilder.livePeaks(), static_cast<int64_t>(events.size())};
  }

private:
  PhaseBuilder phaseBuilder;
  TensorBuilder tensors;
  ValueBuilder values;
  OrderBuilder orderBuilder;
  std::vector<std::pair<int, int>> users;  ///< (device, phase) of a seed
  std::vector<std::pair<int, int>> adders; ///< (group, phase) of an accumulator

  void make(const Choices &from, bool forPeaks) {
    choices = from;
    peaksOnly = forPeaks;
    clear();
    phaseBuilder.makePhases();
    sections.assign(static_cast<size_t>(phaseCount()) + 1, {});
    tensors.plan();
    values.link();
    phaseBuilder.makeRuns();
    for (int p = 0; p < phaseCount(); ++p)
      addSteps(p);
    addScalars();
    tensors.emit();
    values.emit();
    orderBuilder.arrange();
  }

  //===--- what one microbatch of a Run needs ---===//

  /// Saved blocks and workspaces.
  void addSteps(int p) {
    const Phase &of = phase(p);
    for (int s = 0; s <= lastStep(p); ++s) {
      Step step = of.steps[s];
      const Cost &cost = problem.cost(step.layer, of.microbatch);
      bool backward = step.kind == StepKind::Backward;
      int level = of.level(step.layer);
      int64_t workspace = backward ? cost.backwardWorkspace
                          : step.kind == StepKind::Recompute
                              ? cost.recomputeWorkspace(level)
                              : cost.forwardWorkspace;
      if (workspace > 0)
        touchSteps(p,
                   makeBuffer(Content::Workspace, of.device, step.layer, -1,
                              workspace),
                   true, s, s);
      if (backward)
        continue;
      if (step.kind == StepKind::Forward && cost.keptBytes(level) > 0)
        addKept(p, step.layer, cost.keptBytes(level));
      if (cost.restBytes(level) == 0)
        continue;
      int buffer = makeBuffer(Content::Saved, of.device, step.layer, -1,
                              cost.restBytes(level), 1, of.firstSample);
      int until = findStep(p, step.layer, StepKind::Backward);
      touchSteps(p, buffer, true, s, until < 0 ? s : until);
    }
  }

  /// What stays of a saved block from F to B.
  void addKept(int forward, int layer, int64_t bytes) {
    const Phase &from = phase(forward);
    int buffer = makeBuffer(Content::Saved, from.device, layer, keptPart, bytes,
                            from.trips, from.firstSample);
    int to = keepingPhase(forward, layer);
    Parts made = partsOf(forward, layer, StepKind::Forward);
    touchRuns(forward, made, buffer, made);
    touchRuns(to,
              partsOf(to, layer, StepKind::Recompute) |
                  partsOf(to, layer, StepKind::Backward),
              buffer, 0);
  }

  /// The B phase that has what an F phase keeps of a layer.
  int keepingPhase(int forward, int layer) const {
    const Phase &from = phase(forward);
    for (int p : backwardPhases[layer]) {
      const Phase &to = phase(p);
      if (phases[p].chain == phases[forward].chain &&
          to.device == from.device && to.level(layer) == from.level(layer))
        return p;
    }
    throw Error("phase " + std::to_string(forward) + " keeps layer " +
                std::to_string(layer) + " at level " +
                std::to_string(from.level(layer)) +
                ", but no backward phase on device " +
                std::to_string(from.device) + " has the same");
  }

  //===--- scalars ---===//

  void addScalars() {
    int prologue = -1;
    for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s) {
      if (problem.scalars[s].role == ScalarRole::Seed) {
        if (prologue < 0) {
          prologue = makeHostEvent(EventKind::Prologue, -1);
          issues[prologue].next = prefix.first;
          prefix.first = prologue;
          prefix.last = prefix.last < 0 ? prologue : prefix.last;
          touchStepScalars(prologue, true);
        }
        addSeed(s, prologue);
      } else if (problem.scalars[s].role == ScalarRole::Accumulator) {
        addAccumulator(s);
      }
    }
    if (problem.epilogue) {
      epilogue = makeHostEvent(EventKind::Epilogue, -1);
      touchStepScalars(epilogue, true);
    }
  }

  /// On every device that runs a loss layer.
  void addSeed(int s, int prologue) {
    int64_t bytes = problem.scalars[s].bytes;
    int place = home(HomeKind::Scalar, s, -1, bytes);
    touchHome(prologue, place, true);
    users.clear();
    for (int l = 0; l < problem.layerCount(); ++l)
      if (problem.layers[l].isLoss)
        for (const auto *list : {&forwardPhases[l], &backwardPhases[l]})
          for (int p : *list)
            users.push_back({phase(p).device, p});
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    int last = -1, buffer = -1;
    for (auto [device, p] : users) {
      if (device != last) {
        buffer = makePersistent(Content::Scalar, device, s, -1, bytes);
        append(prefix, makeTransfer(EventKind::LoadScalar, inValues, s, -1, -1,
                                    bytes, buffer, place));
      }
      last = device;
      touchRuns(p, partsOfLoss(p), buffer, 0);
    }
  }

  Parts partsOfLoss(int p) const {
    Parts parts = 0;
    for (int l = phase(p).firstLayer; l <= phase(p).lastLayer; ++l)
      if (problem.layers[l].isLoss)
        for (StepKind kind :
             {StepKind::Forward, StepKind::Recompute, StepKind::Backward})
          parts |= partsOf(p, l, kind);
    return parts;
  }

  /// One for each group, where its loss layer is.
  void addAccumulator(int s) {
    const Scalar &scalar = problem.scalars[s];
    adders.clear();
    for (int p : forwardPhases[scalar.layer])
      adders.push_back({phase(p).group, p});
    std::sort(adders.begin(), adders.end());
    for (auto first = adders.begin(), end = first; first != adders.end();
         first = end) {
      int group = first->first, device = phase(first->second).device;
      int buffer =
          makePersistent(Content::Scalar, device, s, group, scalar.bytes);
      int zero =
          makeEvent(EventKind::ZeroScalar, device, computeLane, s, group, -1);
      touch(zero, buffer, true);
      append(prefix, zero);
      for (; end != adders.end() && end->first == group; ++end) {
        int p = end->second;
        if (phase(p).device != device)
          throw Error("scalar '" + scalar.name + "' is added to on devices " +
                      std::to_string(device) + " and " +
                      std::to_string(phase(p).device) + " of one group");
        Parts adds = partsOf(p, scalar.layer, StepKind::Forward);
        touchRuns(p, adds, buffer, adds);
      }
      append(sections[std::prev(end)->second].storesNow,
             makeTransfer(EventKind::StoreScalar, outValues, s, group, -1,
                          scalar.bytes, buffer,
                          home(HomeKind::Scalar, s, group, scalar.bytes)));
    }
  }
};

PlanBuilder::PlanBuilder(const Problem &problem, const Machine &machine)
    : builder(std::make_unique<Builder>(problem, machine)) {}
PlanBuilder::~PlanBuilder() = default;

Draft &PlanBuilder::build(const Choices &choices) {
  return builder->build(choices);
}

PlanBuilder::Peaks PlanBuilder::peaks(const Choices &choices) {
  return builder->peaks(choices);
}

Draft build(const Problem &problem, const Machine &machine,
            const Choices &choices) {
  return std::move(PlanBuilder(problem, machine).build(choices));
}

} // namespace harmony::planner
