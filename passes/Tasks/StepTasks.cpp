//===- StepTasks.cpp - Tasks of a step that are no layer's ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/StepTasks.h"

#include "passes/Layers/Passes.h"
#include "passes/Tasks/LowerTask.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace harmony;
using schedule::SlotKind;

namespace {

/// Slots for all arguments and results, by position.
void fill(TaskOptions &task, func::FuncOp function, SlotKind arguments,
          SlotKind results) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    task.argumentKinds.push_back(arguments);
    task.argumentIndices.push_back(i);
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    task.resultKinds.push_back(results);
    task.resultIndices.push_back(i);
    task.accumulate.push_back(false);
    task.discard.push_back(false);
  }
}

/// The function with one argument per use for the gradient, which is argument
/// `position`, added in the order of the uses.
void sumGradients(func::FuncOp function, unsigned position, int uses) {
  Value gradient = function.getArgument(position);
  SmallVector<Operation *> readers(gradient.getUsers());
  OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
  Value sum = gradient;
  for (int use = 1; use < uses; ++use) {
    (void)function.insertArgument(position + use, gradient.getType(),
                                  DictionaryAttr(), function.getLoc());
    sum = arith::AddFOp::create(builder, function.getLoc(), sum,
                                function.getArgument(position + use));
  }
  for (Operation *reader : readers)
    reader->replaceUsesOfWith(gradient, sum);
}

} // namespace

LogicalResult StepTasks::lowerPrologue(func::FuncOp chain, int64_t batch) {
  auto prologue =
      cast<func::FuncOp>(symbols.lookup<func::FuncOp>(kPrologueName)->clone());
  OwningOpRef<func::FuncOp> owner(prologue);
  Operation *terminator = prologue.front().getTerminator();
  OpBuilder builder(terminator);
  SmallVector<Value> denominators(terminator->getOperands()), results;
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(
        builder, chain.getLoc(),
        SplatElementsAttr::get(scalar, builder.getF32FloatAttr(value)));
  };
  for (auto loss : chain.getOps<nn::LossOp>()) {
    double count =
        loss.getCount().convertToDouble() * (loss.getConstant() ? 1 : batch);
    auto index = loss->getAttrOfType<IntegerAttr>(kDenominatorAttr);
    Value denominator = index ? denominators[index.getInt()] : constant(count);
    Value scale = constant(loss.getScale().convertToDouble());
    results.push_back(denominator);
    results.push_back(
        arith::DivFOp::create(builder, loss.getLoc(), scale, denominator));
  }
  terminator->setOperands(results);
  prologue.setType(FunctionType::get(prologue.getContext(),
                                     prologue.getArgumentTypes(),
                                     TypeRange(ValueRange(results))));

  TaskOptions task;
  task.name = prologueTaskName();
  task.microbatch = batch;
  fill(task, prologue, SlotKind::argument, SlotKind::result);
  for (auto [position, get] :
       llvm::enumerate(llvm::to_vector(prologue.getOps<nn::GetOp>()))) {
    task.argumentKinds.push_back(SlotKind::parameter);
    task.argumentIndices.push_back(position);
    unsigned index = prologue.getNumArguments();
    (void)prologue.insertArgument(index, get.getResult().getType(),
                                  DictionaryAttr(), get.getLoc());
    get.replaceAllUsesWith(prologue.getArgument(index));
    get.erase();
  }
  formGroups(prologue);
  return lowerTask(prologue, task, module, kernels);
}

LogicalResult StepTasks::lowerStepScalars() {
  for (auto op : module.getOps<nn::StepScalarsOp>()) {
    OwningOpRef<func::FuncOp> function = cast<func::FuncOp>(
        symbols.lookup<func::FuncOp>(op.getFunction())->clone());
    formGroups(*function);
    TaskOptions task;
    task.name = stepScalarsTaskName();
    task.writeLast = true;
    fill(task, *function, SlotKind::argument, SlotKind::result);
    if (failed(lowerTask(*function, task, module, kernels)))
      return failure();
  }
  return success();
}

LogicalResult
StepTasks::lowerEpilogue(nn::EpilogueOp epilogue,
                         const llvm::StringMap<int64_t> &positions) {
  OwningOpRef<func::FuncOp> function = cast<func::FuncOp>(
      symbols.lookup<func::FuncOp>(epilogue.getFunction())->clone());
  formGroups(*function);
  TaskOptions task;
  task.name = epilogueTaskName();
  task.writeLast = true;
  fill(task, *function, SlotKind::argument, SlotKind::result);
  for (auto [argument, parameter] : llvm::enumerate(
           epilogue.getContributions().getAsRange<FlatSymbolRefAttr>()))
    task.argumentIndices[argument] = positions.lookup(parameter.getValue());
  return lowerTask(*function, task, module, kernels);
}

FailureOr<schedule::TaskOp> StepTasks::lowerContribution(nn::ContributionOp op,
                                                         int uses) {
  std::string name = contributionTaskName(op.getFunction().str(), uses);
  if (auto task = module.lookupSymbol<schedule::TaskOp>(name))
    return task;
  OwningOpRef<func::FuncOp> owner = cast<func::FuncOp>(
      symbols.lookup<func::FuncOp>(op.getFunction())->clone());
  func::FuncOp function = *owner;
  sumGradients(function, 0, uses);
  formGroups(function);
  TaskOptions task;
  task.name = name;
  task.family = schedule::Family::update;
  task.workspaceInResult = true;
  fill(task, function, SlotKind::gradient, SlotKind::result);
  if (failed(lowerTask(function, task, module, kernels)))
    return failure();
  return module.lookupSymbol<schedule::TaskOp>(name);
}

LogicalResult StepTasks::lowerUpdate(nn::OptimizeOp op,
                                     const UpdateBinding &update, int uses) {
  std::string name = updateTaskName(update.function, uses);
  if (module.lookupSymbol(name))
    return success();
  OwningOpRef<func::FuncOp> owner = cast<func::FuncOp>(
      symbols.lookup<func::FuncOp>(op.getFunction())->clone());
  func::FuncOp function = *owner;
  sumGradients(function, 1, uses);
  formGroups(function);
  TaskOptions task;
  task.name = name;
  task.family = schedule::Family::update;
  auto argument = [&](SlotKind kind, int64_t index) {
    task.argumentKinds.push_back(kind);
    task.argumentIndices.push_back(index);
  };
  auto result = [&](SlotKind kind, int64_t index) {
    task.resultKinds.push_back(kind);
    task.resultIndices.push_back(index);
    task.accumulate.push_back(false);
    task.discard.push_back(false);
  };
  argument(SlotKind::parameter, 0);
  result(SlotKind::parameter, 0);
  for (int use = 0; use < uses; ++use)
    argument(SlotKind::gradient, use);
  for (size_t state = 0; state < update.states.size(); ++state) {
    argument(SlotKind::state, state);
    result(SlotKind::state, state);
  }
  for (size_t scalar = 0; scalar < update.scalars.size(); ++scalar)
    argument(SlotKind::scalar, scalar);
  return lowerTask(function, task, module, kernels);
}
