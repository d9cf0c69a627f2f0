//===- FormConvolutions.cpp - Convolutions as library calls ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/FormConvolutions.h"

#include "dialects/NN/NN.h"
#include "dialects/NN/Window.h"

#include <array>

using namespace mlir;
using namespace harmony;
using Direction = nn::ConvolutionDirection;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t ceilDiv(int64_t a, int64_t b) {
  return static_cast<int64_t>(llvm::divideCeil(a, b));
}

/// A convolution of one or two spatial axes, the last two of a pair: an absent
/// first one has extent 1.
struct Geometry {
  int64_t rank; ///< of the model's
  int64_t samples, channels, outputs;
  std::array<int64_t, 2> image{1, 1}, out{1, 1}, kernel{1, 1}, strides{1, 1},
      low{0, 0}, high{0, 0};

  int64_t positions() const { return out[0] * out[1]; }
  bool isStrided() const { return strides[0] > 1 || strides[1] > 1; }
};

/// The convolution of such a window over an image [N, n.., C], if the library
/// has it. `image` and `windows`: [N, n.., C] and [N, out.., k.., C].
std::optional<Geometry> readGeometry(const nn::Window &window,
                                     RankedTensorType image,
                                     RankedTensorType windows) {
  int64_t rank = window.rank();
  if (window.axis != 1 || rank < 1 || rank > 2 || image.getRank() != rank + 2 ||
      !image.getElementType().isF32())
    return std::nullopt;
  Geometry g;
  g.rank = rank;
  g.samples = image.getDimSize(0);
  g.channels = image.getDimSize(rank + 1);
  g.outputs = 0;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t to = axis + 2 - rank;
    g.image[to] = image.getDimSize(1 + axis);
    g.out[to] = windows.getDimSize(1 + axis);
    g.kernel[to] = window.kernel[axis];
    g.strides[to] = window.strides[axis];
    g.low[to] = window.low[axis];
    int64_t high = (g.out[to] - 1) * g.strides[to] + g.kernel[to] - g.low[to] -
                   g.image[to];
    g.high[to] = std::max<int64_t>(high, 0);
    if (window.dilations[axis] != 1 || high <= -g.strides[to] ||
        g.low[to] >= g.kernel[to] || g.high[to] >= g.kernel[to])
      return std::nullopt;
  }
  return g;
}

/// Most of the blocks of samples that a call of the library computes at a time:
/// as many keep workers busy.
constexpr int64_t kMostBlocks = 8;

/// Samples of a block: 0 where windows and products are as fast or faster. The
/// numbers are from bench/convolutions.cpp; they know nothing of threads, so
/// that these cannot change results.
int64_t chooseBlock(const Geometry &g, Direction direction, int64_t lanes) {
  bool isThin = g.channels <= 3; // the library's form for images of colours
  if (g.samples < 2 || g.outputs % lanes != 0 ||
      (g.channels % lanes != 0 && !isThin) ||
      (isThin && direction == Direction::image))
    return 0;
  int64_t even = ceilDiv(g.samples, kMostBlocks);
  if (direction != Direction::weights) {
    // Weights are read once a block: short blocks are no faster.
    constexpr int64_t kPositions = 256;
    return std::max(even, std::min(ceilDiv(g.samples, 4),
                                   ceilDiv(kPositions, g.positions())));
  }
  // Each block has gradients of its own, which are added and reordered: that
  // takes as many positions of the image to be worth it.
  constexpr int64_t kPositions = 1536;
  if (g.samples * g.positions() < kPositions || (g.isStrided() && !isThin))
    return 0;
  return std::min(g.samples,
                  std::max(even, ceilDiv(kPositions, g.positions())));
}

class Former {
public:
  Former(OpBuilder &builder, int64_t lanes) : builder(builder), lanes(lanes) {}

  /// product(window(x), w)
  bool formForward(nn::DotGeneralOp product) {
    auto window = product.getLhs().getDefiningOp<nn::WindowOp>();
    if (!window || !product.getLhsBatch().empty())
      return false;
    auto g = readGeometry(nn::getWindow(window), typeOf(window.getOperand()),
                          typeOf(window.getResult()));
    // Contracted: offsets and channels, and of the weights all but one axis.
    RankedTensorType weights = typeOf(product.getRhs());
    if (!g || weights.getRank() != g->rank + 2 ||
        static_cast<int64_t>(product.getLhsContract().size()) != g->rank + 1)
      return false;
    SmallVector<int64_t> order(g->rank + 2, -1); // of weights: O, C, k..
    order[0] = (g->rank + 1) * (g->rank + 2) / 2;
    for (auto [own, other] :
         llvm::zip(product.getLhsContract(), product.getRhsContract())) {
      if (own < 1 + g->rank)
        return false;
      order[own == 1 + 2 * g->rank ? 1 : own - g->rank + 1] = other;
      order[0] -= other; // the one axis that is left
    }
    g->outputs = weights.getDimSize(order[0]);
    int64_t block = chooseBlock(*g, Direction::forward, lanes);
    if (!block)
      return false;
    builder.setInsertionPoint(product);
    Value result =
        create(product.getLoc(), Direction::forward, *g, block,
               toImage(window.getOperand(), *g),
               toBlocks(product.getRhs(), order, *g, Direction::forward),
               {g->samples, g->out[0], g->out[1], g->outputs});
    replace(product, result);
    return true;
  }

  /// fold(product(d, w))
  bool formImage(nn::FoldOp fold) {
    auto transpose = fold.getOperand().getDefiningOp<nn::TransposeOp>();
    Value windows = transpose ? transpose.getOperand() : fold.getOperand();
    auto product = windows.getDefiningOp<nn::DotGeneralOp>();
    if (!product || !product.getLhsBatch().empty() ||
        product.getLhsContract().size() != 1)
      return false;
    auto g = readGeometry(nn::getWindow(fold), typeOf(fold.getResult()),
                          typeOf(fold.getOperand()));
    RankedTensorType gradient = typeOf(product.getLhs()),
                     weights = typeOf(product.getRhs());
    if (!g || gradient.getRank() != g->rank + 2 ||
        weights.getRank() != g->rank + 2 ||
        product.getLhsContract()[0] != g->rank + 1)
      return false;
    // The fold's [N, out.., k.., C] in the axes of the product, whose last are
    // the free axes of the weights in order.
    SmallVector<int64_t> order{product.getRhsContract()[0], -1};
    for (int64_t axis = 0; axis < 2 * g->rank + 2; ++axis) {
      int64_t from = transpose ? transpose.getPermutation()[axis] : axis;
      if (axis <= g->rank) {
        if (from != axis)
          return false;
        continue;
      }
      int64_t weight = from - g->rank - 1;
      weight += weight >= order[0];
      if (axis == 2 * g->rank + 1)
        order[1] = weight;
      else
        order.push_back(weight);
    }
    g->outputs = gradient.getDimSize(g->rank + 1);
    int64_t block = chooseBlock(*g, Direction::image, lanes);
    if (!block)
      return false;
    builder.setInsertionPoint(fold);
    Value result =
        create(fold.getLoc(), Direction::image, *g, block,
               toImage(product.getLhs(), *g),
               toBlocks(product.getRhs(), order, *g, Direction::image),
               {g->samples, g->image[0], g->image[1], g->channels});
    replace(fold, result);
    return true;
  }

  /// product(d, window(x)) or product(window(x), d)
  bool formWeights(nn::DotGeneralOp product) {
    for (bool isLhs : {false, true}) {
      Value gradient = isLhs ? product.getRhs() : product.getLhs();
      auto window = (isLhs ? product.getLhs() : product.getRhs())
                        .getDefiningOp<nn::WindowOp>();
      if (!window || !product.getLhsBatch().empty())
        continue;
      auto g = readGeometry(nn::getWindow(window), typeOf(window.getOperand()),
                            typeOf(window.getResult()));
      if (!g || typeOf(gradient).getRank() != g->rank + 2 ||
          static_cast<int64_t>(product.getLhsContract().size()) !=
              g->rank + 1 ||
          !llvm::all_of(
              llvm::zip(product.getLhsContract(), product.getRhsContract()),
              [&](auto pair) {
                auto [left, right] = pair;
                return left == right && left <= g->rank;
              }))
        continue;
      g->outputs = typeOf(gradient).getDimSize(g->rank + 1);
      int64_t block = chooseBlock(*g, Direction::weights, lanes);
      if (!block)
        return false;
      builder.setInsertionPoint(product);
      SmallVector<int64_t> shape{ceilDiv(g->samples, block)};
      llvm::append_range(shape, getBlockedShape(*g));
      Value parts = create(product.getLoc(), Direction::weights, *g, block,
                           toImage(gradient, *g),
                           toImage(window.getOperand(), *g), shape);
      Value sum = fromBlocks(addParts(parts), *g);
      // [O, C, k..] as [O, k.., C] or [k.., C, O]
      SmallVector<int64_t> order;
      for (int64_t axis = 0; axis < g->rank; ++axis)
        order.push_back(2 + axis);
      order.push_back(1);
      order.insert(isLhs ? order.end() : order.begin(), 0);
      replace(product, transpose(sum, order));
      return true;
    }
    return false;
  }

private:
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    RankedTensorType type = typeOf(value);
    if (type.getShape() == shape)
      return value;
    return nn::ReshapeOp::create(
        builder, value.getLoc(),
        RankedTensorType::get(shape, type.getElementType()), value);
  }

  Value transpose(Value value, ArrayRef<int64_t> order) {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape;
    for (int64_t axis : order)
      shape.push_back(type.getDimSize(axis));
    return nn::TransposeOp::create(
        builder, value.getLoc(),
        RankedTensorType::get(shape, type.getElementType()), value, order);
  }

  /// [N, n.., C] with two spatial axes.
  Value toImage(Value value, const Geometry &g) {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    if (g.rank == 1)
      shape.insert(shape.begin() + 1, 1);
    return reshape(value, shape);
  }

  bool isThin(const Geometry &g) const { return g.channels < lanes; }

  /// Of weights in the library's order: HmConvolution. In the image's
  /// direction the two innermost axes are exchanged.
  SmallVector<int64_t> getBlockedShape(const Geometry &g) const {
    if (isThin(g))
      return {g.outputs / lanes, g.kernel[0], g.kernel[1], g.channels, lanes};
    return {g.outputs / lanes,
            g.channels / lanes,
            g.kernel[0],
            g.kernel[1],
            lanes,
            lanes};
  }

  /// Where [O/lanes, lanes, C/lanes, lanes, k, k] (or with C whole) goes.
  SmallVector<int64_t> getBlockedOrder(const Geometry &g,
                                       Direction direction) const {
    if (isThin(g))
      return {0, 3, 4, 2, 1};
    if (direction == Direction::image)
      return {0, 2, 4, 5, 1, 3};
    return {0, 2, 4, 5, 3, 1};
  }

  /// Weights, whose axes O, C, k.. are `order`, in blocks.
  Value toBlocks(Value weights, ArrayRef<int64_t> order, const Geometry &g,
                 Direction direction) {
    SmallVector<int64_t> shape{g.outputs / lanes, lanes};
    if (isThin(g))
      shape.push_back(g.channels);
    else
      shape.append({g.channels / lanes, lanes});
    shape.append({g.kernel[0], g.kernel[1]});
    return transpose(reshape(transpose(weights, order), shape),
                     getBlockedOrder(g, direction));
  }

  /// The gradient of weights as [O, C, k..].
  Value fromBlocks(Value blocks, const Geometry &g) {
    SmallVector<int64_t> order = getBlockedOrder(g, Direction::weights);
    SmallVector<int64_t> inverse(order.size());
    for (auto [index, axis] : llvm::enumerate(order))
      inverse[axis] = index;
    SmallVector<int64_t> shape{g.outputs, g.channels};
    for (int64_t axis = 2 - g.rank; axis < 2; ++axis)
      shape.push_back(g.kernel[axis]);
    return reshape(transpose(blocks, inverse), shape);
  }

  /// The sum over axis 0, in order.
  Value addParts(Value parts) {
    RankedTensorType type = typeOf(parts);
    ArrayRef<int64_t> shape = type.getShape().drop_front(1);
    if (type.getDimSize(0) == 1)
      return reshape(parts, shape);
    Location loc = parts.getLoc();
    auto summed = RankedTensorType::get(shape, type.getElementType());
    auto group =
        nn::GroupOp::create(builder, loc, TypeRange{summed}, ValueRange{parts});
    Block &body = group.getBody().emplaceBlock();
    Value argument = body.addArgument(type, loc);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&body);
    Value sum = nn::ReduceOp::create(builder, loc, summed, argument,
                                     nn::ReduceKind::sum, ArrayRef<int64_t>{0});
    nn::YieldOp::create(builder, loc, sum);
    return group.getResult(0);
  }

  Value create(Location loc, Direction direction, const Geometry &g,
               int64_t block, Value lhs, Value rhs, ArrayRef<int64_t> shape) {
    return nn::ConvolutionOp::create(
        builder, loc, RankedTensorType::get(shape, builder.getF32Type()),
        direction, lhs, rhs, g.kernel, g.strides, g.low, g.high, block);
  }

  /// Puts `value`, with as many spatial axes as the model has, in the place of
  /// an op and erases what nothing reads any more.
  void replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(
        reshape(value, typeOf(op->getResult(0)).getShape()));
    SmallVector<Operation *> dead{op};
    while (!dead.empty()) {
      Operation *next = dead.pop_back_val();
      if (!next->use_empty())
        continue;
      SmallVector<Value> operands(next->getOperands());
      next->erase();
      for (Value operand : operands)
        if (isa_and_present<nn::WindowOp, nn::TransposeOp, nn::DotGeneralOp>(
                operand.getDefiningOp()) &&
            !llvm::is_contained(dead, operand.getDefiningOp()))
          dead.push_back(operand.getDefiningOp());
    }
  }

  OpBuilder &builder;
  int64_t lanes;
};

} // namespace

void harmony::formConvolutions(func::FuncOp function, int64_t lanes) {
  OpBuilder builder(function.getContext());
  Former former(builder, lanes);
  SmallVector<nn::FoldOp> folds(function.front().getOps<nn::FoldOp>());
  for (nn::FoldOp fold : folds)
    former.formImage(fold);
  SmallVector<nn::DotGeneralOp> products(
      function.front().getOps<nn::DotGeneralOp>());
  for (nn::DotGeneralOp product : products)
    if (!former.formForward(product))
      former.formWeights(product);
}

HmConvolution harmony::getConvolution(nn::ConvolutionOp op) {
  RankedTensorType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs()),
                   result = typeOf(op.getResult());
  Direction direction = op.getDirection();
  RankedTensorType image = direction == Direction::forward ? lhs
                           : direction == Direction::image ? result
                                                           : rhs,
                   out = direction == Direction::forward ? result : lhs,
                   weights = direction == Direction::weights ? result : rhs;
  HmConvolution c = {};
  c.samples = image.getDimSize(0);
  c.blockSamples = op.getBlockSamples();
  c.channels = image.getDimSize(3);
  c.outputs = out.getDimSize(3);
  for (int axis = 0; axis < 2; ++axis) {
    c.image[axis] = image.getDimSize(1 + axis);
    c.out[axis] = out.getDimSize(1 + axis);
    c.kernel[axis] = op.getKernel()[axis];
    c.strides[axis] = op.getStrides()[axis];
    c.low[axis] = op.getLow()[axis];
    c.high[axis] = op.getHigh()[axis];
  }
  c.direction = static_cast<uint32_t>(direction);
  c.lanes = static_cast<uint32_t>(weights.getShape().back());
  return c;
}
