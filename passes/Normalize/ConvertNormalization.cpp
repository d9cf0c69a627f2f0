//===- ConvertNormalization.cpp - Normalisation of each sample ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Normalisations whose statistics are those of one sample, and norms: what
// divides by a sum of powers. BatchNormalization is elsewhere.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Geometry.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// Whether `x` is [N, C, n..] with the batch in front alone.
bool isImage(Binder &b, const Tensor &x, int64_t minRank) {
  if (x.rank() >= minRank && x.batchAxis() <= 0 && !x.shape()[1].isBatch())
    return true;
  b.refuse("input must have the shape [N, C, n..] with the batch (N) in front "
           "alone, not " +
           toString(x.shape()));
  return false;
}

/// [C] as [C, 1, ..], which fits an image of `rank` axes.
Tensor alongChannels(TensorBuilder &t, const Tensor &vector, int64_t rank) {
  Shape shape(rank - 1, Extent{1, 0});
  if (vector)
    shape.front() = vector.shape().front();
  return t.reshape(vector, shape);
}

bool isVector(Binder &b, const Tensor &vector, StringRef what, int64_t size) {
  if (!vector)
    return false;
  if (vector.rank() == 1 && vector.shape()[0] == Extent{size, 0})
    return true;
  b.refuse(what + " has the shape " + toString(vector.shape()) +
           ", expected [" + Twine(size) + "]");
  return false;
}

/// Each of `groups` groups of channels has the mean 0 and the variance 1.
Tensor normalizeGroups(TensorBuilder &t, const Tensor &x, int64_t groups,
                       double epsilon) {
  int64_t inner = getElementCount(x.shape().drop_front()) / groups;
  Shape rows{x.shape()[0], Extent{groups, 0}, Extent{inner, 0}};
  Tensor normalized =
      t.layerNorm(t.reshape(x, rows), t.scalarLike(x, 1), Tensor(), 2, epsilon)
          .result;
  return t.reshape(normalized, x.shape());
}

void convertInstanceNormalization(Binder &b) {
  Tensor x = b.input(0), scale = b.input(1), shift = b.input(2);
  double epsilon = b.real("epsilon", 1e-5f);
  if (b.version() == 1)
    b.ignore("consumed_inputs");
  if (!x || !isImage(b, x, 3) ||
      !isVector(b, scale, "scale", x.shape()[1].size) ||
      !isVector(b, shift, "B", x.shape()[1].size))
    return;
  TensorBuilder &t = b.build();
  Tensor normalized = normalizeGroups(t, x, x.shape()[1].size, epsilon);
  b.output(0, t.add(t.multiply(normalized, alongChannels(t, scale, x.rank())),
                    alongChannels(t, shift, x.rank())));
}

/// One number per group (before opset 21), or per channel, for each channel.
Tensor perChannel(TensorBuilder &t, const Tensor &vector, int64_t channels) {
  int64_t groups = vector.shape()[0].size;
  if (groups == channels)
    return vector;
  Tensor column = t.reshape(vector, {Extent{groups, 0}, Extent{1, 0}});
  return t.reshape(
      t.expand(column, {Extent{groups, 0}, Extent{channels / groups, 0}}),
      {Extent{channels, 0}});
}

void convertGroupNormalization(Binder &b) {
  Tensor x = b.input(0), scale = b.input(1), shift = b.input(2);
  double epsilon = b.real("epsilon", 1e-5f);
  int64_t groups = b.integer("num_groups", 0);
  std::optional<int64_t> stashType;
  if (b.version() >= 21)
    stashType = b.integer("stash_type", 1);
  if (!x || !isImage(b, x, 2))
    return;
  Type stash = x.type();
  if (stashType)
    stash = getElementType(stash.getContext(), *stashType);
  if (!isa_and_nonnull<FloatType>(stash)) {
    b.refuse("stash_type is " + Twine(stashType.value_or(0)) +
             ", accepted are floating types");
    return;
  }
  int64_t channels = x.shape()[1].size;
  if (groups < 1 || channels % groups != 0) {
    b.refuse("num_groups is " + Twine(groups) +
             ", which does not divide the channels of " + toString(x.shape()));
    return;
  }
  int64_t size = b.version() < 21 ? groups : channels;
  if (!isVector(b, scale, "scale", size) || !isVector(b, shift, "bias", size))
    return;
  TensorBuilder &t = b.build();
  // The statistics are computed in the type that stash_type asks for.
  Tensor normalized =
      t.cast(normalizeGroups(t, t.cast(x, stash), groups, epsilon), x.type());
  Tensor factor = alongChannels(t, perChannel(t, scale, channels), x.rank()),
         added = alongChannels(t, perChannel(t, shift, channels), x.rank());
  b.output(0, t.add(t.multiply(normalized, factor), added));
}

void convertMeanVarianceNormalization(Binder &b) {
  Tensor x = b.input(0);
  SmallVector<int64_t> list =
      b.integerList("axes").value_or(SmallVector<int64_t>{0, 2, 3});
  if (!x)
    return;
  SmallVector<int64_t> axes = b.axes(list, x.rank());
  if (llvm::is_contained(axes, x.batchAxis())) {
    b.refuse("takes statistics over the batch axis of " + toString(x.shape()) +
             ": this combines samples; accepted are axes without it");
    return;
  }
  TensorBuilder &t = b.build();
  Tensor centred = t.subtract(x, t.mean(x, axes, /*keepDims=*/true));
  Tensor variance = t.mean(t.multiply(centred, centred), axes, true);
  // The operator's definition adds 1e-9 to the root. So do we, within it, where
  // the gradient of a constant row is finite.
  Tensor root = t.unary(Unary::SquareRoot,
                        t.add(variance, t.scalarLike(variance, 1e-18)));
  b.output(0, t.divide(centred, t.add(root, t.scalarLike(root, 1e-9))));
}

/// x^p of numbers that are not negative.
Tensor power(TensorBuilder &t, const Tensor &x, double p) {
  return p == 1 ? x : t.binary(Binary::Power, x, t.scalarLike(x, p));
}

/// |x|^p
Tensor absolutePower(TensorBuilder &t, const Tensor &x, double p) {
  return p == 2 ? t.multiply(x, x) : power(t, t.unary(Unary::Absolute, x), p);
}

/// sum^(1/p): 0 with the gradient 0 where the sum is 0.
Tensor root(TensorBuilder &t, const Tensor &sum, double p) {
  if (!sum || p == 1)
    return sum;
  Tensor zero = t.scalarLike(sum, 0),
         isZero = t.compare(Compare::Equal, sum, zero),
         safe = t.select(isZero, t.scalarLike(sum, 1), sum);
  return t.select(isZero, zero, power(t, safe, 1 / p));
}

/// The attribute p, an integer but in the first version of pools.
std::optional<double> readPower(Binder &b, bool isReal) {
  double p = isReal ? b.real("p", 2) : b.integer("p", 2);
  if (p >= 1)
    return p;
  b.refuse("p is " + Twine(std::to_string(p)) + ", accepted is 1 or more");
  return std::nullopt;
}

void convertLpNormalization(Binder &b) {
  Tensor x = b.input(0);
  int64_t axis = b.integer("axis", -1);
  std::optional<double> p = readPower(b, /*isReal=*/false);
  if (!x || !p)
    return;
  axis = b.axis(axis, x.rank());
  if (axis == x.batchAxis()) {
    b.refuse("normalises over the batch axis of " + toString(x.shape()) +
             ": this combines samples");
    return;
  }
  TensorBuilder &t = b.build();
  Tensor sum = t.reduce(Reduction::Sum, absolutePower(t, x, *p), {axis}, true);
  if (!sum)
    return;
  // A row of zeros stays one.
  Tensor safe = t.select(t.compare(Compare::Equal, sum, t.scalarLike(sum, 0)),
                         t.scalarLike(sum, 1), sum);
  b.output(0, t.divide(x, power(t, safe, 1 / *p)));
}

void convertLpPool(Binder &b) {
  Tensor x = b.input(0);
  std::optional<double> p = readPower(b, b.version() == 1);
  if (!x || !p)
    return;
  std::optional<Geometry> g = readGeometry(b, x.shape(), {});
  if (!g)
    return;
  TensorBuilder &t = b.build();
  Tensor powers = absolutePower(t, t.toChannelsLast(x), *p);
  b.output(
      0, t.fromChannelsLast(root(t, t.sumPool(powers, g->window, g->out), *p)));
}

void convertGlobalLpPool(Binder &b) {
  Tensor x = b.input(0);
  std::optional<double> p = readPower(b, b.version() == 1);
  if (!x || !p)
    return;
  std::optional<nn::Window> window = getWholeImage(b, x);
  if (!window)
    return;
  TensorBuilder &t = b.build();
  SmallVector<int64_t> ones(window->rank(), 1);
  Tensor powers = absolutePower(t, t.toChannelsLast(x), *p);
  b.output(0,
           t.fromChannelsLast(root(t, t.sumPool(powers, *window, ones), *p)));
}

/// x / (bias + alpha / size * sum of the squares of `size` channels)^beta. The
/// channels are summed by a product with a band of ones, whatever lies behind.
void convertLRN(Binder &b) {
  Tensor x = b.input(0);
  double alpha = b.real("alpha", 1e-4f), beta = b.real("beta", 0.75),
         bias = b.real("bias", 1);
  int64_t size = b.integer("size", 0);
  if (!x || !isImage(b, x, 3))
    return;
  if (size < 1) {
    b.refuse("size is " + Twine(size) + ", accepted is 1 or more");
    return;
  }
  TensorBuilder &t = b.build();
  int64_t channels = x.shape()[1].size, before = (size - 1) / 2;
  std::vector<Element> band(channels * channels);
  for (int64_t to = 0; to < channels; ++to)
    for (int64_t from = std::max<int64_t>(to - before, 0);
         from < std::min(to - before + size, channels); ++from)
      band[to * channels + from].real = 1;
  Tensor image = t.toChannelsLast(x);
  DotAxes axes;
  axes.lhsContract = {x.rank() - 1};
  axes.rhsContract = {1};
  Extent extent{channels, 0};
  Tensor sums =
      t.dot(t.multiply(image, image),
            t.known(x.type(), {extent, extent}, std::move(band)), axes);
  Tensor base = t.add(t.scale(sums, alpha / static_cast<double>(size)),
                      t.scalarLike(x, bias));
  Tensor divisor =
      beta == 1 ? base : t.binary(Binary::Power, base, t.scalarLike(x, beta));
  b.output(0, t.fromChannelsLast(t.divide(image, divisor)));
}

} // namespace

void harmony::normalize::addNormalizationConverters(ConverterTable &table) {
  table.onOp("InstanceNormalization", {1, 6, 22}, convertInstanceNormalization);
  table.onOp("GroupNormalization", {18, 21}, convertGroupNormalization);
  table.onOp("MeanVarianceNormalization", {9, 13},
             convertMeanVarianceNormalization);
  table.onOp("LpNormalization", {1, 22}, convertLpNormalization);
  table.onOp("LpPool", {1, 2, 11, 18, 22}, convertLpPool);
  table.onOp("GlobalLpPool", {1, 2, 22}, convertGlobalLpPool);
  table.onOp("LRN", {1, 13}, convertLRN);
}
