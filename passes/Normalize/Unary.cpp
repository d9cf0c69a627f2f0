//===- Unary.cpp - Functions of one variable of TensorBuilder -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

#include "dialects/NN/Autodiff.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

static double foldReal(Unary kind, double x) {
  switch (kind) {
  case Unary::Negate:
    return -x;
  case Unary::Absolute:
    return std::fabs(x);
  case Unary::Exponential:
    return std::exp(x);
  case Unary::Logarithm:
    return std::log(x);
  case Unary::SquareRoot:
    return std::sqrt(x);
  case Unary::Tanh:
    return std::tanh(x);
  case Unary::ErrorFunction:
    return std::erf(x);
  case Unary::Floor:
    return std::floor(x);
  case Unary::Ceil:
    return std::ceil(x);
  case Unary::RoundEven:
    return std::nearbyint(x);
  case Unary::Sine:
    return std::sin(x);
  case Unary::Cosine:
    return std::cos(x);
  case Unary::Tangent:
    return std::tan(x);
  case Unary::ArcSine:
    return std::asin(x);
  case Unary::ArcCosine:
    return std::acos(x);
  case Unary::ArcTangent:
    return std::atan(x);
  case Unary::HyperbolicSine:
    return std::sinh(x);
  case Unary::HyperbolicCosine:
    return std::cosh(x);
  case Unary::AreaSine:
    return std::asinh(x);
  case Unary::AreaCosine:
    return std::acosh(x);
  case Unary::AreaTangent:
    return std::atanh(x);
  case Unary::Sign:
    return x > 0 ? 1 : x < 0 ? -1 : x;
  case Unary::Not:
  case Unary::IsNaN:
    break;
  }
  llvm_unreachable("not an operation on floating elements");
}

static Folded foldInteger(Unary kind, Type type, Element x) {
  switch (kind) {
  case Unary::Negate:
    return integerElement(type, Element{-x.integer, 0, -x.batch, -x.sample});
  case Unary::Absolute:
    if (isNonNegative(x))
      return x;
    return x.isConstant() ? integerElement(type, Element{-x.integer})
                          : Folded();
  case Unary::Sign:
    if (isPositive(x))
      return Element{1};
    return x.isConstant() ? Folded(Element{x.integer < 0 ? -1 : 0}) : Folded();
  case Unary::Not:
    return boolElement(!x.integer);
  default:
    return std::nullopt;
  }
}

Tensor TensorBuilder::unary(Unary kind, const Tensor &x) {
  if (!x)
    return x;
  if (x.isBatchSum() && kind == Unary::Negate)
    return scaleSum(x, realElement(x.type(), -1), true, false);
  Type type = x.type();
  if (kind == Unary::IsNaN && !x.isFloat())
    return fail("needs floating elements");
  if (kind == Unary::IsNaN)
    return elementwise(
        {x}, builder.getI1Type(),
        [](ArrayRef<Element> e) -> Folded {
          return boolElement(std::isnan(e[0].real));
        },
        [&](ArrayRef<Value> v, RankedTensorType) {
          return emit<arith::CmpFOp>(arith::CmpFPredicate::UNO, v[0], v[0]);
        });
  if (kind == Unary::Not && !x.isBool())
    return fail("needs boolean elements");
  return elementwise(
      {x}, type,
      [&](ArrayRef<Element> e) -> Folded {
        if (!x.isFloat())
          return foldInteger(kind, type, e[0]);
        if (e[0].batch)
          return std::nullopt;
        return realElement(type, foldReal(kind, e[0].real));
      },
      [&](ArrayRef<Value> v, RankedTensorType resultType) -> Value {
        Tensor self = fromValue(v[0], type);
        if (kind == Unary::Sign)
          return materialize(select(
              compare(Compare::Greater, self, scalar(type, 0)), scalar(type, 1),
              select(compare(Compare::Less, self, scalar(type, 0)),
                     scalar(type, -1), self)));
        if (kind == Unary::Not)
          return materialize(binary(Binary::Xor, self, scalar(type, 1)));
        if (!x.isFloat()) {
          Tensor zero = scalar(type, 0);
          if (kind == Unary::Negate)
            return materialize(subtract(zero, self));
          if (kind == Unary::Absolute)
            return materialize(
                binary(Binary::Maximum, self, subtract(zero, self)));
          return Value();
        }
        switch (kind) {
        case Unary::Negate:
          return emit<arith::NegFOp>(v[0]);
        case Unary::Absolute:
          return emit<math::AbsFOp>(v[0]);
        case Unary::Exponential:
          return emit<math::ExpOp>(v[0]);
        case Unary::Logarithm:
          return emit<math::LogOp>(v[0]);
        case Unary::SquareRoot:
          return emit<math::SqrtOp>(v[0]);
        case Unary::Tanh:
          return emit<math::TanhOp>(v[0]);
        case Unary::ErrorFunction:
          return emit<math::ErfOp>(v[0]);
        case Unary::Floor:
          return emit<math::FloorOp>(v[0]);
        case Unary::Ceil:
          return emit<math::CeilOp>(v[0]);
        case Unary::RoundEven:
          return emit<math::RoundEvenOp>(v[0]);
        case Unary::Sine:
          return emit<math::SinOp>(v[0]);
        case Unary::Cosine:
          return emit<math::CosOp>(v[0]);
        case Unary::Tangent:
          return emit<math::TanOp>(v[0]);
        case Unary::ArcSine:
          return emit<math::AsinOp>(v[0]);
        case Unary::ArcCosine:
          return emit<math::AcosOp>(v[0]);
        case Unary::ArcTangent:
          return emit<math::AtanOp>(v[0]);
        case Unary::HyperbolicSine:
          return emit<math::SinhOp>(v[0]);
        case Unary::HyperbolicCosine:
          return emit<math::CoshOp>(v[0]);
        case Unary::AreaSine:
          return emit<math::AsinhOp>(v[0]);
        case Unary::AreaCosine:
          return emit<math::AcoshOp>(v[0]);
        case Unary::AreaTangent:
          return emit<math::AtanhOp>(v[0]);
        default:
          return Value();
        }
      });
}

Tensor TensorBuilder::detach(const Tensor &x) {
  if (!x || !x.isFloat())
    return x;
  if (x.isBatchSum())
    return mapSum(x,
                  [&](const Tensor &numerator) { return detach(numerator); });
  return elementwise(
      {x}, x.type(), [](ArrayRef<Element> e) -> Folded { return e[0]; },
      [&](ArrayRef<Value> v, RankedTensorType) {
        Value same = emit<math::CopySignOp>(v[0], v[0]);
        same.getDefiningOp()->setAttr(nn::kDetachedAttr, builder.getUnitAttr());
        return same;
      });
}
