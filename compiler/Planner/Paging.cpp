//===- Paging.cpp - A device memory that is virtual -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/PagedPlan.h"

#include <algorithm>
#include <set>

namespace harmony::planner {

int64_t footprint(const PagedProgram &program, const Operation &operation) {
  int64_t bytes = operation.transientBytes;
  for (const Need &need : operation.needs)
    bytes += alignedBytes(program.pieces[need.piece].bytes);
  return bytes;
}

namespace {

class Pager : PagedPlan {
public:
  Pager(const Problem &problem, const Machine &machine,
        const PagedProgram &program, const std::vector<int64_t> &limits)
      : PagedPlan(problem, program, static_cast<int>(machine.devices.size())),
        machine(machine), limits(limits),
        slots(program.pieces.size() * devices),
        atHome(program.pieces.size(), 0), made(program.pieces.size(), 0),
        accesses(program.pieces.size(), 0), residents(devices),
        used(devices, 0), fixed(devices, 0), largest(devices, 0) {
    for (size_t p = 0; p < program.pieces.size(); ++p) {
      const Piece &piece = program.pieces[p];
      atHome[p] = made[p] = piece.content == Content::Tensor ||
                            piece.content == Content::State ||
                            (piece.content == Content::Value &&
                             problem.values[piece.object].isInput());
    }
  }

  std::optional<Draft> run() {
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

  const Machine &machine;
  const std::vector<int64_t> &limits;
  std::vector<Slot> slots;   ///< by piece and device
  std::vector<char> atHome;  ///< by piece: the host store has it as it is now
  std::vector<char> made;    ///< by piece: it holds something
  std::vector<int> accesses; ///< by piece: that are still to come, anywhere
  std::vector<std::vector<int>> residents; ///< slots, by device
  std::vector<int64_t> used;               ///< by device: bytes of pieces
  std::vector<int64_t> fixed; ///< of which cannot leave: arrivals, saved blocks
  std::vector<int64_t> largest;  ///< by device: footprint of an operation
  std::vector<int> nextOnDevice; ///< by operation
  int64_t tick = 0;

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

  //===--- preparation ---===//

  void listAccesses() {
    nextOnDevice.assign(program.operations.size(), -1);
    std::vector<int> last(devices, -1);
    for (int i = 0; i < operationCount(); ++i) {
      const Operation &operation = program.operations[i];
      if (operation.kind == EventKind::Epilogue)
        continue;
      if (operation.onHost) {
        for (const Need &need : operation.needs)
          ++accesses[need.piece];
        continue;
      }
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

  //===--- paging ---===//

  bool execute(int i) {
    const Operation &operation = program.operations[i];
    int event = sections[i].event;
    if (operation.kind == EventKind::Epilogue)
      return true;
    if (operation.onHost) {
      executeOnHost(i);
      return true;
    }
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

  /// Everything is written back first; no device has it any longer.
  void executeOnHost(int i) {
    const Operation &operation = program.operations[i];
    for (const Need &need : operation.needs) {
      for (int d = 0; d < devices; ++d) {
        int s = slotIndex(need.piece, d);
        if (slots[s].buffer < 0)
          continue;
        if (!atHome[need.piece])
          store(i, s);
        drop(s);
      }
      touchHome(sections[i].event, program.pieces[need.piece], need.writes);
      --accesses[need.piece];
    }
    if (operation.kind == EventKind::Contribute)
      addContribution(i);
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
};

} // namespace

std::optional<Draft> page(const Problem &problem, const Machine &machine,
                          const PagedProgram &program,
                          const std::vector<int64_t> &limits) {
  return Pager(problem, machine, program, limits).run();
}

} // namespace harmony::planner
