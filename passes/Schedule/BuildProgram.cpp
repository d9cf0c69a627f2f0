//===- BuildProgram.cpp - Packs and updates from a plan -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Simulate.h"
#include "dialects/NN/NN.h"
#include "passes/Schedule/PlaceBuilder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::EventKind;
using planner::HomeKind;
using planner::Point;
using planner::StepKind;
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
        kind(kind), context(module.getContext()), builder(context),
        symbols(module), places(module, model, plan, kind) {}

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
  MLIRContext *context;
  OpBuilder builder;
  SymbolTable symbols; ///< as the module was before its places
  PlaceBuilder places;
  ProgramOp program;
  std::map<int, PackOp> packs; ///< by phase

  bool isEvaluation() const { return kind == ProgramKind::evaluate; }
  FlatSymbolRefAttr ref(StringRef name) {
    return FlatSymbolRefAttr::get(context, name);
  }
  /// Null for no place.
  AtAttr at(StringRef place, int64_t offset = 0) {
    return place.empty() ? AtAttr() : AtAttr::get(context, ref(place), offset);
  }

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
        added = addRuns(index, event);
        break;
      default: // transfers are insertSwaps'
        break;
      }
      if (failed(added))
        return failure();
    }
    return success();
  }

  LogicalResult missing(const Twine &what, int64_t event) {
    return module.emitError()
           << "the plan has no buffer for " << what << " at "
           << planner::describe(plan, problem, static_cast<int>(event));
  }

  LogicalResult addZero(int64_t index, const planner::Event &event,
                        PlanContent content) {
    std::string place = places.find(content, event.object, event.use,
                                    event.device, {static_cast<int>(index), 0});
    if (place.empty())
      return missing("what is zeroed", index);
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
          return at(places.input(i));
        if (slot.getKind() == SlotKind::parameter)
          return i < static_cast<int64_t>(model.prologueVariables.size())
                     ? at(places.variable(model.prologueVariables[i]))
                     : AtAttr();
        if (slot.getKind() == SlotKind::workspace)
          return at(places.hostWorkspace(0));
        if (slot.getKind() != SlotKind::result)
          return {};
        return at(i % 2 == 0 ? places.denominator(i / 2) : places.seed(i / 2));
      };
      if (failed(addRun(task, Direction::prologue, -1, prologueTaskName(),
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
    return addRun(task, Direction::prologue, -1, stepScalarsTaskName(), event,
                  bind);
  }

  /// A slot of work on the host: argument `position` of what it reads, or a
  /// result.
  AtAttr bindHost(SlotAttr slot, int64_t position, ArrayAttr reads,
                  ArrayAttr writes) {
    if (slot.getKind() == SlotKind::workspace)
      return at(places.hostWorkspace(0));
    ArrayAttr list = slot.getKind() == SlotKind::argument ? reads : writes;
    if (slot.getKind() > SlotKind::result ||
        position >= static_cast<int64_t>(list.size()))
      return {};
    return at(
        places.variable(cast<FlatSymbolRefAttr>(list[position]).getValue()));
  }

  /// What the parts of a tensor's gradient give to the epilogue, computed where
  /// the tensor is updated.
  LogicalResult addContribution(int64_t index, const planner::Event &event) {
    int t = event.object;
    const planner::Tensor &tensor = problem.tensors[t];
    std::string name = contributionTaskName(model.contributions[t], partsOf(t));
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
        return at(event.onHost
                      ? places.findHome(HomeKind::Scalar, tensor.contribution)
                      : places.find(PlanContent::Scalar, tensor.contribution,
                                    -1, event.device, point));
      case SlotKind::workspace:
        return event.onHost ? at(places.hostWorkspace(laneOf(event)))
                            : AtAttr();
      default:
        return {};
      }
    };
    return addRun(task, Direction::contribution, -1, model.tensorVariable[t],
                  index, bind, seconds(event));
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
                 ? at(places.findHome(HomeKind::Scalar, contributions[i]))
                 : bindHost(slot, i - count, op.getReads(), op.getWrites());
    };
    return addRun(task, Direction::epilogue, -1, epilogueTaskName(), event,
                  bind, seconds(plan.events[event]));
  }

  int partsOf(int tensor) const {
    return static_cast<int>(problem.tensors[tensor].gradientUses.size()) *
           plan.groups;
  }
  /// A part of the gradient of the tensor that is updated, where that is done.
  AtAttr gradient(const planner::Event &event, int part, Point point) {
    return at(event.onHost
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

  template <typename Bind>
  LogicalResult bindSlots(TaskOp task, int64_t event, Bind bind,
                          SmallVector<Attribute> &addresses) {
    for (auto slot : task.getSlots().getAsRange<SlotAttr>()) {
      AtAttr address = bind(slot);
      if (!address)
        return missing("slot " + stringifySlotKind(slot.getKind()) + " " +
                           Twine(slot.getIndex()) + " of task @" +
                           task.getSymName(),
                       event);
      addresses.push_back(address);
    }
    return success();
  }

  template <typename Bind>
  LogicalResult addRun(TaskOp task, Direction direction, int64_t layer,
                       StringRef label, int64_t event, Bind bind,
                       double seconds = 0, double lastSeconds = 0) {
    SmallVector<Attribute> addresses;
    if (failed(bindSlots(task, event, bind, addresses)))
      return failure();
    RunOp::create(
        builder, task.getLoc(), ref(task.getSymName()),
        builder.getArrayAttr(addresses), DirectionAttr::get(context, direction),
        builder.getI64IntegerAttr(layer), builder.getStringAttr(label),
        builder.getI64IntegerAttr(event), secondsAttr(seconds),
        secondsAttr(lastSeconds));
    return success();
  }

  FloatAttr secondsAttr(double seconds) {
    return seconds > 0 ? builder.getF64FloatAttr(seconds) : FloatAttr();
  }

  LogicalResult addUpdate(int64_t index, const planner::Event &event) {
    int t = event.object;
    const UpdateBinding &update = model.updates[t];
    std::string name = updateTaskName(update.function, partsOf(t));
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError()
             << "has no task @" << name << ", which updates '"
             << problem.tensors[t].name << "'";
    Point point{static_cast<int>(index), 0};
    auto place = [&](PlanContent content, HomeKind homeKind,
                     int64_t offset) -> AtAttr {
      return at(event.onHost ? places.findHome(homeKind, t)
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
                   ? at(places.variable(update.scalars[i]))
                   : AtAttr();
      case SlotKind::workspace:
        return event.onHost ? at(places.hostWorkspace(laneOf(event)))
                            : AtAttr();
      default:
        return {};
      }
    };
    SmallVector<Attribute> addresses;
    if (failed(bindSlots(task, index, bind, addresses)))
      return failure();
    UpdateOp::create(
        builder, task.getLoc(), ref(model.tensorVariable[t]), ref(name),
        builder.getArrayAttr(addresses),
        builder.getI64IntegerAttr(event.onHost ? -1 : event.device),
        builder.getI64IntegerAttr(index), secondsAttr(seconds(event)));
    return success();
  }

  //===--- packs ---------------------------------------------------------===//

  /// The pack of a phase begins with the first of its Runs.
  LogicalResult addRuns(int64_t index, const planner::Event &event) {
    const planner::Phase &phase = plan.phases[event.phase];
    PackOp &pack = packs[event.phase];
    if (!pack) {
      pack = addPack(index, event, phase);
      pack.getBody().emplaceBlock();
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&pack.getBlock());
    for (int s = event.firstStep; s < event.endStep; ++s)
      if (failed(addStep(phase, static_cast<int>(index), s)))
        return failure();
    return success();
  }

  PackOp addPack(int64_t index, const planner::Event &event,
                 const planner::Phase &phase) {
    std::string name = planner::name(phase.kind) + std::to_string(event.phase);
    return PackOp::create(builder, module.getLoc(), name,
                          static_cast<PackKind>(phase.kind), phase.firstLayer,
                          phase.lastLayer, phase.microbatch, event.trips,
                          phase.firstSample, phase.firstMicrobatch, phase.group,
                          event.device, event.phase, index);
  }

  /// Whether a value is made again in the phase: its operands are the copy
  /// then.
  bool isRecomputed(const planner::Phase &phase, int value) {
    int producer = problem.values[value].producer;
    return phase.kind == planner::PhaseKind::Backward &&
           llvm::any_of(phase.steps, [&](const planner::Step &step) {
             return step.kind == StepKind::Recompute &&
                    step.layer == producer && phase.level(producer) == 0;
           });
  }

  std::string findValue(const planner::Phase &phase, int value, Point point) {
    PlanContent content = isRecomputed(phase, value)
                              ? PlanContent::RecomputedValue
                              : PlanContent::Value;
    return places.find(content, value, -1, phase.device, point,
                       phase.firstSample);
  }

  /// Segment s of a saved block begins where level s + 1 ends to keep, and is
  /// kept from the level behind that on.
  AtAttr savedSegment(const planner::Phase &phase, int layer, int64_t segment,
                      Point point) {
    const planner::Cost &cost = problem.cost(layer, phase.microbatch);
    int level = phase.level(layer);
    int64_t start = cost.keeps.empty() ? 0 : cost.keptBytes(segment + 1);
    bool kept = start < cost.keptBytes(level);
    return at(places.find(PlanContent::Saved, layer,
                          kept ? planner::keptPart : -1, phase.device, point,
                          phase.firstSample),
              kept ? start : start - cost.keptBytes(level));
  }

  /// Arguments of the layer for whose gradient a consumer that comes earlier in
  /// backward order has already contributed.
  std::vector<int> accumulated(int layer) {
    std::vector<int> arguments;
    const std::vector<Binding> &bindings = model.layers[layer].arguments;
    for (size_t i = 0; i < bindings.size(); ++i) {
      int value = bindings[i].value;
      if (value < 0 || !contributes(layer, value))
        continue;
      bool later =
          llvm::any_of(problem.values[value].consumers, [&](int consumer) {
            return consumer > layer && contributes(consumer, value);
          });
      if (later)
        arguments.push_back(static_cast<int>(i));
    }
    return arguments;
  }
  bool contributes(int layer, int value) {
    return llvm::any_of(problem.layers[layer].inputs,
                        [&](const planner::ValueUse &use) {
                          return use.value == value && use.gradient;
                        });
  }

  /// The use of a tensor argument within a group's gradient: Layer::tensors
  /// lists tensor arguments in order.
  int gradientUse(int layer, int64_t argument) {
    const std::vector<Binding> &bindings = model.layers[layer].arguments;
    int tensor = bindings[argument].tensor, position = 0;
    for (int64_t i = 0; i < argument; ++i)
      position += bindings[i].tensor >= 0;
    const std::vector<planner::GradientUse> &uses =
        problem.tensors[tensor].gradientUses;
    for (size_t use = 0; use < uses.size(); ++use)
      if (uses[use].layer == layer &&
          (uses[use].position == position ||
           static_cast<int>(problem.layers[layer].tensors.size()) <= position))
        return static_cast<int>(use);
    return -1;
  }

  LogicalResult addStep(const planner::Phase &phase, int event, int s) {
    planner::Step step = phase.steps[s];
    const LayerBinding &layer = model.layers[step.layer];
    Point point{event, s};
    auto place = [&](PlanContent content, int object, int use = -1) -> AtAttr {
      return at(places.find(content, object, use, phase.device, point,
                            phase.firstSample));
    };
    auto operand = [&](const Binding &binding) -> AtAttr {
      if (binding.tensor >= 0)
        return place(PlanContent::Tensor, binding.tensor);
      if (binding.scalar >= 0)
        return place(PlanContent::Scalar, binding.scalar, phase.group);
      return binding.value >= 0 ? at(findValue(phase, binding.value, point))
                                : AtAttr();
    };
    auto bind = [&](SlotAttr slot) -> AtAttr {
      int64_t i = slot.getIndex();
      bool ofResult = slot.getKind() == SlotKind::result ||
                      slot.getKind() == SlotKind::cotangent;
      bool ofArgument = slot.getKind() == SlotKind::argument ||
                        slot.getKind() == SlotKind::gradient;
      if ((ofResult && i >= static_cast<int64_t>(layer.results.size())) ||
          (ofArgument && i >= static_cast<int64_t>(layer.arguments.size())))
        return {};
      switch (slot.getKind()) {
      case SlotKind::argument:
        return operand(layer.arguments[i]);
      case SlotKind::result:
        return operand(layer.results[i]);
      case SlotKind::saved:
        return savedSegment(phase, step.layer, i, point);
      case SlotKind::workspace:
        return place(PlanContent::Workspace, step.layer);
      case SlotKind::cotangent: {
        int scalar = i < static_cast<int64_t>(layer.cotangentScalar.size())
                         ? layer.cotangentScalar[i]
                         : -1;
        if (scalar >= 0)
          return place(PlanContent::Scalar, scalar);
        return place(PlanContent::ValueGradient, layer.results[i].value);
      }
      case SlotKind::gradient:
        if (int t = layer.arguments[i].tensor; t >= 0)
          return place(PlanContent::Gradient, t,
                       phase.group * partsOf(t) / plan.groups +
                           gradientUse(step.layer, i));
        return place(PlanContent::ValueGradient, layer.arguments[i].value);
      default:
        return {};
      }
    };
    std::string name;
    switch (step.kind) {
    case StepKind::Forward:
      name = forwardTaskName(layer.function, phase.microbatch);
      break;
    case StepKind::Recompute:
      name = recomputeTaskName(layer.function, phase.microbatch,
                               phase.level(step.layer));
      break;
    case StepKind::Backward:
      name = backwardTaskName(layer.function, phase.microbatch,
                              accumulated(step.layer));
      break;
    }
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError()
             << "has no task @" << name << ", which layer '"
             << problem.layers[step.layer].name << "' runs in "
             << planner::describe(plan, problem, event);
    double atEnd = 0; // of the phase
    if (auto seconds = module->getAttrOfType<FloatAttr>(phaseSecondsAttr))
      if (s + 1 == static_cast<int>(phase.steps.size()))
        atEnd = seconds.getValueAsDouble();
    return addRun(task, static_cast<Direction>(step.kind), step.layer,
                  problem.layers[step.layer].name, event, bind,
                  planner::stepSeconds(problem, phase, step), atEnd);
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
