//===- BuildTensors.cpp - Loads, gradients and updates --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildContext.h"

#include <algorithm>

namespace harmony::planner {

namespace {

/// Accesses to tensors are ordered by time: 2p is the Run of phase p, 2p+1 the
/// updates that follow it.
constexpr int runTime(int phase) { return 2 * phase; }
constexpr int updateTime(int phase) { return 2 * phase + 1; }

void append(std::vector<int> &to, const std::vector<int> &from) {
  to.insert(to.end(), from.begin(), from.end());
}

class TensorBuilder {
public:
  explicit TensorBuilder(BuildContext &context)
      : b(context), problem(context.problem), choices(context.choices),
        gradientBuffer(problem.tensors.size()),
        tensorUses(problem.tensors.size()) {
    for (int l = 0; l < problem.layerCount(); ++l)
      for (int i = 0; i < static_cast<int>(problem.layers[l].tensors.size());
           ++i)
        tensorUses[problem.layers[l].tensors[i].tensor].push_back({l, i});
  }

  void run() {
    for (int t = 0; t < static_cast<int>(problem.tensors.size()); ++t)
      addTensor(t);
    addUpdates();
  }

private:
  struct Update {
    int tensor;
    int phase; ///< the section whose updates hold it
    bool loadTensor;
    int tensorBuffer; ///< device updates
    bool storeTensor;
  };

  BuildContext &b;
  const Problem &problem;
  const Choices &choices;
  std::vector<std::vector<int>>
      gradientBuffer; ///< by tensor and use, -1: stored
  std::vector<std::vector<std::pair<int, int>>>
      tensorUses; ///< (layer, position) of every use of a tensor
  std::vector<Update> updates;

  struct TensorAccess {
    int time;
    bool writes;
  };

  /// Run accesses of a tensor, ascending; the update is added by the caller.
  std::vector<TensorAccess> runAccesses(int t) const {
    std::vector<TensorAccess> accesses;
    for (auto [layer, position] : tensorUses[t]) {
      const TensorUse &use = problem.layers[layer].tensors[position];
      accesses.push_back({runTime(b.forwardPhase[layer]), use.forwardWrites});
      int back = b.backwardPhase[layer];
      if (back < 0)
        continue;
      const Phase &phase = b.draft.plan.phases[back];
      bool recomputed = phase.kind == PhaseKind::Backward && !phase.keep &&
                        b.findStep(layer, StepKind::Recompute) >= 0;
      if (use.backwardReads || recomputed)
        accesses.push_back({runTime(back), false});
    }
    std::sort(accesses.begin(), accesses.end(),
              [](const TensorAccess &a, const TensorAccess &b) {
                return a.time < b.time;
              });
    std::vector<TensorAccess> merged;
    for (const TensorAccess &access : accesses)
      if (!merged.empty() && merged.back().time == access.time)
        merged.back().writes |= access.writes;
      else
        merged.push_back(access);
    return merged;
  }
  void addTensor(int t) {
    const Tensor &tensor = problem.tensors[t];
    b.tensorHome(t);
    std::vector<TensorAccess> accesses = runAccesses(t);
    if (accesses.empty())
      return;
    bool updated = !tensor.gradientUses.empty();
    bool onHost = updated && choices.updateOnHost[t];
    int updatePhase = b.phaseCount();
    if (updated && choices.update == UpdateOrder::JustInTime) {
      updatePhase = accesses.back().time / 2;
      for (const GradientUse &use : tensor.gradientUses)
        updatePhase = std::max(updatePhase, b.backwardPhase[use.layer]);
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
        b.stateHome(t);
      addGradients(t, updatePhase);
      updates.push_back(update);
    }
  }

  void addResident(int t, const std::vector<TensorAccess> &accesses,
                   Update &update) {
    int buffer = b.makeBuffer(Content::Tensor, t, -1, problem.tensors[t].bytes,
                              1, b.always());
    b.draft.plan.load.push_back({Content::Tensor, t, 0, buffer});
    bool written = false;
    for (const TensorAccess &access : accesses) {
      written |= access.writes;
      if (access.time % 2 == 0)
        b.touch(b.runs[access.time / 2], buffer, access.writes);
    }
    if (written)
      b.draft.plan.store.push_back({Content::Tensor, t, 0, buffer});
    update.tensorBuffer = buffer;
  }

  /// Whether a tensor stays from one access to the next.
  bool staysFor(int t, const TensorAccess &from, const TensorAccess &to,
                bool dirty) const {
    int gap = to.time / 2 - from.time / 2;
    if (gap == 0)
      return true;
    if (!choices.stay)
      return false;
    // A copy that is loaded ahead must not meet the one that is still there,
    // nor be read before a delayed store has written it.
    int reach = choices.overlap ? (dirty ? 2 : 1) : 0;
    return choices.pinned[t] || gap <= std::max(reach, 1);
  }

  void addSegments(int t, const std::vector<TensorAccess> &accesses,
                   Update &update) {
    const Tensor &tensor = problem.tensors[t];
    size_t begin = 0;
    while (begin < accesses.size()) {
      bool dirty = accesses[begin].writes;
      size_t end = begin + 1;
      while (end < accesses.size() &&
             staysFor(t, accesses[end - 1], accesses[end], dirty))
        dirty |= accesses[end++].writes;
      addSegment(t, tensor, accesses, begin, end, dirty, update);
      begin = end;
    }
  }

  void addSegment(int t, const Tensor &tensor,
                  const std::vector<TensorAccess> &accesses, size_t begin,
                  size_t end, bool dirty, Update &update) {
    int first = accesses[begin].time, last = accesses[end - 1].time;
    bool updates = last % 2 == 1;
    int buffer =
        b.makeBuffer(Content::Tensor, t, -1, tensor.bytes, 1, {0, 0, 0, 0});
    if (first % 2 == 0) {
      int load = b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                                tensor.bytes, buffer, b.tensorHome(t));
      bool ahead = choices.overlap && choices.stay;
      (ahead ? b.sections[first / 2].loads : b.sections[first / 2].lateLoads)
          .push_back(load);
      b.beginAt(buffer, load);
    }
    for (size_t i = begin; i < end; ++i)
      if (accesses[i].time % 2 == 0) {
        b.touch(b.runs[accesses[i].time / 2], buffer, accesses[i].writes);
        b.endAt(buffer, b.runs[accesses[i].time / 2]);
        b.ranges[buffer].lastStep = b.lastStep(accesses[i].time / 2);
      }
    if (updates) {
      update.loadTensor = first % 2 == 1;
      update.tensorBuffer = buffer;
      update.storeTensor = true;
    } else if (dirty) {
      int store = b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1,
                                 tensor.bytes, buffer, b.tensorHome(t));
      (choices.stay ? b.sections[last / 2].stores
                    : b.sections[last / 2].storesNow)
          .push_back(store);
      b.endAt(buffer, store);
    }
  }

  //===--- gradients and updates ---===//

  bool storesGradient(int t, int phase, int updatePhase) const {
    if (choices.updateOnHost[t])
      return true;
    return phase != updatePhase && !(choices.stay && choices.holdGradient[t]);
  }

  void addGradients(int t, int updatePhase) {
    const Tensor &tensor = problem.tensors[t];
    for (int use = 0; use < static_cast<int>(tensor.gradientUses.size());
         ++use) {
      int phase = b.backwardPhase[tensor.gradientUses[use].layer];
      int zero = b.makeEvent(EventKind::ZeroGradient, computeLane, t, use, -1);
      b.sections[phase].zeros.push_back(zero);
      int buffer = b.makeBuffer(Content::Gradient, t, use, tensor.gradientBytes,
                                1, {0, 0, 0, 0});
      b.beginAt(buffer, zero);
      b.touch(zero, buffer, true);
      b.touch(b.runs[phase], buffer, true);
      gradientBuffer[t].push_back(buffer);
      if (!storesGradient(t, phase, updatePhase))
        continue;
      int store = b.makeTransfer(
          EventKind::StoreGradient, outTensors, t, use, -1,
          tensor.gradientBytes, buffer,
          b.home(HomeKind::Gradient, t, use, tensor.gradientBytes, 1));
      b.endAt(buffer, store);
      gradientBuffer[t].back() = -1;
      (choices.updateOnHost[t] ? b.sections[phase].stores
                               : b.sections[phase].storesNow)
          .push_back(store);
    }
  }

  void addUpdates() {
    std::sort(
        updates.begin(), updates.end(), [](const Update &a, const Update &b) {
          return a.phase != b.phase ? a.phase < b.phase : a.tensor < b.tensor;
        });
    std::vector<int> pendingStores;
    int phase = -1;
    auto flush = [&] {
      if (phase >= 0)
        append(b.sections[phase].stores, pendingStores);
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
    int event = b.makeEvent(EventKind::Update, hostLane, t, -1, -1);
    b.events[event].onHost = true;
    b.draft.homeTouches.push_back({event, b.tensorHome(t), true});
    if (problem.tensors[t].stateBytes > 0)
      b.draft.homeTouches.push_back({event, b.stateHome(t), true});
    for (int use = 0;
         use < static_cast<int>(problem.tensors[t].gradientUses.size()); ++use)
      b.draft.homeTouches.push_back(
          {event, b.homeIndex(HomeKind::Gradient, t, use), false});
    b.sections[update.phase].stores.push_back(event);
  }

  /// Load what is missing, update, store what does not stay. With overlap the
  /// stores of one tensor are issued after the update of the next.
  void addDeviceUpdate(const Update &update, std::vector<int> &pendingStores) {
    int t = update.tensor;
    const Tensor &tensor = problem.tensors[t];
    std::vector<int> &list = b.sections[update.phase].updates;
    int event = b.makeEvent(EventKind::Update, computeLane, t, -1, -1);
    std::vector<int> stores;

    int weights = update.tensorBuffer;
    if (update.loadTensor) {
      list.push_back(b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                                    tensor.bytes, weights, b.tensorHome(t)));
      b.beginAt(weights, list.back());
    }
    b.touch(event, weights, true);
    if (update.storeTensor) {
      stores.push_back(b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1,
                                      -1, tensor.bytes, weights,
                                      b.tensorHome(t)));
      b.endAt(weights, stores.back());
    }
    if (tensor.stateBytes > 0)
      addState(t, event, list, stores);
    for (int use = 0; use < static_cast<int>(tensor.gradientUses.size());
         ++use) {
      int buffer = gradientBuffer[t][use];
      if (buffer < 0) {
        buffer = b.makeBuffer(Content::Gradient, t, use, tensor.gradientBytes,
                              1, {0, 0, 0, 0});
        list.push_back(b.makeTransfer(EventKind::LoadGradient, inTensors, t,
                                      use, -1, tensor.gradientBytes, buffer,
                                      b.homeIndex(HomeKind::Gradient, t, use)));
        b.beginAt(buffer, list.back());
      }
      b.touch(event, buffer, false);
      b.endAt(buffer, event);
    }
    list.push_back(event);
    append(list, pendingStores);
    pendingStores.clear();
    if (choices.overlap)
      pendingStores = std::move(stores);
    else
      append(list, stores);
  }

  void addState(int t, int event, std::vector<int> &list,
                std::vector<int> &stores) {
    int64_t bytes = problem.tensors[t].stateBytes;
    bool stays = choices.stay && choices.stateResident[t];
    int buffer = b.makeBuffer(Content::State, t, -1, bytes, 1,
                              stays ? b.always() : Range{0, 0, 0, 0});
    b.touch(event, buffer, true);
    if (stays) {
      b.draft.plan.load.push_back({Content::State, t, 0, buffer});
      b.draft.plan.store.push_back({Content::State, t, 0, buffer});
      return;
    }
    list.push_back(b.makeTransfer(EventKind::LoadState, inTensors, t, -1, -1,
                                  bytes, buffer, b.stateHome(t)));
    b.beginAt(buffer, list.back());
    stores.push_back(b.makeTransfer(EventKind::StoreState, outTensors, t, -1,
                                    -1, bytes, buffer, b.stateHome(t)));
    b.endAt(buffer, stores.back());
  }
};

} // namespace

void buildTensors(BuildContext &context) { TensorBuilder(context).run(); }

} // namespace harmony::planner
