//===- BuildProgram.cpp - Packs and updates from a plan -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Simulate.h"
#include "dialects/NN/NN.h"
#include "passes/Schedule/PackBuilder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::EventKind;
using planner::HomeKind;
using planner::Point;
using PlanContent = planner::Content;

void harmony::addDevices(ModuleOp module, const planner::Machine &machine,
                         int used) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  for (auto [index, device] : llvm::enumerate(machine.devices))
    DeviceOp::create(builder, module.getLoc(), "d" + std::to_string(index),
                     index, device.capacity);
  for (auto [index, resource] : llvm::enumerate(machine.resources))
    ResourceOp::create(builder, module.getLoc(),
                       "resource" + std::to_string(index),
                       llvm::APFloat(resource.bytesPerSecond));
  for (const planner::Link &link : machine.links) {
    SmallVector<Attribute> shares;
    double rate = link.bytesPerSecond;
    bool fixed = machine.sharing == planner::Sharing::Static;
    for (int share : link.shares)
      if (fixed)
        rate = std::min(rate, machine.resources[share].bytesPerSecond / used);
      else
        shares.push_back(FlatSymbolRefAttr::get(
            module.getContext(), "resource" + std::to_string(share)));
    LinkOp::create(builder, module.getLoc(), link.from, link.to,
                   llvm::APFloat(rate), llvm::APFloat(link.latencySeconds),
                   builder.getArrayAttr(shares), fixed);
  }
  if (machine.phaseSeconds > 0)
    module->setAttr(phaseSecondsAttr,
                    builder.getF64FloatAttr(machine.phaseSeconds));
}

SmallVector<ProgramOp> harmony::getPrograms(ModuleOp module, ProgramKind kind) {
  SmallVector<ProgramOp> programs;
  for (auto program : module.getOps<ProgramOp>()) {
    bool training = program.getKind() != ProgramKind::evaluate;
    if (training == (kind != ProgramKind::evaluate))
      programs.push_back(program);
  }
  return programs;
}

namespace {

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, const Model &model, const planner::Plan &plan,
                 ProgramKind kind)
      : module(module), model(model), problem(model.problem), plan(plan),
        kind(kind), runs(module, model, plan, kind), packs(runs) {}

  LogicalResult build() {
    if (failed(places.build()))
      return failure();
    builder.setInsertionPointToEnd(module.getBody());
    program = ProgramOp::create(builder, module.getLoc(),
                                places.symbol(stringifyProgramKind(kind)), kind,
                                plan.batch);
    builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
    if (failed(addEvents()))
      return failure();
    trimWorkspaces();
    builder.setInsertionPointToEnd(module.getBody());
    if (kind == ProgramKind::step) {
      addResidentProgram(ProgramKind::load, plan.load);
      addResidentProgram(ProgramKind::store, plan.store);
    }
    return success();
  }

private:
  ModuleOp module;
  const Model &model;
  const planner::Problem &problem;
  const planner::Plan &plan;
  ProgramKind kind;
  RunBuilder runs;
  PackBuilder packs;
  OpBuilder &builder = runs.builder;
  SymbolTable &symbols = runs.symbols;
  PlaceBuilder &places = runs.places;
  ProgramOp program;

  bool isEvaluation() const { return kind == ProgramKind::evaluate; }
  //===--- events --------------------------------------------------------===//

  LogicalResult addEvents() {
    // The runtime loads nothing before an evaluation: what stays on the device
    // during one comes first.
    if (isEvaluation()) {
      addResidentLoads(plan.load, static_cast<int64_t>(plan.events.size()));
      bool prologue =
          llvm::any_of(plan.events, [](const planner::Event &event) {
            return event.kind == EventKind::Prologue;
          });
      if (!prologue &&
          failed(addPrologue(plan.events.size() + plan.load.size())))
        return failure();
    }
    for (auto [index, event] : llvm::enumerate(plan.events)) {
      LogicalResult added = success();
      switch (event.kind) {
      case EventKind::Prologue:
        added = addPrologue(index);
        break;
      case EventKind::ZeroScalar:
        added = addZero(index, event, PlanContent::Scalar);
        break;
      case EventKind::ZeroGradient:
        added = addZero(index, event, PlanContent::Gradient);
        break;
      case EventKind::Contribute:
        added = addContribution(index, event);
        break;
      case EventKind::Epilogue:
        added = addEpilogue(index);
        break;
      case EventKind::Update:
        added = addUpdate(index, event);
        break;
      case EventKind::Run:
        added = packs.addRuns(index, event);
        break;
      default: // transfers are insertSwaps'
        break;
      }
      if (failed(added))
        return failure();
    }
    return success();
  }

  LogicalResult addZero(int64_t index, const planner::Event &event,
                        PlanContent content) {
    std::string place = places.find(content, event.object, event.use,
                                    event.device, {static_cast<int>(index), 0});
    if (place.empty())
      return runs.missing("what is zeroed", index);
    ZeroOp::create(builder, module.getLoc(), place, index);
    return success();
  }

  /// Work on the whole batch, on the host, before anything else: denominators
  /// and seeds of the loss, then the step's scalars.
  LogicalResult addPrologue(int64_t event) {
    if (auto task = symbols.lookup<TaskOp>(prologueTaskName())) {
      auto bind = [&](SlotAttr slot) -> AtAttr {
        int64_t i = slot.getIndex();
        if (slot.getKind() == SlotKind::argument)
          return runs.at(places.input(i));
        if (slot.getKind() == SlotKind::parameter)
          return i < static_cast<int64_t>(model.prologueVariables.size())
                     ? runs.at(places.variable(model.prologueVariables[i]))
                     : AtAttr();
        if (slot.getKind() == SlotKind::workspace)
          return runs.at(places.hostWorkspace(0));
        if (slot.getKind() != SlotKind::result)
          return {};
        return runs.at(i % 2 == 0 ? places.denominator(i / 2)
                                  : places.seed(i / 2));
      };
      if (failed(runs.addRun(task, Direction::prologue, -1, prologueTaskName(),
                             event, bind)))
        return failure();
    }
    auto task = symbols.lookup<TaskOp>(stepScalarsTaskName());
    auto scalars = module.getOps<nn::StepScalarsOp>();
    if (isEvaluation() || !task || scalars.empty())
      return success();
    nn::StepScalarsOp op = *scalars.begin();
    auto bind = [&](SlotAttr slot) {
      return bindHost(slot, slot.getIndex(), op.getReads(), op.getWrites());
    };
    return runs.addRun(task, Direction::prologue, -1, stepScalarsTaskName(),
                       event, bind);
  }

  /// A slot of work on the host: argument `position` of what it reads, or a
  /// result.
  AtAttr bindHost(SlotAttr slot, int64_t position, ArrayAttr reads,
                  ArrayAttr writes) {
    if (slot.getKind() == SlotKind::workspace)
      return runs.at(places.hostWorkspace(0));
    ArrayAttr list = slot.getKind() == SlotKind::argument ? reads : writes;
    if (slot.getKind() > SlotKind::result ||
        position >= static_cast<int64_t>(list.size()))
      return {};
    return runs.at(
        places.variable(cast<FlatSymbolRefAttr>(list[position]).getValue()));
  }

  /// What the parts of a tensor's gradient give to the epilogue, computed where
  /// the tensor is updated.
  LogicalResult addContribution(int64_t index, const planner::Event &event) {
    int t = event.object;
    const planner::Tensor &tensor = problem.tensors[t];
    std::string name =
        contributionTaskName(model.contributions[t], runs.partsOf(t));
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError()
             << "has no task @" << name << ", which computes what '"
             << tensor.name << "' contributes to all updates";
    Point point{static_cast<int>(index), 0};
    auto bind = [&](SlotAttr slot) -> AtAttr {
      switch (slot.getKind()) {
      case SlotKind::gradient:
        return gradient(event, static_cast<int>(slot.getIndex()), point);
      case SlotKind::result:
        return runs.at(
            event.onHost
                ? places.findHome(HomeKind::Scalar, tensor.contribution)
                : places.find(PlanContent::Scalar, tensor.contribution, -1,
                              event.device, point));
      case SlotKind::workspace:
        return event.onHost ? runs.at(places.hostWorkspace(laneOf(event)))
                            : AtAttr();
      default:
        return {};
      }
    };
    return runs.addRun(task, Direction::contribution, -1,
                       model.tensorVariable[t], index, bind, seconds(event));
  }

  /// What all updates read, from all contributions.
  LogicalResult addEpilogue(int64_t event) {
    auto task = symbols.lookup<TaskOp>(epilogueTaskName());
    auto epilogues = module.getOps<nn::EpilogueOp>();
    if (!task || epilogues.empty())
      return module.emitError() << "has no task @" << epilogueTaskName()
                                << ", for which the plan's updates wait";
    nn::EpilogueOp op = *epilogues.begin();
    SmallVector<int> contributions;
    for (const planner::Tensor &tensor : problem.tensors)
      if (tensor.contribution >= 0)
        contributions.push_back(tensor.contribution);
    int64_t count = contributions.size();
    auto bind = [&](SlotAttr slot) -> AtAttr {
      int64_t i = slot.getIndex();
      if (slot.getKind() != SlotKind::argument)
        return bindHost(slot, i, op.getReads(), op.getWrites());
      return i < count
                 ? runs.at(places.findHome(HomeKind::Scalar, contributions[i]))
                 : bindHost(slot, i - count, op.getReads(), op.getWrites());
    };
    return runs.addRun(task, Direction::epilogue, -1, epilogueTaskName(), event,
                       bind, seconds(plan.events[event]));
  }

  /// A part of the gradient of the tensor that is updated, where that is done.
  AtAttr gradient(const planner::Event &event, int part, Point point) {
    return runs.at(event.onHost
                       ? places.findHome(HomeKind::Gradient, event.object, part)
                       : places.find(PlanContent::Gradient, event.object, part,
                                     event.device, point));
  }
  int laneOf(const planner::Event &event) const {
    return plan.queues[event.queue].lane;
  }
  double seconds(const planner::Event &event) const {
    return planner::workSeconds(plan, problem, event);
  }

  LogicalResult addUpdate(int64_t index, const planner::Event &event) {
    int t = event.object;
    const UpdateBinding &update = model.updates[t];
    std::string name = updateTaskName(update.function, runs.partsOf(t));
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError()
             << "has no task @" << name << ", which updates '"
             << problem.tensors[t].name << "'";
    Point point{static_cast<int>(index), 0};
    auto place = [&](PlanContent content, HomeKind homeKind,
                     int64_t offset) -> AtAttr {
      return runs.at(event.onHost
                         ? places.findHome(homeKind, t)
                         : places.find(content, t, -1, event.device, point),
                     offset);
    };
    auto bind = [&](SlotAttr slot) -> AtAttr {
      int64_t i = slot.getIndex();
      switch (slot.getKind()) {
      case SlotKind::parameter:
        return place(PlanContent::Tensor, HomeKind::Tensor, 0);
      case SlotKind::gradient:
        return gradient(event, static_cast<int>(i), point);
      case SlotKind::state:
        if (i >= static_cast<int64_t>(update.states.size()))
          return {};
        return place(PlanContent::State, HomeKind::State,
                     places.stateOffset(t, i));
      case SlotKind::scalar:
        return i < static_cast<int64_t>(update.scalars.size())
                   ? runs.at(places.variable(update.scalars[i]))
                   : AtAttr();
      case SlotKind::workspace:
        return event.onHost ? runs.at(places.hostWorkspace(laneOf(event)))
                            : AtAttr();
      default:
        return {};
      }
    };
    SmallVector<Attribute> addresses;
    if (failed(runs.bindSlots(task, index, bind, addresses)))
      return failure();
    UpdateOp::create(
        builder, task.getLoc(), runs.ref(model.tensorVariable[t]),
        runs.ref(name), builder.getArrayAttr(addresses),
        builder.getI64IntegerAttr(event.onHost ? -1 : event.device),
        builder.getI64IntegerAttr(index), runs.seconds(seconds(event)));
    return success();
  }

  /// The plan's workspace of a layer is the most that any form of its task
  /// takes; what the program takes is that of the forms which it runs.
  void trimWorkspaces() {
    llvm::StringMap<int64_t> taken;
    program.walk([&](RunOp run) {
      auto task = symbols.lookup<TaskOp>(run.getTask());
      if (int64_t position = task.findSlot(SlotKind::workspace);
          position >= 0) {
        int64_t &bytes =
            taken[cast<AtAttr>(run.getAt()[position]).getPlace().getValue()];
        bytes = std::max(bytes, task.getWorkspaceBytes());
      }
    });
    for (auto buffer : llvm::make_early_inc_range(module.getOps<BufferOp>())) {
      if (buffer.getContent() != Content::workspace ||
          buffer.getProgram() != program.getKind())
        continue;
      auto bytes = taken.find(buffer.getSymName());
      if (bytes == taken.end()) {
        buffer.erase();
        continue;
      }
      buffer.setBytes(bytes->second);
      buffer.setStride(bytes->second);
    }
  }

  //===--- what stays on the devices -------------------------------------===//

  void addResidentLoads(ArrayRef<planner::ResidentTransfer> transfers,
                        int64_t firstEvent) {
    for (const planner::ResidentTransfer &transfer : transfers) {
      const planner::Buffer &buffer = plan.buffers[transfer.buffer];
      SwapInOp::create(builder, module.getLoc(), places.homeOf(buffer),
                       places.buffer(transfer.buffer), buffer.slotBytes, 0, 0,
                       transfer.device, firstEvent++);
    }
  }

  void addResidentProgram(ProgramKind residentKind,
                          ArrayRef<planner::ResidentTransfer> transfers) {
    OpBuilder::InsertionGuard guard(builder);
    auto resident =
        ProgramOp::create(builder, module.getLoc(),
                          places.symbol(stringifyProgramKind(residentKind)),
                          residentKind, plan.batch);
    builder.setInsertionPointToEnd(&resident.getBody().emplaceBlock());
    if (residentKind == ProgramKind::load)
      return addResidentLoads(transfers, 0);
    for (auto [index, transfer] : llvm::enumerate(transfers)) {
      const planner::Buffer &buffer = plan.buffers[transfer.buffer];
      SwapOutOp::create(builder, module.getLoc(),
                        places.buffer(transfer.buffer), places.homeOf(buffer),
                        buffer.slotBytes, 0, 0, transfer.device, index);
    }
  }
};

} // namespace

LogicalResult harmony::buildProgram(ModuleOp module, const Model &model,
                                    const planner::Plan &plan,
                                    ProgramKind kind) {
  return ProgramBuilder(module, model, plan, kind).build();
}
