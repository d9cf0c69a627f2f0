//===- BuildContext.h - What the parts of build() share ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan under construction: events in order of creation, sorted into the
// sections of their phases, and buffers which are live from their first use to
// their last in the order that the sections give.
//
// build() goes through four stages:
//   phases   steps, and what each phase follows (BuildPhases.cpp)
//   tensors  who uses, owns and updates them (BuildTensors.cpp)
//   values   how each gets from phase to phase, and which of the buffers in
//            between may be rings (LinkValues.cpp)
//   events   of all of these (BuildUpdates.cpp, BuildValues.cpp), and at the
//            end their order (BuildOrder.cpp)
// A search builds hundreds of plans of one problem. All that build() needs on
// the way is kept from one to the next: lists are arrays that are emptied, and
// lists of lists are ranges of one array or chains through one.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDCONTEXT_H
#define COMPILER_PLANNER_BUILDCONTEXT_H

#include "compiler/Planner/Build.h"

#include <algorithm>

namespace harmony::planner {

/// Parts of a phase's steps: bit i is part i of PhaseInfo::parts.
using Parts = uint64_t;

/// Elements [begin, end) of an array that may still grow.
struct Range {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

/// To visit them.
template <typename T>
struct Elements {
  T *first, *last;
  T *begin() const { return first; }
  T *end() const { return last; }
};
template <typename T>
Elements<T> elementsOf(std::vector<T> &of, Range range) {
  return {of.data() + range.begin, of.data() + range.end};
}
template <typename T>
Elements<const T> elementsOf(const std::vector<T> &of, Range range) {
  return {of.data() + range.begin, of.data() + range.end};
}

/// Those from `begin` on by phase, ascending; those of one phase become one.
/// Only phases and what is touched are known by now: of the rest, one access is
/// kept.
template <typename Access>
Range mergeByPhase(std::vector<Access> &accesses, int begin) {
  auto first = accesses.begin() + begin;
  auto isBefore = [](const Access &a, const Access &b) {
    return a.phase < b.phase;
  };
  if (!std::is_sorted(first, accesses.end(), isBefore))
    std::sort(first, accesses.end(), isBefore);
  auto kept = first;
  for (auto it = first; it != accesses.end(); ++it)
    if (kept != first && std::prev(kept)->phase == it->phase) {
      std::prev(kept)->parts |= it->parts;
      std::prev(kept)->writes |= it->writes;
    } else {
      *kept++ = *it;
    }
  accesses.erase(kept, accesses.end());
  return {begin, static_cast<int>(accesses.size())};
}

/// The queues of a device.
enum Lane {
  computeLane,
  inTensors,
  inValues,
  outTensors,
  outValues,
  peerTensors,
  peerValues,
  peerGradients,
  laneCount
};

/// Events in order; an event is in one list at most (BuildContext::append).
struct EventList {
  int first = -1, last = -1;
  bool empty() const { return first < 0; }
};

/// Where an event stands in the order, beside its list.
struct Issue {
  int next = -1; ///< in its list
  /// Of loads and gathers the first part of the phase that needs them, by which
  /// they are issued; see Section::among; 0 elsewhere.
  int neededBy = 0;
  /// Of Section::values: the part in front of whose Run it is issued.
  int part = 0;
};

/// Events of one phase, by the part of the order they belong to. The last
/// section holds what follows all phases.
struct Section {
  /// Tensors that several devices get together, before all else.
  EventList gathers;
  EventList loads, lateLoads, zeros;
  /// Loads of values and their gradients.
  EventList values;
  EventList after, contributions;
  /// Parts of gradients that go to the device that updates while the phase
  /// still runs.
  EventList collected;
  EventList updates, storesNow, stores;
  /// Updates, and what they load and store, that stand among the Runs of the
  /// phase, each behind its part Issue::neededBy; -1: in front of all.
  EventList among;
  /// On the host, behind the stores that are issued with this phase.
  EventList hostContributions, hostUpdates;
};

/// What build() knows of a phase beside the plan.
struct PhaseInfo {
  /// What may be a Run of its own, in BuildContext::parts. At most 64.
  Range parts;
  /// Where its steps begin in BuildContext::partOfStep.
  int firstStep = 0;
  /// Where not 0, a Run begins at this step, and gradients of outputs come in
  /// front of it rather than of the phase.
  int split = 0;
  /// The phases before and behind on the device; -1 and the number of phases
  /// where there is none. `ordinal`: how many are before.
  int previous = -1, next = 0;
  /// Phases that go on with a pack are one block. Its first phase; the first
  /// one of the device's block before, -1: none; how many blocks are before.
  int block = 0, blockBefore = -1, ordinal = 0;
  /// Phases with the same samples and microbatches are a chain.
  int chain = 0, position = 0;
  int firstBackward = 0; ///< step
  /// Of a B phase: where its layers begin in BuildContext::stepsOfLayer.
  int layerSteps = 0;
  /// The latest phase that must be over before this one begins, beyond what
  /// values give microbatch by microbatch; -1: none.
  int follows = -1;
  /// The earliest phase that can be held up by this one through rings.
  int root = 0;
  /// The first of the phases that run a pack side by side, one microbatch and
  /// one group each, and the one behind the last: their Runs are issued in
  /// turn, so that what one Run of all leaves is there before the next.
  int band = 0, bandEnd = 0;
};

/// A part of a phase.
struct PhasePart {
  int step = 0; ///< the first
  int run = -1; ///< event; equal for parts that are one Run
};

/// The steps of a layer in a B phase; -1: none.
struct LayerSteps {
  int recompute = -1, backward = -1;
};

class BuildContext {
public:
  BuildContext(const Problem &problem, const Machine &machine);

  const Problem &problem;
  const Machine &machine;
  const bool forwardsWrite;
  Choices choices; ///< of the plan at hand
  /// Memory alone is asked for: buffers and where they are live.
  bool peaksOnly = false;
  bool deferred = false; ///< updates
  Draft draft;
  std::vector<Section> sections; ///< by phase, and one more
  std::vector<PhaseInfo> phases;
  std::vector<PhasePart> parts;         ///< by phase and part, steps ascending
  std::vector<signed char> partOfStep;  ///< by phase and step
  std::vector<LayerSteps> stepsOfLayer; ///< by phase and layer
  std::vector<std::vector<int>> devicePhases;                  ///< ascending
  std::vector<std::vector<int>> forwardPhases, backwardPhases; ///< by layer
  int chainCount = 0;
  std::vector<Event> events; ///< in order of creation; see queueOf
  std::vector<Issue> issues; ///< by event
  EventList prefix;          ///< before all phases
  EventList firstGathers;    ///< likewise
  int epilogue = -1;         ///< event
  /// By device: sections of other devices' phases in which it updates, or
  /// parts of gradients leave it.
  std::vector<std::vector<int>> foreignWork;

  //===--- phases ---===//

  int phaseCount() const { return static_cast<int>(phases.size()); }
  const Phase &phase(int p) const { return draft.plan.phases[p]; }
  int lastStep(int p) const {
    return static_cast<int>(phase(p).steps.size()) - 1;
  }

  /// The step of a layer in a phase, or -1.
  int findStep(int p, int layer, StepKind kind) const {
    const Phase &of = phase(p);
    if (layer < of.firstLayer || layer > of.lastLayer)
      return -1;
    if (of.kind == PhaseKind::Backward) {
      const LayerSteps &steps =
          stepsOfLayer[phases[p].layerSteps + layer - of.firstLayer];
      return kind == StepKind::Recompute  ? steps.recompute
             : kind == StepKind::Backward ? steps.backward
                                          : -1;
    }
    switch (kind) {
    case StepKind::Forward:
      return layer - of.firstLayer;
    case StepKind::Recompute:
      return -1;
    case StepKind::Backward:
      return of.kind == PhaseKind::Forward
                 ? -1
                 : phases[p].firstBackward + of.lastLayer - layer;
    }
    return -1;
  }

  /// Whether a B phase makes the outputs of a layer again.
  bool makesAgain(int p, int layer) const {
    return findStep(p, layer, StepKind::Recompute) >= 0 &&
           phase(p).level(layer) == 0;
  }

  /// Whether the recomputation of a layer in a B phase, if there is one, reads
  /// what is used.
  template <typename Use>
  bool readsAgain(int p, int layer, const Use &use) const {
    return phase(p).level(layer) < use.recomputeReads;
  }

  /// The phase behind which `p`'s delayed stores are issued.
  int storePoint(int p) const { return choices.overlap ? phases[p].next : p; }
  /// The first phase on a device behind `p`, or the number of phases.
  int nextOn(int device, int p) const;
  /// The ordinal of the last phase of a device that is not behind `p`, -1:
  /// none; one more where `p` is the number of phases.
  int ordinalOn(int device, int p) const;
  /// `phase` begins when `before` is over.
  void couple(int before, int phase) {
    if (phase < phaseCount())
      phases[phase].follows = std::max(phases[phase].follows, before);
  }

  const ValueUse &inputUse(int layer, int value) const {
    for (const ValueUse &use : problem.layers[layer].inputs)
      if (use.value == value)
        return use;
    throw Error("layer '" + problem.layers[layer].name +
                "' does not read the value it consumes");
  }
  /// What is gathered with a phase, or before all (-1).
  EventList &gathersAt(int p) {
    return p < 0 ? firstGathers : sections[p].gathers;
  }
  bool canCopy(int from, int to) const {
    return choices.peers && from != to &&
           static_cast<size_t>(std::max(from, to)) < linkStride &&
           linked[from * linkStride + to];
  }

  //===--- events ---===//

  /// The host's queues are numbered downwards from here, by lane.
  static constexpr int hostQueue = -1;
  static int queueOf(int device, Lane lane) {
    return device * laneCount + lane;
  }

  int makeEvent(EventKind kind, int device, Lane lane, int object, int use,
                int phase) {
    Event &event = events.emplace_back();
    event.kind = kind;
    event.queue = queueOf(device, lane);
    event.device = device;
    event.object = object;
    event.use = use;
    event.phase = phase;
    event.trips = phase >= 0 ? draft.plan.phases[phase].trips : 1;
    issues.emplace_back();
    return static_cast<int>(events.size()) - 1;
  }
  void append(EventList &list, int event) {
    (list.empty() ? list.first : issues[list.last].next) = event;
    list.last = event;
  }
  /// All of `from`, which is empty then.
  void append(EventList &list, EventList &from) {
    if (from.empty())
      return;
    (list.empty() ? list.first : issues[list.last].next) = from.first;
    list.last = from.last;
    from = {};
  }
  /// On the host's queue for what belongs to a device.
  int makeHostEvent(EventKind kind, int object, int device = 0) {
    int event = makeEvent(kind, 0, computeLane, object, -1, -1);
    events[event].queue = hostQueue - device % machine.hostQueues;
    return event;
  }

  /// Between a buffer and a home (-1: the batch memory).
  int makeTransfer(EventKind kind, Lane lane, int object, int use, int phase,
                   int64_t bytes, int buffer, int home) {
    int event = makeEvent(kind, draft.plan.buffers[buffer].device, lane, object,
                          use, phase);
    events[event].bytes = bytes;
    bool in = lane == inTensors || lane == inValues;
    touch(event, buffer, in);
    if (home >= 0)
      touchHome(event, home, !in);
    return event;
  }

  /// From a device to another.
  int makeCopy(EventKind kind, Lane lane, int object, int use, int phase,
               int64_t bytes, int from, int to) {
    int source = draft.plan.buffers[from].device;
    int event = makeEvent(kind, source, lane, object, use, phase);
    events[event].source = source;
    events[event].device = draft.plan.buffers[to].device;
    events[event].bytes = bytes;
    touch(event, from, false);
    touch(event, to, true);
    return event;
  }

  /// An event moves a slice of what its buffers and home hold.
  void slice(int event, int64_t firstByte, int64_t bytes) {
    events[event].firstByte = firstByte;
    events[event].bytes = bytes;
    for (auto *touches : {&draft.bufferTouches, &draft.homeTouches})
      for (auto it = touches->rbegin();
           it != touches->rend() && it->event == event; ++it) {
        it->offset = firstByte;
        it->bytes = bytes;
      }
  }

  //===--- buffers ---===//

  int makeBuffer(Content content, int device, int object, int use,
                 int64_t slotBytes, int64_t slots = 1,
                 int64_t firstSample = 0) {
    Buffer &buffer = draft.plan.buffers.emplace_back();
    buffer.content = content;
    buffer.device = device;
    buffer.object = object;
    buffer.use = use;
    buffer.firstSample = firstSample;
    buffer.slotBytes = slotBytes;
    buffer.slots = slots;
    buffer.stride = slots > 1 ? alignedBytes(slotBytes) : slotBytes;
    return static_cast<int>(draft.plan.buffers.size()) - 1;
  }
  /// Live throughout and across executions.
  int makePersistent(Content content, int device, int object, int use,
                     int64_t bytes) {
    int buffer = makeBuffer(content, device, object, use, bytes);
    draft.plan.buffers[buffer].persistent = true;
    return buffer;
  }

  void touchBuffer(int event, int buffer, bool writes) {
    if (!peaksOnly)
      draft.bufferTouches.push_back({event, buffer, writes});
  }
  void touch(int event, int buffer, bool writes) {
    touchBuffer(event, buffer, writes);
    cover(buffer, event, 0, 0);
  }
  /// Of no parts: 63 and 0.
  static int firstOf(Parts parts) {
    return parts == 0 ? 63 : __builtin_ctzll(parts);
  }
  static int lastOf(Parts parts) {
    return parts == 0 ? 0 : 63 - __builtin_clzll(parts);
  }
  /// Whether a phase is no loop, and other events may stand among its Runs.
  bool isOpen(int p) const { return choices.runs > 1 && phase(p).trips == 1; }
  int partCount(int p) const { return phases[p].parts.size(); }
  PhasePart &partAt(int p, int part) {
    return parts[phases[p].parts.begin + part];
  }
  const PhasePart &partAt(int p, int part) const {
    return parts[phases[p].parts.begin + part];
  }
  int runOf(int p, int part) const { return partAt(p, part).run; }
  int firstRun(int p) const { return runOf(p, 0); }
  int lastRun(int p) const { return runOf(p, partCount(p) - 1); }
  int partOf(int p, int step) const {
    return partOfStep[phases[p].firstStep + step];
  }
  /// The last step of a part.
  int partEnd(int p, int part) const {
    return part + 1 < partCount(p) ? partAt(p, part + 1).step - 1 : lastStep(p);
  }
  /// The part of a layer's step, none if there is no such step.
  Parts partsOf(int p, int layer, StepKind kind) const {
    int step = findStep(p, layer, kind);
    return step < 0 ? 0 : Parts(1) << partOf(p, step);
  }
  /// Steps of a phase touch a buffer that one microbatch does not outlive.
  void touchSteps(int p, int buffer, bool writes, int first, int last) {
    for (int part = partOf(p, first); part < partCount(p); ++part) {
      int run = runOf(p, part), begin = std::max(first, partAt(p, part).step);
      if (begin > last)
        break;
      while (part + 1 < partCount(p) && runOf(p, part + 1) == run)
        ++part;
      touchBuffer(run, buffer, writes);
      cover(buffer, run, begin, std::min(partEnd(p, part), last));
    }
  }
  /// Runs touch a buffer that stays over the microbatches of the phase: where
  /// there is one alone, from the first part that touches it to the last.
  /// `writes`: the parts among `touched` that write it. What only reads it is
  /// not waited for by who reads it too.
  void touchRuns(int p, Parts touched, int buffer, Parts writes) {
    int before = -1;
    for (Parts rest = peaksOnly ? 0 : touched; rest != 0; rest &= rest - 1) {
      int part = firstOf(rest);
      if (runOf(p, part) != before) {
        before = runOf(p, part);
        draft.bufferTouches.push_back({before, buffer, false});
      }
      draft.bufferTouches.back().writes |= writes >> part & 1;
    }
    int first = 0, last = partCount(p) - 1;
    if (phase(p).trips == 1 && touched != 0) {
      first = firstOf(touched);
      last = lastOf(touched);
    }
    int begin = partAt(p, first).step, end = partEnd(p, last);
    cover(buffer, runOf(p, first), begin, begin);
    cover(buffer, runOf(p, last), end, end);
  }
  /// The buffer is live at these steps, whoever touches it.
  void cover(int buffer, int event, int firstStep, int lastStep) {
    covers.push_back({buffer, event, firstStep, lastStep});
  }
  struct Cover {
    int buffer, event, firstStep, lastStep;
  };
  std::vector<Cover> covers;

  //===--- homes ---===//

  /// Where memory alone is asked for there are no homes.
  int home(HomeKind kind, int object, int use, int64_t bytes) {
    if (peaksOnly)
      return -1;
    int &index = homeIndex(kind, object, use);
    if (index < 0) {
      index = static_cast<int>(draft.plan.homes.size());
      draft.plan.homes.push_back({kind, object, use, 0, bytes});
    }
    return index;
  }
  int &homeIndex(HomeKind kind, int object, int use) {
    HomeTable &table = homeTables[static_cast<int>(kind)];
    return table.index[static_cast<size_t>(object) * table.uses + use + 1];
  }
  int tensorHome(int t) {
    return home(HomeKind::Tensor, t, -1, problem.tensors[t].bytes);
  }
  int stateHome(int t) {
    return home(HomeKind::State, t, -1, problem.tensors[t].stateBytes);
  }
  int gradientHome(int t, int part) {
    return home(HomeKind::Gradient, t, part, problem.tensors[t].gradientBytes);
  }
  void touchHome(int event, int home, bool writes) {
    if (!peaksOnly)
      draft.homeTouches.push_back({event, home, writes});
  }
  void touchStepScalars(int event, bool writes) {
    if (problem.epilogue && !peaksOnly)
      draft.scalarTouches.push_back({event, 0, writes});
  }

protected:
  /// Nothing is there yet.
  void clear();
  void clearHomes();

private:
  /// Homes of a kind by object and use, from -1 on; -1: none.
  struct HomeTable {
    int uses = 1;
    std::vector<int> index;
  };
  HomeTable homeTables[6];
  size_t mostGradientUses = 0; ///< of a tensor
  /// By two devices: whether there is a link from the one to the other.
  size_t linkStride;
  std::vector<char> linked;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDCONTEXT_H
