//===- ConvertProduct.cpp - Matrix products and attention -----------------===//
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

void convertGemm(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor lhs = b.input(0), rhs = b.input(1), addend = b.optionalInput(2);
  double alpha = b.real("alpha", 1), beta = b.real("beta", 1);
  bool transposeLhs = b.integer("transA", 0),
       transposeRhs = b.integer("transB", 0);
  if (!lhs || !rhs)
    return;
  if (lhs.rank() != 2 || rhs.rank() != 2) {
    b.refuse("operands must have rank 2, not " + toString(lhs.shape()) +
             " and " + toString(rhs.shape()));
    return;
  }
  DotAxes axes;
  axes.lhsContract = {transposeLhs ? 0 : 1};
  axes.rhsContract = {transposeRhs ? 1 : 0};
  // PyTorch's attention multiplies T * N rows, and tells the T apart
  // afterwards.
  Tensor merged;
  bool isRowVector = !addend || addend.rank() < 2 || addend.shape()[0].isOne();
  if (lhs->rows && !transposeLhs && rhs.batchAxis() < 0 && isRowVector) {
    merged = lhs;
    lhs = lhs->rows;
    axes.lhsContract = {lhs.rank() - 1};
  }
  Tensor result = t.scale(t.dot(lhs, rhs, axes), alpha);
  if (addend)
    result = t.add(result, t.scale(addend, beta));
  if (merged && result)
    result =
        t.mergeRows(result, {merged.shape().front(), result.shape().back()},
                    merged->unusable);
  b.output(0, result);
}

/// numpy.matmul.
Tensor matmul(Binder &b, Tensor lhs, Tensor rhs) {
  TensorBuilder &t = b.build();
  if (!lhs || !rhs)
    return Tensor();
  if (lhs.rank() == 0 || rhs.rank() == 0)
    return b.refuse("operands must not be scalars");
  DotAxes axes;
  // A matrix or vector on the right is the same for all rows of the left.
  Shape rhsOuter(rhs.rank() > 2 ? rhs.shape().drop_back(2)
                                : ArrayRef<Extent>());
  if (llvm::all_of(rhsOuter, [](const Extent &e) { return e.isOne(); }) &&
      lhs.rank() >= rhs.rank()) {
    if (!rhsOuter.empty())
      rhs = t.reshape(rhs, rhs.shape().drop_front(rhsOuter.size()));
    axes.lhsContract = {lhs.rank() - 1};
    axes.rhsContract = {0};
    return t.dot(lhs, rhs, axes);
  }
  bool isLhsVector = lhs.rank() == 1;
  if (isLhsVector)
    lhs = t.unsqueeze(lhs, {0});
  std::optional<Shape> outer =
      broadcastShapes(lhs.shape().drop_back(2), rhs.shape().drop_back(2));
  if (!outer)
    return b.refuse("cannot broadcast the outer axes of " +
                    toString(lhs.shape()) + " and " + toString(rhs.shape()));
  auto withOuter = [&](const Tensor &x) {
    Shape shape(*outer);
    shape.append(x.shape().end() - 2, x.shape().end());
    return t.expand(x, shape);
  };
  lhs = withOuter(lhs);
  rhs = withOuter(rhs);
  int64_t count = outer->size();
  for (int64_t axis = 0; axis < count; ++axis) {
    axes.lhsBatch.push_back(axis);
    axes.rhsBatch.push_back(axis);
  }
  axes.lhsContract = {count + 1};
  axes.rhsContract = {count};
  Tensor result = t.dot(lhs, rhs, axes);
  return isLhsVector ? t.squeeze(result, {count}) : result;
}

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

/// 0 where `keep`, elsewhere what makes a score as low as can be. Not minus
/// infinity where rows may be all masked: such a row must stay finite for its
/// gradient.
Tensor toBias(TensorBuilder &t, const Tensor &keep, Type type,
              bool isRowMasked) {
  double lowest = isRowMasked
                      ? -static_cast<double>(std::numeric_limits<float>::max())
                      : -INFINITY;
  return t.select(keep, t.scalar(type, 0), t.scalar(type, lowest));
}

/// The specification's function body: the scale is split between queries and
/// keys.
void convertAttention(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor query = b.input(0), key = b.input(1), value = b.input(2),
         mask = b.optionalInput(3);
  bool isCausal = b.integer("is_causal", 0);
  int64_t queryHeads = b.integer("q_num_heads", 0),
          keyHeads = b.integer("kv_num_heads", 0);
  double softcap = b.real("softcap", 0);
  b.ignore("qk_matmul_output_mode"); // of output 3, which is refused where it
                                     // is used
  if (b.attribute("softmax_precision"))
    b.refuse("softmax_precision is not supported");
  if (softcap != 0)
    b.refuse("softcap is " + std::to_string(softcap) + ", accepted is 0");
  if (!query || !key || !value)
    return;
  bool isMerged = query.rank() == 3;
  query = splitHeads(b, query, queryHeads);
  key = splitHeads(b, key, keyHeads);
  value = splitHeads(b, value, keyHeads);
  if (!query || !key || !value)
    return;
  if (query.rank() != 4 || key.rank() != 4 || value.rank() != 4 ||
      key.shape()[1].isBatch() || key.shape()[1].size == 0 ||
      query.shape()[1].size % key.shape()[1].size != 0) {
    b.refuse("heads of " + toString(query.shape()) + " and " +
             toString(key.shape()) + " do not fit");
    return;
  }
  int64_t times = query.shape()[1].size / key.shape()[1].size;
  key = repeatHeads(t, key, times);
  value = repeatHeads(t, value, times);
  double root = std::sqrt(b.real(
      "scale", 1 / std::sqrt(static_cast<double>(query.shape()[3].size))));
  Tensor scores = matmul(b, t.scale(query, root),
                         t.transpose(t.scale(key, root), {0, 1, 3, 2}));
  if (!scores)
    return;
  bool hasBoolMask = mask && mask.isBool();
  Tensor keep = hasBoolMask ? mask : Tensor();
  if (isCausal) {
    int64_t rows = query.shape()[2].size, columns = key.shape()[2].size;
    std::vector<Element> isEarlier;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        isEarlier.push_back(Element{j <= i});
    Tensor triangle =
        t.known(t.getBuilder().getI1Type(),
                {Extent{rows, 0}, Extent{columns, 0}}, std::move(isEarlier));
    keep = keep ? t.binary(Binary::And, keep, triangle) : triangle;
  }
  if (keep)
    scores = t.add(scores, toBias(t, keep, query.type(), hasBoolMask));
  if (mask && !hasBoolMask)
    scores = t.add(scores, mask);
  Tensor probabilities = t.softmax(scores, 3);
  // A row without anything to attend to gives zeros.
  if (hasBoolMask && probabilities) {
    Tensor count = t.reduce(Reduction::Sum, t.cast(keep, query.type()),
                            {keep.rank() - 1}, /*keepDims=*/true);
    Tensor zero = t.scalar(query.type(), 0);
    probabilities =
        t.select(t.compare(Compare::Greater, count, zero), probabilities, zero);
  }
  Tensor result = matmul(b, probabilities, value);
  if (result && isMerged) {
    ArrayRef<Extent> shape = result.shape();
    Shape merged{shape[0], shape[2], Extent{shape[1].size * shape[3].size, 0}};
    result = t.reshape(t.transpose(result, {0, 2, 1, 3}), merged);
  }
  b.output(0, result);
}

} // namespace

void harmony::normalize::addProductConverters(ConverterTable &table) {
  table.onOp("Gemm", {7, 9, 11, 13}, convertGemm);
  table.onOp("MatMul", {1, 9, 13},
             [](Binder &b) { b.output(0, matmul(b, b.input(0), b.input(1))); });
  table.onOp("Attention", {23, 24}, convertAttention);
}
