//===- Fuse.cpp - Puts together what exporters take apart -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Fuse.h"

#include "dialects/NN/NN.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

/// Names of the nodes that a composite was made of, until they are reported.
static constexpr StringLiteral kNodesAttr = "nn.nodes";

std::optional<double> harmony::normalize::getSplat(Value value) {
  if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>())
    value = broadcast.getOperand();
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat() ||
      !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APFloat>().convertToDouble();
}

bool harmony::normalize::isNear(double a, double b) {
  return std::fabs(a - b) <= 1e-6 * std::fabs(b);
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value harmony::normalize::getRows(Value value, int64_t axis) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return Value();
  RankedTensorType type = typeOf(value), from = typeOf(broadcast.getOperand());
  bool isLeading =
      from.getRank() == axis &&
      llvm::equal(broadcast.getAxes(), llvm::seq<int64_t>(0, axis)) &&
      from.getShape() == type.getShape().take_front(axis);
  return isLeading ? broadcast.getOperand() : Value();
}

Value harmony::normalize::getRowReduction(Value value, nn::ReduceKind kind) {
  auto reduce = value.getDefiningOp<nn::ReduceOp>();
  if (!reduce || reduce.getKind() != kind)
    return Value();
  SmallVector<int64_t> axes(reduce.getAxes());
  llvm::sort(axes);
  return llvm::equal(axes,
                     llvm::seq<int64_t>(typeOf(value).getRank(),
                                        typeOf(reduce.getOperand()).getRank()))
             ? reduce.getOperand()
             : Value();
}

SmallVector<std::pair<Value, Value>, 2>
harmony::normalize::bothOrders(Operation *op) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  return {{a, b}, {b, a}};
}

//===----------------------------------------------------------------------===//
// Unit axes
//===----------------------------------------------------------------------===//

/// The axis of the result that each axis of the operand became, if all other
/// axes of the result are units.
static std::optional<SmallVector<int64_t>> getKeptAxes(nn::ReshapeOp reshape) {
  RankedTensorType from = typeOf(reshape.getOperand()),
                   to = typeOf(reshape.getResult());
  SmallVector<int64_t> kept;
  for (int64_t axis = 0; axis < to.getRank(); ++axis) {
    size_t next = kept.size();
    if (next < static_cast<size_t>(from.getRank()) &&
        from.getDimSize(next) == to.getDimSize(axis))
      kept.push_back(axis);
    else if (to.getDimSize(axis) != 1)
      return std::nullopt;
  }
  if (kept.size() != static_cast<size_t>(from.getRank()))
    return std::nullopt;
  return kept;
}

/// A scalar constant that `value` repeats.
static Value getScalarConstant(Value value) {
  if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>())
    value = broadcast.getOperand();
  DenseElementsAttr elements;
  return typeOf(value).getRank() == 0 &&
                 matchPattern(value, m_Constant(&elements))
             ? value
             : Value();
}

static void sinkThrough(Operation *op) {
  nn::ReshapeOp source;
  for (Value operand : op->getOperands()) {
    auto reshape = operand.getDefiningOp<nn::ReshapeOp>();
    if (!reshape) {
      if (!getScalarConstant(operand))
        return;
      continue;
    }
    if (!getKeptAxes(reshape) ||
        (source && (typeOf(source.getOperand()).getShape() !=
                        typeOf(reshape.getOperand()).getShape() ||
                    getKeptAxes(source) != getKeptAxes(reshape))))
      return;
    source = reshape;
  }
  if (!source || source.getOperand().getType() == source.getType())
    return;
  OpBuilder builder(op);
  nn::Algebra algebra(builder, op->getLoc());
  RankedTensorType shape = typeOf(source.getOperand());
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (auto reshape = operand.getDefiningOp<nn::ReshapeOp>()) {
      operands.push_back(reshape.getOperand());
      continue;
    }
    Value scalar = getScalarConstant(operand);
    operands.push_back(algebra.broadcast(
        scalar, {},
        nn::withElementType(shape, typeOf(scalar).getElementType())));
  }
  RankedTensorType type = typeOf(op->getResult(0));
  Operation *moved = builder.create(
      op->getLoc(), op->getName().getIdentifier(), operands,
      nn::withElementType(shape, type.getElementType()), op->getAttrs());
  op->getResult(0).replaceAllUsesWith(
      algebra.reshape(moved->getResult(0), type));
  op->erase();
}

/// broadcast(reshape(x)) is broadcast(x).
static void readThroughReshape(nn::BroadcastOp broadcast) {
  auto reshape = broadcast.getOperand().getDefiningOp<nn::ReshapeOp>();
  std::optional<SmallVector<int64_t>> kept;
  if (!reshape || !(kept = getKeptAxes(reshape)))
    return;
  for (int64_t &axis : *kept)
    axis = broadcast.getAxes()[axis];
  broadcast.getOperandMutable().assign(reshape.getOperand());
  broadcast.setAxes(*kept);
}

void harmony::normalize::sinkUnitAxes(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto broadcast = dyn_cast<nn::BroadcastOp>(op))
      readThroughReshape(broadcast);
    else if (op.hasTrait<OpTrait::Elementwise>() && op.getNumResults() == 1 &&
             isa<RankedTensorType>(op.getResult(0).getType()))
      sinkThrough(&op);
  }
}

//===----------------------------------------------------------------------===//
// The whole, and what it reports
//===----------------------------------------------------------------------===//

void Fuser::run() {
  sinkUnitAxes(block);
  for (Operation &op : llvm::make_early_inc_range(block))
    (void)(fuseGelu(&op) || fuseSigmoid(&op) || fuseLayerNorm(&op) ||
           fuseScaleAndShift(&op) || fuseSoftmax(&op) || fuseLogSoftmax(&op) ||
           fuseCrossEntropy(&op));
}

static StringAttr getNodeName(Location location) {
  StringAttr name;
  location->walk([&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (!named)
      return WalkResult::advance();
    name = named.getName();
    return WalkResult::interrupt();
  });
  return name;
}

void Fuser::replace(Operation *root, Value by, Operation *composite,
                    ArrayRef<Value> leaves) {
  llvm::SetVector<Operation *> parts;
  parts.insert(root);
  for (size_t i = 0; i < parts.size(); ++i)
    for (Value operand : parts[i]->getOperands())
      if (Operation *op = operand.getDefiningOp();
          op && !llvm::is_contained(leaves, operand) && !isa<nn::GetOp>(op) &&
          !op->hasTrait<OpTrait::ConstantLike>() && !getScalarConstant(operand))
        parts.insert(op);
  llvm::SetVector<Attribute> names;
  for (Operation *op : llvm::reverse(parts)) {
    if (auto nodes = op->getAttrOfType<ArrayAttr>(kNodesAttr))
      names.insert(nodes.begin(), nodes.end());
    else if (StringAttr name = getNodeName(op->getLoc()))
      names.insert(name);
  }
  composite->setAttr(kNodesAttr,
                     ArrayAttr::get(root->getContext(), names.getArrayRef()));
  root->getResult(0).replaceAllUsesWith(by);
  root->erase();
}

ArrayAttr Fuser::takeReport() {
  SmallVector<Attribute> report;
  MLIRContext *context = nullptr;
  for (Operation &op : block) {
    context = op.getContext();
    auto nodes = dyn_cast_or_null<ArrayAttr>(op.removeAttr(kNodesAttr));
    if (!nodes)
      continue;
    Builder attributes(context);
    report.push_back(attributes.getDictionaryAttr(
        {attributes.getNamedAttr("nodes", nodes),
         attributes.getNamedAttr(
             "op", attributes.getStringAttr(op.getName().getStringRef()))}));
  }
  return report.empty() ? ArrayAttr() : ArrayAttr::get(context, report);
}
