//===- Algebra.h - Building nn expressions ----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin writer of tensor algebra: definitions of composites and adjoints read
// like their formulas. Every method adds ops at the builder's insertion point
// and returns the result; nothing is folded, so the order of operations in a
// definition is the order of the calls.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_ALGEBRA_H
#define DIALECTS_NN_ALGEBRA_H

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

namespace harmony::nn {

class Algebra {
public:
  Algebra(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  static mlir::RankedTensorType typeOf(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType());
  }

  /// A scalar, rounded to the element type and repeated to `type`.
  mlir::Value constant(double value, mlir::RankedTensorType type);
  /// The same for an integer element type.
  mlir::Value integer(int64_t value, mlir::RankedTensorType type);

  /// An elementwise op whose result has the type of its first operand.
  template <typename OpTy, typename... Operands>
  mlir::Value apply(mlir::Value first, Operands... rest) {
    return OpTy::create(builder, loc, first.getType(),
                        mlir::ValueRange{first, rest...})
        .getResult();
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs) {
    return apply<mlir::arith::AddFOp>(lhs, rhs);
  }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) {
    return apply<mlir::arith::SubFOp>(lhs, rhs);
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) {
    return apply<mlir::arith::MulFOp>(lhs, rhs);
  }
  mlir::Value div(mlir::Value lhs, mlir::Value rhs) {
    return apply<mlir::arith::DivFOp>(lhs, rhs);
  }
  mlir::Value neg(mlir::Value operand) {
    return apply<mlir::arith::NegFOp>(operand);
  }
  mlir::Value exp(mlir::Value operand) {
    return apply<mlir::math::ExpOp>(operand);
  }
  mlir::Value scale(mlir::Value operand, double factor) {
    return mul(operand, constant(factor, typeOf(operand)));
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::Value select(mlir::Value condition, mlir::Value ifTrue,
                     mlir::Value ifFalse);

  /// The number of elements that a reduction of a tensor of type `operand` over
  /// `axes` combines, in every element of `type`.
  mlir::Value count(mlir::RankedTensorType operand,
                    llvm::ArrayRef<int64_t> axes, mlir::RankedTensorType type);

  /// Repeats `operand` to `type`, its axis i becoming axis axes[i].
  mlir::Value broadcast(mlir::Value operand, llvm::ArrayRef<int64_t> axes,
                        mlir::RankedTensorType type);
  /// The same where the operand's axes are the leading ones of `type`.
  mlir::Value broadcastLeading(mlir::Value operand,
                               mlir::RankedTensorType type);
  /// The same where they are the trailing ones.
  mlir::Value broadcastTrailing(mlir::Value operand,
                                mlir::RankedTensorType type);
  mlir::Value reduce(ReduceKind kind, mlir::Value operand,
                     llvm::ArrayRef<int64_t> axes);
  /// Sum over axes [from, to).
  mlir::Value sum(mlir::Value operand, int64_t from, int64_t to);
  mlir::Value reshape(mlir::Value operand, mlir::RankedTensorType type);
  mlir::Value transpose(mlir::Value operand,
                        llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value operand, llvm::ArrayRef<int64_t> starts,
                    llvm::ArrayRef<int64_t> strides,
                    mlir::RankedTensorType type);

protected:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace harmony::nn

#endif // DIALECTS_NN_ALGEBRA_H
