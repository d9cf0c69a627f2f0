//===- ConvertProduct.cpp - Matrix products -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

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

} // namespace

void harmony::normalize::addProductConverters(ConverterTable &table) {
  table.onOp("Gemm", {7, 9, 11, 13}, convertGemm);
  table.onOp("MatMul", {1, 9, 13},
             [](Binder &b) { b.output(0, matmul(b, b.input(0), b.input(1))); });
}
