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

static std::optional<EventKind> getKind(const Copy &copy, Content content) {
  bool swap =
      copy.traffic == HM_TRAFFIC_SWAP_IN || copy.traffic == HM_TRAFFIC_SWAP_OUT;
  switch (content) {
  case Content::tensor:
    if (swap)
      return copy.toDevice() ? EventKind::LoadTensor : EventKind::StoreTensor;
    break;
  case Content::state:
    if (swap)
      return copy.toDevice() ? EventKind::LoadState : EventKind::StoreState;
    break;
  case Content::gradient:
    if (swap)
      return copy.toDevice() ? EventKind::LoadGradient
                             : EventKind::StoreGradient;
    break;
  case Content::value:
    return copy.toDevice() ? EventKind::LoadValue : EventKind::StoreValue;
  case Content::value_gradient:
    if (swap)
      return copy.toDevice() ? EventKind::LoadValueGradient
                             : EventKind::StoreValueGradient;
    break;
  case Content::scalar:
    if (!swap)
      return copy.toDevice() ? EventKind::LoadScalar : EventKind::StoreScalar;
    break;
  default:
    break;
  }
  return std::nullopt;
}

static bool isLoad(EventKind kind) {
  switch (kind) {
  case EventKind::LoadScalar:
  case EventKind::LoadTensor:
  case EventKind::LoadState:
  case EventKind::LoadGradient:
  case EventKind::LoadValue:
  case EventKind::LoadValueGradient:
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
    ProgramTransfer transfer{copy, *kind, static_cast<int>(buffer.getObject()),
                             static_cast<int>(buffer.getUse())};
    if (pack) {
      transfer.phase = pack.getPhase();
      transfer.anchor = pack.getEvent();
      transfer.trips = pack.getTrips();
    } else {
      for (Operation *at = op; at && transfer.anchor < 0;
           at = copy.toDevice() ? at->getNextNode() : at->getPrevNode())
        if (isWork(at))
          transfer.anchor = getEvent(at);
    }
    transfers.push_back(transfer);
    return success();
  };
  for (Operation &op : program.getBlock()) {
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
  return text + (transfer.copy.toDevice() ? " before" : " after") + " event " +
         std::to_string(transfer.anchor);
}

static std::string describeWanted(const planner::Transfer &transfer,
                                  const planner::Plan &plan,
                                  const planner::Problem &problem) {
  return planner::describe(plan, problem, transfer.event);
}

/// What an evaluation loads before its first event is beside the plan's list.
static bool isResidentLoad(const ProgramTransfer &transfer,
                           const planner::Plan &plan) {
  return transfer.copy.event >= static_cast<int64_t>(plan.events.size());
}

//===----------------------------------------------------------------------===//
// Elide
//===----------------------------------------------------------------------===//

namespace {

/// A transfer of the naive program: what it moves, which way, for which device,
/// and around which work.
using Key = std::tuple<EventKind, int, int, int64_t, int64_t>;

/// Events of the work that touches each (content, object, use, device),
/// ascending.
class TouchIndex {
public:
  TouchIndex(ProgramOp program, Places &places) {
    for (Operation &op : program.getBlock())
      if (isWork(&op))
        for (const BufferUse &use : getBufferUses(&op, places)) {
          BufferOp buffer = use.buffer;
          events[{buffer.getContent(), buffer.getObject(), buffer.getUse(),
                  buffer.getDevice()}]
              .push_back(getEvent(&op));
        }
  }

  /// The first toucher after an event, or the last one before it; -1 without
  /// one.
  int64_t find(Content content, const planner::Transfer &transfer,
               bool after) const {
    auto list =
        events.find({content, transfer.object, transfer.use, transfer.device});
    if (list == events.end())
      return -1;
    const std::vector<int64_t> &touchers = list->second;
    auto at = llvm::lower_bound(touchers, static_cast<int64_t>(transfer.event));
    if (after)
      return at == touchers.end() ? -1 : *at;
    return at == touchers.begin() ? -1 : *std::prev(at);
  }

private:
  std::map<std::tuple<Content, int64_t, int64_t, int64_t>, std::vector<int64_t>>
      events;
};

Content getContent(EventKind kind) {
  switch (kind) {
  case EventKind::LoadTensor:
  case EventKind::StoreTensor:
    return Content::tensor;
  case EventKind::LoadState:
  case EventKind::StoreState:
    return Content::state;
  case EventKind::LoadGradient:
  case EventKind::StoreGradient:
    return Content::gradient;
  case EventKind::LoadScalar:
  case EventKind::StoreScalar:
    return Content::scalar;
  case EventKind::LoadValueGradient:
  case EventKind::StoreValueGradient:
    return Content::value_gradient;
  default:
    return Content::value;
  }
}

} // namespace

LogicalResult harmony::elideSwaps(ProgramOp program, const planner::Plan &plan,
                                  const planner::Problem &problem) {
  if (program.getKind() == ProgramKind::load ||
      program.getKind() == ProgramKind::store)
    return success();
  auto module = program->getParentOfType<ModuleOp>();
  Places places(module);
  FailureOr<SmallVector<ProgramTransfer>> transfers =
      getTransfers(program, places);
  if (failed(transfers))
    return failure();

  std::map<Key, const ProgramTransfer *> naive;
  for (const ProgramTransfer &transfer : *transfers)
    if (!isResidentLoad(transfer, plan))
      naive.insert({{transfer.kind, transfer.object, transfer.use,
                     transfer.copy.device(), transfer.anchor},
                    &transfer});
  std::map<int64_t, int64_t> eventOfPhase;
  for (auto pack : program.getOps<PackOp>())
    eventOfPhase[pack.getPhase()] = pack.getEvent();

  TouchIndex touches(program, places);
  llvm::DenseSet<Operation *> kept;
  for (const planner::Transfer &wanted :
       planner::requiredTransfers(plan, problem)) {
    int64_t anchor = -1;
    if (wanted.phase < 0)
      anchor =
          touches.find(getContent(wanted.kind), wanted, isLoad(wanted.kind));
    else if (auto pack = eventOfPhase.find(wanted.phase);
             pack != eventOfPhase.end())
      anchor = pack->second;
    auto found = naive.find(
        {wanted.kind, wanted.object, wanted.use, wanted.device, anchor});
    if (found == naive.end())
      return program.emitOpError()
             << "has no transfer for " << describeWanted(wanted, plan, problem)
             << (anchor < 0 ? ", which no pack or update reads or writes" : "")
             << ": swaps have to be inserted first";
    setEvent(found->second->copy.op, wanted.event);
    kept.insert(found->second->copy.op);
  }
  for (const ProgramTransfer &transfer : *transfers)
    if (!isResidentLoad(transfer, plan) && !kept.contains(transfer.copy.op))
      transfer.copy.op->erase();

  std::string temporary =
      ("host.temporary." + stringifyProgramKind(program.getKind()) + ".").str();
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
    bool same = transfer.kind == wanted.kind &&
                transfer.object == wanted.object &&
                transfer.use == wanted.use && transfer.phase == wanted.phase &&
                transfer.copy.device() == wanted.device &&
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
