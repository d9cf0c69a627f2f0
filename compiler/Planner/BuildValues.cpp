//===- BuildValues.cpp - Activations and their gradients ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildContext.h"

#include <algorithm>

namespace harmony::planner {

namespace {

/// One use of a value (or of its gradient) by a phase.
struct Access {
  int phase = 0;
  bool writes = false;
};

class ValueBuilder {
public:
  explicit ValueBuilder(BuildContext &context)
      : b(context), problem(context.problem), choices(context.choices) {}

  void run() {
    for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
      addValue(v);
      if (problem.values[v].differentiable)
        addValueGradient(v);
    }
  }

private:
  BuildContext &b;
  const Problem &problem;
  const Choices &choices;

  /// Phases that use a value as Content::Value, ascending: its producer's, and
  /// those that read it without making it again.
  std::vector<Access> valueAccesses(int v) const {
    const Value &value = problem.values[v];
    std::vector<Access> accesses;
    if (!value.isInput())
      accesses.push_back({b.forwardPhase[value.producer], true});
    for (int consumer : value.consumers) {
      accesses.push_back({b.forwardPhase[consumer], false});
      int back = b.backwardPhase[consumer];
      if (back >= 0 && backwardReads(v, consumer, b.draft.plan.phases[back]))
        accesses.push_back({back, false});
    }
    return merge(std::move(accesses));
  }

  /// Whether a consumer's backward phase reads the value itself rather than a
  /// copy that the phase makes again.
  bool backwardReads(int v, int consumer, const Phase &phase) const {
    bool read = b.inputUse(consumer, v).backwardReads;
    if (phase.kind != PhaseKind::Backward || phase.keep)
      return read;
    int producer = problem.values[v].producer;
    if (producer >= phase.firstLayer)
      return false;
    return read || b.findStep(consumer, StepKind::Recompute) >= 0;
  }

  static std::vector<Access> merge(std::vector<Access> accesses) {
    std::sort(
        accesses.begin(), accesses.end(),
        [](const Access &a, const Access &b) { return a.phase < b.phase; });
    std::vector<Access> merged;
    for (const Access &access : accesses)
      if (!merged.empty() && merged.back().phase == access.phase)
        merged.back().writes |= access.writes;
      else
        merged.push_back(access);
    return merged;
  }

  bool staysBetween(Place place, int from, int to) const {
    return choices.stay && (place == Place::Device ||
                            (place == Place::Adjacent && to == from + 1));
  }

  void addValue(int v) {
    const Value &value = problem.values[v];
    std::vector<Access> accesses = valueAccesses(v);
    addRecomputed(v);
    if (accesses.empty())
      return;
    if (accesses.size() == 1 && !value.isInput() && !value.output) {
      addInner(v, accesses[0].phase, StepKind::Forward, Content::Value);
      return;
    }
    addValueSegments(v, Content::Value, accesses, choices.place[v]);
  }

  /// A value (or gradient) that crosses phases: a buffer for each stretch that
  /// it stays on the device, transfers in between.
  void addValueSegments(int v, Content content,
                        const std::vector<Access> &accesses, Place place) {
    const Value &value = problem.values[v];
    bool gradient = content == Content::ValueGradient;
    int64_t bytes = value.bytes(choices.phases[0].microbatch);
    HomeKind kind = gradient ? HomeKind::ValueGradient : HomeKind::Value;
    EventKind load =
        gradient ? EventKind::LoadValueGradient : EventKind::LoadValue;
    EventKind store =
        gradient ? EventKind::StoreValueGradient : EventKind::StoreValue;
    for (size_t begin = 0; begin < accesses.size();) {
      size_t end = begin + 1;
      while (end < accesses.size() &&
             staysBetween(place, accesses[end - 1].phase, accesses[end].phase))
        ++end;
      int first = accesses[begin].phase, last = accesses[end - 1].phase;
      int64_t slots = first == last
                          ? std::min<int64_t>(choices.slots, b.trips())
                          : b.trips();
      int buffer =
          b.makeBuffer(content, v, -1, bytes, slots, b.wholeRuns(first, last));
      for (size_t i = begin; i < end; ++i)
        b.touch(b.runs[accesses[i].phase], buffer, accesses[i].writes);
      bool input = !gradient && value.isInput();
      if (begin > 0 || input) {
        int place = input ? -1 : b.home(kind, v, -1, bytes, b.trips());
        int event =
            b.makeTransfer(load, inValues, v, -1, first, bytes, buffer, place);
        b.sections[first].before.push_back(event);
        b.beginAt(buffer, event);
      }
      // A value is written once, by its producer; a gradient by every phase but
      // the last.
      bool more = end < accesses.size();
      bool stores =
          gradient ? more : begin == 0 && !input && (more || value.output);
      if (stores) {
        int phase = gradient ? last : first;
        int event =
            b.makeTransfer(store, outValues, v, -1, phase, bytes, buffer,
                           b.home(kind, v, -1, bytes, b.trips()));
        b.sections[phase].after.push_back(event);
        if (phase == last)
          b.endAt(buffer, event);
      }
      begin = end;
    }
  }

  /// A copy made again in the B phase of the producer.
  void addRecomputed(int v) {
    int producer = problem.values[v].producer;
    if (producer < 0 || b.backwardPhase[producer] < 0)
      return;
    const Phase &phase = b.draft.plan.phases[b.backwardPhase[producer]];
    if (phase.kind == PhaseKind::Backward && !phase.keep &&
        b.findStep(producer, StepKind::Recompute) >= 0)
      addInner(v, b.backwardPhase[producer], StepKind::Recompute,
               Content::RecomputedValue);
  }

  /// Scratch of one microbatch, from the step that makes the value to the last
  /// one of the phase that reads it.
  void addInner(int v, int p, StepKind made, Content content) {
    const Phase &phase = b.draft.plan.phases[p];
    int producer = problem.values[v].producer;
    int first = b.findStep(producer, made), last = first;
    for (int consumer : problem.values[v].consumers) {
      if (consumer > phase.lastLayer)
        break;
      last = std::max(last, b.findStep(consumer, made));
      if (b.backwardPhase[consumer] == p &&
          b.inputUse(consumer, v).backwardReads)
        last = std::max(last, b.findStep(consumer, StepKind::Backward));
    }
    b.touch(b.runs[p],
            b.makeBuffer(content, v, -1,
                         problem.values[v].bytes(choices.phases[0].microbatch),
                         1, b.steps(p, first, last)),
            true);
  }

  void addValueGradient(int v) {
    const Value &value = problem.values[v];
    std::vector<Access> accesses;
    int lastConsumer = -1;
    for (int consumer : value.consumers)
      if (b.inputUse(consumer, v).gradient) {
        accesses.push_back({b.backwardPhase[consumer], true});
        lastConsumer = consumer;
      }
    int producerPhase = b.backwardPhase[value.producer];
    accesses.push_back({producerPhase, false});
    accesses = merge(std::move(accesses));
    if (accesses.size() > 1) {
      addValueSegments(v, Content::ValueGradient, accesses,
                       choices.gradientPlace[v]);
      return;
    }
    b.touch(
        b.runs[producerPhase],
        b.makeBuffer(Content::ValueGradient, v, -1,
                     value.bytes(choices.phases[0].microbatch), 1,
                     b.steps(producerPhase,
                             b.findStep(lastConsumer, StepKind::Backward),
                             b.findStep(value.producer, StepKind::Backward))),
        true);
  }
};

} // namespace

void buildValues(BuildContext &context) { ValueBuilder(context).run(); }

} // namespace harmony::planner
