//===- Images.cpp - Windows and the order of channels ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ONNX puts channels in front of the positions of an image. Computed are images
// with the channels last: the rows of a convolution's product are windows then,
// pooling runs along contiguous channels, and a bias is a row. Elementwise work
// in between keeps the order, so that a chain of convolutions transposes
// nothing.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Tensor TensorBuilder::toChannelsLast(const Tensor &x) {
  if (!x || x.rank() < 3)
    return x;
  if (x->channelsLast)
    return x->channelsLast;
  SmallVector<int64_t> permutation{0};
  for (int64_t axis = 2; axis < x.rank(); ++axis)
    permutation.push_back(axis);
  permutation.push_back(1);
  return transpose(x, permutation);
}

Tensor TensorBuilder::toChannelsFirst(const Tensor &x) {
  if (!x)
    return x;
  SmallVector<int64_t> permutation{0, x.rank() - 1};
  for (int64_t axis = 1; axis + 1 < x.rank(); ++axis)
    permutation.push_back(axis);
  return transpose(x, permutation);
}

Tensor TensorBuilder::fromChannelsLast(const Tensor &x) {
  if (!x || x.rank() < 3)
    return x;
  if (x.isKnown() || x->base || !x->unusable.empty())
    return toChannelsFirst(x);
  Shape shape(x.shape());
  shape.insert(shape.begin() + 1, shape.pop_back_val());
  Tensor result = withValue(x.type(), shape, Value());
  result->channelsLast = x;
  return result;
}

/// The operands of elementwise work with the channels last, where one has them
/// so and the others can be brought to it for nothing but, at most, a
/// transposition of their own.
std::optional<SmallVector<Tensor>>
TensorBuilder::withChannelsLast(ArrayRef<Tensor> operands) {
  const Tensor *image = nullptr;
  for (const Tensor &operand : operands) {
    if (!operand || operand.isBatchSum())
      return std::nullopt;
    if (operand->channelsLast)
      image = &operand;
  }
  if (!image)
    return std::nullopt;
  SmallVector<Tensor> images;
  for (const Tensor &operand : operands) {
    Tensor x = operand->base ? operand->base : operand;
    if (x.rank() > image->rank() || operand.rank() > image->rank() ||
        !x->unusable.empty())
      return std::nullopt;
    if (x.rank() > 0) {
      Shape shape(image->rank() - x.rank(), Extent{1, 0});
      llvm::append_range(shape, x.shape());
      x = toChannelsLast(reshape(x, shape));
    }
    if (!x)
      return std::nullopt;
    images.push_back(x);
  }
  return images;
}

/// The extents `out` fit into types.
static SmallVector<Extent> replaceAxes(ArrayRef<Extent> shape,
                                       const nn::Window &window,
                                       ArrayRef<int64_t> axes) {
  SmallVector<Extent> result(shape.take_front(window.axis));
  for (int64_t extent : axes)
    result.push_back(Extent{extent, 0});
  llvm::append_range(result, shape.drop_front(window.axis + window.rank()));
  return result;
}

Tensor TensorBuilder::window(const Tensor &image, const nn::Window &window,
                             ArrayRef<int64_t> out) {
  Value value = materialize(image);
  if (!value)
    return Tensor();
  auto type = nn::inferWindow(mlir::cast<RankedTensorType>(value.getType()),
                              window, out);
  SmallVector<int64_t> axes(out);
  llvm::append_range(axes, window.kernel);
  return withValue(image.type(), replaceAxes(image.shape(), window, axes),
                   emit<nn::WindowOp>(type, value, window.axis, window.kernel,
                                      window.strides, window.dilations,
                                      window.low));
}

Tensor TensorBuilder::fold(const Tensor &windows, const nn::Window &window,
                           ArrayRef<int64_t> image) {
  Value value = materialize(windows);
  if (!value)
    return Tensor();
  Shape shape(windows.shape().take_front(window.axis));
  for (int64_t extent : image)
    shape.push_back(Extent{extent, 0});
  llvm::append_range(
      shape, windows.shape().drop_front(window.axis + 2 * window.rank()));
  return withValue(windows.type(), shape,
                   emit<nn::FoldOp>(getType(shape, windows.type()), value,
                                    window.axis, window.kernel, window.strides,
                                    window.dilations, window.low));
}

Tensor TensorBuilder::depthwise(const Tensor &image, const Tensor &weights,
                                ArrayRef<int64_t> strides,
                                ArrayRef<int64_t> dilations) {
  Value value = materialize(image), weightsValue = materialize(weights);
  if (!value || !weightsValue)
    return Tensor();
  auto type =
      nn::inferDepthwise(mlir::cast<RankedTensorType>(value.getType()),
                         mlir::cast<RankedTensorType>(weightsValue.getType()),
                         1, strides, dilations);
  if (!type)
    return fail("windows of " + toString(weights.shape()) + " do not fit " +
                toString(image.shape()));
  return fromValue(
      emit<nn::DepthwiseOp>(*type, value, weightsValue, 1, strides, dilations),
      image.type());
}

Tensor TensorBuilder::maxPool(const Tensor &image, const nn::Window &window,
                              ArrayRef<int64_t> out) {
  Value value = materialize(image);
  if (!value)
    return Tensor();
  auto type =
      nn::inferPool(mlir::cast<RankedTensorType>(value.getType()), window, out);
  Type position = nn::withElementType(
      type, nn::getPositionType(builder.getContext(), window));
  return withValue(image.type(), replaceAxes(image.shape(), window, out),
                   emit<nn::MaxPoolOp>(type, position, value, window.axis,
                                       window.kernel, window.strides,
                                       window.dilations, window.low));
}

Tensor TensorBuilder::sumPool(const Tensor &image, const nn::Window &window,
                              ArrayRef<int64_t> out) {
  Value value = materialize(image);
  if (!value)
    return Tensor();
  auto type =
      nn::inferPool(mlir::cast<RankedTensorType>(value.getType()), window, out);
  return withValue(image.type(), replaceAxes(image.shape(), window, out),
                   emit<nn::SumPoolOp>(type, value, window.axis, window.kernel,
                                       window.strides, window.dilations,
                                       window.low));
}
