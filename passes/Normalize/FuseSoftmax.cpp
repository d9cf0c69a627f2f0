//===- FuseSoftmax.cpp - Sigmoid, softmax, its logarithm, cross entropy ---===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// softmax:       exp(z) / sum exp(z), z being x - max x or anything else
// log_softmax:   z - log sum exp(z), x - (log sum exp(x - max x) + max x), and
//                log softmax(x), which is finite where softmax(x) is 0
// cross_entropy: an element of log_softmax(x) for each row, picked by gather,
// or
//                as the sum of a product with, or a selection by, label ==
//                class
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Fuse.h"

#include "dialects/NN/NN.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t lastAxis(Value value) { return typeOf(value).getRank() - 1; }

//===----------------------------------------------------------------------===//
// Sigmoid
//===----------------------------------------------------------------------===//

/// x / (1 + exp(-x)) is x sigmoid(x), the numerator being 1 or anything else.
bool Fuser::fuseSigmoid(Operation *op) {
  auto divide = dyn_cast<arith::DivFOp>(op);
  auto add =
      divide ? divide.getRhs().getDefiningOp<arith::AddFOp>() : arith::AddFOp();
  if (!add)
    return false;
  for (auto [power, one] : bothOrders(add)) {
    auto exponential = power.getDefiningOp<math::ExpOp>();
    if (!exponential || getSplat(one) != 1.0)
      continue;
    Value x;
    Value exponent = exponential.getOperand();
    if (auto negate = exponent.getDefiningOp<arith::NegFOp>())
      x = negate.getOperand();
    else if (auto multiply = exponent.getDefiningOp<arith::MulFOp>()) {
      for (auto [factor, constant] : bothOrders(multiply))
        if (getSplat(constant) == -1.0)
          x = factor;
    }
    if (!x || x.getType() != divide.getType())
      continue;
    OpBuilder builder(op);
    auto sigmoid =
        nn::SigmoidOp::create(builder, op->getLoc(), divide.getType(), x);
    Value result = sigmoid;
    if (getSplat(divide.getLhs()) != 1.0)
      result = arith::MulFOp::create(builder, op->getLoc(), divide.getLhs(),
                                     sigmoid);
    replace(op, result, sigmoid, {x, divide.getLhs()});
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Softmax and its logarithm
//===----------------------------------------------------------------------===//

/// x if `value` is x - max x along the last axis, else `value`.
static Value readThroughShift(Value value) {
  auto subtract = value.getDefiningOp<arith::SubFOp>();
  if (!subtract)
    return value;
  Value x = subtract.getLhs(),
        largest = getRows(subtract.getRhs(), lastAxis(value));
  return largest && getRowReduction(largest, nn::ReduceKind::max) == x ? x
                                                                       : value;
}

/// z if `value` is sum exp(z) along the last axis of z.
static Value matchSumOfPowers(Value value) {
  Value powers = getRowReduction(value, nn::ReduceKind::sum);
  auto exponential =
      powers ? powers.getDefiningOp<math::ExpOp>() : math::ExpOp();
  return exponential && typeOf(value).getRank() == lastAxis(powers)
             ? exponential.getOperand()
             : Value();
}

static bool isNormalizable(Value value) {
  nn::BatchAttr batch = nn::getBatch(value.getType());
  return lastAxis(value) >= 0 && !(batch && batch.getAxis() == lastAxis(value));
}

bool Fuser::fuseSoftmax(Operation *op) {
  auto match = [&](Value powers, Value sum) {
    auto exponential = powers.getDefiningOp<math::ExpOp>();
    Value z = exponential && sum ? matchSumOfPowers(sum) : Value();
    return z && z == exponential.getOperand() ? z : Value();
  };
  Value z;
  if (auto divide = dyn_cast<arith::DivFOp>(op)) {
    z = match(divide.getLhs(),
              getRows(divide.getRhs(), lastAxis(divide.getResult())));
  } else if (auto multiply = dyn_cast<arith::MulFOp>(op)) {
    for (auto [powers, factor] : bothOrders(multiply))
      if (Value rows = getRows(factor, lastAxis(multiply.getResult())))
        if (auto inverse = rows.getDefiningOp<arith::DivFOp>();
            inverse && getSplat(inverse.getLhs()) == 1.0 && !z)
          z = match(powers, inverse.getRhs());
  }
  if (!z || !isNormalizable(z))
    return false;
  Value x = readThroughShift(z);
  OpBuilder builder(op);
  auto softmax = nn::SoftmaxOp::create(builder, op->getLoc(), x.getType(), x);
  replace(op, softmax, softmax, {x});
  return true;
}

/// The operand of a log_softmax that the op writes out.
static Value matchLogSoftmax(arith::SubFOp subtract) {
  Value z = subtract.getLhs(),
        rows = getRows(subtract.getRhs(), lastAxis(subtract.getResult()));
  if (!rows)
    return Value();
  if (auto logarithm = rows.getDefiningOp<math::LogOp>())
    return matchSumOfPowers(logarithm.getOperand()) == z ? readThroughShift(z)
                                                         : Value();
  auto add = rows.getDefiningOp<arith::AddFOp>();
  if (!add)
    return Value();
  for (auto [term, largest] : bothOrders(add)) {
    auto logarithm = term.getDefiningOp<math::LogOp>();
    Value shifted =
        logarithm ? matchSumOfPowers(logarithm.getOperand()) : Value();
    if (shifted && getRowReduction(largest, nn::ReduceKind::max) == z &&
        readThroughShift(shifted) == z)
      return z;
  }
  return Value();
}

bool Fuser::fuseLogSoftmax(Operation *op) {
  OpBuilder builder(op);
  if (auto subtract = dyn_cast<arith::SubFOp>(op)) {
    Value x = matchLogSoftmax(subtract);
    if (!x || !isNormalizable(x))
      return false;
    auto fused =
        nn::LogSoftmaxOp::create(builder, op->getLoc(), x.getType(), x);
    replace(op, fused, fused, {x});
    return true;
  }
  auto logarithm = dyn_cast<math::LogOp>(op);
  if (!logarithm)
    return false;
  // The logarithm of another arrangement of elements is the arrangement of the
  // logarithms.
  SmallVector<Operation *> views;
  Value value = logarithm.getOperand();
  for (Operation *view = value.getDefiningOp();
       isa_and_nonnull<nn::TransposeOp, nn::ReshapeOp, nn::SliceOp>(view);
       view = value.getDefiningOp()) {
    views.push_back(view);
    value = view->getOperand(0);
  }
  auto softmax = value.getDefiningOp<nn::SoftmaxOp>();
  if (!softmax)
    return false;
  Value x = softmax.getOperand();
  auto fused = nn::LogSoftmaxOp::create(builder, op->getLoc(), x.getType(), x);
  Value result = fused;
  for (Operation *view : llvm::reverse(views)) {
    IRMapping mapping;
    mapping.map(view->getOperand(0), result);
    result = builder.clone(*view, mapping)->getResult(0);
  }
  replace(op, result, fused, {x});
  return true;
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// Whether `value` is the index along its last axis.
static bool isClassIndex(Value value) {
  int64_t last = lastAxis(value);
  if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>()) {
    if (broadcast.getAxes().empty() || broadcast.getAxes().back() != last ||
        typeOf(broadcast.getOperand()).getNumElements() !=
            typeOf(value).getDimSize(last))
      return false;
    value = broadcast.getOperand();
  }
  if (auto iota = value.getDefiningOp<nn::IotaOp>())
    return static_cast<int64_t>(iota.getAxis()) == lastAxis(value);
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) ||
      !isa<IntegerType>(elements.getElementType()) ||
      elements.getNumElements() != typeOf(value).getShape().back())
    return false;
  int64_t next = 0;
  return llvm::all_of(elements.getValues<APInt>(), [&](const APInt &element) {
    return element.getSExtValue() == next++;
  });
}

/// The labels [R..] if `condition` is label == class, of shape [R.., C].
static Value matchIsLabel(Value condition) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq)
    return Value();
  for (auto [labels, classes] : bothOrders(compare))
    if (Value rows = getRows(labels, lastAxis(condition));
        rows && isClassIndex(classes))
      return rows;
  return Value();
}

/// The labels of a tensor that is 1 where label == class, else 0.
static Value matchOneHot(Value value) {
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return getSplat(select.getTrueValue()) == 1.0 &&
                   getSplat(select.getFalseValue()) == 0.0
               ? matchIsLabel(select.getCondition())
               : Value();
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::UIToFPOp, arith::SIToFPOp>(op))
    return Value();
  Value integer = op->getOperand(0);
  if (auto extend = integer.getDefiningOp<arith::ExtUIOp>())
    integer = extend.getIn();
  else if (isa<arith::SIToFPOp>(op))
    return Value(); // a boolean that is true would be -1
  return matchIsLabel(integer);
}

namespace {
/// The sum over classes of label == class ? sign * log_softmax : 0.
struct Picked {
  nn::LogSoftmaxOp source;
  Value labels;
  double sign = 1;
};
} // namespace

static std::optional<Picked> matchPicked(Value value) {
  auto source = [](Value scores, Value labels) -> std::optional<Picked> {
    double sign = 1;
    if (auto negate = scores.getDefiningOp<arith::NegFOp>()) {
      scores = negate.getOperand();
      sign = -1;
    }
    auto softmax = scores.getDefiningOp<nn::LogSoftmaxOp>();
    if (!softmax || !labels)
      return std::nullopt;
    return Picked{softmax, labels, sign};
  };
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return getSplat(select.getFalseValue()) == 0.0
               ? source(select.getTrueValue(),
                        matchIsLabel(select.getCondition()))
               : std::nullopt;
  if (auto multiply = value.getDefiningOp<arith::MulFOp>())
    for (auto [hot, scores] : bothOrders(multiply))
      if (auto picked = source(scores, matchOneHot(hot)))
        return picked;
  return std::nullopt;
}

/// -log_softmax(x)[label] of each row.
static nn::CrossEntropyOp createCrossEntropy(OpBuilder &builder, Location loc,
                                             Value x, Value labels) {
  RankedTensorType type = typeOf(x);
  auto rows =
      cast<RankedTensorType>(*nn::inferReduce(type, {type.getRank() - 1}));
  return nn::CrossEntropyOp::create(builder, loc, rows, rows, x, labels,
                                    IntegerAttr());
}

bool Fuser::fuseCrossEntropy(Operation *op) {
  OpBuilder builder(op);
  nn::Algebra algebra(builder, op->getLoc());
  if (auto gather = dyn_cast<nn::GatherOp>(op)) {
    auto softmax = gather.getOperand().getDefiningOp<nn::LogSoftmaxOp>();
    if (!softmax)
      return false;
    RankedTensorType type = typeOf(softmax), picked = typeOf(gather);
    int64_t last = type.getRank() - 1;
    auto rows = cast<RankedTensorType>(*nn::inferReduce(type, {last}));
    // One index for each row.
    if (static_cast<int64_t>(gather.getAxis()) != last ||
        static_cast<int64_t>(gather.getBatchDims()) != last ||
        picked.getShape().take_front(last) != rows.getShape() ||
        llvm::any_of(picked.getShape().drop_front(last),
                     [](int64_t extent) { return extent != 1; }))
      return false;
    Value labels = gather.getIndices();
    RankedTensorType labelType =
        nn::withElementType(rows, typeOf(labels).getElementType());
    if (auto reshape = labels.getDefiningOp<nn::ReshapeOp>();
        reshape && reshape.getOperand().getType() == labelType)
      labels = reshape.getOperand();
    labels = algebra.reshape(labels, labelType);
    nn::CrossEntropyOp entropy =
        createCrossEntropy(builder, op->getLoc(), softmax.getOperand(), labels);
    replace(op, algebra.reshape(algebra.neg(entropy.getLosses()), picked),
            entropy, {softmax.getOperand(), gather.getIndices()});
    return true;
  }

  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce || reduce.getKind() != nn::ReduceKind::sum)
    return false;
  int64_t last = lastAxis(reduce.getOperand());
  SmallVector<int64_t> others(reduce.getAxes());
  auto classes = llvm::find(others, last);
  if (classes == others.end())
    return false;
  others.erase(classes);
  std::optional<Picked> picked = matchPicked(reduce.getOperand());
  if (!picked)
    return false;
  // A label that is no class picks nothing.
  RankedTensorType labelType = typeOf(picked->labels);
  Value x = picked->source.getOperand();
  Value isClass =
      algebra.compare(arith::CmpIPredicate::ult, picked->labels,
                      algebra.integer(typeOf(x).getDimSize(last), labelType));
  Value labels =
      algebra.select(isClass, picked->labels, algebra.integer(0, labelType));
  nn::CrossEntropyOp entropy =
      createCrossEntropy(builder, op->getLoc(), x, labels);
  Value losses = entropy.getLosses();
  losses = algebra.select(isClass, losses, algebra.constant(0, typeOf(losses)));
  if (picked->sign > 0)
    losses = algebra.neg(losses);
  replace(op, algebra.reduce(nn::ReduceKind::sum, losses, others), entropy,
          {x, picked->labels});
  return true;
}
