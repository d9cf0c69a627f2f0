//===- ConvertPad.cpp - Padding, and blocks of positions as channels ------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Geometry.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// The element that stands at position `at` of an axis of `n` elements
/// continued beyond its ends.
int64_t continueAxis(StringRef mode, int64_t at, int64_t n) {
  if (mode == "edge")
    return std::clamp<int64_t>(at, 0, n - 1);
  int64_t period = mode == "wrap" ? n : std::max<int64_t>(2 * (n - 1), 1);
  at = (at % period + period) % period;
  return at < n ? at : period - at;
}

/// Pads by other elements of the axis.
Tensor padByElements(TensorBuilder &t, const Tensor &x, StringRef mode,
                     ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  Tensor result = x;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (low[axis] == 0 && high[axis] == 0)
      continue;
    if (x.shape()[axis].isBatch())
      return t.fail("pads the batch axis " + Twine(axis) + " of " +
                    toString(x.shape()) + ": this combines samples");
    int64_t n = x.shape()[axis].size;
    if (n == 0 || n + low[axis] + high[axis] < 0)
      return t.fail("a padding of " + Twine(low[axis]) + " and " +
                    Twine(high[axis]) + " does not fit axis " + Twine(axis) +
                    " of " + toString(x.shape()));
    SmallVector<int64_t> positions;
    for (int64_t at = -low[axis]; at < n + high[axis]; ++at)
      positions.push_back(continueAxis(mode, at, n));
    result = takeAlong(t, result, axis, positions);
  }
  return result;
}

/// Pads by a value, in the order that the channels have.
Tensor padByValue(TensorBuilder &t, const Tensor &x, const Tensor &fill,
                  ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  if (!x->channelsLast)
    return t.pad(x, fill, low, high);
  SmallVector<int64_t> lowLast(x.rank()), highLast(x.rank());
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    lowLast[behindChannels(axis, x.rank())] = low[axis];
    highLast[behindChannels(axis, x.rank())] = high[axis];
  }
  return t.fromChannelsLast(t.pad(x->channelsLast, fill, lowLast, highLast));
}

void convertPad(Binder &b) {
  Tensor x = b.input(0);
  std::string mode = b.string("mode", "constant");
  if (!x)
    return;
  TensorBuilder &t = b.build();
  bool isOld = b.version() < 11;
  std::optional<SmallVector<int64_t>> pads =
      isOld ? b.integerList("pads") : b.integers(1);
  Tensor fill = t.scalarLike(x, isOld ? b.real("value", 0) : 0);
  if (!isOld && b.hasInput(2))
    fill = b.input(2);
  std::optional<SmallVector<int64_t>> axes;
  if (b.version() >= 18 && b.hasInput(3) && !(axes = b.integers(3)))
    return;
  if (!isOneOf(b, "mode", mode, {"constant", "reflect", "edge", "wrap"}) ||
      !pads || !fill)
    return;
  int64_t count = axes ? axes->size() : x.rank();
  if (static_cast<int64_t>(pads->size()) != 2 * count) {
    b.refuse("has " + Twine(pads->size()) + " pads, expected " +
             Twine(2 * count));
    return;
  }
  SmallVector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t axis = b.axis(axes ? (*axes)[i] : i, x.rank());
    for (int64_t pad : {(*pads)[i], (*pads)[i + count]})
      if (pad > kMost || pad < -kMost) {
        b.refuse("a padding is " + Twine(pad) + ", accepted is " +
                 Twine(-kMost) + " to " + Twine(kMost));
        return;
      }
    low[axis] = (*pads)[i];
    high[axis] = (*pads)[i + count];
  }
  b.output(0, mode == "constant" ? padByValue(t, x, fill, low, high)
                                 : padByElements(t, x, mode, low, high));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The attribute blocksize, for an image [N, C, H, W].
std::optional<int64_t> readBlock(Binder &b, const Tensor &x) {
  int64_t block = b.integer("blocksize", 0);
  if (!x)
    return std::nullopt;
  if (x.rank() != 4 || x.batchAxis() > 0) {
    b.refuse("input must have the shape [N, C, H, W] with the batch (N) in "
             "front alone, not " +
             toString(x.shape()));
    return std::nullopt;
  }
  if (block < 1 || block > kMost) {
    b.refuse("blocksize is " + Twine(block) + ", accepted is 1 to " +
             Twine(kMost));
    return std::nullopt;
  }
  return block;
}

void convertDepthToSpace(Binder &b) {
  Tensor x = b.input(0);
  std::string mode = b.version() == 1 ? "DCR" : b.string("mode", "DCR");
  std::optional<int64_t> block = readBlock(b, x);
  if (!block || !isOneOf(b, "mode", mode, {"DCR", "CRD"}))
    return;
  Extent k{*block, 0}, height = x.shape()[2], width = x.shape()[3];
  if (x.shape()[1].size % (k.size * k.size) != 0) {
    b.refuse("the channels of " + toString(x.shape()) +
             " are no multiple of blocksize * blocksize = " +
             Twine(k.size * k.size));
    return;
  }
  Extent depth{x.shape()[1].size / (k.size * k.size), 0};
  TensorBuilder &t = b.build();
  bool depthFirst = mode == "CRD";
  Shape split{x.shape()[0], height, width};
  if (depthFirst)
    split.append({depth, k, k});
  else
    split.append({k, k, depth});
  SmallVector<int64_t> order{0, 1, 3, 2, 4, 5};
  if (depthFirst)
    order = {0, 1, 4, 2, 5, 3};
  Tensor blocks = t.transpose(t.reshape(t.toChannelsLast(x), split), order);
  b.output(0, t.fromChannelsLast(t.reshape(
                  blocks, {x.shape()[0], Extent{height.size * k.size, 0},
                           Extent{width.size * k.size, 0}, depth})));
}

void convertSpaceToDepth(Binder &b) {
  Tensor x = b.input(0);
  std::string mode = b.version() >= 28 ? b.string("mode", "DCR") : "DCR";
  std::optional<int64_t> block = readBlock(b, x);
  if (!block || !isOneOf(b, "mode", mode, {"DCR", "CRD"}))
    return;
  Extent k{*block, 0}, depth = x.shape()[1];
  if (x.shape()[2].size % k.size != 0 || x.shape()[3].size % k.size != 0) {
    b.refuse("height and width of " + toString(x.shape()) +
             " are no multiples of blocksize = " + Twine(k.size));
    return;
  }
  Extent height{x.shape()[2].size / k.size, 0},
      width{x.shape()[3].size / k.size, 0};
  TensorBuilder &t = b.build();
  Tensor blocks = t.reshape(t.toChannelsLast(x),
                            {x.shape()[0], height, k, width, k, depth});
  SmallVector<int64_t> order{0, 1, 3, 2, 4, 5};
  if (mode == "CRD")
    order = {0, 1, 3, 5, 2, 4};
  b.output(0, t.fromChannelsLast(
                  t.reshape(t.transpose(blocks, order),
                            {x.shape()[0], height, width,
                             Extent{depth.size * k.size * k.size, 0}})));
}

} // namespace

void harmony::normalize::addPadConverters(ConverterTable &table) {
  table.onOp("Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25}, convertPad);
  table.onOp("DepthToSpace", {1, 11, 13, 28}, convertDepthToSpace);
  table.onOp("SpaceToDepth", {1, 13, 28}, convertSpaceToDepth);
}
