//===- Chain.cpp - A small model as tasks and a problem -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/program/Chain.h"

#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "test/unit/program/Kernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace harmony::schedule;

namespace harmony::test {

namespace {

enum { scaleFunction, skipFunction, lossFunction, firstFunction };
enum { x, target, v0, v1, v2, v3 };

planner::Value makeValue(const std::string &name, bool differentiable) {
  planner::Value value;
  value.name = name;
  value.bytesPerSample = width * 4;
  value.differentiable = differentiable;
  value.sliceable = true;
  return value;
}

Binding ofTensor(int t) { return {t, -1, -1}; }
Binding ofValue(int v) { return {-1, v, -1}; }
Binding ofScalar(int s) { return {-1, -1, s}; }

class TaskMaker {
public:
  TaskMaker(ModuleOp module, int64_t u)
      : builder(OpBuilder::atBlockEnd(module.getBody())), u(u) {}

  void begin(const std::string &name,
             ArrayRef<std::tuple<SlotKind, int64_t, int64_t>> slots) {
    SmallVector<SlotAttr> list;
    sizes.clear();
    for (auto [kind, index, bytes] : slots) {
      list.push_back(SlotAttr::get(builder.getContext(), kind, index, bytes));
      sizes.push_back(bytes);
    }
    auto task = TaskOp::create(builder, builder.getUnknownLoc(), name, list);
    body = OpBuilder::atBlockEnd(&task.getBlock());
  }
  void launch(const std::string &kernel,
              ArrayRef<std::pair<int64_t, Access>> operands, int64_t extent) {
    SmallVector<RefAttr> refs;
    for (auto [slot, access] : operands)
      refs.push_back(
          RefAttr::get(builder.getContext(), slot, 0, sizes[slot], access));
    auto location = NameLoc::get(builder.getStringAttr("node_" + kernel));
    LaunchOp::create(*body, location, kernel, refs, extent, 4,
                     Family::pointwise);
  }

  OpBuilder builder;
  std::optional<OpBuilder> body;
  SmallVector<int64_t> sizes;
  int64_t u;
};

constexpr Access r = Access::Read, w = Access::Write, rw = Access::ReadWrite;

void addForward(TaskMaker &task, const std::string &name, bool skip,
                bool saves) {
  int64_t value = task.u * width * 4, weight = width * 4, n = task.u * width;
  SmallVector<std::tuple<SlotKind, int64_t, int64_t>> slots = {
      {SlotKind::argument, 0, weight},
      {SlotKind::argument, 1, value},
      {SlotKind::result, 0, value},
      {SlotKind::workspace, 0, value}};
  if (saves)
    slots.push_back({SlotKind::saved, 0, value});
  if (skip)
    slots.push_back({SlotKind::argument, 2, value});
  int64_t last = slots.size() - 1;
  task.begin(name, slots);
  task.launch("scale", {{0, r}, {1, r}, {3, w}}, n);
  if (saves)
    task.launch("copy", {{3, r}, {4, w}}, n);
  if (skip)
    task.launch("add", {{3, r}, {last, r}, {2, w}}, n);
  else
    task.launch("copy", {{3, r}, {2, w}}, n);
}

void addBackward(TaskMaker &task, const std::string &name, bool skip,
                 bool adds) {
  int64_t value = task.u * width * 4, weight = width * 4, n = task.u * width;
  SmallVector<std::tuple<SlotKind, int64_t, int64_t>> slots = {
      {SlotKind::argument, 0, weight}, {SlotKind::argument, 1, value},
      {SlotKind::saved, 0, value},     {SlotKind::cotangent, 0, value},
      {SlotKind::gradient, 0, weight}, {SlotKind::gradient, 1, value}};
  if (skip)
    slots.push_back({SlotKind::gradient, 2, value});
  if (adds)
    slots.push_back({SlotKind::workspace, 0, value});
  int64_t last = slots.size() - 1;
  task.begin(name, slots);
  task.launch("weight_gradient." + std::to_string(task.u),
              {{1, r}, {3, r}, {4, rw}}, width);
  task.launch("scale_backward",
              {{0, r}, {1, r}, {2, r}, {3, r}, {adds ? last : 5, w}}, n);
  if (adds)
    task.launch("add_to", {{last, r}, {5, rw}}, n);
  if (skip)
    task.launch("copy", {{3, r}, {6, w}}, n);
}

void addTasks(ModuleOp module, int64_t u) {
  TaskMaker task(module, u);
  int64_t value = u * width * 4, weight = width * 4;
  for (bool skip : {false, true}) {
    std::string name = skip ? "skip" : "scale";
    addForward(task, forwardTaskName(name, u), skip, true);
    addForward(task, recomputeTaskName(name, u, 0), skip, true);
    addForward(task, forwardTaskName(name + ".eval", u), skip, false);
    addBackward(task, backwardTaskName(name, u, {}), skip, false);
  }
  addBackward(task, backwardTaskName("scale", u, {1}), false, true);
  // The first layer reads a batch input, which has no gradient.
  addForward(task, forwardTaskName("first", u), false, true);
  addForward(task, recomputeTaskName("first", u, 0), false, true);
  addForward(task, forwardTaskName("first.eval", u), false, false);
  task.begin(backwardTaskName("first", u, {}),
             {{SlotKind::argument, 1, value},
              {SlotKind::cotangent, 0, value},
              {SlotKind::gradient, 0, weight}});
  task.launch("weight_gradient." + std::to_string(u), {{0, r}, {1, r}, {2, rw}},
              width);
  for (const char *name : {"loss", "loss.eval"}) {
    task.begin(forwardTaskName(name, u), {{SlotKind::argument, 0, value},
                                          {SlotKind::argument, 1, value},
                                          {SlotKind::result, 0, 4}});
    task.launch("loss." + std::to_string(u), {{0, r}, {1, r}, {2, rw}}, 1);
  }
  task.begin(recomputeTaskName("loss", u, 0),
             {{SlotKind::argument, 0, value}, {SlotKind::argument, 1, value}});
  task.begin(backwardTaskName("loss", u, {}), {{SlotKind::argument, 0, value},
                                               {SlotKind::argument, 1, value},
                                               {SlotKind::cotangent, 0, 4},
                                               {SlotKind::gradient, 0, value}});
  task.launch("loss_backward", {{0, r}, {1, r}, {2, r}, {3, w}}, u * width);
}

/// The tasks that do not depend on the microbatch.
void addStepTasks(ModuleOp module, int groups, bool clips) {
  TaskMaker task(module, batch);
  int64_t weight = width * 4;
  task.begin(prologueTaskName(), {{SlotKind::argument, 1, batch * width * 4},
                                  {SlotKind::result, 0, 4},
                                  {SlotKind::result, 1, 4},
                                  {SlotKind::workspace, 0, 8}});
  task.launch("denominator", {{0, r}, {1, w}, {2, w}}, 1);
  for (int parts : {groups, 2 * groups}) {
    if (module.lookupSymbol(updateTaskName("momentum", parts)))
      continue;
    SmallVector<std::tuple<SlotKind, int64_t, int64_t>> slots = {
        {SlotKind::parameter, 0, weight}};
    SmallVector<std::pair<int64_t, Access>> operands = {{0, rw}};
    for (int part = 0; part < parts; ++part) {
      slots.push_back({SlotKind::gradient, part, weight});
      operands.push_back({1 + part, r});
    }
    slots.push_back({SlotKind::state, 0, weight});
    slots.push_back({SlotKind::scalar, 0, 4});
    operands.push_back({1 + parts, rw});
    operands.push_back({2 + parts, r});
    std::string size = "." + std::to_string(parts);
    if (clips) {
      slots.push_back({SlotKind::scalar, 1, 4});
      operands.push_back({3 + parts, r});
    }
    task.begin(updateTaskName("momentum", parts), slots);
    task.launch((clips ? "clipped_momentum" : "momentum") + size, operands,
                width);
    slots.clear();
    operands.clear();
    for (int part = 0; part < parts; ++part) {
      slots.push_back({SlotKind::gradient, part, weight});
      operands.push_back({part, r});
    }
    slots.push_back({SlotKind::result, 0, 4});
    operands.push_back({parts, w});
    task.begin(contributionTaskName("squares", parts), slots);
    task.launch("squares" + size, operands, 1);
  }
  task.begin(epilogueTaskName(), {{SlotKind::argument, 0, 4},
                                  {SlotKind::argument, 1, 4},
                                  {SlotKind::argument, 2, 4},
                                  {SlotKind::argument, 3, 4},
                                  {SlotKind::result, 0, 4}});
  task.launch("factor", {{0, r}, {1, r}, {2, r}, {3, r}, {4, w}}, 1);
}

} // namespace

void loadDialects(MLIRContext *context) {
  context->loadDialect<nn::NNDialect, HarmonyDialect, func::FuncDialect>();
}

Model makeChain(bool training, const std::vector<int64_t> &microbatches,
                bool clips) {
  Model model;
  planner::Problem &problem = model.problem;
  problem.name = training ? "training step" : "evaluation";
  problem.training = training;
  problem.batch = batch;
  problem.microbatches = microbatches;
  for (int t = 0; t < 3; ++t) {
    planner::Tensor tensor;
    tensor.name = "w" + std::to_string(t);
    tensor.bytes = width * 4;
    tensor.trainable = training;
    tensor.gradientBytes = training ? width * 4 : 0;
    tensor.stateBytes = training ? alignTo64(width * 4) : 0;
    problem.tensors.push_back(tensor);
    model.tensorVariable.push_back(tensor.name);
    model.updates.push_back(
        training
            ? UpdateBinding{"momentum", {tensor.name + ".momentum"}, {"rate"}}
            : UpdateBinding());
  }
  problem.values = {makeValue("x", false), makeValue("target", false)};
  for (int v = 0; v < 4; ++v)
    problem.values.push_back(makeValue("v" + std::to_string(v), training));
  model.valueInput = {0, 1, -1, -1, -1, -1};
  if (!training)
    model.outputs = {5};
  problem.values[v3].output = !training;

  std::vector<planner::Cost> costs, lossCosts;
  for (int64_t u : microbatches) {
    int64_t value = u * width * 4;
    double samples = static_cast<double>(u);
    costs.push_back({u, samples * 1e-5, samples * 2e-5, training ? value : 0,
                     value, value});
    lossCosts.push_back({u, samples * 1e-6, samples * 1e-6, 0, 0, 0});
  }
  std::string suffix = training ? "" : ".eval";
  problem.functions = {{"scale" + suffix, costs},
                       {"skip" + suffix, costs},
                       {"loss" + suffix, lossCosts},
                       {"first" + suffix, costs}};
  problem.scalars.push_back({"loss", 4, planner::ScalarRole::Accumulator});
  if (training)
    problem.scalars.push_back({"seed", 4, planner::ScalarRole::Seed});
  model.losses.push_back({0, training ? 1 : -1, 1});

  model.contributions.resize(3);
  problem.epilogue = clips;
  for (int t = 0; clips && t < 3; ++t) {
    model.updates[t].scalars.push_back("factor");
    model.contributions[t] = "squares";
    problem.tensors[t].contribution = static_cast<int>(problem.scalars.size());
    problem.scalars.push_back({"squares of " + problem.tensors[t].name, 4,
                               planner::ScalarRole::Contribution, -1});
  }

  auto addScale = [&](const std::string &name, int tensor, int input,
                      int output) {
    planner::Layer layer;
    layer.name = name;
    layer.function = input == x ? firstFunction : scaleFunction;
    layer.tensors = {{tensor, training, training && input != x, false}};
    layer.inputs = {{input, training, training && input != x}};
    layer.outputs = {output};
    problem.layers.push_back(layer);
    model.layers.push_back({(input == x ? "first" : "scale") + suffix,
                            {ofTensor(tensor), ofValue(input)},
                            {ofValue(output)},
                            {-1}});
  };
  addScale("first", 0, x, v0);
  addScale("second", 1, v0, v1);
  addScale("third", 1, v1, v2);
  planner::Layer skip;
  skip.name = "skip";
  skip.function = skipFunction;
  skip.tensors = {{2, training, training, false}};
  skip.inputs = {{v2, training, training}, {v0, false, training}};
  skip.outputs = {v3};
  problem.layers.push_back(skip);
  model.layers.push_back({"skip" + suffix,
                          {ofTensor(2), ofValue(v2), ofValue(v0)},
                          {ofValue(v3)},
                          {-1}});
  planner::Layer loss;
  loss.name = "loss";
  loss.function = lossFunction;
  loss.inputs = {{v3, training, training}, {target, training, false}};
  loss.isLoss = true;
  problem.layers.push_back(loss);
  model.layers.push_back({"loss" + suffix,
                          {ofValue(v3), ofValue(target)},
                          {ofScalar(0)},
                          {training ? 1 : -1}});
  problem.hostUpdate = {1e-6, 1e-9};
  problem.deviceUpdate = {1e-6, 1e-10};
  problem.link();
  problem.check();
  return model;
}

OwningOpRef<ModuleOp> makeChainModule(MLIRContext *context,
                                      const std::vector<int64_t> &microbatches,
                                      int groups, bool clips) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func private @main(tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "x"},
                            tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "target"})
    func.func private @evaluate(tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "x"},
                                tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "target"})
        -> (tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "y"})
    func.func private @factor.function(tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  )",
                                                             context);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto vector = RankedTensorType::get({width}, builder.getF32Type());
  auto addVariable = [&](const std::string &name, RankedTensorType type,
                         nn::Role role) {
    auto roleAttr = nn::RoleAttr::get(context, role);
    return nn::VariableOp::create(builder, builder.getUnknownLoc(),
                                  builder.getStringAttr(name),
                                  TypeAttr::get(type), roleAttr, Attribute());
  };
  for (int t = 0; t < 3; ++t) {
    addVariable("w" + std::to_string(t), vector, nn::Role::parameter);
    addVariable("w" + std::to_string(t) + ".momentum", vector,
                nn::Role::optimizer);
  }
  auto rate =
      addVariable("rate", RankedTensorType::get({}, builder.getF32Type()),
                  nn::Role::scalar);
  rate->setAttr("nn.scalar_kind", builder.getI64IntegerAttr(HM_SCALAR_LR));
  for (int64_t u : microbatches)
    addTasks(*module, u);
  if (clips) {
    addVariable("factor", RankedTensorType::get({}, builder.getF32Type()),
                nn::Role::scalar);
    auto refs = [&](ArrayRef<StringRef> names) {
      SmallVector<Attribute> list;
      for (StringRef name : names)
        list.push_back(FlatSymbolRefAttr::get(context, name));
      return builder.getArrayAttr(list);
    };
    nn::EpilogueOp::create(builder, builder.getUnknownLoc(), "factor.function",
                           refs({"w0", "w1", "w2"}), refs({"rate"}),
                           refs({"factor"}));
  }
  addStepTasks(*module, groups, clips);
  return module;
}

} // namespace harmony::test
