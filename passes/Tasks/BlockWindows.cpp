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

#include <array>

using namespace mlir;
using namespace harmony;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// A part of an axis.
struct Range {
  int64_t start, count;
};

/// A block of samples and, where a sample alone is too much, of its first
/// windowed axis.
struct Block {
  Range samples, rows;
};

/// Equal parts but for one index.
SmallVector<Range> cut(int64_t extent, int64_t pieces) {
  SmallVector<Range> result;
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t start = extent * i / pieces;
    result.push_back({start, extent * (i + 1) / pieces - start});
  }
  return result;
}

/// Blocks of windows of `bytes` in all; `rows`: the extent that is cut where
/// one sample has more than `rowBytes`. One block where all fit.
SmallVector<Block> makeBlocks(int64_t bytes, int64_t samples, int64_t rows,
                              int64_t rowBytes) {
  int64_t each = std::max<int64_t>(1, bytes / samples);
  SmallVector<Block> blocks;
  int64_t most = std::max<int64_t>(1, kWindowBytes / each);
  int64_t pieces = std::min<int64_t>(rows, llvm::divideCeil(each, rowBytes));
  for (Range range : cut(samples, llvm::divideCeil(samples, most)))
    for (Range part : cut(rows, pieces))
      blocks.push_back({range, part});
  return blocks;
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

/// Axes of samples and of rows.
using AxisPair = std::array<int64_t, 2>;

/// A value that is made of another by views, none of which has other readers.
struct Chain {
  Value source;
  AxisPair axes;                  ///< in the source
  SmallVector<Operation *> views; ///< from the source on
};

/// From `value`, whose samples and rows are along `axes`, back through its
/// views as far as both can be told apart.
Chain traceViews(Value value, AxisPair axes) {
  Chain chain{value, axes, {}};
  while (chain.source.hasOneUse()) {
    Operation *op = chain.source.getDefiningOp();
    if (!isa_and_present<nn::ReshapeOp, nn::TransposeOp>(op))
      break;
    AxisPair next{traceAxis(op, chain.axes[0]), traceAxis(op, chain.axes[1])};
    if (next[0] < 0 || next[1] < 0)
      break;
    chain.axes = next;
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
    // Where in the product the axes of the windows are.
    int64_t rank = typeOf(operand).getRank();
    for (int64_t samples = 0; samples < rank; ++samples)
      for (int64_t rows = 0; rows < rank; ++rows) {
        Chain chain = traceViews(operand, {samples, rows});
        auto window = chain.source.getDefiningOp<nn::WindowOp>();
        if (samples == rows || !window || !chain.source.hasOneUse() ||
            chain.axes != getAxes(window))
          continue;
        RankedTensorType type = typeOf(window.getResult());
        SmallVector<Block> blocks =
            makeBlocks(tensorBytes(type), type.getDimSize(chain.axes[0]),
                       type.getDimSize(chain.axes[1]), kWindowBytes);
        return blocks.size() > 1 &&
               block(product, isLhs, {samples, rows}, chain, window, blocks);
      }
    return false;
  }

  /// fold(product(d, w)). Rows of the image that are made by themselves need
  /// windows that others need too: these are multiplied twice, so blocks of
  /// rows are larger.
  bool blockFold(nn::FoldOp fold) {
    if (fold.getAxis() == 0)
      return false;
    AxisPair axes = getAxes(fold);
    Chain chain = traceViews(fold.getOperand(), axes);
    auto product = chain.source.getDefiningOp<nn::DotGeneralOp>();
    if (!product || !chain.source.hasOneUse())
      return false;
    RankedTensorType type = typeOf(fold.getOperand()),
                     image = typeOf(fold.getResult());
    SmallVector<Block> blocks =
        makeBlocks(tensorBytes(type), type.getDimSize(axes[0]),
                   image.getDimSize(axes[1]), 4 * kWindowBytes);
    if (blocks.size() < 2)
      return false;
    // Which operand has the samples and rows.
    for (bool isLhs : {true, false}) {
      Value operand = isLhs ? product.getLhs() : product.getRhs();
      AxisPair own{-1, -1};
      for (int64_t axis = 0; axis < typeOf(operand).getRank(); ++axis)
        for (int i : {0, 1})
          if (getResultAxis(product, isLhs, axis) == chain.axes[i])
            own[i] = axis;
      if (own[0] < 0 || own[1] < 0)
        continue;
      SmallVector<Range> outs;
      SmallVector<int64_t> lows;
      for (const Block &block : blocks) {
        auto [out, low] = getCovering(fold, block.rows);
        if (out.count < 1 || low < 0)
          return false;
        outs.push_back(out);
        lows.push_back(low);
      }
      builder.setInsertionPoint(fold);
      SmallVector<Value> parts;
      for (auto [block, out, low] : llvm::zip(blocks, outs, lows)) {
        Block windows{block.samples, out};
        Value part = slice(operand, own, windows);
        part = multiply(product, isLhs ? part : product.getLhs(),
                        isLhs ? product.getRhs() : part, chain.axes, windows);
        part = applyViews(chain, part, windows);
        SmallVector<int64_t> lowList(fold.getLow());
        lowList[0] = low;
        auto clone = cast<nn::FoldOp>(builder.clone(*fold));
        clone->setOperand(0, part);
        clone.setLow(lowList);
        clone.getResult().setType(resized(image, axes, block));
        parts.push_back(clone.getResult());
      }
      replace(fold, parts, axes, blocks);
      erase(chain, product);
      return true;
    }
    return false;
  }

private:
  /// The samples' axis, in front of the windowed ones (behind the groups where
  /// there are any), and the first windowed one.
  template <typename Op>
  static AxisPair getAxes(Op op) {
    int64_t axis = op.getAxis();
    return {axis - 1, axis};
  }

  static RankedTensorType resized(RankedTensorType type, AxisPair axes,
                                  const Block &block) {
    SmallVector<int64_t> shape(type.getShape());
    shape[axes[0]] = block.samples.count;
    shape[axes[1]] = block.rows.count;
    return RankedTensorType::get(shape, type.getElementType());
  }

  /// Of the first windowed axis: elements from the first to the last of a
  /// window.
  template <typename Op>
  static int64_t getSpan(Op op) {
    return (op.getKernel()[0] - 1) * op.getDilations()[0] + 1;
  }

  /// The windows that rows of the image are covered by, and the padding in
  /// front of them as these rows see it.
  static std::pair<Range, int64_t> getCovering(nn::FoldOp fold, Range rows) {
    int64_t stride = fold.getStrides()[0], low = fold.getLow()[0];
    int64_t windows = typeOf(fold.getOperand()).getDimSize(getAxes(fold)[1]);
    int64_t first = std::max<int64_t>(0, rows.start + low - getSpan(fold) + 1);
    first = llvm::divideCeil(first, stride);
    int64_t end =
        std::min(windows, (rows.start + rows.count - 1 + low) / stride + 1);
    return {{first, end - first}, low + rows.start - first * stride};
  }

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

  /// The windows of a block, from the rows of the image that they reach to.
  Value makeWindows(nn::WindowOp window, const Block &block) {
    AxisPair axes = getAxes(window);
    int64_t extent = typeOf(window.getOperand()).getDimSize(axes[1]);
    int64_t stride = window.getStrides()[0];
    int64_t first = block.rows.start * stride - window.getLow()[0];
    int64_t end = first + (block.rows.count - 1) * stride + getSpan(window);
    Range rows{std::max<int64_t>(0, first), 0};
    rows.count = std::min(extent, end) - rows.start;
    Value image = slice(window.getOperand(), axes, {block.samples, rows});
    SmallVector<int64_t> low(window.getLow());
    low[0] = rows.start - first;
    auto clone = cast<nn::WindowOp>(builder.clone(*window));
    clone->setOperand(0, image);
    clone.setLow(low);
    clone.getResult().setType(resized(typeOf(window.getResult()), axes, block));
    return clone.getResult();
  }

  /// Whether windows of every block reach into the image.
  static bool reachImage(nn::WindowOp window, ArrayRef<Block> blocks) {
    int64_t extent = typeOf(window.getOperand()).getDimSize(getAxes(window)[1]);
    int64_t stride = window.getStrides()[0];
    return llvm::all_of(blocks, [&](const Block &block) {
      int64_t first = block.rows.start * stride - window.getLow()[0];
      return first < extent &&
             first + (block.rows.count - 1) * stride + getSpan(window) > 0;
    });
  }

  bool block(nn::DotGeneralOp product, bool isLhs, AxisPair axes,
             const Chain &chain, nn::WindowOp window, ArrayRef<Block> blocks) {
    if (!reachImage(window, blocks))
      return false;
    builder.setInsertionPoint(product);
    AxisPair positions{getResultAxis(product, isLhs, axes[0]),
                       getResultAxis(product, isLhs, axes[1])};
    if (positions[0] >= 0 && positions[1] >= 0) {
      SmallVector<Value> parts;
      for (const Block &block : blocks) {
        Value windows = applyViews(chain, makeWindows(window, block), block);
        parts.push_back(multiply(product, isLhs ? windows : product.getLhs(),
                                 isLhs ? product.getRhs() : windows, positions,
                                 block));
      }
      replace(product, parts, positions, blocks);
      erase(chain, window);
      return true;
    }
    ArrayRef<int64_t> own =
        isLhs ? product.getLhsContract() : product.getRhsContract();
    ArrayRef<int64_t> others =
        isLhs ? product.getRhsContract() : product.getLhsContract();
    AxisPair otherAxes;
    for (int i : {0, 1}) {
      auto *pair = llvm::find(own, axes[i]);
      if (pair == own.end())
        return false;
      otherAxes[i] = others[pair - own.begin()];
    }
    Value other = isLhs ? product.getRhs() : product.getLhs(), sum;
    for (const Block &block : blocks) {
      Value windows = applyViews(chain, makeWindows(window, block), block);
      Value factor = slice(other, otherAxes, block);
      Value part = multiply(product, isLhs ? windows : factor,
                            isLhs ? factor : windows, {-1, -1}, block);
      sum = sum ? arith::AddFOp::create(builder, product.getLoc(), sum, part)
                      .getResult()
                : part;
    }
    product.getResult().replaceAllUsesWith(sum);
    product.erase();
    erase(chain, window);
    return true;
  }

  Value slice(Value value, AxisPair axes, const Block &block) {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
    starts[axes[0]] = block.samples.start;
    starts[axes[1]] = block.rows.start;
    return nn::SliceOp::create(builder, value.getLoc(),
                               resized(type, axes, block), value, starts,
                               strides);
  }

  /// The product of other operands, a block along `axes` of the result.
  Value multiply(nn::DotGeneralOp product, Value lhs, Value rhs, AxisPair axes,
                 const Block &block) {
    auto clone = cast<nn::DotGeneralOp>(builder.clone(*product));
    clone->setOperands({lhs, rhs});
    if (axes[0] >= 0)
      clone.getResult().setType(
          resized(typeOf(product.getResult()), axes, block));
    return clone.getResult();
  }

  Value applyViews(const Chain &chain, Value value, const Block &block) {
    AxisPair axes = chain.axes;
    for (Operation *view : chain.views) {
      Operation *clone = builder.clone(*view);
      clone->setOperand(0, value);
      // Where an axis goes is where it comes from when traced back.
      for (int64_t &axis : axes) {
        int64_t to = 0;
        while (traceAxis(view, to) != axis)
          ++to;
        axis = to;
      }
      clone->getResult(0).setType(
          resized(typeOf(view->getResult(0)), axes, block));
      value = clone->getResult(0);
    }
    return value;
  }

  /// Joins parts: the rows of a sample, then samples.
  void replace(Operation *op, ArrayRef<Value> parts, AxisPair axes,
               ArrayRef<Block> blocks) {
    auto type = typeOf(op->getResult(0));
    auto join = [&](ArrayRef<Value> values, int64_t axis,
                    RankedTensorType joined) -> Value {
      if (values.size() == 1)
        return values.front();
      return nn::ConcatOp::create(builder, op->getLoc(), joined, values,
                                  builder.getI64IntegerAttr(axis));
    };
    SmallVector<Value> samples;
    for (size_t i = 0; i < parts.size();) {
      size_t end = i + 1;
      while (end < parts.size() &&
             blocks[end].samples.start == blocks[i].samples.start)
        ++end;
      Block whole{blocks[i].samples, {0, type.getDimSize(axes[1])}};
      samples.push_back(
          join(parts.slice(i, end - i), axes[1], resized(type, axes, whole)));
      i = end;
    }
    op->getResult(0).replaceAllUsesWith(join(samples, axes[0], type));
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
  for (auto fold : llvm::to_vector(function.getOps<nn::FoldOp>()))
    blocker.blockFold(fold);
  // Products that are parts already read no windows, or are small enough.
  for (auto product : llvm::to_vector(function.getOps<nn::DotGeneralOp>()))
    if (!blocker.blockOperand(product, /*isLhs=*/true))
      blocker.blockOperand(product, /*isLhs=*/false);
}
