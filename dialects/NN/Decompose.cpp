//===- Decompose.cpp - What the composites of nn mean ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Decompose.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony::nn;

using Results = SmallVector<Value>;

/// exp(x - max x) * (1 / sum exp(x - max x))
static Results decomposeSoftmax(SoftmaxOp op, Algebra &algebra) {
  RankedTensorType type = Algebra::typeOf(op.getOperand());
  int64_t last = type.getRank() - 1;
  Value max = algebra.reduce(ReduceKind::max, op.getOperand(), {last});
  Value powers = algebra.exp(
      algebra.sub(op.getOperand(), algebra.broadcastLeading(max, type)));
  Value sum = algebra.sum(powers, last, last + 1);
  Value inverse = algebra.div(algebra.constant(1, Algebra::typeOf(sum)), sum);
  return {algebra.mul(powers, algebra.broadcastLeading(inverse, type))};
}

Value harmony::nn::normalize(Algebra &algebra, Value operand, Value mean,
                             Value inverseDeviation) {
  RankedTensorType type = Algebra::typeOf(operand);
  Value centered = algebra.sub(operand, algebra.broadcastLeading(mean, type));
  return algebra.mul(centered,
                     algebra.broadcastLeading(inverseDeviation, type));
}

Value harmony::nn::applyLayerNorm(Algebra &algebra, Value operand, Value scale,
                                  Value shift, Value mean,
                                  Value inverseDeviation) {
  RankedTensorType type = Algebra::typeOf(operand);
  Value result =
      algebra.mul(normalize(algebra, operand, mean, inverseDeviation),
                  algebra.broadcastTrailing(scale, type));
  return shift ? algebra.add(result, algebra.broadcastTrailing(shift, type))
               : result;
}

static Results decomposeLayerNorm(LayerNormOp op, Algebra &algebra) {
  RankedTensorType type = Algebra::typeOf(op.getOperand());
  int64_t axis = op.getAxis(), rank = type.getRank();
  double inverseCount =
      1.0 / RankedTensorType::get(type.getShape().drop_front(axis),
                                  type.getElementType())
                .getNumElements();
  Value mean =
      algebra.scale(algebra.sum(op.getOperand(), axis, rank), inverseCount);
  Value centered =
      algebra.sub(op.getOperand(), algebra.broadcastLeading(mean, type));
  Value variance = algebra.scale(
      algebra.sum(algebra.mul(centered, centered), axis, rank), inverseCount);
  RankedTensorType leading = Algebra::typeOf(variance);
  Value epsilon = algebra.constant(op.getEpsilon().convertToDouble(), leading);
  Value deviation = algebra.apply<math::SqrtOp>(algebra.add(variance, epsilon));
  Value inverse = algebra.div(algebra.constant(1, leading), deviation);
  return {applyLayerNorm(algebra, op.getOperand(), op.getScale(), op.getShift(),
                         mean, inverse),
          mean, inverse};
}

/// 0.5 * x * (1 + f(x)), f being erf(x / sqrt 2) or its tanh approximation.
static Results decomposeGelu(GeluOp op, Algebra &algebra) {
  Value operand = op.getOperand();
  Value inner;
  if (op.getTanh()) {
    Value cube = algebra.mul(algebra.mul(operand, operand), operand);
    Value argument = algebra.scale(
        algebra.add(operand, algebra.scale(cube, kGeluCubic)), kGeluScale);
    inner = algebra.apply<math::TanhOp>(argument);
  } else {
    inner = algebra.apply<math::ErfOp>(algebra.scale(operand, kInverseSqrt2));
  }
  Value one = algebra.constant(1, Algebra::typeOf(operand));
  return {algebra.mul(algebra.scale(operand, 0.5), algebra.add(one, inner))};
}

static Results decomposeCrossEntropy(CrossEntropyOp op, Algebra &algebra) {
  Value logits = op.getLogits(), labels = op.getLabels();
  RankedTensorType type = Algebra::typeOf(logits),
                   rows = Algebra::typeOf(op.getLosses());
  int64_t last = type.getRank() - 1;
  Value max = algebra.reduce(ReduceKind::max, logits, {last});
  Value powers =
      algebra.exp(algebra.sub(logits, algebra.broadcastLeading(max, type)));
  Value logSum = algebra.add(
      algebra.apply<math::LogOp>(algebra.sum(powers, last, last + 1)), max);

  // Picking the logit by comparison is exact: all other terms of the sum are
  // zero.
  RankedTensorType labelType = Algebra::typeOf(labels);
  RankedTensorType indexType =
      withElementType(type, labelType.getElementType());
  Value index =
      IotaOp::create(algebra.getBuilder(), algebra.getLoc(), indexType, last);
  Value isLabel = algebra.compare(arith::CmpIPredicate::eq, index,
                                  algebra.broadcastLeading(labels, indexType));
  Value picked =
      algebra.sum(algebra.select(isLabel, logits, algebra.constant(0, type)),
                  last, last + 1);
  Value losses = algebra.sub(logSum, picked);
  if (auto ignored = op.getIgnoreIndex()) {
    Value isIgnored = algebra.compare(arith::CmpIPredicate::eq, labels,
                                      algebra.integer(*ignored, labelType));
    losses = algebra.select(isIgnored, algebra.constant(0, rows), losses);
  }
  return {losses, logSum};
}

bool harmony::nn::isComposite(Operation *op) {
  return isa<SoftmaxOp, LayerNormOp, GeluOp, CrossEntropyOp>(op);
}

FailureOr<SmallVector<Value>> harmony::nn::decompose(Operation *op,
                                                     OpBuilder &builder) {
  Algebra algebra(builder, op->getLoc());
  return TypeSwitch<Operation *, FailureOr<Results>>(op)
      .Case(
          [&](SoftmaxOp softmax) { return decomposeSoftmax(softmax, algebra); })
      .Case([&](LayerNormOp norm) { return decomposeLayerNorm(norm, algebra); })
      .Case([&](GeluOp gelu) { return decomposeGelu(gelu, algebra); })
      .Case([&](CrossEntropyOp loss) {
        return decomposeCrossEntropy(loss, algebra);
      })
      .Default([](Operation *) { return failure(); });
}
