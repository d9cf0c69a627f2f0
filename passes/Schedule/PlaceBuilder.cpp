//===- PlaceBuilder.cpp - Inputs, homes and buffers of a plan -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/PlaceBuilder.h"

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;
using planner::HomeKind;
using planner::Point;
using PlanContent = planner::Content;

// The planner's numbering of what a buffer holds is the dialect's.
static_assert(static_cast<int>(PlanContent::Tensor) ==
                  static_cast<int>(Content::tensor) &&
              static_cast<int>(PlanContent::RecomputedValue) ==
                  static_cast<int>(Content::recomputed_value) &&
              static_cast<int>(PlanContent::Scalar) ==
                  static_cast<int>(Content::scalar));

/// Bytes of a static tensor; i1 takes a byte.
static int64_t getTensorBytes(RankedTensorType type) {
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * ((bits + 7) / 8);
}

static Content getContent(HomeKind kind) {
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

static std::string scalarPlace(StringRef variable) {
  return ("scalar." + variable).str();
}

PlaceBuilder::PlaceBuilder(ModuleOp module, const Model &model,
                           const planner::Plan &plan, ProgramKind kind)
    : module(module), model(model), problem(model.problem), plan(plan),
      kind(kind), context(module.getContext()),
      builder(OpBuilder::atBlockEnd(module.getBody())), symbols(module),
      index(plan) {}

LogicalResult PlaceBuilder::build() {
  if (failed(addInputs()))
    return failure();
  addScalars();
  if (failed(addHomes()) || failed(addPrologueHomes()) || failed(addOutputs()))
    return failure();
  addBuffers();
  return addLosses();
}

std::string PlaceBuilder::symbol(const Twine &wanted) {
  std::string base = wanted.str(), name = base;
  while (symbols.lookup(name) || !taken.insert({name, 0}).second)
    name = base + "." + std::to_string(++taken[base]);
  return name;
}

//===----------------------------------------------------------------------===//
// Look-up
//===----------------------------------------------------------------------===//

std::string PlaceBuilder::find(PlanContent content, int object, int use,
                               int device, Point point,
                               int64_t firstSample) const {
  bool ofSamples =
      content == PlanContent::Value || content == PlanContent::ValueGradient ||
      content == PlanContent::RecomputedValue || content == PlanContent::Saved;
  const planner::Buffer *buffer = index.find(
      content, object, use, device, point, ofSamples ? firstSample : 0);
  return buffer ? buffers[buffer - plan.buffers.data()] : std::string();
}

std::string PlaceBuilder::findHome(HomeKind homeKind, int object,
                                   int use) const {
  auto home = homes.find({homeKind, object, use});
  return home == homes.end() ? std::string() : home->second;
}

std::string PlaceBuilder::input(int64_t index) const {
  return index < static_cast<int64_t>(inputs.size()) ? inputs[index]
                                                     : std::string();
}

std::string PlaceBuilder::denominator(int64_t term) const {
  return term < static_cast<int64_t>(denominators.size()) ? denominators[term]
                                                          : std::string();
}

std::string PlaceBuilder::seed(int64_t term) const {
  if (term >= static_cast<int64_t>(model.losses.size()))
    return {};
  int scalar = model.losses[term].seed;
  return scalar < 0 ? unusedSeeds[term] : findHome(HomeKind::Scalar, scalar);
}

std::string PlaceBuilder::variable(StringRef name) const {
  auto variable = symbols.lookup<nn::VariableOp>(name);
  if (!variable)
    return {};
  if (variable.getRole() == nn::Role::scalar)
    return scalarPlace(name);
  return variableHome.lookup(name);
}

//===--- inputs, scalars, outputs ----------------------------------------===//

func::FuncOp PlaceBuilder::getGraph() const {
  if (isEvaluation())
    if (auto graph = symbols.lookup<func::FuncOp>("evaluate"))
      return graph;
  return symbols.lookup<func::FuncOp>("main");
}

/// Samples are the outermost axis of the batch memory and of outputs.
FailureOr<std::pair<int64_t, bool>>
PlaceBuilder::getSampleBytes(RankedTensorType type, StringRef what,
                             StringRef name) {
  nn::BatchAttr batch = nn::getBatch(type);
  if (!batch)
    return std::make_pair(getTensorBytes(type), true);
  if (batch.getAxis() != 0 || batch.getFactor() != 1)
    return module.emitError()
           << what << " '" << name << "' has its samples along axis "
           << batch.getAxis() << ", " << batch.getFactor()
           << " indices to a sample; expected one along axis 0";
  return std::make_pair(getTensorBytes(nn::instantiate(type, 1)), false);
}

LogicalResult PlaceBuilder::addInputs() {
  for (auto input : module.getOps<InputOp>())
    inputs.push_back(input.getSymName().str());
  if (!inputs.empty())
    return success();
  func::FuncOp graph = getGraph();
  if (!graph)
    return module.emitError()
           << "has no function @main whose arguments are the graph inputs";
  for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    auto name = graph.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
    StringRef text = name ? name.getValue() : StringRef("input");
    auto sample = getSampleBytes(tensor, "input", text);
    if (failed(sample))
      return failure();
    std::string place = symbol("input." + text);
    auto input = InputOp::create(
        builder, graph.getLoc(), place, index, text, sample->first,
        sample->second, tensor, getRange(graph, index),
        graph.getArgAttrOfType<IntegerAttr>(index, "nn.ignored"));
    if (Attribute keys = graph.getArgAttr(index, nn::kSampleKeysAttr))
      input->setAttr(nn::kSampleKeysAttr, keys);
    inputs.push_back(place);
  }
  return success();
}

DenseI64ArrayAttr PlaceBuilder::getRange(func::FuncOp graph, unsigned index) {
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

void PlaceBuilder::addScalars() {
  if (!module.getOps<ScalarOp>().empty())
    return;
  int64_t index = 0;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getRole() != nn::Role::scalar)
      continue;
    auto scalarKind = variable->getAttrOfType<IntegerAttr>("nn.scalar_kind");
    ScalarOp::create(
        builder, variable.getLoc(), scalarPlace(variable.getSymName()), index++,
        scalarKind ? scalarKind.getInt() : -1, variable.getSymName());
  }
}

/// [k * N, ..] as [N, k, ..], which are the same bytes: what a sample's part of
/// an output is has to be told (rows of tokens that a model has flattened).
static RankedTensorType splitSamples(RankedTensorType type) {
  nn::BatchAttr batch = nn::getBatch(type);
  if (!batch || batch.getAxis() != 0 || batch.getFactor() == 1)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + 1, batch.getFactor());
  return nn::getBatchType(shape, type.getElementType(), 0, 1);
}

LogicalResult PlaceBuilder::addOutputs() {
  if (!isEvaluation())
    return success();
  func::FuncOp graph = getGraph();
  for (auto [output, value] : llvm::enumerate(model.outputs)) {
    std::string home = findHome(HomeKind::Value, value);
    if (home.empty())
      return module.emitError() << "output '" << problem.values[value].name
                                << "' has no home in the evaluation plan";
    auto tensor =
        splitSamples(cast<RankedTensorType>(graph.getResultTypes()[output]));
    auto name = graph.getResultAttrOfType<StringAttr>(output, nn::kNameAttr);
    StringRef text =
        name ? name.getValue() : StringRef(problem.values[value].name);
    auto sample = getSampleBytes(tensor, "output", text);
    if (failed(sample))
      return failure();
    OutputOp::create(builder, graph.getLoc(), text, home, sample->first,
                     sample->second, tensor);
  }
  return success();
}

//===--- homes -----------------------------------------------------------===//

std::string PlaceBuilder::createHome(const Twine &name, Content content,
                                     int64_t bytes,
                                     ArrayRef<std::string> variables,
                                     int64_t id, int64_t sampleBytes,
                                     int64_t fixedBytes) {
  SmallVector<Attribute> refs;
  for (const std::string &variable : variables)
    refs.push_back(ref(variable));
  std::string place = symbol(name);
  HomeOp::create(builder, module.getLoc(), place, content, bytes, sampleBytes,
                 fixedBytes, builder.getArrayAttr(refs), id, false,
                 IntegerAttr());
  return place;
}

LogicalResult PlaceBuilder::addHomes() {
  for (auto home : module.getOps<HomeOp>()) {
    isPrimary = false;
    if (home.getContent() == Content::tensor ||
        home.getContent() == Content::variable)
      for (auto variable : home.getVariables().getAsRange<FlatSymbolRefAttr>())
        variableHome[variable.getValue()] = home.getSymName().str();
  }
  llvm::StringSet<> inState;
  for (auto [id, home] : llvm::enumerate(plan.homes)) {
    std::string &place = homes[{home.kind, home.object, home.use}];
    std::vector<std::string> variables;
    if (home.kind == HomeKind::Tensor) {
      variables = {model.tensorVariable[home.object]};
      if (auto known = variableHome.find(variables.front());
          known != variableHome.end()) {
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
    planner::Value value;
    if (home.kind == HomeKind::Value || home.kind == HomeKind::ValueGradient)
      value = problem.values[home.object];
    place =
        createHome(homeName(home), getContent(home.kind), home.size, variables,
                   isPrimary ? id : -1, value.bytesPerSample, value.fixedBytes);
    if (home.kind == HomeKind::Tensor)
      variableHome[variables.front()] = place;
  }
  if (!isPrimary)
    return success();
  for (auto variable : module.getOps<nn::VariableOp>()) {
    StringRef name = variable.getSymName();
    if (variable.getRole() == nn::Role::scalar || variableHome.count(name) ||
        inState.contains(name))
      continue;
    variableHome[name] =
        createHome("host." + name, Content::variable,
                   getTensorBytes(cast<RankedTensorType>(variable.getType())),
                   {name.str()}, -1);
  }
  return success();
}

std::string PlaceBuilder::homeName(const planner::Home &home) const {
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
    return "host." + evaluation + "scalar." +
           problem.scalars[home.object].name + (home.use > 0 ? use : "");
  }
  return "host";
}

LogicalResult PlaceBuilder::checkState(const planner::Home &home,
                                       ArrayRef<std::string> variables) {
  int64_t end = 0;
  for (const std::string &name : variables) {
    auto variable = symbols.lookup<nn::VariableOp>(name);
    if (!variable)
      return module.emitError()
             << "optimizer state @" << name << " of '"
             << problem.tensors[home.object].name << "' is no nn.variable";
    end = alignTo64(end) +
          getTensorBytes(cast<RankedTensorType>(variable.getType()));
  }
  if (end > home.bytes())
    return module.emitError()
           << "optimizer state of '" << problem.tensors[home.object].name
           << "' takes " << end << " bytes, but the plan has " << home.bytes();
  return success();
}

/// Where the state variable at `position` begins in its tensor's state block.
int64_t PlaceBuilder::stateOffset(int tensor, int64_t position) const {
  int64_t offset = 0;
  for (int64_t s = 0; s < position; ++s) {
    auto variable =
        symbols.lookup<nn::VariableOp>(model.updates[tensor].states[s]);
    offset +=
        alignTo64(getTensorBytes(cast<RankedTensorType>(variable.getType())));
  }
  return offset;
}

/// A home that the programs of a module share.
std::string PlaceBuilder::sharedHome(const Twine &name, Content content,
                                     int64_t bytes) {
  std::string wanted = name.str();
  if (symbols.lookup<HomeOp>(wanted))
    return wanted;
  return createHome(wanted, content, bytes, {}, -1);
}

/// The prologue writes denominators and seeds of every term; one that the plan
/// does not know has a home all the same.
LogicalResult PlaceBuilder::addPrologueHomes() {
  auto prologue = symbols.lookup<TaskOp>(prologueTaskName());
  if (!prologue && !model.losses.empty())
    return module.emitError() << "has no task @" << prologueTaskName()
                              << ", which computes the denominators of "
                              << model.losses.size() << " loss terms";
  for (size_t k = 0; k < model.losses.size(); ++k) {
    denominators.push_back(
        sharedHome("prologue.denominator." + Twine(k), Content::scalar, 4));
    bool bound = prologue.findSlot(SlotKind::result, 2 * k + 1) >= 0;
    unusedSeeds.push_back(
        model.losses[k].seed < 0 && bound
            ? sharedHome("prologue.seed." + Twine(k), Content::scalar, 4)
            : std::string());
  }
  int64_t bytes = 0;
  for (auto task : module.getOps<TaskOp>()) {
    bool onHost = task.getSymName() == prologueTaskName() ||
                  task.getSymName() == stepScalarsTaskName() ||
                  task.getSymName() == epilogueTaskName() ||
                  task.findSlot(SlotKind::parameter) >= 0;
    if (onHost)
      bytes = std::max(bytes, task.getWorkspaceBytes());
  }
  for (const planner::Queue &queue : plan.queues) {
    if (queue.kind != planner::QueueKind::Host)
      continue;
    size_t lane = queue.lane;
    workspaces.resize(std::max(workspaces.size(), lane + 1));
    std::string name = "host.workspace";
    if (lane > 0)
      name += ".lane" + std::to_string(lane);
    if (bytes > 0)
      workspaces[lane] = sharedHome(name, Content::workspace, bytes);
  }
  return success();
}

/// One for each group of devices, which adds up the loss of its samples.
LogicalResult PlaceBuilder::addLosses() {
  for (auto [k, loss] : llvm::enumerate(model.losses))
    for (int group = 0; group < plan.groups; ++group) {
      std::string home = findHome(HomeKind::Scalar, loss.accumulator, group);
      if (home.empty())
        return module.emitError() << "the plan has no home for accumulator '"
                                  << problem.scalars[loss.accumulator].name
                                  << "' of group " << group;
      LossOp::create(builder, module.getLoc(),
                     ProgramKindAttr::get(context, kind), ref(home),
                     ref(denominators[k]), builder.getF64FloatAttr(loss.scale));
    }
  return success();
}

//===--- buffers ---------------------------------------------------------===//

void PlaceBuilder::addBuffers() {
  for (auto [id, buffer] : llvm::enumerate(plan.buffers)) {
    std::string place =
        symbol((isEvaluation() ? "evaluate." : "step.") + bufferName(buffer));
    std::string home = homeOf(buffer);
    BufferOp::create(builder, module.getLoc(), place,
                     isEvaluation() ? ProgramKind::evaluate : ProgramKind::step,
                     buffer.device, static_cast<Content>(buffer.content),
                     buffer.object, buffer.use, buffer.firstSample,
                     buffer.slotBytes, buffer.slots, buffer.stride,
                     home.empty() ? FlatSymbolRefAttr() : ref(home),
                     buffer.persistent,
                     ArrayRef<int64_t>{buffer.first.event, buffer.last.event},
                     id, IntegerAttr());
    buffers.push_back(place);
  }
}

std::string PlaceBuilder::bufferName(const planner::Buffer &buffer) const {
  switch (buffer.content) {
  case PlanContent::Tensor:
    return problem.tensors[buffer.object].name;
  case PlanContent::State:
    return "state." + problem.tensors[buffer.object].name;
  case PlanContent::Gradient:
    return "gradient." + problem.tensors[buffer.object].name + "." +
           std::to_string(buffer.use);
  case PlanContent::Value:
    return "value." + problem.values[buffer.object].name;
  case PlanContent::ValueGradient:
    return "value_gradient." + problem.values[buffer.object].name;
  case PlanContent::RecomputedValue:
    return "recomputed." + problem.values[buffer.object].name;
  case PlanContent::Saved:
    return (buffer.use == planner::keptPart ? "kept." : "saved.") +
           problem.layers[buffer.object].name;
  case PlanContent::Workspace:
    return "workspace." + problem.layers[buffer.object].name;
  case PlanContent::Scalar:
    return "scalar." + problem.scalars[buffer.object].name +
           (buffer.use > 0 ? "." + std::to_string(buffer.use) : "");
  }
  return "buffer";
}

std::string PlaceBuilder::homeOf(const planner::Buffer &buffer) const {
  auto find = [&](HomeKind homeKind) {
    return findHome(homeKind, buffer.object, buffer.use);
  };
  switch (buffer.content) {
  case PlanContent::Tensor:
    return find(HomeKind::Tensor);
  case PlanContent::State:
    return find(HomeKind::State);
  case PlanContent::Gradient:
    return find(HomeKind::Gradient);
  case PlanContent::Value:
    return model.valueInput[buffer.object] >= 0
               ? inputs[model.valueInput[buffer.object]]
               : find(HomeKind::Value);
  case PlanContent::ValueGradient:
    return find(HomeKind::ValueGradient);
  case PlanContent::Scalar:
    return find(HomeKind::Scalar);
  default:
    return {};
  }
}
