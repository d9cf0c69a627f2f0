//===- VerifyMemory.cpp - Replay of the commands --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every command instance has a vector clock: how far each queue is known to be
// when it starts. Every byte carries whose it is, the microbatch in which it
// was written, by whom, and who has read it since. An access that conflicts
// with an earlier one must know of it; as then no two orders that the queues
// allow differ in what a read finds, one replay shows what all do.
//
//===----------------------------------------------------------------------===//

#include "passes/Memory/Memory.h"
#include "passes/Memory/SlotAccess.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <vector>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

namespace {

/// An instance of a command: the `sequence`-th of its queue, counted from 1
/// over all executions.
struct Stamp {
  int queue = -1;
  int64_t sequence = 0;
  Operation *op = nullptr;
};

/// By queue: how many of its instances are known to be over.
using Clock = std::vector<int64_t>;

/// What some bytes hold.
struct Holding {
  Operation *place = nullptr; ///< null: nothing, or what has been released
  int64_t iteration = -1;     ///< of what is there once a microbatch
  Stamp writer;
  SmallVector<Stamp, 2> readers; ///< since the write, the last of each queue
};

/// One address space: segments begin at their key and end at the next one.
class Space {
public:
  template <typename Visit>
  LogicalResult access(int64_t begin, int64_t end, Visit visit) {
    split(begin);
    split(end);
    for (auto it = segments.find(begin);
         it != segments.end() && it->first < end; ++it)
      if (failed(visit(it->second)))
        return failure();
    return success();
  }
  /// Joins what access() has split, after a write that made it one.
  void merge(int64_t begin, int64_t end) {
    auto first = segments.find(begin);
    segments.erase(std::next(first), segments.lower_bound(end));
  }

private:
  std::map<int64_t, Holding> segments{{0, {}}};

  void split(int64_t at) {
    auto it = std::prev(segments.upper_bound(at));
    if (it->first != at)
      segments.emplace_hint(std::next(it), at, it->second);
  }
};

/// A queue of one program, flattened: loops as ranges of items.
struct Item {
  Operation *op = nullptr;
  int64_t trips = 1; ///< > 0 at the first item of a loop
  int last = -1;     ///< index of the loop's last item, or of itself
  int first = -1;    ///< index of the loop's first item
  bool looped = false;
  int awaited = -1; ///< of a wait: the queue, by its place in the program
};

struct Queue {
  QueueOp op;
  int index = 0; ///< among all queues of the replay
  std::vector<Item> items;
  // The state of the replay.
  int64_t execution = 0, iteration = 0, timeline = 0, sequence = 0;
  size_t position = 0;
  Clock clock;
  std::vector<Clock>
      signals; ///< the clock at each value of the timeline, from 1
};

class Replay {
public:
  explicit Replay(ModuleOp module) : module(module), symbols(module) {
    for (auto device : module.getOps<DeviceOp>())
      capacities[device.getIndex()] = device.getCapacity();
  }

  LogicalResult run(ArrayRef<std::pair<ProgramOp, int>> programs) {
    for (auto [program, executions] : programs)
      queueCount +=
          static_cast<int>(llvm::range_size(program.getOps<QueueOp>()));
    placeVariables();
    Clock all(queueCount, 0);
    int base = 0;
    for (auto [program, executions] : programs) {
      makeQueues(program, base, all);
      base += static_cast<int>(queues.size());
      if (failed(execute(executions)))
        return failure();
      for (Queue &queue : queues)
        all[queue.index] = queue.sequence;
    }
    return success();
  }

private:
  ModuleOp module;
  SymbolTable symbols;
  DenseMap<int64_t, int64_t> capacities;
  int queueCount = 0;
  std::vector<Queue> queues;       ///< of the program under way
  int64_t batch = 0;               ///< its samples
  std::map<int64_t, Space> spaces; ///< -1: the host store, else a device
  DenseMap<Operation *, std::vector<SlotAccess>> taskAccesses;
  // The instance under way.
  Queue *self = nullptr;
  Stamp stamp;

  //===--- start ----------------------------------------------------------===//

  /// Variables are in the host store from the start.
  void placeVariables() {
    for (auto home : module.getOps<HomeOp>()) {
      if (home.getVariables().empty() || !home.getOffset() ||
          home.getBytes() == 0)
        continue;
      int64_t begin = *home.getOffset(), end = begin + home.getBytes();
      (void)spaces[-1].access(begin, end, [&](Holding &holding) {
        holding = {home, -1, {}, {}};
        return success();
      });
    }
  }

  void makeQueues(ProgramOp program, int base, const Clock &start) {
    queues.clear();
    batch = program.getBatch();
    llvm::StringMap<int> positions;
    for (auto op : program.getOps<QueueOp>()) {
      Queue queue;
      queue.op = op;
      queue.index = base + static_cast<int>(queues.size());
      queue.clock = start;
      for (Operation &inner : op.getBlock()) {
        int first = static_cast<int>(queue.items.size());
        auto loop = dyn_cast<ForOp>(inner);
        if (!loop) {
          queue.items.push_back({&inner, 1, first, first, false});
          continue;
        }
        for (Operation &body : loop.getBlock())
          queue.items.push_back({&body, loop.getTrips(), -1, first, true});
        for (size_t i = first; i < queue.items.size(); ++i)
          queue.items[i].last = static_cast<int>(queue.items.size()) - 1;
      }
      positions[op.getSymName()] = static_cast<int>(queues.size());
      queues.push_back(std::move(queue));
    }
    for (Queue &queue : queues)
      for (Item &item : queue.items)
        if (auto wait = dyn_cast<WaitOp>(item.op))
          item.awaited = positions.lookup(wait.getQueue());
  }

  //===--- execution -----------------------------------------------------===//

  LogicalResult execute(int executions) {
    while (true) {
      bool moved = false, left = false;
      for (Queue &queue : queues) {
        while (queue.execution < executions && !queue.items.empty()) {
          if (!isReady(queue))
            break;
          if (failed(step(queue)))
            return failure();
          moved = true;
        }
        left |= queue.execution < executions && !queue.items.empty();
      }
      if (!left)
        return success();
      if (!moved)
        return reportDeadlock(executions);
    }
  }

  Queue &awaitedBy(const Queue &queue) {
    return queues[queue.items[queue.position].awaited];
  }

  /// The timeline's value that a wait needs, 0 where it needs none.
  int64_t getNeeded(WaitOp wait, const Queue &queue) {
    bool looped = queue.items[queue.position].looped;
    int64_t iteration = looped ? queue.iteration : 0;
    if (iteration < wait.getFrom())
      return 0;
    int64_t execution = queue.execution - (wait.getPreviousStep() ? 1 : 0);
    if (execution < 0)
      return 0;
    return std::max<int64_t>(
        0, execution * awaitedBy(queue).op.getPeriod() + wait.getValue() +
               iteration / wait.getEvery() * wait.getSlope());
  }

  bool isReady(const Queue &queue) {
    auto wait = dyn_cast<WaitOp>(queue.items[queue.position].op);
    return !wait || awaitedBy(queue).timeline >= getNeeded(wait, queue);
  }

  LogicalResult reportDeadlock(int executions) {
    for (Queue &queue : queues) {
      if (queue.execution >= executions || queue.items.empty())
        continue;
      auto wait = cast<WaitOp>(queue.items[queue.position].op);
      InFlightDiagnostic diagnostic =
          wait.emitOpError()
          << "of queue @" << queue.op.getSymName()
          << " is never satisfied: in iteration " << queue.iteration
          << " of execution " << queue.execution << " it needs "
          << getNeeded(wait, queue) << " of @" << wait.getQueue()
          << ", which stays at " << awaitedBy(queue).timeline;
      return diagnostic;
    }
    return failure();
  }

  LogicalResult step(Queue &queue) {
    const Item &item = queue.items[queue.position];
    self = &queue;
    stamp = {queue.index, ++queue.sequence, item.op};
    if (auto wait = dyn_cast<WaitOp>(item.op)) {
      Queue &awaited = awaitedBy(queue);
      if (int64_t needed = getNeeded(wait, queue))
        for (int q = 0; q < queueCount; ++q)
          queue.clock[q] =
              std::max(queue.clock[q], awaited.signals[needed - 1][q]);
    } else if (isa<SignalOp>(item.op)) {
      ++queue.timeline;
      queue.clock[queue.index] = queue.sequence;
      queue.signals.push_back(queue.clock);
    } else if (failed(perform(item.op, item.looped))) {
      return failure();
    }
    advance(queue);
    return success();
  }

  void advance(Queue &queue) {
    const Item &item = queue.items[queue.position];
    if (item.looped && static_cast<int>(queue.position) == item.last) {
      if (++queue.iteration < item.trips) {
        queue.position = item.first;
        return;
      }
      queue.iteration = 0;
    }
    if (++queue.position < queue.items.size())
      return;
    queue.position = 0;
    ++queue.execution;
  }

  LogicalResult perform(Operation *op, bool looped) {
    int64_t iteration = looped ? self->iteration : 0;
    if (Copy copy = getCopy(op))
      return performCopy(copy, iteration);
    if (auto run = dyn_cast<RunOp>(op))
      return performTask(run.getTaskAttr(), run.getAt(), iteration);
    if (auto update = dyn_cast<UpdateOp>(op))
      return performTask(update.getTaskAttr(), update.getAt(), iteration);
    if (auto zero = dyn_cast<ZeroOp>(op)) {
      auto buffer = symbols.lookup<BufferOp>(zero.getBuffer());
      return buffer
                 ? touch(zero.getBufferAttr(), 0, 0, 0, buffer.getBytes(), true)
                 : op->emitOpError() << "zeroes @" << zero.getBuffer()
                                     << ", which is no harmony.buffer";
    }
    if (auto release = dyn_cast<ReleaseOp>(op))
      return performRelease(release, looped, iteration);
    return op->emitOpError() << "is no command of a queue";
  }

  LogicalResult performCopy(const Copy &copy, int64_t iteration) {
    auto side = [&](FlatSymbolRefAttr place, int64_t device, bool writes) {
      bool host = device == Copy::kHost;
      auto buffer = symbols.lookup<BufferOp>(place.getAttr());
      if (host == static_cast<bool>(buffer) ||
          (buffer && static_cast<int64_t>(buffer.getDevice()) != device))
        return LogicalResult(copy.op->emitOpError()
                             << "expects @" << place.getValue()
                             << (host
                                     ? " in the host store"
                                     : " on device " + std::to_string(device)));
      return touch(place, iteration, host ? copy.step : 0,
                   host ? copy.offset : copy.firstByte, copy.bytes, writes);
    };
    if (failed(checkSamples(copy)) ||
        failed(side(copy.source, copy.from, false)))
      return failure();
    return side(copy.destination, copy.to, true);
  }

  /// The host's side of a microbatch lies where the buffer's samples do.
  LogicalResult checkSamples(const Copy &copy) {
    auto buffer = symbols.lookup<BufferOp>(copy.buffer());
    if (!buffer || copy.isPeer() ||
        (buffer.getContent() != Content::value &&
         buffer.getContent() != Content::value_gradient))
      return success();
    int64_t sampleBytes = 0, fixedBytes = 0;
    Operation *place = symbols.lookup(copy.otherPlace());
    if (auto home = dyn_cast_or_null<HomeOp>(place)) {
      sampleBytes = home.getSampleBytes();
      fixedBytes = home.getFixedBytes();
    } else if (auto input = dyn_cast_or_null<InputOp>(place)) {
      sampleBytes = input.getPerStep() ? 0 : input.getSampleBytes();
    }
    int64_t samples = copy.offset - buffer.getFirstSample() * sampleBytes;
    bool fits = fixedBytes > 0 ? samples >= 0 && samples % fixedBytes == 0
                               : samples == 0;
    if (!fits)
      return copy.op->emitOpError()
             << "begins at byte " << copy.offset << " of @" << copy.otherPlace()
             << ", but @" << copy.buffer() << " holds samples from "
             << buffer.getFirstSample() << " on, of " << sampleBytes
             << " bytes each";
    return success();
  }

  LogicalResult performTask(FlatSymbolRefAttr name, ArrayAttr at,
                            int64_t iteration) {
    auto task = cast<TaskOp>(symbols.lookup(name.getAttr()));
    auto [accesses, inserted] = taskAccesses.try_emplace(task);
    if (inserted)
      accesses->second = findSlotAccesses(task);
    for (const SlotAccess &access : accesses->second) {
      auto address = cast<AtAttr>(at[access.slot]);
      if (failed(touch(address.getPlace(), iteration, -1,
                       address.getOffset() + access.begin,
                       access.end - access.begin, access.write)))
        return failure();
    }
    return success();
  }

  LogicalResult performRelease(ReleaseOp release, bool looped,
                               int64_t iteration) {
    auto buffer = symbols.lookup<BufferOp>(release.getBuffer());
    if (!buffer || !buffer.getOffset())
      return release.emitOpError()
             << "frees @" << release.getBuffer()
             << ", which is no harmony.buffer with an address";
    int64_t begin = *buffer.getOffset(), bytes = buffer.getTotalBytes();
    if (looped) {
      begin += iteration % buffer.getSlots() * buffer.getStride();
      bytes = buffer.getBytes();
    }
    if (bytes == 0)
      return success();
    return write(buffer.getDevice(), begin, begin + bytes,
                 {nullptr, -1, stamp, {}});
  }

  //===--- accesses ------------------------------------------------------===//

  /// `step`: what the host's side of a copy advances by; -1 in tasks, whose
  /// homes have one block.
  LogicalResult touch(FlatSymbolRefAttr name, int64_t iteration, int64_t step,
                      int64_t offset, int64_t bytes, bool writes) {
    Operation *place = symbols.lookup(name.getAttr());
    if (auto input = dyn_cast_or_null<InputOp>(place))
      return checkInput(input, offset + iteration * std::max<int64_t>(step, 0),
                        bytes);
    if (bytes == 0 || isa_and_nonnull<ScalarOp>(place))
      return success(); // the runtime's, who writes it between executions
    auto buffer = dyn_cast_or_null<BufferOp>(place);
    auto home = dyn_cast_or_null<HomeOp>(place);
    if (!buffer && !home)
      return stamp.op->emitOpError()
             << "uses @" << name.getValue() << ", which is no place";
    std::optional<int64_t> base =
        buffer ? buffer.getOffset() : home.getOffset();
    if (!base)
      return stamp.op->emitOpError()
             << "uses @" << name.getValue()
             << ", which has no address: assign addresses first";
    int64_t block = buffer ? buffer.getBytes() : home.getBytes();
    if (!buffer && step > 0)
      offset += iteration * step;
    int64_t begin = *base + offset, limit = block;
    if (buffer)
      begin += iteration % buffer.getSlots() * buffer.getStride();
    if (offset + bytes > limit)
      return stamp.op->emitOpError()
             << "touches " << bytes << " bytes at " << offset << " of @"
             << name.getValue() << ", which has " << limit;
    int64_t space = buffer ? buffer.getDevice() : -1;
    if (buffer && failed(checkArena(buffer, begin, begin + bytes)))
      return failure();
    // In a home the address says whose samples they are.
    bool perMicrobatch = buffer && isPerMicrobatch(buffer.getContent());
    Holding holding{place, perMicrobatch ? iteration : -1, stamp, {}};
    return writes ? write(space, begin, begin + bytes, holding)
                  : read(space, begin, begin + bytes, holding);
  }

  /// The data loader's, who fills it between executions.
  LogicalResult checkInput(InputOp input, int64_t offset, int64_t bytes) {
    int64_t end = input.getSampleBytes() * (input.getPerStep() ? 1 : batch);
    if (offset < 0 || offset + bytes > end)
      return stamp.op->emitOpError()
             << "touches bytes [" << offset << ", " << offset + bytes
             << ") of @" << input.getSymName() << ", which has " << end;
    return success();
  }

  static bool isPerMicrobatch(Content content) {
    return content == Content::value || content == Content::value_gradient ||
           content == Content::recomputed_value || content == Content::saved ||
           content == Content::workspace;
  }

  LogicalResult checkArena(BufferOp buffer, int64_t begin, int64_t end) {
    auto capacity = capacities.find(buffer.getDevice());
    if (capacity == capacities.end())
      return buffer.emitOpError() << "lies on device " << buffer.getDevice()
                                  << ", which no harmony.device declares";
    if (begin < 0 || end > capacity->second)
      return stamp.op->emitOpError()
             << "touches bytes [" << begin << ", " << end << ") of device "
             << buffer.getDevice() << " (@" << buffer.getSymName()
             << "), whose arena has " << capacity->second;
    return success();
  }

  /// Whether an earlier instance is over when this one starts.
  bool knows(const Stamp &earlier) const {
    return earlier.queue < 0 || earlier.queue == stamp.queue ||
           self->clock[earlier.queue] >= earlier.sequence;
  }

  static std::string nameOf(Operation *place) {
    return ("@" + SymbolTable::getSymbolName(place).getValue()).str();
  }
  std::string when() const {
    return " in iteration " + std::to_string(self->iteration) +
           " of execution " + std::to_string(self->execution);
  }

  LogicalResult read(int64_t space, int64_t begin, int64_t end,
                     const Holding &wanted) {
    return spaces[space].access(
        begin, end, [&](Holding &holding) -> LogicalResult {
          if (holding.place != wanted.place) {
            InFlightDiagnostic diagnostic = stamp.op->emitOpError()
                                            << "reads " << nameOf(wanted.place)
                                            << when() << ", where ";
            if (!holding.place)
              diagnostic << "nothing has been written";
            else
              diagnostic << nameOf(holding.place) << " lies";
            if (holding.writer.op)
              diagnostic.attachNote(holding.writer.op->getLoc())
                  << "the last to have written these bytes";
            return diagnostic;
          }
          if (holding.iteration != wanted.iteration)
            return stamp.op->emitOpError()
                   << "reads microbatch " << wanted.iteration << " of "
                   << nameOf(wanted.place) << ", where microbatch "
                   << holding.iteration << " lies";
          if (!knows(holding.writer))
            return conflict("reads " + nameOf(wanted.place) + when() +
                                ", but nothing orders it after the write",
                            holding.writer);
          addReader(holding);
          return success();
        });
  }

  void addReader(Holding &holding) {
    for (Stamp &reader : holding.readers)
      if (reader.queue == stamp.queue) {
        reader = stamp;
        return;
      }
    holding.readers.push_back(stamp);
  }

  LogicalResult write(int64_t space, int64_t begin, int64_t end,
                      const Holding &written) {
    std::string what =
        written.place ? "writes " + nameOf(written.place) : "frees bytes";
    LogicalResult result = spaces[space].access(
        begin, end, [&](Holding &holding) -> LogicalResult {
          std::string over = holding.place && holding.place != written.place
                                 ? " over " + nameOf(holding.place)
                                 : "";
          if (!knows(holding.writer))
            return conflict(
                what + over + when() +
                    ", but nothing orders it after an earlier write",
                holding.writer);
          for (const Stamp &reader : holding.readers)
            if (!knows(reader))
              return conflict(
                  what + over + when() +
                      ", but nothing orders it after an earlier read",
                  reader);
          holding = written;
          return success();
        });
    if (succeeded(result))
      spaces[space].merge(begin, end);
    return result;
  }

  LogicalResult conflict(const std::string &message, const Stamp &other) {
    InFlightDiagnostic diagnostic = stamp.op->emitOpError() << message;
    diagnostic.attachNote(other.op->getLoc())
        << "which is '" << other.op->getName().getStringRef() << "' of event "
        << getEvent(other.op);
    return diagnostic;
  }
};

} // namespace

LogicalResult harmony::verifyMemory(ModuleOp module) {
  ProgramOp programs[4] = {};
  for (auto program : module.getOps<ProgramOp>())
    programs[static_cast<int>(program.getKind())] = program;
  auto [load, step, store, evaluate] = programs;
  if (step) {
    SmallVector<std::pair<ProgramOp, int>> order;
    if (load)
      order.push_back({load, 1});
    order.push_back({step, 2});
    if (store)
      order.push_back({store, 1});
    if (failed(Replay(module).run(order)))
      return failure();
  }
  if (evaluate && failed(Replay(module).run({{evaluate, 2}})))
    return failure();
  return success();
}
