//===- ConvertAttention.cpp - Attention and rotary embedding --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// [B, S, H * D] -> [B, H, S, D]; tensors of rank 4 are that already.
Tensor splitHeads(Binder &b, const Tensor &x, int64_t heads) {
  if (!x || x.rank() == 4)
    return x;
  if (x.rank() != 3 || heads <= 0 || x.shape()[2].isBatch() ||
      x.shape()[2].size % heads != 0)
    return b.refuse("cannot split " + toString(x.shape()) + " into " +
                    Twine(heads) + " heads");
  Shape shape{x.shape()[0], x.shape()[1], Extent{heads, 0},
              Extent{x.shape()[2].size / heads, 0}};
  return b.build().transpose(b.build().reshape(x, shape), {0, 2, 1, 3});
}

/// Repeats each head of [B, H, S, D] for `times` query heads.
Tensor repeatHeads(TensorBuilder &t, const Tensor &x, int64_t times) {
  if (!x || times == 1)
    return x;
  Shape repeated(x.shape()), merged(x.shape());
  repeated.insert(repeated.begin() + 2, Extent{times, 0});
  merged[1].size *= times;
  return t.reshape(t.expand(t.unsqueeze(x, {2}), repeated), merged);
}

/// What is added to the scores [B, H, Q, K].
struct Bias {
  Tensor added; ///< null: nothing
  /// Rows of `added` that leave nothing to attend to; null: there are none.
  Tensor isEmpty;
};

struct Attention {
  Tensor query, key, value; ///< of rank 4, the past in front of the keys
  Tensor mask;              ///< null: none
  Tensor validKeys;         ///< [B], null: all
  bool isCausal = false;
  /// How far a query looks back and ahead; negative: without bound.
  int64_t left = -1, right = -1;
  int64_t past = 0; ///< keys in front of the first query's own
};

/// True where a query may look at a key; null: everywhere.
Tensor makeKeep(TensorBuilder &t, const Attention &a) {
  Type index = t.getBuilder().getI64Type();
  Shape keys{a.key.shape()[2]};
  Tensor keep;
  auto require = [&](const Tensor &condition) {
    keep = keep ? t.binary(Binary::And, keep, condition) : condition;
  };
  Tensor valid = a.validKeys ? t.unsqueeze(a.validKeys, {1, 2, 3}) : Tensor();
  if (a.isCausal || a.left >= 0 || a.right >= 0) {
    Tensor position = t.iota(index, {a.query.shape()[2], Extent{1, 0}}, 0);
    if (a.validKeys)
      position = t.subtract(
          t.add(position, t.cast(valid, index)),
          t.scalar(index, static_cast<double>(a.query.shape()[2].size)));
    else if (a.past)
      position = t.add(position, t.scalar(index, static_cast<double>(a.past)));
    Tensor key = t.iota(index, keys, 0);
    auto after = [&](int64_t count) {
      return t.add(position, t.scalar(index, static_cast<double>(count)));
    };
    if (a.isCausal)
      require(t.compare(Compare::LessOrEqual, key, position));
    if (a.left >= 0)
      require(t.compare(Compare::GreaterOrEqual, key, after(-a.left)));
    if (a.right >= 0)
      require(t.compare(Compare::LessOrEqual, key, after(a.right)));
  }
  if (a.validKeys)
    require(
        t.compare(Compare::Less, t.iota(index, keys, 0), t.cast(valid, index)));
  return keep;
}

Bias makeBias(TensorBuilder &t, const Attention &a) {
  Tensor keep = makeKeep(t, a), mask = a.mask;
  Type type = a.query.type();
  if (mask && mask.rank() > 0 && !mask.shape().back().isBatch()) {
    // A mask that is too short does not mention the last keys.
    int64_t missing = a.key.shape()[2].size - mask.shape().back().size;
    SmallVector<int64_t> none(mask.rank(), 0), high(none);
    high.back() = missing;
    if (missing > 0 && mask.shape().back().size > 1)
      mask = t.pad(mask, t.scalar(mask.type(), mask.isBool() ? 0 : -INFINITY),
                   none, high);
  }
  if (mask && mask.isBool()) {
    keep = keep ? t.binary(Binary::And, mask, keep) : mask;
    mask = Tensor();
  }
  Bias bias;
  if (keep)
    bias.added = t.select(keep, t.scalar(type, 0), t.scalar(type, -INFINITY));
  if (mask)
    bias.added = bias.added ? t.add(bias.added, mask) : mask;
  if (!bias.added || bias.added.rank() == 0)
    return bias;
  Tensor largest = t.reduce(Reduction::Maximum, bias.added,
                            {bias.added.rank() - 1}, /*keepDims=*/true);
  bias.isEmpty =
      t.compare(Compare::Equal, largest, t.scalarLike(largest, -INFINITY));
  if (bias.isEmpty && bias.isEmpty.splatNumber() == 0.0)
    bias.isEmpty = Tensor();
  // Such a row must stay finite for its gradient.
  if (bias.isEmpty)
    bias.added = t.select(bias.isEmpty, t.scalar(type, 0), bias.added);
  return bias;
}

/// The specification's function body: the scale is split between queries and
/// keys.
void convertAttention(Binder &b) {
  TensorBuilder &t = b.build();
  Attention a;
  a.query = b.input(0);
  a.key = b.input(1);
  a.value = b.input(2);
  a.mask = b.optionalInput(3);
  Tensor pastKey = b.optionalInput(4), pastValue = b.optionalInput(5);
  if (b.inputCount() > 6)
    a.validKeys = b.optionalInput(6);
  a.isCausal = b.integer("is_causal", 0);
  a.left = b.integer("left_window_size", -1);
  a.right = b.integer("right_window_size", -1);
  int64_t queryHeads = b.integer("q_num_heads", 0),
          keyHeads = b.integer("kv_num_heads", 0),
          outputMode = b.integer("qk_matmul_output_mode", 0);
  double softcap = b.real("softcap", 0), givenScale = b.real("scale", 0);
  int64_t precision = b.integer("softmax_precision", 0);
  if (!a.query || !a.key || !a.value)
    return;
  if (bool(pastKey) != bool(pastValue) || (pastKey && a.validKeys)) {
    b.refuse("past_key and past_value go together, and not with "
             "nonpad_kv_seqlen");
    return;
  }
  bool isMerged = a.query.rank() == 3;
  a.query = splitHeads(b, a.query, queryHeads);
  a.key = splitHeads(b, a.key, keyHeads);
  a.value = splitHeads(b, a.value, keyHeads);
  if (!a.query || !a.key || !a.value)
    return;
  if (pastKey) {
    if (pastKey.rank() != 4 || pastKey.shape()[2].isBatch()) {
      b.refuse("past_key has shape " + toString(pastKey.shape()) +
               ", expected [batch, heads, sequence, size]");
      return;
    }
    a.past = pastKey.shape()[2].size;
    a.key = t.concat({pastKey, a.key}, 2);
    a.value = t.concat({pastValue, a.value}, 2);
    if (!a.key || !a.value)
      return;
  }
  for (auto [index, present] : {std::pair(1u, a.key), std::pair(2u, a.value)})
    if (b.isOutputUsed(index))
      b.output(index, present);
  if (a.query.rank() != 4 || a.key.rank() != 4 || a.value.rank() != 4 ||
      llvm::any_of(ArrayRef{a.query, a.key},
                   [](const Tensor &x) {
                     return x.shape()[1].isBatch() || x.shape()[2].isBatch();
                   }) ||
      a.key.shape()[1].size == 0 ||
      a.query.shape()[1].size % a.key.shape()[1].size != 0) {
    b.refuse("heads of " + toString(a.query.shape()) + " and " +
             toString(a.key.shape()) + " do not fit");
    return;
  }
  int64_t times = a.query.shape()[1].size / a.key.shape()[1].size;
  double headSize = static_cast<double>(a.query.shape()[3].size);
  double root =
      std::sqrt(givenScale > 0 ? givenScale : 1 / std::sqrt(headSize));
  DotAxes axes;
  axes.lhsBatch = axes.rhsBatch = {0, 1};
  axes.lhsContract = axes.rhsContract = {3};
  Tensor scores = t.dot(t.scale(a.query, root),
                        t.scale(repeatHeads(t, a.key, times), root), axes);
  Tensor reported = scores; // output 3
  if (softcap != 0)
    scores = t.scale(
        t.unary(Unary::Tanh, t.divide(scores, t.scalarLike(scores, softcap))),
        softcap);
  if (outputMode == 1)
    reported = scores;
  Bias bias = makeBias(t, a);
  if (bias.added)
    scores = t.add(scores, bias.added);
  if (outputMode == 2) // as it is, minus infinity in rows without keys
    reported = bias.isEmpty ? t.select(bias.isEmpty,
                                       t.scalarLike(scores, -INFINITY), scores)
                            : scores;
  Type type = a.query.type(),
       softmaxType =
           precision ? getElementType(type.getContext(), precision) : type;
  if (!isa_and_nonnull<FloatType>(softmaxType)) {
    b.refuse("softmax_precision is " + Twine(precision) +
             ", which is no supported floating type");
    return;
  }
  Tensor probabilities =
      t.cast(t.softmax(t.cast(scores, softmaxType), 3), type);
  if (bias.isEmpty)
    probabilities =
        t.select(bias.isEmpty, t.scalar(a.query.type(), 0), probabilities);
  if (outputMode == 3)
    reported = probabilities;
  if (b.isOutputUsed(3))
    b.output(3, reported);
  axes.rhsContract = {2};
  Tensor result = t.dot(probabilities, repeatHeads(t, a.value, times), axes);
  if (result && isMerged) {
    ArrayRef<Extent> shape = result.shape();
    Shape merged{shape[0], shape[2], Extent{shape[1].size * shape[3].size, 0}};
    result = t.reshape(t.transpose(result, {0, 2, 1, 3}), merged);
  }
  b.output(0, result);
}

/// Every second of the last axis' elements [start, start + 2 * size), or `size`
/// neighbours.
Tensor sliceLast(TensorBuilder &t, const Tensor &x, int64_t start, int64_t size,
                 int64_t stride) {
  if (!x)
    return x;
  SmallVector<int64_t> starts(x.rank(), 0), strides(x.rank(), 1);
  Shape extents(x.shape());
  starts.back() = start;
  strides.back() = stride;
  extents.back() = Extent{size, 0};
  return t.slice(x, starts, extents, strides);
}

/// Turns pairs of elements of each head by the angle of their position.
void convertRotaryEmbedding(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0), cosine = b.input(1), sine = b.input(2),
         positions = b.optionalInput(3);
  bool isInterleaved = b.integer("interleaved", 0);
  int64_t heads = b.integer("num_heads", 0),
          rotated = b.integer("rotary_embedding_dim", 0);
  if (!x || !cosine || !sine)
    return;
  bool isMerged = x.rank() == 3;
  Shape original(x.shape());
  // The heads are axis 2 of merged inputs, else axis 1.
  if (isMerged) {
    if (heads <= 0 || original[2].isBatch() || original[2].size % heads != 0) {
      b.refuse("cannot split " + toString(original) + " into " + Twine(heads) +
               " heads");
      return;
    }
    x = t.reshape(x, {original[0], original[1], Extent{heads, 0},
                      Extent{original[2].size / heads, 0}});
  }
  if (!x || x.rank() != 4 || x.shape()[3].isBatch()) {
    b.refuse("input has shape " + toString(original) +
             ", expected [batch, heads, sequence, size] or [batch, sequence, "
             "heads * size]");
    return;
  }
  int64_t size = x.shape()[3].size;
  rotated = rotated ? rotated : size;
  if (rotated < 0 || rotated > size || rotated % 2 != 0 ||
      cosine.shape().back() != Extent{rotated / 2, 0} ||
      sine.shape() != cosine.shape()) {
    b.refuse("turns " + Twine(rotated) + " of " + Twine(size) +
             " elements by caches of shape " + toString(cosine.shape()) +
             " and " + toString(sine.shape()) +
             "; accepted are an even number, and half as many in a cache");
    return;
  }
  auto getAngles = [&](Tensor cache) {
    if (positions)
      cache = t.gather(cache, positions, 0);
    return t.unsqueeze(cache, {isMerged ? 2 : 1});
  };
  cosine = getAngles(cosine);
  sine = getAngles(sine);
  int64_t half = rotated / 2;
  Tensor first = sliceLast(t, x, 0, half, isInterleaved ? 2 : 1),
         second = sliceLast(t, x, isInterleaved ? 1 : half, half,
                            isInterleaved ? 2 : 1);
  Tensor real = t.subtract(t.multiply(cosine, first), t.multiply(sine, second));
  Tensor imaginary = t.add(t.multiply(sine, first), t.multiply(cosine, second));
  Tensor turned;
  if (isInterleaved) {
    Tensor pairs =
        t.concat({t.unsqueeze(real, {4}), t.unsqueeze(imaginary, {4})}, 4);
    Shape shape(x.shape());
    shape.back() = Extent{rotated, 0};
    turned = t.reshape(pairs, shape);
  } else {
    turned = t.concat({real, imaginary}, 3);
  }
  if (rotated < size)
    turned = t.concat({turned, sliceLast(t, x, rotated, size - rotated, 1)}, 3);
  b.output(0, isMerged ? t.reshape(turned, original) : turned);
}

} // namespace

void harmony::normalize::addAttentionConverters(ConverterTable &table) {
  table.onOp("Attention", {23, 24, 25}, convertAttention);
  table.onOp("RotaryEmbedding", {23}, convertRotaryEmbedding);
}
