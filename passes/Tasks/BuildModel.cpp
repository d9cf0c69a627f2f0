//===- BuildModel.cpp - From layered IR to a planning problem -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/BuildModel.h"

#include "dialects/NN/NN.h"
#include "passes/Layers/Passes.h"
#include "passes/Tasks/LayerTasks.h"
#include "passes/Tasks/StepTasks.h"
#include "passes/Tasks/View.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace harmony;
using schedule::SlotKind;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

class ModelBuilder {
public:
  ModelBuilder(ModuleOp module, ModuleOp kernels, const ModelOptions &options)
      : module(module), kernels(kernels), options(options), symbols(module),
        stepTasks(module, kernels, symbols) {}

  FailureOr<Model> run() {
    auto chain = symbols.lookup<func::FuncOp>(options.training ? kMainName
                                                               : kEvaluateName);
    if (!chain)
      return module.emitError("no function @")
             << (options.training ? kMainName : kEvaluateName);
    planner::Problem &problem = model.problem;
    problem.name = (options.training ? "training step" : "evaluation");
    problem.training = options.training;
    problem.batch = options.batch;
    problem.splittable = options.splittable;
    problem.mixing = options.mixing;
    problem.microbatches = options.microbatches;
    if (problem.microbatches.empty())
      for (int64_t u = options.splittable ? 1 : options.batch;
           u <= options.batch; ++u)
        if (options.batch % u == 0)
          problem.microbatches.push_back(u);
    addInputs(chain);
    addLosses(chain);
    // Both programs run the prologue.
    if (auto prologue = symbols.lookup<func::FuncOp>(kPrologueName))
      for (auto get : prologue.getOps<nn::GetOp>())
        model.prologueVariables.push_back(get.getVariable().str());
    for (auto call : chain.getOps<func::CallOp>())
      if (failed(addLayer(call)))
        return failure();
    if (failed(addOutputs(chain)))
      return failure();
    if (options.training &&
        (failed(stepTasks.lowerPrologue(chain, options.batch)) ||
         failed(addUpdates()) || failed(stepTasks.lowerStepScalars()) ||
         failed(addEpilogue())))
      return failure();
    if (failed(LayerTasks(module, kernels, symbols, options, model).lower()))
      return failure();
    options.costs->settle(model.problem);
    return std::move(model);
  }

private:
  //===--------------------------------------------------------------------===//
  // The problem
  //===--------------------------------------------------------------------===//

  void addInputs(func::FuncOp chain) {
    for (BlockArgument argument : chain.getArguments()) {
      auto name = chain.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     nn::kNameAttr);
      values[argument] =
          addValue(name ? name.getValue().str() : "input", typeOf(argument));
      model.valueInput.back() = argument.getArgNumber();
    }
  }

  int addValue(const std::string &name, RankedTensorType type) {
    planner::Value value;
    value.name = name;
    nn::BatchAttr batch = nn::getBatch(type);
    (batch ? value.bytesPerSample : value.fixedBytes) =
        tensorBytes(nn::instantiate(type, 1));
    // Samples follow each other where no axis before the batch has more than
    // one element.
    value.sliceable =
        batch && llvm::all_of(type.getShape().take_front(batch.getAxis()),
                              [](int64_t extent) { return extent == 1; });
    model.problem.values.push_back(value);
    model.valueInput.push_back(-1);
    return model.problem.values.size() - 1;
  }

  int addTensor(StringRef symbol) {
    auto [it, inserted] =
        tensors.try_emplace(symbol, model.problem.tensors.size());
    if (inserted) {
      auto variable = symbols.lookup<nn::VariableOp>(symbol);
      planner::Tensor tensor;
      tensor.name = symbol.str();
      tensor.bytes = tensorBytes(cast<RankedTensorType>(variable.getType()));
      tensor.trainable =
          options.training && variable.getRole() == nn::Role::parameter;
      tensor.gradientBytes = tensor.trainable ? tensor.bytes : 0;
      model.problem.tensors.push_back(tensor);
      model.tensorVariable.push_back(symbol.str());
      model.updates.emplace_back();
      model.contributions.emplace_back();
    }
    return it->second;
  }

  int addScalar(const std::string &name, planner::ScalarRole role) {
    model.problem.scalars.push_back({name, 4, role, -1});
    return model.problem.scalars.size() - 1;
  }

  /// Whether a backward reads the seed of the term: not that of a constant, nor
  /// of what depends on no trained parameter.
  bool isDifferentiated(nn::LossOp loss) const {
    auto result = dyn_cast<OpResult>(loss.getNumerator());
    auto call =
        result ? dyn_cast<func::CallOp>(result.getOwner()) : func::CallOp();
    auto backward =
        call ? symbols.lookup<func::FuncOp>((call.getCallee() + ".bwd").str())
             : func::FuncOp();
    if (!backward)
      return false;
    for (unsigned i = 0; i < backward.getNumArguments(); ++i)
      if (argumentIndex(backward, i, nn::kCotangentAttr) ==
          result.getResultNumber())
        return true;
    return false;
  }

  void addLosses(func::FuncOp chain) {
    for (auto loss : chain.getOps<nn::LossOp>()) {
      std::string index = std::to_string(model.losses.size());
      LossBinding binding;
      binding.accumulator =
          addScalar("loss " + index, planner::ScalarRole::Accumulator);
      if (options.training && isDifferentiated(loss))
        binding.seed = addScalar("seed " + index, planner::ScalarRole::Seed);
      binding.scale = loss.getScale().convertToDouble();
      numerators[loss.getNumerator()] = model.losses.size();
      model.losses.push_back(binding);
    }
  }

  LogicalResult addLayer(func::CallOp call) {
    auto function = symbols.lookup<func::FuncOp>(call.getCallee());
    auto backward =
        symbols.lookup<func::FuncOp>((call.getCallee() + ".bwd").str());
    planner::Layer layer;
    LayerBinding binding;
    // A layer that trains without parameters or inputs to differentiate has no
    // backward.
    llvm::DenseSet<int64_t> backwardReads;
    if (options.training && backward)
      for (unsigned i = 0; i < backward.getNumArguments(); ++i)
        if (auto primal = argumentIndex(backward, i, nn::kPrimalAttr))
          backwardReads.insert(*primal);
    layer.name = call->getAttrOfType<StringAttr>(nn::kLayerNameAttr).str();
    binding.function =
        call.getCallee().str() + (options.training ? "" : ".eval");
    layer.function = addFunction(binding.function);
    for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
      bool reads = backwardReads.contains(index);
      bool gradient = options.training &&
                      function.getArgAttr(index, nn::kDifferentiableAttr);
      if (auto get = operand.getDefiningOp<nn::GetOp>()) {
        int tensor = addTensor(get.getVariable());
        layer.tensors.push_back({tensor, gradient, reads, false});
        binding.arguments.push_back({tensor, -1, -1});
        continue;
      }
      auto value = values.find(operand);
      if (value == values.end())
        return call.emitOpError("operand ")
               << index
               << " is neither a variable, an input nor a layer's result";
      layer.inputs.push_back({value->second, reads, gradient});
      binding.arguments.push_back({-1, value->second, -1});
    }
    int64_t results = function.getNumResults() - savedCount(function);
    for (int64_t index = 0; index < results; ++index) {
      Value result = call.getResult(index);
      if (auto argument = assignedArgument(function, index)) {
        int tensor = binding.arguments[*argument].tensor;
        // Layer::tensors lists tensor arguments in order.
        size_t position = 0;
        for (int64_t i = 0; i < *argument; ++i)
          position += binding.arguments[i].tensor >= 0;
        layer.tensors[position].forwardWrites = true;
        binding.results.push_back({tensor, -1, -1});
        binding.cotangentScalar.push_back(-1);
        continue;
      }
      auto numerator = numerators.find(result);
      if (numerator != numerators.end()) {
        if (!result.hasOneUse())
          return call.emitOpError(
              "the loss is also read by other layers, which is not supported");
        layer.isLoss = true;
        const LossBinding &loss = model.losses[numerator->second];
        model.problem.scalars[loss.accumulator].layer =
            static_cast<int>(model.problem.layers.size());
        binding.results.push_back({-1, -1, loss.accumulator});
        binding.cotangentScalar.push_back(loss.seed);
        continue;
      }
      int value =
          addValue(layer.name + "." + std::to_string(index), typeOf(result));
      model.problem.values[value].differentiable =
          options.training &&
          function.getResultAttr(index, nn::kDifferentiableAttr);
      values[result] = value;
      layer.outputs.push_back(value);
      binding.results.push_back({-1, value, -1});
      binding.cotangentScalar.push_back(-1);
    }
    model.problem.layers.push_back(layer);
    model.layers.push_back(binding);
    return success();
  }

  int addFunction(const std::string &name) {
    auto [it, inserted] =
        functions.try_emplace(name, model.problem.functions.size());
    if (inserted)
      model.problem.functions.push_back({name, {}});
    return it->second;
  }

  LogicalResult addOutputs(func::FuncOp chain) {
    for (auto [index, operand] :
         llvm::enumerate(chain.front().getTerminator()->getOperands())) {
      auto value = values.find(operand);
      if (value == values.end() || isa<BlockArgument>(operand))
        return chain.emitError("output ")
               << chain.getResultAttrOfType<StringAttr>(index, nn::kNameAttr)
               << " is an input or a weight as it is, which is not supported";
      model.problem.values[value->second].output = true;
      model.outputs.push_back(value->second);
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Updates and what they all read
  //===--------------------------------------------------------------------===//

  LogicalResult addUpdates() {
    // Bytes that an update moves for each byte of the parameter: the same for
    // all.
    double factor = 3;
    for (auto op : module.getOps<nn::OptimizeOp>()) {
      auto found = tensors.find(op.getParameter());
      if (found == tensors.end())
        return op.emitOpError("parameter is not read by any layer");
      planner::Tensor &tensor = model.problem.tensors[found->second];
      UpdateBinding &update = model.updates[found->second];
      update.function = op.getFunction().str();
      for (auto state : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
        auto variable = symbols.lookup<nn::VariableOp>(state.getValue());
        update.states.push_back(state.getValue().str());
        tensor.stateBytes =
            schedule::alignTo64(tensor.stateBytes) +
            tensorBytes(cast<RankedTensorType>(variable.getType()));
      }
      for (auto scalar : op.getScalars().getAsRange<FlatSymbolRefAttr>())
        update.scalars.push_back(scalar.getValue().str());
      factor = 3 + 2.0 * update.states.size();
      if (failed(stepTasks.lowerUpdate(op, update, countUses(found->second))))
        return failure();
    }
    for (planner::Tensor &tensor : model.problem.tensors)
      if (tensor.trainable &&
          model.updates[&tensor - model.problem.tensors.data()]
              .function.empty())
        return module.emitError("parameter '")
               << tensor.name << "' has no optimizer";
    model.problem.hostUpdate =
        options.costs->updateCost(/*onHost=*/true, factor);
    model.problem.deviceUpdate =
        options.costs->updateCost(/*onHost=*/false, factor);
    return success();
  }

  int countUses(int tensor) const {
    int uses = 0;
    for (const planner::Layer &layer : model.problem.layers)
      for (const planner::TensorUse &use : layer.tensors)
        uses += use.tensor == tensor && use.gradient;
    return uses;
  }

  /// The contributions of the tensors, in their order, and the host's task that
  /// reads them.
  LogicalResult addEpilogue() {
    auto epilogues = module.getOps<nn::EpilogueOp>();
    if (epilogues.empty())
      return success();
    nn::EpilogueOp epilogue = *epilogues.begin();
    model.problem.epilogue = true;
    llvm::StringMap<int64_t> bytes; // of the contribution, by parameter
    for (auto op : module.getOps<nn::ContributionOp>()) {
      auto found = tensors.find(op.getParameter());
      if (found == tensors.end())
        return op.emitOpError("parameter is not read by any layer");
      model.contributions[found->second] = op.getFunction().str();
      // Of more parts than a launch can read, the sum is in the slot too.
      int64_t &largest = bytes[op.getParameter()];
      for (int groups : {1, options.mostGroups}) {
        FailureOr<schedule::TaskOp> task =
            stepTasks.lowerContribution(op, countUses(found->second) * groups);
        if (failed(task))
          return failure();
        int64_t result = task->findSlot(SlotKind::result);
        largest = std::max(
            largest,
            cast<schedule::SlotAttr>(task->getSlots()[result]).getBytes());
      }
    }
    llvm::StringMap<int64_t> positions; // by parameter
    for (planner::Tensor &tensor : model.problem.tensors) {
      auto found = bytes.find(tensor.name);
      if (found == bytes.end())
        continue;
      positions[tensor.name] = positions.size();
      tensor.contribution = model.problem.scalars.size();
      model.problem.scalars.push_back({"contribution of " + tensor.name,
                                       found->second,
                                       planner::ScalarRole::Contribution, -1});
    }
    return stepTasks.lowerEpilogue(epilogue, positions);
  }

  ModuleOp module, kernels;
  const ModelOptions options;
  SymbolTable symbols;
  StepTasks stepTasks;
  Model model;
  llvm::StringMap<int> tensors, functions;
  DenseMap<Value, int> values, numerators;
};

} // namespace

FailureOr<Model> harmony::buildModel(ModuleOp module, ModuleOp kernels,
                                     const ModelOptions &options) {
  return ModelBuilder(module, kernels, options).run();
}

LogicalResult harmony::lowerUpdatesForGroups(ModuleOp module, ModuleOp kernels,
                                             const Model &model, int groups) {
  SymbolTable symbols(module);
  StepTasks tasks(module, kernels, symbols);
  llvm::StringMap<int> parts; // by parameter
  for (auto [variable, tensor] :
       llvm::zip(model.tensorVariable, model.problem.tensors))
    parts[variable] = static_cast<int>(tensor.gradientUses.size()) * groups;
  for (auto op : module.getOps<nn::OptimizeOp>()) {
    int tensor = llvm::find(model.tensorVariable, op.getParameter()) -
                 model.tensorVariable.begin();
    if (failed(tasks.lowerUpdate(op, model.updates[tensor],
                                 parts.lookup(op.getParameter()))))
      return failure();
  }
  for (auto op : module.getOps<nn::ContributionOp>())
    if (failed(tasks.lowerContribution(op, parts.lookup(op.getParameter()))))
      return failure();
  return success();
}
