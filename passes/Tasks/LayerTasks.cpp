//===- LayerTasks.cpp - Tasks of layer functions --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/LayerTasks.h"

#include "dialects/NN/NN.h"
#include "passes/Tasks/LowerTask.h"

using namespace mlir;
using namespace harmony;
using schedule::SlotKind;

std::optional<int64_t> harmony::argumentIndex(func::FuncOp function,
                                              unsigned argument,
                                              StringRef name) {
  auto attr = function.getArgAttrOfType<IntegerAttr>(argument, name);
  return attr ? std::optional(attr.getInt()) : std::nullopt;
}

std::optional<int64_t> harmony::assignedArgument(func::FuncOp function,
                                                 unsigned result) {
  auto attr =
      function.getResultAttrOfType<IntegerAttr>(result, nn::kAssignsAttr);
  return attr ? std::optional(attr.getInt()) : std::nullopt;
}

int64_t harmony::savedCount(func::FuncOp function) {
  auto saved = function->getAttrOfType<IntegerAttr>(nn::kSavedAttr);
  return saved ? saved.getInt() : 0;
}

namespace {

SmallVector<RankedTensorType> savedTypes(func::FuncOp function) {
  return llvm::map_to_vector(
      function.getResultTypes().take_back(savedCount(function)),
      [](Type type) { return cast<RankedTensorType>(type); });
}

/// Of the function that is trained, for the one that is evaluated too.
StringRef baseName(const LayerBinding &binding) {
  StringRef name = binding.function;
  name.consume_back(".eval");
  return name;
}

} // namespace

LogicalResult LayerTasks::lower() {
  planner::Problem &problem = model.problem;
  for (auto [layer, binding] : llvm::zip(problem.layers, model.layers)) {
    planner::Function &function = problem.functions[layer.function];
    bool known = !function.costs.empty();
    for (int64_t u : problem.microbatches) {
      planner::Cost cost;
      cost.microbatch = u;
      if (!known && failed(lowerForward(binding, u, cost)))
        return failure();
      if (options.training && failed(lowerBackward(layer, binding, u, cost)))
        return failure();
      if (!known)
        function.costs.push_back(cost);
    }
    if (options.training)
      setRecomputeReads(layer, binding);
  }
  return success();
}

/// What recomputations read of a layer's tensors and inputs, which are its
/// arguments in their order.
void LayerTasks::setRecomputeReads(planner::Layer &layer,
                                   const LayerBinding &binding) {
  const SmallVector<int> &levels = recomputeReads[binding.function];
  auto tensor = layer.tensors.begin();
  auto input = layer.inputs.begin();
  for (auto [bound, level] : llvm::zip_equal(binding.arguments, levels))
    (bound.tensor >= 0 ? (tensor++)->recomputeReads
                       : (input++)->recomputeReads) = level;
  // A value that is passed twice is one for the planner.
  for (planner::ValueUse &use : layer.inputs)
    for (const planner::ValueUse &other : layer.inputs)
      if (other.value == use.value)
        use.recomputeReads = std::max(use.recomputeReads, other.recomputeReads);
}

LogicalResult LayerTasks::lowerForward(const LayerBinding &binding, int64_t u,
                                       planner::Cost &cost) {
  auto function = symbols.lookup<func::FuncOp>(baseName(binding));
  TaskOptions task;
  task.name = forwardTaskName(binding.function, u);
  task.microbatch = u;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    task.argumentKinds.push_back(SlotKind::argument);
    task.argumentIndices.push_back(i);
  }
  int64_t results = binding.results.size();
  const SavedSegments &segments = segmentsOf(function);
  task.savedTypes = savedTypes(function);
  task.savedSegments = segments.segmentOf;
  for (int64_t i = 0; i < function.getNumResults(); ++i) {
    bool saved = i >= results;
    bool accumulator = !saved && binding.results[i].scalar >= 0;
    auto argument = assignedArgument(function, i);
    task.resultKinds.push_back(saved      ? SlotKind::saved
                               : argument ? SlotKind::argument
                                          : SlotKind::result);
    task.resultIndices.push_back(saved ? i - results : argument.value_or(i));
    task.accumulate.push_back(accumulator);
    task.discard.push_back(saved && !options.training);
  }
  FailureOr<TaskCost> lowered = lowerTask(function, task, module, kernels);
  if (failed(lowered))
    return failure();
  cost.forwardSeconds = options.costs->seconds(*lowered, HM_TASK_FORWARD);
  cost.savedBytes = lowered->savedStarts.back();
  cost.forwardWorkspace = lowered->workspace;
  SmallVector<int64_t> starts = lowered->savedStarts;
  if (!options.training)
    return success();
  // The same again for backward phases, without the accumulators and what the
  // forward has assigned.
  task.name = recomputeTaskName(binding.function, u, 0);
  for (int64_t i = 0; i < results; ++i)
    if (task.accumulate[i] || task.resultKinds[i] == SlotKind::argument) {
      task.accumulate[i] = false;
      task.discard[i] = true;
    }
  lowered = lowerTask(function, task, module, kernels);
  if (failed(lowered))
    return failure();
  cost.forwardWorkspace = std::max(cost.forwardWorkspace, lowered->workspace);
  recomputeReads[binding.function].assign(function.getNumArguments(), 1);
  for (int kept = 0; kept < segments.count; ++kept) {
    lowered = lowerRecomputation(binding, function, segments, kept, u);
    if (failed(lowered))
      return failure();
    cost.keeps.push_back({starts[kept],
                          options.costs->seconds(*lowered, HM_TASK_FORWARD),
                          lowered->workspace});
  }
  cost.keeps.push_back({cost.savedBytes, 0, 0});
  return success();
}

/// What makes the saved values again behind the first `kept` segments.
FailureOr<TaskCost> LayerTasks::lowerRecomputation(
    const LayerBinding &binding, func::FuncOp forward,
    const SavedSegments &segments, int kept, int64_t u) {
  Recomputation again = makeRecomputation(forward, segments, kept);
  TaskOptions task;
  task.name = recomputeTaskName(binding.function, u, kept + 1);
  task.microbatch = u;
  task.savedTypes = savedTypes(forward);
  task.savedSegments = segments.segmentOf;
  for (int64_t i : again.arguments) {
    task.argumentKinds.push_back(SlotKind::argument);
    task.argumentIndices.push_back(i);
    recomputeReads[binding.function][i] = kept + 2; // level kept + 1 does
  }
  for (auto [index, segment] : llvm::enumerate(segments.segmentOf)) {
    bool argument = segment < kept;
    (argument ? task.argumentKinds : task.resultKinds)
        .push_back(SlotKind::saved);
    (argument ? task.argumentIndices : task.resultIndices).push_back(index);
  }
  task.accumulate.assign(task.resultKinds.size(), false);
  task.discard.assign(task.resultKinds.size(), false);
  return lowerTask(*again.function, task, module, kernels);
}

/// Decided at one size for all, so that a level is the same values for each.
const SavedSegments &LayerTasks::segmentsOf(func::FuncOp function) {
  auto [it, isNew] = savedSegments.try_emplace(function.getName());
  if (isNew)
    it->second = divideSaved(
        function, savedCount(function),
        model.problem.microbatches[model.problem.microbatches.size() / 2],
        options.rates);
  return it->second;
}

LogicalResult LayerTasks::lowerBackward(const planner::Layer &layer,
                                        const LayerBinding &binding, int64_t u,
                                        planner::Cost &cost) {
  auto backward = symbols.lookup<func::FuncOp>(binding.function + ".bwd");
  if (!backward) {
    // All of it is frozen, and what comes before: plans run it all the same.
    std::string name = backwardTaskName(binding.function, u, {});
    if (!module.lookupSymbol(name)) {
      OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
      schedule::TaskOp::create(builder, module.getLoc(), name,
                               ArrayRef<schedule::SlotAttr>());
    }
    return success();
  }
  int index = &layer - model.problem.layers.data();
  std::vector<int> accumulated;
  for (auto [argument, bound] : llvm::enumerate(binding.arguments))
    if (bound.value >= 0 && isLaterContribution(index, bound.value))
      accumulated.push_back(argument);
  TaskOptions task;
  task.name = backwardTaskName(binding.function, u, accumulated);
  if (module.lookupSymbol(task.name))
    return success();
  task.microbatch = u;
  auto forward = symbols.lookup<func::FuncOp>(binding.function);
  task.savedTypes = savedTypes(forward);
  task.savedSegments = segmentsOf(forward).segmentOf;
  for (unsigned i = 0; i < backward.getNumArguments(); ++i) {
    struct {
      StringRef name;
      SlotKind kind;
    } kinds[] = {{nn::kPrimalAttr, SlotKind::argument},
                 {nn::kSavedAttr, SlotKind::saved},
                 {nn::kCotangentAttr, SlotKind::cotangent}};
    for (auto [name, kind] : kinds)
      if (auto found = argumentIndex(backward, i, name)) {
        task.argumentKinds.push_back(kind);
        task.argumentIndices.push_back(*found);
      }
  }
  for (unsigned i = 0; i < backward.getNumResults(); ++i) {
    int64_t argument =
        backward.getResultAttrOfType<IntegerAttr>(i, nn::kGradientAttr)
            .getInt();
    task.resultKinds.push_back(SlotKind::gradient);
    task.resultIndices.push_back(argument);
    task.accumulate.push_back(
        binding.arguments[argument].tensor >= 0 ||
        llvm::is_contained(accumulated, static_cast<int>(argument)));
    task.discard.push_back(false);
  }
  FailureOr<TaskCost> lowered = lowerTask(backward, task, module, kernels);
  if (failed(lowered))
    return failure();
  cost.backwardSeconds = options.costs->seconds(*lowered, HM_TASK_BACKWARD);
  cost.backwardWorkspace = lowered->workspace;
  return success();
}

/// Whether a layer of higher index, whose backward comes first, contributes
/// to the gradient of the value too.
bool LayerTasks::isLaterContribution(int layer, int value) const {
  for (size_t other = layer + 1; other < model.problem.layers.size(); ++other)
    for (const planner::ValueUse &use : model.problem.layers[other].inputs)
      if (use.value == value && use.gradient)
        return true;
  return false;
}
