//===- Paging.cpp - A device memory that is virtual -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Paging.h"

#include <algorithm>
#include <set>

namespace harmony::planner {

int64_t alignedBytes(int64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

int64_t footprint(const PagedProgram &program, const Operation &operation) {
  int64_t bytes = operation.transientBytes;
  for (const Need &need : operation.needs)
    bytes += alignedBytes(program.pieces[need.piece].bytes);
  return bytes;
}

namespace {

bool isValue(Content content) {
  return content == Content::Value || content == Content::ValueGradient;
}

/// Events of one operation, in issue order: transfers of tensors and the like,
/// values in, the operation itself, values out.
struct Section {
  std::vector<int> before, loads;
  int event = -1;
  std::vector<int> after;
};

/// A live range by events in order of creation.
struct Range {
  int first = -1, firstStep = 0, last = -1, lastStep = 0;
};

class Pager {
public:
  Pager(const Problem &problem, const Machine &machine,
        const PagedProgram &program, const std::vector<int64_t> &limits)
      : problem(problem), machine(machine), program(program), limits(limits),
        devices(static_cast<int>(machine.devices.size())),
        sections(program.operations.size()),
        slots(program.pieces.size() * devices),
        atHome(program.pieces.size(), 0), made(program.pieces.size(), 0),
        accesses(program.pieces.size(), 0), residents(devices),
        used(devices, 0), fixed(devices, 0), largest(devices, 0) {
    draft.plan.phases = program.phases;
    for (const Phase &phase : program.phases)
      microbatches = std::max(microbatches, phase.firstMicrobatch + 1);
    for (size_t p = 0; p < program.pieces.size(); ++p)
      atHome[p] = made[p] = program.pieces[p].content == Content::Tensor ||
                            program.pieces[p].content == Content::State;
  }

  std::optional<Draft> run() {
    makeHomes();
    listAccesses();
    makeOperationEvents();
    for (int i = 0; i < operationCount(); ++i)
      if (!execute(i))
        return std::nullopt;
    flush();
    addScalars();
    return finish();
  }

private:
  /// A piece on a device.
  struct Slot {
    std::vector<int> operations; ///< that access it, ascending
    size_t next = 0;             ///< in `operations`
    int buffer = -1;
    bool dirty = false;
    bool reserved = false; ///< arrived ahead of its use, must not be evicted
    int64_t tick = 0;      ///< of the last use
    int lastOperation = -1;
  };

  const Problem &problem;
  const Machine &machine;
  const PagedProgram &program;
  const std::vector<int64_t> &limits;
  int devices;
  Draft draft;
  std::vector<Event> events;
  std::vector<Range> ranges;
  std::vector<Section> sections;
  std::vector<int> prefix, suffix;
  std::vector<Slot> slots;   ///< by piece and device
  std::vector<char> atHome;  ///< by piece: the host store has it as it is now
  std::vector<char> made;    ///< by piece: it holds something
  std::vector<int> accesses; ///< by piece: that are still to come, anywhere
  std::vector<std::vector<int>> residents; ///< slots, by device
  std::vector<int64_t> used;               ///< by device: bytes of pieces
  std::vector<int64_t> fixed; ///< of which cannot leave: arrivals, saved blocks
  std::vector<int64_t> largest;  ///< by device: footprint of an operation
  std::vector<int> nextOnDevice; ///< by operation
  std::map<std::pair<int, int>, int> homeOf[6];
  int64_t tick = 0;
  int64_t microbatches = 0; ///< of all groups

  int operationCount() const {
    return static_cast<int>(program.operations.size());
  }
  int slotIndex(int piece, int device) const {
    return piece * devices + device;
  }
  int pieceOf(int slot) const { return slot / devices; }
  int deviceOf(int slot) const { return slot % devices; }
  const Piece &piece(int slot) const { return program.pieces[pieceOf(slot)]; }
  int64_t bytes(int slot) const { return alignedBytes(piece(slot).bytes); }

  //===--- events, buffers, homes ---===//

  int queue(QueueKind kind, int device, int lane = 0) {
    std::vector<Queue> &queues = draft.plan.queues;
    for (size_t q = 0; q < queues.size(); ++q)
      if (queues[q].kind == kind && queues[q].device == device &&
          queues[q].lane == lane)
        return static_cast<int>(q);
    queues.push_back({kind, device, lane});
    return static_cast<int>(queues.size()) - 1;
  }

  int makeEvent(EventKind kind, int queue, int device, int object, int use,
                int phase = -1) {
    Event event;
    event.kind = kind;
    event.queue = queue;
    event.device = device;
    event.object = object;
    event.use = use;
    event.phase = phase;
    events.push_back(std::move(event));
    return static_cast<int>(events.size()) - 1;
  }

  int makeBuffer(Content content, int object, int use, int64_t firstSample,
                 int device, int64_t size) {
    Buffer buffer;
    buffer.content = content;
    buffer.object = object;
    buffer.use = use;
    buffer.firstSample = firstSample;
    buffer.device = device;
    buffer.slotBytes = buffer.stride = size;
    draft.plan.buffers.push_back(buffer);
    ranges.emplace_back();
    return static_cast<int>(ranges.size()) - 1;
  }

  int lastStep(int event) const {
    return events[event].kind == EventKind::Run ? events[event].endStep - 1 : 0;
  }

  /// Records an access; the live range covers it. Accesses come in issue order.
  void touch(int event, int buffer, bool writes) {
    draft.bufferTouches.push_back({event, buffer, writes});
    if (ranges[buffer].first < 0)
      ranges[buffer].first = event;
    ranges[buffer].last = event;
    ranges[buffer].lastStep = lastStep(event);
  }

  int home(HomeKind kind, int object, int use, int64_t size) {
    auto [it, fresh] = homeOf[static_cast<int>(kind)].insert(
        {{object, use}, static_cast<int>(draft.plan.homes.size())});
    if (fresh)
      draft.plan.homes.push_back({kind, object, use, 0, size});
    return it->second;
  }

  void makeHomes() {
    for (int t = 0; t < static_cast<int>(problem.tensors.size()); ++t) {
      home(HomeKind::Tensor, t, -1, problem.tensors[t].bytes);
      if (!problem.tensors[t].gradientUses.empty() &&
          problem.tensors[t].stateBytes > 0)
        home(HomeKind::State, t, -1, problem.tensors[t].stateBytes);
    }
  }

  int pieceHome(const Piece &piece) {
    switch (piece.content) {
    case Content::Tensor:
      return home(HomeKind::Tensor, piece.object, -1, piece.bytes);
    case Content::State:
      return home(HomeKind::State, piece.object, -1, piece.bytes);
    case Content::Gradient:
      return home(HomeKind::Gradient, piece.object, piece.use, piece.bytes);
    default:
      return home(piece.content == Content::Value ? HomeKind::Value
                                                  : HomeKind::ValueGradient,
                  piece.object, -1, valueHomeBytes(piece.object));
    }
  }

  /// Of a value its microbatch, which is that of the event's phase.
  void touchHome(int event, const Piece &piece, bool writes) {
    Touch touch{event, pieceHome(piece), writes};
    if (isValue(piece.content)) {
      const Phase &phase = program.phases[events[event].phase];
      const Value &value = problem.values[piece.object];
      touch.offset = phase.firstSample * value.bytesPerSample +
                     phase.firstMicrobatch * value.fixedBytes;
      touch.bytes = piece.bytes;
    }
    draft.homeTouches.push_back(touch);
  }

  int64_t valueHomeBytes(int v) const {
    return problem.batch * problem.values[v].bytesPerSample +
           microbatches * problem.values[v].fixedBytes;
  }

  static EventKind loadOf(Content content) {
    switch (content) {
    case Content::Tensor:
      return EventKind::LoadTensor;
    case Content::State:
      return EventKind::LoadState;
    case Content::Gradient:
      return EventKind::LoadGradient;
    case Content::Value:
      return EventKind::LoadValue;
    default:
      return EventKind::LoadValueGradient;
    }
  }
  static EventKind storeOf(Content content) {
    switch (content) {
    case Content::Tensor:
      return EventKind::StoreTensor;
    case Content::State:
      return EventKind::StoreState;
    case Content::Gradient:
      return EventKind::StoreGradient;
    case Content::Value:
      return EventKind::StoreValue;
    default:
      return EventKind::StoreValueGradient;
    }
  }

  //===--- preparation ---===//

  void listAccesses() {
    nextOnDevice.assign(program.operations.size(), -1);
    std::vector<int> last(devices, -1);
    for (int i = 0; i < operationCount(); ++i) {
      const Operation &operation = program.operations[i];
      if (operation.kind == EventKind::Epilogue)
        continue;
      int d = operation.device;
      if (last[d] >= 0)
        nextOnDevice[last[d]] = i;
      last[d] = i;
      largest[d] = std::max(largest[d], footprint(program, operation));
      for (const Need &need : operation.needs) {
        slots[slotIndex(need.piece, d)].operations.push_back(i);
        ++accesses[need.piece];
      }
    }
  }

  /// The events of the operations themselves, and what lives in them alone.
  void makeOperationEvents() {
    for (int i = 0; i < operationCount(); ++i) {
      const Operation &operation = program.operations[i];
      bool host = operation.kind == EventKind::Epilogue;
      int event =
          makeEvent(operation.kind,
                    host ? queue(QueueKind::Host, hostEndpoint)
                         : queue(QueueKind::Compute, operation.device),
                    operation.device, operation.tensor, -1, operation.phase);
      sections[i].event = event;
      if (host || operation.kind == EventKind::Update)
        draft.scalarTouches.push_back({event, 0, host});
      if (operation.phase < 0)
        continue;
      const Phase &phase = program.phases[operation.phase];
      events[event].endStep = static_cast<int>(phase.steps.size());
      addTransients(event, phase);
    }
  }

  void addTransients(int event, const Phase &phase) {
    const Cost &cost = problem.cost(phase.firstLayer, phase.microbatch);
    int last = static_cast<int>(phase.steps.size()) - 1;
    auto scratch = [&](Content content, int object, int64_t sample,
                       int64_t size, int first, int end) {
      int buffer = makeBuffer(content, object, -1, sample, phase.device, size);
      touch(event, buffer, true);
      ranges[buffer].firstStep = first;
      ranges[buffer].lastStep = end;
    };
    for (int s = 0; s <= last; ++s) {
      Step step = phase.steps[s];
      bool backward = step.kind == StepKind::Backward;
      int64_t workspace =
          backward ? cost.backwardWorkspace : cost.forwardWorkspace;
      if (workspace > 0)
        scratch(Content::Workspace, step.layer, 0, workspace, s, s);
      if (backward)
        continue;
      if (!phase.keep && cost.savedBytes > 0)
        scratch(Content::Saved, step.layer, phase.firstSample, cost.savedBytes,
                s, last);
      for (int v : problem.layers[step.layer].outputs) {
        const Value &value = problem.values[v];
        bool recomputed = step.kind == StepKind::Recompute;
        if (recomputed || value.consumers.empty())
          scratch(recomputed ? Content::RecomputedValue : Content::Value, v,
                  phase.firstSample, value.bytes(phase.microbatch), s, s);
      }
    }
  }

  //===--- paging ---===//

  bool execute(int i) {
    const Operation &operation = program.operations[i];
    int event = sections[i].event;
    if (operation.kind == EventKind::Epilogue)
      return true;
    int d = operation.device;
    pins.clear();
    for (const Need &need : operation.needs)
      pins.insert(slotIndex(need.piece, d));
    for (const Need &need : operation.needs)
      if (!provide(i, need, operation.transientBytes))
        return false;
    if (!makeRoom(i, d, operation.transientBytes))
      return false;
    prefetch(i, operation.transientBytes);
    for (const Need &need : operation.needs) {
      int s = slotIndex(need.piece, d);
      Slot &slot = slots[s];
      touch(event, slot.buffer, need.writes);
      release(s);
      slot.tick = ++tick;
      slot.lastOperation = i;
      ++slot.next;
      --accesses[need.piece];
      if (need.writes) {
        if (program.pieces[need.piece].content == Content::Tensor)
          dropCopies(need.piece, d);
        slot.dirty = true;
        atHome[need.piece] = 0;
        made[need.piece] = 1;
      }
    }
    if (operation.kind == EventKind::Contribute)
      addContribution(i);
    for (const Need &need : operation.needs)
      if (need.writes && isValue(program.pieces[need.piece].content))
        send(i, need.piece, d);
    for (const Need &need : operation.needs)
      if (isOver(slotIndex(need.piece, d)))
        drop(slotIndex(need.piece, d));
    return true;
  }

  std::set<int> pins; ///< slots of the operations under way

  /// Whether the last use is past. Tensors and states stay until they are
  /// evicted, gradients until they are consumed, wherever that is.
  bool isOver(int s) const {
    switch (piece(s).content) {
    case Content::Tensor:
    case Content::State:
      return false;
    case Content::Gradient:
      return accesses[pieceOf(s)] == 0;
    default:
      return slots[s].next == slots[s].operations.size();
    }
  }

  void drop(int s) {
    release(s);
    if (piece(s).content == Content::Saved)
      fixed[deviceOf(s)] -= bytes(s);
    used[deviceOf(s)] -= bytes(s);
    slots[s].buffer = -1;
    slots[s].dirty = false;
    std::vector<int> &list = residents[deviceOf(s)];
    list.erase(std::find(list.begin(), list.end(), s));
  }

  /// Copies of a tensor on other devices, which no longer hold what it is.
  void dropCopies(int piece, int device) {
    for (int d = 0; d < devices; ++d)
      if (d != device && slots[slotIndex(piece, d)].buffer >= 0)
        drop(slotIndex(piece, d));
  }

  void reserve(int s) {
    slots[s].reserved = true;
    fixed[deviceOf(s)] += bytes(s);
  }
  void release(int s) {
    if (slots[s].reserved)
      fixed[deviceOf(s)] -= bytes(s);
    slots[s].reserved = false;
  }

  /// Evicts until `more` bytes fit beside the pieces of a device.
  bool makeRoom(int i, int device, int64_t more) {
    while (used[device] + more > limits[device]) {
      int victim = -1;
      for (int s : residents[device])
        if (!slots[s].reserved && piece(s).content != Content::Saved &&
            pins.count(s) == 0 &&
            (victim < 0 || slots[s].tick < slots[victim].tick))
          victim = s;
      if (victim < 0)
        return false;
      evict(i, victim);
    }
    return true;
  }

  void evict(int i, int s) {
    if (slots[s].dirty && !atHome[pieceOf(s)])
      store(i, s);
    drop(s);
  }

  /// Writes a piece back, in operation i; values in that of their last use, of
  /// whose loop they are part.
  void store(int i, int s) {
    const Piece &what = piece(s);
    bool value = isValue(what.content);
    int at = value ? slots[s].lastOperation : i;
    int event = makeEvent(storeOf(what.content),
                          queue(QueueKind::Out, deviceOf(s), value ? 1 : 0),
                          deviceOf(s), what.object, what.use,
                          value ? program.operations[at].phase : -1);
    events[event].bytes = what.bytes;
    touch(event, slots[s].buffer, false);
    touchHome(event, what, true);
    (value ? sections[at].after : sections[i].before).push_back(event);
    slots[s].dirty = false;
    atHome[pieceOf(s)] = 1;
  }

  /// Gives a piece its place; false if there is no room beside `transient`.
  bool place(int i, int s, int64_t transient) {
    int device = deviceOf(s);
    if (!makeRoom(i, device, transient + bytes(s)))
      return false;
    const Piece &what = piece(s);
    slots[s].buffer = makeBuffer(what.content, what.object, what.use,
                                 what.firstSample, device, what.bytes);
    slots[s].tick = ++tick;
    used[device] += bytes(s);
    if (what.content == Content::Saved)
      fixed[device] += bytes(s);
    residents[device].push_back(s);
    return true;
  }

  bool provide(int i, const Need &need, int64_t transient) {
    int s = slotIndex(need.piece, program.operations[i].device);
    if (slots[s].buffer >= 0)
      return true;
    if (!place(i, s, transient))
      return false;
    const Piece &what = piece(s);
    if (need.creates)
      return true;
    if (what.content == Content::Gradient && !made[need.piece]) {
      int zero =
          makeEvent(EventKind::ZeroGradient, events[sections[i].event].queue,
                    deviceOf(s), what.object, what.use);
      touch(zero, slots[s].buffer, true);
      sections[i].before.push_back(zero);
      return true;
    }
    fetch(i, s);
    return true;
  }

  /// Fills a new buffer: a gradient from the device that has it, if there is a
  /// link; all else from the host store.
  void fetch(int i, int s) {
    const Piece &what = piece(s);
    int holder = -1;
    for (int d = 0; d < devices; ++d)
      if (d != deviceOf(s) && slots[slotIndex(pieceOf(s), d)].buffer >= 0)
        holder = slotIndex(pieceOf(s), d);
    if (what.content == Content::Gradient && holder >= 0 &&
        machine.hasLink(deviceOf(holder), deviceOf(s))) {
      int copy = makeCopy(EventKind::CopyGradient, holder, s, 0, -1);
      sections[i].before.push_back(copy);
      slots[s].dirty = true;
      drop(holder);
      return;
    }
    if (holder >= 0 && !atHome[pieceOf(s)])
      store(i, holder);
    if (what.content == Content::Gradient && holder >= 0)
      drop(holder);
    bool value = isValue(what.content);
    int event = makeEvent(loadOf(what.content),
                          queue(QueueKind::In, deviceOf(s), value ? 1 : 0),
                          deviceOf(s), what.object, what.use,
                          value ? program.operations[i].phase : -1);
    events[event].bytes = what.bytes;
    touch(event, slots[s].buffer, true);
    bool input = value && problem.values[what.object].isInput();
    if (!input)
      touchHome(event, what, false);
    (value ? sections[i].loads : sections[i].before).push_back(event);
  }

  int makeCopy(EventKind kind, int from, int to, int lane, int phase) {
    const Piece &what = piece(from);
    int event = makeEvent(kind, queue(QueueKind::Peer, deviceOf(from), lane),
                          deviceOf(to), what.object, what.use, phase);
    events[event].source = deviceOf(from);
    events[event].bytes = what.bytes;
    touch(event, slots[from].buffer, false);
    touch(event, slots[to].buffer, true);
    return event;
  }

  /// What the device's next operation needs of tensors and states, as far as it
  /// fits beside this one.
  void prefetch(int i, int64_t transient) {
    int next = nextOnDevice[i];
    if (next < 0)
      return;
    int d = program.operations[i].device;
    const std::vector<Need> &needs = program.operations[next].needs;
    for (const Need &need : needs)
      pins.insert(slotIndex(need.piece, d));
    for (const Need &need : needs) {
      int s = slotIndex(need.piece, d);
      Content content = program.pieces[need.piece].content;
      if ((content != Content::Tensor && content != Content::State) ||
          slots[s].buffer >= 0)
        continue;
      if (!place(i, s, transient))
        return;
      fetch(i, s);
      reserve(s);
    }
  }

  /// A value that an operation has made goes to the devices that use it, a
  /// gradient to the one that adds to it next: by a copy if there is a link and
  /// room for it until then, else through the host store.
  void send(int i, int piece, int from) {
    bool gradient = program.pieces[piece].content == Content::ValueGradient;
    int next = -1, soonest = operationCount();
    for (int d = 0; d < devices; ++d) {
      const Slot &slot = slots[slotIndex(piece, d)];
      if (slot.next == slot.operations.size())
        continue;
      if (!gradient && d != from)
        sendTo(i, piece, from, d);
      if (slot.operations[slot.next] < soonest) {
        soonest = slot.operations[slot.next];
        next = d;
      }
    }
    if (gradient && next >= 0 && next != from)
      sendTo(i, piece, from, next);
  }

  void sendTo(int i, int piece, int from, int to) {
    int source = slotIndex(piece, from), target = slotIndex(piece, to);
    bool fits = fixed[to] + bytes(target) + largest[to] <= limits[to];
    pins.clear();
    pins.insert(source);
    if (!fits || !machine.hasLink(from, to) || !place(i, target, 0)) {
      if (!atHome[piece])
        store(i, source);
      return;
    }
    bool gradient = program.pieces[piece].content == Content::ValueGradient;
    sections[i].after.push_back(
        makeCopy(gradient ? EventKind::CopyValueGradient : EventKind::CopyValue,
                 source, target, 1, program.operations[i].phase));
    slots[target].dirty = true;
    reserve(target);
  }

  /// What was changed and has to be the same when the next execution begins.
  void flush() {
    for (int d = 0; d < devices; ++d)
      for (int s : residents[d])
        if (slots[s].dirty && !atHome[pieceOf(s)]) {
          const Piece &what = piece(s);
          int event = makeEvent(storeOf(what.content), queue(QueueKind::Out, d),
                                d, what.object, what.use);
          events[event].bytes = what.bytes;
          touch(event, slots[s].buffer, false);
          touchHome(event, what, true);
          suffix.push_back(event);
          atHome[pieceOf(s)] = 1;
        }
  }

  //===--- scalars ---===//

  int scalarBuffer(int scalar, int use, int device) {
    int buffer = makeBuffer(Content::Scalar, scalar, use, 0, device,
                            problem.scalars[scalar].bytes);
    draft.plan.buffers[buffer].persistent = true;
    return buffer;
  }

  int transferScalar(EventKind kind, int scalar, int use, int device,
                     int buffer) {
    bool in = kind == EventKind::LoadScalar;
    int event =
        makeEvent(kind, queue(in ? QueueKind::In : QueueKind::Out, device, 1),
                  device, scalar, use);
    events[event].bytes = problem.scalars[scalar].bytes;
    touch(event, buffer, in);
    draft.homeTouches.push_back(
        {event, home(HomeKind::Scalar, scalar, use, events[event].bytes), !in});
    return event;
  }

  void addScalars() {
    int prologue = -1;
    for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
      switch (problem.scalars[s].role) {
      case ScalarRole::Seed:
        if (prologue < 0) {
          prologue = makeEvent(EventKind::Prologue,
                               queue(QueueKind::Host, hostEndpoint), 0, -1, -1);
          prefix.insert(prefix.begin(), prologue);
          if (problem.epilogue)
            draft.scalarTouches.push_back({prologue, 0, true});
        }
        draft.homeTouches.push_back(
            {prologue, home(HomeKind::Scalar, s, -1, problem.scalars[s].bytes),
             true});
        addSeed(s);
        break;
      case ScalarRole::Accumulator:
        for (int g = 0; g < program.groups; ++g)
          addAccumulator(s, g);
        break;
      case ScalarRole::Contribution:
        break;
      }
  }

  void addContribution(int i) {
    const Operation &operation = program.operations[i];
    int scalar = problem.tensors[operation.tensor].contribution;
    int buffer = makeBuffer(Content::Scalar, scalar, -1, 0, operation.device,
                            problem.scalars[scalar].bytes);
    touch(sections[i].event, buffer, true);
    sections[i].after.push_back(transferScalar(EventKind::StoreScalar, scalar,
                                               -1, operation.device, buffer));
    int place = home(HomeKind::Scalar, scalar, -1, 0);
    for (const Section &section : sections)
      if (events[section.event].kind == EventKind::Epilogue)
        draft.homeTouches.push_back({section.event, place, false});
  }

  void addSeed(int scalar) {
    std::vector<int> buffers(devices, -1);
    for (const Section &section : sections) {
      const Event &run = events[section.event];
      if (run.phase < 0 ||
          !problem.layers[program.phases[run.phase].firstLayer].isLoss)
        continue;
      int &buffer = buffers[run.device];
      int device = run.device;
      if (buffer < 0) {
        buffer = scalarBuffer(scalar, -1, device);
        prefix.push_back(
            transferScalar(EventKind::LoadScalar, scalar, -1, device, buffer));
      }
      touch(section.event, buffer, false);
    }
  }

  void addAccumulator(int scalar, int group) {
    int buffer = -1, device = 0;
    for (const Section &section : sections) {
      const Event &run = events[section.event];
      if (run.phase < 0)
        continue;
      const Phase &phase = program.phases[run.phase];
      if (phase.group != group || phase.kind == PhaseKind::Backward ||
          phase.firstLayer != problem.scalars[scalar].layer)
        continue;
      device = phase.device;
      if (buffer < 0) {
        buffer = scalarBuffer(scalar, group, device);
        int zero =
            makeEvent(EventKind::ZeroScalar, run.queue, device, scalar, group);
        touch(zero, buffer, true);
        prefix.push_back(zero);
      }
      touch(section.event, buffer, true);
    }
    suffix.push_back(
        transferScalar(EventKind::StoreScalar, scalar, group, device, buffer));
  }

  //===--- the order ---===//

  Draft finish() {
    std::vector<int> order = prefix;
    auto append = [&](const std::vector<int> &list) {
      order.insert(order.end(), list.begin(), list.end());
    };
    for (const Section &section : sections) {
      append(section.before);
      append(section.loads);
      order.push_back(section.event);
      append(section.after);
    }
    append(suffix);

    Plan &plan = draft.plan;
    plan.problem = problem.name;
    plan.batch = problem.batch;
    plan.groups = program.groups;
    plan.update = UpdateOrder::Deferred;
    std::vector<int> index(events.size());
    for (size_t i = 0; i < order.size(); ++i) {
      index[order[i]] = static_cast<int>(i);
      plan.events.push_back(std::move(events[order[i]]));
    }
    int last = static_cast<int>(plan.events.size()) - 1;
    for (size_t b = 0; b < ranges.size(); ++b) {
      Buffer &buffer = plan.buffers[b];
      const Range &range = ranges[b];
      buffer.first = {buffer.persistent ? 0 : index[range.first],
                      range.firstStep};
      buffer.last = {buffer.persistent ? last : index[range.last],
                     range.lastStep};
      if (buffer.persistent) {
        buffer.first.step = 0;
        buffer.last.step = plan.events[last].kind == EventKind::Run
                               ? plan.events[last].endStep - 1
                               : 0;
      }
    }
    for (auto *touches :
         {&draft.bufferTouches, &draft.homeTouches, &draft.scalarTouches})
      for (Touch &touch : *touches)
        touch.event = index[touch.event];
    plan.traffic = trafficOf(plan, problem);
    return std::move(draft);
  }
};

} // namespace

std::optional<Draft> page(const Problem &problem, const Machine &machine,
                          const PagedProgram &program,
                          const std::vector<int64_t> &limits) {
  return Pager(problem, machine, program, limits).run();
}

} // namespace harmony::planner
