//===- ConvertResize.cpp - Resizing, padding, rearranging images ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positions are known at compile time. Along one axis after the other, elements
// are taken (nn.gather, whose adjoint adds up), repeated, or combined by a
// product with a constant matrix.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Geometry.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

//===----------------------------------------------------------------------===//
// One axis at a time
//===----------------------------------------------------------------------===//

/// Where axis `axis` of [N, C, n..] is with the channels last.
int64_t behindChannels(int64_t axis, int64_t rank) {
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

Tensor takeAlong(TensorBuilder &t, const Tensor &x, int64_t axis,
                 ArrayRef<int64_t> positions) {
  if (!x)
    return x;
  if (x->channelsLast)
    return t.fromChannelsLast(takeAlong(
        t, x->channelsLast, behindChannels(axis, x.rank()), positions));
  int64_t extent = x.shape()[axis].size, count = positions.size();
  // Each element as often as the others: the adjoint is a sum.
  int64_t times = extent ? count / extent : 0;
  bool repeats = times > 1 && count == times * extent;
  for (int64_t i = 0; i < count && repeats; ++i)
    repeats = positions[i] == i / times;
  if (repeats) {
    Shape apart(x.shape()), result(x.shape());
    apart.insert(apart.begin() + axis + 1, Extent{1, 0});
    Tensor column = t.reshape(x, apart);
    apart[axis + 1] = Extent{times, 0};
    result[axis] = Extent{count, 0};
    return t.reshape(t.expand(column, apart), result);
  }
  SmallVector<Element> indices;
  for (int64_t position : positions)
    indices.push_back(Element{position});
  return t.gather(x, t.vectorOf(indices), axis);
}

/// Row i of `weights` [to, from] says what element i of the axis is made of.
Tensor combineAlong(TensorBuilder &t, const Tensor &x, int64_t axis,
                    const Tensor &weights) {
  if (!x)
    return x;
  if (x->channelsLast)
    return t.fromChannelsLast(combineAlong(
        t, x->channelsLast, behindChannels(axis, x.rank()), weights));
  DotAxes axes;
  axes.lhsContract = {axis};
  axes.rhsContract = {1};
  Tensor product = t.dot(x, weights, axes);
  SmallVector<int64_t> back;
  for (int64_t i = 0; i < x.rank(); ++i)
    back.push_back(i == axis ? x.rank() - 1 : i - (i > axis));
  return t.transpose(product, back);
}

//===----------------------------------------------------------------------===//
// Resize
//===----------------------------------------------------------------------===//

/// How Resize and Upsample interpolate.
struct Interpolation {
  std::string mode = "nearest", coordinates = "half_pixel",
              nearest = "round_prefer_floor";
  double cubic = -0.75, extrapolation = 0;
  bool excludesOutside = false, antialiases = false;
};

/// One axis: from `size` elements to `count`, by `scale`; `start` and `end` are
/// the region of interest.
struct Line {
  int64_t size, count;
  float scale;
  float start = 0, end = 1;

  /// The position in the input of element `i`, in single precision as
  /// runtimes and exporters compute it.
  float locate(const Interpolation &how, int64_t i) const {
    float x = static_cast<float>(i), n = static_cast<float>(size),
          length = scale * n;
    StringRef mode = how.coordinates;
    if (mode == "align_corners")
      return length == 1 ? 0 : x * (n - 1) / (length - 1);
    if (mode == "asymmetric")
      return x / scale;
    if (mode == "tf_half_pixel_for_nn")
      return (x + 0.5f) / scale;
    if (mode == "tf_crop_and_resize")
      return length == 1
                 ? (end + start) * (n - 1) / 2
                 : start * (n - 1) + x * (end - start) * (n - 1) / (length - 1);
    if (mode == "pytorch_half_pixel" && length == 1)
      return -0.5f;
    float position = (x + 0.5f) / scale - 0.5f;
    if (mode == "half_pixel_symmetric")
      position += n / 2 * (1 - static_cast<float>(count) / length);
    return position;
  }
};

int64_t roundNearest(const Line &line, StringRef mode, float x) {
  double at = x;
  if (mode == "round_prefer_floor")
    at = std::ceil(at - 0.5);
  else if (mode == "round_prefer_ceil")
    at = std::floor(at + 0.5);
  else if (mode == "ceil" || (mode == "simple" && line.scale < 1))
    at = std::ceil(at);
  else
    at = std::floor(at);
  return std::clamp<int64_t>(at, 0, line.size - 1);
}

/// The weight of an element at distance `d`: of linear interpolation, or the
/// cubic convolution of Keys (1981) with coefficient a.
double kernelAt(const Interpolation &how, double d) {
  d = std::fabs(d);
  if (how.mode == "linear")
    return std::max(1 - d, 0.0);
  double a = how.cubic;
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/// The matrix [count, size] of an axis; elements beyond the border are those at
/// the border, or left out.
Tensor makeWeights(TensorBuilder &t, Type type, const Line &line,
                   const Interpolation &how) {
  std::vector<Element> matrix(line.count * line.size);
  double stretch = how.antialiases ? std::min<double>(line.scale, 1) : 1;
  double reach = (how.mode == "linear" ? 1 : 2) / stretch;
  for (int64_t to = 0; to < line.count; ++to) {
    double x = line.locate(how, to), total = 0;
    std::vector<double> row(line.size);
    for (auto at = static_cast<int64_t>(std::floor(x - reach));
         at <= static_cast<int64_t>(std::ceil(x + reach)); ++at) {
      if (how.excludesOutside && (at < 0 || at >= line.size))
        continue;
      double weight = kernelAt(how, (static_cast<double>(at) - x) * stretch);
      row[std::clamp<int64_t>(at, 0, line.size - 1)] += weight;
      total += weight;
    }
    for (int64_t from = 0; from < line.size; ++from)
      matrix[to * line.size + from].real = roundTo(type, row[from] / total);
  }
  return t.known(type, {Extent{line.count, 0}, Extent{line.size, 0}},
                 std::move(matrix));
}

Tensor resizeAlong(TensorBuilder &t, const Tensor &x, int64_t axis,
                   const Line &line, const Interpolation &how) {
  Tensor result;
  if (how.mode == "nearest") {
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < line.count; ++i)
      positions.push_back(roundNearest(line, how.nearest, line.locate(how, i)));
    result = takeAlong(t, x, axis, positions);
  } else {
    result = combineAlong(t, x, axis, makeWeights(t, x.type(), line, how));
  }
  if (!result || how.coordinates != "tf_crop_and_resize")
    return result;
  // Positions outside of the image have a value of their own.
  std::vector<Element> isInside;
  Shape shape(x.rank(), Extent{1, 0});
  shape[axis] = Extent{line.count, 0};
  for (int64_t i = 0; i < line.count; ++i) {
    float at = line.locate(how, i);
    isInside.push_back(
        Element{at >= 0 && at <= static_cast<float>(line.size - 1)});
  }
  Type boolean = t.getBuilder().getI1Type();
  return t.select(t.known(boolean, shape, std::move(isInside)), result,
                  t.scalarLike(x, how.extrapolation));
}

/// The numbers of a floating input that must be known.
std::optional<SmallVector<double>> readReals(Binder &b, unsigned index,
                                             StringRef name) {
  Tensor given = b.input(index);
  if (!given)
    return std::nullopt;
  SmallVector<double> result;
  if (given.isKnown() && given.isFloat())
    for (const Element &element : given.elements()) {
      if (element.batch)
        break;
      result.push_back(element.real);
    }
  if (static_cast<int64_t>(result.size()) != getElementCount(given.shape())) {
    b.refuse(name + " must be floating numbers known at compile time");
    return std::nullopt;
  }
  return result;
}

bool isOneOf(Binder &b, StringRef name, StringRef value,
             ArrayRef<StringRef> accepted) {
  if (llvm::is_contained(accepted, value))
    return true;
  b.refuse(name + " is '" + value + "', accepted are " +
           llvm::join(accepted, ", "));
  return false;
}

/// Resizes the axes whose line is not the identity.
void resize(Binder &b, const Tensor &x, ArrayRef<Line> lines,
            const Interpolation &how) {
  Tensor result = x;
  for (auto [axis, line] : llvm::enumerate(lines)) {
    bool isWhole = how.coordinates != "tf_crop_and_resize" ||
                   (line.start == 0 && line.end == 1);
    if (line.scale == 1 && line.count == line.size && isWhole)
      continue;
    if (x.shape()[axis].isBatch()) {
      b.refuse("resizes the batch axis " + Twine(axis) + " of " +
               toString(x.shape()) + ": this combines samples");
      return;
    }
    if (line.count < 1) {
      b.refuse("leaves no element along axis " + Twine(axis) + " of " +
               toString(x.shape()));
      return;
    }
    result = resizeAlong(b.build(), result, axis, line, how);
  }
  b.output(0, result);
}

/// Lines of `x` by one scale per axis.
std::optional<SmallVector<Line>> linesByScale(Binder &b, const Tensor &x,
                                              ArrayRef<double> scales,
                                              ArrayRef<int64_t> axes) {
  if (scales.size() != axes.size()) {
    b.refuse("has " + Twine(scales.size()) + " scales, expected " +
             Twine(axes.size()));
    return std::nullopt;
  }
  SmallVector<Line> lines;
  for (const Extent &extent : x.shape())
    lines.push_back(Line{extent.forOneSample(), extent.forOneSample(), 1});
  for (auto [axis, scale] : llvm::zip(axes, scales)) {
    double count = std::floor(static_cast<float>(scale) *
                              static_cast<float>(lines[axis].size));
    if (!(scale > 0) || !(count <= static_cast<double>(kMost))) {
      b.refuse("a scale is " + Twine(std::to_string(scale)) +
               ", accepted is above 0, for at most " + Twine(kMost) +
               " elements");
      return std::nullopt;
    }
    lines[axis].scale = static_cast<float>(scale);
    lines[axis].count = static_cast<int64_t>(count);
  }
  return lines;
}

/// Lines of `x` to given sizes, where `policy` may ask for one scale for all.
std::optional<SmallVector<Line>> linesBySize(Binder &b, const Tensor &x,
                                             ArrayRef<Element> sizes,
                                             ArrayRef<int64_t> axes,
                                             StringRef policy) {
  if (sizes.size() != axes.size()) {
    b.refuse("has " + Twine(sizes.size()) + " sizes, expected " +
             Twine(axes.size()));
    return std::nullopt;
  }
  SmallVector<Line> lines;
  for (const Extent &extent : x.shape())
    lines.push_back(Line{extent.forOneSample(), extent.forOneSample(), 1});
  std::optional<float> common;
  for (auto [axis, size] : llvm::zip(axes, sizes)) {
    const Extent &extent = x.shape()[axis];
    Line &line = lines[axis];
    if (extent.isBatch()) {
      bool isWhole = size == Element{0, 0, extent.factor, 0} ||
                     (b.build().fixedBatch &&
                      size == Element{extent.factor * b.build().fixedBatch});
      if (!isWhole || policy != "stretch") {
        b.refuse("resizes the batch axis " + Twine(axis) + " of " +
                 toString(x.shape()) + ": this combines samples");
        return std::nullopt;
      }
      continue;
    }
    if (!size.isConstant() || size.integer < 1 || size.integer > kMost) {
      b.refuse("a size is not a constant from 1 to " + Twine(kMost));
      return std::nullopt;
    }
    line.count = size.integer;
    line.scale = static_cast<float>(line.count) / static_cast<float>(line.size);
    if (!common)
      common = line.scale;
    common = policy == "not_larger" ? std::min(*common, line.scale)
                                    : std::max(*common, line.scale);
  }
  if (policy == "stretch" || !common)
    return lines;
  for (int64_t axis : axes) {
    lines[axis].scale = *common;
    lines[axis].count = static_cast<int64_t>(
        std::floor(*common * static_cast<float>(lines[axis].size) + 0.5f));
  }
  return lines;
}

void convertResize(Binder &b) {
  Tensor x = b.input(0);
  Interpolation how;
  how.mode = b.string("mode", "nearest");
  std::string policy = "stretch";
  SmallVector<int64_t> axes;
  bool isOld = b.version() == 10;
  if (isOld) {
    how.coordinates = "asymmetric";
    how.nearest = "simple";
  } else {
    how.coordinates = b.string("coordinate_transformation_mode", "half_pixel");
    how.nearest = b.string("nearest_mode", "round_prefer_floor");
    how.cubic = b.real("cubic_coeff_a", -0.75);
    how.extrapolation = b.real("extrapolation_value", 0);
    how.excludesOutside = b.integer("exclude_outside", 0);
  }
  if (b.version() >= 18) {
    how.antialiases = b.integer("antialias", 0);
    policy = b.string("keep_aspect_ratio_policy", "stretch");
  }
  std::optional<SmallVector<int64_t>> given =
      b.version() >= 18 ? b.integerList("axes") : std::nullopt;
  if (!x)
    return;
  for (int64_t axis = 0; axis < x.rank() && !given; ++axis)
    axes.push_back(axis);
  for (int64_t axis : given.value_or(SmallVector<int64_t>()))
    axes.push_back(b.axis(axis, x.rank()));
  if (!isOneOf(b, "mode", how.mode, {"nearest", "linear", "cubic"}) ||
      !isOneOf(b, "keep_aspect_ratio_policy", policy,
               {"stretch", "not_larger", "not_smaller"}) ||
      !isOneOf(b, "coordinate_transformation_mode", how.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                "tf_crop_and_resize"}) ||
      (!isOld &&
       !isOneOf(b, "nearest_mode", how.nearest,
                {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})))
    return;

  // Inputs are X, scales; from opset 11 on X, roi, scales, sizes.
  unsigned scalesIndex = isOld ? 1 : 2;
  auto isGiven = [&](unsigned index) {
    return b.hasInput(index) &&
           (!b.input(index) || getElementCount(b.input(index).shape()) > 0);
  };
  std::optional<SmallVector<Line>> lines;
  if (isGiven(scalesIndex)) {
    std::optional<SmallVector<double>> scales =
        readReals(b, scalesIndex, "scales");
    if (!scales)
      return;
    lines = linesByScale(b, x, *scales, axes);
  } else if (!isOld && isGiven(3)) {
    std::optional<std::vector<Element>> sizes = b.elements(3);
    if (!sizes)
      return;
    lines = linesBySize(b, x, *sizes, axes, policy);
  } else {
    b.refuse("has neither scales nor sizes");
  }
  if (!lines)
    return;
  if (!isOld && how.coordinates == "tf_crop_and_resize") {
    std::optional<SmallVector<double>> region = readReals(b, 1, "roi");
    if (!region)
      return;
    if (region->size() != 2 * axes.size()) {
      b.refuse("roi has " + Twine(region->size()) + " entries, expected " +
               Twine(2 * axes.size()));
      return;
    }
    for (auto [i, axis] : llvm::enumerate(axes)) {
      (*lines)[axis].start = static_cast<float>((*region)[i]);
      (*lines)[axis].end = static_cast<float>((*region)[i + axes.size()]);
    }
  } else if (!isOld && b.hasInput(1)) {
    b.input(1); // a region of interest has a meaning for crops alone
  }
  resize(b, x, *lines, how);
}

void convertUpsample(Binder &b) {
  Tensor x = b.input(0);
  Interpolation how;
  how.mode = b.string("mode", "nearest");
  how.coordinates = "asymmetric";
  how.nearest = "simple";
  std::optional<SmallVector<double>> scales;
  if (b.version() == 7) {
    scales.emplace();
    if (auto list = dyn_cast_or_null<DenseF32ArrayAttr>(b.attribute("scales")))
      scales->assign(list.asArrayRef().begin(), list.asArrayRef().end());
  } else {
    scales = readReals(b, 1, "scales");
  }
  if (!x || !scales || !isOneOf(b, "mode", how.mode, {"nearest", "linear"}))
    return;
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    axes.push_back(axis);
  if (std::optional<SmallVector<Line>> lines =
          linesByScale(b, x, *scales, axes))
    resize(b, x, *lines, how);
}

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

void harmony::normalize::addResizeConverters(ConverterTable &table) {
  table.onOp("Resize", {10, 11, 13, 18, 19}, convertResize);
  table.onOp("Upsample", {7, 9, 10}, convertUpsample);
  table.onOp("Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25}, convertPad);
  table.onOp("DepthToSpace", {1, 11, 13, 28}, convertDepthToSpace);
  table.onOp("SpaceToDepth", {1, 13, 28}, convertSpaceToDepth);
}
