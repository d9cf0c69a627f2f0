//===- Product.cpp - dot_general as library calls -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/Product.h"

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace harmony;

namespace {

/// One index of the product with its step in each of the three operands.
struct Index {
  int64_t extent, lhs, rhs, result;
};

/// Merges neighbours (outer, inner) that step as one index in all operands.
void merge(SmallVectorImpl<Index> &indices) {
  llvm::erase_if(indices, [](const Index &index) { return index.extent == 1; });
  for (size_t i = 0; i + 1 < indices.size();) {
    Index &outer = indices[i], &inner = indices[i + 1];
    if (outer.lhs == inner.lhs * inner.extent &&
        outer.rhs == inner.rhs * inner.extent &&
        outer.result == inner.result * inner.extent) {
      inner.extent *= outer.extent;
      indices.erase(indices.begin() + i);
      i = i ? i - 1 : 0;
    } else {
      ++i;
    }
  }
}

/// Takes the longest index, which makes the best products, and moves the others
/// to the batch.
Index split(SmallVectorImpl<Index> &indices, SmallVectorImpl<Index> &batch) {
  if (indices.empty())
    return {1, 0, 0, 0};
  auto longest = llvm::max_element(indices, [](const Index &a, const Index &b) {
    return a.extent < b.extent;
  });
  Index result = *longest;
  indices.erase(longest);
  batch.append(indices.begin(), indices.end());
  return result;
}

/// Blocks that cut `extent` evenly: `pieces` of them, a multiple of the
/// library's registers.
int64_t evenBlock(int64_t extent, int64_t pieces) {
  return std::min<int64_t>(extent,
                           llvm::alignTo(llvm::divideCeil(extent, pieces), 16));
}

/// Cuts a product into blocks, each a call of the library. The larger a block,
/// the nearer a call comes to the library's best rate (bench/run.py,
/// docs/Performance.md): under AVX-512, 256 x 2048 x 2048 runs at 78 % of it in
/// blocks of 128 x 256, 84 % in 256 x 256 and 88 % in 256 x 512. The choice
/// knows nothing of threads, so that it cannot change results: it leaves at
/// least `kEnoughBlocks` where they stay above a size worth a call.
void chooseBlocks(HmGemm &gemm) {
  constexpr int64_t kEnoughBlocks = 6, kManyBlocks = 16, kLeast = 128;
  int64_t batches = gemm.batch[0] * gemm.batch[1] * gemm.batch[2];
  auto blocks = [&] {
    return batches * llvm::divideCeil(gemm.m, gemm.blockM) *
           llvm::divideCeil(gemm.n, gemm.blockN);
  };
  auto cut = [&](int64_t rows, int64_t columns) {
    gemm.blockM = evenBlock(gemm.m, llvm::divideCeil(gemm.m, rows));
    gemm.blockN = evenBlock(gemm.n, llvm::divideCeil(gemm.n, columns));
  };
  // From 1024 x 1024 on the library packs both operands first.
  if (gemm.m >= 1024 && gemm.n >= 1024) {
    gemm.blockM = evenBlock(gemm.m, gemm.m / 1024);
    gemm.blockN = evenBlock(gemm.n, gemm.n / 1024);
    if (blocks() >= kManyBlocks)
      return;
  }
  cut(512, 576);
  if (blocks() >= kManyBlocks)
    return;
  cut(256, 576);
  while (blocks() < kEnoughBlocks) {
    int64_t &longer = gemm.blockN >= gemm.blockM ? gemm.blockN : gemm.blockM;
    int64_t extent = &longer == &gemm.blockN ? gemm.n : gemm.m;
    int64_t half = evenBlock(extent, 2 * llvm::divideCeil(extent, longer));
    if (half < kLeast)
      return;
    longer = half;
  }
}

/// The axes of a product by what they are.
struct ProductIndices {
  SmallVector<Index> batch, rows, columns, contracted;

  ProductIndices(nn::DotGeneralOp op, const View &lhs, const View &rhs,
                 const View &result) {
    auto lhsType = cast<RankedTensorType>(op.getLhs().getType());
    auto rhsType = cast<RankedTensorType>(op.getRhs().getType());
    int64_t resultAxis = 0;
    for (auto [left, right] : llvm::zip(op.getLhsBatch(), op.getRhsBatch()))
      batch.push_back({lhsType.getDimSize(left), lhs.strides[left],
                       rhs.strides[right], result.strides[resultAxis++]});
    for (int64_t axis = 0; axis < lhsType.getRank(); ++axis)
      if (!llvm::is_contained(op.getLhsBatch(), axis) &&
          !llvm::is_contained(op.getLhsContract(), axis))
        rows.push_back({lhsType.getDimSize(axis), lhs.strides[axis], 0,
                        result.strides[resultAxis++]});
    for (int64_t axis = 0; axis < rhsType.getRank(); ++axis)
      if (!llvm::is_contained(op.getRhsBatch(), axis) &&
          !llvm::is_contained(op.getRhsContract(), axis))
        columns.push_back({rhsType.getDimSize(axis), 0, rhs.strides[axis],
                           result.strides[resultAxis++]});
    for (auto [left, right] :
         llvm::zip(op.getLhsContract(), op.getRhsContract()))
      contracted.push_back(
          {lhsType.getDimSize(left), lhs.strides[left], rhs.strides[right], 0});
  }

  /// As few of each kind as memory allows. Free axes keep the order that they
  /// have in the result; that of contracted ones is free: the innermost in
  /// memory last.
  void mergeAll() {
    for (SmallVector<Index> *free : {&rows, &columns}) {
      llvm::stable_sort(*free, [](const Index &a, const Index &b) {
        return a.result > b.result;
      });
      merge(*free);
    }
    llvm::stable_sort(contracted, [](const Index &a, const Index &b) {
      return a.lhs > b.lhs;
    });
    merge(contracted);
  }
};

bool isUnit(int64_t extent, int64_t step) { return extent == 1 || step == 1; }

/// A leading dimension: the step from row to row, at least the row's length; 0:
/// the library has none for it.
int64_t leading(const Index &outer, int64_t outerStep, const Index &inner,
                int64_t innerStep) {
  if (!isUnit(inner.extent, innerStep))
    return 0;
  int64_t step =
      outer.extent == 1 ? std::max<int64_t>(inner.extent, 1) : outerStep;
  return step >= inner.extent ? step : 0;
}

void setMatrices(HmGemm &gemm, const Index &m, const Index &n, const Index &k) {
  gemm.m = m.extent;
  gemm.n = n.extent;
  gemm.k = k.extent;
  gemm.lda = leading(m, m.lhs, k, k.lhs);
  gemm.transA = !gemm.lda;
  if (gemm.transA)
    gemm.lda = leading(k, k.lhs, m, m.lhs);
  gemm.ldb = leading(k, k.rhs, n, n.rhs);
  gemm.transB = !gemm.ldb;
  if (gemm.transB)
    gemm.ldb = leading(n, n.rhs, k, k.rhs);
  gemm.ldc = leading(m, m.result, n, n.result);
}

} // namespace

ProductObstacle harmony::mapProduct(nn::DotGeneralOp op, const View &lhs,
                                    const View &rhs, const View &result,
                                    bool accumulate, Product &product) {
  ArrayRef<int64_t> lhsShape = op.getLhs().getType().getShape();
  ArrayRef<int64_t> rhsShape = op.getRhs().getType().getShape();
  ProductIndices indices(op, lhs, rhs, result);
  indices.mergeAll();
  if (indices.contracted.size() > 1)
    return lhs.isContiguous(lhsShape) ? ProductObstacle::Rhs
                                      : ProductObstacle::Lhs;
  Index k = indices.contracted.empty() ? Index{1, 0, 0, 0}
                                       : indices.contracted.front();
  SmallVector<Index> &batch = indices.batch;
  Index m = split(indices.rows, batch), n = split(indices.columns, batch);
  merge(batch);
  if (batch.size() > 3)
    return lhs.isContiguous(lhsShape)
               ? (rhs.isContiguous(rhsShape) ? ProductObstacle::Result
                                             : ProductObstacle::Rhs)
               : ProductObstacle::Lhs;

  // The library writes rows of unit step: where the result has columns of unit
  // step instead, compute the transpose, with the operands in each other's
  // place.
  product.swapped = !isUnit(n.extent, n.result);
  if (product.swapped) {
    if (!isUnit(m.extent, m.result))
      return ProductObstacle::Result;
    std::swap(m, n);
    for (Index *index : {&m, &n, &k})
      std::swap(index->lhs, index->rhs);
    for (Index &index : batch)
      std::swap(index.lhs, index.rhs);
  }
  HmGemm &gemm = product.gemm;
  gemm = {};
  setMatrices(gemm, m, n, k);
  if (!gemm.lda)
    return product.swapped ? ProductObstacle::Rhs : ProductObstacle::Lhs;
  if (!gemm.ldb)
    return product.swapped ? ProductObstacle::Lhs : ProductObstacle::Rhs;
  if (!gemm.ldc)
    return ProductObstacle::Result;
  for (size_t i = 0; i < 3; ++i) {
    Index index = i < batch.size() ? batch[i] : Index{1, 0, 0, 0};
    gemm.batch[i] = index.extent;
    gemm.strideA[i] = index.lhs;
    gemm.strideB[i] = index.rhs;
    gemm.strideC[i] = index.result;
  }
  gemm.accumulate = accumulate;
  chooseBlocks(gemm);
  int64_t batches = gemm.batch[0] * gemm.batch[1] * gemm.batch[2];
  product.blocks = batches * ((gemm.m + gemm.blockM - 1) / gemm.blockM) *
                   ((gemm.n + gemm.blockN - 1) / gemm.blockN);
  product.flops = 2.0 * batches * gemm.m * gemm.n * gemm.k;
  return ProductObstacle::None;
}

View harmony::orderForProduct(nn::DotGeneralOp op, bool isLhs, const View &view,
                              const View &other) {
  Value value = isLhs ? op.getLhs() : op.getRhs();
  ArrayRef<int64_t> batch = isLhs ? op.getLhsBatch() : op.getRhsBatch();
  ArrayRef<int64_t> contract =
      isLhs ? op.getLhsContract() : op.getRhsContract();
  ArrayRef<int64_t> otherContract =
      isLhs ? op.getRhsContract() : op.getLhsContract();
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> free,
      pairs = llvm::to_vector(llvm::seq<int64_t>(0, contract.size()));
  int64_t freeStep = INT64_MAX, contractStep = 0;
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    if (!llvm::is_contained(batch, axis) &&
        !llvm::is_contained(contract, axis)) {
      free.push_back(axis);
      freeStep = std::min(freeStep, view.strides[axis]);
    }
  for (int64_t axis : contract)
    contractStep =
        std::max(contractStep, view.strides[axis] * type.getDimSize(axis));
  bool isFreeFirst = isLhs || (!free.empty() && freeStep >= contractStep);
  llvm::stable_sort(pairs, [&](int64_t a, int64_t b) {
    return other.strides[otherContract[a]] > other.strides[otherContract[b]];
  });
  SmallVector<int64_t> order(batch);
  if (isFreeFirst)
    llvm::append_range(order, free);
  for (int64_t pair : pairs)
    order.push_back(contract[pair]);
  if (!isFreeFirst)
    llvm::append_range(order, free);

  View target = View::contiguous(-1, type.getShape());
  int64_t stride = 1;
  for (int64_t axis : llvm::reverse(order)) {
    target.strides[axis] = stride;
    stride *= type.getDimSize(axis);
  }
  return target;
}

View harmony::orderResultOfProduct(nn::DotGeneralOp op, const View &lhs,
                                   const View &rhs, const View &now) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getResult().getType()).getShape();
  View target = View::contiguous(-1, shape);
  if (now.strides != target.strides)
    return target;
  // Axes of the result: batched, free ones of the left operand, of the right.
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, op.getLhsBatch().size()));
  auto append = [&](const View &view, ArrayRef<int64_t> batch,
                    ArrayRef<int64_t> contract) {
    SmallVector<std::pair<int64_t, int64_t>> steps; // in the operand, by axis
    for (int64_t axis = 0, rank = view.strides.size(); axis < rank; ++axis)
      if (!llvm::is_contained(batch, axis) &&
          !llvm::is_contained(contract, axis))
        steps.push_back({view.strides[axis],
                         static_cast<int64_t>(order.size() + steps.size())});
    llvm::stable_sort(
        steps, [](const auto &a, const auto &b) { return a.first > b.first; });
    for (auto [step, axis] : steps)
      order.push_back(axis);
  };
  append(lhs, op.getLhsBatch(), op.getLhsContract());
  append(rhs, op.getRhsBatch(), op.getRhsContract());
  int64_t stride = 1;
  for (int64_t axis : llvm::reverse(order)) {
    target.strides[axis] = stride;
    stride *= shape[axis];
  }
  return target;
}
