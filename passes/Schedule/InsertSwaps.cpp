//===- InsertSwaps.cpp - Transfers around every pack ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Swaps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

//===----------------------------------------------------------------------===//
// What work touches
//===----------------------------------------------------------------------===//

bool harmony::isWork(Operation *op) {
  return isa<PackOp, UpdateOp, ZeroOp, RunOp>(op);
}

ArrayRef<SlotUse> Places::slotUses(TaskOp task) {
  auto [entry, inserted] = tasks.try_emplace(task);
  SmallVector<SlotUse> &slots = entry->second;
  if (!inserted)
    return slots;
  slots.resize(task.getSlots().size());
  for (Operation &op : task.getBlock()) {
    SmallVector<RefAttr> refs = getRefs(&op);
    for (RefAttr ref : refs) {
      SlotUse &slot = slots[ref.getSlot()];
      slot.readFirst |= ref.getAccess() != Access::Write && !slot.written;
    }
    for (RefAttr ref : refs)
      slots[ref.getSlot()].written |= ref.getAccess() != Access::Read;
  }
  return slots;
}

SmallVector<BufferUse> harmony::getBufferUses(Operation *work, Places &places) {
  llvm::MapVector<StringRef, BufferUse> uses;
  auto addTask = [&](FlatSymbolRefAttr name, ArrayAttr at) {
    auto task = cast<TaskOp>(places.lookup(name.getValue()));
    for (auto [attribute, slot] : llvm::zip_equal(at, places.slotUses(task))) {
      StringRef place = cast<AtAttr>(attribute).getPlace().getValue();
      BufferOp buffer = places.buffer(place);
      if (!buffer)
        continue;
      BufferUse &use =
          uses.insert({place, BufferUse{buffer, false, false}}).first->second;
      use.readFirst |= slot.readFirst && !use.written;
      use.written |= slot.written;
    }
  };
  if (auto zero = dyn_cast<ZeroOp>(work)) {
    if (BufferOp buffer = places.buffer(zero.getBuffer()))
      uses.insert({zero.getBuffer(), BufferUse{buffer, false, true}});
  } else if (auto update = dyn_cast<UpdateOp>(work)) {
    addTask(update.getTaskAttr(), update.getAt());
  } else {
    work->walk([&](RunOp run) { addTask(run.getTaskAttr(), run.getAt()); });
  }
  SmallVector<BufferUse> list;
  for (auto &[name, use] : uses)
    list.push_back(use);
  return list;
}

//===----------------------------------------------------------------------===//
// Insertion
//===----------------------------------------------------------------------===//

namespace {

bool isValue(BufferOp buffer) {
  return buffer.getContent() == Content::value ||
         buffer.getContent() == Content::value_gradient;
}

class Inserter {
public:
  explicit Inserter(ProgramOp program)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        places(module), builder(program.getContext()) {
    for (auto output : module.getOps<OutputOp>())
      outputs.insert(output.getHome());
    bool evaluation = program.getKind() == ProgramKind::evaluate;
    for (auto buffer : module.getOps<BufferOp>())
      if ((buffer.getProgram() == ProgramKind::evaluate) == evaluation)
        copies[keyOf(buffer)].push_back(buffer);
  }

  void run() {
    SmallVector<Operation *> work;
    for (Operation &op : program.getBlock())
      if (isWork(&op))
        work.push_back(&op);
    for (size_t i = 0; i < work.size(); ++i) {
      if (isTensorWork(work[i]) && (i == 0 || !sameKind(work[i - 1], work[i])))
        insertCollective(work, i);
      for (const BufferUse &use : getBufferUses(work[i], places))
        insertAround(work[i], use);
    }
  }

private:
  /// What a buffer holds, of which samples.
  using Key = std::tuple<Content, int64_t, int64_t, int64_t>;
  static Key keyOf(BufferOp buffer) {
    return {buffer.getContent(), buffer.getObject(), buffer.getUse(),
            buffer.getFirstSample()};
  }

  ProgramOp program;
  ModuleOp module;
  Places places;
  OpBuilder builder;
  llvm::StringSet<> outputs; ///< homes of results
  std::map<Key, std::string> temporaryHomes;
  std::map<Key, SmallVector<BufferOp>> copies; ///< buffers of the same thing
  llvm::DenseSet<Operation *> gathered;        ///< buffers
  /// Where the packs so far have last added to a part of a gradient.
  std::map<Key, BufferOp> added;

  //===--- collectives ---------------------------------------------------===//

  /// Work on a device that reads all parts of a tensor's gradient.
  static bool isTensorWork(Operation *op) {
    if (auto update = dyn_cast<UpdateOp>(op))
      return update.getDevice() >= 0;
    auto run = dyn_cast<RunOp>(op);
    return run && run.getDirection() == Direction::contribution;
  }
  static bool sameKind(Operation *a, Operation *b) {
    return isTensorWork(a) && isTensorWork(b) &&
           isa<UpdateOp>(a) == isa<UpdateOp>(b);
  }

  /// Sources, destinations and sizes, as attributes.
  struct Transfers {
    SmallVector<Attribute> sources, destinations;
    SmallVector<int64_t> bytes;
    void add(BufferOp from, BufferOp to) {
      sources.push_back(FlatSymbolRefAttr::get(from.getSymNameAttr()));
      destinations.push_back(FlatSymbolRefAttr::get(to.getSymNameAttr()));
      bytes.push_back(std::min(from.getBytes(), to.getBytes()));
    }
    bool empty() const { return bytes.empty(); }
  };

  /// Around consecutive updates (or contributions) on devices: every part of
  /// their gradients to them, what they have changed to where it is held too.
  void insertCollective(ArrayRef<Operation *> work, size_t first) {
    Transfers reduce, gather;
    llvm::SetVector<int64_t> devices;
    size_t end = first;
    for (; end < work.size() &&
           (end == first || sameKind(work[first], work[end]));
         ++end)
      for (const BufferUse &use : getBufferUses(work[end], places)) {
        BufferOp buffer = use.buffer;
        if (buffer.getContent() == Content::gradient) {
          auto from = added.find(keyOf(buffer));
          if (from != added.end())
            addTransfer(from->second, buffer, reduce, devices);
        } else if (buffer.getContent() == Content::tensor && use.written) {
          for (BufferOp other : getHolders(buffer, getEvent(work[end])))
            addTransfer(buffer, other, gather, devices);
        }
      }
    SmallVector<int64_t> list = devices.takeVector();
    llvm::sort(list);
    Location location = work[first]->getLoc();
    builder.setInsertionPoint(work[first]);
    ArrayAttr sources = builder.getArrayAttr(reduce.sources),
              destinations = builder.getArrayAttr(reduce.destinations),
              gatherSources = builder.getArrayAttr(gather.sources),
              gatherDestinations = builder.getArrayAttr(gather.destinations);
    if (!reduce.empty() && !gather.empty()) {
      AllReduceOp::create(builder, location, list, sources, destinations,
                          reduce.bytes, static_cast<int64_t>(end - first),
                          gatherSources, gatherDestinations, gather.bytes);
    } else if (!reduce.empty()) {
      ReduceScatterOp::create(builder, location, list, sources, destinations,
                              reduce.bytes);
    } else if (!gather.empty()) {
      builder.setInsertionPointAfter(work[end - 1]);
      AllGatherOp::create(builder, location, list, gatherSources,
                          gatherDestinations, gather.bytes);
    }
  }

  static void addTransfer(BufferOp from, BufferOp to, Transfers &transfers,
                          llvm::SetVector<int64_t> &devices) {
    if (from.getDevice() == to.getDevice())
      return;
    transfers.add(from, to);
    devices.insert(from.getDevice());
    devices.insert(to.getDevice());
  }

  /// The next buffers of a tensor on other devices, one of each.
  SmallVector<BufferOp> getHolders(BufferOp tensor, int64_t event) {
    llvm::MapVector<int64_t, BufferOp> holders;
    for (BufferOp other : copies[keyOf(tensor)]) {
      if (other.getDevice() == tensor.getDevice() ||
          (!other.getPersistent() && other.getLive()[0] <= event))
        continue;
      BufferOp &holder = holders[other.getDevice()];
      if (!holder || other.getLive()[0] < holder.getLive()[0])
        holder = other;
    }
    SmallVector<BufferOp> list;
    for (auto &[device, holder] : holders)
      list.push_back(holder);
    return list;
  }

  //===--- swaps and copies of values ------------------------------------===//

  void insertAround(Operation *op, const BufferUse &use) {
    BufferOp buffer = use.buffer;
    switch (buffer.getContent()) {
    case Content::tensor:
    case Content::state:
      addIn(op, buffer);
      if (isa<PackOp>(op) && buffer.getContent() == Content::tensor &&
          gathered.insert(buffer).second)
        addGathers(op, buffer);
      addOut(op, buffer);
      return;
    case Content::gradient:
      if (!isa<ZeroOp>(op))
        addIn(op, buffer);
      if (!isa<UpdateOp>(op))
        addOut(op, buffer);
      if (isa<PackOp, ZeroOp>(op))
        added[keyOf(buffer)] = buffer;
      return;
    case Content::value:
    case Content::value_gradient:
      // What is read first comes from elsewhere, even where its buffer lives
      // from the pack's first run on.
      if (!use.readFirst && isUsedUp(op, buffer))
        return;
      if (use.readFirst)
        addIn(op, buffer);
      if (!isInput(buffer))
        addOut(op, buffer);
      if (use.written)
        addPeers(op, buffer);
      return;
    case Content::scalar:
      if (isa<ZeroOp>(op))
        return;
      if (use.written)
        addOut(op, buffer);
      else
        addIn(op, buffer);
      return;
    default:
      return;
    }
  }

  /// Whether a pack makes a value and uses it up: it never leaves the pack.
  static bool isUsedUp(Operation *op, BufferOp buffer) {
    auto pack = dyn_cast<PackOp>(op);
    if (!pack || buffer.getPersistent())
      return false;
    bool begins = false, ends = false;
    for (auto run : pack.getBlock().getOps<RunOp>()) {
      begins |= run.getEvent() == buffer.getLive()[0];
      ends |= run.getEvent() == buffer.getLive()[1];
    }
    return begins && ends;
  }
  bool isInput(BufferOp buffer) {
    auto home = buffer.getHomeAttr();
    return home && isa_and_nonnull<InputOp>(places.lookup(home.getValue()));
  }
  bool isOutput(BufferOp buffer) {
    auto home = buffer.getHomeAttr();
    return home && outputs.contains(home.getValue());
  }

  /// The host's side of a swap.
  struct HostSide {
    std::string place;
    int64_t offset = 0, step = 0;
  };

  /// What the plan never swaps gets a temporary home.
  HostSide getHostSide(BufferOp buffer, PackOp pack) {
    bool perMicrobatch = pack && isValue(buffer);
    HostSide side;
    side.step = perMicrobatch ? buffer.getBytes() : 0;
    auto home = buffer.getHomeAttr();
    if (!home) {
      side.place =
          getTemporaryHome(buffer, perMicrobatch ? pack.getTrips() : 1);
      return side;
    }
    side.place = home.getValue().str();
    if (!perMicrobatch)
      return side;
    Operation *place = places.lookup(home.getValue());
    if (auto input = dyn_cast_or_null<InputOp>(place)) {
      if (input.getPerStep())
        side.step = 0;
      else
        side.offset = pack.getFirstSample() * input.getSampleBytes();
    } else if (auto host = dyn_cast_or_null<HomeOp>(place)) {
      side.offset = pack.getFirstSample() * host.getSampleBytes() +
                    pack.getFirstMicrobatch() * host.getFixedBytes();
    }
    return side;
  }

  std::string getTemporaryHome(BufferOp buffer, int64_t blocks) {
    std::string &name = temporaryHomes[keyOf(buffer)];
    if (!name.empty())
      return name;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(program);
    name = ("host.temporary." + stringifyProgramKind(program.getKind()) + "." +
            stringifyContent(buffer.getContent()) + "." +
            Twine(buffer.getObject()) + "." + Twine(buffer.getUse()))
               .str();
    if (buffer.getFirstSample() > 0)
      name += ".from" + std::to_string(buffer.getFirstSample());
    HomeOp::create(builder, buffer.getLoc(), name, buffer.getContent(),
                   buffer.getBytes() * blocks, 0, 0, builder.getArrayAttr({}),
                   -1, true, IntegerAttr());
    return name;
  }

  void addIn(Operation *op, BufferOp buffer) {
    auto pack = dyn_cast<PackOp>(op);
    HostSide host = getHostSide(buffer, pack);
    if (isValue(buffer) && pack)
      builder.setInsertionPoint(&firstRun(pack));
    else
      builder.setInsertionPoint(op);
    if (buffer.getContent() == Content::scalar || isInput(buffer))
      LoadInputOp::create(builder, buffer.getLoc(), host.place,
                          buffer.getSymName(), buffer.getBytes(), host.offset,
                          host.step, buffer.getDevice(), -1);
    else
      SwapInOp::create(builder, buffer.getLoc(), host.place,
                       buffer.getSymName(), buffer.getBytes(), host.offset,
                       host.step, buffer.getDevice(), -1);
  }

  void addOut(Operation *op, BufferOp buffer) {
    HostSide host = getHostSide(buffer, dyn_cast<PackOp>(op));
    setInsertionPointBehind(op, buffer);
    if (buffer.getContent() == Content::scalar || isOutput(buffer))
      StoreOutputOp::create(builder, buffer.getLoc(), buffer.getSymName(),
                            host.place, buffer.getBytes(), host.offset,
                            host.step, buffer.getDevice(), -1);
    else
      SwapOutOp::create(builder, buffer.getLoc(), buffer.getSymName(),
                        host.place, buffer.getBytes(), host.offset, host.step,
                        buffer.getDevice(), -1);
  }

  /// To every other device that holds the same microbatches at some time.
  void addPeers(Operation *op, BufferOp buffer) {
    for (BufferOp other : copies[keyOf(buffer)]) {
      if (other.getDevice() == buffer.getDevice() ||
          other.getBytes() != buffer.getBytes())
        continue;
      setInsertionPointBehind(op, buffer);
      P2POp::create(builder, buffer.getLoc(), buffer.getSymName(),
                    other.getSymName(), buffer.getBytes(), buffer.getDevice(),
                    other.getDevice(), -1);
    }
  }

  /// A tensor from every other device that holds it at the time.
  void addGathers(Operation *op, BufferOp buffer) {
    for (BufferOp other : copies[keyOf(buffer)]) {
      if (other.getDevice() == buffer.getDevice() || buffer.getPersistent() ||
          other.getPersistent() || other.getLive()[0] > buffer.getLive()[1] ||
          buffer.getLive()[0] > other.getLive()[1])
        continue;
      builder.setInsertionPoint(op);
      P2POp::create(builder, buffer.getLoc(), other.getSymName(),
                    buffer.getSymName(), buffer.getBytes(), other.getDevice(),
                    buffer.getDevice(), -1);
    }
  }

  void setInsertionPointBehind(Operation *op, BufferOp buffer) {
    auto pack = dyn_cast<PackOp>(op);
    if (isValue(buffer) && pack)
      return builder.setInsertionPointToEnd(&pack.getBlock());
    // After what already follows this op, so that the order is the buffers'.
    Operation *last = op;
    while (Operation *next = last->getNextNode()) {
      Copy copy = getCopy(next);
      if (!copy || copy.toDevice())
        break;
      last = next;
    }
    builder.setInsertionPointAfter(last);
  }

  Operation &firstRun(PackOp pack) {
    for (Operation &op : pack.getBlock())
      if (isa<RunOp>(op))
        return op;
    return pack.getBlock().back();
  }
};

} // namespace

LogicalResult harmony::insertSwaps(ProgramOp program) {
  if (program.getKind() == ProgramKind::load ||
      program.getKind() == ProgramKind::store)
    return success(); // nothing but transfers
  Inserter(program).run();
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

LogicalResult harmony::expandCollectives(ProgramOp program) {
  Places places(program->getParentOfType<ModuleOp>());
  OpBuilder builder(program.getContext());
  auto expand = [&](Location location, ArrayAttr sources,
                    ArrayAttr destinations, ArrayRef<int64_t> bytes) {
    for (auto [from, to, size] :
         llvm::zip_equal(sources.getAsRange<FlatSymbolRefAttr>(),
                         destinations.getAsRange<FlatSymbolRefAttr>(), bytes))
      P2POp::create(builder, location, from.getValue(), to.getValue(), size,
                    places.buffer(from.getValue()).getDevice(),
                    places.buffer(to.getValue()).getDevice(), -1);
  };
  for (Operation &op : llvm::make_early_inc_range(program.getBlock())) {
    builder.setInsertionPoint(&op);
    if (auto reduce = dyn_cast<ReduceScatterOp>(op)) {
      expand(op.getLoc(), reduce.getSources(), reduce.getDestinations(),
             reduce.getBytes());
    } else if (auto gather = dyn_cast<AllGatherOp>(op)) {
      expand(op.getLoc(), gather.getSources(), gather.getDestinations(),
             gather.getBytes());
    } else if (auto both = dyn_cast<AllReduceOp>(op)) {
      expand(op.getLoc(), both.getSources(), both.getDestinations(),
             both.getBytes());
      Operation *last = &op;
      for (int64_t left = both.getCount(); left > 0;) {
        last = last->getNextNode();
        left -= isa<UpdateOp>(last);
      }
      builder.setInsertionPointAfter(last);
      expand(op.getLoc(), both.getGatherSources(), both.getGatherDestinations(),
             both.getGatherBytes());
    } else {
      continue;
    }
    op.erase();
  }
  return success();
}
