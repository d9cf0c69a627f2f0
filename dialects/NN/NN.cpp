//===- NN.cpp - Training tensor algebra -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"

#include "dialects/NN/Extent.h"

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
