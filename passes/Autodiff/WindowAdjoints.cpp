//===- WindowAdjoints.cpp - Adjoints of convolution and pooling -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Adjoints.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using namespace harmony::nn;

/// A `Result` op with the window of `op`, of the type of its operand.
template <typename Result, typename Op, typename... Operands>
static Value transposed(Op op, AdjointContext &a, Operands... operands) {
  return Result::create(
             a.getBuilder(), a.getLoc(), TypeRange{op.getOperand().getType()},
             operands..., op.getAxisAttr(), op.getKernelAttr(),
             op.getStridesAttr(), op.getDilationsAttr(), op.getLowAttr())
      ->getResult(0);
}

static void windowRule(WindowOp op, AdjointContext &a) {
  a.contribute(0, transposed<FoldOp>(op, a, a.cotangent(0)));
}

static void foldRule(FoldOp op, AdjointContext &a) {
  a.contribute(0, transposed<WindowOp>(op, a, a.cotangent(0)));
}

static void sumPoolRule(SumPoolOp op, AdjointContext &a) {
  a.contribute(0, transposed<UnpoolOp>(op, a, a.cotangent(0), Value()));
}

/// The gradient goes to the first maximum, as in PyTorch.
static void maxPoolRule(MaxPoolOp op, AdjointContext &a) {
  a.contribute(0, transposed<UnpoolOp>(op, a, a.cotangent(0),
                                       a.primal(op.getPosition())));
}

namespace {
struct UnpoolModel : AutodiffOpInterface::ExternalModel<UnpoolModel, UnpoolOp> {
  std::string getAdjointRefusal(Operation *op) const {
    return cast<UnpoolOp>(op).getPosition()
               ? "a gradient of the gradient of max_pool"
               : std::string();
  }
  void buildAdjoint(Operation *op, AdjointContext &a) const {
    a.contribute(0,
                 transposed<SumPoolOp>(cast<UnpoolOp>(op), a, a.cotangent(0)));
  }
};
} // namespace

void harmony::autodiff::attachWindowAdjoints(MLIRContext &context) {
  attach<WindowOp, windowRule>(context);
  attach<FoldOp, foldRule>(context);
  attach<SumPoolOp, sumPoolRule>(context);
  attach<MaxPoolOp, maxPoolRule>(context);
  UnpoolOp::attachInterface<UnpoolModel>(context);
}
