//===- FuseGelu.cpp - Recognise a decomposed GELU -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exporters write 0.5 x (1 + erf(x / sqrt 2)), and for the approximation
// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as products in any order.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Fuse.h"

#include "dialects/NN/NN.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {
/// constant * the product of `factors`.
struct Product {
  double constant = 1;
  SmallVector<Value> factors;
};
} // namespace

/// Takes products and quotients by constants apart; `whole` is not taken apart.
static void collect(Value value, Value whole, Product &product) {
  if (std::optional<double> splat = getSplat(value)) {
    product.constant *= *splat;
    return;
  }
  if (value != whole) {
    if (auto multiply = value.getDefiningOp<arith::MulFOp>()) {
      collect(multiply.getLhs(), whole, product);
      collect(multiply.getRhs(), whole, product);
      return;
    }
    if (auto divide = value.getDefiningOp<arith::DivFOp>())
      if (std::optional<double> divisor = getSplat(divide.getRhs())) {
        product.constant /= *divisor;
        collect(divide.getLhs(), whole, product);
        return;
      }
  }
  product.factors.push_back(value);
}

static Product getProduct(Value value, Value whole) {
  Product product;
  collect(value, whole, product);
  return product;
}

/// The other operand of an addition of 1.
static Value getOnePlus(Value value) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add)
    return Value();
  if (getSplat(add.getRhs()) == 1.0)
    return add.getLhs();
  return getSplat(add.getLhs()) == 1.0 ? add.getRhs() : Value();
}

/// x if `value` is sqrt(2 / pi) (x + 0.044715 x^3).
static Value matchTanhArgument(Value value) {
  Product outer = getProduct(value, Value());
  if (outer.factors.size() != 1 || !isNear(outer.constant, std::sqrt(2 / M_PI)))
    return Value();
  auto add = outer.factors.front().getDefiningOp<arith::AddFOp>();
  if (!add)
    return Value();
  for (auto [x, cubic] : {std::pair(add.getLhs(), add.getRhs()),
                          std::pair(add.getRhs(), add.getLhs())}) {
    Product cube = getProduct(cubic, x);
    if (isNear(cube.constant, 0.044715) && cube.factors.size() == 3 &&
        llvm::all_equal(cube.factors) && cube.factors.front() == x)
      return x;
  }
  return Value();
}

/// x if `value` is x / sqrt 2.
static Value matchErfArgument(Value value) {
  if (auto multiply = value.getDefiningOp<arith::MulFOp>()) {
    if (std::optional<double> factor = getSplat(multiply.getRhs());
        factor && isNear(*factor, std::sqrt(0.5)))
      return multiply.getLhs();
    if (std::optional<double> factor = getSplat(multiply.getLhs());
        factor && isNear(*factor, std::sqrt(0.5)))
      return multiply.getRhs();
  }
  if (auto divide = value.getDefiningOp<arith::DivFOp>())
    if (std::optional<double> divisor = getSplat(divide.getRhs());
        divisor && isNear(*divisor, std::sqrt(2.0)))
      return divide.getLhs();
  return Value();
}

/// x and the form if `root` is a GELU of x.
static std::optional<std::pair<Value, bool>> matchGelu(arith::MulFOp root) {
  for (Value factor : getProduct(root.getResult(), Value()).factors) {
    Value inner = getOnePlus(factor);
    if (!inner)
      continue;
    Value x;
    bool isTanh = false;
    if (auto tanh = inner.getDefiningOp<math::TanhOp>()) {
      x = matchTanhArgument(tanh.getOperand());
      isTanh = true;
    } else if (auto erf = inner.getDefiningOp<math::ErfOp>()) {
      x = matchErfArgument(erf.getOperand());
    }
    if (!x)
      continue;
    // The whole product again, x in one piece.
    Product product = getProduct(root.getResult(), x);
    if (isNear(product.constant, 0.5) && product.factors.size() == 2 &&
        llvm::is_contained(product.factors, x) &&
        llvm::is_contained(product.factors, factor))
      return std::pair(x, isTanh);
  }
  return std::nullopt;
}

bool Fuser::fuseGelu(Operation *op) {
  auto multiply = dyn_cast<arith::MulFOp>(op);
  if (!multiply)
    return false;
  std::optional<std::pair<Value, bool>> match = matchGelu(multiply);
  if (!match || match->first.getType() != multiply.getType())
    return false;
  OpBuilder builder(op);
  auto gelu = nn::GeluOp::create(builder, op->getLoc(), multiply.getType(),
                                 match->first, match->second);
  replace(op, gelu, gelu, {match->first});
  return true;
}
