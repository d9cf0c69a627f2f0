//===- ConvertResize.cpp - Resizing images --------------------------------===//
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

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

//===----------------------------------------------------------------------===//
// One axis at a time
//===----------------------------------------------------------------------===//

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

} // namespace

void harmony::normalize::addResizeConverters(ConverterTable &table) {
  table.onOp("Resize", {10, 11, 13, 18, 19}, convertResize);
  table.onOp("Upsample", {7, 9}, convertUpsample);
}
