//===- ConvertLoss.cpp - Losses -------------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loss over a minibatch is a numerator over a denominator, both sums over
// samples: see Tensor::isBatchSum.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

SmallVector<int64_t> allAxes(const Tensor &x) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; x && axis < x.rank(); ++axis)
    axes.push_back(axis);
  return axes;
}

/// Moves the class axis 1 to the end.
Tensor classesLast(Binder &b, const Tensor &x) {
  if (!x)
    return x;
  if (x.rank() < 2)
    return b.refuse("scores " + toString(x.shape()) + " have no class axis");
  SmallVector<int64_t> permutation{0};
  for (int64_t axis = 2; axis < x.rank(); ++axis)
    permutation.push_back(axis);
  permutation.push_back(1);
  return b.build().transpose(x, permutation);
}

struct LossOptions {
  std::optional<int64_t> ignoreIndex;
  std::string reduction;

  explicit LossOptions(Binder &b) {
    if (auto ignore =
            dyn_cast_or_null<IntegerAttr>(b.attribute("ignore_index")))
      ignoreIndex = ignore.getValue().getSExtValue();
    reduction = b.string("reduction", "mean");
    if (reduction != "mean" && reduction != "sum" && reduction != "none")
      b.refuse("reduction is '" + reduction +
               "', accepted are 'mean', 'sum' and 'none'");
  }
};

/// Weighs and reduces losses [R..] that are 0 where the label is ignored.
Tensor reduceLosses(Binder &b, Tensor losses, const Tensor &labels,
                    const Tensor &weights, const LossOptions &options) {
  TensorBuilder &t = b.build();
  if (!losses || !labels)
    return Tensor();
  Tensor weight; // of each row; null: 1
  if (options.ignoreIndex) {
    Tensor isIgnored = t.compare(Compare::Equal, labels,
                                 t.scalarLike(labels, *options.ignoreIndex));
    weight =
        t.select(isIgnored, t.scalarLike(losses, 0), t.scalarLike(losses, 1));
    if (weights) {
      Tensor anyLabel = t.select(isIgnored, t.scalarLike(labels, 0), labels);
      weight = t.multiply(t.gather(weights, anyLabel, 0), weight);
    }
  } else if (weights) {
    weight = t.gather(weights, labels, 0);
  }
  if (weights)
    losses = t.multiply(losses, weight);
  if (options.reduction == "none")
    return losses;
  SmallVector<int64_t> axes = allAxes(losses);
  if (options.reduction == "sum")
    return t.reduce(Reduction::Sum, losses, axes);
  if (!weight)
    return t.mean(losses, axes);
  return t.divide(t.reduce(Reduction::Sum, losses, axes),
                  t.reduce(Reduction::Sum, weight, axes));
}

void convertSoftmaxCrossEntropyLoss(Binder &b) {
  Tensor scores = b.input(0), labels = b.input(1), weights = b.optionalInput(2);
  LossOptions options(b);
  Tensor losses = b.build().crossEntropy(classesLast(b, scores), labels,
                                         options.ignoreIndex);
  b.output(0, reduceLosses(b, losses, labels, weights, options));
  if (b.isOutputUsed(1))
    b.output(1, b.build().logSoftmax(scores, 1));
}

/// -x[label] of every row [R.., C]; 0 where the label is no class.
Tensor pickNegated(Binder &b, const Tensor &x, const Tensor &labels) {
  TensorBuilder &t = b.build();
  if (!x || !labels)
    return Tensor();
  if (x.shape().drop_back() != labels.shape())
    return b.refuse("labels " + toString(labels.shape()) +
                    " do not fit the rows of " + toString(x.shape()));
  Tensor column = t.iota(labels.type(), {x.shape().back()}, 0);
  Tensor isLabel =
      t.compare(Compare::Equal, t.unsqueeze(labels, {labels.rank()}), column);
  Tensor picked = t.reduce(
      Reduction::Sum, t.select(isLabel, x, t.scalarLike(x, 0)), {x.rank() - 1});
  return t.unary(Unary::Negate, picked);
}

void convertNegativeLogLikelihoodLoss(Binder &b) {
  Tensor scores = b.input(0), labels = b.input(1), weights = b.optionalInput(2);
  LossOptions options(b);
  if (!scores)
    return;
  // Behind a LogSoftmax this is the cross entropy, whose backward is better.
  Tensor losses;
  if (scores->logits)
    losses =
        b.build().crossEntropy(scores->logits, labels, options.ignoreIndex);
  else
    losses = pickNegated(b, classesLast(b, scores), labels);
  if (losses && !scores->logits && options.ignoreIndex && labels) {
    TensorBuilder &t = b.build();
    Tensor isIgnored = t.compare(Compare::Equal, labels,
                                 t.scalarLike(labels, *options.ignoreIndex));
    losses = t.select(isIgnored, t.scalarLike(losses, 0), losses);
  }
  b.output(0, reduceLosses(b, losses, labels, weights, options));
}

} // namespace

void harmony::normalize::addLossConverters(ConverterTable &table) {
  table.onOp("SoftmaxCrossEntropyLoss", {12, 13},
             convertSoftmaxCrossEntropyLoss);
  table.onOp("NegativeLogLikelihoodLoss", {12, 13, 22},
             convertNegativeLogLikelihoodLoss);
}
