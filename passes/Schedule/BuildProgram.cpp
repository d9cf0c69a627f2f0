//===- BuildProgram.cpp - Places and packs from a plan --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/Schedule/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::EventKind;
using planner::HomeKind;
using planner::Point;
using planner::StepKind;
using PlanContent = planner::Content;

// The planner's numbering of what a buffer holds is the dialect's.
static_assert(static_cast<int>(PlanContent::Tensor) == static_cast<int>(Content::tensor) &&
              static_cast<int>(PlanContent::RecomputedValue) == static_cast<int>(Content::recomputed_value) &&
              static_cast<int>(PlanContent::Scalar) == static_cast<int>(Content::scalar));

void harmony::addDevices(ModuleOp module, const planner::Machine &machine) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  for (auto [index, device] : llvm::enumerate(machine.devices))
    DeviceOp::create(builder, module.getLoc(), "d" + std::to_string(index), index, device.capacity);
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

/// Bytes of a static tensor; i1 takes a byte.
int64_t getTensorBytes(RankedTensorType type) {
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * ((bits + 7) / 8);
}

Content getContent(HomeKind kind) {
  switch (kind) {
  case HomeKind::Tensor:
    return Content::tensor;
  case HomeKind::State:
    return Content::state;
  case HomeKind::Gradient:
    return Content::gradient;
  case HomeKind::Value:
    return Content::value;
  case HomeKind::ValueGradient:
    return Content::value_gradient;
  case HomeKind::Scalar:
    return Content::scalar;
  }
  return Content::variable;
}

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, const Model &model, const planner::Plan &plan, ProgramKind kind)
      : module(module), model(model), problem(model.problem), plan(plan), kind(kind), context(module.getContext()),
        builder(OpBuilder::atBlockEnd(module.getBody())), symbols(module) {}

  LogicalResult build() {
    if (failed(addInputs()))
      return failure();
    addScalars();
    if (failed(addHomes()) || failed(addDenominators()) || failed(addOutputs()))
      return failure();
    addBuffers();
    addLosses();
    program = ProgramOp::create(builder, module.getLoc(), symbol(stringifyProgramKind(kind)), kind, plan.batch);
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
  SymbolTable symbols;
  ProgramOp program;
  std::map<std::tuple<HomeKind, int, int>, std::string> homes;
  std::vector<std::string> inputs;                 ///< places by graph input
  std::vector<std::string> buffers;                ///< places by Plan::buffers
  std::map<std::tuple<int, int, int>, std::vector<int>> buffersOf; ///< Plan::buffers by content, object, use
  std::vector<std::string> denominators, unusedSeeds; ///< homes by loss term
  llvm::StringMap<std::string> variableHome;       ///< by variable, of those with a home of their own
  llvm::StringSet<> taken;

  bool isEvaluation() const { return kind == ProgramKind::evaluate; }
  /// The first plan built owns the homes' numbers.
  bool isPrimary = true;

  std::string symbol(const Twine &wanted) {
    std::string name = wanted.str();
    for (int suffix = 1; taken.contains(name) || symbols.lookup(name); ++suffix)
      name = (wanted + "." + Twine(suffix)).str();
    taken.insert(name);
    return name;
  }
  FlatSymbolRefAttr ref(StringRef name) { return FlatSymbolRefAttr::get(context, name); }
  AtAttr at(StringRef place, int64_t offset = 0) { return AtAttr::get(context, ref(place), offset); }
  std::string programPrefix() const { return isEvaluation() ? "evaluate." : "step."; }

  //===--- inputs, scalars, outputs --------------------------------------------===//

  func::FuncOp getGraph() {
    if (isEvaluation())
      if (auto graph = symbols.lookup<func::FuncOp>("evaluate"))
        return graph;
    return symbols.lookup<func::FuncOp>("main");
  }

  /// Samples are the outermost axis of the batch memory and of outputs.
  FailureOr<std::pair<int64_t, bool>> getSampleBytes(RankedTensorType type, StringRef what, StringRef name) {
    nn::BatchAttr batch = nn::getBatch(type);
    if (!batch)
      return std::make_pair(getTensorBytes(type), true);
    if (batch.getAxis() != 0 || batch.getFactor() != 1)
      return module.emitError() << what << " '" << name << "' has its samples along axis " << batch.getAxis() << ", "
                                << batch.getFactor() << " indices to a sample; expected one along axis 0";
    return std::make_pair(getTensorBytes(nn::instantiate(type, 1)), false);
  }

  LogicalResult addInputs() {
    for (auto input : module.getOps<InputOp>())
      inputs.push_back(input.getSymName().str());
    if (!inputs.empty())
      return success();
    func::FuncOp graph = getGraph();
    if (!graph)
      return module.emitError() << "has no function @main whose arguments are the graph inputs";
    for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      auto name = graph.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
      StringRef text = name ? name.getValue() : StringRef("input");
      auto sample = getSampleBytes(tensor, "input", text);
      if (failed(sample))
        return failure();
      std::string place = symbol("input." + text);
      InputOp::create(builder, graph.getLoc(), place, index, text, sample->first, sample->second, tensor,
                      getRange(graph, index), graph.getArgAttrOfType<IntegerAttr>(index, "nn.ignored"));
      inputs.push_back(place);
    }
    return success();
  }

  DenseI64ArrayAttr getRange(func::FuncOp graph, unsigned index) {
    Attribute range = graph.getArgAttr(index, "nn.index_range");
    if (auto dense = dyn_cast_or_null<DenseI64ArrayAttr>(range))
      return dense;
    if (auto list = dyn_cast_or_null<ArrayAttr>(range)) {
      SmallVector<int64_t> bounds;
      for (auto bound : list.getAsRange<IntegerAttr>())
        bounds.push_back(bound.getInt());
      return builder.getDenseI64ArrayAttr(bounds);
    }
    return {};
  }

  void addScalars() {
    if (!module.getOps<ScalarOp>().empty())
      return;
    int64_t index = 0;
    for (auto variable : module.getOps<nn::VariableOp>()) {
      if (variable.getRole() != nn::Role::scalar)
        continue;
      auto scalarKind = variable->getAttrOfType<IntegerAttr>("nn.scalar_kind");
      ScalarOp::create(builder, variable.getLoc(), scalarPlace(variable.getSymName()), index++,
                       scalarKind ? scalarKind.getInt() : -1, variable.getSymName());
    }
  }
  static std::string scalarPlace(StringRef variable) { return ("scalar." + variable).str(); }

  LogicalResult addOutputs() {
    if (!isEvaluation())
      return success();
    func::FuncOp graph = getGraph();
    std::map<int, int> values; // by result
    for (auto [value, output] : llvm::enumerate(model.valueOutput))
      if (output >= 0)
        values[output] = value;
    for (auto [output, value] : values) {
      auto home = homes.find({HomeKind::Value, value, -1});
      if (home == homes.end())
        return module.emitError() << "output '" << problem.values[value].name << "' has no home in the evaluation plan";
      auto tensor = cast<RankedTensorType>(graph.getResultTypes()[output]);
      auto name = graph.getResultAttrOfType<StringAttr>(output, nn::kNameAttr);
      StringRef text = name ? name.getValue() : StringRef(problem.values[value].name);
      auto sample = getSampleBytes(tensor, "output", text);
      if (failed(sample))
        return failure();
      OutputOp::create(builder, graph.getLoc(), text, home->second, sample->first, sample->second, tensor);
    }
    return success();
  }

  //===--- homes ---------------------------------------------------------------===//

  std::string createHome(const Twine &name, Content content, int64_t bytes, int64_t slots, ArrayRef<std::string> variables,
                         int64_t id) {
    SmallVector<Attribute> refs;
    for (const std::string &variable : variables)
      refs.push_back(ref(variable));
    std::string place = symbol(name);
    HomeOp::create(builder, module.getLoc(), place, content, bytes, slots, builder.getArrayAttr(refs), id, false,
                   IntegerAttr());
    return place;
  }

  LogicalResult addHomes() {
    for (auto home : module.getOps<HomeOp>()) {
      isPrimary = false;
      if (home.getContent() == Content::tensor || home.getContent() == Content::variable)
        for (auto variable : home.getVariables().getAsRange<FlatSymbolRefAttr>())
          variableHome[variable.getValue()] = home.getSymName().str();
    }
    llvm::StringSet<> inState;
    for (auto [id, home] : llvm::enumerate(plan.homes)) {
      std::string &place = homes[{home.kind, home.object, home.use}];
      std::vector<std::string> variables;
      if (home.kind == HomeKind::Tensor) {
        variables = {model.tensorVariable[home.object]};
        if (auto known = variableHome.find(variables.front()); known != variableHome.end()) {
          place = known->second;
          continue;
        }
      } else if (home.kind == HomeKind::State) {
        variables = model.updates[home.object].states;
        if (failed(checkState(home, variables)))
          return failure();
        for (const std::string &variable : variables)
          inState.insert(variable);
      }
      place = createHome(homeName(home), getContent(home.kind), home.slotBytes, home.slots, variables, isPrimary ? id : -1);
      if (home.kind == HomeKind::Tensor)
        variableHome[variables.front()] = place;
    }
    if (!isPrimary)
      return success();
    for (auto variable : module.getOps<nn::VariableOp>()) {
      StringRef name = variable.getSymName();
      if (variable.getRole() == nn::Role::scalar || variableHome.count(name) || inState.contains(name))
        continue;
      variableHome[name] = createHome("host." + name, Content::variable,
                                      getTensorBytes(cast<RankedTensorType>(variable.getType())), 1, {name.str()}, -1);
    }
    return success();
  }

  std::string homeName(const planner::Home &home) {
    std::string use = home.use >= 0 ? "." + std::to_string(home.use) : "";
    std::string evaluation = isEvaluation() ? "evaluate." : "";
    switch (home.kind) {
    case HomeKind::Tensor:
      return "host." + model.tensorVariable[home.object];
    case HomeKind::State:
      return "host.state." + model.tensorVariable[home.object];
    case HomeKind::Gradient:
      return "host.gradient." + model.tensorVariable[home.object] + use;
    case HomeKind::Value:
      return "host." + evaluation + "value." + problem.values[home.object].name;
    case HomeKind::ValueGradient:
      return "host.value_gradient." + problem.values[home.object].name;
    case HomeKind::Scalar:
      return "host." + evaluation + "scalar." + problem.scalars[home.object].name;
    }
    return "host";
  }

  LogicalResult checkState(const planner::Home &home, ArrayRef<std::string> variables) {
    int64_t end = 0;
    for (const std::string &name : variables) {
      auto variable = symbols.lookup<nn::VariableOp>(name);
      if (!variable)
        return module.emitError() << "optimizer state @" << name << " of '" << problem.tensors[home.object].name
                                  << "' is no nn.variable";
      end = alignTo64(end) + getTensorBytes(cast<RankedTensorType>(variable.getType()));
    }
    if (end > home.bytes())
      return module.emitError() << "optimizer state of '" << problem.tensors[home.object].name << "' takes " << end
                                << " bytes, but the plan has " << home.bytes();
    return success();
  }

  /// Where the state variable at `position` begins in its tensor's state block.
  int64_t stateOffset(int tensor, int64_t position) {
    int64_t offset = 0;
    for (int64_t s = 0; s < position; ++s) {
      auto variable = symbols.lookup<nn::VariableOp>(model.updates[tensor].states[s]);
      offset += alignTo64(getTensorBytes(cast<RankedTensorType>(variable.getType())));
    }
    return offset;
  }

  /// The prologue writes denominators and seeds of every term; one that the plan does not
  /// know has a home all the same.
  LogicalResult addDenominators() {
    auto prologue = symbols.lookup<TaskOp>(prologueTaskName());
    if (!prologue && !model.losses.empty())
      return module.emitError() << "has no task @" << prologueTaskName() << ", which computes the denominators of "
                                << model.losses.size() << " loss terms";
    for (size_t k = 0; k < model.losses.size(); ++k) {
      std::string name = "host.denominator." + std::to_string(k);
      if (!symbols.lookup(name) && !findLocal(name))
        createHome(name, Content::scalar, 4, 1, {}, -1);
      denominators.push_back(name);
      std::string seed = "host.seed." + std::to_string(k);
      bool bound = prologue.findSlot(SlotKind::result, 2 * k + 1) >= 0;
      if (model.losses[k].seed < 0 && bound && !symbols.lookup(seed) && !findLocal(seed))
        createHome(seed, Content::scalar, 4, 1, {}, -1);
      unusedSeeds.push_back(seed);
    }
    int64_t workspace = 0;
    for (auto task : module.getOps<TaskOp>())
      if (isHostTask(task))
        workspace = std::max(workspace, task.getWorkspaceBytes());
    if (workspace > 0 && !symbols.lookup(hostWorkspace()) && !findLocal(hostWorkspace()))
      createHome(hostWorkspace(), Content::workspace, workspace, 1, {}, -1);
    return success();
  }
  static StringRef hostWorkspace() { return "host.workspace"; }
  bool findLocal(StringRef name) { return taken.contains(name); }
  static bool isHostTask(TaskOp task) {
    return task.getSymName() == prologueTaskName() || task.getSymName() == stepScalarsTaskName() ||
           task.findSlot(SlotKind::parameter) >= 0;
  }

  void addLosses() {
    for (auto [k, loss] : llvm::enumerate(model.losses))
      LossOp::create(builder, module.getLoc(), ProgramKindAttr::get(context, kind),
                     ref(homes.at({HomeKind::Scalar, loss.accumulator, -1})), ref(denominators[k]),
                     builder.getF64FloatAttr(loss.scale));
  }

  //===--- buffers -------------------------------------------------------------===//

  void addBuffers() {
    for (auto [id, buffer] : llvm::enumerate(plan.buffers)) {
      std::string place = symbol(programPrefix() + bufferName(buffer));
      std::string home = homeOf(buffer);
      BufferOp::create(builder, module.getLoc(), place, isEvaluation() ? ProgramKind::evaluate : ProgramKind::step,
                       buffer.device, static_cast<Content>(buffer.content), buffer.object, buffer.use, buffer.slotBytes,
                       buffer.slots, buffer.stride, home.empty() ? FlatSymbolRefAttr() : ref(home), buffer.persistent,
                       ArrayRef<int64_t>{buffer.first.event, buffer.last.event}, id, IntegerAttr());
      buffers.push_back(place);
      buffersOf[{static_cast<int>(buffer.content), buffer.object, buffer.use}].push_back(id);
    }
  }

  std::string bufferName(const planner::Buffer &buffer) {
    switch (buffer.content) {
    case PlanContent::Tensor:
      return problem.tensors[buffer.object].name;
    case PlanContent::State:
      return "state." + problem.tensors[buffer.object].name;
    case PlanContent::Gradient:
      return "gradient." + problem.tensors[buffer.object].name + "." + std::to_string(buffer.use);
    case PlanContent::Value:
      return "value." + problem.values[buffer.object].name;
    case PlanContent::ValueGradient:
      return "value_gradient." + problem.values[buffer.object].name;
    case PlanContent::RecomputedValue:
      return "recomputed." + problem.values[buffer.object].name;
    case PlanContent::Saved:
      return "saved." + problem.layers[buffer.object].name;
    case PlanContent::Workspace:
      return "workspace." + problem.layers[buffer.object].name;
    case PlanContent::Scalar:
      return "scalar." + problem.scalars[buffer.object].name;
    }
    return "buffer";
  }

  std::string homeOf(const planner::Buffer &buffer) {
    auto find = [&](HomeKind homeKind) {
      auto it = homes.find({homeKind, buffer.object, buffer.use});
      return it == homes.end() ? std::string() : it->second;
    };
    switch (buffer.content) {
    case PlanContent::Tensor:
      return find(HomeKind::Tensor);
    case PlanContent::State:
      return find(HomeKind::State);
    case PlanContent::Gradient:
      return find(HomeKind::Gradient);
    case PlanContent::Value:
      return model.valueInput[buffer.object] >= 0 ? inputs[model.valueInput[buffer.object]] : find(HomeKind::Value);
    case PlanContent::ValueGradient:
      return find(HomeKind::ValueGradient);
    case PlanContent::Scalar:
      return find(HomeKind::Scalar);
    default:
      return {};
    }
  }

  /// The place of what is live at a point, empty where the plan has none.
  std::string find(PlanContent content, int object, int use, int device, Point point) {
    auto candidates = buffersOf.find({static_cast<int>(content), object, use});
    if (candidates == buffersOf.end())
      return {};
    for (int index : candidates->second) {
      const planner::Buffer &buffer = plan.buffers[index];
      bool live = buffer.persistent || (buffer.first <= point && point <= buffer.last);
      if (live && buffer.device == device)
        return buffers[index];
    }
    return {};
  }

  //===--- events --------------------------------------------------------------===//

  LogicalResult addEvents() {
    // The runtime loads nothing before an evaluation: what stays on the device during one comes first.
    if (isEvaluation()) {
      addResidentLoads(plan.load, static_cast<int64_t>(plan.events.size()));
      bool prologue = llvm::any_of(plan.events, [](const planner::Event &event) { return event.kind == EventKind::Prologue; });
      if (!prologue && failed(addPrologue(plan.events.size() + plan.load.size())))
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
      case EventKind::Update:
        added = addUpdate(index, event);
        break;
      case EventKind::Run:
        added = addPack(index, event);
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
    return module.emitError() << "the plan has no buffer for " << what << " at "
                              << planner::describe(plan, problem, static_cast<int>(event));
  }

  LogicalResult addZero(int64_t index, const planner::Event &event, PlanContent content) {
    std::string place = find(content, event.object, event.use, event.device, {static_cast<int>(index), 0});
    if (place.empty())
      return missing("what is zeroed", index);
    ZeroOp::create(builder, module.getLoc(), place, index);
    return success();
  }

  /// Work on the whole batch, on the host, before anything else: denominators and seeds of the
  /// loss, then the step's scalars.
  LogicalResult addPrologue(int64_t event) {
    if (auto task = symbols.lookup<TaskOp>(prologueTaskName())) {
      auto bind = [&](SlotAttr slot) -> AtAttr {
        int64_t i = slot.getIndex();
        if (slot.getKind() == SlotKind::argument && i < static_cast<int64_t>(inputs.size()))
          return at(inputs[i]);
        if (slot.getKind() == SlotKind::workspace)
          return at(hostWorkspace());
        if (slot.getKind() != SlotKind::result || i / 2 >= static_cast<int64_t>(model.losses.size()))
          return {};
        if (i % 2 == 0)
          return at(denominators[i / 2]);
        int seed = model.losses[i / 2].seed;
        return at(seed < 0 ? unusedSeeds[i / 2] : homes.at({HomeKind::Scalar, seed, -1}));
      };
      if (failed(addRun(task, Direction::prologue, -1, prologueTaskName(), event, bind)))
        return failure();
    }
    auto task = symbols.lookup<TaskOp>(stepScalarsTaskName());
    auto scalars = module.getOps<nn::StepScalarsOp>();
    if (isEvaluation() || !task || scalars.empty())
      return success();
    nn::StepScalarsOp op = *scalars.begin();
    auto bind = [&](SlotAttr slot) -> AtAttr {
      if (slot.getKind() == SlotKind::workspace)
        return at(hostWorkspace());
      ArrayAttr list = slot.getKind() == SlotKind::argument ? op.getReads() : op.getWrites();
      if (slot.getKind() > SlotKind::result || slot.getIndex() >= static_cast<int64_t>(list.size()))
        return {};
      return bindVariable(cast<FlatSymbolRefAttr>(list[slot.getIndex()]).getValue());
    };
    return addRun(task, Direction::prologue, -1, stepScalarsTaskName(), event, bind);
  }

  /// A scalar of the step or a variable in the host store.
  AtAttr bindVariable(StringRef name) {
    auto variable = symbols.lookup<nn::VariableOp>(name);
    if (!variable)
      return {};
    if (variable.getRole() == nn::Role::scalar)
      return at(scalarPlace(name));
    auto home = variableHome.find(name);
    return home == variableHome.end() ? AtAttr() : at(home->second);
  }

  template <typename Bind>
  LogicalResult bindSlots(TaskOp task, int64_t event, Bind bind, SmallVector<Attribute> &addresses) {
    for (auto slot : task.getSlots().getAsRange<SlotAttr>()) {
      AtAttr address = bind(slot);
      if (!address)
        return missing("slot " + stringifySlotKind(slot.getKind()) + " " + Twine(slot.getIndex()) + " of task @" +
                           task.getSymName(),
                       event);
      addresses.push_back(address);
    }
    return success();
  }

  template <typename Bind>
  LogicalResult addRun(TaskOp task, Direction direction, int64_t layer, StringRef label, int64_t event, Bind bind) {
    SmallVector<Attribute> addresses;
    if (failed(bindSlots(task, event, bind, addresses)))
      return failure();
    RunOp::create(builder, task.getLoc(), ref(task.getSymName()), builder.getArrayAttr(addresses),
                  DirectionAttr::get(context, direction), builder.getI64IntegerAttr(layer), builder.getStringAttr(label),
                  builder.getI64IntegerAttr(event));
    return success();
  }

  LogicalResult addUpdate(int64_t index, const planner::Event &event) {
    int t = event.object;
    const UpdateBinding &update = model.updates[t];
    int uses = static_cast<int>(problem.tensors[t].gradientUses.size());
    std::string name = updateTaskName(update.function, uses);
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError() << "has no task @" << name << ", which updates '" << problem.tensors[t].name << "'";
    Point point{static_cast<int>(index), 0};
    auto place = [&](PlanContent content, HomeKind homeKind, int use, int64_t offset) -> AtAttr {
      if (!event.onHost) {
        std::string buffer = find(content, t, use, event.device, point);
        return buffer.empty() ? AtAttr() : at(buffer, offset);
      }
      auto home = homes.find({homeKind, t, use});
      return home == homes.end() ? AtAttr() : at(home->second, offset);
    };
    auto bind = [&](SlotAttr slot) -> AtAttr {
      int64_t i = slot.getIndex();
      switch (slot.getKind()) {
      case SlotKind::parameter:
        return place(PlanContent::Tensor, HomeKind::Tensor, -1, 0);
      case SlotKind::gradient:
        return place(PlanContent::Gradient, HomeKind::Gradient, static_cast<int>(i), 0);
      case SlotKind::state:
        if (i >= static_cast<int64_t>(update.states.size()))
          return {};
        return place(PlanContent::State, HomeKind::State, -1, stateOffset(t, i));
      case SlotKind::scalar:
        return i < static_cast<int64_t>(update.scalars.size()) ? bindVariable(update.scalars[i]) : AtAttr();
      case SlotKind::workspace:
        return event.onHost ? at(hostWorkspace()) : AtAttr();
      default:
        return {};
      }
    };
    SmallVector<Attribute> addresses;
    if (failed(bindSlots(task, index, bind, addresses)))
      return failure();
    UpdateOp::create(builder, task.getLoc(), ref(model.tensorVariable[t]), ref(name), builder.getArrayAttr(addresses),
                     builder.getI64IntegerAttr(event.onHost ? -1 : event.device), builder.getI64IntegerAttr(index));
    return success();
  }

  //===--- packs ---------------------------------------------------------------===//

  LogicalResult addPack(int64_t index, const planner::Event &event) {
    const planner::Phase &phase = plan.phases[event.phase];
    std::string name = planner::name(phase.kind) + std::to_string(event.phase);
    auto pack = PackOp::create(builder, module.getLoc(), name, static_cast<PackKind>(phase.kind), phase.firstLayer,
                               phase.lastLayer, phase.microbatch, event.trips, event.device, event.phase, index);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&pack.getBody().emplaceBlock());
    for (size_t s = 0; s < phase.steps.size(); ++s)
      if (failed(addStep(phase, static_cast<int>(index), static_cast<int>(s))))
        return failure();
    return success();
  }

  /// Whether a value is made again in the phase: its operands are the copy then.
  bool isRecomputed(const planner::Phase &phase, int value) {
    int producer = problem.values[value].producer;
    return phase.kind == planner::PhaseKind::Backward && llvm::any_of(phase.steps, [&](const planner::Step &step) {
             return step.kind == StepKind::Recompute && step.layer == producer;
           });
  }

  std::string findValue(const planner::Phase &phase, int value, Point point) {
    PlanContent content = isRecomputed(phase, value) ? PlanContent::RecomputedValue : PlanContent::Value;
    return find(content, value, -1, phase.device, point);
  }

  /// Arguments of the layer for whose gradient a consumer that comes earlier in backward order
  /// has already contributed.
  std::vector<int> accumulated(int layer) {
    std::vector<int> arguments;
    const std::vector<Binding> &bindings = model.layers[layer].arguments;
    for (size_t i = 0; i < bindings.size(); ++i) {
      int value = bindings[i].value;
      if (value < 0 || !contributes(layer, value))
        continue;
      bool later = llvm::any_of(problem.values[value].consumers,
                                [&](int consumer) { return consumer > layer && contributes(consumer, value); });
      if (later)
        arguments.push_back(static_cast<int>(i));
    }
    return arguments;
  }
  bool contributes(int layer, int value) {
    return llvm::any_of(problem.layers[layer].inputs,
                        [&](const planner::ValueUse &use) { return use.value == value && use.gradient; });
  }

  /// The gradient use of a tensor argument: Layer::tensors lists tensor arguments in order.
  int gradientUse(int layer, int64_t argument) {
    const std::vector<Binding> &bindings = model.layers[layer].arguments;
    int tensor = bindings[argument].tensor, position = 0;
    for (int64_t i = 0; i < argument; ++i)
      position += bindings[i].tensor >= 0;
    const std::vector<planner::GradientUse> &uses = problem.tensors[tensor].gradientUses;
    for (size_t use = 0; use < uses.size(); ++use)
      if (uses[use].layer == layer && (uses[use].position == position ||
                                       static_cast<int>(problem.layers[layer].tensors.size()) <= position))
        return static_cast<int>(use);
    return -1;
  }

  LogicalResult addStep(const planner::Phase &phase, int event, int s) {
    planner::Step step = phase.steps[s];
    const LayerBinding &layer = model.layers[step.layer];
    Point point{event, s};
    auto place = [&](PlanContent content, int object, int use = -1) -> AtAttr {
      std::string buffer = find(content, object, use, phase.device, point);
      return buffer.empty() ? AtAttr() : at(buffer);
    };
    auto operand = [&](const Binding &binding) -> AtAttr {
      if (binding.tensor >= 0)
        return place(PlanContent::Tensor, binding.tensor);
      if (binding.scalar >= 0)
        return place(PlanContent::Scalar, binding.scalar);
      std::string buffer = binding.value >= 0 ? findValue(phase, binding.value, point) : std::string();
      return buffer.empty() ? AtAttr() : at(buffer);
    };
    auto bind = [&](SlotAttr slot) -> AtAttr {
      int64_t i = slot.getIndex();
      bool ofResult = slot.getKind() == SlotKind::result || slot.getKind() == SlotKind::cotangent;
      bool ofArgument = slot.getKind() == SlotKind::argument || slot.getKind() == SlotKind::gradient;
      if ((ofResult && i >= static_cast<int64_t>(layer.results.size())) ||
          (ofArgument && i >= static_cast<int64_t>(layer.arguments.size())))
        return {};
      switch (slot.getKind()) {
      case SlotKind::argument:
        return operand(layer.arguments[i]);
      case SlotKind::result:
        return operand(layer.results[i]);
      case SlotKind::saved:
        return place(PlanContent::Saved, step.layer);
      case SlotKind::workspace:
        return place(PlanContent::Workspace, step.layer);
      case SlotKind::cotangent: {
        int scalar = i < static_cast<int64_t>(layer.cotangentScalar.size()) ? layer.cotangentScalar[i] : -1;
        if (scalar >= 0)
          return place(PlanContent::Scalar, scalar);
        return place(PlanContent::ValueGradient, layer.results[i].value);
      }
      case SlotKind::gradient:
        if (int t = layer.arguments[i].tensor; t >= 0)
          return place(PlanContent::Gradient, t, gradientUse(step.layer, i));
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
      name = recomputeTaskName(layer.function, phase.microbatch);
      break;
    case StepKind::Backward:
      name = backwardTaskName(layer.function, phase.microbatch, accumulated(step.layer));
      break;
    }
    auto task = symbols.lookup<TaskOp>(name);
    if (!task)
      return module.emitError() << "has no task @" << name << ", which layer '" << problem.layers[step.layer].name
                                << "' runs in " << planner::describe(plan, problem, event);
    return addRun(task, static_cast<Direction>(step.kind), step.layer, problem.layers[step.layer].name, event, bind);
  }

  /// The plan's workspace of a layer is the most that any form of its task takes; what the program
  /// takes is that of the forms which it runs.
  void trimWorkspaces() {
    llvm::StringMap<int64_t> taken;
    program.walk([&](RunOp run) {
      auto task = symbols.lookup<TaskOp>(run.getTask());
      if (int64_t position = task.findSlot(SlotKind::workspace); position >= 0) {
        int64_t &bytes = taken[cast<AtAttr>(run.getAt()[position]).getPlace().getValue()];
        bytes = std::max(bytes, task.getWorkspaceBytes());
      }
    });
    for (auto buffer : llvm::make_early_inc_range(module.getOps<BufferOp>())) {
      if (buffer.getContent() != Content::workspace || buffer.getProgram() != program.getKind())
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

  //===--- what stays on the devices -------------------------------------------===//

  void addResidentLoads(ArrayRef<planner::ResidentTransfer> transfers, int64_t firstEvent) {
    for (const planner::ResidentTransfer &transfer : transfers) {
      const planner::Buffer &buffer = plan.buffers[transfer.buffer];
      SwapInOp::create(builder, module.getLoc(), homeOf(buffer), buffers[transfer.buffer], buffer.slotBytes, 0,
                       transfer.device, firstEvent++);
    }
  }

  void addResidentProgram(ProgramKind residentKind, ArrayRef<planner::ResidentTransfer> transfers) {
    OpBuilder::InsertionGuard guard(builder);
    auto resident =
        ProgramOp::create(builder, module.getLoc(), symbol(stringifyProgramKind(residentKind)), residentKind, plan.batch);
    builder.setInsertionPointToEnd(&resident.getBody().emplaceBlock());
    if (residentKind == ProgramKind::load)
      return addResidentLoads(transfers, 0);
    for (auto [index, transfer] : llvm::enumerate(transfers)) {
      const planner::Buffer &buffer = plan.buffers[transfer.buffer];
      SwapOutOp::create(builder, module.getLoc(), buffers[transfer.buffer], homeOf(buffer), buffer.slotBytes, 0,
                        transfer.device, index);
    }
  }
};

} // namespace

LogicalResult harmony::buildProgram(ModuleOp module, const Model &model, const planner::Plan &plan, ProgramKind kind) {
  return ProgramBuilder(module, model, plan, kind).build();
}
