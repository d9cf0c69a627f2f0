//===- ElementwiseAdjoints.cpp - Adjoints of arith and math ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Notation: x and y are operands, r the result, d the cotangent of the result.
// Where a function has a kink the choice is stated: it is PyTorch's.
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Adjoints.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using nn::AdjointContext;
using Float = arith::CmpFPredicate;

namespace {

/// What the rule of a function of one variable works with. Values are asked for
/// lazily: a rule that does not call x() does not make the backward read x.
struct Unary {
  AdjointContext &a;
  Operation *op;

  Value x() { return a.primal(op->getOperand(0)); }
  Value r() { return a.primal(op->getResult(0)); }
  Value d() { return a.cotangent(0); }
  Value constant(double value) {
    return a.constant(value, AdjointContext::typeOf(d()));
  }
  /// 1 - value * value
  Value oneMinusSquare(Value value) {
    return a.sub(constant(1), a.mul(value, value));
  }
  Value sqrt(Value value) { return a.apply<math::SqrtOp>(value); }
};

/// The adjoint of a unary function as one product.
template <typename OpTy, Value (*Rule)(Unary)>
void unary(OpTy op, AdjointContext &a) {
  a.contribute(0, Rule(Unary{a, op}));
}

template <typename OpTy, Value (*Rule)(Unary)>
void attachUnary(MLIRContext &context) {
  attach<OpTy, unary<OpTy, Rule>>(context);
}

/// The adjoint of a function that is constant wherever it has a derivative.
template <typename OpTy>
void zero(OpTy, AdjointContext &) {}

} // namespace

//===----------------------------------------------------------------------===//
// Functions of one variable
//===----------------------------------------------------------------------===//

static Value negRule(Unary u) { return u.a.neg(u.d()); }

/// d where x > 0, -d where x < 0, 0 at 0.
static Value absRule(Unary u) {
  Value x = u.x(), zero = u.constant(0);
  Value negative =
      u.a.select(u.a.compare(Float::OLT, x, zero), u.a.neg(u.d()), zero);
  return u.a.select(u.a.compare(Float::OGT, x, zero), u.d(), negative);
}

static Value expRule(Unary u) { return u.a.mul(u.d(), u.r()); }
static Value exp2Rule(Unary u) {
  return u.a.mul(u.d(), u.a.scale(u.r(), M_LN2));
}
static Value expm1Rule(Unary u) {
  return u.a.mul(u.d(), u.a.add(u.r(), u.constant(1)));
}
static Value logRule(Unary u) { return u.a.div(u.d(), u.x()); }
static Value log2Rule(Unary u) {
  return u.a.div(u.d(), u.a.scale(u.x(), M_LN2));
}
static Value log10Rule(Unary u) {
  return u.a.div(u.d(), u.a.scale(u.x(), M_LN10));
}
static Value log1pRule(Unary u) {
  return u.a.div(u.d(), u.a.add(u.x(), u.constant(1)));
}
static Value sqrtRule(Unary u) { return u.a.div(u.a.scale(u.d(), 0.5), u.r()); }

/// r^-1 = x^(1/2): dr/dx = -r^3 / 2
static Value rsqrtRule(Unary u) {
  Value r = u.r();
  return u.a.mul(u.a.scale(u.d(), -0.5), u.a.mul(r, u.a.mul(r, r)));
}

static Value cbrtRule(Unary u) {
  Value r = u.r();
  return u.a.div(u.d(), u.a.scale(u.a.mul(r, r), 3));
}

static Value sinRule(Unary u) {
  return u.a.mul(u.d(), u.a.apply<math::CosOp>(u.x()));
}
static Value cosRule(Unary u) {
  return u.a.neg(u.a.mul(u.d(), u.a.apply<math::SinOp>(u.x())));
}

static Value tanRule(Unary u) {
  Value r = u.r();
  return u.a.mul(u.d(), u.a.add(u.constant(1), u.a.mul(r, r)));
}

static Value asinRule(Unary u) {
  return u.a.div(u.d(), u.sqrt(u.oneMinusSquare(u.x())));
}
static Value acosRule(Unary u) { return u.a.neg(asinRule(u)); }

static Value atanRule(Unary u) {
  Value x = u.x();
  return u.a.div(u.d(), u.a.add(u.constant(1), u.a.mul(x, x)));
}

static Value sinhRule(Unary u) {
  return u.a.mul(u.d(), u.a.apply<math::CoshOp>(u.x()));
}
static Value coshRule(Unary u) {
  return u.a.mul(u.d(), u.a.apply<math::SinhOp>(u.x()));
}
static Value tanhRule(Unary u) {
  return u.a.mul(u.d(), u.oneMinusSquare(u.r()));
}

static Value asinhRule(Unary u) {
  Value x = u.x();
  return u.a.div(u.d(), u.sqrt(u.a.add(u.a.mul(x, x), u.constant(1))));
}

static Value acoshRule(Unary u) {
  Value x = u.x();
  return u.a.div(u.d(), u.sqrt(u.a.sub(u.a.mul(x, x), u.constant(1))));
}

static Value atanhRule(Unary u) {
  return u.a.div(u.d(), u.oneMinusSquare(u.x()));
}

/// 2 / sqrt(pi) * exp(-x^2)
static Value erfRule(Unary u) {
  Value x = u.x();
  return u.a.mul(u.d(), u.a.scale(u.a.exp(u.a.neg(u.a.mul(x, x))), M_2_SQRTPI));
}
static Value erfcRule(Unary u) { return u.a.neg(erfRule(u)); }

/// A change of precision is undone.
template <typename OpTy, typename InverseTy>
void castRule(OpTy op, AdjointContext &a) {
  a.contribute(0, InverseTy::create(a.getBuilder(), a.getLoc(),
                                    op.getIn().getType(), a.cotangent(0)));
}

//===----------------------------------------------------------------------===//
// Functions of several variables
//===----------------------------------------------------------------------===//

static void addRule(arith::AddFOp, AdjointContext &a) {
  if (a.isNeeded(0))
    a.contribute(0, a.cotangent(0));
  if (a.isNeeded(1))
    a.contribute(1, a.cotangent(0));
}

static void subRule(arith::SubFOp, AdjointContext &a) {
  if (a.isNeeded(0))
    a.contribute(0, a.cotangent(0));
  if (a.isNeeded(1))
    a.contribute(1, a.neg(a.cotangent(0)));
}

static void mulRule(arith::MulFOp op, AdjointContext &a) {
  if (a.isNeeded(0))
    a.contribute(0, a.mul(a.cotangent(0), a.primal(op.getRhs())));
  if (a.isNeeded(1))
    a.contribute(1, a.mul(a.cotangent(0), a.primal(op.getLhs())));
}

static void divRule(arith::DivFOp op, AdjointContext &a) {
  Value quotient = a.div(a.cotangent(0), a.primal(op.getRhs()));
  if (a.isNeeded(0))
    a.contribute(0, quotient);
  if (a.isNeeded(1))
    a.contribute(1, a.neg(a.mul(quotient, a.primal(op.getResult()))));
}

/// Maximum and minimum: all to the operand that is chosen, halves where they
/// are equal.
template <typename OpTy, Float lhsChosen, Float rhsChosen>
void chooseRule(OpTy op, AdjointContext &a) {
  Value d = a.cotangent(0), lhs = a.primal(op.getLhs()),
        rhs = a.primal(op.getRhs());
  Value zero = a.constant(0, AdjointContext::typeOf(d));
  Value tie = a.select(a.compare(Float::OEQ, lhs, rhs), a.scale(d, 0.5), zero);
  if (a.isNeeded(0))
    a.contribute(0, a.select(a.compare(lhsChosen, lhs, rhs), d, a.term(tie)));
  if (a.isNeeded(1))
    a.contribute(1, a.select(a.compare(rhsChosen, lhs, rhs), d, a.term(tie)));
}

static void selectRule(arith::SelectOp op, AdjointContext &a) {
  Value condition = a.primal(op.getCondition()), d = a.cotangent(0);
  Value zero = a.constant(0, AdjointContext::typeOf(d));
  if (a.isNeeded(1))
    a.contribute(1, a.select(condition, d, zero));
  if (a.isNeeded(2))
    a.contribute(2, a.select(condition, zero, d));
}

static void fmaRule(math::FmaOp op, AdjointContext &a) {
  if (a.isNeeded(0))
    a.contribute(0, a.mul(a.cotangent(0), a.primal(op.getB())));
  if (a.isNeeded(1))
    a.contribute(1, a.mul(a.cotangent(0), a.primal(op.getA())));
  if (a.isNeeded(2))
    a.contribute(2, a.cotangent(0));
}

/// The bounds count as inside: the value gets all where low <= x <= high.
static void clampRule(math::ClampFOp op, AdjointContext &a) {
  Value x = a.primal(op.getValue()), low = a.primal(op.getMin()),
        high = a.primal(op.getMax());
  Value d = a.cotangent(0), zero = a.constant(0, AdjointContext::typeOf(d));
  Value below = a.compare(Float::OLT, x, low),
        above = a.compare(Float::OGT, x, high);
  if (a.isNeeded(0))
    a.contribute(0, a.select(below, zero, a.select(above, zero, d)));
  if (a.isNeeded(1))
    a.contribute(1, a.select(below, d, zero));
  if (a.isNeeded(2))
    a.contribute(2, a.select(above, d, zero));
}

/// |x| with the sign of y: d where the signs agree, -d where they do not; 0 for
/// the sign.
static void copySignRule(math::CopySignOp op, AdjointContext &a) {
  if (!a.isNeeded(0) || op->hasAttr(nn::kDetachedAttr))
    return;
  Value x = a.primal(op.getLhs()), r = a.primal(op.getResult()),
        d = a.cotangent(0);
  Value zero = a.constant(0, AdjointContext::typeOf(d)), product = a.mul(x, r);
  Value negative =
      a.select(a.compare(Float::OLT, product, zero), a.neg(d), zero);
  a.contribute(0, a.select(a.compare(Float::OGT, product, zero), d, negative));
}

static void atan2Rule(math::Atan2Op op, AdjointContext &a) {
  Value y = a.primal(op.getLhs()), x = a.primal(op.getRhs());
  Value quotient = a.div(a.cotangent(0), a.add(a.mul(x, x), a.mul(y, y)));
  if (a.isNeeded(0))
    a.contribute(0, a.mul(quotient, x));
  if (a.isNeeded(1))
    a.contribute(1, a.neg(a.mul(quotient, y)));
}

/// x^y: y x^(y-1), 0 where y is 0; and x^y log x, 0 where x is 0 and y >= 0.
static void powRule(math::PowFOp op, AdjointContext &a) {
  Value x = a.primal(op.getLhs()), y = a.primal(op.getRhs()),
        d = a.cotangent(0);
  RankedTensorType type = AdjointContext::typeOf(d);
  Value zero = a.constant(0, type);
  if (a.isNeeded(0)) {
    Value power =
        a.mul(y, a.apply<math::PowFOp>(x, a.sub(y, a.constant(1, type))));
    a.contribute(
        0, a.select(a.compare(Float::OEQ, y, zero), zero, a.mul(d, power)));
  }
  if (a.isNeeded(1)) {
    Value isFlat =
        a.select(a.compare(Float::OEQ, x, zero), a.compare(Float::OGE, y, zero),
                 a.compare(Float::AlwaysFalse, x, zero));
    Value product = a.mul(a.primal(op.getResult()), a.apply<math::LogOp>(x));
    a.contribute(1, a.select(isFlat, zero, a.mul(d, product)));
  }
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

static void attachArithAdjoints(MLIRContext &context) {
  attach<arith::AddFOp, addRule>(context);
  attach<arith::SubFOp, subRule>(context);
  attach<arith::MulFOp, mulRule>(context);
  attach<arith::DivFOp, divRule>(context);
  attachUnary<arith::NegFOp, negRule>(context);
  attach<arith::MaximumFOp,
         chooseRule<arith::MaximumFOp, Float::OGT, Float::OLT>>(context);
  attach<arith::MinimumFOp,
         chooseRule<arith::MinimumFOp, Float::OLT, Float::OGT>>(context);
  attach<arith::MaxNumFOp,
         chooseRule<arith::MaxNumFOp, Float::OGT, Float::OLT>>(context);
  attach<arith::MinNumFOp,
         chooseRule<arith::MinNumFOp, Float::OLT, Float::OGT>>(context);
  attach<arith::SelectOp, selectRule>(context);
  attach<arith::ExtFOp, castRule<arith::ExtFOp, arith::TruncFOp>>(context);
  attach<arith::TruncFOp, castRule<arith::TruncFOp, arith::ExtFOp>>(context);
}

static void attachMathAdjoints(MLIRContext &context) {
  attachUnary<math::AbsFOp, absRule>(context);
  attachUnary<math::AcosOp, acosRule>(context);
  attachUnary<math::AcoshOp, acoshRule>(context);
  attachUnary<math::AsinOp, asinRule>(context);
  attachUnary<math::AsinhOp, asinhRule>(context);
  attachUnary<math::AtanOp, atanRule>(context);
  attachUnary<math::AtanhOp, atanhRule>(context);
  attachUnary<math::CbrtOp, cbrtRule>(context);
  attachUnary<math::CosOp, cosRule>(context);
  attachUnary<math::CoshOp, coshRule>(context);
  attachUnary<math::ErfOp, erfRule>(context);
  attachUnary<math::ErfcOp, erfcRule>(context);
  attachUnary<math::ExpOp, expRule>(context);
  attachUnary<math::Exp2Op, exp2Rule>(context);
  attachUnary<math::ExpM1Op, expm1Rule>(context);
  attachUnary<math::LogOp, logRule>(context);
  attachUnary<math::Log10Op, log10Rule>(context);
  attachUnary<math::Log1pOp, log1pRule>(context);
  attachUnary<math::Log2Op, log2Rule>(context);
  attachUnary<math::RsqrtOp, rsqrtRule>(context);
  attachUnary<math::SinOp, sinRule>(context);
  attachUnary<math::SinhOp, sinhRule>(context);
  attachUnary<math::SqrtOp, sqrtRule>(context);
  attachUnary<math::TanOp, tanRule>(context);
  attachUnary<math::TanhOp, tanhRule>(context);
  attach<math::FmaOp, fmaRule>(context);
  attach<math::ClampFOp, clampRule>(context);
  attach<math::CopySignOp, copySignRule>(context);
  attach<math::Atan2Op, atan2Rule>(context);
  attach<math::PowFOp, powRule>(context);
  attach<math::CeilOp, zero<math::CeilOp>>(context);
  attach<math::FloorOp, zero<math::FloorOp>>(context);
  attach<math::RoundOp, zero<math::RoundOp>>(context);
  attach<math::RoundEvenOp, zero<math::RoundEvenOp>>(context);
  attach<math::TruncOp, zero<math::TruncOp>>(context);
}

void harmony::registerAutodiffModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachArithAdjoints(*context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachMathAdjoints(*context);
  });
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    attachNNAdjoints(*context);
    attachWindowAdjoints(*context);
  });
}
