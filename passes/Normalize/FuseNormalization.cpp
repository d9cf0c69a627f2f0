//===- FuseNormalization.cpp - Layer and RMS normalisation ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// c / sqrt(mean(c c) + epsilon) over trailing axes is an RMS normalisation of
// c, and a layer normalisation of x where c is x - mean(x). Scale and shift
// follow as a product and a sum. Variants: a product with the reciprocal of the
// root, means as products with 1 / n, no epsilon. A variance divided by n - 1
// is another function.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Fuse.h"

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// x if `value` is its mean over trailing axes.
static Value matchMean(Value value) {
  auto match = [](Value sum, std::optional<double> factor) {
    Value x = factor ? getRowReduction(sum, nn::ReduceKind::sum) : Value();
    if (!x)
      return Value();
    double count = 1;
    for (int64_t extent :
         typeOf(x).getShape().drop_front(typeOf(sum).getRank()))
      count *= static_cast<double>(extent);
    return isNear(*factor * count, 1) ? x : Value();
  };
  if (auto divide = value.getDefiningOp<arith::DivFOp>()) {
    std::optional<double> divisor = getSplat(divide.getRhs());
    return match(divide.getLhs(),
                 divisor ? std::optional(1 / *divisor) : std::nullopt);
  }
  if (auto multiply = value.getDefiningOp<arith::MulFOp>())
    for (auto [sum, factor] : bothOrders(multiply))
      if (Value x = match(sum, getSplat(factor)))
        return x;
  return Value();
}

namespace {
/// sqrt(mean(operand^2) + epsilon), one value per row.
struct Root {
  Value operand;
  double epsilon = 0;
};
} // namespace

static std::optional<Root> matchRoot(Value value) {
  auto root = value.getDefiningOp<math::SqrtOp>();
  if (!root)
    return std::nullopt;
  Value mean = root.getOperand();
  double epsilon = 0;
  if (auto add = mean.getDefiningOp<arith::AddFOp>())
    for (auto [term, constant] : bothOrders(add))
      if (std::optional<double> splat = getSplat(constant)) {
        mean = term;
        epsilon = *splat;
        break;
      }
  Value squares = matchMean(mean);
  auto multiply =
      squares ? squares.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!multiply || multiply.getLhs() != multiply.getRhs() || epsilon < 0)
    return std::nullopt;
  return Root{multiply.getLhs(), epsilon};
}

/// The root of `centered` by which the op divides it.
static std::optional<Root> matchQuotient(Operation *op) {
  auto rank = [](Value value) {
    auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
    return broadcast ? typeOf(broadcast.getOperand()).getRank() : 0;
  };
  auto check = [](std::optional<Root> root, Value centered) {
    return root && root->operand == centered ? root : std::nullopt;
  };
  if (auto divide = dyn_cast<arith::DivFOp>(op)) {
    Value rows = getRows(divide.getRhs(), rank(divide.getRhs()));
    return rows ? check(matchRoot(rows), divide.getLhs()) : std::nullopt;
  }
  if (isa<arith::MulFOp>(op))
    for (auto [centered, inverse] : bothOrders(op)) {
      Value rows = getRows(inverse, rank(inverse));
      auto divide =
          rows ? rows.getDefiningOp<arith::DivFOp>() : arith::DivFOp();
      if (divide && getSplat(divide.getLhs()) == 1.0)
        if (auto root = check(matchRoot(divide.getRhs()), centered))
          return root;
    }
  return std::nullopt;
}

/// x if `centered` is x - mean(x) over the axes from `axis` on.
static Value matchCentered(Value centered, int64_t axis) {
  auto subtract = centered.getDefiningOp<arith::SubFOp>();
  Value mean = subtract ? getRows(subtract.getRhs(), axis) : Value();
  return mean && matchMean(mean) == subtract.getLhs() ? subtract.getLhs()
                                                      : Value();
}

static nn::LayerNormOp createLayerNorm(Operation *at, Value x, Value scale,
                                       Value shift, bool isCentered,
                                       int64_t axis, double epsilon) {
  RankedTensorType type = typeOf(x);
  auto leading =
      RankedTensorType::get(type.getShape().take_front(axis),
                            type.getElementType(), type.getEncoding());
  OpBuilder builder(at);
  return nn::LayerNormOp::create(builder, at->getLoc(), type,
                                 isCentered ? leading : Type(), leading, x,
                                 scale, shift, axis, APFloat(epsilon));
}

bool Fuser::fuseLayerNorm(Operation *op) {
  std::optional<Root> root = matchQuotient(op);
  if (!root)
    return false;
  RankedTensorType type = typeOf(op->getResult(0));
  // The rank of the statistics, whichever operand they are.
  int64_t axis = 0;
  for (Value operand : op->getOperands())
    if (operand != root->operand)
      axis = typeOf(operand.getDefiningOp<nn::BroadcastOp>().getOperand())
                 .getRank();
  nn::BatchAttr batch = nn::getBatch(type);
  if (typeOf(root->operand) != type || axis >= type.getRank() ||
      (batch && batch.getAxis() >= axis))
    return false;
  Value centered = matchCentered(root->operand, axis);
  Value x = centered ? centered : root->operand;
  OpBuilder builder(op);
  Value scale =
      nn::Algebra(builder, op->getLoc())
          .constant(1, RankedTensorType::get(type.getShape().drop_front(axis),
                                             type.getElementType()));
  nn::LayerNormOp norm = createLayerNorm(op, x, scale, Value(), bool(centered),
                                         axis, root->epsilon);
  replace(op, norm.getResult(), norm, {x});
  return true;
}

/// The tensor of the trailing axes [axis, rank) that `value` repeats, reshaped
/// to them.
static Value getTrailing(Value value, int64_t axis, OpBuilder &builder) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return Value();
  Value operand = broadcast.getOperand();
  ArrayRef<int64_t> normalized = typeOf(value).getShape().drop_front(axis);
  // Every trailing axis in full, and units before them.
  ArrayRef<int64_t> axes = broadcast.getAxes();
  size_t units = 0;
  while (units < axes.size() && axes[units] < axis)
    if (typeOf(operand).getDimSize(units++) != 1)
      return Value();
  if (typeOf(operand).getShape().drop_front(units) != normalized ||
      nn::getBatch(operand.getType()))
    return Value();
  return nn::Algebra(builder, value.getLoc())
      .reshape(operand, RankedTensorType::get(
                            normalized, typeOf(operand).getElementType()));
}

bool Fuser::fuseScaleAndShift(Operation *op) {
  if (!isa<arith::MulFOp, arith::AddFOp>(op))
    return false;
  for (auto [normalized, by] : bothOrders(op)) {
    auto norm = normalized.getDefiningOp<nn::LayerNormOp>();
    if (!norm || normalized != norm.getResult() || !normalized.hasOneUse() ||
        norm.getShift())
      continue;
    bool isScale = isa<arith::MulFOp>(op);
    if (isScale && getSplat(norm.getScale()) != 1.0)
      continue;
    OpBuilder builder(op);
    Value tensor = getTrailing(by, norm.getAxis(), builder);
    if (!tensor)
      continue;
    nn::LayerNormOp whole = createLayerNorm(
        op, norm.getOperand(), isScale ? tensor : norm.getScale(),
        isScale ? Value() : tensor, bool(norm.getMean()), norm.getAxis(),
        norm.getEpsilon().convertToDouble());
    // The statistics may have been read.
    if (norm.getMean())
      norm.getMean().replaceAllUsesWith(whole.getMean());
    norm.getInverseDeviation().replaceAllUsesWith(whole.getInverseDeviation());
    replace(op, whole.getResult(), whole,
            {norm.getOperand(), norm.getScale(), tensor, by});
    norm.erase();
    return true;
  }
  return false;
}
