//===- Composite.cpp - Reductions, contractions and composites ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

BlockArgument harmony::normalize::getInput(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::SliceOp, nn::PadOp, nn::TransposeOp,
             nn::BroadcastOp>(op))
      return BlockArgument();
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

std::string harmony::normalize::toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string harmony::normalize::toText(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static std::optional<Element> combine(Reduction kind, bool isFloat, Type type,
                                      const Element &a, const Element &b) {
  if (kind == Reduction::Sum)
    return Element{a.integer + b.integer,
                   isFloat ? roundTo(type, a.real + b.real) : 0,
                   a.batch + b.batch, a.sample + b.sample};
  if (!a.isConstant() || !b.isConstant())
    return std::nullopt;
  bool takeA = isFloat ? (kind == Reduction::Maximum ? a.real >= b.real
                                                     : a.real <= b.real)
                       : (kind == Reduction::Maximum ? a.integer >= b.integer
                                                     : a.integer <= b.integer);
  return takeA ? a : b;
}

Tensor TensorBuilder::reduce(Reduction kind, const Tensor &x,
                             ArrayRef<int64_t> axes, bool keepDims) {
  if (!x || axes.empty())
    return x;
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  Shape kept, dropped;
  bool overBatch = false;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    bool isReduced = llvm::is_contained(sorted, axis);
    overBatch |= isReduced && x.shape()[axis].isBatch();
    kept.push_back(isReduced ? Extent{1, 0} : x.shape()[axis]);
    if (!isReduced)
      dropped.push_back(x.shape()[axis]);
  }
  const Shape &shape = keepDims ? kept : dropped;
  if (x.isBatchSum()) {
    if (kind != Reduction::Sum)
      return refuseBatchSum(x, "is reduced to a maximum or minimum");
    return mapSum(x, [&](const Tensor &numerator) {
      return reduce(kind, numerator, axes, keepDims);
    });
  }
  if (overBatch && kind != Reduction::Sum)
    return fail("takes the maximum or minimum over the batch axis of " +
                toString(x.shape()) + ": this combines samples");

  if (x.isKnown()) {
    SmallVector<int64_t> permutation;
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      if (!llvm::is_contained(sorted, axis))
        permutation.push_back(axis);
    permutation.append(sorted);
    Tensor rows = transpose(x, permutation);
    const std::vector<Element> &source = rows.elements();
    int64_t count = getElementCount(dropped),
            inner = count ? source.size() / count : 0;
    std::vector<Element> elements;
    for (int64_t i = 0; i < count && inner > 0; ++i) {
      std::optional<Element> total = source[i * inner];
      for (int64_t j = 1; j < inner && total; ++j)
        total =
            combine(kind, x.isFloat(), x.type(), *total, source[i * inner + j]);
      if (total && overBatch) {
        // The same for each of N samples.
        if (!total->isConstant() ||
            (x.isFloat() && total->real != std::floor(total->real)))
          total.reset();
        else
          *total = Element{0, 0,
                           x.isFloat() ? static_cast<int64_t>(total->real)
                                       : total->integer,
                           0};
      }
      if (!total)
        break;
      elements.push_back(*total);
    }
    if (static_cast<int64_t>(elements.size()) == count)
      return known(x.type(), shape, std::move(elements));
  }

  Value value = materialize(x);
  if (!value)
    return Tensor();
  static constexpr nn::ReduceKind kinds[] = {
      nn::ReduceKind::sum, nn::ReduceKind::max, nn::ReduceKind::min};
  Value reduced = emit<nn::ReduceOp>(getType(dropped, x.type()), value,
                                     kinds[static_cast<int>(kind)],
                                     ArrayRef<int64_t>(sorted));
  Tensor result = reshape(withValue(x.type(), dropped, reduced), shape);
  if (!overBatch || !result)
    return result;
  auto data = std::make_shared<TensorData>();
  data->elementType = x.type();
  data->shape = shape;
  Term term;
  term.numerator = result;
  term.constant = true;
  data->terms.push_back(term);
  return Tensor(data);
}

Tensor TensorBuilder::mean(const Tensor &x, ArrayRef<int64_t> axes,
                           bool keepDims) {
  Tensor sum = reduce(Reduction::Sum, x, axes, keepDims);
  if (!sum || axes.empty())
    return sum;
  // The number of elements is `size`, times N where the batch axis is reduced.
  Element count{1};
  for (int64_t axis : axes)
    count.integer *= x.shape()[axis].forOneSample();
  bool overBatch = llvm::any_of(
      axes, [&](int64_t axis) { return x.shape()[axis].isBatch(); });
  if (overBatch)
    std::swap(count.integer, count.batch);
  if (sum.isBatchSum())
    return scaleSum(sum, count, false, true);
  if (overBatch) // known elements: the same for every sample
    return mean(sliceAxis(x, x.batchAxis(), 0, 1), axes, keepDims);
  return divide(sum, scalarLike(sum, static_cast<double>(count.integer)));
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// Reads through a transposition where the free axes keep their order: a
/// product takes its operands with any strides.
static Value readThroughTranspose(Value value, SmallVectorImpl<int64_t> &batch,
                                  SmallVectorImpl<int64_t> &contract) {
  auto producer = value.getDefiningOp<nn::TransposeOp>();
  if (!producer)
    return value;
  int64_t lastFree = -1;
  for (auto [axis, source] : llvm::enumerate(producer.getPermutation())) {
    if (llvm::is_contained(batch, static_cast<int64_t>(axis)) ||
        llvm::is_contained(contract, static_cast<int64_t>(axis)))
      continue;
    if (source < lastFree)
      return value;
    lastFree = source;
  }
  for (int64_t &axis : batch)
    axis = producer.getPermutation()[axis];
  for (int64_t &axis : contract)
    axis = producer.getPermutation()[axis];
  return producer.getOperand();
}

Tensor TensorBuilder::dot(const Tensor &a, const Tensor &b,
                          const DotAxes &requested) {
  if (!a || !b)
    return Tensor();
  if (a.isBatchSum() || b.isBatchSum())
    return refuseBatchSum(a.isBatchSum() ? a : b, "is multiplied");
  if (a.type() != b.type() || !a.isFloat())
    return fail("operands have element types " + toText(a.type()) + " and " +
                toText(b.type()) + ", expected equal floating types");
  for (auto [left, right] :
       llvm::zip(requested.lhsContract, requested.rhsContract)) {
    if (a.shape()[left] != b.shape()[right])
      return fail("shapes " + toString(a.shape()) + " and " +
                  toString(b.shape()) + " do not fit");
    if (a.shape()[left].isBatch())
      return fail("sums over the batch axis of " + toString(a.shape()) +
                  " and " + toString(b.shape()) + ": this combines samples");
  }
  DotAxes axes = requested;
  Value lhs = materialize(a), rhs = materialize(b);
  if (!lhs || !rhs)
    return Tensor();
  lhs = readThroughTranspose(lhs, axes.lhsBatch, axes.lhsContract);
  rhs = readThroughTranspose(rhs, axes.rhsBatch, axes.rhsContract);
  auto type = nn::inferDotGeneral(mlir::cast<RankedTensorType>(lhs.getType()),
                                  mlir::cast<RankedTensorType>(rhs.getType()),
                                  axes.lhsBatch, axes.rhsBatch,
                                  axes.lhsContract, axes.rhsContract);
  if (failed(type))
    return fail("shapes " + toString(a.shape()) + " and " +
                toString(b.shape()) +
                " do not fit, or carry the batch along different axes, which "
                "combines samples");
  auto product = nn::DotGeneralOp::create(builder, location, *type, lhs, rhs,
                                          axes.lhsBatch, axes.rhsBatch,
                                          axes.lhsContract, axes.rhsContract);
  if (undivided)
    product->setAttr(nn::kUndividedAttr, undivided);
  return fromValue(unique(product), a.type());
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

/// The permutation that moves `axis` to the end; its inverse if `back`.
static SmallVector<int64_t> moveToEnd(int64_t rank, int64_t axis,
                                      bool back = false) {
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      permutation.push_back(i);
  permutation.push_back(axis);
  if (!back)
    return permutation;
  SmallVector<int64_t> inverse(rank);
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = to;
  return inverse;
}

template <typename OpTy>
Tensor TensorBuilder::alongAxis(const Tensor &x, int64_t axis) {
  if (!x)
    return x;
  if (x.rank() == 0 || x.shape()[axis].isBatch())
    return fail("normalises over the batch axis of " + toString(x.shape()) +
                ": this combines samples");
  Value value = materialize(transpose(x, moveToEnd(x.rank(), axis)));
  if (!value)
    return Tensor();
  Tensor result = fromValue(emit<OpTy>(value.getType(), value), x.type());
  return transpose(result, moveToEnd(x.rank(), axis, /*back=*/true));
}

Tensor TensorBuilder::softmax(const Tensor &x, int64_t axis) {
  return alongAxis<nn::SoftmaxOp>(x, axis);
}

Tensor TensorBuilder::logSoftmax(const Tensor &x, int64_t axis) {
  Tensor result = alongAxis<nn::LogSoftmaxOp>(x, axis);
  if (result && axis == 1)
    result->logits = transpose(x, moveToEnd(x.rank(), axis));
  return result;
}

TensorBuilder::Normalized TensorBuilder::layerNorm(const Tensor &x,
                                                   const Tensor &scale,
                                                   const Tensor &shift,
                                                   int64_t axis, double epsilon,
                                                   bool centered) {
  if (!x || !scale)
    return {};
  if (x.batchAxis() >= axis)
    return {fail("normalises over the batch axis of " + toString(x.shape()) +
                 ": this combines samples"),
            {},
            {}};
  Shape normalized(x.shape().drop_front(axis)),
      leading(x.shape().take_front(axis)), keptLeading(leading);
  keptLeading.resize(x.rank(), Extent{1, 0});
  auto fit = [&](const Tensor &tensor) -> Value {
    std::optional<Shape> joined = broadcastShapes(tensor.shape(), normalized);
    if (!joined || *joined != normalized) {
      fail("scale or bias of shape " + toString(tensor.shape()) +
           " does not fit the normalised shape " + toString(normalized));
      return Value();
    }
    return materializeAs(tensor, normalized);
  };
  Value value = materialize(x), scaleValue = fit(scale),
        shiftValue = shift ? fit(shift) : Value();
  if (!value || !scaleValue || (shift && !shiftValue))
    return {};
  RankedTensorType type = getType(x.shape(), x.type()),
                   leadingType = getType(leading, x.type());
  Value result = emit<nn::LayerNormOp>(type, centered ? leadingType : Type(),
                                       leadingType, value, scaleValue,
                                       shiftValue, axis, APFloat(epsilon));
  auto norm = result.getDefiningOp<nn::LayerNormOp>();
  auto statistic = [&](Value value) {
    return value ? reshape(fromValue(value, x.type()), keptLeading) : Tensor();
  };
  return {fromValue(result, x.type()), statistic(norm.getMean()),
          statistic(norm.getInverseDeviation())};
}

Tensor TensorBuilder::gelu(const Tensor &x, bool tanhForm) {
  Value value = materialize(x);
  if (!value)
    return Tensor();
  return fromValue(emit<nn::GeluOp>(value.getType(), value, tanhForm),
                   x.type());
}

Tensor TensorBuilder::sigmoid(const Tensor &x) {
  if (!x)
    return x;
  if (x.isBatchSum())
    return refuseBatchSum(x, "is computed with");
  if (x->channelsLast)
    return fromChannelsLast(sigmoid(x->channelsLast));
  if (x->base)
    return expand(sigmoid(x->base), x.shape());
  if (x.isKnown()) {
    Tensor one = scalarLike(x, 1);
    Tensor power = unary(Unary::Exponential, unary(Unary::Negate, x));
    return divide(one, add(one, power));
  }
  Value value = materialize(x);
  if (!value)
    return Tensor();
  return fromValue(emit<nn::SigmoidOp>(value.getType(), value), x.type());
}

Tensor TensorBuilder::crossEntropy(const Tensor &logits, const Tensor &labels,
                                   std::optional<int64_t> ignoreIndex) {
  if (!logits || !labels)
    return Tensor();
  if (logits.rank() == 0 || logits.shape().drop_back() != labels.shape())
    return fail("labels " + toString(labels.shape()) +
                " do not fit the rows of " + toString(logits.shape()));
  if (logits.shape().back().isBatch())
    return fail("normalises over the batch axis of " +
                toString(logits.shape()) + ": this combines samples");
  Value logitsValue = materialize(logits), labelsValue = materialize(labels);
  if (!logitsValue || !labelsValue)
    return Tensor();
  RankedTensorType rows = getType(labels.shape(), logits.type());
  IntegerAttr ignore =
      ignoreIndex ? builder.getI64IntegerAttr(*ignoreIndex) : IntegerAttr();
  return fromValue(
      emit<nn::CrossEntropyOp>(rows, rows, logitsValue, labelsValue, ignore),
      logits.type());
}
