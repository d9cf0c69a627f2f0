//===- ElideSwaps.cpp - Leave the transfers that the plan lists -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Swaps.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::EventKind;

//===----------------------------------------------------------------------===//
// The transfers of a program
//===----------------------------------------------------------------------===//

namespace {

enum class Direction { In, Out, Peer };

/// What the plan calls a transfer of some content; nothing: none of its.
std::optional<EventKind> getKind(const Copy &copy, Content content) {
  Direction direction = copy.isPeer()     ? Direction::Peer
                        : copy.toDevice() ? Direction::In
                                          : Direction::Out;
  bool swap =
      copy.traffic == HM_TRAFFIC_SWAP_IN || copy.traffic == HM_TRAFFIC_SWAP_OUT;
  auto choose = [&](EventKind in, EventKind out, EventKind peer) {
    return direction == Direction::In    ? in
           : direction == Direction::Out ? out
                                         : peer;
  };
  if (direction != Direction::Peer && content != Content::value &&
      swap == (content == Content::scalar))
    return std::nullopt;
  switch (content) {
  case Content::tensor:
    return choose(EventKind::LoadTensor, EventKind::StoreTensor,
                  EventKind::CopyTensor);
  case Content::gradient:
    return choose(EventKind::LoadGradient, EventKind::StoreGradient,
                  EventKind::CopyGradient);
  case Content::value:
    return choose(EventKind::LoadValue, EventKind::StoreValue,
                  EventKind::CopyValue);
  case Content::value_gradient:
    return choose(EventKind::LoadValueGradient, EventKind::StoreValueGradient,
                  EventKind::CopyValueGradient);
  case Content::state:
    if (direction == Direction::Peer)
      return std::nullopt;
    return choose(EventKind::LoadState, EventKind::StoreState, {});
  case Content::scalar:
    if (direction == Direction::Peer)
      return std::nullopt;
    return choose(EventKind::LoadScalar, EventKind::StoreScalar, {});
  default:
    return std::nullopt;
  }
}

planner::Content getContent(EventKind kind) {
  switch (kind) {
  case EventKind::LoadTensor:
  case EventKind::StoreTensor:
  case EventKind::CopyTensor:
    return planner::Content::Tensor;
  case EventKind::LoadState:
  case EventKind::StoreState:
    return planner::Content::State;
  case EventKind::LoadGradient:
  case EventKind::StoreGradient:
  case EventKind::CopyGradient:
    return planner::Content::Gradient;
  case EventKind::LoadScalar:
  case EventKind::StoreScalar:
    return planner::Content::Scalar;
  case EventKind::LoadValueGradient:
  case EventKind::StoreValueGradient:
  case EventKind::CopyValueGradient:
    return planner::Content::ValueGradient;
  default:
    return planner::Content::Value;
  }
}

/// What an evaluation loads before its first event is beside the plan's list.
bool isResidentLoad(const ProgramTransfer &transfer,
                    const planner::Plan &plan) {
  return transfer.copy.event >= static_cast<int64_t>(plan.events.size());
}

} // namespace

bool harmony::servesLater(EventKind kind) {
  switch (kind) {
  case EventKind::LoadScalar:
  case EventKind::LoadTensor:
  case EventKind::LoadState:
  case EventKind::LoadGradient:
  case EventKind::LoadValue:
  case EventKind::LoadValueGradient:
  case EventKind::CopyGradient: // to the update that adds it
    return true;
  default:
    return false;
  }
}

FailureOr<SmallVector<ProgramTransfer>> harmony::getTransfers(ProgramOp program,
                                                              Places &places) {
  SmallVector<ProgramTransfer> transfers;
  auto add = [&](Operation *op, PackOp pack) -> LogicalResult {
    Copy copy = getCopy(op);
    BufferOp buffer = places.buffer(copy.buffer());
    if (!buffer)
      return op->emitOpError()
             << "moves @" << copy.buffer() << ", which is no harmony.buffer";
    std::optional<EventKind> kind = getKind(copy, buffer.getContent());
    if (!kind)
      return op->emitOpError()
             << "moves @" << copy.buffer() << ", which holds a "
             << stringifyContent(buffer.getContent())
             << ": no plan has such a transfer";
    if (BufferOp source =
            copy.isPeer() ? places.buffer(copy.otherPlace()) : BufferOp();
        copy.isPeer() &&
        (!source || source.getContent() != buffer.getContent()))
      return op->emitOpError()
             << "moves @" << copy.otherPlace() << ", expected a buffer of "
             << stringifyContent(buffer.getContent()) << " as @"
             << copy.buffer();
    ProgramTransfer transfer{copy, *kind, static_cast<int>(buffer.getObject()),
                             static_cast<int>(buffer.getUse())};
    if (pack) {
      transfer.phase = pack.getPhase();
      transfer.beside = pack.getEvent();
      transfer.trips = pack.getTrips();
    } else {
      bool later = servesLater(*kind);
      for (Operation *at = op; at && transfer.beside < 0;
           at = later ? at->getNextNode() : at->getPrevNode())
        if (isWork(at))
          transfer.beside = getEvent(at);
    }
    transfers.push_back(transfer);
    return success();
  };
  for (Operation &op : program.getBlock()) {
    if (isa<ReduceScatterOp, AllGatherOp, AllReduceOp>(op))
      return op.emitOpError() << "moves what the plan lists piece by piece: "
                                 "collectives have to be expanded first";
    if (getCopy(&op) && failed(add(&op, {})))
      return failure();
    if (auto pack = dyn_cast<PackOp>(op))
      for (Operation &inner : pack.getBlock())
        if (getCopy(&inner) && failed(add(&inner, pack)))
          return failure();
  }
  return transfers;
}

std::string harmony::describe(const ProgramTransfer &transfer) {
  std::string text = (transfer.copy.op->getName().getStringRef() + " of @" +
                      transfer.copy.buffer())
                         .str();
  if (transfer.copy.event >= 0)
    return text + " at event " + std::to_string(transfer.copy.event);
  return text + (servesLater(transfer.kind) ? " before" : " after") +
         " event " + std::to_string(transfer.beside);
}

static std::string describeWanted(const planner::Transfer &transfer,
                                  const planner::Plan &plan,
                                  const planner::Problem &problem) {
  return planner::describe(plan, problem, transfer.event);
}

//===----------------------------------------------------------------------===//
// Elide
//===----------------------------------------------------------------------===//

namespace {

/// A transfer of the naive program: what the plan calls it, the buffer on its
/// device, that of the sender (-1: the host), and the event of the work that
/// it serves: what next reads the buffer, or has last written it.
using TransferKey = std::tuple<EventKind, int64_t, int64_t, int64_t>;

/// Events of the work that touches each buffer, ascending.
class TouchIndex {
public:
  TouchIndex(ProgramOp program, Places &places) {
    for (Operation &op : program.getBlock())
      if (isWork(&op))
        for (const BufferUse &use : getBufferUses(&op, places)) {
          int64_t buffer = BufferOp(use.buffer).getId();
          touched[buffer].push_back(getEvent(&op));
          if (use.written)
            written[buffer].push_back(getEvent(&op));
        }
  }

  /// The first toucher from an event on, or the last writer up to it; -1
  /// without one.
  int64_t find(int64_t buffer, int64_t event, bool later) const {
    const auto &index = later ? touched : written;
    auto list = index.find(buffer);
    if (list == index.end())
      return -1;
    const std::vector<int64_t> &events = list->second;
    if (later) {
      auto at = llvm::lower_bound(events, event);
      return at == events.end() ? -1 : *at;
    }
    auto at = llvm::upper_bound(events, event);
    return at == events.begin() ? -1 : *std::prev(at);
  }

private:
  llvm::DenseMap<int64_t, std::vector<int64_t>> touched, written;
};

class Elider {
public:
  Elider(ProgramOp program, const planner::Plan &plan,
         const planner::Problem &problem)
      : program(program), plan(plan), problem(problem),
        places(program->getParentOfType<ModuleOp>()), touches(program, places),
        buffers(plan) {}

  LogicalResult run() {
    FailureOr<SmallVector<ProgramTransfer>> transfers =
        getTransfers(program, places);
    if (failed(transfers))
      return failure();
    for (const ProgramTransfer &transfer : *transfers)
      if (!isResidentLoad(transfer, plan))
        naive.insert({keyOf(transfer), &transfer});
    for (auto pack : program.getOps<PackOp>())
      eventOfPhase[pack.getPhase()] = pack.getEvent();
    llvm::DenseSet<Operation *> kept;
    for (const planner::Transfer &wanted :
         planner::requiredTransfers(plan, problem)) {
      TransferKey key = keyOf(wanted);
      auto found = naive.find(key);
      if (found == naive.end())
        return program.emitOpError()
               << "has no transfer for "
               << describeWanted(wanted, plan, problem)
               << (std::get<3>(key) < 0
                       ? ", which no pack or update reads or writes"
                       : "")
               << ": swaps have to be inserted first";
      Operation *op = cutSlice(found->second->copy, wanted);
      setEvent(op, wanted.event);
      kept.insert(op);
    }
    for (const ProgramTransfer &transfer : *transfers)
      if (!isResidentLoad(transfer, plan) && !kept.contains(transfer.copy.op))
        transfer.copy.op->erase();
    return success();
  }

private:
  ProgramOp program;
  const planner::Plan &plan;
  const planner::Problem &problem;
  Places places;
  TouchIndex touches;
  planner::BufferIndex buffers;
  std::map<TransferKey, const ProgramTransfer *> naive;
  std::map<int64_t, int64_t> eventOfPhase;

  TransferKey keyOf(const ProgramTransfer &transfer) {
    int64_t here = places.buffer(transfer.copy.buffer()).getId();
    int64_t there =
        transfer.copy.isPeer()
            ? int64_t(places.buffer(transfer.copy.otherPlace()).getId())
            : -1;
    int64_t served = transfer.beside;
    if (transfer.phase < 0)
      served = servedBy(transfer.kind, here, there, transfer.beside);
    return {transfer.kind, here, there, served};
  }

  TransferKey keyOf(const planner::Transfer &wanted) {
    int64_t firstSample =
        wanted.phase >= 0 ? plan.phases[wanted.phase].firstSample : 0;
    auto find = [&](int device) -> int64_t {
      const planner::Buffer *buffer =
          buffers.find(getContent(wanted.kind), wanted.object, wanted.use,
                       device, {wanted.event, 0}, firstSample);
      return buffer ? buffer - plan.buffers.data() : -1;
    };
    int64_t here = find(wanted.device),
            there = wanted.source < 0 ? -1 : find(wanted.source);
    if (wanted.phase < 0)
      return {wanted.kind, here, there,
              servedBy(wanted.kind, here, there, wanted.event)};
    auto pack = eventOfPhase.find(wanted.phase);
    return {wanted.kind, here, there,
            pack == eventOfPhase.end() ? -1 : pack->second};
  }

  /// A part of a tensor is an op of its own.
  static Operation *cutSlice(const Copy &copy,
                             const planner::Transfer &wanted) {
    if (wanted.bytes == copy.bytes || (wanted.kind != EventKind::LoadTensor &&
                                       wanted.kind != EventKind::CopyTensor))
      return copy.op;
    OpBuilder builder(copy.op);
    Operation *slice = builder.clone(*copy.op);
    if (auto in = dyn_cast<SwapInOp>(slice)) {
      in.setBytes(wanted.bytes);
      in.setOffset(copy.offset + wanted.firstByte);
      in.setFirstByte(wanted.firstByte);
    } else if (auto peer = dyn_cast<P2POp>(slice)) {
      peer.setBytes(wanted.bytes);
      peer.setFirstByte(wanted.firstByte);
    }
    return slice;
  }

  /// A tensor is copied behind the update that changes it, or for the pack that
  /// reads it.
  int64_t servedBy(EventKind kind, int64_t here, int64_t there,
                   int64_t event) const {
    bool later = servesLater(kind) || (kind == EventKind::CopyTensor &&
                                       touches.find(there, event, false) < 0);
    int64_t buffer = later || there < 0 ? here : there;
    int64_t served = touches.find(buffer, event, later);
    // What stays may be brought for the next execution.
    if (served < 0 && later && buffer >= 0 && plan.buffers[buffer].persistent)
      served = touches.find(buffer, 0, later);
    return served;
  }
};

} // namespace

LogicalResult harmony::elideSwaps(ProgramOp program, const planner::Plan &plan,
                                  const planner::Problem &problem) {
  if (program.getKind() == ProgramKind::load ||
      program.getKind() == ProgramKind::store)
    return success();
  if (failed(Elider(program, plan, problem).run()))
    return failure();
  std::string temporary =
      ("host.temporary." + stringifyProgramKind(program.getKind()) + ".").str();
  auto module = program->getParentOfType<ModuleOp>();
  for (auto home : llvm::make_early_inc_range(module.getOps<HomeOp>()))
    if (home.getTemporary() && home.getSymName().starts_with(temporary))
      home.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Hoist
//===----------------------------------------------------------------------===//

/// Sorts the ops of a block by event, those of one event staying in their
/// order.
static void sortByEvent(Block &block, int64_t planEvents) {
  std::map<int64_t, SmallVector<Operation *>> ops;
  for (Operation &op : block) {
    int64_t event = getEvent(&op);
    ops[event >= planEvents ? -1 : event].push_back(
        &op); // -1: before the plan's first event
  }
  for (auto &[event, list] : ops)
    for (Operation *op : list)
      op->moveBefore(&block, block.end());
}

LogicalResult harmony::hoistSwaps(ProgramOp program,
                                  const planner::Plan &plan) {
  if (program.getKind() == ProgramKind::load ||
      program.getKind() == ProgramKind::store)
    return success();
  WalkResult unnumbered =
      program.walk(
          [&](Operation *op) {
            if (!getCopy(op) || getEvent(op) >= 0)
              return WalkResult::advance();
            op->emitOpError()
                << "has no event of the plan: swaps have to be elided first";
            return WalkResult::interrupt();
          });
  if (unnumbered.wasInterrupted())
    return failure();
  for (auto pack : program.getOps<PackOp>())
    sortByEvent(pack.getBlock(), plan.events.size());
  sortByEvent(program.getBlock(), plan.events.size());
  return success();
}

//===----------------------------------------------------------------------===//
// Verify
//===----------------------------------------------------------------------===//

LogicalResult harmony::verifySwaps(ProgramOp program, const planner::Plan &plan,
                                   const planner::Problem &problem) {
  if (program.getKind() == ProgramKind::load ||
      program.getKind() == ProgramKind::store)
    return success();
  Places places(program->getParentOfType<ModuleOp>());
  FailureOr<SmallVector<ProgramTransfer>> transfers =
      getTransfers(program, places);
  if (failed(transfers))
    return failure();
  llvm::erase_if(*transfers, [&](const ProgramTransfer &transfer) {
    return isResidentLoad(transfer, plan);
  });
  // What is issued among the Runs of a pack stands behind the pack.
  llvm::stable_sort(*transfers,
                    [](const ProgramTransfer &a, const ProgramTransfer &b) {
                      return a.copy.event < b.copy.event;
                    });
  std::vector<planner::Transfer> required =
      planner::requiredTransfers(plan, problem);
  for (size_t i = 0; i < std::max(transfers->size(), required.size()); ++i) {
    if (i >= required.size())
      return (*transfers)[i].copy.op->emitOpError()
             << "transfer " << i << " is " << describe((*transfers)[i])
             << ", but the plan ends after " << required.size() << " transfers";
    const planner::Transfer &wanted = required[i];
    if (i >= transfers->size())
      return program.emitOpError()
             << "ends after " << i << " transfers, but the plan goes on with "
             << describeWanted(wanted, plan, problem);
    const ProgramTransfer &transfer = (*transfers)[i];
    bool same =
        transfer.kind == wanted.kind && transfer.object == wanted.object &&
        transfer.use == wanted.use && transfer.phase == wanted.phase &&
        transfer.copy.device() == wanted.device &&
        (transfer.copy.isPeer() ? transfer.copy.from : -1) == wanted.source &&
        transfer.copy.firstByte == wanted.firstByte &&
        transfer.copy.event == wanted.event;
    if (!same)
      return transfer.copy.op->emitOpError()
             << "transfer " << i << " is " << describe(transfer)
             << ", but the plan's is " << describeWanted(wanted, plan, problem);
    if (transfer.copy.bytes * transfer.trips != wanted.bytes)
      return transfer.copy.op->emitOpError()
             << "moves " << transfer.copy.bytes * transfer.trips
             << " bytes, but " << describeWanted(wanted, plan, problem)
             << " moves " << wanted.bytes;
    if (static_cast<int>(transfer.copy.traffic) !=
        static_cast<int>(wanted.traffic))
      return transfer.copy.op->emitOpError()
             << "is no " << planner::name(wanted.traffic) << ", which "
             << describeWanted(wanted, plan, problem) << " counts as";
  }
  return success();
}
