//===- BatchSum.cpp - Sums over the samples of a minibatch ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Tensor TensorBuilder::refuseBatchSum(const Tensor &, StringRef what) {
  return fail("a sum over the samples of the minibatch " + what +
              " here; after it only sums, differences, and products or "
              "quotients with constants are supported, "
              "since a minibatch is split into microbatches");
}

Tensor TensorBuilder::mapSum(const Tensor &sum,
                             llvm::function_ref<Tensor(Tensor)> map) {
  auto data = std::make_shared<TensorData>();
  for (Term term : sum->terms) {
    term.numerator = map(term.numerator);
    if (!term.numerator)
      return Tensor();
    data->elementType = term.numerator.type();
    data->shape.assign(term.numerator.shape().begin(),
                       term.numerator.shape().end());
    data->terms.push_back(term);
  }
  return Tensor(data);
}

/// sum * factor or, inverted, sum / factor.
Tensor TensorBuilder::scaleSum(const Tensor &sum, const Element &factor,
                               bool isReal, bool invert) {
  auto data = std::make_shared<TensorData>(*sum.get());
  double number = isReal ? factor.real : static_cast<double>(factor.integer);
  for (Term &term : data->terms) {
    if (!factor.batch) {
      term.scale = invert ? term.scale / number : term.scale * number;
      continue;
    }
    // By k * N: a sum becomes a mean, a mean a sum.
    if (number != 0 || factor.sample || term.denominator ||
        term.constant != invert)
      return refuseBatchSum(
          sum, "is multiplied or divided by an expression of the batch size");
    term.count = invert ? term.count * factor.batch : term.count / factor.batch;
    term.constant = !invert;
  }
  return Tensor(data);
}

Tensor TensorBuilder::toBatchSum(const Tensor &x) {
  if (!x || x.isBatchSum())
    return x;
  if (x.batchAxis() >= 0)
    return refuseBatchSum(x, "is combined with values of single samples");
  // Once per minibatch: the mean over samples of a copy for each of them.
  Shape shape(x.shape());
  shape.insert(shape.begin(), Extent{0, 1});
  Value copies = materializeAs(x, shape);
  if (!copies)
    return Tensor();
  return mean(fromValue(copies, x.type()), {0});
}

Tensor TensorBuilder::linearOnSum(Binary kind, const Tensor &a,
                                  const Tensor &b) {
  if (kind == Binary::Multiply || (kind == Binary::Divide && !b.isBatchSum())) {
    const Tensor &sum = a.isBatchSum() ? a : b,
                 &factor = a.isBatchSum() ? b : a;
    if (factor.isBatchSum() || !factor.isKnown())
      return refuseBatchSum(
          sum, "is multiplied or divided by a value that is not constant");
    const Element &first = factor.elements().front();
    if (factor.elements().size() != 1 && !factor.splat())
      return refuseBatchSum(sum, "is multiplied by different constants");
    Tensor scaled =
        scaleSum(sum, first, factor.isFloat(), kind == Binary::Divide);
    return scaled && factor.rank() > sum.rank()
               ? reshape(scaled, factor.shape())
               : scaled;
  }
  if (kind == Binary::Add || kind == Binary::Subtract) {
    Tensor left = toBatchSum(a), right = toBatchSum(b);
    if (!left || !right)
      return Tensor();
    if (left.shape() != right.shape())
      return refuseBatchSum(left, "of shape " + toString(left.shape()) +
                                      " is added to one of shape " +
                                      toString(right.shape()));
    auto data = std::make_shared<TensorData>(*left.get());
    for (Term term : right->terms) {
      term.scale *= kind == Binary::Subtract ? -1 : 1;
      data->terms.push_back(term);
    }
    return Tensor(data);
  }
  if (kind == Binary::Divide && a.isBatchSum() && b->terms.size() == 1 &&
      b.rank() == 0 && a.rank() == 0) {
    // numerator / denominator, each a sum over the minibatch.
    const Term &divisor = b->terms.front();
    auto data = std::make_shared<TensorData>(*a.get());
    for (Term &term : data->terms) {
      if (term.denominator || divisor.denominator ||
          term.constant != divisor.constant)
        return refuseBatchSum(a, "is divided twice");
      term.scale = term.scale / term.count * divisor.count / divisor.scale;
      term.count = 1;
      term.constant = true;
      term.denominator = divisor.numerator;
    }
    return Tensor(data);
  }
  return refuseBatchSum(a.isBatchSum() ? a : b, "is computed with");
}
