//===- Window.cpp - Geometry of convolution and pooling -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Window.h"

#include "dialects/NN/EvaluateElementwise.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace harmony::nn;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t Window::size() const {
  int64_t count = 1;
  for (int64_t extent : kernel)
    count *= extent;
  return count;
}

bool harmony::nn::isWindowOp(Operation *op) {
  return isa<WindowOp, FoldOp, MaxPoolOp, SumPoolOp, UnpoolOp>(op);
}

Window harmony::nn::getWindow(Operation *op) {
  return TypeSwitch<Operation *, Window>(op)
      .Case<WindowOp, FoldOp, MaxPoolOp, SumPoolOp, UnpoolOp>([](auto window) {
        return Window{static_cast<int64_t>(window.getAxis()),
                      llvm::SmallVector<int64_t, 3>(window.getKernel()),
                      llvm::SmallVector<int64_t, 3>(window.getStrides()),
                      llvm::SmallVector<int64_t, 3>(window.getDilations()),
                      llvm::SmallVector<int64_t, 3>(window.getLow())};
      });
}

RankedTensorType harmony::nn::getImageType(Operation *op) {
  return isa<FoldOp, UnpoolOp>(op) ? typeOf(op->getResult(0))
                                   : typeOf(op->getOperand(0));
}

RankedTensorType harmony::nn::getWindowType(Operation *op) {
  return isa<FoldOp, UnpoolOp>(op) ? typeOf(op->getOperand(0))
                                   : typeOf(op->getResult(0));
}

/// `image` with its windowed axes replaced by `axes`.
static RankedTensorType replaceAxes(RankedTensorType image,
                                    const Window &window,
                                    ArrayRef<int64_t> axes) {
  BatchAttr batch = getBatch(image);
  ArrayRef<int64_t> shape = image.getShape();
  SmallVector<int64_t> extents(shape.take_front(window.axis));
  llvm::append_range(extents, axes);
  llvm::append_range(extents, shape.drop_front(window.axis + window.rank()));
  int64_t axis = batch ? batch.getAxis() : -1;
  if (axis >= window.axis)
    axis += static_cast<int64_t>(axes.size()) - window.rank();
  return getBatchType(extents, image.getElementType(), axis,
                      batch ? batch.getFactor() : 1);
}

RankedTensorType harmony::nn::inferWindow(RankedTensorType image,
                                          const Window &window,
                                          ArrayRef<int64_t> out) {
  SmallVector<int64_t> axes(out);
  llvm::append_range(axes, window.kernel);
  return replaceAxes(image, window, axes);
}

RankedTensorType harmony::nn::inferPool(RankedTensorType image,
                                        const Window &window,
                                        ArrayRef<int64_t> out) {
  return replaceAxes(image, window, out);
}

Type harmony::nn::getPositionType(MLIRContext *context, const Window &window) {
  return IntegerType::get(context, window.size() <= 128 ? 8 : 32);
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static LogicalResult verifyWindow(Operation *op, bool hasOffsets) {
  Window window = getWindow(op);
  RankedTensorType image = getImageType(op), windows = getWindowType(op);
  int64_t rank = window.rank();
  for (auto [name, list, least] :
       {std::tuple("strides", &window.strides, int64_t(1)),
        {"dilations", &window.dilations, 1},
        {"low", &window.low, 0},
        {"kernel", &window.kernel, 1}}) {
    if (static_cast<int64_t>(list->size()) != rank)
      return op->emitOpError() << name << " has " << list->size()
                               << " entries, expected " << rank;
    for (int64_t value : *list)
      if (value < least)
        return op->emitOpError() << name << " has an entry " << value
                                 << ", expected at least " << least;
  }
  if (rank == 0 || window.axis < 0 || window.axis + rank > image.getRank())
    return op->emitOpError("axes [")
           << window.axis << ", " << window.axis + rank << ") are not axes of "
           << image;
  if (BatchAttr batch = getBatch(image); batch &&
                                         batch.getAxis() >= window.axis &&
                                         batch.getAxis() < window.axis + rank)
    return op->emitOpError("windows must not reach over the batch axis ")
           << batch.getAxis();
  if (windows.getRank() < window.axis + rank)
    return op->emitOpError("has windows of type ")
           << windows << " for an image " << image;
  ArrayRef<int64_t> out = windows.getShape().slice(window.axis, rank);
  // A dynamic extent there makes the expected type another one.
  RankedTensorType expected = hasOffsets ? inferWindow(image, window, out)
                                         : inferPool(image, window, out);
  if (llvm::any_of(out, ShapedType::isDynamic) || windows != expected)
    return op->emitOpError("has windows of type ")
           << windows << ", expected " << expected << " for an image " << image;
  return success();
}

LogicalResult WindowOp::verify() {
  return verifyWindow(*this, /*hasOffsets=*/true);
}

LogicalResult FoldOp::verify() {
  return verifyWindow(*this, /*hasOffsets=*/true);
}

LogicalResult ConvolutionOp::verify() {
  RankedTensorType lhs = typeOf(getLhs()), rhs = typeOf(getRhs()),
                   result = typeOf(getResult());
  for (RankedTensorType type : {lhs, rhs, result})
    if (!type.hasStaticShape() || !type.getElementType().isF32())
      return emitOpError("has a tensor of type ")
             << type << ", expected f32 of static extents";
  for (auto [name, list, least] : {std::tuple("kernel", getKernel(), 1),
                                   {"strides", getStrides(), 1},
                                   {"low", getLow(), 0},
                                   {"high", getHigh(), 0}})
    if (list.size() != 2 || list[0] < least || list[1] < least)
      return emitOpError() << name << " is [" << list
                           << "], expected two entries of at least " << least;
  ConvolutionDirection direction = getDirection();
  bool isForward = direction == ConvolutionDirection::forward,
       isImage = direction == ConvolutionDirection::image;
  RankedTensorType image = isForward ? lhs
                           : isImage ? result
                                     : rhs,
                   out = isForward ? result : lhs,
                   weights = isForward || isImage ? rhs : result;
  if (image.getRank() != 4 || out.getRank() != 4 ||
      image.getDimSize(0) != out.getDimSize(0))
    return emitOpError("has images of types ")
           << image << " and " << out << ", expected rank 4 and equal samples";
  int64_t samples = image.getDimSize(0), block = getBlockSamples();
  if (block < 1 || block > samples)
    return emitOpError("has blocks of ")
           << block << " samples, expected 1 to " << samples;
  for (int axis : {0, 1}) {
    int64_t room = image.getDimSize(1 + axis) + getLow()[axis] +
                   getHigh()[axis] - getKernel()[axis];
    if (room < 0 || room / getStrides()[axis] + 1 != out.getDimSize(1 + axis))
      return emitOpError("windows of axis ")
             << axis << " do not lead from " << image << " to " << out;
  }
  SmallVector<int64_t> shape(weights.getShape());
  int64_t lanes = shape.back(), channels = image.getDimSize(3),
          outputs = out.getDimSize(3);
  SmallVector<int64_t> expected;
  if (!isForward && !isImage)
    expected.push_back(llvm::divideCeil(samples, block));
  expected.push_back(lanes > 0 ? outputs / lanes : 0);
  bool isThin = channels < lanes;
  if (!isThin)
    expected.push_back(channels / lanes);
  llvm::append_range(expected, getKernel());
  expected.append({isThin ? channels : lanes, lanes});
  if (shape != expected || outputs % lanes != 0 ||
      (!isThin && channels % lanes != 0))
    return emitOpError("has weights of type ")
           << weights << ", expected [" << expected << "]";
  return success();
}

std::optional<RankedTensorType>
harmony::nn::inferDepthwise(RankedTensorType operand, RankedTensorType weights,
                            int64_t axis, ArrayRef<int64_t> strides,
                            ArrayRef<int64_t> dilations) {
  auto rank = static_cast<int64_t>(strides.size());
  if (axis < 0 || rank < 1 || operand.getRank() != axis + rank + 1 ||
      weights.getRank() != rank + 1 ||
      dilations.size() != static_cast<size_t>(rank) ||
      weights.getElementType() != operand.getElementType() ||
      weights.getShape().back() != operand.getShape().back() ||
      weights.getEncoding())
    return std::nullopt;
  SmallVector<int64_t> shape(operand.getShape());
  for (int64_t i = 0; i < rank; ++i) {
    int64_t free =
        shape[axis + i] - (weights.getDimSize(i) - 1) * dilations[i] - 1;
    if (operand.isDynamicDim(axis + i) || strides[i] < 1 || dilations[i] < 1 ||
        weights.getDimSize(i) < 1 || free < 0)
      return std::nullopt;
    shape[axis + i] = free / strides[i] + 1;
  }
  return RankedTensorType::get(shape, operand.getElementType(),
                               operand.getEncoding());
}

LogicalResult DepthwiseOp::verify() {
  auto type = inferDepthwise(cast<RankedTensorType>(getOperand().getType()),
                             cast<RankedTensorType>(getWeights().getType()),
                             getAxis(), getStrides(), getDilations());
  if (!type)
    return emitOpError("operand, weights and windows do not fit: expected "
                       "[A.., n.., C] and [k.., C], the window within n");
  if (getResult().getType() != *type)
    return emitOpError("result must have type ") << *type;
  return success();
}

SmallVector<SmallVector<int64_t>> harmony::nn::getOffsets(DepthwiseOp op) {
  SmallVector<SmallVector<int64_t>> offsets{{}};
  auto weights = cast<RankedTensorType>(op.getWeights().getType());
  for (int64_t extent : weights.getShape().drop_back()) {
    SmallVector<SmallVector<int64_t>> longer;
    for (ArrayRef<int64_t> offset : offsets)
      for (int64_t i = 0; i < extent; ++i) {
        longer.emplace_back(offset);
        longer.back().push_back(i);
      }
    offsets = std::move(longer);
  }
  return offsets;
}

Value harmony::nn::sliceAt(Algebra &algebra, DepthwiseOp op, Value operand,
                           ArrayRef<int64_t> offset) {
  RankedTensorType type = Algebra::typeOf(op.getResult());
  SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
  for (auto [i, position] : llvm::enumerate(offset)) {
    starts[op.getAxis() + i] = position * op.getDilations()[i];
    strides[op.getAxis() + i] = op.getStrides()[i];
  }
  return algebra.slice(operand, starts, strides, type);
}

Value harmony::nn::weightsAt(Algebra &algebra, DepthwiseOp op,
                             ArrayRef<int64_t> offset) {
  RankedTensorType type = Algebra::typeOf(op.getWeights());
  SmallVector<int64_t> starts(offset), strides(type.getRank(), 1),
      extents(type.getRank(), 1);
  starts.push_back(0);
  extents.back() = type.getShape().back();
  Value slice =
      algebra.slice(op.getWeights(), starts, strides,
                    RankedTensorType::get(extents, type.getElementType()));
  return algebra.reshape(
      slice, RankedTensorType::get(extents.back(), type.getElementType()));
}

static LogicalResult verifyPosition(Operation *op, Value position) {
  RankedTensorType pooled = getWindowType(op), type = typeOf(position);
  Type element = getPositionType(op->getContext(), getWindow(op));
  if (type != withElementType(pooled, element))
    return op->emitOpError("positions have type ")
           << type << ", expected " << withElementType(pooled, element);
  return success();
}

LogicalResult MaxPoolOp::verify() {
  if (!isa<FloatType>(typeOf(getOperand()).getElementType()))
    return emitOpError("needs floating elements, not ")
           << getOperand().getType();
  if (failed(verifyWindow(*this, /*hasOffsets=*/false)))
    return failure();
  return verifyPosition(*this, getPosition());
}

LogicalResult SumPoolOp::verify() {
  return verifyWindow(*this, /*hasOffsets=*/false);
}

LogicalResult UnpoolOp::verify() {
  if (failed(verifyWindow(*this, /*hasOffsets=*/false)))
    return failure();
  return getPosition() ? verifyPosition(*this, getPosition()) : success();
}

//===----------------------------------------------------------------------===//
// Reference semantics
//===----------------------------------------------------------------------===//

namespace {
/// Row-major positions of a tensor by (leading, middle.., trailing) index.
struct Layout {
  int64_t lead = 1, trail = 1;
  SmallVector<int64_t> middle;

  Layout(ArrayRef<int64_t> shape, int64_t axis, int64_t rank)
      : middle(shape.slice(axis, rank)) {
    for (int64_t extent : shape.take_front(axis))
      lead *= extent;
    for (int64_t extent : shape.drop_front(axis + rank))
      trail *= extent;
  }
  int64_t locate(int64_t leading, ArrayRef<int64_t> index,
                 int64_t trailing) const {
    int64_t position = leading;
    for (auto [extent, at] : llvm::zip_equal(middle, index))
      position = position * extent + at;
    return position * trail + trailing;
  }
};
} // namespace

/// Calls `body` with every index below `extents`, in row-major order.
static void forEach(ArrayRef<int64_t> extents,
                    llvm::function_ref<void(ArrayRef<int64_t>)> body) {
  SmallVector<int64_t> index(extents.size(), 0);
  if (llvm::is_contained(extents, 0))
    return;
  while (true) {
    body(index);
    int64_t axis = static_cast<int64_t>(extents.size()) - 1;
    for (; axis >= 0 && ++index[axis] == extents[axis]; --axis)
      index[axis] = 0;
    if (axis < 0)
      return;
  }
}

void harmony::nn::evaluateWindow(Operation *op,
                                 ArrayRef<const HostTensor *> operands,
                                 MutableArrayRef<HostTensor> results) {
  Window window = getWindow(op);
  int64_t rank = window.rank();
  bool isToImage = isa<FoldOp, UnpoolOp>(op),
       hasOffsets = isa<WindowOp, FoldOp>(op);
  const HostTensor &source = *operands.front();
  HostTensor &target = results.front();
  ArrayRef<int64_t> imageShape = isToImage ? target.shape : source.shape,
                    windowShape = isToImage ? source.shape : target.shape;
  Layout image(imageShape, window.axis, rank);
  Layout windows(windowShape, window.axis, hasOffsets ? 2 * rank : rank);
  if (isa<MaxPoolOp>(op))
    llvm::fill(target.floats, -std::numeric_limits<double>::infinity());
  std::vector<bool> started(target.size());
  auto addTo = [&](int64_t to, int64_t from) {
    if (target.isFloat())
      target.floats[to] += source.floats[from];
    else
      target.integers[to] = wrap(target.integers[to] + source.integers[from],
                                 widthOf(target.element));
  };
  // Offsets outermost: each element of an image adds its windows in their
  // order, each window its elements.
  int64_t position = 0;
  forEach(window.kernel, [&](ArrayRef<int64_t> offset) {
    for (int64_t lead = 0; lead < image.lead; ++lead)
      forEach(ArrayRef(windows.middle).take_front(rank),
              [&](ArrayRef<int64_t> out) {
                SmallVector<int64_t> at, inWindow(out);
                for (int64_t axis = 0; axis < rank; ++axis) {
                  at.push_back(window.locate(axis, out[axis], offset[axis]));
                  if (at.back() < 0 || at.back() >= image.middle[axis])
                    return;
                }
                if (hasOffsets)
                  llvm::append_range(inWindow, offset);
                for (int64_t trail = 0; trail < image.trail; ++trail) {
                  int64_t i = image.locate(lead, at, trail),
                          w = windows.locate(lead, inWindow, trail);
                  if (isa<WindowOp>(op)) {
                    copyElement(source, i, target, w);
                  } else if (isa<MaxPoolOp>(op)) {
                    double x = source.floats[i];
                    if (!started[w] || x > target.floats[w] || x != x) {
                      target.floats[w] = x;
                      results[1].integers[w] = position;
                    }
                    started[w] = true;
                  } else if (isa<SumPoolOp>(op)) {
                    addTo(w, i);
                  } else if (operands.size() < 2 ||
                             operands[1]->integers[w] == position) {
                    addTo(i, w);
                  }
                }
              });
    ++position;
  });
}
