//===- Verify.cpp - What holds of each operation of nn --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Extent.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace harmony::nn;

/// Reports an inferred type that differs from the declared one.
static LogicalResult
expectType(Operation *op, FailureOr<RankedTensorType> inferred, Type declared) {
  if (failed(inferred))
    return op->emitOpError("operands and attributes do not fit");
  if (*inferred != declared)
    return op->emitOpError("result type is ")
           << declared << ", expected " << *inferred;
  return success();
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = typeOf(getOperand()), to = typeOf(getResult());
  ArrayRef<int64_t> axes = getAxes();
  if (static_cast<int64_t>(axes.size()) != from.getRank())
    return emitOpError("has ")
           << axes.size() << " axes, expected " << from.getRank();
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  for (auto [index, axis] : llvm::enumerate(axes)) {
    if (axis < 0 || axis >= to.getRank() || (index && axes[index - 1] >= axis))
      return emitOpError("axes must increase and lie in [0, ")
             << to.getRank() << ")";
    Extent source = getExtent(from, index);
    if (!(source == getExtent(to, axis)) && !(source == Extent{1, 0}))
      return emitOpError("axis ")
             << index << " is neither 1 nor the extent of axis " << axis
             << " of the result";
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = typeOf(getOperand()), to = typeOf(getResult());
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  // Elements before and after the batch axis must agree: samples stay whole and
  // in order.
  auto count = [](RankedTensorType type) {
    BatchAttr batch = getBatch(type);
    int64_t before = 1, after = 1, factor = 0;
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      if (batch && batch.getAxis() == axis)
        factor = batch.getFactor();
      else
        (batch && axis < batch.getAxis() ? before : after) *=
            type.getDimSize(axis);
    }
    return std::tuple(before, factor ? factor * after : after, factor != 0);
  };
  // With the batch on one side alone, the microbatch is as large as the other
  // side is: the elements of a sample must divide its.
  if (!getBatch(from) != !getBatch(to)) {
    RankedTensorType open = getBatch(from) ? from : to,
                     whole = getBatch(from) ? to : from;
    int64_t each = instantiate(open, 1).getNumElements();
    if (each == 0 || whole.getNumElements() % each != 0)
      return emitOpError("does not keep the elements of each sample: ")
             << from << " and " << to;
    return success();
  }
  if (count(from) != count(to))
    return emitOpError("does not keep the elements of each sample: ")
           << from << " and " << to;
  return success();
}

LogicalResult TransposeOp::verify() {
  return expectType(*this,
                    inferTranspose(typeOf(getOperand()), getPermutation()),
                    getResult().getType());
}

LogicalResult SliceOp::verify() {
  RankedTensorType from = typeOf(getOperand()), to = typeOf(getResult());
  int64_t rank = from.getRank();
  if (to.getRank() != rank ||
      static_cast<int64_t>(getStarts().size()) != rank ||
      static_cast<int64_t>(getStrides().size()) != rank ||
      from.getEncoding() != to.getEncoding() ||
      from.getElementType() != to.getElementType())
    return emitOpError("needs one start and stride per axis, and the operand's "
                       "rank, batch and element type");
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t start = getStarts()[axis], stride = getStrides()[axis];
    if (getExtent(from, axis).factor) {
      if (start != 0 || stride != 1)
        return emitOpError("must take the batch axis ") << axis << " whole";
      continue;
    }
    int64_t extent = to.getDimSize(axis), last = start + (extent - 1) * stride;
    if (stride == 0 ||
        (extent > 0 && (start < 0 || start >= from.getDimSize(axis) ||
                        last < 0 || last >= from.getDimSize(axis))))
      return emitOpError("leaves axis ")
             << axis << " of extent " << from.getDimSize(axis);
  }
  return success();
}

LogicalResult PadOp::verify() {
  RankedTensorType from = typeOf(getOperand()), to = typeOf(getResult());
  int64_t rank = from.getRank();
  if (to.getRank() != rank || static_cast<int64_t>(getLow().size()) != rank ||
      static_cast<int64_t>(getInterior().size()) != rank ||
      from.getEncoding() != to.getEncoding() ||
      from.getElementType() != to.getElementType())
    return emitOpError("needs one `low` and `interior` per axis, and the "
                       "operand's rank, batch and element type");
  if (typeOf(getFill()).getRank() != 0 ||
      typeOf(getFill()).getElementType() != from.getElementType())
    return emitOpError("fill must be a scalar of the operand's element type");
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t low = getLow()[axis], interior = getInterior()[axis];
    if (getExtent(from, axis).factor) {
      if (low != 0 || interior != 0)
        return emitOpError("must not pad the batch axis ") << axis;
      continue;
    }
    int64_t extent = from.getDimSize(axis);
    if (low < 0 || interior < 0 ||
        low + extent + std::max<int64_t>(extent - 1, 0) * interior >
            to.getDimSize(axis))
      return emitOpError("does not fit into axis ") << axis << " of the result";
  }
  return success();
}

LogicalResult ConcatOp::verify() {
  return expectType(*this, inferConcat(getOperandTypes(), getAxis()),
                    getResult().getType());
}

LogicalResult ReduceOp::verify() {
  return expectType(*this, inferReduce(typeOf(getOperand()), getAxes()),
                    getResult().getType());
}

LogicalResult DotGeneralOp::verify() {
  return expectType(*this,
                    inferDotGeneral(typeOf(getLhs()), typeOf(getRhs()),
                                    getLhsBatch(), getRhsBatch(),
                                    getLhsContract(), getRhsContract()),
                    getResult().getType());
}

LogicalResult GatherOp::verify() {
  if (!isa<IntegerType>(typeOf(getIndices()).getElementType()))
    return emitOpError("indices must be integers");
  return expectType(*this,
                    inferGather(typeOf(getOperand()), typeOf(getIndices()),
                                getAxis(), getBatchDims()),
                    getResult().getType());
}

LogicalResult ScatterAddOp::verify() {
  if (!isa<IntegerType>(typeOf(getIndices()).getElementType()))
    return emitOpError("indices must be integers");
  // Scattering sums over the microbatch when the result lacks the batch that
  // indices have.
  RankedTensorType result = typeOf(getResult());
  auto inferred =
      inferGather(result, typeOf(getIndices()), getAxis(), getBatchDims());
  if (failed(inferred) || *inferred != getUpdates().getType())
    return emitOpError("updates of type ")
           << getUpdates().getType() << " do not fit into " << result;
  return success();
}

LogicalResult IotaOp::verify() {
  RankedTensorType type = typeOf(getResult());
  if (!isa<IntegerType>(type.getElementType()))
    return emitOpError("element type must be an integer");
  int64_t axis = getAxis();
  if (axis < 0 || axis >= type.getRank() || getExtent(type, axis).factor)
    return emitOpError("axis ")
           << axis << " must be a static axis of the result";
  return success();
}

static LogicalResult verifyRows(Operation *op, RankedTensorType type) {
  if (type.getRank() == 0 || getExtent(type, type.getRank() - 1).factor)
    return op->emitOpError(
               "needs a last axis that does not carry the batch, not ")
           << type;
  return success();
}

LogicalResult RandomOp::verify() {
  auto integer = IntegerType::get(getContext(), 64);
  RankedTensorType keys = typeOf(getKeys()), type = typeOf(getResult());
  if (keys.getRank() != 2 || keys.getDimSize(1) != 3 ||
      keys.getElementType() != integer)
    return emitOpError("keys must be rows of 3 i64, not ") << keys;
  if (getStream().getType() != RankedTensorType::get({}, integer))
    return emitOpError("stream must be an i64 scalar, not ")
           << getStream().getType();
  int64_t axis = getAxis();
  if (type.getElementType() != integer || axis < 0 || axis >= type.getRank() ||
      !(getExtent(type, axis) == getExtent(keys, 0)))
    return emitOpError("result must hold i64, and one index of axis ")
           << axis << " for each row of " << keys << ", not " << type;
  return success();
}

LogicalResult ByModeOp::verify() { return success(); }

LogicalResult SoftmaxOp::verify() {
  if (getOperand().getType() != getResult().getType())
    return emitOpError("result type must be the operand's");
  return verifyRows(*this, typeOf(getOperand()));
}

LogicalResult LogSoftmaxOp::verify() {
  if (getOperand().getType() != getResult().getType())
    return emitOpError("result type must be the operand's");
  return verifyRows(*this, typeOf(getOperand()));
}

LogicalResult LayerNormOp::verify() {
  RankedTensorType type = typeOf(getOperand());
  int64_t axis = getAxis(), rank = type.getRank();
  BatchAttr batch = getBatch(type);
  if (axis < 0 || axis >= rank || (batch && batch.getAxis() >= axis))
    return emitOpError("axis is ") << axis << ": it must lie in [0, " << rank
                                   << "), behind the batch axis";
  auto normalized = RankedTensorType::get(type.getShape().drop_front(axis),
                                          type.getElementType());
  if (getScale().getType() != normalized ||
      (getShift() && getShift().getType() != normalized))
    return emitOpError("scale and shift must have type ") << normalized;
  auto leading =
      RankedTensorType::get(type.getShape().take_front(axis),
                            type.getElementType(), type.getEncoding());
  if (getResult().getType() != type ||
      (getMean() && getMean().getType() != leading) ||
      getInverseDeviation().getType() != leading)
    return emitOpError("results must have types ")
           << type << ", " << leading << " and " << leading;
  return success();
}

LogicalResult CountOp::verify() {
  RankedTensorType type = typeOf(getResult());
  if (getFactor() < 1 || !isa<FloatType>(type.getElementType()))
    return emitOpError(
               "needs a factor of 1 or more and a floating result, not ")
           << getFactor() << " and " << type;
  return success();
}

LogicalResult BatchNormOp::verify() {
  RankedTensorType type = typeOf(getOperand());
  if (failed(verifyRows(*this, type)))
    return failure();
  auto channels =
      RankedTensorType::get(type.getShape().back(), type.getElementType());
  if (getResult().getType() != type)
    return emitOpError("result must have the operand's type");
  for (Value value : {getScale(), getShift(), getMean(), getVariance(),
                      getInverseDeviation()})
    if (value.getType() != channels)
      return emitOpError("scale, shift and statistics must have type ")
             << channels;
  return success();
}

LogicalResult GeluOp::verify() {
  if (getOperand().getType() != getResult().getType())
    return emitOpError("result type must be the operand's");
  return success();
}

LogicalResult SigmoidOp::verify() {
  if (getOperand().getType() != getResult().getType())
    return emitOpError("result type must be the operand's");
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  RankedTensorType logits = typeOf(getLogits());
  if (failed(verifyRows(*this, logits)))
    return failure();
  auto rows = inferReduce(logits, logits.getRank() - 1);
  RankedTensorType labels = typeOf(getLabels());
  if (!isa<IntegerType>(labels.getElementType()) ||
      withElementType(*rows, labels.getElementType()) != labels)
    return emitOpError("labels of type ")
           << labels << " do not fit the rows of " << logits;
  if (getLosses().getType() != *rows || getLogSum().getType() != *rows)
    return emitOpError("results must have type ") << *rows;
  return success();
}
