//===- NN.cpp - Training tensor algebra -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony::nn;

#include "dialects/NN/NNDialect.cpp.inc"
#include "dialects/NN/NNEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttributes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/NN/NNOps.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/NN/NNAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/NN/NNOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult
BatchAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                          function_ref<InFlightDiagnostic()> emitError) const {
  if (getAxis() < 0 || getAxis() >= static_cast<int64_t>(shape.size()))
    return emitError() << "batch axis " << getAxis()
                       << " is not an axis of a tensor of rank "
                       << shape.size();
  if (getFactor() < 1)
    return emitError() << "batch factor is " << getFactor()
                       << ", expected at least 1";
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (ShapedType::isDynamic(extent) !=
        (static_cast<int64_t>(axis) == getAxis()))
      return emitError() << "axis " << axis << " must be "
                         << (ShapedType::isDynamic(extent) ? "static"
                                                           : "dynamic")
                         << ": only the batch axis " << getAxis()
                         << " is dynamic";
  return success();
}

BatchAttr harmony::nn::getBatch(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<BatchAttr>(tensor.getEncoding())
                : BatchAttr();
}

RankedTensorType harmony::nn::getBatchType(ArrayRef<int64_t> shape,
                                           Type element, int64_t axis,
                                           int64_t factor) {
  if (axis < 0)
    return RankedTensorType::get(shape, element);
  SmallVector<int64_t> extents(shape);
  extents[axis] = ShapedType::kDynamic;
  return RankedTensorType::get(
      extents, element, BatchAttr::get(element.getContext(), axis, factor));
}

RankedTensorType harmony::nn::withElementType(RankedTensorType type,
                                              Type element) {
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

RankedTensorType harmony::nn::instantiate(RankedTensorType type,
                                          int64_t samples) {
  SmallVector<int64_t> shape(type.getShape());
  if (BatchAttr batch = getBatch(type))
    shape[batch.getAxis()] = batch.getFactor() * samples;
  return RankedTensorType::get(shape, type.getElementType());
}

namespace {
/// An extent, 0 + factor for the batch axis: equal extents compare equal.
struct Extent {
  int64_t size, factor;
  bool operator==(const Extent &other) const {
    return size == other.size && factor == other.factor;
  }
};

Extent getExtent(RankedTensorType type, int64_t axis) {
  BatchAttr batch = getBatch(type);
  if (batch && batch.getAxis() == axis)
    return {0, batch.getFactor()};
  return {type.getDimSize(axis), 0};
}

/// Builds a type from extents; fails when two axes carry the batch.
FailureOr<RankedTensorType> buildType(ArrayRef<Extent> extents, Type element) {
  SmallVector<int64_t> shape;
  int64_t axis = -1, factor = 0;
  for (auto [index, extent] : llvm::enumerate(extents)) {
    shape.push_back(extent.size);
    if (!extent.factor)
      continue;
    if (axis >= 0)
      return failure();
    axis = index;
    factor = extent.factor;
  }
  return getBatchType(shape, element, axis, factor);
}

bool isPermutation(ArrayRef<int64_t> permutation) {
  llvm::SmallBitVector seen(permutation.size());
  for (int64_t axis : permutation) {
    if (axis < 0 || axis >= static_cast<int64_t>(permutation.size()) ||
        seen.test(axis))
      return false;
    seen.set(axis);
  }
  return true;
}

/// Distinct axes of a tensor of the given rank.
bool areAxes(ArrayRef<int64_t> axes, int64_t rank) {
  llvm::SmallBitVector seen(rank);
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank || seen.test(axis))
      return false;
    seen.set(axis);
  }
  return true;
}
} // namespace

FailureOr<RankedTensorType>
harmony::nn::inferTranspose(RankedTensorType operand,
                            ArrayRef<int64_t> permutation) {
  if (static_cast<int64_t>(permutation.size()) != operand.getRank() ||
      !isPermutation(permutation))
    return failure();
  SmallVector<Extent> extents;
  for (int64_t axis : permutation)
    extents.push_back(getExtent(operand, axis));
  return buildType(extents, operand.getElementType());
}

FailureOr<RankedTensorType> harmony::nn::inferReduce(RankedTensorType operand,
                                                     ArrayRef<int64_t> axes) {
  if (!areAxes(axes, operand.getRank()))
    return failure();
  SmallVector<Extent> extents;
  for (int64_t axis = 0; axis < operand.getRank(); ++axis)
    if (!llvm::is_contained(axes, axis))
      extents.push_back(getExtent(operand, axis));
  return buildType(extents, operand.getElementType());
}

FailureOr<RankedTensorType> harmony::nn::inferDotGeneral(
    RankedTensorType lhs, RankedTensorType rhs, ArrayRef<int64_t> lhsBatch,
    ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
    ArrayRef<int64_t> rhsContract) {
  auto lhsUsed =
      llvm::to_vector(llvm::concat<const int64_t>(lhsBatch, lhsContract));
  auto rhsUsed =
      llvm::to_vector(llvm::concat<const int64_t>(rhsBatch, rhsContract));
  if (lhsBatch.size() != rhsBatch.size() ||
      lhsContract.size() != rhsContract.size() ||
      !areAxes(lhsUsed, lhs.getRank()) || !areAxes(rhsUsed, rhs.getRank()) ||
      lhs.getElementType() != rhs.getElementType())
    return failure();
  for (auto [left, right] : llvm::zip(lhsUsed, rhsUsed))
    if (!(getExtent(lhs, left) == getExtent(rhs, right)))
      return failure();
  SmallVector<Extent> extents;
  for (int64_t axis : lhsBatch)
    extents.push_back(getExtent(lhs, axis));
  for (int64_t axis = 0; axis < lhs.getRank(); ++axis)
    if (!llvm::is_contained(lhsUsed, axis))
      extents.push_back(getExtent(lhs, axis));
  for (int64_t axis = 0; axis < rhs.getRank(); ++axis)
    if (!llvm::is_contained(rhsUsed, axis))
      extents.push_back(getExtent(rhs, axis));
  return buildType(extents, lhs.getElementType());
}

FailureOr<RankedTensorType> harmony::nn::inferGather(RankedTensorType operand,
                                                     RankedTensorType indices,
                                                     int64_t axis,
                                                     int64_t batchDims) {
  if (batchDims < 0 || batchDims > indices.getRank() || axis < batchDims ||
      axis >= operand.getRank() || getExtent(operand, axis).factor)
    return failure();
  SmallVector<Extent> extents;
  for (int64_t i = 0; i < batchDims; ++i) {
    if (!(getExtent(operand, i) == getExtent(indices, i)))
      return failure();
    extents.push_back(getExtent(operand, i));
  }
  for (int64_t i = batchDims; i < axis; ++i)
    extents.push_back(getExtent(operand, i));
  for (int64_t i = batchDims; i < indices.getRank(); ++i)
    extents.push_back(getExtent(indices, i));
  for (int64_t i = axis + 1; i < operand.getRank(); ++i)
    extents.push_back(getExtent(operand, i));
  return buildType(extents, operand.getElementType());
}

FailureOr<RankedTensorType> harmony::nn::inferConcat(TypeRange operands,
                                                     int64_t axis) {
  if (operands.empty())
    return failure();
  auto first = cast<RankedTensorType>(operands.front());
  if (axis < 0 || axis >= first.getRank() || getExtent(first, axis).factor)
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  shape[axis] = 0;
  for (Type type : operands) {
    auto operand = cast<RankedTensorType>(type);
    if (operand.getRank() != first.getRank() ||
        operand.getElementType() != first.getElementType() ||
        operand.getEncoding() != first.getEncoding())
      return failure();
    for (int64_t i = 0; i < first.getRank(); ++i)
      if (i != axis && operand.getDimSize(i) != first.getDimSize(i))
        return failure();
    shape[axis] += operand.getDimSize(axis);
  }
  return RankedTensorType::get(shape, first.getElementType(),
                               first.getEncoding());
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getResult().getType())
    return getOperand();
  if (auto producer = getOperand().getDefiningOp<ReshapeOp>()) {
    setOperand(producer.getOperand());
    return getResult();
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  bool identity = true;
  for (auto [index, axis] : llvm::enumerate(getPermutation()))
    identity &= axis == static_cast<int64_t>(index);
  if (identity)
    return getOperand();
  if (auto producer = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> permutation;
    for (int64_t axis : getPermutation())
      permutation.push_back(producer.getPermutation()[axis]);
    setOperand(producer.getOperand());
    setPermutation(permutation);
    return getResult();
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole =
      getOperand().getType() == getResult().getType() &&
      llvm::all_of(getStrides(), [](int64_t stride) { return stride == 1; });
  return whole ? OpFoldResult(getOperand()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// GroupOp
//===----------------------------------------------------------------------===//

// nn.group (%a = %x, %b = %y) : (types) -> (types) attributes {...} { body }
void GroupOp::print(OpAsmPrinter &printer) {
  printer << " (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getOperands()),
                        printer, [&](auto pair) {
                          printer.printRegionArgument(std::get<0>(pair), {},
                                                      /*omitType=*/true);
                          printer << " = " << std::get<1>(pair);
                        });
  printer << ") : ";
  printer.printFunctionalType(*this);
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  if (parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
            return failure(parser.parseArgument(arguments.emplace_back()) ||
                           parser.parseEqual() ||
                           parser.parseOperand(operands.emplace_back()));
          }))
    return failure();
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseColonType(type) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, argumentType] : llvm::zip(arguments, type.getInputs()))
    argument.type = argumentType;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

LogicalResult GroupOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getOperandTypes())
    return emitOpError("block arguments must have the operands' types");
  if (!isa<YieldOp>(block.back()))
    return emitOpError("body must end in nn.yield");
  if (block.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError("yielded values must have the results' types");
  return success();
}
