//===- Programs.cpp - Programs, their commands and queues -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Harmony/Harmony.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony::schedule;

Copy harmony::schedule::getCopy(Operation *op) {
  Copy copy;
  auto fill = [&](auto transfer, HmTraffic traffic) {
    copy.op = transfer;
    copy.source = transfer.getSourceAttr();
    copy.destination = transfer.getDestinationAttr();
    copy.bytes = transfer.getBytes();
    copy.event = transfer.getEvent();
    copy.firstByte = transfer.getFirstByte();
    copy.traffic = traffic;
  };
  auto fillHost = [&](auto transfer, HmTraffic traffic, bool toDevice) {
    fill(transfer, traffic);
    copy.offset = transfer.getOffset();
    copy.step = transfer.getStep();
    (toDevice ? copy.to : copy.from) = transfer.getDevice();
  };
  TypeSwitch<Operation *>(op)
      .Case<SwapInOp>(
          [&](auto transfer) { fillHost(transfer, HM_TRAFFIC_SWAP_IN, true); })
      .Case<SwapOutOp>([&](auto transfer) {
        fillHost(transfer, HM_TRAFFIC_SWAP_OUT, false);
      })
      .Case<LoadInputOp>(
          [&](auto transfer) { fillHost(transfer, HM_TRAFFIC_INPUT, true); })
      .Case<StoreOutputOp>(
          [&](auto transfer) { fillHost(transfer, HM_TRAFFIC_OUTPUT, false); })
      .Case<P2POp>([&](P2POp transfer) {
        fill(transfer, HM_TRAFFIC_PEER);
        copy.from = transfer.getSourceDevice();
        copy.to = transfer.getDevice();
      });
  return copy;
}

int64_t harmony::schedule::getEvent(Operation *op) {
  auto event = op->getAttrOfType<IntegerAttr>("event");
  return event ? event.getInt() : -1;
}

void harmony::schedule::setEvent(Operation *op, int64_t event) {
  op->setAttr("event",
              IntegerAttr::get(IntegerType::get(op->getContext(), 64), event));
}

static LogicalResult verifyCopy(Operation *op) {
  Copy copy = getCopy(op);
  if (copy.bytes < 1)
    return op->emitOpError()
           << "moves " << copy.bytes << " bytes, expected at least 1";
  if (copy.offset < 0)
    return op->emitOpError()
           << "begins at byte " << copy.offset << ", expected at least 0";
  if (copy.firstByte < 0)
    return op->emitOpError() << "begins at byte " << copy.firstByte
                             << " of a buffer, expected at least 0";
  if (copy.step < 0)
    return op->emitOpError()
           << "steps by " << copy.step << " bytes, expected at least 0";
  return success();
}

LogicalResult SwapInOp::verify() { return verifyCopy(*this); }
LogicalResult SwapOutOp::verify() { return verifyCopy(*this); }
LogicalResult LoadInputOp::verify() { return verifyCopy(*this); }
LogicalResult StoreOutputOp::verify() { return verifyCopy(*this); }

LogicalResult P2POp::verify() {
  if (getSourceDevice() < 0 || getDevice() < 0 ||
      getSourceDevice() == getDevice())
    return emitOpError() << "goes from device " << getSourceDevice() << " to "
                         << getDevice() << ", expected two devices";
  return verifyCopy(*this);
}

/// Transfers of a collective: pairs of buffers that hold the same, on two of
/// its devices.
static LogicalResult verifyTransfers(Operation *op, ArrayRef<int64_t> devices,
                                     ArrayAttr sources, ArrayAttr destinations,
                                     ArrayRef<int64_t> bytes, Content content,
                                     SymbolTableCollection &symbols) {
  if (sources.size() != destinations.size() || sources.size() != bytes.size())
    return op->emitOpError()
           << "has " << sources.size() << " sources, " << destinations.size()
           << " destinations and " << bytes.size()
           << " sizes, expected as many of each";
  auto module = op->getParentOfType<ModuleOp>();
  for (auto [from, to, size] : llvm::zip_equal(sources, destinations, bytes)) {
    BufferOp ends[2];
    for (int side = 0; side < 2; ++side) {
      auto symbol = cast<FlatSymbolRefAttr>(side == 0 ? from : to);
      BufferOp &end = ends[side];
      end = dyn_cast_or_null<BufferOp>(symbols.lookupSymbolIn(module, symbol));
      if (!end)
        return op->emitOpError() << "moves @" << symbol.getValue()
                                 << ", which is no harmony.buffer";
      if (end.getContent() != content)
        return op->emitOpError()
               << "moves @" << symbol.getValue() << ", which holds a "
               << stringifyContent(end.getContent()) << ", expected a "
               << stringifyContent(content);
      if (!llvm::is_contained(devices, end.getDevice()))
        return op->emitOpError()
               << "moves @" << symbol.getValue() << " of device "
               << end.getDevice() << ", which takes no part";
    }
    if (ends[0].getObject() != ends[1].getObject() ||
        ends[0].getUse() != ends[1].getUse() ||
        ends[0].getDevice() == ends[1].getDevice())
      return op->emitOpError() << "moves @" << ends[0].getSymName() << " to @"
                               << ends[1].getSymName()
                               << ", expected the same thing on another device";
    if (size < 1 || size > ends[0].getBytes() || size > ends[1].getBytes())
      return op->emitOpError()
             << "moves " << size << " bytes of @" << ends[0].getSymName()
             << ", expected from 1 to "
             << std::min(ends[0].getBytes(), ends[1].getBytes());
  }
  return success();
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTransfers(*this, getDevices(), getSources(), getDestinations(),
                         getBytes(), Content::gradient, symbols);
}
LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTransfers(*this, getDevices(), getSources(), getDestinations(),
                         getBytes(), Content::tensor, symbols);
}
LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyTransfers(*this, getDevices(), getSources(),
                             getDestinations(), getBytes(), Content::gradient,
                             symbols)))
    return failure();
  return verifyTransfers(*this, getDevices(), getGatherSources(),
                         getGatherDestinations(), getGatherBytes(),
                         Content::tensor, symbols);
}

LogicalResult AllReduceOp::verify() {
  int64_t count = 0;
  for (Operation *op = (*this)->getNextNode(); op && count < getCount();
       op = op->getNextNode())
    count += isa<UpdateOp>(op);
  if (getCount() < 1 || count < getCount())
    return emitOpError() << "surrounds " << getCount() << " updates, but "
                         << count << " follow";
  return success();
}

LogicalResult LinkOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto module = (*this)->getParentOfType<ModuleOp>();
  for (auto share : getShares().getAsRange<FlatSymbolRefAttr>())
    if (!isa_and_nonnull<ResourceOp>(symbols.lookupSymbolIn(module, share)))
      return emitOpError() << "shares @" << share.getValue()
                           << ", which is no harmony.resource";
  if (getShares().size() > HM_LINK_SHARES)
    return emitOpError() << "shares " << getShares().size()
                         << " resources, expected at most " << HM_LINK_SHARES;
  return success();
}

/// One address for each slot, each a symbol of the module.
static LogicalResult verifyBinding(Operation *op, FlatSymbolRefAttr name,
                                   ArrayAttr at,
                                   SymbolTableCollection &symbols) {
  auto module = op->getParentOfType<ModuleOp>();
  auto task = dyn_cast_or_null<TaskOp>(symbols.lookupSymbolIn(module, name));
  if (!task)
    return op->emitOpError()
           << "runs @" << name.getValue() << ", which is no harmony.task";
  if (at.size() != task.getSlots().size())
    return op->emitOpError()
           << "binds " << at.size() << " places to @" << name.getValue()
           << ", which has " << task.getSlots().size() << " slots";
  for (Attribute attribute : at) {
    auto address = cast<AtAttr>(attribute);
    Operation *place = symbols.lookupSymbolIn(module, address.getPlace());
    if (!isa_and_nonnull<BufferOp, HomeOp, InputOp, ScalarOp>(place))
      return op->emitOpError() << "binds @" << address.getPlace().getValue()
                               << ", which is no harmony.buffer, harmony.home, "
                                  "harmony.input or harmony.scalar";
  }
  return success();
}

LogicalResult RunOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyBinding(*this, getTaskAttr(), getAt(), symbols);
}
LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyBinding(*this, getTaskAttr(), getAt(), symbols);
}

LogicalResult WaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto program = (*this)->getParentOfType<ProgramOp>();
  if (!program || !isa_and_nonnull<QueueOp>(
                      symbols.lookupSymbolIn(program, getQueueAttr())))
    return emitOpError() << "waits for @" << getQueue()
                         << ", which is no queue of this program";
  return success();
}

LogicalResult WaitOp::verify() {
  if (getEvery() < 1)
    return emitOpError() << "grows every " << getEvery()
                         << " iterations, expected at least 1";
  return success();
}

LogicalResult ProgramOp::verify() {
  bool queues =
      llvm::any_of(getBlock(), [](Operation &op) { return isa<QueueOp>(op); });
  for (Operation &op : getBlock()) {
    if (queues && !isa<QueueOp>(op))
      return op.emitOpError() << "stands beside queues: in a program of queues "
                                 "every command is in one";
    if (isa<WaitOp, SignalOp, ForOp, ReleaseOp>(op))
      return op.emitOpError() << "stands outside of a queue";
  }
  return success();
}

LogicalResult PackOp::verify() {
  if (getTrips() < 1 || getMicrobatch() < 1)
    return emitOpError() << "has " << getTrips() << " trips of "
                         << getMicrobatch()
                         << " samples, expected at least 1 of each";
  if (getFirstSample() < 0 || getFirstMicrobatch() < 0 || getGroup() < 0)
    return emitOpError() << "begins at sample " << getFirstSample()
                         << ", microbatch " << getFirstMicrobatch()
                         << ", group " << getGroup()
                         << ", expected at least 0 of each";
  for (Operation &op : getBlock())
    if (!isa<RunOp>(op) && !getCopy(&op))
      return op.emitOpError()
             << "stands in a pack, which holds runs and value transfers";
  return success();
}

LogicalResult QueueOp::verify() {
  int64_t signals = 0;
  for (Operation &op : getBlock()) {
    int64_t expected = signals + 1, slope = 0;
    auto check = [&](SignalOp signal) -> LogicalResult {
      if (signal.getValue() != expected || signal.getSlope() != slope)
        return signal.emitOpError()
               << "states value " << signal.getValue() << " slope "
               << signal.getSlope() << ", expected " << expected << " slope "
               << slope;
      return success();
    };
    if (auto signal = dyn_cast<SignalOp>(op)) {
      if (failed(check(signal)))
        return failure();
      ++signals;
    } else if (auto loop = dyn_cast<ForOp>(op)) {
      for (Operation &inner : loop.getBlock())
        slope += isa<SignalOp>(inner);
      int64_t perIteration = slope;
      for (auto signal : loop.getBlock().getOps<SignalOp>()) {
        if (failed(check(signal)))
          return failure();
        ++expected;
      }
      signals += perIteration * loop.getTrips();
    }
  }
  if (signals != getPeriod())
    return emitOpError() << "has period " << getPeriod() << ", but signals "
                         << signals << " times";
  return success();
}
