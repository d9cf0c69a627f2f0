//===- Evaluate.cpp - Reference interpreter of nn -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Evaluate.h"
#include "dialects/NN/Decompose.h"
#include "dialects/NN/EvaluateElementwise.h"
#include "dialects/NN/Window.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony::nn;

static int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

int64_t HostTensor::size() const { return countElements(shape); }

HostTensor::HostTensor(RankedTensorType type)
    : element(type.getElementType()), shape(type.getShape()) {
  if (isFloat())
    floats.resize(size());
  else
    integers.resize(size());
}

HostTensor harmony::nn::toHostTensor(DenseElementsAttr elements) {
  HostTensor tensor(cast<RankedTensorType>(elements.getType()));
  if (tensor.isFloat()) {
    for (auto [index, value] : llvm::enumerate(elements.getValues<APFloat>()))
      tensor.floats[index] = value.convertToDouble();
  } else {
    bool isBool = tensor.element.isInteger(1);
    for (auto [index, value] : llvm::enumerate(elements.getValues<APInt>()))
      tensor.integers[index] =
          isBool ? value.getZExtValue() : value.getSExtValue();
  }
  return tensor;
}

namespace {

SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

/// Calls `body` with every index of `shape`, in row-major order.
template <typename Body>
void forEachIndex(ArrayRef<int64_t> shape, Body body) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t count = countElements(shape), i = 0; i < count; ++i) {
    body(ArrayRef<int64_t>(index), i);
    for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
         --axis) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

class Evaluator {
public:
  Evaluator(const EvaluateOptions &options) : options(options) {}

  FailureOr<SmallVector<HostTensor>> call(func::FuncOp function,
                                          ArrayRef<HostTensor> inputs) {
    if (function.isExternal() || function.getNumArguments() != inputs.size())
      return function.emitError()
             << "evaluated with " << inputs.size()
             << " inputs, expected a body and " << function.getNumArguments();
    for (auto [index, pair] :
         llvm::enumerate(llvm::zip(inputs, function.getArguments()))) {
      auto &[input, argument] = pair;
      if (input.getType() != staticType(argument))
        return function.emitError()
               << "input " << index << " has type " << input.getType()
               << ", expected " << staticType(argument);
      values[argument] = input;
    }
    return run(function.getBody().front());
  }

private:
  RankedTensorType staticType(Value value) {
    return instantiate(cast<RankedTensorType>(value.getType()),
                       options.samples);
  }
  const HostTensor &get(Value value) { return values.find(value)->second; }
  void copy(Value from, Value to) {
    HostTensor tensor = get(from);
    values[to] = std::move(tensor);
  }

  LogicalResult set(Value value, HostTensor tensor) {
    if (options.roundToFloat && tensor.element.isF32())
      for (double &element : tensor.floats)
        element = static_cast<float>(element);
    values[value] = std::move(tensor);
    return success();
  }

  /// Runs a block and returns the operands of its terminator.
  FailureOr<SmallVector<HostTensor>> run(Block &block) {
    for (Operation &op : block.without_terminator())
      if (failed(evaluateOp(&op)))
        return failure();
    SmallVector<HostTensor> results;
    for (Value value : block.getTerminator()->getOperands())
      results.push_back(get(value));
    return results;
  }

  LogicalResult evaluateOp(Operation *op);
  LogicalResult evaluateElementwise(Operation *op);
  LogicalResult evaluateComposite(Operation *op);
  LogicalResult evaluateWindowOp(Operation *op);
  LogicalResult evaluateCall(func::CallOp op);
  LogicalResult evaluateGet(GetOp op);
  LogicalResult evaluateLoss(LossOp op);
  LogicalResult evaluateAssign(AssignOp op);
  LogicalResult evaluateGather(GatherOp op);
  LogicalResult evaluateScatterAdd(ScatterAddOp op);
  LogicalResult evaluateBroadcast(BroadcastOp op);
  LogicalResult evaluateReshape(ReshapeOp op);
  LogicalResult evaluateTranspose(TransposeOp op);
  LogicalResult evaluateSlice(SliceOp op);
  LogicalResult evaluatePad(PadOp op);
  LogicalResult evaluateConcat(ConcatOp op);
  LogicalResult evaluateReduce(ReduceOp op);
  LogicalResult evaluateDot(DotGeneralOp op);
  LogicalResult evaluateIota(IotaOp op);

  const EvaluateOptions &options;
  llvm::DenseMap<Value, HostTensor> values;
};

} // namespace

LogicalResult Evaluator::evaluateElementwise(Operation *op) {
  if (op->getNumResults() != 1 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return op->emitOpError("is not known to the evaluator");
  HostTensor result(staticType(op->getResult(0)));
  SmallVector<const HostTensor *, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&get(operand));
  if (failed(harmony::nn::evaluateElementwise(op, operands, result)))
    return failure();
  return set(op->getResult(0), std::move(result));
}

//===----------------------------------------------------------------------===//
// nn ops
//===----------------------------------------------------------------------===//

LogicalResult Evaluator::evaluateBroadcast(BroadcastOp op) {
  const HostTensor &operand = get(op.getOperand());
  HostTensor result(staticType(op.getResult()));
  SmallVector<int64_t> strides = getStrides(operand.shape);
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t to) {
    int64_t from = 0;
    for (auto [axis, resultAxis] : llvm::enumerate(op.getAxes()))
      from += operand.shape[axis] == 1 ? 0 : index[resultAxis] * strides[axis];
    copyElement(operand, from, result, to);
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateReshape(ReshapeOp op) {
  HostTensor result = get(op.getOperand());
  result.shape = llvm::to_vector(staticType(op.getResult()).getShape());
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateTranspose(TransposeOp op) {
  const HostTensor &operand = get(op.getOperand());
  HostTensor result(staticType(op.getResult()));
  SmallVector<int64_t> strides = getStrides(operand.shape);
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t to) {
    int64_t from = 0;
    for (auto [axis, source] : llvm::enumerate(op.getPermutation()))
      from += index[axis] * strides[source];
    copyElement(operand, from, result, to);
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateSlice(SliceOp op) {
  const HostTensor &operand = get(op.getOperand());
  HostTensor result(staticType(op.getResult()));
  SmallVector<int64_t> strides = getStrides(operand.shape);
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t to) {
    int64_t from = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      from += (op.getStarts()[axis] + index[axis] * op.getStrides()[axis]) *
              strides[axis];
    copyElement(operand, from, result, to);
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluatePad(PadOp op) {
  const HostTensor &operand = get(op.getOperand()), &fill = get(op.getFill());
  HostTensor result(staticType(op.getResult()));
  for (int64_t i = 0, count = result.size(); i < count; ++i)
    copyElement(fill, 0, result, i);
  SmallVector<int64_t> strides = getStrides(result.shape);
  forEachIndex(operand.shape, [&](ArrayRef<int64_t> index, int64_t from) {
    int64_t to = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      to += (op.getLow()[axis] + index[axis] * (op.getInterior()[axis] + 1)) *
            strides[axis];
    copyElement(operand, from, result, to);
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateConcat(ConcatOp op) {
  HostTensor result(staticType(op.getResult()));
  SmallVector<int64_t> strides = getStrides(result.shape);
  int64_t start = 0;
  for (Value value : op.getOperands()) {
    const HostTensor &operand = get(value);
    forEachIndex(operand.shape, [&](ArrayRef<int64_t> index, int64_t from) {
      int64_t to = start * strides[op.getAxis()];
      for (size_t axis = 0; axis < index.size(); ++axis)
        to += index[axis] * strides[axis];
      copyElement(operand, from, result, to);
    });
    start += operand.shape[op.getAxis()];
  }
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateReduce(ReduceOp op) {
  const HostTensor &operand = get(op.getOperand());
  HostTensor result(staticType(op.getResult()));
  ReduceKind kind = op.getKind();
  unsigned width = widthOf(operand.element);
  SmallVector<int64_t> resultStrides = getStrides(result.shape),
                       strides(operand.shape.size(), 0);
  for (int64_t axis = 0, kept = 0; axis < static_cast<int64_t>(strides.size());
       ++axis)
    if (!llvm::is_contained(op.getAxes(), axis))
      strides[axis] = resultStrides[kept++];
  std::vector<bool> started(result.size());
  forEachIndex(operand.shape, [&](ArrayRef<int64_t> index, int64_t from) {
    int64_t to = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      to += index[axis] * strides[axis];
    if (!started[to]) {
      started[to] = true;
      copyElement(operand, from, result, to);
    } else if (operand.isFloat()) {
      double x = result.floats[to], y = operand.floats[from];
      result.floats[to] = kind == ReduceKind::sum   ? x + y
                          : kind == ReduceKind::max ? maximum(x, y)
                                                    : minimum(x, y);
    } else {
      int64_t x = result.integers[to], y = operand.integers[from];
      result.integers[to] = kind == ReduceKind::sum   ? wrap(x + y, width)
                            : kind == ReduceKind::max ? std::max(x, y)
                                                      : std::min(x, y);
    }
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateDot(DotGeneralOp op) {
  const HostTensor &lhs = get(op.getLhs()), &rhs = get(op.getRhs());
  HostTensor result(staticType(op.getResult()));
  SmallVector<int64_t> lhsStrides = getStrides(lhs.shape),
                       rhsStrides = getStrides(rhs.shape);
  // Strides of each result axis in both operands, then of each contracted axis.
  SmallVector<std::pair<int64_t, int64_t>> outer, inner;
  SmallVector<int64_t> innerShape;
  for (auto [left, right] : llvm::zip(op.getLhsBatch(), op.getRhsBatch()))
    outer.push_back({lhsStrides[left], rhsStrides[right]});
  for (int64_t axis = 0; axis < static_cast<int64_t>(lhs.shape.size()); ++axis)
    if (!llvm::is_contained(op.getLhsBatch(), axis) &&
        !llvm::is_contained(op.getLhsContract(), axis))
      outer.push_back({lhsStrides[axis], 0});
  for (int64_t axis = 0; axis < static_cast<int64_t>(rhs.shape.size()); ++axis)
    if (!llvm::is_contained(op.getRhsBatch(), axis) &&
        !llvm::is_contained(op.getRhsContract(), axis))
      outer.push_back({0, rhsStrides[axis]});
  for (auto [left, right] :
       llvm::zip(op.getLhsContract(), op.getRhsContract())) {
    inner.push_back({lhsStrides[left], rhsStrides[right]});
    innerShape.push_back(lhs.shape[left]);
  }
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t to) {
    int64_t left = 0, right = 0;
    for (auto [position, strides] : llvm::zip(index, outer)) {
      left += position * strides.first;
      right += position * strides.second;
    }
    double sum = 0;
    int64_t integerSum = 0;
    forEachIndex(innerShape, [&](ArrayRef<int64_t> contracted, int64_t) {
      int64_t i = left, j = right;
      for (auto [position, strides] : llvm::zip(contracted, inner)) {
        i += position * strides.first;
        j += position * strides.second;
      }
      if (result.isFloat())
        sum += lhs.floats[i] * rhs.floats[j];
      else
        integerSum += lhs.integers[i] * rhs.integers[j];
    });
    if (result.isFloat())
      result.floats[to] = sum;
    else
      result.integers[to] = wrap(integerSum, widthOf(result.element));
  });
  return set(op.getResult(), std::move(result));
}

/// Calls `body` with the position of every gathered element in the table, in
/// the indices and in the slices, in row-major order of the slices. Fails where
/// an index is outside of the table.
template <typename Body>
static LogicalResult
forEachGathered(Operation *op, ArrayRef<int64_t> tableShape,
                const HostTensor &indices, ArrayRef<int64_t> sliceShape,
                int64_t axis, int64_t batchDims, Body body) {
  SmallVector<int64_t> tableStrides = getStrides(tableShape),
                       indexStrides = getStrides(indices.shape);
  int64_t indexRank = static_cast<int64_t>(indices.shape.size()) - batchDims;
  bool inRange = true;
  forEachIndex(sliceShape, [&](ArrayRef<int64_t> index, int64_t slice) {
    int64_t position = 0, table = 0;
    for (int64_t i = 0; i < batchDims; ++i)
      position += index[i] * indexStrides[i];
    for (int64_t i = 0; i < indexRank; ++i)
      position += index[axis + i] * indexStrides[batchDims + i];
    int64_t row = indices.integers[position];
    if (row < 0 || row >= tableShape[axis]) {
      inRange = false;
      return;
    }
    for (int64_t i = 0; i < axis; ++i)
      table += index[i] * tableStrides[i];
    table += row * tableStrides[axis];
    for (int64_t i = axis + 1; i < static_cast<int64_t>(tableShape.size()); ++i)
      table += index[i - 1 + indexRank] * tableStrides[i];
    body(table, slice);
  });
  return inRange ? success()
                 : op->emitOpError("an index is outside of [0, ")
                       << tableShape[axis] << ")";
}

LogicalResult Evaluator::evaluateGather(GatherOp op) {
  const HostTensor &operand = get(op.getOperand());
  HostTensor result(staticType(op.getResult()));
  if (failed(forEachGathered(op, operand.shape, get(op.getIndices()),
                             result.shape, op.getAxis(), op.getBatchDims(),
                             [&](int64_t table, int64_t slice) {
                               copyElement(operand, table, result, slice);
                             })))
    return failure();
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateScatterAdd(ScatterAddOp op) {
  const HostTensor &updates = get(op.getUpdates());
  HostTensor result(staticType(op.getResult()));
  auto accumulate = [&](int64_t table, int64_t slice) {
    if (result.isFloat())
      result.floats[table] += updates.floats[slice];
    else
      result.integers[table] =
          wrap(result.integers[table] + updates.integers[slice],
               widthOf(result.element));
  };
  if (failed(forEachGathered(op, result.shape, get(op.getIndices()),
                             updates.shape, op.getAxis(), op.getBatchDims(),
                             accumulate)))
    return failure();
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateIota(IotaOp op) {
  HostTensor result(staticType(op.getResult()));
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t i) {
    result.integers[i] = index[op.getAxis()];
  });
  return set(op.getResult(), std::move(result));
}

LogicalResult Evaluator::evaluateWindowOp(Operation *op) {
  SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&get(operand));
  SmallVector<HostTensor> results;
  for (Value result : op->getResults())
    results.push_back(HostTensor(staticType(result)));
  evaluateWindow(op, operands, results);
  for (auto [value, tensor] : llvm::zip(op->getResults(), results))
    (void)set(value, std::move(tensor));
  return success();
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult Evaluator::evaluateComposite(Operation *op) {
  Block scratch;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointToEnd(&scratch);
  auto results = decompose(op, builder);
  if (failed(results))
    return failure();
  for (Operation &primitive : scratch)
    if (failed(evaluateOp(&primitive)))
      return failure();
  for (auto [result, value] : llvm::zip(op->getResults(), *results))
    copy(value, result);
  for (Operation &primitive : scratch)
    for (Value result : primitive.getResults())
      values.erase(result);
  return success();
}

LogicalResult Evaluator::evaluateCall(func::CallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getCalleeAttr());
  if (!callee)
    return op.emitOpError("calls an unknown function ") << op.getCallee();
  SmallVector<HostTensor> inputs;
  for (Value operand : op.getOperands())
    inputs.push_back(get(operand));
  auto results = Evaluator(options).call(callee, inputs);
  if (failed(results))
    return failure();
  for (auto [value, tensor] : llvm::zip(op.getResults(), *results))
    values[value] = std::move(tensor);
  return success();
}

LogicalResult Evaluator::evaluateGet(GetOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto found = options.variables.find(op.getVariable());
  if (found != options.variables.end()) {
    if (found->second.getType() != type)
      return op.emitOpError("variable has type ")
             << found->second.getType() << ", expected " << type;
    values[op.getResult()] = found->second;
    return success();
  }
  auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
      op, op.getVariableAttr());
  if (!variable)
    return op.emitOpError("no nn.variable is named ") << op.getVariable();
  Attribute initial = variable.getInitialAttr();
  if (initial && !isa<DenseElementsAttr>(initial))
    return op.emitOpError("variable ")
           << op.getVariable()
           << " has no value here: its elements are not in the module";
  return set(op.getResult(),
             initial ? toHostTensor(cast<DenseElementsAttr>(initial))
                     : HostTensor(type));
}

LogicalResult Evaluator::evaluateLoss(LossOp op) {
  if (!options.losses)
    return success();
  double count = op.getCount().convertToDouble();
  double denominator = op.getDenominator() ? get(op.getDenominator()).floats[0]
                       : op.getConstant()  ? count
                                           : count * options.samples;
  options.losses->push_back(op.getScale().convertToDouble() *
                            get(op.getNumerator()).floats[0] / denominator);
  return success();
}

LogicalResult Evaluator::evaluateAssign(AssignOp op) {
  if (options.assigned)
    (*options.assigned)[op.getVariable()] = get(op.getValue());
  return success();
}

LogicalResult Evaluator::evaluateOp(Operation *op) {
  if (isComposite(op))
    return evaluateComposite(op);
  if (isWindowOp(op))
    return evaluateWindowOp(op);
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::ConstantOp constant) -> LogicalResult {
        auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!elements)
          return op->emitOpError("is not a tensor of dense elements");
        return set(constant.getResult(), toHostTensor(elements));
      })
      .Case([&](BroadcastOp broadcast) { return evaluateBroadcast(broadcast); })
      .Case([&](ReshapeOp reshape) { return evaluateReshape(reshape); })
      .Case([&](TransposeOp transpose) { return evaluateTranspose(transpose); })
      .Case([&](SliceOp slice) { return evaluateSlice(slice); })
      .Case([&](PadOp pad) { return evaluatePad(pad); })
      .Case([&](ConcatOp concat) { return evaluateConcat(concat); })
      .Case([&](ReduceOp reduce) { return evaluateReduce(reduce); })
      .Case([&](DotGeneralOp dot) { return evaluateDot(dot); })
      .Case([&](IotaOp iota) { return evaluateIota(iota); })
      .Case([&](GatherOp gather) { return evaluateGather(gather); })
      .Case([&](ScatterAddOp scatter) { return evaluateScatterAdd(scatter); })
      .Case([&](func::CallOp call) { return evaluateCall(call); })
      .Case([&](GetOp get) { return evaluateGet(get); })
      .Case([&](LossOp loss) { return evaluateLoss(loss); })
      .Case([&](CountOp count) -> LogicalResult {
        HostTensor tensor(staticType(count.getResult()));
        tensor.floats.assign(
            tensor.size(),
            static_cast<double>(count.getFactor() * options.samples));
        return set(count.getResult(), std::move(tensor));
      })
      .Case([&](AssignOp assign) { return evaluateAssign(assign); })
      .Case([&](ByModeOp mode) -> LogicalResult {
        copy(mode.getTraining(), mode.getResult());
        return success();
      })
      .Case([&](GroupOp group) -> LogicalResult {
        for (auto [argument, operand] :
             llvm::zip(group.getBody().getArguments(), group.getOperands()))
          copy(operand, argument);
        auto results = run(group.getBody().front());
        if (failed(results))
          return failure();
        for (auto [value, tensor] : llvm::zip(group.getResults(), *results))
          values[value] = std::move(tensor);
        return success();
      })
      .Default([&](Operation *) { return evaluateElementwise(op); });
}

FailureOr<SmallVector<HostTensor>>
harmony::nn::evaluate(func::FuncOp function, ArrayRef<HostTensor> inputs,
                      const EvaluateOptions &options) {
  return Evaluator(options).call(function, inputs);
}
