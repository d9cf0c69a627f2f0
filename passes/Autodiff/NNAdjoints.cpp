//===- NNAdjoints.cpp - Adjoints of nn ops --------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Adjoints.h"

#include "dialects/NN/Decompose.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using namespace harmony::nn;

static SmallVector<int64_t> range(int64_t from, int64_t to) {
  return llvm::to_vector(llvm::seq(from, to));
}

static bool isUnit(RankedTensorType type, int64_t axis) {
  return type.getDimSize(axis) == 1;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// What was repeated is summed.
static void broadcastRule(BroadcastOp op, AdjointContext &a) {
  RankedTensorType from = Algebra::typeOf(op.getOperand()),
                   to = Algebra::typeOf(op.getResult());
  SmallVector<int64_t> axes = range(0, to.getRank());
  for (auto [index, axis] : llvm::enumerate(op.getAxes()))
    if (!isUnit(from, index) || isUnit(to, axis))
      llvm::erase(axes, axis);
  a.contribute(
      0, a.reshape(a.reduce(ReduceKind::sum, a.cotangent(0), axes), from));
}

static void reshapeRule(ReshapeOp op, AdjointContext &a) {
  a.contribute(0, a.reshape(a.cotangent(0), Algebra::typeOf(op.getOperand())));
}

static void transposeRule(TransposeOp op, AdjointContext &a) {
  SmallVector<int64_t> inverse(op.getPermutation().size());
  for (auto [index, axis] : llvm::enumerate(op.getPermutation()))
    inverse[axis] = index;
  a.contribute(0, a.transpose(a.cotangent(0), inverse));
}

/// Puts the elements back where they were, reversed first along negative
/// strides.
static void sliceRule(SliceOp op, AdjointContext &a) {
  RankedTensorType from = Algebra::typeOf(op.getOperand()),
                   to = Algebra::typeOf(op.getResult());
  int64_t rank = to.getRank();
  SmallVector<int64_t> reverseStarts(rank, 0), reverseStrides(rank, 1),
      low(op.getStarts()), interior(rank);
  bool reversed = false;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t stride = op.getStrides()[axis];
    interior[axis] = std::abs(stride) - 1;
    if (stride > 0)
      continue;
    reversed = true;
    int64_t last = to.getDimSize(axis) - 1;
    reverseStarts[axis] = last;
    reverseStrides[axis] = -1;
    low[axis] += last * stride;
  }
  Value value = a.cotangent(0);
  if (reversed)
    value = a.slice(value, reverseStarts, reverseStrides, to);
  Value zero = a.constant(0, RankedTensorType::get({}, from.getElementType()));
  a.contribute(0, PadOp::create(a.getBuilder(), a.getLoc(), from, value, zero,
                                low, interior));
}

static void padRule(PadOp op, AdjointContext &a) {
  RankedTensorType from = Algebra::typeOf(op.getOperand()),
                   to = Algebra::typeOf(op.getResult());
  Value d = a.cotangent(0);
  if (a.isNeeded(0)) {
    SmallVector<int64_t> strides(op.getInterior());
    for (int64_t &stride : strides)
      ++stride;
    a.contribute(0, a.slice(d, op.getLow(), strides, from));
  }
  if (a.isNeeded(1)) {
    Value one = a.constant(1, Algebra::typeOf(op.getFill()));
    Value isFill =
        PadOp::create(a.getBuilder(), a.getLoc(), to, a.constant(0, from), one,
                      op.getLow(), op.getInterior());
    a.contribute(1, a.sum(a.mul(d, isFill), 0, to.getRank()));
  }
}

static void concatRule(ConcatOp op, AdjointContext &a) {
  int64_t axis = op.getAxis(), rank = Algebra::typeOf(op.getResult()).getRank();
  SmallVector<int64_t> starts(rank, 0), strides(rank, 1);
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    RankedTensorType type = Algebra::typeOf(operand);
    if (a.isNeeded(index))
      a.contribute(index, a.slice(a.cotangent(0), starts, strides, type));
    starts[axis] += type.getDimSize(axis);
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

namespace {
struct ReduceModel : AutodiffOpInterface::ExternalModel<ReduceModel, ReduceOp> {
  void buildAdjoint(Operation *op, AdjointContext &a) const {
    auto reduce = cast<ReduceOp>(op);
    RankedTensorType type = Algebra::typeOf(reduce.getOperand());
    SmallVector<int64_t> kept = range(0, type.getRank());
    for (int64_t axis : reduce.getAxes())
      llvm::erase(kept, axis);
    if (reduce.getKind() == ReduceKind::sum) {
      a.contribute(0, a.broadcast(a.cotangent(0), kept, type));
      return;
    }
    // Elements that share the maximum or minimum share its gradient equally, as
    // in PyTorch's amax.
    Value operand = a.primal(reduce.getOperand());
    Value extreme = a.broadcast(a.primal(reduce.getResult()), kept, type);
    Value isExtreme = a.compare(arith::CmpFPredicate::OEQ, operand, extreme),
          zero = a.constant(0, type);
    Value count = a.reduce(ReduceKind::sum,
                           a.select(isExtreme, a.constant(1, type), zero),
                           reduce.getAxes());
    Value share = a.broadcast(a.div(a.cotangent(0), count), kept, type);
    a.contribute(0, a.select(isExtreme, a.term(share), zero));
  }
};

/// One operand of a product and, for each of its axes, the axis of the gradient
/// that it becomes; -1 where it is contracted.
struct Factor {
  Value value;
  SmallVector<int64_t> batch, contract, labels;
};
} // namespace

/// The axes of the gradient in the order in which the product of two factors
/// has them.
static SmallVector<int64_t> getLabels(const Factor &lhs, const Factor &rhs) {
  SmallVector<int64_t> labels;
  for (int64_t axis : lhs.batch)
    labels.push_back(lhs.labels[axis]);
  for (const Factor *factor : {&lhs, &rhs})
    for (auto [axis, label] : llvm::enumerate(factor->labels))
      if (label >= 0 &&
          !llvm::is_contained(factor->batch, static_cast<int64_t>(axis)))
        labels.push_back(label);
  return labels;
}

/// The product with its axes in the order of their labels: of both orders of
/// the factors, the one that needs no transposition where there is one.
static Value multiply(AdjointContext &a, const Factor &lhs, const Factor &rhs) {
  SmallVector<int64_t> labels = getLabels(lhs, rhs);
  const Factor *first = &lhs, *second = &rhs;
  if (SmallVector<int64_t> swapped = getLabels(rhs, lhs);
      !llvm::is_sorted(labels) && llvm::is_sorted(swapped)) {
    labels = swapped;
    std::swap(first, second);
  }
  auto type = inferDotGeneral(Algebra::typeOf(first->value),
                              Algebra::typeOf(second->value), first->batch,
                              second->batch, first->contract, second->contract);
  assert(succeeded(type) &&
         "factors of a gradient fit if those of the forward do");
  Value product = DotGeneralOp::create(
      a.getBuilder(), a.getLoc(), *type, first->value, second->value,
      first->batch, second->batch, first->contract, second->contract);
  SmallVector<int64_t> permutation(labels.size());
  for (auto [index, label] : llvm::enumerate(labels))
    permutation[label] = index;
  return a.transpose(product, permutation);
}

/// Gradient of one factor: the cotangent times the other factor, contracted
/// over the other's free axes. A weight's gradient thereby contracts over the
/// microbatch.
static void dotRule(DotGeneralOp op, AdjointContext &a) {
  SmallVector<int64_t> batch[2] = {SmallVector<int64_t>(op.getLhsBatch()),
                                   SmallVector<int64_t>(op.getRhsBatch())};
  SmallVector<int64_t> contract[2] = {
      SmallVector<int64_t>(op.getLhsContract()),
      SmallVector<int64_t>(op.getRhsContract())};
  SmallVector<int64_t> free[2];
  for (int side : {0, 1})
    for (int64_t axis :
         range(0, Algebra::typeOf(op->getOperand(side)).getRank()))
      if (!llvm::is_contained(batch[side], axis) &&
          !llvm::is_contained(contract[side], axis))
        free[side].push_back(axis);
  int64_t batches = batch[0].size(), lhsFree = free[0].size(),
          rhsFree = free[1].size();
  SmallVector<int64_t> cotangentFree[2] = {
      range(batches, batches + lhsFree),
      range(batches + lhsFree, batches + lhsFree + rhsFree)};
  for (int side : {0, 1}) {
    if (!a.isNeeded(side))
      continue;
    int other = 1 - side;
    Factor cotangent{a.cotangent(0), range(0, batches), cotangentFree[other],
                     SmallVector<int64_t>(batches + lhsFree + rhsFree, -1)};
    for (auto [axis, label] : llvm::zip(cotangent.batch, batch[side]))
      cotangent.labels[axis] = label;
    for (auto [axis, label] : llvm::zip(cotangentFree[side], free[side]))
      cotangent.labels[axis] = label;
    Factor factor{a.primal(op->getOperand(other)), batch[other], free[other],
                  SmallVector<int64_t>(
                      Algebra::typeOf(op->getOperand(other)).getRank(), -1)};
    for (auto [axis, label] : llvm::zip(batch[other], batch[side]))
      factor.labels[axis] = label;
    for (auto [axis, label] : llvm::zip(contract[other], contract[side]))
      factor.labels[axis] = label;
    a.contribute(side, multiply(a, cotangent, factor));
  }
}

static void gatherRule(GatherOp op, AdjointContext &a) {
  Value updates = a.cotangent(0), indices = a.primal(op.getIndices());
  if (auto padding = op->getAttrOfType<IntegerAttr>(kPaddingAttr)) {
    RankedTensorType type = Algebra::typeOf(updates),
                     index = Algebra::typeOf(indices);
    Value isPadding = a.compare(arith::CmpIPredicate::eq, indices,
                                a.integer(padding.getInt(), index));
    Value everywhere = a.broadcastLeading(
        isPadding, withElementType(type, a.getBuilder().getI1Type()));
    updates = a.select(everywhere, a.constant(0, type), updates);
  }
  a.contribute(0, ScatterAddOp::create(
                      a.getBuilder(), a.getLoc(), op.getOperand().getType(),
                      indices, updates, op.getAxis(), op.getBatchDims()));
}

static void scatterAddRule(ScatterAddOp op, AdjointContext &a) {
  a.contribute(1, GatherOp::create(a.getBuilder(), a.getLoc(),
                                   op.getUpdates().getType(), a.cotangent(0),
                                   a.primal(op.getIndices()), op.getAxis(),
                                   op.getBatchDims()));
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

/// (d - sum(d r)) r
static void softmaxRule(SoftmaxOp op, AdjointContext &a) {
  Value r = a.primal(op.getResult()), d = a.cotangent(0);
  RankedTensorType type = Algebra::typeOf(r);
  int64_t last = type.getRank() - 1;
  Value mean = a.broadcastLeading(a.sum(a.mul(d, r), last, last + 1), type);
  a.contribute(0, a.mul(a.sub(d, a.term(mean)), r));
}

/// d - exp(r) sum(d)
static void logSoftmaxRule(LogSoftmaxOp op, AdjointContext &a) {
  Value r = a.primal(op.getResult()), d = a.cotangent(0);
  RankedTensorType type = Algebra::typeOf(r);
  int64_t last = type.getRank() - 1;
  Value total = a.broadcastLeading(a.sum(d, last, last + 1), type);
  a.contribute(0, a.sub(d, a.term(a.mul(a.exp(r), total))));
}

/// With n = (x - mean) * inverse, g = d * scale and means over the normalised
/// axes: dx = inverse * (g - mean(g) - n * mean(g * n)), dscale = sum(d * n),
/// dshift = sum(d). Where no mean is subtracted, mean(g) is left out.
static void layerNormRule(LayerNormOp op, AdjointContext &a) {
  RankedTensorType type = Algebra::typeOf(op.getOperand()),
                   leading = Algebra::typeOf(op.getInverseDeviation());
  int64_t axis = op.getAxis(), rank = type.getRank();
  int64_t count = Algebra::typeOf(op.getScale()).getNumElements();
  Value mean = op.getMean();
  Value d = a.cotangent(0), dMean = mean ? a.cotangent(1) : Value(),
        dInverse = a.cotangent(mean ? 2 : 1);
  auto readInverse = [&] { return a.primal(op.getInverseDeviation()); };
  auto readNormalized = [&] {
    return normalize(a, a.primal(op.getOperand()),
                     mean ? a.primal(mean) : Value(), readInverse());
  };
  if (d && a.isNeeded(0)) {
    Value n = readNormalized();
    Value g = a.mul(d, a.broadcastTrailing(a.primal(op.getScale()), type));
    Value meanGN = a.broadcastLeading(
        a.scale(a.sum(a.mul(g, n), axis, rank), 1.0 / count), type);
    Value centered = g;
    if (mean)
      centered =
          a.sub(g, a.term(a.broadcastLeading(
                       a.scale(a.sum(g, axis, rank), 1.0 / count), type)));
    centered = a.sub(centered, a.term(a.mul(n, meanGN)));
    a.contribute(0, a.mul(a.broadcastLeading(readInverse(), type), centered));
  }
  if (dMean && a.isNeeded(0))
    a.contribute(0, a.broadcastLeading(a.scale(dMean, 1.0 / count), type));
  if (dInverse && a.isNeeded(0)) {
    Value inverse = readInverse();
    Value factor =
        a.mul(a.scale(dInverse, -1.0 / count), a.mul(inverse, inverse));
    a.contribute(0, a.mul(readNormalized(), a.broadcastLeading(factor, type)));
  }
  if (d && a.isNeeded(1))
    a.contribute(1, a.sum(a.mul(d, readNormalized()), 0, leading.getRank()));
  if (d && op.getShift() && a.isNeeded(2))
    a.contribute(2, a.sum(d, 0, leading.getRank()));
}

/// With n = (x - mean) * inverse, means over all axes but the channels': dshift
/// = sum(d), dscale = sum(d * n), dx = inverse * scale * (d - mean(d) - n *
/// mean(d
/// * n)). The variance moves by 2 (x - mean) / count, the inverse deviation by
/// -inverse^3 / 2 of that.
static void batchNormRule(BatchNormOp op, AdjointContext &a) {
  RankedTensorType type = Algebra::typeOf(op.getOperand()),
                   channels = Algebra::typeOf(op.getScale());
  int64_t last = type.getRank() - 1;
  Value d = a.cotangent(0), dMean = a.cotangent(1), dVariance = a.cotangent(2),
        dInverse = a.cotangent(3);
  auto spread = [&](Value value) { return a.broadcastTrailing(value, type); };
  auto count = [&] { return a.count(type, range(0, last), channels); };
  auto readInverse = [&] { return a.primal(op.getInverseDeviation()); };
  auto readCentered = [&] {
    return a.sub(a.primal(op.getOperand()), spread(a.primal(op.getMean())));
  };
  if (d) {
    Value n = a.mul(readCentered(), spread(readInverse()));
    Value sum = a.sum(d, 0, last), weighted = a.sum(a.mul(d, n), 0, last);
    if (a.isNeeded(0)) {
      Value means = spread(a.div(sum, count())),
            weightedMeans = spread(a.div(weighted, count()));
      Value factor = a.mul(a.primal(op.getScale()), readInverse());
      Value centered =
          a.sub(a.sub(d, a.term(means)), a.term(a.mul(n, weightedMeans)));
      a.contribute(0, a.mul(spread(factor), centered));
    }
    if (a.isNeeded(1))
      a.contribute(1, weighted);
    if (a.isNeeded(2))
      a.contribute(2, sum);
  }
  if (dMean && a.isNeeded(0))
    a.contribute(0, spread(a.div(dMean, count())));
  Value slope = dVariance ? a.scale(dVariance, 2) : Value();
  if (dInverse && a.isNeeded(0)) {
    Value inverse = readInverse();
    Value cube = a.mul(a.mul(inverse, inverse), inverse);
    Value part = a.neg(a.mul(dInverse, cube));
    slope = slope ? a.add(a.term(slope), a.term(part)) : part;
  }
  if (slope && a.isNeeded(0))
    a.contribute(0, a.mul(readCentered(), spread(a.div(slope, count()))));
}

/// erf form: Phi(x) + x phi(x), Phi being 0.5 (1 + erf(x / sqrt 2)).
/// tanh form, t = tanh(s (x + c x^3)): 0.5 (1 + t) + 0.5 x (1 - t^2) s (1 + 3 c
/// x^2).
static void geluRule(GeluOp op, AdjointContext &a) {
  Value x = a.primal(op.getOperand()), inner, slope;
  Value one = a.constant(1, Algebra::typeOf(x)), square = a.mul(x, x);
  if (op.getTanh()) {
    Value argument =
        a.scale(a.add(x, a.scale(a.mul(square, x), kGeluCubic)), kGeluScale);
    inner = a.apply<math::TanhOp>(argument);
    Value inside = a.add(a.constant(kGeluScale, Algebra::typeOf(x)),
                         a.term(a.scale(square, 3 * kGeluCubic * kGeluScale)));
    slope =
        a.mul(a.scale(a.sub(one, a.term(a.mul(inner, inner))), 0.5), inside);
  } else {
    inner = a.apply<math::ErfOp>(a.scale(x, kInverseSqrt2));
    constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
    slope = a.scale(a.exp(a.scale(square, -0.5)), kInverseSqrtTwoPi);
  }
  Value distribution = a.scale(a.add(one, a.term(inner)), 0.5);
  Value derivative = a.add(a.term(distribution), a.term(a.mul(x, slope)));
  a.contribute(0, a.mul(a.cotangent(0), derivative));
}

/// d r (1 - r)
static void sigmoidRule(SigmoidOp op, AdjointContext &a) {
  Value r = a.primal(op.getResult());
  Value one = a.constant(1, Algebra::typeOf(r));
  a.contribute(0, a.mul(a.cotangent(0), a.mul(r, a.sub(one, a.term(r)))));
}

/// With p = exp(x - logSum): (p - onehot(label)) * d, 0 in ignored rows, and p
/// * dLogSum.
static void crossEntropyRule(CrossEntropyOp op, AdjointContext &a) {
  Value dLosses = a.cotangent(0), dLogSum = a.cotangent(1);
  Value logits = a.primal(op.getLogits());
  RankedTensorType type = Algebra::typeOf(logits),
                   rows = Algebra::typeOf(op.getLosses());
  Value logSum = a.broadcastLeading(a.primal(op.getLogSum()), type);
  Value probability = a.exp(a.sub(logits, logSum));
  if (dLosses) {
    Value labels = a.primal(op.getLabels());
    RankedTensorType labelType = Algebra::typeOf(labels);
    RankedTensorType indexType =
        withElementType(type, labelType.getElementType());
    Value index = IotaOp::create(a.getBuilder(), a.getLoc(), indexType,
                                 type.getRank() - 1);
    Value isLabel = a.compare(arith::CmpIPredicate::eq, index,
                              a.broadcastLeading(labels, indexType));
    Value oneHot = a.select(isLabel, a.constant(1, type), a.constant(0, type));
    Value weight = dLosses;
    if (auto ignored = op.getIgnoreIndex()) {
      Value isIgnored = a.compare(arith::CmpIPredicate::eq, labels,
                                  a.integer(*ignored, labelType));
      weight = a.select(isIgnored, a.constant(0, rows), dLosses);
    }
    Value difference = a.sub(a.term(probability), a.term(oneHot));
    a.contribute(0, a.mul(difference, a.broadcastLeading(weight, type)));
  }
  if (dLogSum)
    a.contribute(0, a.mul(probability, a.broadcastLeading(dLogSum, type)));
}

void harmony::autodiff::attachNNAdjoints(MLIRContext &context) {
  attach<BroadcastOp, broadcastRule>(context);
  attach<ReshapeOp, reshapeRule>(context);
  attach<TransposeOp, transposeRule>(context);
  attach<SliceOp, sliceRule>(context);
  attach<PadOp, padRule>(context);
  attach<ConcatOp, concatRule>(context);
  ReduceOp::attachInterface<ReduceModel>(context);
  attach<DotGeneralOp, dotRule>(context);
  attach<GatherOp, gatherRule>(context);
  attach<ScatterAddOp, scatterAddRule>(context);
  attach<SoftmaxOp, softmaxRule>(context);
  attach<LogSoftmaxOp, logSoftmaxRule>(context);
  attach<LayerNormOp, layerNormRule>(context);
  attach<BatchNormOp, batchNormRule>(context);
  attach<GeluOp, geluRule>(context);
  attach<SigmoidOp, sigmoidRule>(context);
  attach<CrossEntropyOp, crossEntropyRule>(context);
}
