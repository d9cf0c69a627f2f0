//===- BuildContext.h - What the parts of build() share ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan under construction: events in order of creation, sorted into the
// sections of their phases, and buffers whose live ranges name events.
// Build.cpp makes the phases and, at the end, the order; BuildTensors.cpp and
// BuildValues.cpp add what the phases need.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDCONTEXT_H
#define COMPILER_PLANNER_BUILDCONTEXT_H

#include "compiler/Planner/Build.h"

namespace harmony::planner {

/// The queues of one device, by their index in Plan::queues.
enum Lane { computeLane, inTensors, inValues, outTensors, outValues, hostLane };

/// Events of one phase, by the part of the order they belong to. The last
/// section holds what follows all phases.
struct Section {
  std::vector<int> loads, lateLoads, zeros, before, after, updates, storesNow,
      stores;
};

/// A live range by events rather than by their place in the order.
struct Range {
  int first, firstStep, last, lastStep;
};

class BuildContext {
public:
  BuildContext(const Problem &problem, const Choices &choices)
      : problem(problem), choices(choices) {}

  const Problem &problem;
  const Choices &choices;
  Draft draft;
  std::vector<Section> sections;  ///< by phase, and one more
  std::vector<int> runs;          ///< event of each phase
  std::vector<int> forwardPhase;  ///< of each layer
  std::vector<int> backwardPhase; ///< of each layer, -1: none
  std::vector<int> stepIndex[3];  ///< by StepKind and layer, -1: none
  std::vector<Event> events;      ///< in order of creation
  std::vector<Range> ranges;      ///< of draft.plan.buffers
  std::vector<int> prefix;        ///< events before all phases

  /// Range::first of a buffer that is live throughout.
  static constexpr int alwaysLive = -1;

  int phaseCount() const { return static_cast<int>(draft.plan.phases.size()); }
  int64_t trips() const { return problem.batch / choices.phases[0].microbatch; }

  /// The step of a layer in its forward or backward phase, or -1.
  int findStep(int layer, StepKind kind) const {
    return stepIndex[static_cast<int>(kind)][layer];
  }

  const ValueUse &inputUse(int layer, int value) const {
    for (const ValueUse &use : problem.layers[layer].inputs)
      if (use.value == value)
        return use;
    throw Error("layer '" + problem.layers[layer].name +
                "' does not read the value it consumes");
  }

  int makeEvent(EventKind kind, Lane lane, int object, int use, int phase) {
    Event event;
    event.kind = kind;
    event.queue = lane;
    event.object = object;
    event.use = use;
    event.phase = phase;
    event.trips = phase >= 0 ? trips() : 1;
    events.push_back(std::move(event));
    return static_cast<int>(events.size()) - 1;
  }

  int makeTransfer(EventKind kind, Lane lane, int object, int use, int phase,
                   int64_t bytes, int buffer, int home) {
    int event = makeEvent(kind, lane, object, use, phase);
    events[event].bytes = bytes;
    bool in = lane == inTensors || lane == inValues;
    touch(event, buffer, in);
    if (home >= 0)
      draft.homeTouches.push_back({event, home, !in});
    return event;
  }

  void touch(int event, int buffer, bool writes) {
    draft.bufferTouches.push_back({event, buffer, writes});
  }

  int makeBuffer(Content content, int object, int use, int64_t slotBytes,
                 int64_t slots, Range range) {
    Buffer buffer;
    buffer.content = content;
    buffer.object = object;
    buffer.use = use;
    buffer.slotBytes = slotBytes;
    buffer.slots = slots;
    buffer.stride = slots > 1 ? (slotBytes + bufferAlignment - 1) /
                                    bufferAlignment * bufferAlignment
                              : slotBytes;
    buffer.persistent = range.first == alwaysLive;
    draft.plan.buffers.push_back(buffer);
    ranges.push_back(range);
    return static_cast<int>(ranges.size()) - 1;
  }

  int lastStep(int phase) const {
    return static_cast<int>(draft.plan.phases[phase].steps.size()) - 1;
  }
  /// Live throughout the Runs of first..last: what outlasts one iteration.
  Range wholeRuns(int first, int last) const {
    return {runs[first], 0, runs[last], lastStep(last)};
  }
  Range steps(int phase, int first, int last) const {
    return {runs[phase], first, runs[phase], last};
  }
  Range always() const { return {alwaysLive, 0, alwaysLive, 0}; }
  void beginAt(int buffer, int event) {
    ranges[buffer].first = event;
    ranges[buffer].firstStep = 0;
  }
  void endAt(int buffer, int event) {
    ranges[buffer].last = event;
    ranges[buffer].lastStep = 0;
  }

  int home(HomeKind kind, int object, int use, int64_t slotBytes,
           int64_t slots) {
    int &index = homeIndex(kind, object, use);
    if (index < 0) {
      index = static_cast<int>(draft.plan.homes.size());
      draft.plan.homes.push_back({kind, object, use, 0, slotBytes * slots});
    }
    return index;
  }
  std::vector<std::vector<int>> homeTables[6];
  int &homeIndex(HomeKind kind, int object, int use) {
    auto &table = homeTables[static_cast<int>(kind)];
    if (static_cast<int>(table.size()) <= object)
      table.resize(object + 1);
    auto &row = table[object];
    if (static_cast<int>(row.size()) <= use + 1)
      row.resize(use + 2, -1);
    return row[use + 1];
  }
  int tensorHome(int t) {
    return home(HomeKind::Tensor, t, -1, problem.tensors[t].bytes, 1);
  }
  int stateHome(int t) {
    return home(HomeKind::State, t, -1, problem.tensors[t].stateBytes, 1);
  }
};

/// Loads and stores of tensors, gradients, and updates.
void buildTensors(BuildContext &context);
/// Values, recomputed values and value gradients.
void buildValues(BuildContext &context);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDCONTEXT_H
