//===- BlockWindows.cpp - Convolutions a few samples at a time ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/BlockWindows.h"

#include "dialects/NN/NN.h"
#include "passes/Tasks/View.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace harmony;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RankedTensorType resized(RankedTensorType type, int64_t axis, int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = extent;
  return RankedTensorType::get(shape, type.getElementType());
}

/// A block of samples.
struct Samples {
  int64_t start, count;
};

/// Equal blocks but for one sample; one block where all windows fit.
SmallVector<Samples> makeBlocks(RankedTensorType windows, int64_t axis) {
  int64_t samples = windows.getDimSize(axis);
  int64_t most = std::max<int64_t>(
      1, kWindowBytes / std::max<int64_t>(1, tensorBytes(windows) / samples));
  int64_t blocks = llvm::divideCeil(samples, most);
  SmallVector<Samples> result;
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t start = samples * i / blocks;
    result.push_back({start, samples * (i + 1) / blocks - start});
  }
  return result;
}

/// The axis in front of the windowed ones: the samples, behind the groups
/// where there are any. -1 where there is none.
template <typename Op>
int64_t getSampleAxis(Op op) {
  return static_cast<int64_t>(op.getAxis()) - 1;
}

/// The axis of the operand of a view op that holds what `axis` of its result
/// does; -1 where a reshape tears it.
int64_t traceAxis(Operation *view, int64_t axis) {
  if (auto transpose = dyn_cast<nn::TransposeOp>(view))
    return transpose.getPermutation()[axis];
  ArrayRef<int64_t> from = typeOf(view->getOperand(0)).getShape(),
                    to = typeOf(view->getResult(0)).getShape();
  // Only what lies in front of the axis tells: it must be the same axes.
  for (int64_t i = 0; i <= axis; ++i)
    if (i >= static_cast<int64_t>(from.size()) || from[i] != to[i])
      return -1;
  return axis;
}

/// A value that is made of another by views, none of which has other readers.
struct Chain {
  Value source;
  int64_t axis = 0;               ///< of the samples, in the source
  SmallVector<Operation *> views; ///< from the source on
};

/// From `value`, whose samples are along `axis`, back through its views.
Chain traceViews(Value value, int64_t axis) {
  Chain chain{value, axis, {}};
  while (chain.axis >= 0 && chain.source.hasOneUse()) {
    Operation *op = chain.source.getDefiningOp();
    if (!isa_and_present<nn::ReshapeOp, nn::TransposeOp>(op))
      break;
    chain.axis = traceAxis(op, chain.axis);
    chain.views.insert(chain.views.begin(), op);
    chain.source = op->getOperand(0);
  }
  return chain;
}

class Blocker {
public:
  explicit Blocker(OpBuilder &builder) : builder(builder) {}

  /// product(window(x), w) or product(w, window(x)), samples along a free axis
  /// of the result or contracted.
  bool blockOperand(nn::DotGeneralOp product, bool isLhs) {
    Value operand = isLhs ? product.getLhs() : product.getRhs();
    for (int64_t axis = 0; axis < typeOf(operand).getRank(); ++axis) {
      Chain chain = traceViews(operand, axis);
      auto window = chain.source.getDefiningOp<nn::WindowOp>();
      if (!window || chain.axis < 0 || chain.axis != getSampleAxis(window) ||
          !chain.source.hasOneUse())
        continue;
      SmallVector<Samples> blocks =
          makeBlocks(typeOf(window.getResult()), chain.axis);
      if (blocks.size() < 2)
        return false;
      return block(product, isLhs, axis, chain, window, blocks);
    }
    return false;
  }

  /// fold(product(d, w)).
  bool blockFold(nn::FoldOp fold) {
    int64_t samplesAxis = getSampleAxis(fold);
    if (samplesAxis < 0)
      return false;
    Chain chain = traceViews(fold.getOperand(), samplesAxis);
    auto product = chain.source.getDefiningOp<nn::DotGeneralOp>();
    if (!product || chain.axis < 0 || !chain.source.hasOneUse())
      return false;
    SmallVector<Samples> blocks =
        makeBlocks(typeOf(fold.getOperand()), samplesAxis);
    if (blocks.size() < 2)
      return false;
    // Which operand has the samples.
    for (bool isLhs : {true, false}) {
      Value operand = isLhs ? product.getLhs() : product.getRhs();
      for (int64_t axis = 0; axis < typeOf(operand).getRank(); ++axis) {
        if (getResultAxis(product, isLhs, axis) != chain.axis)
          continue;
        builder.setInsertionPoint(fold);
        SmallVector<Value> parts;
        for (Samples samples : blocks) {
          Value part = slice(operand, axis, samples);
          part = multiply(product, isLhs ? part : product.getLhs(),
                          isLhs ? product.getRhs() : part, chain.axis,
                          samples.count);
          part = applyViews(chain, part, samples.count);
          auto clone = cast<nn::FoldOp>(builder.clone(*fold));
          clone->setOperand(0, part);
          clone.getResult().setType(
              resized(typeOf(fold.getResult()), samplesAxis, samples.count));
          parts.push_back(clone.getResult());
        }
        replace(fold, parts, samplesAxis);
        erase(chain, product);
        return true;
      }
    }
    return false;
  }

private:
  /// The axis of the result that a free axis of an operand becomes; -1 for
  /// others.
  static int64_t getResultAxis(nn::DotGeneralOp product, bool isLhs,
                               int64_t axis) {
    int64_t position = product.getLhsBatch().size();
    for (bool side : {true, false}) {
      auto batch = side ? product.getLhsBatch() : product.getRhsBatch();
      auto contract =
          side ? product.getLhsContract() : product.getRhsContract();
      int64_t rank =
          typeOf(side ? product.getLhs() : product.getRhs()).getRank();
      for (int64_t i = 0; i < rank; ++i) {
        if (llvm::is_contained(batch, i) || llvm::is_contained(contract, i))
          continue;
        if (side == isLhs && i == axis)
          return position;
        ++position;
      }
    }
    return -1;
  }

  bool block(nn::DotGeneralOp product, bool isLhs, int64_t axis,
             const Chain &chain, nn::WindowOp window,
             ArrayRef<Samples> blocks) {
    builder.setInsertionPoint(product);
    auto makeWindows = [&](Samples samples) {
      Value image = slice(window.getOperand(), chain.axis, samples);
      auto clone = cast<nn::WindowOp>(builder.clone(*window));
      clone->setOperand(0, image);
      clone.getResult().setType(
          resized(typeOf(window.getResult()), chain.axis, samples.count));
      return applyViews(chain, clone.getResult(), samples.count);
    };
    if (int64_t position = getResultAxis(product, isLhs, axis); position >= 0) {
      SmallVector<Value> parts;
      for (Samples samples : blocks) {
        Value windows = makeWindows(samples);
        parts.push_back(multiply(product, isLhs ? windows : product.getLhs(),
                                 isLhs ? product.getRhs() : windows, position,
                                 samples.count));
      }
      replace(product, parts, position);
      erase(chain, window);
      return true;
    }
    ArrayRef<int64_t> own =
        isLhs ? product.getLhsContract() : product.getRhsContract();
    ArrayRef<int64_t> others =
        isLhs ? product.getRhsContract() : product.getLhsContract();
    auto *pair = llvm::find(own, axis);
    if (pair == own.end())
      return false;
    int64_t otherAxis = others[pair - own.begin()];
    Value other = isLhs ? product.getRhs() : product.getLhs(), sum;
    for (Samples samples : blocks) {
      Value windows = makeWindows(samples);
      Value factor = slice(other, otherAxis, samples);
      Value part = multiply(product, isLhs ? windows : factor,
                            isLhs ? factor : windows, -1, samples.count);
      sum = sum ? arith::AddFOp::create(builder, product.getLoc(), sum, part)
                      .getResult()
                : part;
    }
    product.getResult().replaceAllUsesWith(sum);
    product.erase();
    erase(chain, window);
    return true;
  }

  Value slice(Value value, int64_t axis, Samples samples) {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
    starts[axis] = samples.start;
    return nn::SliceOp::create(builder, value.getLoc(),
                               resized(type, axis, samples.count), value,
                               starts, strides);
  }

  /// The product of other operands, `count` samples along axis `axis` of the
  /// result.
  Value multiply(nn::DotGeneralOp product, Value lhs, Value rhs, int64_t axis,
                 int64_t count) {
    auto clone = cast<nn::DotGeneralOp>(builder.clone(*product));
    clone->setOperands({lhs, rhs});
    if (axis >= 0)
      clone.getResult().setType(
          resized(typeOf(product.getResult()), axis, count));
    return clone.getResult();
  }

  Value applyViews(const Chain &chain, Value value, int64_t count) {
    int64_t axis = chain.axis;
    for (Operation *view : chain.views) {
      Operation *clone = builder.clone(*view);
      clone->setOperand(0, value);
      // Where the samples go is where they come from when traced back.
      int64_t to = 0;
      while (traceAxis(view, to) != axis)
        ++to;
      axis = to;
      clone->getResult(0).setType(
          resized(typeOf(view->getResult(0)), axis, count));
      value = clone->getResult(0);
    }
    return value;
  }

  void replace(Operation *op, ArrayRef<Value> parts, int64_t axis) {
    Value joined =
        nn::ConcatOp::create(builder, op->getLoc(), op->getResult(0).getType(),
                             parts, builder.getI64IntegerAttr(axis));
    op->getResult(0).replaceAllUsesWith(joined);
    op->erase();
  }

  static void erase(const Chain &chain, Operation *source) {
    for (Operation *view : llvm::reverse(chain.views))
      view->erase();
    source->erase();
  }

  OpBuilder &builder;
};

} // namespace

void harmony::blockWindows(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  Blocker blocker(builder);
  auto products = llvm::to_vector(function.getOps<nn::DotGeneralOp>());
  auto folds = llvm::to_vector(function.getOps<nn::FoldOp>());
  for (nn::FoldOp fold : folds) {
    // A product that was split is gone.
    Chain chain = traceViews(fold.getOperand(), getSampleAxis(fold));
    auto product = chain.source.getDefiningOp<nn::DotGeneralOp>();
    if (blocker.blockFold(fold))
      llvm::erase(products, product);
  }
  for (nn::DotGeneralOp product : products)
    if (!blocker.blockOperand(product, /*isLhs=*/true))
      blocker.blockOperand(product, /*isLhs=*/false);
}
