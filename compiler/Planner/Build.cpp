//===- Build.cpp - Events and live ranges from choices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"

#include <algorithm>
#include <set>

namespace harmony::planner {

namespace {

enum Lane { computeLane, inTensors, inValues, outTensors, outValues, hostLane, laneCount };

/// Accesses to tensors are ordered by time: 2p is the Run of phase p, 2p+1 the
/// updates that follow it.
constexpr int runTime(int phase) { return 2 * phase; }
constexpr int updateTime(int phase) { return 2 * phase + 1; }

/// One use of a value (or of its gradient) by a phase.
struct Access {
  int phase = 0;
  bool writes = false;
};

class Builder {
public:
  Builder(const Problem &problem, const Choices &choices) : problem(problem), choices(choices) {}

  Draft build() {
    size_t size = 2 * (problem.tensors.size() + problem.values.size() + problem.layers.size());
    events.reserve(3 * size);
    ranges.reserve(2 * size);
    draft.plan.buffers.reserve(2 * size);
    draft.bufferTouches.reserve(4 * size);
    makePhases();
    indexSteps();
    for (int p = 0; p <= phaseCount(); ++p)
      sections.emplace_back();
    for (int p = 0; p < phaseCount(); ++p)
      runs.push_back(makeEvent(EventKind::Run, computeLane, -1, -1, p));
    for (int p = 0; p < phaseCount(); ++p)
      addSteps(p);
    addScalars();
    for (int t = 0; t < static_cast<int>(problem.tensors.size()); ++t)
      addTensor(t);
    addUpdates();
    for (int v = 0; v < static_cast<int>(problem.values.size()); ++v) {
      addValue(v);
      if (problem.values[v].differentiable)
        addValueGradient(v);
    }
    return finish();
  }

private:
  /// Events of one phase, by the part of the order they belong to. The last
  /// section holds what follows all phases.
  struct Section {
    std::vector<int> loads, lateLoads, zeros, before, after, updates, storesNow, stores;
  };

  /// A buffer whose live range is known by events rather than by their index.
  struct Range {
    int first, firstStep, last, lastStep;
  };

  struct Update {
    int tensor;
    int phase; ///< the section whose updates hold it
    bool loadTensor;
    int tensorBuffer; ///< device updates
    bool storeTensor;
  };

  const Problem &problem;
  const Choices &choices;
  Draft draft;
  std::vector<Section> sections;
  std::vector<int> runs;         ///< event of each phase
  std::vector<int> forwardPhase; ///< of each layer
  std::vector<int> backwardPhase;
  std::vector<int> stepIndex[3]; ///< by StepKind and layer, -1: none
  std::vector<Event> events; ///< in order of creation
  std::vector<Range> ranges; ///< of draft.plan.buffers
  std::vector<int> prefix;   ///< events before all phases
  std::vector<std::vector<int>> gradientBuffer; ///< by tensor and use
  std::vector<Update> updates;
  static constexpr int alwaysLive = -1;

  int phaseCount() const { return static_cast<int>(draft.plan.phases.size()); }
  int64_t trips() const { return problem.batch / choices.microbatch; }

  //===--- phases ------------------------------------------------------------===//

  void makePhases() {
    int packs = static_cast<int>(choices.packEnds.size());
    forwardPhase.resize(problem.layers.size());
    backwardPhase.assign(problem.layers.size(), -1);
    auto first = [&](int pack) { return pack == 0 ? 0 : choices.packEnds[pack - 1] + 1; };
    for (int pack = 0; pack < packs; ++pack) {
      bool turn = problem.training && pack == packs - 1;
      Phase phase{0, turn ? PhaseKind::Turn : PhaseKind::Forward, first(pack),
                  choices.packEnds[pack], choices.microbatch, false, {}};
      phase.keep = !turn && problem.training && choices.keep[pack];
      for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
        forwardPhase[l] = phaseCount();
        phase.steps.push_back({l, StepKind::Forward});
      }
      if (turn)
        addBackwardSteps(phase);
      draft.plan.phases.push_back(std::move(phase));
    }
    for (int pack = packs - 2; problem.training && pack >= 0; --pack) {
      Phase phase{0, PhaseKind::Backward, first(pack), choices.packEnds[pack],
                  choices.microbatch, static_cast<bool>(choices.keep[pack]), {}};
      if (!phase.keep)
        addRecomputeSteps(phase);
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
        stepIndex[static_cast<int>(phase.steps[s].kind)][phase.steps[s].layer] = static_cast<int>(s);
  }

  /// The layers whose saved block or outputs something in the pack's backward needs.
  void addRecomputeSteps(Phase &phase) {
    std::vector<char> needed(problem.layers.size(), 0);
    for (int l = phase.lastLayer; l >= phase.firstLayer; --l) {
      needed[l] = problem.cost(l, phase.microbatch).savedBytes > 0;
      for (int v : problem.layers[l].outputs)
        for (int consumer : problem.values[v].consumers)
          if (consumer <= phase.lastLayer)
            needed[l] |= needed[consumer] || inputUse(consumer, v).backwardReads;
    }
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
      if (needed[l])
        phase.steps.push_back({l, StepKind::Recompute});
  }

  const ValueUse &inputUse(int layer, int value) const {
    for (const ValueUse &use : problem.layers[layer].inputs)
      if (use.value == value)
        return use;
    throw Error("layer '" + problem.layers[layer].name + "' does not read the value it consumes");
  }

  //===--- events, buffers, homes --------------------------------------------===//

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

  int makeTransfer(EventKind kind, Lane lane, int object, int use, int phase, int64_t bytes,
                   int buffer, int home) {
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

  int makeBuffer(Content content, int object, int use, int64_t slotBytes, int64_t slots,
                 Range range) {
    Buffer buffer;
    buffer.content = content;
    buffer.object = object;
    buffer.use = use;
    buffer.slotBytes = slotBytes;
    buffer.slots = slots;
    buffer.stride =
        slots > 1 ? (slotBytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment : slotBytes;
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

  int home(HomeKind kind, int object, int use, int64_t slotBytes, int64_t slots) {
    int &index = homeIndex(kind, object, use);
    if (index < 0) {
      index = static_cast<int>(draft.plan.homes.size());
      draft.plan.homes.push_back({kind, object, use, 0, slotBytes, slots});
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

  //===--- what one microbatch of a Run needs --------------------------------===//

  /// The step of a layer in its forward or backward phase, or -1.
  int findStep(int layer, StepKind kind) const {
    return stepIndex[static_cast<int>(kind)][layer];
  }

  /// Saved blocks and workspaces.
  void addSteps(int p) {
    const Phase &phase = draft.plan.phases[p];
    for (int s = 0; s <= lastStep(p); ++s) {
      Step step = phase.steps[s];
      const Cost &cost = problem.cost(step.layer, phase.microbatch);
      bool backward = step.kind == StepKind::Backward;
      int64_t workspace = backward ? cost.backwardWorkspace : cost.forwardWorkspace;
      if (workspace > 0)
        touch(runs[p], makeBuffer(Content::Workspace, step.layer, -1, workspace, 1, steps(p, s, s)),
              true);
      if (backward || cost.savedBytes == 0)
        continue;
      int until = phase.kind == PhaseKind::Forward ? -1 : findStep(step.layer, StepKind::Backward);
      if (phase.keep) {
        int buffer = makeBuffer(Content::Saved, step.layer, -1, cost.savedBytes, trips(),
                                wholeRuns(p, keepingPhase(phase)));
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
  int keepingPhase(const Phase &forward) const { return backwardPhase[forward.firstLayer]; }

  //===--- scalars -----------------------------------------------------------===//

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
      int buffer = makeBuffer(Content::Scalar, s, -1, scalar.bytes, 1, always());
      int place = home(HomeKind::Scalar, s, -1, scalar.bytes, 1);
      if (seed && prologue < 0) {
        prologue = makeEvent(EventKind::Prologue, hostLane, -1, -1, -1);
        prefix.insert(prefix.begin(), prologue);
      }
      if (seed) {
        draft.homeTouches.push_back({prologue, place, true});
        prefix.push_back(makeTransfer(EventKind::LoadScalar, inValues, s, -1, -1, scalar.bytes,
                                      buffer, place));
      } else {
        int zero = makeEvent(EventKind::ZeroScalar, computeLane, s, -1, -1);
        touch(zero, buffer, true);
        prefix.push_back(zero);
        sections[lastLoss].storesNow.push_back(
            makeTransfer(EventKind::StoreScalar, outValues, s, -1, -1, scalar.bytes, buffer, place));
      }
      for (int p : seed ? both : forward)
        touch(runs[p], buffer, !seed);
    }
  }

  //===--- tensors -----------------------------------------------------------===//

  struct TensorAccess {
    int time;
    bool writes;
  };

  /// Run accesses of a tensor, ascending; the update is added by the caller.
  std::vector<TensorAccess> runAccesses(int t) const {
    std::vector<TensorAccess> accesses;
    for (auto [layer, position] : tensorUses[t]) {
      const TensorUse &use = problem.layers[layer].tensors[position];
      accesses.push_back({runTime(forwardPhase[layer]), use.forwardWrites});
      int back = backwardPhase[layer];
      if (back < 0)
        continue;
      const Phase &phase = draft.plan.phases[back];
      bool recomputed = phase.kind == PhaseKind::Backward && !phase.keep &&
                        findStep(layer, StepKind::Recompute) >= 0;
      if (use.backwardReads || recomputed)
        accesses.push_back({runTime(back), false});
    }
    std::sort(accesses.begin(), accesses.end(),
              [](const TensorAccess &a, const TensorAccess &b) { return a.time < b.time; });
    std::vector<TensorAccess> merged;
    for (const TensorAccess &access : accesses)
      if (!merged.empty() && merged.back().time == access.time)
        merged.back().writes |= access.writes;
      else
        merged.push_back(access);
    return merged;
  }
  /// (layer, position) of every use of a tensor.
  std::vector<std::vector<std::pair<int, int>>> tensorUses = [&] {
    std::vector<std::vector<std::pair<int, int>>> uses(problem.tensors.size());
    for (int l = 0; l < problem.layerCount(); ++l)
      for (int i = 0; i < static_cast<int>(problem.layers[l].tensors.size()); ++i)
        uses[problem.layers[l].tensors[i].tensor].push_back({l, i});
    return uses;
  }();

  void addTensor(int t) {
    const Tensor &tensor = problem.tensors[t];
    gradientBuffer.resize(problem.tensors.size());
    tensorHome(t);
    std::vector<TensorAccess> accesses = runAccesses(t);
    if (accesses.empty())
      return;
    bool updated = !tensor.gradientUses.empty();
    bool onHost = updated && choices.updateOnHost[t];
    int updatePhase = phaseCount();
    if (updated && choices.update == UpdateOrder::JustInTime) {
      updatePhase = accesses.back().time / 2;
      for (const GradientUse &use : tensor.gradientUses)
        updatePhase = std::max(updatePhase, backwardPhase[use.layer]);
    }
    if (updated && !onHost)
      accesses.push_back({updateTime(updatePhase), true});

    Update update{t, updatePhase, false, -1, false};
    if (choices.stay && choices.resident[t] && !onHost)
      addResident(t, accesses, update);
    else
      addSegments(t, accesses, update);
    if (updated) {
      if (tensor.stateBytes > 0)
        stateHome(t);
      addGradients(t, updatePhase);
      updates.push_back(update);
    }
  }

  void addResident(int t, const std::vector<TensorAccess> &accesses, Update &update) {
    int buffer = makeBuffer(Content::Tensor, t, -1, problem.tensors[t].bytes, 1, always());
    draft.plan.load.push_back({Content::Tensor, t, 0, buffer});
    bool written = false;
    for (const TensorAccess &access : accesses) {
      written |= access.writes;
      if (access.time % 2 == 0)
        touch(runs[access.time / 2], buffer, access.writes);
    }
    if (written)
      draft.plan.store.push_back({Content::Tensor, t, 0, buffer});
    update.tensorBuffer = buffer;
  }

  /// Whether a tensor stays from one access to the next.
  bool staysFor(int t, const TensorAccess &from, const TensorAccess &to, bool dirty) const {
    int gap = to.time / 2 - from.time / 2;
    if (gap == 0)
      return true;
    if (!choices.stay)
      return false;
    // A copy that is loaded ahead must not meet the one that is still there, nor
    // be read before a delayed store has written it.
    int reach = choices.overlap ? (dirty ? 2 : 1) : 0;
    return choices.pinned[t] || gap <= std::max(reach, 1);
  }

  void addSegments(int t, const std::vector<TensorAccess> &accesses, Update &update) {
    const Tensor &tensor = problem.tensors[t];
    size_t begin = 0;
    while (begin < accesses.size()) {
      bool dirty = accesses[begin].writes;
      size_t end = begin + 1;
      while (end < accesses.size() && staysFor(t, accesses[end - 1], accesses[end], dirty))
        dirty |= accesses[end++].writes;
      addSegment(t, tensor, accesses, begin, end, dirty, update);
      begin = end;
    }
  }

  void addSegment(int t, const Tensor &tensor, const std::vector<TensorAccess> &accesses,
                  size_t begin, size_t end, bool dirty, Update &update) {
    int first = accesses[begin].time, last = accesses[end - 1].time;
    bool updates = last % 2 == 1;
    int buffer = makeBuffer(Content::Tensor, t, -1, tensor.bytes, 1, {0, 0, 0, 0});
    if (first % 2 == 0) {
      int load = makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1, tensor.bytes, buffer,
                              tensorHome(t));
      bool ahead = choices.overlap && choices.stay;
      (ahead ? sections[first / 2].loads : sections[first / 2].lateLoads).push_back(load);
      beginAt(buffer, load);
    }
    for (size_t i = begin; i < end; ++i)
      if (accesses[i].time % 2 == 0) {
        touch(runs[accesses[i].time / 2], buffer, accesses[i].writes);
        endAt(buffer, runs[accesses[i].time / 2]);
        ranges[buffer].lastStep = lastStep(accesses[i].time / 2);
      }
    if (updates) {
      update.loadTensor = first % 2 == 1;
      update.tensorBuffer = buffer;
      update.storeTensor = true;
    } else if (dirty) {
      int store = makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1, tensor.bytes, buffer,
                               tensorHome(t));
      (choices.stay ? sections[last / 2].stores : sections[last / 2].storesNow).push_back(store);
      endAt(buffer, store);
    }
  }

  //===--- gradients and updates ---------------------------------------------===//

  bool storesGradient(int t, int phase, int updatePhase) const {
    if (choices.updateOnHost[t])
      return true;
    return phase != updatePhase && !(choices.stay && choices.holdGradient[t]);
  }

  void addGradients(int t, int updatePhase) {
    const Tensor &tensor = problem.tensors[t];
    for (int use = 0; use < static_cast<int>(tensor.gradientUses.size()); ++use) {
      int phase = backwardPhase[tensor.gradientUses[use].layer];
      int zero = makeEvent(EventKind::ZeroGradient, computeLane, t, use, -1);
      sections[phase].zeros.push_back(zero);
      int buffer = makeBuffer(Content::Gradient, t, use, tensor.gradientBytes, 1, {0, 0, 0, 0});
      beginAt(buffer, zero);
      touch(zero, buffer, true);
      touch(runs[phase], buffer, true);
      gradientBuffer[t].push_back(buffer);
      if (!storesGradient(t, phase, updatePhase))
        continue;
      int store = makeTransfer(EventKind::StoreGradient, outTensors, t, use, -1,
                               tensor.gradientBytes, buffer,
                               home(HomeKind::Gradient, t, use, tensor.gradientBytes, 1));
      endAt(buffer, store);
      gradientBuffer[t].back() = -1;
      (choices.updateOnHost[t] ? sections[phase].stores : sections[phase].storesNow)
          .push_back(store);
    }
  }

  void addUpdates() {
    std::sort(updates.begin(), updates.end(), [](const Update &a, const Update &b) {
      return a.phase != b.phase ? a.phase < b.phase : a.tensor < b.tensor;
    });
    std::vector<int> pendingStores;
    int phase = -1;
    auto flush = [&] {
      if (phase >= 0)
        append(sections[phase].stores, pendingStores);
      pendingStores.clear();
    };
    for (const Update &update : updates) {
      if (update.phase != phase)
        flush();
      phase = update.phase;
      if (choices.updateOnHost[update.tensor])
        addHostUpdate(update);
      else
        addDeviceUpdate(update, pendingStores);
    }
    flush();
  }

  void addHostUpdate(const Update &update) {
    int t = update.tensor;
    int event = makeEvent(EventKind::Update, hostLane, t, -1, -1);
    events[event].onHost = true;
    draft.homeTouches.push_back({event, tensorHome(t), true});
    if (problem.tensors[t].stateBytes > 0)
      draft.homeTouches.push_back({event, stateHome(t), true});
    for (int use = 0; use < static_cast<int>(problem.tensors[t].gradientUses.size()); ++use)
      draft.homeTouches.push_back({event, homeIndex(HomeKind::Gradient, t, use), false});
    sections[update.phase].stores.push_back(event);
  }

  /// Load what is missing, update, store what does not stay. With overlap the
  /// stores of one tensor are issued after the update of the next.
  void addDeviceUpdate(const Update &update, std::vector<int> &pendingStores) {
    int t = update.tensor;
    const Tensor &tensor = problem.tensors[t];
    std::vector<int> &list = sections[update.phase].updates;
    int event = makeEvent(EventKind::Update, computeLane, t, -1, -1);
    std::vector<int> stores;

    int weights = update.tensorBuffer;
    if (update.loadTensor) {
      list.push_back(makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1, tensor.bytes, weights,
                                  tensorHome(t)));
      beginAt(weights, list.back());
    }
    touch(event, weights, true);
    if (update.storeTensor) {
      stores.push_back(makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1, tensor.bytes,
                                    weights, tensorHome(t)));
      endAt(weights, stores.back());
    }
    if (tensor.stateBytes > 0)
      addState(t, event, list, stores);
    for (int use = 0; use < static_cast<int>(tensor.gradientUses.size()); ++use) {
      int buffer = gradientBuffer[t][use];
      if (buffer < 0) {
        buffer = makeBuffer(Content::Gradient, t, use, tensor.gradientBytes, 1, {0, 0, 0, 0});
        list.push_back(makeTransfer(EventKind::LoadGradient, inTensors, t, use, -1,
                                    tensor.gradientBytes, buffer,
                                    homeIndex(HomeKind::Gradient, t, use)));
        beginAt(buffer, list.back());
      }
      touch(event, buffer, false);
      endAt(buffer, event);
    }
    list.push_back(event);
    append(list, pendingStores);
    pendingStores.clear();
    if (choices.overlap)
      pendingStores = std::move(stores);
    else
      append(list, stores);
  }

  void addState(int t, int event, std::vector<int> &list, std::vector<int> &stores) {
    int64_t bytes = problem.tensors[t].stateBytes;
    bool stays = choices.stay && choices.stateResident[t];
    int buffer = makeBuffer(Content::State, t, -1, bytes, 1, stays ? always() : Range{0, 0, 0, 0});
    touch(event, buffer, true);
    if (stays) {
      draft.plan.load.push_back({Content::State, t, 0, buffer});
      draft.plan.store.push_back({Content::State, t, 0, buffer});
      return;
    }
    list.push_back(
        makeTransfer(EventKind::LoadState, inTensors, t, -1, -1, bytes, buffer, stateHome(t)));
    beginAt(buffer, list.back());
    stores.push_back(
        makeTransfer(EventKind::StoreState, outTensors, t, -1, -1, bytes, buffer, stateHome(t)));
    endAt(buffer, stores.back());
  }

  static void append(std::vector<int> &to, const std::vector<int> &from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  //===--- values ------------------------------------------------------------===//

  /// Phases that use a value as Content::Value, ascending: its producer's, and
  /// those that read it without making it again.
  std::vector<Access> valueAccesses(int v) const {
    const Value &value = problem.values[v];
    std::vector<Access> accesses;
    if (!value.isInput())
      accesses.push_back({forwardPhase[value.producer], true});
    for (int consumer : value.consumers) {
      accesses.push_back({forwardPhase[consumer], false});
      int back = backwardPhase[consumer];
      if (back >= 0 && backwardReads(v, consumer, draft.plan.phases[back]))
        accesses.push_back({back, false});
    }
    return merge(std::move(accesses));
  }

  /// Whether a consumer's backward phase reads the value itself rather than a copy
  /// that the phase makes again.
  bool backwardReads(int v, int consumer, const Phase &phase) const {
    bool read = inputUse(consumer, v).backwardReads;
    if (phase.kind != PhaseKind::Backward || phase.keep)
      return read;
    int producer = problem.values[v].producer;
    if (producer >= phase.firstLayer)
      return false;
    return read || findStep(consumer, StepKind::Recompute) >= 0;
  }

  static std::vector<Access> merge(std::vector<Access> accesses) {
    std::sort(accesses.begin(), accesses.end(),
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
    return choices.stay && (place == Place::Device || (place == Place::Adjacent && to == from + 1));
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

  /// A value (or gradient) that crosses phases: a buffer for each stretch that it
  /// stays on the device, transfers in between.
  void addValueSegments(int v, Content content, const std::vector<Access> &accesses, Place place) {
    const Value &value = problem.values[v];
    bool gradient = content == Content::ValueGradient;
    int64_t bytes = value.bytes(choices.microbatch);
    HomeKind kind = gradient ? HomeKind::ValueGradient : HomeKind::Value;
    EventKind load = gradient ? EventKind::LoadValueGradient : EventKind::LoadValue;
    EventKind store = gradient ? EventKind::StoreValueGradient : EventKind::StoreValue;
    for (size_t begin = 0; begin < accesses.size();) {
      size_t end = begin + 1;
      while (end < accesses.size() &&
             staysBetween(place, accesses[end - 1].phase, accesses[end].phase))
        ++end;
      int first = accesses[begin].phase, last = accesses[end - 1].phase;
      int64_t slots = first == last ? std::min<int64_t>(choices.slots, trips()) : trips();
      int buffer = makeBuffer(content, v, -1, bytes, slots, wholeRuns(first, last));
      for (size_t i = begin; i < end; ++i)
        touch(runs[accesses[i].phase], buffer, accesses[i].writes);
      bool input = !gradient && value.isInput();
      if (begin > 0 || input) {
        int place = input ? -1 : home(kind, v, -1, bytes, trips());
        int event = makeTransfer(load, inValues, v, -1, first, bytes, buffer, place);
        sections[first].before.push_back(event);
        beginAt(buffer, event);
      }
      // A value is written once, by its producer; a gradient by every phase but the last.
      bool more = end < accesses.size();
      bool stores = gradient ? more : begin == 0 && !input && (more || value.output);
      if (stores) {
        int phase = gradient ? last : first;
        int event = makeTransfer(store, outValues, v, -1, phase, bytes, buffer,
                                 home(kind, v, -1, bytes, trips()));
        sections[phase].after.push_back(event);
        if (phase == last)
          endAt(buffer, event);
      }
      begin = end;
    }
  }

  /// A copy made again in the B phase of the producer.
  void addRecomputed(int v) {
    int producer = problem.values[v].producer;
    if (producer < 0 || backwardPhase[producer] < 0)
      return;
    const Phase &phase = draft.plan.phases[backwardPhase[producer]];
    if (phase.kind == PhaseKind::Backward && !phase.keep &&
        findStep(producer, StepKind::Recompute) >= 0)
      addInner(v, backwardPhase[producer], StepKind::Recompute, Content::RecomputedValue);
  }

  /// Scratch of one microbatch, from the step that makes the value to the last one
  /// of the phase that reads it.
  void addInner(int v, int p, StepKind made, Content content) {
    const Phase &phase = draft.plan.phases[p];
    int producer = problem.values[v].producer;
    int first = findStep(producer, made), last = first;
    for (int consumer : problem.values[v].consumers) {
      if (consumer > phase.lastLayer)
        break;
      last = std::max(last, findStep(consumer, made));
      if (backwardPhase[consumer] == p && inputUse(consumer, v).backwardReads)
        last = std::max(last, findStep(consumer, StepKind::Backward));
    }
    touch(runs[p],
          makeBuffer(content, v, -1, problem.values[v].bytes(choices.microbatch), 1,
                     steps(p, first, last)),
          true);
  }

  void addValueGradient(int v) {
    const Value &value = problem.values[v];
    std::vector<Access> accesses;
    int lastConsumer = -1;
    for (int consumer : value.consumers)
      if (inputUse(consumer, v).gradient) {
        accesses.push_back({backwardPhase[consumer], true});
        lastConsumer = consumer;
      }
    int producerPhase = backwardPhase[value.producer];
    accesses.push_back({producerPhase, false});
    accesses = merge(std::move(accesses));
    if (accesses.size() > 1) {
      addValueSegments(v, Content::ValueGradient, accesses, choices.gradientPlace[v]);
      return;
    }
    touch(runs[producerPhase],
          makeBuffer(Content::ValueGradient, v, -1, value.bytes(choices.microbatch), 1,
                     steps(producerPhase, findStep(lastConsumer, StepKind::Backward),
                           findStep(value.producer, StepKind::Backward))),
          true);
  }

  //===--- the order ---------------------------------------------------------===//

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
    plan.queues = {{QueueKind::Compute, 0, 0}, {QueueKind::In, 0, 0},  {QueueKind::In, 0, 1},
                   {QueueKind::Out, 0, 0},     {QueueKind::Out, 0, 1}, {QueueKind::Host, hostEndpoint, 0}};
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

Draft build(const Problem &problem, const Choices &choices) {
  return Builder(problem, choices).build();
}

} // namespace harmony::planner
