//===- JoinProducts.cpp - Sums of products as one product -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/JoinProducts.h"

#include "dialects/NN/NN.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::nn;

/// Two products are added to one another as they are: the copies of their
/// operands would cost about as much as the addition.
static constexpr size_t kFewest = 3;

/// Operand `index` of all products, one behind the other along the new axis
/// `axis`.
static Value stack(OpBuilder &builder, Location loc,
                   ArrayRef<DotGeneralOp> products, unsigned index,
                   int64_t axis) {
  auto type = cast<RankedTensorType>(products[0]->getOperand(index).getType());
  BatchAttr batch = getBatch(type);
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + axis, 1);
  int64_t batchAxis = batch ? batch.getAxis() : -1;
  auto withAxis = [&](int64_t extent) {
    shape[axis] = extent;
    return getBatchType(shape, type.getElementType(),
                        batchAxis + (batchAxis >= axis),
                        batch ? batch.getFactor() : 1);
  };
  SmallVector<Value> parts;
  for (DotGeneralOp product : products)
    parts.push_back(ReshapeOp::create(builder, loc, withAxis(1),
                                      product->getOperand(index)));
  return ConcatOp::create(builder, loc, withAxis(products.size()), parts, axis);
}

/// The axes of an operand that has one more at `axis`.
static SmallVector<int64_t> shift(ArrayRef<int64_t> axes, int64_t axis) {
  SmallVector<int64_t> shifted(axes);
  for (int64_t &entry : shifted)
    entry += entry >= axis;
  return shifted;
}

static Value join(OpBuilder &builder, Location loc,
                  ArrayRef<DotGeneralOp> products) {
  DotGeneralOp first = products.front();
  // Behind the first contracted axis, which is that of the samples where the
  // result is the gradient of a weight.
  int64_t lhsAxis = first.getLhsContract()[0] + 1,
          rhsAxis = first.getRhsContract()[0] + 1;
  SmallVector<int64_t> lhsContract = shift(first.getLhsContract(), lhsAxis),
                       rhsContract = shift(first.getRhsContract(), rhsAxis);
  lhsContract.insert(lhsContract.begin() + 1, lhsAxis);
  rhsContract.insert(rhsContract.begin() + 1, rhsAxis);
  return DotGeneralOp::create(
      builder, loc, first.getType(), stack(builder, loc, products, 0, lhsAxis),
      stack(builder, loc, products, 1, rhsAxis),
      shift(first.getLhsBatch(), lhsAxis), shift(first.getRhsBatch(), rhsAxis),
      lhsContract, rhsContract);
}

/// Equal for products that may be joined; null for other values.
static ArrayAttr getForm(Value value) {
  auto product = value.getDefiningOp<DotGeneralOp>();
  if (!product || product.getLhsContract().empty())
    return {};
  return ArrayAttr::get(product.getContext(),
                        {product->getAttrDictionary(),
                         TypeAttr::get(product.getLhs().getType()),
                         TypeAttr::get(product.getRhs().getType())});
}

SmallVector<Value> harmony::autodiff::joinProducts(OpBuilder &builder,
                                                   Location loc,
                                                   ArrayRef<Value> terms) {
  llvm::DenseMap<ArrayAttr, SmallVector<DotGeneralOp>> forms;
  for (Value term : terms)
    if (ArrayAttr form = getForm(term))
      forms[form].push_back(term.getDefiningOp<DotGeneralOp>());
  SmallVector<Value> joined;
  for (Value term : terms) {
    ArrayAttr form = getForm(term);
    if (!form || forms[form].size() < kFewest)
      joined.push_back(term);
    else if (term.getDefiningOp() == forms[form].front())
      joined.push_back(join(builder, loc, forms[form]));
  }
  return joined;
}
