//===- ConvertShape.cpp - Constants, shapes, and moving elements ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/GraphConverter.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// An extent as an element of a shape tensor.
Element toElement(const Extent &extent) {
  return Element{extent.size, 0, extent.factor, 0};
}

/// The extent that an element of a shape tensor stands for.
std::optional<Extent> toExtent(Binder &b, const Element &element) {
  bool isBatch = element.batch > 0 && element.integer == 0;
  if (element.sample || (element.batch && !isBatch) ||
      (!isBatch && element.integer < 0)) {
    b.refuse("an extent is " + Twine(element.integer) + " + " +
             Twine(element.batch) +
             " N (N samples): accepted are constants and multiples of N");
    return std::nullopt;
  }
  return isBatch ? Extent{0, element.batch} : Extent{element.integer, 0};
}

std::optional<Shape> toShape(Binder &b, ArrayRef<Element> elements) {
  Shape shape;
  for (const Element &element : elements) {
    std::optional<Extent> extent = toExtent(b, element);
    if (!extent)
      return std::nullopt;
    shape.push_back(*extent);
  }
  return shape;
}

void convertConstant(Binder &b) {
  TensorBuilder &t = b.build();
  OpBuilder &builder = t.getBuilder();
  auto real = [&](float value) {
    Element element;
    element.real = value;
    return element;
  };
  std::vector<Element> elements;
  if (auto value = dyn_cast_or_null<ElementsAttr>(b.attribute("value"))) {
    b.output(0, knownFromAttribute(t, value));
  } else if (Attribute value = b.attribute("value_int")) {
    b.output(
        0,
        t.known(builder.getI64Type(), {},
                {Element{cast<IntegerAttr>(value).getValue().getSExtValue()}}));
  } else if (Attribute value = b.attribute("value_float")) {
    b.output(0, t.scalar(builder.getF32Type(),
                         cast<FloatAttr>(value).getValueAsDouble()));
  } else if (std::optional<SmallVector<int64_t>> list =
                 b.integerList("value_ints")) {
    for (int64_t value : *list)
      elements.push_back(Element{value});
    b.output(0, t.vectorOf(elements));
  } else if (Attribute value = b.attribute("value_floats")) {
    if (auto list = dyn_cast<DenseF32ArrayAttr>(value))
      for (float entry : list.asArrayRef())
        elements.push_back(real(entry));
    Extent extent{static_cast<int64_t>(elements.size()), 0};
    b.output(0, t.known(builder.getF32Type(), {extent}, std::move(elements)));
  } else {
    b.refuse("accepted values are tensors, integers and floats");
  }
}

void convertShape(Binder &b) {
  Tensor x = b.input(0);
  int64_t start = b.integer("start", 0),
          end = b.integer("end", std::numeric_limits<int64_t>::max());
  if (!x)
    return;
  auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + x.rank() : position, 0,
                               x.rank());
  };
  start = clamp(start);
  end = std::max(clamp(end), start);
  SmallVector<Element> extents;
  for (const Extent &extent : x.shape().slice(start, end - start))
    extents.push_back(toElement(extent));
  b.output(0, b.build().vectorOf(extents));
}

void convertSize(Binder &b) {
  Tensor x = b.input(0);
  if (!x)
    return;
  int64_t count = getElementCount(x.shape());
  Element size = x.batchAxis() >= 0 ? Element{0, 0, count, 0} : Element{count};
  b.output(0, b.build().known(b.build().getBuilder().getI64Type(), {}, {size}));
}

/// Reshape's rules: 0 copies (unless allowZero), one -1 is inferred.
std::optional<Shape> resolveReshape(Binder &b, ArrayRef<Extent> from,
                                    ArrayRef<Element> target, bool allowZero) {
  Shape shape;
  int64_t inferred = -1;
  for (auto [axis, element] : llvm::enumerate(target)) {
    if (element == Element{-1}) {
      if (inferred >= 0) {
        b.refuse("two extents are -1");
        return std::nullopt;
      }
      inferred = axis;
      shape.push_back(Extent{1, 0});
    } else if (element == Element{0} && !allowZero) {
      if (axis >= from.size()) {
        b.refuse("extent 0 copies axis " + Twine(axis) + ", which " +
                 toString(from) + " does not have");
        return std::nullopt;
      }
      shape.push_back(from[axis]);
    } else {
      std::optional<Extent> extent = toExtent(b, element);
      if (!extent)
        return std::nullopt;
      shape.push_back(*extent);
    }
  }
  if (inferred < 0)
    return shape;
  int64_t total = getElementCount(from), rest = getElementCount(shape);
  bool hasBatch = getBatchAxis(from) >= 0,
       restHasBatch = getBatchAxis(shape) >= 0;
  // With a fixed batch a constant may hold the batch size; what is left is then
  // a constant too.
  int64_t fixedBatch = b.build().fixedBatch;
  if (fixedBatch && hasBatch && !restHasBatch && rest != 0 &&
      total % rest != 0 && (total * fixedBatch) % rest == 0) {
    shape[inferred] = Extent{total * fixedBatch / rest, 0};
    return shape;
  }
  if (rest == 0 || total % rest != 0 || (restHasBatch && !hasBatch)) {
    b.refuse("cannot infer -1 in reshaping " + toString(from));
    return std::nullopt;
  }
  shape[inferred] = hasBatch && !restHasBatch ? Extent{0, total / rest}
                                              : Extent{total / rest, 0};
  return shape;
}

void convertReshape(Binder &b) {
  Tensor x = b.input(0);
  bool allowZero = b.version() >= 14 && b.integer("allowzero", 0);
  std::optional<std::vector<Element>> target = b.elements(1);
  if (!x || !target)
    return;
  if (std::optional<Shape> shape =
          resolveReshape(b, x.shape(), *target, allowZero))
    b.output(0, b.build().reshape(x, *shape));
}

void convertFlatten(Binder &b) {
  Tensor x = b.input(0);
  if (!x)
    return;
  int64_t axis = b.integer("axis", 1);
  axis = axis == x.rank() ? axis : b.axis(axis, x.rank());
  auto merge = [](ArrayRef<Extent> shape) {
    int64_t count = getElementCount(shape);
    return getBatchAxis(shape) >= 0 ? Extent{0, count} : Extent{count, 0};
  };
  b.output(0, b.build().reshape(x, {merge(x.shape().take_front(axis)),
                                    merge(x.shape().drop_front(axis))}));
}

/// Axes from an attribute (older versions) or from an input.
std::optional<SmallVector<int64_t>> readAxes(Binder &b, bool asAttribute) {
  if (asAttribute)
    return b.integerList("axes");
  if (!b.hasInput(1))
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = b.integers(1);
  return axes ? axes : SmallVector<int64_t>();
}

void convertSqueeze(Binder &b) {
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> axes = readAxes(b, b.version() < 13);
  if (!x)
    return;
  if (!axes) {
    axes.emplace();
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      if (x.shape()[axis].isOne())
        axes->push_back(axis);
  }
  b.output(0, b.build().squeeze(x, b.axes(*axes, x.rank())));
}

void convertUnsqueeze(Binder &b) {
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> axes = readAxes(b, b.version() < 13);
  if (!x)
    return;
  if (!axes) {
    b.refuse("axes are missing");
    return;
  }
  b.output(0, b.build().unsqueeze(x, b.axes(*axes, x.rank() + axes->size())));
}

void convertTranspose(Binder &b) {
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> permutation = b.integerList("perm");
  if (!x)
    return;
  if (!permutation) {
    permutation.emplace();
    for (int64_t axis = x.rank() - 1; axis >= 0; --axis)
      permutation->push_back(axis);
  }
  b.output(0, b.build().transpose(x, *permutation));
}

void convertConcat(Binder &b) {
  SmallVector<Tensor> parts;
  for (unsigned i = 0; i < b.inputCount(); ++i)
    parts.push_back(b.input(i));
  int64_t axis = b.integer("axis", 0);
  if (parts.front())
    b.output(0, b.build().concat(parts, b.axis(axis, parts.front().rank())));
}

/// The parts [0, sizes[0]), [sizes[0], ...) of an axis.
std::vector<Tensor> split(Binder &b, const Tensor &x, int64_t axis,
                          ArrayRef<int64_t> sizes) {
  std::vector<Tensor> parts;
  int64_t start = 0;
  if (x.shape()[axis].isBatch()) {
    b.refuse("splits the batch axis " + Twine(axis) + " of " +
             toString(x.shape()) + ": this combines samples");
    return {};
  }
  for (int64_t size : sizes) {
    if (size < 0 || start + size > x.shape()[axis].size) {
      b.refuse("sizes do not fit axis " + Twine(axis) + " of " +
               toString(x.shape()));
      return {};
    }
    parts.push_back(b.build().sliceAxis(x, axis, start, size));
    start += size;
  }
  if (start != x.shape()[axis].size)
    b.refuse("sizes do not add up to axis " + Twine(axis) + " of " +
             toString(x.shape()));
  return parts;
}

/// Equal parts of `chunk` elements, the last one smaller.
SmallVector<int64_t> chunks(int64_t extent, int64_t chunk) {
  SmallVector<int64_t> sizes;
  for (int64_t start = 0; chunk > 0 && start < extent; start += chunk)
    sizes.push_back(std::min(chunk, extent - start));
  return sizes;
}

void convertSplit(Binder &b) {
  Tensor x = b.input(0);
  int64_t axis = b.integer("axis", 0);
  std::optional<SmallVector<int64_t>> sizes = b.version() < 13
                                                  ? b.integerList("split")
                                              : b.hasInput(1) ? b.integers(1)
                                                              : std::nullopt;
  int64_t count = b.version() >= 18 ? b.integer("num_outputs", b.outputCount())
                                    : b.outputCount();
  if (!x)
    return;
  axis = b.axis(axis, x.rank());
  if (!sizes) {
    int64_t extent = x.shape()[axis].size;
    sizes = chunks(extent, (extent + count - 1) / count);
  }
  if (sizes->size() != b.outputCount()) {
    b.refuse("has " + Twine(b.outputCount()) + " outputs for " +
             Twine(sizes->size()) + " parts");
    return;
  }
  for (auto [index, part] : llvm::enumerate(split(b, x, axis, *sizes)))
    b.output(index, part);
}

void convertSplitToSequence(Binder &b) {
  Tensor x = b.input(0);
  int64_t axis = b.integer("axis", 0);
  b.ignore("keepdims"); // only without sizes, where it is read below
  if (!x)
    return;
  axis = b.axis(axis, x.rank());
  SmallVector<int64_t> sizes;
  bool dropAxis = false;
  if (b.hasInput(1)) {
    Tensor given = b.input(1);
    std::optional<SmallVector<int64_t>> values = b.integers(1);
    if (!values)
      return;
    sizes = given.rank() == 0 ? chunks(x.shape()[axis].size, values->front())
                              : *values;
  } else {
    sizes = chunks(x.shape()[axis].size, 1);
    dropAxis = b.integer("keepdims", 1) == 0;
  }
  std::vector<Tensor> parts = split(b, x, axis, sizes);
  if (dropAxis)
    for (Tensor &part : parts)
      part = b.build().squeeze(part, {axis});
  b.outputSequence(0, std::move(parts));
}

void convertSequenceAt(Binder &b) {
  ArrayRef<Tensor> parts = b.sequence(0);
  std::optional<SmallVector<int64_t>> position = b.integers(1);
  if (!position || position->size() != 1 || parts.empty())
    return;
  b.output(0, parts[b.axis(position->front(), parts.size())]);
}

void convertSequenceConstruct(Binder &b) {
  std::vector<Tensor> parts;
  for (unsigned i = 0; i < b.inputCount(); ++i)
    parts.push_back(b.input(i));
  b.outputSequence(0, std::move(parts));
}

void convertConcatFromSequence(Binder &b) {
  SmallVector<Tensor> parts(b.sequence(0));
  int64_t axis = b.integer("axis", 0);
  bool isNew = b.integer("new_axis", 0);
  if (parts.empty() || !parts.front())
    return;
  axis = b.axis(axis, parts.front().rank() + isNew);
  if (isNew)
    for (Tensor &part : parts)
      part = b.build().unsqueeze(part, {axis});
  b.output(0, b.build().concat(parts, axis));
}

/// Where the bound of a slice falls: an index that may count from the end,
/// clamped to [low, extent + high]. Nothing where it depends on N.
std::optional<int64_t> clampBound(const Element &bound, const Extent &extent,
                                  int64_t low, int64_t high) {
  if (!bound.isConstant())
    return std::nullopt;
  int64_t position =
      bound.integer < 0 ? bound.integer + extent.size : bound.integer;
  return std::clamp(position, low, std::max(low, extent.size + high));
}

/// Whether [start, end) by `step` is the whole of a batch axis.
bool isWhole(const Element &start, const Element &end, int64_t step,
             const Extent &extent) {
  bool startsAtZero = start == Element{0} ||
                      start == Element{0, 0, -extent.factor, 0} ||
                      (start.isConstant() &&
                       start.integer == std::numeric_limits<int64_t>::min());
  bool endsBehind =
      end == Element{0, 0, extent.factor, 0} ||
      (end.isConstant() && end.integer >= std::numeric_limits<int32_t>::max());
  return step == 1 && startsAtZero && endsBehind;
}

void convertSlice(Binder &b) {
  Tensor x = b.input(0);
  if (!x)
    return;
  std::vector<Element> starts, ends;
  std::optional<SmallVector<int64_t>> axes, steps;
  if (b.version() < 10) {
    for (int64_t start :
         b.integerList("starts").value_or(SmallVector<int64_t>()))
      starts.push_back(Element{start});
    for (int64_t end : b.integerList("ends").value_or(SmallVector<int64_t>()))
      ends.push_back(Element{end});
    axes = b.integerList("axes");
  } else {
    std::optional<std::vector<Element>> startsInput = b.elements(1),
                                        endsInput = b.elements(2);
    if (!startsInput || !endsInput)
      return;
    starts = *startsInput;
    ends = *endsInput;
    if (b.hasInput(3) && !(axes = b.integers(3)))
      return;
    if (b.hasInput(4) && !(steps = b.integers(4)))
      return;
  }
  Shape extents(x.shape());
  SmallVector<int64_t> first(x.rank(), 0), strides(x.rank(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    if (i >= ends.size() || (axes && i >= axes->size()) ||
        (steps && i >= steps->size())) {
      b.refuse("starts, ends, axes and steps differ in length");
      return;
    }
    int64_t axis =
        b.axis(axes ? (*axes)[i] : static_cast<int64_t>(i), x.rank());
    int64_t step = steps ? (*steps)[i] : 1;
    const Extent &extent = x.shape()[axis];
    if (step == 0) {
      b.refuse("step is 0");
      return;
    }
    if (extent.isBatch()) {
      if (!isWhole(starts[i], ends[i], step, extent))
        b.refuse("takes some samples of " + toString(x.shape()) +
                 " along the batch axis " + Twine(axis) +
                 ": this combines samples");
      continue;
    }
    std::optional<int64_t> start =
        clampBound(starts[i], extent, 0, step < 0 ? -1 : 0);
    std::optional<int64_t> end =
        clampBound(ends[i], extent, step < 0 ? -1 : 0, step < 0 ? -1 : 0);
    if (!start || !end) {
      b.refuse("bounds of axis " + Twine(axis) + " depend on the batch size");
      return;
    }
    int64_t span = step > 0 ? *end - *start : *start - *end,
            width = std::abs(step);
    first[axis] = *start;
    strides[axis] = step;
    extents[axis] = Extent{span > 0 ? (span + width - 1) / width : 0, 0};
  }
  b.output(0, b.build().slice(x, first, extents, strides));
}

void convertExpand(Binder &b) {
  Tensor x = b.input(0);
  std::optional<std::vector<Element>> target = b.elements(1);
  if (!x || !target)
    return;
  std::optional<Shape> shape = toShape(b, *target);
  if (!shape)
    return;
  if (std::optional<Shape> result = broadcastShapes(x.shape(), *shape))
    b.output(0, b.build().expand(x, *result));
  else
    b.refuse("cannot broadcast " + toString(x.shape()) + " to " +
             toString(*shape));
}

void convertTile(Binder &b) {
  Tensor x = b.input(0);
  std::optional<std::vector<Element>> repeats = b.elements(1);
  if (!x || !repeats)
    return;
  if (static_cast<int64_t>(repeats->size()) != x.rank()) {
    b.refuse("has " + Twine(repeats->size()) + " repeats for " +
             toString(x.shape()));
    return;
  }
  // [a, b] by [r, s]: [1, a, 1, b] expanded to [r, a, s, b], then merged.
  Shape split, repeated, merged;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const Extent &extent = x.shape()[axis];
    std::optional<Extent> repeat = toExtent(b, (*repeats)[axis]);
    if (!repeat)
      return;
    if (extent.isBatch() && !repeat->isOne()) {
      b.refuse("repeats the batch axis " + Twine(axis) + " of " +
               toString(x.shape()));
      return;
    }
    split.append({Extent{1, 0}, extent});
    repeated.append({*repeat, extent});
    merged.push_back(extent.isBatch() ? extent
                     : repeat->isBatch()
                         ? Extent{0, repeat->factor * extent.size}
                         : Extent{repeat->size * extent.size, 0});
  }
  TensorBuilder &t = b.build();
  b.output(0, t.reshape(t.expand(t.reshape(x, split), repeated), merged));
}

void convertConstantOfShape(Binder &b) {
  std::optional<std::vector<Element>> target = b.elements(0);
  TensorBuilder &t = b.build();
  Tensor value = t.scalar(t.getBuilder().getF32Type(), 0);
  if (auto given = dyn_cast_or_null<ElementsAttr>(b.attribute("value")))
    value = t.reshape(knownFromAttribute(t, given), {});
  if (!target)
    return;
  if (std::optional<Shape> shape = toShape(b, *target))
    b.output(0, t.expand(value, *shape));
}

} // namespace

void harmony::normalize::addShapeConverters(ConverterTable &table) {
  table.onOp("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
             convertConstant);
  table.onOp("ConstantOfShape", {9, 20, 21, 23, 24, 25},
             convertConstantOfShape);
  table.onOp("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, convertShape);
  table.onOp("Size", {1, 13, 19, 21, 23, 24, 25}, convertSize);
  table.onOp("Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, convertReshape);
  table.onOp("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, convertFlatten);
  table.onOp("Squeeze", {1, 11, 13, 21, 23, 24, 25}, convertSqueeze);
  table.onOp("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, convertUnsqueeze);
  table.onOp("Transpose", {1, 13, 21, 23, 24, 25}, convertTranspose);
  table.onOp("Concat", {4, 11, 13}, convertConcat);
  table.onOp("Split", {2, 11, 13, 18}, convertSplit);
  table.onOp("SplitToSequence", {11, 24}, convertSplitToSequence);
  table.onOp("SequenceAt", {11}, convertSequenceAt);
  table.onOp("SequenceConstruct", {11}, convertSequenceConstruct);
  table.onOp("ConcatFromSequence", {11}, convertConcatFromSequence);
  table.onOp("Slice", {1, 10, 11, 13}, convertSlice);
  table.onOp("Expand", {8, 13}, convertExpand);
  table.onOp("Tile", {6, 13}, convertTile);
}
