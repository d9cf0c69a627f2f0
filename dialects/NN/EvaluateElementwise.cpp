//===- EvaluateElementwise.cpp - Elementwise reference semantics ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/EvaluateElementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace harmony::nn;

void harmony::nn::copyElement(const HostTensor &source, int64_t from,
                              HostTensor &target, int64_t to) {
  if (target.isFloat())
    target.floats[to] = source.floats[from];
  else
    target.integers[to] = source.integers[from];
}

int64_t harmony::nn::wrap(int64_t value, unsigned width) {
  if (width == 1)
    return value & 1;
  return width >= 64 ? value
                     : llvm::SignExtend64(static_cast<uint64_t>(value), width);
}

static uint64_t zeroExtend(int64_t value, unsigned width) {
  return width >= 64
             ? static_cast<uint64_t>(value)
             : static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
}

static int64_t signExtend(int64_t value, unsigned width) {
  return width == 1 ? -value : value;
}

unsigned harmony::nn::widthOf(Type element) {
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

namespace {
using Unary = double (*)(double);
using Binary = double (*)(double, double);
using IntegerBinary = int64_t (*)(int64_t lhs, int64_t rhs, unsigned width);
} // namespace

double harmony::nn::maximum(double lhs, double rhs) {
  return std::isnan(lhs) || std::isnan(rhs)                ? NAN
         : lhs > rhs || (lhs == rhs && !std::signbit(lhs)) ? lhs
                                                           : rhs;
}
double harmony::nn::minimum(double lhs, double rhs) {
  return -maximum(-lhs, -rhs);
}

static Unary getUnary(Operation *op) {
  return TypeSwitch<Operation *, Unary>(op)
      .Case([](arith::NegFOp) -> Unary { return [](double x) { return -x; }; })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [](auto) -> Unary { return [](double x) { return x; }; })
      .Case([](math::AbsFOp) -> Unary {
        return [](double x) { return std::fabs(x); };
      })
      .Case([](math::AcosOp) -> Unary {
        return [](double x) { return std::acos(x); };
      })
      .Case([](math::AcoshOp) -> Unary {
        return [](double x) { return std::acosh(x); };
      })
      .Case([](math::AsinOp) -> Unary {
        return [](double x) { return std::asin(x); };
      })
      .Case([](math::AsinhOp) -> Unary {
        return [](double x) { return std::asinh(x); };
      })
      .Case([](math::AtanOp) -> Unary {
        return [](double x) { return std::atan(x); };
      })
      .Case([](math::AtanhOp) -> Unary {
        return [](double x) { return std::atanh(x); };
      })
      .Case([](math::CbrtOp) -> Unary {
        return [](double x) { return std::cbrt(x); };
      })
      .Case([](math::CeilOp) -> Unary {
        return [](double x) { return std::ceil(x); };
      })
      .Case([](math::CosOp) -> Unary {
        return [](double x) { return std::cos(x); };
      })
      .Case([](math::CoshOp) -> Unary {
        return [](double x) { return std::cosh(x); };
      })
      .Case([](math::ErfOp) -> Unary {
        return [](double x) { return std::erf(x); };
      })
      .Case([](math::ErfcOp) -> Unary {
        return [](double x) { return std::erfc(x); };
      })
      .Case([](math::ExpOp) -> Unary {
        return [](double x) { return std::exp(x); };
      })
      .Case([](math::Exp2Op) -> Unary {
        return [](double x) { return std::exp2(x); };
      })
      .Case([](math::ExpM1Op) -> Unary {
        return [](double x) { return std::expm1(x); };
      })
      .Case([](math::FloorOp) -> Unary {
        return [](double x) { return std::floor(x); };
      })
      .Case([](math::LogOp) -> Unary {
        return [](double x) { return std::log(x); };
      })
      .Case([](math::Log10Op) -> Unary {
        return [](double x) { return std::log10(x); };
      })
      .Case([](math::Log1pOp) -> Unary {
        return [](double x) { return std::log1p(x); };
      })
      .Case([](math::Log2Op) -> Unary {
        return [](double x) { return std::log2(x); };
      })
      .Case([](math::RoundEvenOp) -> Unary {
        return [](double x) { return std::nearbyint(x); };
      })
      .Case([](math::RoundOp) -> Unary {
        return [](double x) { return std::round(x); };
      })
      .Case([](math::RsqrtOp) -> Unary {
        return [](double x) { return 1 / std::sqrt(x); };
      })
      .Case([](math::SinOp) -> Unary {
        return [](double x) { return std::sin(x); };
      })
      .Case([](math::SinhOp) -> Unary {
        return [](double x) { return std::sinh(x); };
      })
      .Case([](math::SqrtOp) -> Unary {
        return [](double x) { return std::sqrt(x); };
      })
      .Case([](math::TanOp) -> Unary {
        return [](double x) { return std::tan(x); };
      })
      .Case([](math::TanhOp) -> Unary {
        return [](double x) { return std::tanh(x); };
      })
      .Case([](math::TruncOp) -> Unary {
        return [](double x) { return std::trunc(x); };
      })
      .Default([](Operation *) -> Unary { return nullptr; });
}

static Binary getBinary(Operation *op) {
  return TypeSwitch<Operation *, Binary>(op)
      .Case([](arith::AddFOp) -> Binary {
        return [](double x, double y) { return x + y; };
      })
      .Case([](arith::SubFOp) -> Binary {
        return [](double x, double y) { return x - y; };
      })
      .Case([](arith::MulFOp) -> Binary {
        return [](double x, double y) { return x * y; };
      })
      .Case([](arith::DivFOp) -> Binary {
        return [](double x, double y) { return x / y; };
      })
      .Case([](arith::RemFOp) -> Binary {
        return [](double x, double y) { return std::fmod(x, y); };
      })
      .Case([](arith::MaximumFOp) -> Binary { return maximum; })
      .Case([](arith::MinimumFOp) -> Binary { return minimum; })
      .Case([](arith::MaxNumFOp) -> Binary {
        return [](double x, double y) { return std::fmax(x, y); };
      })
      .Case([](arith::MinNumFOp) -> Binary {
        return [](double x, double y) { return std::fmin(x, y); };
      })
      .Case([](math::Atan2Op) -> Binary {
        return [](double x, double y) { return std::atan2(x, y); };
      })
      .Case([](math::CopySignOp) -> Binary {
        return [](double x, double y) { return std::copysign(x, y); };
      })
      .Case([](math::PowFOp) -> Binary {
        return [](double x, double y) { return std::pow(x, y); };
      })
      .Default([](Operation *) -> Binary { return nullptr; });
}

// Division by zero and overflow are undefined in arith; here they give 0.
static int64_t divide(int64_t lhs, int64_t rhs) {
  return rhs == 0 || (rhs == -1 && lhs == INT64_MIN) ? 0 : lhs / rhs;
}
static int64_t remainder(int64_t lhs, int64_t rhs) {
  return rhs == 0 || rhs == -1 ? 0 : lhs % rhs;
}

static IntegerBinary getIntegerBinary(Operation *op) {
  using I = int64_t;
  using U = uint64_t;
#define HARMONY_INTEGER(EXPRESSION)                                            \
  return [](I x, I y, unsigned width) -> I { return EXPRESSION; }
  return TypeSwitch<Operation *, IntegerBinary>(op)
      .Case([](arith::AddIOp) -> IntegerBinary {
        HARMONY_INTEGER(I(U(x) + U(y)));
      })
      .Case([](arith::SubIOp) -> IntegerBinary {
        HARMONY_INTEGER(I(U(x) - U(y)));
      })
      .Case([](arith::MulIOp) -> IntegerBinary {
        HARMONY_INTEGER(I(U(x) * U(y)));
      })
      .Case([](arith::DivSIOp) -> IntegerBinary {
        HARMONY_INTEGER(divide(x, y));
      })
      .Case([](arith::RemSIOp) -> IntegerBinary {
        HARMONY_INTEGER(remainder(x, y));
      })
      .Case([](arith::FloorDivSIOp) -> IntegerBinary {
        HARMONY_INTEGER(divide(x, y) -
                        (remainder(x, y) != 0 && (x < 0) != (y < 0)));
      })
      .Case([](arith::CeilDivSIOp) -> IntegerBinary {
        HARMONY_INTEGER(divide(x, y) +
                        (remainder(x, y) != 0 && (x < 0) == (y < 0)));
      })
      .Case([](arith::DivUIOp) -> IntegerBinary {
        HARMONY_INTEGER(y ? I(zeroExtend(x, width) / zeroExtend(y, width)) : 0);
      })
      .Case([](arith::RemUIOp) -> IntegerBinary {
        HARMONY_INTEGER(y ? I(zeroExtend(x, width) % zeroExtend(y, width)) : 0);
      })
      .Case([](arith::AndIOp) -> IntegerBinary { HARMONY_INTEGER(x & y); })
      .Case([](arith::OrIOp) -> IntegerBinary { HARMONY_INTEGER(x | y); })
      .Case([](arith::XOrIOp) -> IntegerBinary { HARMONY_INTEGER(x ^ y); })
      .Case([](arith::ShLIOp) -> IntegerBinary {
        HARMONY_INTEGER(U(y) < width ? I(U(x) << y) : 0);
      })
      .Case([](arith::ShRUIOp) -> IntegerBinary {
        HARMONY_INTEGER(U(y) < width ? I(zeroExtend(x, width) >> y) : 0);
      })
      .Case([](arith::ShRSIOp) -> IntegerBinary {
        HARMONY_INTEGER(U(y) < width ? x >> y : 0);
      })
      .Case([](arith::MaxSIOp) -> IntegerBinary {
        HARMONY_INTEGER(signExtend(x, width) > signExtend(y, width) ? x : y);
      })
      .Case([](arith::MinSIOp) -> IntegerBinary {
        HARMONY_INTEGER(signExtend(x, width) < signExtend(y, width) ? x : y);
      })
      .Case([](arith::MaxUIOp) -> IntegerBinary {
        HARMONY_INTEGER(zeroExtend(x, width) > zeroExtend(y, width) ? x : y);
      })
      .Case([](arith::MinUIOp) -> IntegerBinary {
        HARMONY_INTEGER(zeroExtend(x, width) < zeroExtend(y, width) ? x : y);
      })
      .Default([](Operation *) -> IntegerBinary { return nullptr; });
#undef HARMONY_INTEGER
}

static bool compareFloats(arith::CmpFPredicate predicate, double x, double y) {
  using P = arith::CmpFPredicate;
  bool unordered = std::isnan(x) || std::isnan(y);
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::OEQ:
    return x == y;
  case P::OGT:
    return x > y;
  case P::OGE:
    return x >= y;
  case P::OLT:
    return x < y;
  case P::OLE:
    return x <= y;
  case P::ONE:
    return !unordered && x != y;
  case P::ORD:
    return !unordered;
  case P::UEQ:
    return unordered || x == y;
  case P::UGT:
    return unordered || x > y;
  case P::UGE:
    return unordered || x >= y;
  case P::ULT:
    return unordered || x < y;
  case P::ULE:
    return unordered || x <= y;
  case P::UNE:
    return x != y;
  case P::UNO:
    return unordered;
  }
  llvm_unreachable("all predicates are handled");
}

static bool compareIntegers(arith::CmpIPredicate predicate, int64_t x,
                            int64_t y, unsigned width) {
  using P = arith::CmpIPredicate;
  int64_t sx = signExtend(x, width), sy = signExtend(y, width);
  uint64_t ux = zeroExtend(x, width), uy = zeroExtend(y, width);
  switch (predicate) {
  case P::eq:
    return x == y;
  case P::ne:
    return x != y;
  case P::slt:
    return sx < sy;
  case P::sle:
    return sx <= sy;
  case P::sgt:
    return sx > sy;
  case P::sge:
    return sx >= sy;
  case P::ult:
    return ux < uy;
  case P::ule:
    return ux <= uy;
  case P::ugt:
    return ux > uy;
  case P::uge:
    return ux >= uy;
  }
  llvm_unreachable("all predicates are handled");
}

LogicalResult harmony::nn::evaluateElementwise(Operation *op,
                                               ArrayRef<const HostTensor *> in,
                                               HostTensor &result) {
  int64_t count = result.size();
  unsigned width = in.empty() ? 0 : widthOf(in.front()->element);
  unsigned resultWidth = widthOf(result.element);

  if (Unary unary = getUnary(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.floats[i] = unary(in[0]->floats[i]);
  } else if (Binary binary = getBinary(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.floats[i] = binary(in[0]->floats[i], in[1]->floats[i]);
  } else if (IntegerBinary integer = getIntegerBinary(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] =
          wrap(integer(in[0]->integers[i], in[1]->integers[i], width), width);
  } else if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] = compareFloats(compare.getPredicate(),
                                         in[0]->floats[i], in[1]->floats[i]);
  } else if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] =
          compareIntegers(compare.getPredicate(), in[0]->integers[i],
                          in[1]->integers[i], width);
  } else if (isa<arith::SelectOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      copyElement(in[0]->integers[i] ? *in[1] : *in[2], i, result, i);
  } else if (isa<math::FmaOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.floats[i] =
          std::fma(in[0]->floats[i], in[1]->floats[i], in[2]->floats[i]);
  } else if (isa<math::ClampFOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.floats[i] = minimum(maximum(in[0]->floats[i], in[1]->floats[i]),
                                 in[2]->floats[i]);
  } else if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.floats[i] = isa<arith::SIToFPOp>(op)
                             ? double(signExtend(in[0]->integers[i], width))
                             : double(zeroExtend(in[0]->integers[i], width));
  } else if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] =
          wrap(static_cast<int64_t>(in[0]->floats[i]), resultWidth);
  } else if (isa<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] =
          wrap(signExtend(in[0]->integers[i], width), resultWidth);
  } else if (isa<arith::ExtUIOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] =
          wrap(zeroExtend(in[0]->integers[i], width), resultWidth);
  } else if (isa<math::AbsIOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] = wrap(std::abs(in[0]->integers[i]), width);
  } else if (isa<math::IsNaNOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] = std::isnan(in[0]->floats[i]);
  } else if (isa<math::IsInfOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] = std::isinf(in[0]->floats[i]);
  } else if (isa<math::IsFiniteOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      result.integers[i] = std::isfinite(in[0]->floats[i]);
  } else {
    return op->emitOpError("is not known to the evaluator");
  }
  return success();
}
