//===- Elementwise.cpp - Elementwise operations of TensorBuilder ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

/// factor * x where the coefficient of N stays an integer.
static Folded scaleElement(Type type, Element x, double factor) {
  double batch = static_cast<double>(x.batch) * factor;
  if (batch != std::floor(batch))
    return std::nullopt;
  return realElement(type, x.real * factor, static_cast<int64_t>(batch));
}

static Folded foldBinaryReal(Binary kind, Type type, Element a, Element b) {
  switch (kind) {
  case Binary::Add:
    return realElement(type, a.real + b.real, a.batch + b.batch);
  case Binary::Subtract:
    return realElement(type, a.real - b.real, a.batch - b.batch);
  case Binary::Multiply:
    if (b.batch)
      std::swap(a, b);
    return b.batch ? Folded() : scaleElement(type, a, b.real);
  case Binary::Divide:
    if (!a.batch && !b.batch)
      return realElement(type, a.real / b.real);
    return b.batch || b.real == 0 ? Folded()
                                  : scaleElement(type, a, 1 / b.real);
  default:
    break;
  }
  if (a.batch || b.batch)
    return std::nullopt;
  switch (kind) {
  case Binary::Maximum:
    return realElement(type, std::isnan(a.real) || std::isnan(b.real)
                                 ? NAN
                                 : std::max(a.real, b.real));
  case Binary::Minimum:
    return realElement(type, std::isnan(a.real) || std::isnan(b.real)
                                 ? NAN
                                 : std::min(a.real, b.real));
  case Binary::Power:
    return realElement(type, std::pow(a.real, b.real));
  case Binary::Remainder:
    return realElement(type, std::fmod(a.real, b.real));
  default:
    return std::nullopt;
  }
}

/// 1: a is at least b for all N and n, -1: at most, 0: it depends.
static int order(Element a, Element b) {
  Element difference{a.integer - b.integer, 0, a.batch - b.batch,
                     a.sample - b.sample};
  if (isNonNegative(difference))
    return 1;
  Element negated{-difference.integer, 0, -difference.batch,
                  -difference.sample};
  return isNonNegative(negated) ? -1 : 0;
}

static Folded foldBinaryInteger(Binary kind, Type type, Element a, Element b) {
  auto wrap = [&](int64_t integer, int64_t batch = 0, int64_t sample = 0) {
    return integerElement(type, Element{integer, 0, batch, sample});
  };
  switch (kind) {
  case Binary::Add:
    return wrap(a.integer + b.integer, a.batch + b.batch, a.sample + b.sample);
  case Binary::Subtract:
    return wrap(a.integer - b.integer, a.batch - b.batch, a.sample - b.sample);
  case Binary::Multiply:
    if (!b.isConstant())
      std::swap(a, b);
    if (!b.isConstant())
      return std::nullopt;
    return wrap(a.integer * b.integer, a.batch * b.integer,
                a.sample * b.integer);
  case Binary::Divide: {
    int64_t divisor = b.integer;
    if (!b.isConstant() || divisor == 0)
      return std::nullopt;
    if (a.isConstant())
      return wrap(divisor == -1 ? -a.integer : a.integer / divisor);
    if (a.integer % divisor || a.batch % divisor || a.sample % divisor)
      return std::nullopt;
    return wrap(a.integer / divisor, a.batch / divisor, a.sample / divisor);
  }
  case Binary::Maximum:
    if (int direction = order(a, b))
      return direction > 0 ? a : b;
    return std::nullopt;
  case Binary::Minimum:
    if (int direction = order(a, b))
      return direction > 0 ? b : a;
    return std::nullopt;
  case Binary::Power: {
    if (!a.isConstant() || !b.isConstant() || b.integer < 0)
      return std::nullopt;
    int64_t result = 1;
    for (int64_t i = 0; i < b.integer && result != 0; ++i)
      if (llvm::MulOverflow(result, a.integer, result))
        return std::nullopt;
    return wrap(result);
  }
  case Binary::Remainder: {
    if (!a.isConstant() || !b.isConstant() || b.integer == 0)
      return std::nullopt;
    int64_t remainder = b.integer == -1 ? 0 : a.integer % b.integer;
    return wrap(remainder && (remainder < 0) != (b.integer < 0)
                    ? remainder + b.integer
                    : remainder);
  }
  case Binary::And:
  case Binary::Or:
  case Binary::Xor:
  case Binary::ShiftLeft:
  case Binary::ShiftRight:
    break;
  }
  if (!a.isConstant() || !b.isConstant())
    return std::nullopt;
  switch (kind) {
  case Binary::And:
    return wrap(a.integer & b.integer);
  case Binary::Or:
    return wrap(a.integer | b.integer);
  case Binary::Xor:
    return wrap(a.integer ^ b.integer);
  default:
    break;
  }
  // Shifting by the width or more leaves nothing.
  auto bits = static_cast<uint64_t>(a.integer),
       count = static_cast<uint64_t>(b.integer);
  if (count >= type.getIntOrFloatBitWidth())
    return wrap(0);
  return wrap(kind == Binary::ShiftLeft ? bits << count : bits >> count);
}

/// Whether `kind` with the constant `value` on the right changes nothing.
static bool isNeutral(Binary kind, Type type, double value) {
  switch (kind) {
  case Binary::Multiply:
  case Binary::Divide:
  case Binary::Power:
    return value == 1;
  case Binary::Add:
    return !isa<FloatType>(type) && value == 0; // 0 + -0 is 0
  case Binary::Subtract:
    return value == 0 && !std::signbit(value);
  case Binary::And:
    return type.isInteger(1) && value == 1;
  case Binary::Or:
    return value == 0;
  default:
    return false;
  }
}

static bool isCommutative(Binary kind) {
  return kind == Binary::Multiply || kind == Binary::Add ||
         kind == Binary::And || kind == Binary::Or;
}

Tensor TensorBuilder::binary(Binary kind, Tensor a, Tensor b) {
  if (!a || !b)
    return Tensor();
  if (a.isBatchSum() || b.isBatchSum())
    return linearOnSum(kind, a, b);
  if (kind == Binary::Power && a.type() != b.type())
    b = cast(b, a.type());
  if (!a || !b)
    return Tensor();
  if (a.type() != b.type())
    return fail("operands have element types " + toText(a.type()) + " and " +
                toText(b.type()));
  Type type = a.type();
  bool isFloat = a.isFloat(), isLogic = kind == Binary::And ||
                                        kind == Binary::Or ||
                                        kind == Binary::Xor;
  bool isShift = kind == Binary::ShiftLeft || kind == Binary::ShiftRight;
  if ((a.isBool() && !isLogic) || (isFloat && (isLogic || isShift)) ||
      (isShift && !type.isUnsignedInteger()))
    return fail("is not supported for elements of type " + toText(type));

  std::optional<Shape> shape = broadcastShapes(a.shape(), b.shape());
  if (!shape)
    return fail("cannot broadcast " + toString(a.shape()) + " with " +
                toString(b.shape()));
  auto neutral = [&](const Tensor &other) {
    std::optional<double> value = other.splatNumber();
    return value && isNeutral(kind, type, *value);
  };
  if (neutral(b))
    return expand(a, *shape);
  if (isCommutative(kind) && neutral(a))
    return expand(b, *shape);

  if (std::optional<double> exponent = b.splatNumber();
      kind == Binary::Power && exponent && !a.isKnown()) {
    // Small powers are products, so that x^2 is x * x to the bit, and
    // differentiable at 0.
    Tensor power = a;
    if (*exponent >= 2 && *exponent <= 4 &&
        *exponent == std::floor(*exponent)) {
      for (int i = 1; i < *exponent; ++i)
        power = multiply(power, a);
      return expand(power, *shape);
    }
    if (isFloat && *exponent == 0.5)
      return expand(unary(Unary::SquareRoot, a), *shape);
    if (isFloat && *exponent == -1)
      return expand(divide(scalar(type, 1), a), *shape);
    if (isFloat && *exponent == -0.5)
      return expand(divide(scalar(type, 1), unary(Unary::SquareRoot, a)),
                    *shape);
  }
  bool isUnsigned = type.isUnsignedInteger();
  return elementwise(
      {a, b}, type,
      [&](ArrayRef<Element> e) -> Folded {
        return isFloat ? foldBinaryReal(kind, type, e[0], e[1])
                       : foldBinaryInteger(kind, type, e[0], e[1]);
      },
      [&](ArrayRef<Value> v, RankedTensorType) -> Value {
        switch (kind) {
        case Binary::Add:
          return isFloat ? emit<arith::AddFOp>(v[0], v[1])
                         : emit<arith::AddIOp>(v[0], v[1]);
        case Binary::Subtract:
          return isFloat ? emit<arith::SubFOp>(v[0], v[1])
                         : emit<arith::SubIOp>(v[0], v[1]);
        case Binary::Multiply:
          return isFloat ? emit<arith::MulFOp>(v[0], v[1])
                         : emit<arith::MulIOp>(v[0], v[1]);
        case Binary::Divide:
          if (isFloat)
            return emit<arith::DivFOp>(v[0], v[1]);
          return isUnsigned ? emit<arith::DivUIOp>(v[0], v[1])
                            : emit<arith::DivSIOp>(v[0], v[1]);
        case Binary::Maximum:
          if (isFloat)
            return emit<arith::MaximumFOp>(v[0], v[1]);
          return isUnsigned ? emit<arith::MaxUIOp>(v[0], v[1])
                            : emit<arith::MaxSIOp>(v[0], v[1]);
        case Binary::Minimum:
          if (isFloat)
            return emit<arith::MinimumFOp>(v[0], v[1]);
          return isUnsigned ? emit<arith::MinUIOp>(v[0], v[1])
                            : emit<arith::MinSIOp>(v[0], v[1]);
        case Binary::Power:
          return isFloat ? emit<math::PowFOp>(v[0], v[1]) : Value();
        case Binary::Remainder:
          return Value();
        case Binary::And:
          return emit<arith::AndIOp>(v[0], v[1]);
        case Binary::Or:
          return emit<arith::OrIOp>(v[0], v[1]);
        case Binary::Xor:
          return emit<arith::XOrIOp>(v[0], v[1]);
        case Binary::ShiftLeft:
        case Binary::ShiftRight: {
          // Shifting by the width or more is undefined in arith, 0 here.
          Tensor count = fromValue(v[1], type), zero = scalar(type, 0);
          Value shifted = kind == Binary::ShiftLeft
                              ? emit<arith::ShLIOp>(v[0], v[1])
                              : emit<arith::ShRUIOp>(v[0], v[1]);
          Tensor width = scalar(type, type.getIntOrFloatBitWidth());
          return materialize(select(compare(Compare::Less, count, width),
                                    fromValue(shifted, type), zero));
        }
        }
        return Value();
      });
}

//===----------------------------------------------------------------------===//
// Comparison, selection, conversion
//===----------------------------------------------------------------------===//

static Folded foldCompare(Compare kind, bool isFloat, Element a, Element b) {
  switch (kind) {
  case Compare::Greater:
    return foldCompare(Compare::Less, isFloat, b, a);
  case Compare::GreaterOrEqual:
    return foldCompare(Compare::LessOrEqual, isFloat, b, a);
  default:
    break;
  }
  if (isFloat) {
    if (a.batch || b.batch)
      return std::nullopt;
    bool result = kind == Compare::Equal  ? a.real == b.real
                  : kind == Compare::Less ? a.real < b.real
                                          : a.real <= b.real;
    return boolElement(result);
  }
  Element difference{b.integer - a.integer, 0, b.batch - a.batch,
                     b.sample - a.sample};
  Element negated{-difference.integer, 0, -difference.batch,
                  -difference.sample};
  if (kind == Compare::Equal) {
    if (difference.isConstant())
      return boolElement(difference.integer == 0);
    return isPositive(difference) || isPositive(negated) ? boolElement(false)
                                                         : Folded();
  }
  if (kind == Compare::Less) {
    if (isPositive(difference))
      return boolElement(true);
    return isNonNegative(negated) ? boolElement(false) : Folded();
  }
  if (isNonNegative(difference))
    return boolElement(true);
  return isPositive(negated) ? boolElement(false) : Folded();
}

Tensor TensorBuilder::compare(Compare kind, const Tensor &a, const Tensor &b) {
  if (!a || !b)
    return Tensor();
  if (a.type() != b.type())
    return fail("operands have element types " + toText(a.type()) + " and " +
                toText(b.type()));
  bool isFloat = a.isFloat(),
       isUnsigned = a.type().isUnsignedInteger() || a.isBool();
  return elementwise(
      {a, b}, builder.getI1Type(),
      [&](ArrayRef<Element> e) {
        return foldCompare(kind, isFloat, e[0], e[1]);
      },
      [&](ArrayRef<Value> v, RankedTensorType) -> Value {
        if (isFloat) {
          static constexpr arith::CmpFPredicate predicates[] = {
              arith::CmpFPredicate::OEQ, arith::CmpFPredicate::OLT,
              arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT,
              arith::CmpFPredicate::OGE};
          return emit<arith::CmpFOp>(predicates[static_cast<int>(kind)], v[0],
                                     v[1]);
        }
        static constexpr arith::CmpIPredicate predicates[][2] = {
            {arith::CmpIPredicate::eq, arith::CmpIPredicate::eq},
            {arith::CmpIPredicate::slt, arith::CmpIPredicate::ult},
            {arith::CmpIPredicate::sle, arith::CmpIPredicate::ule},
            {arith::CmpIPredicate::sgt, arith::CmpIPredicate::ugt},
            {arith::CmpIPredicate::sge, arith::CmpIPredicate::uge}};
        return emit<arith::CmpIOp>(
            predicates[static_cast<int>(kind)][isUnsigned], v[0], v[1]);
      });
}

Tensor TensorBuilder::select(const Tensor &condition, const Tensor &yes,
                             const Tensor &no) {
  if (!condition || !yes || !no)
    return Tensor();
  if (!condition.isBool() || yes.type() != no.type())
    return fail("operands have element types " + toText(condition.type()) +
                ", " + toText(yes.type()) + " and " + toText(no.type()));
  if (std::optional<Element> constant = condition.splat();
      constant && !yes.isBatchSum() && !no.isBatchSum()) {
    std::optional<Shape> shape = broadcastShapes(yes.shape(), no.shape());
    if (shape)
      shape = broadcastShapes(*shape, condition.shape());
    if (shape)
      return expand(constant->integer ? yes : no, *shape);
  }
  std::optional<Element> same = yes.splat();
  if (same && no.splat() == same)
    if (std::optional<Shape> shape = broadcastShapes(yes.shape(), no.shape()))
      if ((shape = broadcastShapes(*shape, condition.shape())))
        return expand(known(yes.type(), {}, {*same}), *shape);
  return elementwise(
      {condition, yes, no}, yes.type(),
      [](ArrayRef<Element> e) -> Folded { return e[0].integer ? e[1] : e[2]; },
      [&](ArrayRef<Value> v, RankedTensorType) {
        return emit<arith::SelectOp>(v[0], v[1], v[2]);
      });
}

static Folded foldCast(Type from, Type to, Element x) {
  bool fromFloat = isa<FloatType>(from);
  if (auto floatType = dyn_cast<FloatType>(to)) {
    if (x.sample)
      return std::nullopt;
    return realElement(to, fromFloat ? x.real : static_cast<double>(x.integer),
                       x.batch);
  }
  if (to.isInteger(1)) {
    if (fromFloat)
      return x.batch ? Folded() : boolElement(x.real != 0);
    if (x.isConstant())
      return boolElement(x.integer != 0);
    return isPositive(x) ? boolElement(true) : Folded();
  }
  if (!fromFloat)
    return integerElement(to, x);
  if (x.batch && x.real != std::trunc(x.real))
    return std::nullopt;
  if (!(std::fabs(x.real) < 9.2e18))
    return std::nullopt;
  return integerElement(to,
                        Element{static_cast<int64_t>(x.real), 0, x.batch, 0});
}

Tensor TensorBuilder::cast(const Tensor &x, Type type) {
  if (!x || x.type() == type)
    return x;
  if (x.isBatchSum())
    return mapSum(
        x, [&](const Tensor &numerator) { return cast(numerator, type); });
  Type from = x.type();
  return elementwise(
      {x}, type,
      [&](ArrayRef<Element> e) { return foldCast(from, type, e[0]); },
      [&](ArrayRef<Value> v, RankedTensorType to) -> Value {
        auto fromFloat = dyn_cast<FloatType>(from),
             toFloat = dyn_cast<FloatType>(type);
        if (fromFloat && toFloat) {
          if (fromFloat.getWidth() == toFloat.getWidth())
            return Value(); // bf16 and f16: through f32, which no exporter
                            // writes
          return fromFloat.getWidth() < toFloat.getWidth()
                     ? emit<arith::ExtFOp>(to, v[0])
                     : emit<arith::TruncFOp>(to, v[0]);
        }
        if (type.isInteger(1)) {
          Value zero =
              materializeAs(scalar(from, 0), fromValue(v[0], from).shape());
          return fromFloat ? emit<arith::CmpFOp>(arith::CmpFPredicate::UNE,
                                                 v[0], zero)
                           : emit<arith::CmpIOp>(arith::CmpIPredicate::ne, v[0],
                                                 zero);
        }
        bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
        if (toFloat)
          return fromUnsigned ? emit<arith::UIToFPOp>(to, v[0])
                              : emit<arith::SIToFPOp>(to, v[0]);
        if (fromFloat)
          return type.isUnsignedInteger() ? emit<arith::FPToUIOp>(to, v[0])
                                          : emit<arith::FPToSIOp>(to, v[0]);
        unsigned before = from.getIntOrFloatBitWidth(),
                 after = type.getIntOrFloatBitWidth();
        if (before == after)
          return v[0];
        if (before > after)
          return emit<arith::TruncIOp>(to, v[0]);
        return fromUnsigned ? emit<arith::ExtUIOp>(to, v[0])
                            : emit<arith::ExtSIOp>(to, v[0]);
      });
}

Tensor TensorBuilder::atLeast(const Tensor &x, const Tensor &bound) {
  return select(compare(Compare::Less, x, bound), bound, x);
}

Tensor TensorBuilder::atMost(const Tensor &x, const Tensor &bound) {
  return select(compare(Compare::Greater, x, bound), bound, x);
}

Tensor TensorBuilder::relu(const Tensor &x) {
  if (!x)
    return x;
  Tensor zero = scalarLike(x, 0);
  if (!x.isFloat())
    return binary(Binary::Maximum, x, zero);
  Tensor isAbove = elementwise(
      {x, zero}, builder.getI1Type(),
      [](ArrayRef<Element> e) -> Folded {
        return e[0].batch ? Folded()
                          : boolElement(e[0].real > 0 || std::isnan(e[0].real));
      },
      [&](ArrayRef<Value> v, RankedTensorType) {
        return emit<arith::CmpFOp>(arith::CmpFPredicate::UGT, v[0], v[1]);
      });
  return select(isAbove, x, zero);
}
