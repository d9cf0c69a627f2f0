//===- Decompose.cpp - What the composites of nn mean ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Decompose.h"

#include "dialects/NN/Window.h"

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

static Results decomposeLogSoftmax(LogSoftmaxOp op, Algebra &algebra) {
  RankedTensorType type = Algebra::typeOf(op.getOperand());
  int64_t last = type.getRank() - 1;
  Value max = algebra.reduce(ReduceKind::max, op.getOperand(), {last});
  Value shifted =
      algebra.sub(op.getOperand(), algebra.broadcastLeading(max, type));
  Value logSum = algebra.apply<math::LogOp>(
      algebra.sum(algebra.exp(shifted), last, last + 1));
  return {algebra.sub(shifted, algebra.broadcastLeading(logSum, type))};
}

Value harmony::nn::normalize(Algebra &algebra, Value operand, Value mean,
                             Value inverseDeviation) {
  RankedTensorType type = Algebra::typeOf(operand);
  Value centered =
      mean ? algebra.sub(operand, algebra.broadcastLeading(mean, type))
           : operand;
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
  Value mean, centered = op.getOperand();
  if (op.getMean()) {
    mean = algebra.scale(algebra.sum(centered, axis, rank), inverseCount);
    centered = algebra.sub(centered, algebra.broadcastLeading(mean, type));
  }
  Value variance = algebra.scale(
      algebra.sum(algebra.mul(centered, centered), axis, rank), inverseCount);
  RankedTensorType leading = Algebra::typeOf(variance);
  Value epsilon = algebra.constant(op.getEpsilon().convertToDouble(), leading);
  Value deviation = algebra.apply<math::SqrtOp>(algebra.add(variance, epsilon));
  Value inverse = algebra.div(algebra.constant(1, leading), deviation);
  Value result = applyLayerNorm(algebra, op.getOperand(), op.getScale(),
                                op.getShift(), mean, inverse);
  return mean ? Results{result, mean, inverse} : Results{result, inverse};
}

Value harmony::nn::applyBatchNorm(Algebra &algebra, Value operand, Value scale,
                                  Value shift, Value mean,
                                  Value inverseDeviation) {
  RankedTensorType type = Algebra::typeOf(operand);
  auto spread = [&](Value value) {
    return algebra.broadcastTrailing(value, type);
  };
  Value normalized =
      algebra.mul(algebra.sub(operand, spread(mean)), spread(inverseDeviation));
  return algebra.add(algebra.mul(normalized, spread(scale)), spread(shift));
}

static Results decomposeBatchNorm(BatchNormOp op, Algebra &algebra) {
  Value operand = op.getOperand();
  RankedTensorType type = Algebra::typeOf(operand),
                   channels = Algebra::typeOf(op.getScale());
  int64_t last = type.getRank() - 1;
  Value count = algebra.count(
      type, llvm::to_vector(llvm::seq<int64_t>(0, last)), channels);
  Value mean = algebra.div(algebra.sum(operand, 0, last), count);
  Value centered = algebra.sub(operand, algebra.broadcastTrailing(mean, type));
  Value variance =
      algebra.div(algebra.sum(algebra.mul(centered, centered), 0, last), count);
  Value epsilon = algebra.constant(op.getEpsilon().convertToDouble(), channels);
  Value deviation = algebra.apply<math::SqrtOp>(algebra.add(variance, epsilon));
  Value inverse = algebra.div(algebra.constant(1, channels), deviation);
  return {applyBatchNorm(algebra, operand, op.getScale(), op.getShift(), mean,
                         inverse),
          mean, variance, inverse};
}

static Results decomposeDepthwise(DepthwiseOp op, Algebra &algebra) {
  RankedTensorType type = Algebra::typeOf(op.getResult());
  Value sum;
  for (ArrayRef<int64_t> offset : getOffsets(op)) {
    Value weights =
        algebra.broadcastTrailing(weightsAt(algebra, op, offset), type);
    Value product =
        algebra.mul(sliceAt(algebra, op, op.getOperand(), offset), weights);
    sum = sum ? algebra.add(sum, product) : product;
  }
  return {sum};
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

static Results decomposeSigmoid(SigmoidOp op, Algebra &algebra) {
  Value one = algebra.constant(1, Algebra::typeOf(op.getOperand()));
  return {algebra.div(
      one, algebra.add(one, algebra.exp(algebra.neg(op.getOperand()))))};
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

Value harmony::nn::philox(Algebra &algebra, std::array<Value, 4> counter,
                          std::array<Value, 2> key) {
  constexpr int64_t kMultipliers[2] = {0xD2511F53, 0xCD9E8D57},
                    kIncrements[2] = {0x9E3779B9, 0xBB67AE85};
  constexpr int kRounds = 10;
  RankedTensorType type = Algebra::typeOf(counter[0]);
  auto word = [&](Value value) {
    return algebra.apply<arith::AndIOp>(value,
                                        algebra.integer(0xFFFFFFFF, type));
  };
  auto mix = [&](Value a, Value b, Value c) {
    return algebra.apply<arith::XOrIOp>(algebra.apply<arith::XOrIOp>(a, b), c);
  };
  for (int round = 0; round < kRounds; ++round) {
    Value high[2], low[2];
    for (int i = 0; i < 2; ++i) {
      Value product = algebra.apply<arith::MulIOp>(
          counter[2 * i], algebra.integer(kMultipliers[i], type));
      high[i] =
          algebra.apply<arith::ShRUIOp>(product, algebra.integer(32, type));
      low[i] = word(product);
    }
    counter = {mix(high[1], counter[1], key[0]), low[1],
               mix(high[0], counter[3], key[1]), low[0]};
    for (int i = 0; i < 2; ++i)
      key[i] = word(algebra.apply<arith::AddIOp>(
          key[i], algebra.integer(kIncrements[i], type)));
  }
  return counter[0];
}

static Results decomposeRandom(RandomOp op, Algebra &algebra) {
  RankedTensorType type = Algebra::typeOf(op.getResult()),
                   keys = Algebra::typeOf(op.getKeys());
  int64_t batchAxis = op.getAxis();
  auto broadcastKey = [&](int64_t column) {
    SmallVector<int64_t> one{keys.getDimSize(0), 1};
    auto sliced =
        RankedTensorType::get(one, keys.getElementType(), keys.getEncoding());
    auto flat = RankedTensorType::get(keys.getDimSize(0), keys.getElementType(),
                                      keys.getEncoding());
    Value value = algebra.slice(op.getKeys(), {0, column}, {1, 1}, sliced);
    return algebra.broadcast(algebra.reshape(value, flat), {batchAxis}, type);
  };
  auto low = [&](Value value) {
    return algebra.apply<arith::AndIOp>(value,
                                        algebra.integer(0xFFFFFFFF, type));
  };
  Value element = algebra.integer(0, type);
  int64_t stride = 1;
  for (int64_t axis = type.getRank(); axis-- > 0;) {
    if (axis == batchAxis)
      continue;
    Value index =
        IotaOp::create(algebra.getBuilder(), algebra.getLoc(), type, axis);
    element = algebra.apply<arith::AddIOp>(
        element,
        algebra.apply<arith::MulIOp>(index, algebra.integer(stride, type)));
    stride *= type.getDimSize(axis);
  }
  Value seed = broadcastKey(2);
  Value seedHigh =
      algebra.apply<arith::ShRUIOp>(seed, algebra.integer(32, type));
  Value stream = algebra.broadcast(op.getStream(), {}, type);
  return {philox(
      algebra,
      {low(element), low(broadcastKey(0)), low(broadcastKey(1)), seedHigh},
      {low(seed), low(stream)})};
}

bool harmony::nn::isComposite(Operation *op) {
  return isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, BatchNormOp, GeluOp,
             SigmoidOp, CrossEntropyOp, RandomOp, DepthwiseOp>(op);
}

FailureOr<SmallVector<Value>> harmony::nn::decompose(Operation *op,
                                                     OpBuilder &builder) {
  Algebra algebra(builder, op->getLoc());
  return TypeSwitch<Operation *, FailureOr<Results>>(op)
      .Case(
          [&](SoftmaxOp softmax) { return decomposeSoftmax(softmax, algebra); })
      .Case([&](LogSoftmaxOp softmax) {
        return decomposeLogSoftmax(softmax, algebra);
      })
      .Case([&](LayerNormOp norm) { return decomposeLayerNorm(norm, algebra); })
      .Case([&](BatchNormOp norm) { return decomposeBatchNorm(norm, algebra); })
      .Case([&](DepthwiseOp convolution) {
        return decomposeDepthwise(convolution, algebra);
      })
      .Case([&](GeluOp gelu) { return decomposeGelu(gelu, algebra); })
      .Case(
          [&](SigmoidOp sigmoid) { return decomposeSigmoid(sigmoid, algebra); })
      .Case([&](CrossEntropyOp loss) {
        return decomposeCrossEntropy(loss, algebra);
      })
      .Case([&](RandomOp random) { return decomposeRandom(random, algebra); })
      .Default([](Operation *) { return failure(); });
}
