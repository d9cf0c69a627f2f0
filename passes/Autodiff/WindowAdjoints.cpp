//===- WindowAdjoints.cpp - Adjoints of convolution and pooling -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Adjoints.h"

#include "dialects/NN/Window.h"

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

/// The gradient of the operand: each position adds the windows that cover it,
/// which is a depthwise convolution of what is put apart by the strides with
/// the weights in reverse order.
static Value buildDepthwiseOperand(DepthwiseOp op, AdjointContext &a) {
  RankedTensorType from = Algebra::typeOf(op.getOperand()),
                   kernel = Algebra::typeOf(op.getWeights());
  int64_t axis = op.getAxis(), rank = kernel.getRank() - 1;
  SmallVector<int64_t> extents(from.getShape()), low(from.getRank(), 0),
      interior(from.getRank(), 0), ones(rank, 1), last(kernel.getShape()),
      back(kernel.getRank(), -1);
  for (int64_t i = 0; i < rank; ++i) {
    --last[i];
    low[axis + i] = last[i] * op.getDilations()[i];
    extents[axis + i] += low[axis + i];
    interior[axis + i] = op.getStrides()[i] - 1;
  }
  last.back() = 0;
  back.back() = 1;
  Value zero = a.constant(0, RankedTensorType::get({}, from.getElementType()));
  Value apart = PadOp::create(
      a.getBuilder(), a.getLoc(),
      RankedTensorType::get(extents, from.getElementType(), from.getEncoding()),
      a.cotangent(0), zero, low, interior);
  Value reversed = a.slice(a.primal(op.getWeights()), last, back, kernel);
  return DepthwiseOp::create(a.getBuilder(), a.getLoc(), from, apart, reversed,
                             axis, ones, op.getDilations());
}

/// The gradient of the weights: for each offset, a sum over all windows.
static Value buildDepthwiseWeights(DepthwiseOp op, AdjointContext &a) {
  RankedTensorType kernel = Algebra::typeOf(op.getWeights());
  int64_t channels = kernel.getShape().back();
  auto row = RankedTensorType::get({1, channels}, kernel.getElementType());
  Value operand = a.primal(op.getOperand()), d = a.cotangent(0);
  SmallVector<Value> rows;
  for (ArrayRef<int64_t> offset : getOffsets(op)) {
    Value product = a.mul(sliceAt(a, op, operand, offset), d);
    rows.push_back(a.reshape(
        a.sum(product, 0, Algebra::typeOf(product).getRank() - 1), row));
  }
  if (rows.size() == 1)
    return a.reshape(rows.front(), kernel);
  auto all = RankedTensorType::get(
      {static_cast<int64_t>(rows.size()), channels}, kernel.getElementType());
  return a.reshape(
      ConcatOp::create(a.getBuilder(), a.getLoc(), all, rows, /*axis=*/0),
      kernel);
}

static void depthwiseRule(DepthwiseOp op, AdjointContext &a) {
  if (a.isNeeded(0))
    a.contribute(0, buildDepthwiseOperand(op, a));
  if (a.isNeeded(1))
    a.contribute(1, buildDepthwiseWeights(op, a));
}

void harmony::autodiff::attachWindowAdjoints(MLIRContext &context) {
  attach<WindowOp, windowRule>(context);
  attach<FoldOp, foldRule>(context);
  attach<SumPoolOp, sumPoolRule>(context);
  attach<DepthwiseOp, depthwiseRule>(context);
  attach<MaxPoolOp, maxPoolRule>(context);
  UnpoolOp::attachInterface<UnpoolModel>(context);
}
