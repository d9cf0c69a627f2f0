//===- InsertSwaps.cpp - Transfers around every pack ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Swaps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

bool harmony::isWork(Operation *op) {
  return isa<PackOp, UpdateOp, ZeroOp, RunOp>(op);
}

/// Whether a task reads, and whether it writes, each of its slots, in that
/// order of precedence.
static void addTaskUses(TaskOp task, ArrayAttr at, Places &places,
                        llvm::MapVector<StringRef, BufferUse> &uses) {
  SmallVector<std::pair<bool, bool>> slots(
      task.getSlots().size()); // readFirst, written
  for (Operation &op : task.getBlock()) {
    SmallVector<RefAttr> refs;
    if (auto fill = dyn_cast<FillOp>(op))
      refs.push_back(fill.getRef());
    else
      for (auto ref : op.getAttrOfType<ArrayAttr>("refs").getAsRange<RefAttr>())
        refs.push_back(ref);
    for (RefAttr ref : refs) {
      auto &[readFirst, written] = slots[ref.getSlot()];
      if (ref.getAccess() != Access::Write && !written)
        readFirst = true;
    }
    for (RefAttr ref : refs)
      slots[ref.getSlot()].second |= ref.getAccess() != Access::Read;
  }
  for (auto [attribute, slot] : llvm::zip_equal(at, slots)) {
    StringRef name = cast<AtAttr>(attribute).getPlace().getValue();
    BufferOp buffer = places.buffer(name);
    if (!buffer)
      continue;
    BufferUse &use =
        uses.insert({name, BufferUse{buffer, false, false}}).first->second;
    use.readFirst |= slot.first && !use.written;
    use.written |= slot.second;
  }
}

SmallVector<BufferUse> harmony::getBufferUses(Operation *work, Places &places) {
  llvm::MapVector<StringRef, BufferUse> uses;
  auto addTask = [&](FlatSymbolRefAttr task, ArrayAttr at) {
    addTaskUses(cast<TaskOp>(places.lookup(task.getValue())), at, places, uses);
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

namespace {

class Inserter {
public:
  explicit Inserter(ProgramOp program)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        places(module), builder(program.getContext()) {
    for (auto output : module.getOps<OutputOp>())
      outputs.insert(output.getHome());
  }

  void run() {
    SmallVector<Operation *> work;
    for (Operation &op : program.getBlock())
      if (isWork(&op))
        work.push_back(&op);
    for (Operation *op : work)
      for (const BufferUse &use : getBufferUses(op, places))
        insertAround(op, use);
  }

private:
  ProgramOp program;
  ModuleOp module;
  Places places;
  OpBuilder builder;
  llvm::StringSet<> outputs;                   ///< homes of results
  llvm::StringMap<std::string> temporaryHomes; ///< of (content, object, use)

  void insertAround(Operation *op, const BufferUse &use) {
    bool host = isa<UpdateOp>(op) && cast<UpdateOp>(op).getDevice() < 0;
    if (host || isa<RunOp>(op))
      return;
    BufferOp buffer = use.buffer;
    switch (buffer.getContent()) {
    case Content::tensor:
    case Content::state:
      addIn(op, buffer);
      addOut(op, buffer);
      return;
    case Content::gradient:
      if (!isa<ZeroOp>(op))
        addIn(op, buffer);
      if (!isa<UpdateOp>(op))
        addOut(op, buffer);
      return;
    case Content::value:
    case Content::value_gradient:
      // What a pack makes and uses up never leaves it.
      if (buffer.getLive()[0] == buffer.getLive()[1] && !buffer.getPersistent())
        return;
      if (use.readFirst)
        addIn(op, buffer);
      if (use.written)
        addOut(op, buffer);
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

  bool isValue(BufferOp buffer) {
    return buffer.getContent() == Content::value ||
           buffer.getContent() == Content::value_gradient;
  }
  bool isInput(BufferOp buffer) {
    auto home = buffer.getHomeAttr();
    return home && isa_and_nonnull<InputOp>(places.lookup(home.getValue()));
  }
  bool isOutput(BufferOp buffer) {
    auto home = buffer.getHomeAttr();
    return home && outputs.contains(home.getValue());
  }

  /// The host's place of a buffer. One that the plan never swaps gets a
  /// temporary home.
  std::string getHome(BufferOp buffer, int64_t slots) {
    if (auto home = buffer.getHomeAttr())
      return home.getValue().str();
    std::string key = (stringifyContent(buffer.getContent()) + "." +
                       Twine(buffer.getObject()) + "." + Twine(buffer.getUse()))
                          .str();
    std::string &name = temporaryHomes[key];
    if (name.empty()) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      name = ("host.temporary." + stringifyProgramKind(program.getKind()) +
              "." + key)
                 .str();
      HomeOp::create(builder, buffer.getLoc(), name, buffer.getContent(),
                     buffer.getBytes() * slots, 0, 0, builder.getArrayAttr({}),
                     -1, true, IntegerAttr());
    }
    return name;
  }

  /// Bytes that the host's side advances by with each microbatch.
  int64_t getStep(BufferOp buffer, StringRef home, PackOp pack, int64_t bytes) {
    if (!isValue(buffer) || !pack)
      return 0;
    if (auto input = dyn_cast_or_null<InputOp>(places.lookup(home)))
      return input.getPerStep() ? 0 : bytes;
    return bytes;
  }

  void addIn(Operation *op, BufferOp buffer) {
    auto pack = dyn_cast<PackOp>(op);
    std::string home =
        getHome(buffer, pack && isValue(buffer) ? pack.getTrips() : 1);
    if (isValue(buffer) && pack)
      builder.setInsertionPoint(&firstRun(pack));
    else
      builder.setInsertionPoint(op);
    int64_t bytes = buffer.getBytes(),
            step = getStep(buffer, home, pack, bytes);
    if (buffer.getContent() == Content::scalar || isInput(buffer))
      LoadInputOp::create(builder, buffer.getLoc(), home, buffer.getSymName(),
                          bytes, 0, step, buffer.getDevice(), -1);
    else
      SwapInOp::create(builder, buffer.getLoc(), home, buffer.getSymName(),
                       bytes, 0, step, buffer.getDevice(), -1);
  }

  void addOut(Operation *op, BufferOp buffer) {
    auto pack = dyn_cast<PackOp>(op);
    std::string home =
        getHome(buffer, pack && isValue(buffer) ? pack.getTrips() : 1);
    if (isValue(buffer) && pack) {
      builder.setInsertionPointToEnd(&pack.getBlock());
    } else {
      // After what already follows this op, so that the order is the buffers'.
      Operation *last = op;
      while (last->getNextNode() && getCopy(last->getNextNode()) &&
             !getCopy(last->getNextNode()).toDevice())
        last = last->getNextNode();
      builder.setInsertionPointAfter(last);
    }
    int64_t bytes = buffer.getBytes(),
            step = getStep(buffer, home, pack, bytes);
    if (buffer.getContent() == Content::scalar || isOutput(buffer))
      StoreOutputOp::create(builder, buffer.getLoc(), buffer.getSymName(), home,
                            bytes, 0, step, buffer.getDevice(), -1);
    else
      SwapOutOp::create(builder, buffer.getLoc(), buffer.getSymName(), home,
                        bytes, 0, step, buffer.getDevice(), -1);
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
