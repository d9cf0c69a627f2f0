//===- Algebra.cpp - Building nn expressions ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Algebra.h"

using namespace mlir;
using namespace harmony::nn;

/// A rank-0 constant repeated to `type`.
static Value splat(OpBuilder &builder, Location loc, TypedAttr value,
                   RankedTensorType type) {
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value constant = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(scalar, Attribute(value)));
  if (type == scalar)
    return constant;
  return BroadcastOp::create(builder, loc, type, constant, ArrayRef<int64_t>());
}

Value Algebra::constant(double value, RankedTensorType type) {
  return splat(builder, loc, builder.getFloatAttr(type.getElementType(), value),
               type);
}

Value Algebra::integer(int64_t value, RankedTensorType type) {
  return splat(builder, loc,
               builder.getIntegerAttr(type.getElementType(), value), type);
}

Value Algebra::count(RankedTensorType operand, ArrayRef<int64_t> axes,
                     RankedTensorType type) {
  BatchAttr batch = getBatch(operand);
  int64_t factor = 1;
  bool overBatch = false;
  for (int64_t axis : axes) {
    bool isBatch = batch && batch.getAxis() == axis;
    factor *= isBatch ? batch.getFactor() : operand.getDimSize(axis);
    overBatch |= isBatch;
  }
  return overBatch ? Value(CountOp::create(builder, loc, type, factor))
                   : constant(static_cast<double>(factor), type);
}

Value Algebra::compare(arith::CmpFPredicate predicate, Value lhs, Value rhs) {
  return arith::CmpFOp::create(builder, loc, predicate, lhs, rhs);
}

Value Algebra::compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
  return arith::CmpIOp::create(builder, loc, predicate, lhs, rhs);
}

Value Algebra::select(Value condition, Value ifTrue, Value ifFalse) {
  return arith::SelectOp::create(builder, loc, condition, ifTrue, ifFalse);
}

Value Algebra::broadcast(Value operand, ArrayRef<int64_t> axes,
                         RankedTensorType type) {
  return operand.getType() == type
             ? operand
             : Value(BroadcastOp::create(builder, loc, type, operand, axes));
}

Value Algebra::broadcastLeading(Value operand, RankedTensorType type) {
  return broadcast(
      operand,
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(operand).getRank())), type);
}

Value Algebra::broadcastTrailing(Value operand, RankedTensorType type) {
  int64_t rank = type.getRank();
  return broadcast(operand,
                   llvm::to_vector(llvm::seq<int64_t>(
                       rank - typeOf(operand).getRank(), rank)),
                   type);
}

Value Algebra::reduce(ReduceKind kind, Value operand, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return operand;
  auto type = inferReduce(typeOf(operand), axes);
  assert(succeeded(type) && "axes must be distinct axes of the operand");
  return ReduceOp::create(builder, loc, *type, operand, kind, axes);
}

Value Algebra::sum(Value operand, int64_t from, int64_t to) {
  return reduce(ReduceKind::sum, operand,
                llvm::to_vector(llvm::seq<int64_t>(from, to)));
}

Value Algebra::reshape(Value operand, RankedTensorType type) {
  return operand.getType() == type
             ? operand
             : Value(ReshapeOp::create(builder, loc, type, operand));
}

Value Algebra::transpose(Value operand, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return operand;
  auto type = inferTranspose(typeOf(operand), permutation);
  assert(succeeded(type) && "must be a permutation of the operand's axes");
  return TransposeOp::create(builder, loc, *type, operand, permutation);
}

Value Algebra::slice(Value operand, ArrayRef<int64_t> starts,
                     ArrayRef<int64_t> strides, RankedTensorType type) {
  return SliceOp::create(builder, loc, type, operand, starts, strides);
}
