//===- Replay.cpp - Two executions, byte by byte --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ReplayOrder.h"

#include <algorithm>
#include <unordered_map>

namespace harmony::planner {

namespace {

class Replayer : ReplayOrder {
public:
  Replayer(const Plan &plan, const Problem &problem, Report &report)
      : ReplayOrder(plan, problem, report), spaces(1) {
    for (const Buffer &buffer : plan.buffers)
      spaces.resize(
          std::max(spaces.size(), static_cast<size_t>(buffer.device) + 2));
    tensorVersion.assign(problem.tensors.size(), 0);
    for (const Layer &layer : problem.layers)
      lossLayers += layer.isLoss;
  }

  void run() {
    if (!indexBuffers() || !indexHomes())
      return;
    placeInitial();
    runAll();
    if (!report.full())
      checkFinal();
  }

private:
  std::vector<Space> spaces; ///< 0: host store; 1 + d: device d
  std::unordered_map<int64_t, std::vector<int>> bufferIndex;
  std::unordered_map<int64_t, int> homeIndex;
  std::vector<int64_t> tensorVersion;
  int64_t lossLayers = 0;

  //===--- look-up ---===//

  static int64_t key(int kind, int object, int use, int device) {
    return (((static_cast<int64_t>(kind) << 24 | static_cast<int64_t>(object))
             << 14) |
            (use + 1))
               << 8 |
           device;
  }

  bool indexBuffers() {
    for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b) {
      const Buffer &buffer = plan.buffers[b];
      bufferIndex[key(static_cast<int>(buffer.content), buffer.object,
                      buffer.use, buffer.device)]
          .push_back(b);
    }
    for (auto &[k, list] : bufferIndex) {
      std::sort(list.begin(), list.end(), [&](int x, int y) {
        return plan.buffers[x].first < plan.buffers[y].first;
      });
      for (size_t i = 1; i < list.size(); ++i)
        if (plan.buffers[list[i]].first <= plan.buffers[list[i - 1]].last)
          report.add("live-range",
                     "buffers " + std::to_string(list[i - 1]) + " and " +
                         std::to_string(list[i]) +
                         " hold the same thing at the same time",
                     plan.buffers[list[i - 1]].first.event,
                     plan.buffers[list[i]].first.event);
    }
    return !report.full();
  }

  bool indexHomes() {
    for (int h = 0; h < static_cast<int>(plan.homes.size()); ++h) {
      const Home &home = plan.homes[h];
      if (!homeIndex
               .emplace(
                   key(static_cast<int>(home.kind), home.object, home.use, 0),
                   h)
               .second)
        report.add("host", std::string("there are two homes of ") +
                               name(home.kind) + " " +
                               std::to_string(home.object));
    }
    return !report.full();
  }

  const Buffer *buffer(Content content, int object, int use, int stepIndex) {
    int device = plan.events[self.event].device;
    Point at{self.event, stepIndex};
    auto it =
        bufferIndex.find(key(static_cast<int>(content), object, use, device));
    if (it != bufferIndex.end())
      for (int b : it->second)
        if (plan.buffers[b].first <= at && at <= plan.buffers[b].last)
          return &plan.buffers[b];
    report.add("live-range",
               text(self.event) + " uses " + name(content) + " " +
                   std::to_string(object) +
                   ", of which no buffer is live at step " +
                   std::to_string(stepIndex),
               self.event);
    return nullptr;
  }

  const Home *home(HomeKind kind, int object, int use) {
    auto it = homeIndex.find(key(static_cast<int>(kind), object, use, 0));
    if (it != homeIndex.end())
      return &plan.homes[it->second];
    report.add("host",
               text(self.event) + " uses the home of " + name(kind) + " " +
                   std::to_string(object) + ", which is not there",
               self.event);
    return nullptr;
  }

  //===--- accesses ---===//

  struct Bytes {
    int space = -1;
    int64_t begin = 0, end = 0;
    const Buffer *buffer = nullptr; ///< none in the host store
    explicit operator bool() const { return space >= 0; }
  };

  Bytes on(const Buffer *buffer, int64_t slot) const {
    if (!buffer)
      return {};
    int64_t begin = buffer->address(slot);
    return {1 + buffer->device, begin, begin + buffer->slotBytes, buffer};
  }
  Bytes at(const Home *home, int64_t slot) const {
    if (!home)
      return {};
    Extent extent =
        homeExtent(plan, problem, *home, plan.events[self.event].phase, slot);
    return {0, extent.offset, extent.offset + extent.bytes, nullptr};
  }

  static const char *kindName(const Held &held) {
    static const char *const names[] = {
        "nothing known", "tensor",         "state",       "gradient",
        "value",         "value gradient", "saved block", "scalar"};
    return names[held.kind];
  }
  static std::string print(const Held &held) {
    if (held.kind == Held::Nothing)
      return kindName(held);
    return std::string(kindName(held)) + " " + std::to_string(held.object) +
           (held.use >= 0 ? " use " + std::to_string(held.use) : "") +
           " (execution " + std::to_string(held.execution) + ", microbatch " +
           std::to_string(held.iteration) + ", count " +
           std::to_string(held.count) + ")";
  }

  /// What the bytes hold, after checking that the access is ordered after what
  /// it reads. Nothing if they hold different things.
  Held load(Bytes bytes, const char *rule) {
    Held held;
    if (!bytes)
      return held;
    bool first = true;
    spaces[bytes.space].visit(
        bytes.begin, bytes.end, [&](Space::Segment &segment) {
          if (!ordered(segment.writer))
            report.add("read-order",
                       text(self.event) + " reads what " +
                           text(segment.writer.event) +
                           " writes, but does not wait for it (" +
                           print(segment.held) + ")",
                       segment.writer.event, self.event);
          if (segment.held.kind != Held::Nothing &&
              !inLiveRange(bytes.buffer, segment.writer))
            report.add(rule,
                       text(self.event) + " reads what " +
                           text(segment.writer.event) +
                           " wrote before the live range of the buffer began",
                       segment.writer.event, self.event);
          if (!first && segment.held != held)
            report.add(rule,
                       text(self.event) + " reads bytes that hold in part " +
                           print(held) + " and in part " + print(segment.held),
                       segment.writer.event, self.event);
          held = segment.held;
          first = false;
          noteReader(segment);
        });
    return held;
  }

  /// What an earlier buffer left at an address is not to be relied on.
  bool inLiveRange(const Buffer *buffer, const Stamp &writer) const {
    if (!buffer || buffer->persistent)
      return true;
    return writer.execution == execution && writer.event >= buffer->first.event;
  }

  void noteReader(Space::Segment &segment) {
    for (Stamp &reader : segment.readers)
      if (reader.queue == self.queue) {
        reader = self;
        return;
      }
    segment.readers.push_back(self);
  }

  void expect(Bytes bytes, const Held &expected, const char *rule = "read") {
    if (!bytes)
      return;
    Held held = load(bytes, rule);
    if (held == expected)
      return;
    int writer = -1;
    spaces[bytes.space].visit(
        bytes.begin, bytes.end,
        [&](Space::Segment &segment) { writer = segment.writer.event; });
    report.add(rule,
               text(self.event) + " needs " + print(expected) +
                   " in iteration " + std::to_string(iteration) +
                   " and finds " + print(held) +
                   (writer >= 0 ? ", written by " + text(writer) : ""),
               writer, self.event);
  }

  void store(Bytes bytes, const Held &held) {
    if (!bytes)
      return;
    spaces[bytes.space].visit(
        bytes.begin, bytes.end, [&](Space::Segment &segment) {
          if (!ordered(segment.writer))
            report.add("write-order",
                       text(self.event) + " overwrites what " +
                           text(segment.writer.event) +
                           " writes, but does not wait for it",
                       segment.writer.event, self.event);
          for (const Stamp &reader : segment.readers)
            if (!ordered(reader))
              report.add("write-order",
                         text(self.event) + " overwrites what " +
                             text(reader.event) +
                             " reads, but does not wait for it (" +
                             print(segment.held) + ")",
                         reader.event, self.event);
        });
    spaces[bytes.space].write(bytes.begin, bytes.end, held, self);
  }

  void copy(Bytes from, Bytes to, Held::Kind kind, int object, int use,
            int64_t slot) {
    if (!from || !to)
      return;
    Held held = load(from, "source");
    bool looped = kind == Held::Value || kind == Held::ValueGradient;
    if (held.kind != kind || held.object != object || held.use != use ||
        (looped && held.iteration != slot))
      report.add("source",
                 text(self.event) + " finds " + print(held) +
                     " at its source in iteration " + std::to_string(iteration),
                 self.event);
    store(to, held);
  }

  //===--- events ---===//

  Held tensor(int t, int64_t version) const {
    return {Held::Tensor, t, -1, 0, 0, version};
  }
  Held state(int t, int64_t version) const {
    return {Held::State, t, -1, 0, 0, version};
  }
  Held gradient(int t, int use, int64_t count) const {
    return {Held::Gradient, t, use, execution, 0, count};
  }
  Held value(int v) const {
    return {Held::Value, v, -1, execution, iteration, 0};
  }
  Held valueGradient(int v, int64_t count) const {
    return {Held::ValueGradient, v, -1, execution, iteration, count};
  }
  Held scalar(int s, int64_t count) const {
    return {Held::Scalar, s, -1, execution, 0, count};
  }

  void execute(const Event &event) override {
    int o = event.object;
    switch (event.kind) {
    case EventKind::Prologue:
      for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
        if (problem.scalars[s].role == ScalarRole::Seed)
          store(at(home(HomeKind::Scalar, s, -1), 0), scalar(s, 0));
      break;
    case EventKind::LoadScalar:
      in(Content::Scalar, HomeKind::Scalar, Held::Scalar, o, -1);
      break;
    case EventKind::StoreScalar:
      expect(on(buffer(Content::Scalar, o, -1, 0), 0),
             scalar(o, lossLayers * plan.batch / plan.phases[0].microbatch),
             "scalar");
      out(Content::Scalar, HomeKind::Scalar, Held::Scalar, o, -1);
      break;
    case EventKind::ZeroScalar:
      store(on(buffer(Content::Scalar, o, -1, 0), 0), scalar(o, 0));
      break;
    case EventKind::LoadTensor:
      in(Content::Tensor, HomeKind::Tensor, Held::Tensor, o, -1);
      break;
    case EventKind::StoreTensor:
      out(Content::Tensor, HomeKind::Tensor, Held::Tensor, o, -1);
      break;
    case EventKind::LoadState:
      in(Content::State, HomeKind::State, Held::State, o, -1);
      break;
    case EventKind::StoreState:
      out(Content::State, HomeKind::State, Held::State, o, -1);
      break;
    case EventKind::ZeroGradient:
      store(on(buffer(Content::Gradient, o, event.use, 0), 0),
            gradient(o, event.use, 0));
      break;
    case EventKind::LoadGradient:
      in(Content::Gradient, HomeKind::Gradient, Held::Gradient, o, event.use);
      break;
    case EventKind::StoreGradient:
      out(Content::Gradient, HomeKind::Gradient, Held::Gradient, o, event.use);
      break;
    case EventKind::Update:
      update(event);
      break;
    case EventKind::Run:
      runPhase(plan.phases[event.phase]);
      break;
    case EventKind::LoadValue:
      loadValue(o);
      break;
    case EventKind::StoreValue:
      out(Content::Value, HomeKind::Value, Held::Value, o, -1);
      break;
    case EventKind::LoadValueGradient:
      in(Content::ValueGradient, HomeKind::ValueGradient, Held::ValueGradient,
         o, -1);
      break;
    case EventKind::StoreValueGradient:
      out(Content::ValueGradient, HomeKind::ValueGradient, Held::ValueGradient,
          o, -1);
      break;
    case EventKind::Contribute:
    case EventKind::Epilogue:
    case EventKind::CopyTensor:
    case EventKind::CopyGradient:
    case EventKind::CopyValue:
    case EventKind::CopyValueGradient:
      report.add("structure", text(self.event) + " is of a kind that is not "
                                                 "replayed",
                 self.event);
      break;
    }
  }

  void in(Content content, HomeKind kind, Held::Kind held, int object,
          int use) {
    copy(at(home(kind, object, use), iteration),
         on(buffer(content, object, use, 0), iteration), held, object, use,
         iteration);
  }
  void out(Content content, HomeKind kind, Held::Kind held, int object,
           int use) {
    copy(on(buffer(content, object, use, 0), iteration),
         at(home(kind, object, use), iteration), held, object, use, iteration);
  }

  /// Batch inputs are always there.
  void loadValue(int v) {
    if (problem.values[v].isInput())
      store(on(buffer(Content::Value, v, -1, 0), iteration), value(v));
    else
      in(Content::Value, HomeKind::Value, Held::Value, v, -1);
  }

  void update(const Event &event) {
    int t = event.object;
    const Tensor &what = problem.tensors[t];
    auto place = [&](Content content, HomeKind kind, int use) {
      return event.onHost ? at(home(kind, t, use), 0)
                          : on(buffer(content, t, use, 0), 0);
    };
    int64_t count = plan.batch / plan.phases[0].microbatch;
    for (int use = 0; use < static_cast<int>(what.gradientUses.size()); ++use)
      expect(place(Content::Gradient, HomeKind::Gradient, use),
             gradient(t, use, count), "gradient");
    Bytes weights = place(Content::Tensor, HomeKind::Tensor, -1);
    expect(weights, tensor(t, execution), "update");
    store(weights, tensor(t, execution + 1));
    tensorVersion[t] = execution + 1;
    if (what.stateBytes == 0)
      return;
    Bytes slots = place(Content::State, HomeKind::State, -1);
    expect(slots, state(t, execution), "update");
    store(slots, state(t, execution + 1));
  }

  //===--- the steps of a Run ---===//

  bool makesAgain(const Phase &phase, int v) const {
    int producer = problem.values[v].producer;
    if (phase.kind != PhaseKind::Backward || producer < phase.firstLayer ||
        producer > phase.lastLayer)
      return false;
    return std::any_of(
        phase.steps.begin(), phase.steps.end(), [&](const Step &step) {
          return step.layer == producer && step.kind == StepKind::Recompute;
        });
  }

  Bytes operand(const Phase &phase, int v, int s) {
    Content content =
        makesAgain(phase, v) ? Content::RecomputedValue : Content::Value;
    return on(buffer(content, v, -1, s), iteration);
  }

  void runPhase(const Phase &phase) {
    for (int s = 0; s < static_cast<int>(phase.steps.size()) && !report.full();
         ++s) {
      const Step &step = phase.steps[s];
      const Cost &cost = problem.cost(step.layer, phase.microbatch);
      bool backward = step.kind == StepKind::Backward;
      if ((backward ? cost.backwardWorkspace : cost.forwardWorkspace) > 0)
        store(on(buffer(Content::Workspace, step.layer, -1, s), 0), {});
      if (backward)
        runBackward(phase, step.layer, s);
      else
        runForward(phase, step, s);
    }
  }

  Held saved(int layer) const {
    return {Held::Saved, layer, -1, execution, iteration, 0};
  }

  void runForward(const Phase &phase, const Step &step, int s) {
    const Layer &layer = problem.layers[step.layer];
    bool again = step.kind == StepKind::Recompute;
    for (const TensorUse &use : layer.tensors)
      readTensor(use, s, again);
    for (const ValueUse &use : layer.inputs)
      expect(operand(phase, use.value, s), value(use.value));
    for (int v : layer.outputs)
      store(operand(phase, v, s), value(v));
    if (problem.cost(step.layer, phase.microbatch).savedBytes > 0)
      store(on(buffer(Content::Saved, step.layer, -1, s), iteration),
            saved(step.layer));
    if (layer.isLoss)
      readSeeds(s);
    if (again)
      return;
    for (const TensorUse &use : layer.tensors)
      if (use.forwardWrites)
        store(on(buffer(Content::Tensor, use.tensor, -1, s), 0),
              tensor(use.tensor, ++tensorVersion[use.tensor]));
    if (layer.isLoss)
      accumulateLoss(s);
  }

  void readSeeds(int s) {
    for (int i = 0; i < static_cast<int>(problem.scalars.size()); ++i)
      if (problem.scalars[i].role == ScalarRole::Seed)
        expect(on(buffer(Content::Scalar, i, -1, s), 0), scalar(i, 0),
               "scalar");
  }

  void accumulateLoss(int s) {
    for (int i = 0; i < static_cast<int>(problem.scalars.size()); ++i) {
      if (problem.scalars[i].role != ScalarRole::Accumulator)
        continue;
      Bytes bytes = on(buffer(Content::Scalar, i, -1, s), 0);
      if (!bytes)
        continue;
      Held held = load(bytes, "scalar");
      if (held.kind != Held::Scalar || held.object != i ||
          held.execution != execution)
        report.add("scalar",
                   text(self.event) + " adds to a scalar that holds " +
                       print(held),
                   self.event);
      store(bytes, scalar(i, held.count + 1));
    }
  }

  /// A trained tensor has the version that the execution began with; one that
  /// forward steps write has its newest in them, and any in the backward.
  void readTensor(const TensorUse &use, int s, bool anyVersion) {
    Bytes bytes = on(buffer(Content::Tensor, use.tensor, -1, s), 0);
    if (!bytes)
      return;
    bool trained = !problem.tensors[use.tensor].gradientUses.empty();
    bool written = !trained && tensorVersion[use.tensor] > 0;
    if (written && (anyVersion || !use.forwardWrites)) {
      Held held = load(bytes, "read");
      if (held.kind != Held::Tensor || held.object != use.tensor)
        report.add("read",
                   text(self.event) + " needs tensor " +
                       std::to_string(use.tensor) + " and finds " + print(held),
                   self.event);
      return;
    }
    expect(bytes,
           tensor(use.tensor, trained ? execution : tensorVersion[use.tensor]));
  }

  void runBackward(const Phase &phase, int l, int s) {
    const Layer &layer = problem.layers[l];
    for (const TensorUse &use : layer.tensors)
      if (use.backwardReads)
        readTensor(use, s, true);
    for (const ValueUse &use : layer.inputs)
      if (use.backwardReads)
        expect(operand(phase, use.value, s), value(use.value));
    if (problem.cost(l, phase.microbatch).savedBytes > 0)
      expect(on(buffer(Content::Saved, l, -1, s), iteration), saved(l));
    if (layer.isLoss)
      readSeeds(s);
    for (int v : layer.outputs)
      if (problem.values[v].differentiable)
        expect(on(buffer(Content::ValueGradient, v, -1, s), iteration),
               valueGradient(v, problem.contributions(v)), "gradient");
    for (const ValueUse &use : layer.inputs)
      if (use.gradient)
        contribute(use.value, l, s);
    for (int position = 0; position < static_cast<int>(layer.tensors.size());
         ++position)
      if (layer.tensors[position].gradient)
        accumulate(layer.tensors[position].tensor, l, position, s);
  }

  /// The consumer of highest index writes the gradient, the others add to it.
  void contribute(int v, int l, int s) {
    int64_t before = 0;
    for (int consumer : problem.values[v].consumers)
      if (consumer > l)
        for (const ValueUse &use : problem.layers[consumer].inputs)
          before += use.value == v && use.gradient;
    Bytes bytes = on(buffer(Content::ValueGradient, v, -1, s), iteration);
    if (before > 0)
      expect(bytes, valueGradient(v, before), "gradient");
    store(bytes, valueGradient(v, before + 1));
  }

  void accumulate(int t, int l, int position, int s) {
    const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
    for (int use = 0; use < static_cast<int>(uses.size()); ++use)
      if (uses[use].layer == l && uses[use].position == position) {
        Bytes bytes = on(buffer(Content::Gradient, t, use, s), 0);
        expect(bytes, gradient(t, use, iteration), "gradient");
        store(bytes, gradient(t, use, iteration + 1));
      }
  }

  //===--- before and after ---===//

  /// Homes hold version 0, resident buffers what `load` brings.
  void placeInitial() {
    Stamp before;
    for (const Home &home : plan.homes) {
      Held held;
      if (home.kind == HomeKind::Tensor)
        held = tensor(home.object, 0);
      else if (home.kind == HomeKind::State)
        held = state(home.object, 0);
      else
        continue;
      spaces[0].write(home.offset, home.offset + home.bytes(), held, before);
    }
    for (const ResidentTransfer &transfer : plan.load) {
      const Buffer &buffer = plan.buffers[transfer.buffer];
      if (!buffer.persistent)
        report.add("persistent", "a resident transfer loads buffer " +
                                     std::to_string(transfer.buffer) +
                                     ", which is not persistent");
      bool weights = transfer.content == Content::Tensor;
      spaces[1 + buffer.device].write(buffer.offset, buffer.end(),
                                      weights ? tensor(transfer.object, 0)
                                              : state(transfer.object, 0),
                                      before);
    }
  }

  /// After the last execution the host store, with what `store` adds to it,
  /// holds the newest version of everything, and resident buffers still hold
  /// theirs.
  void checkFinal() {
    for (const ResidentTransfer &transfer : plan.load) {
      bool weights = transfer.content == Content::Tensor;
      bool trained = !problem.tensors[transfer.object].gradientUses.empty();
      int64_t version = weights   ? tensorVersion[transfer.object]
                        : trained ? executions
                                  : 0;
      finalCheck(on(&plan.buffers[transfer.buffer], 0),
                 weights ? tensor(transfer.object, version)
                         : state(transfer.object, version),
                 "the resident copy");
    }
    for (const Home &home : plan.homes) {
      bool weights = home.kind == HomeKind::Tensor;
      if (weights || home.kind == HomeKind::State) {
        bool trained = !problem.tensors[home.object].gradientUses.empty();
        int64_t version = weights   ? tensorVersion[home.object]
                          : trained ? executions
                                    : 0;
        if (!isStored(weights ? Content::Tensor : Content::State, home.object))
          finalCheck(at(&home, 0),
                     weights ? tensor(home.object, version)
                             : state(home.object, version),
                     "the host's copy");
      } else if (home.kind == HomeKind::Value &&
                 problem.values[home.object].output) {
        checkOutput(home);
      }
    }
    for (int v = 0; v < static_cast<int>(problem.values.size()); ++v)
      if (problem.values[v].output &&
          !homeIndex.count(key(static_cast<int>(HomeKind::Value), v, -1, 0)))
        report.add("output", "output '" + problem.values[v].name +
                                 "' has no place in the host store");
    for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
      if (problem.scalars[s].role == ScalarRole::Accumulator)
        checkAccumulator(s);
  }

  bool isStored(Content content, int object) const {
    return std::any_of(plan.store.begin(), plan.store.end(),
                       [&](const ResidentTransfer &transfer) {
                         return transfer.content == content &&
                                transfer.object == object;
                       });
  }

  Held finalHeld(Bytes bytes) {
    Held held;
    bool first = true, mixed = false;
    spaces[bytes.space].visit(bytes.begin, bytes.end,
                              [&](Space::Segment &segment) {
                                mixed |= !first && segment.held != held;
                                held = segment.held;
                                first = false;
                              });
    return mixed ? Held{} : held;
  }

  void finalCheck(Bytes bytes, const Held &expected, const char *what) {
    Held held = finalHeld(bytes);
    if (held != expected)
      report.add("persistent",
                 std::string(what) + " of " + kindName(expected) + " " +
                     std::to_string(expected.object) + " is " + print(held) +
                     " after " + std::to_string(executions) +
                     " executions, accepted is " + print(expected));
  }

  void checkOutput(const Home &home) {
    int64_t count = plan.batch / plan.phases[0].microbatch;
    for (int64_t i = 0; i < count; ++i) {
      Held expected{Held::Value, home.object, -1, executions - 1, i, 0};
      Extent extent = homeExtent(plan, problem, home, 0, i);
      Bytes bytes{0, extent.offset, extent.offset + extent.bytes, nullptr};
      if (bytes && finalHeld(bytes) == expected)
        continue;
      report.add("output", "output '" + problem.values[home.object].name +
                               "', microbatch " + std::to_string(i) +
                               ", is not in the host store after an execution");
      return;
    }
  }

  void checkAccumulator(int s) {
    auto it = homeIndex.find(key(static_cast<int>(HomeKind::Scalar), s, -1, 0));
    Held expected{
        Held::Scalar,   s, -1,
        executions - 1, 0, lossLayers * plan.batch / plan.phases[0].microbatch};
    if (it == homeIndex.end() ||
        finalHeld(at(&plan.homes[it->second], 0)) != expected)
      report.add("scalar", "scalar '" + problem.scalars[s].name +
                               "' is not in the host store after an execution");
  }
};

} // namespace

void replay(const Plan &plan, const Problem &problem, Report &report) {
  Replayer(plan, problem, report).run();
}

} // namespace harmony::planner
