//===- Placement.cpp - Where a task computes its values -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/Placement.h"

using namespace mlir;
using namespace harmony;

namespace {

/// Whether nothing but what computes `value` reads the operand.
bool isReadOnlyFor(Value operand, Value value) {
  return llvm::all_of(operand.getUsers(), [&](Operation *user) {
    return user == value.getDefiningOp();
  });
}

/// Whether products read rows of `value`, and nothing needs them to follow
/// each other.
bool isRowsOfProducts(Value value, int64_t row) {
  bool isRead = false;
  for (Operation *user : value.getUsers()) {
    if (isa<func::ReturnOp, nn::ConvolutionOp>(user))
      return false;
    if (auto reshape = dyn_cast<nn::ReshapeOp>(user)) {
      RankedTensorType type = typeOf(reshape.getResult());
      if (!type.getRank() || type.getShape().back() != row ||
          !isRowsOfProducts(reshape.getResult(), row))
        return false;
      isRead = true;
    }
    isRead |= isa<nn::DotGeneralOp>(user);
  }
  return isRead;
}

} // namespace

Placement::Placement(func::FuncOp function, const TaskOptions &options,
                     TaskBuilder &task, DenseMap<Value, View> &views)
    : function(function), options(options), task(task), views(views) {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    int64_t bytes = tensorBytes(typeOf(argument));
    int buffer = options.argumentKinds[index] == schedule::SlotKind::saved
                     ? task.addSaved(options.argumentIndices[index])
                     : task.addBuffer(
                           task.addSlot(options.argumentKinds[index],
                                        options.argumentIndices[index], bytes),
                           bytes);
    views[argument] = View::contiguous(buffer, typeOf(argument).getShape());
  }
  auto returned = function.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(returned->getOperands())) {
    int64_t bytes = tensorBytes(typeOf(value));
    if (options.discard[index])
      resultBuffers.push_back(task.addWorkspace(bytes));
    else if (options.resultKinds[index] == schedule::SlotKind::saved)
      resultBuffers.push_back(task.addSaved(options.resultIndices[index]));
    else
      resultBuffers.push_back(
          task.addBuffer(task.addSlot(options.resultKinds[index],
                                      options.resultIndices[index], bytes),
                         bytes));
  }
}

std::optional<Destination> Placement::findDestination(Value value) {
  for (OpOperand &use : value.getUses())
    if (isa<func::ReturnOp>(use.getOwner()) && !options.writeLast) {
      size_t index = use.getOperandNumber();
      if (!canOverwrite(value, index))
        continue;
      if (!options.accumulate[index] || value.hasOneUse())
        return Destination{getResult(index), options.accumulate[index]};
    }
  if (!value.hasOneUse())
    return std::nullopt;
  Operation *user = *value.user_begin();
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  if (auto transpose = dyn_cast<nn::TransposeOp>(user)) {
    auto destination = findDestination(transpose.getResult());
    if (!destination)
      return std::nullopt;
    SmallVector<int64_t> inverse(shape.size());
    for (auto [index, axis] : llvm::enumerate(transpose.getPermutation()))
      inverse[axis] = index;
    return Destination{destination->view.transpose(inverse),
                       destination->accumulate};
  }
  if (auto reshape = dyn_cast<nn::ReshapeOp>(user)) {
    auto destination = findDestination(reshape.getResult());
    if (!destination)
      return std::nullopt;
    auto view = destination->view.reshape(
        typeOf(reshape.getResult()).getShape(), shape);
    return view ? std::optional(Destination{*view, destination->accumulate})
                : std::nullopt;
  }
  if (auto concat = dyn_cast<nn::ConcatOp>(user))
    return findPart(concat, value.getUses().begin()->getOperandNumber());
  if (auto sum = dyn_cast<arith::AddFOp>(user))
    return findSum(sum, value.getUses().begin()->getOperandNumber());
  return std::nullopt;
}

bool Placement::canOverwrite(Value value, size_t index) {
  if (options.discard[index] ||
      options.resultKinds[index] != schedule::SlotKind::argument)
    return true;
  Value argument = function.getArgument(options.resultIndices[index]);
  return isReadOnlyFor(argument, value);
}

Destination Placement::findSum(arith::AddFOp sum, size_t index) {
  auto [entry, inserted] = sums.try_emplace(sum);
  if (inserted) {
    auto destination = findDestination(sum.getResult());
    if (!destination ||
        !destination->view.isContiguous(typeOf(sum.getResult()).getShape()))
      destination = Destination{allocate(sum.getResult())};
    sums[sum] = *destination;
  }
  Destination term = sums[sum];
  term.accumulate |= index == 1;
  return term;
}

Destination Placement::findPart(nn::ConcatOp concat, size_t index) {
  auto [entry, inserted] = concatenations.try_emplace(concat);
  if (inserted) {
    auto destination = findDestination(concat.getResult());
    if (!destination || destination->accumulate)
      destination = Destination{allocate(concat.getResult())};
    concatenations[concat] = *destination;
  }
  Destination part = concatenations[concat];
  int64_t start = 0, axis = concat.getAxis();
  for (Value operand : concat.getOperands().take_front(index))
    start += typeOf(operand).getDimSize(axis);
  part.view.offset += start * part.view.strides[axis];
  return part;
}

View Placement::getResult(size_t index) {
  Value value = function.front().getTerminator()->getOperand(index);
  return View::contiguous(resultBuffers[index], typeOf(value).getShape());
}

View Placement::allocate(Value value) {
  return View::contiguous(task.addWorkspace(tensorBytes(typeOf(value))),
                          typeOf(value).getShape());
}

View Placement::allocateSpaced(Value value) {
  constexpr int64_t kPage = 4096, kLine = 64;
  RankedTensorType type = typeOf(value);
  int64_t size = elementBytes(type.getElementType());
  int64_t row = type.getRank() < 2 ? 0 : type.getShape().back();
  if (!row || row * size % kPage != 0 || type.getNumElements() == row ||
      !isRowsOfProducts(value, row))
    return allocate(value);
  View view = View::contiguous(-1, type.getShape());
  int64_t step = row + kLine / size;
  for (int64_t axis = type.getRank() - 1; axis-- > 0;
       step *= type.getDimSize(axis))
    view.strides[axis] = step;
  view.buffer = task.addWorkspace(view.span(type.getShape()) * size);
  return view;
}

Destination Placement::place(Value value) {
  if (auto destination = findDestination(value))
    return *destination;
  if (auto consumed = findConsumed(value))
    return Destination{*consumed};
  return Destination{allocateSpaced(value)};
}

std::optional<View> Placement::findConsumed(Value value) {
  if (options.family != schedule::Family::update || options.workspaceInResult)
    return std::nullopt; // contributions leave them to the update
  for (Value operand : value.getDefiningOp()->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (argument && operand.getType() == value.getType() &&
        options.argumentKinds[argument.getArgNumber()] ==
            schedule::SlotKind::gradient &&
        isReadOnlyFor(operand, value))
      return views[operand];
  }
  return std::nullopt;
}
