//===- Structure.cpp - Reshaping, slicing, joining, gathering ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

#include "dialects/NN/Autodiff.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Tensor TensorBuilder::expand(const Tensor &x, ArrayRef<Extent> shape) {
  if (!x)
    return x;
  if (x.shape() == shape)
    return x;
  if (x.isBatchSum())
    return refuseBatchSum(x, "is repeated");
  std::optional<Shape> result = broadcastShapes(x.shape(), shape);
  if (!result)
    return fail("cannot broadcast " + toString(x.shape()) + " to " +
                toString(shape));
  if (x.shape() == ArrayRef(*result))
    return x;
  if (llvm::count_if(*result,
                     [](const Extent &extent) { return extent.isBatch(); }) > 1)
    return fail("shape " + toString(*result) +
                " has the batch along two axes: this combines samples");
  auto data = std::make_shared<TensorData>();
  data->elementType = x.type();
  data->shape = *result;
  data->base = x->base ? x->base : x;
  return Tensor(data);
}

namespace {
/// Elements of a shape before and after the batch axis; `after` counts those of
/// one sample.
struct SampleLayout {
  int64_t before = 1, after = 1;
  bool hasBatch = false;

  explicit SampleLayout(ArrayRef<Extent> shape) {
    for (const Extent &extent : shape) {
      if (extent.isBatch()) {
        before = after;
        after = extent.factor;
        hasBatch = true;
      } else {
        after *= extent.size;
      }
    }
  }
  bool operator==(const SampleLayout &other) const {
    return before == other.before && after == other.after &&
           hasBatch == other.hasBatch;
  }
};
} // namespace

/// With a fixed batch, exporters write its size as a constant: finds the axis
/// that must be it.
Shape TensorBuilder::reshapeTarget(const Tensor &x, ArrayRef<Extent> shape) {
  Shape result(shape);
  SampleLayout layout(x.shape());
  if (!fixedBatch || !layout.hasBatch || getBatchAxis(shape) >= 0)
    return result;
  int64_t before = 1;
  for (Extent &extent : result) {
    if (before == layout.before && extent.size % fixedBatch == 0 &&
        extent.size != 0) {
      extent = Extent{0, extent.size / fixedBatch};
      break;
    }
    before *= extent.size;
  }
  return result;
}

Tensor TensorBuilder::mergeRows(const Tensor &rows, ArrayRef<Extent> shape,
                                const Twine &reason) {
  auto data = std::make_shared<TensorData>();
  data->elementType = rows.type();
  data->shape.assign(shape.begin(), shape.end());
  data->unusable = reason.str();
  data->rows = rows;
  return Tensor(data);
}

Tensor TensorBuilder::reshape(const Tensor &x, ArrayRef<Extent> requested) {
  if (!x)
    return x;
  Shape shape = reshapeTarget(x, requested);
  if (x.shape() == ArrayRef(shape))
    return x;
  if (x->rows && SampleLayout(x->rows.shape()) == SampleLayout(shape))
    return reshape(x->rows, shape);
  if (x.isBatchSum())
    return mapSum(
        x, [&](const Tensor &numerator) { return reshape(numerator, shape); });
  if (SampleLayout layout(x.shape()); !(layout == SampleLayout(shape))) {
    std::string reason =
        "reshaping " + toString(x.shape()) + " to " + toString(shape) +
        " does not keep the elements of each sample (N) together";
    if (layout.hasBatch && layout.before > 1 && !x.isKnown() &&
        shape.size() == 2 && shape[0] == Extent{0, layout.before} &&
        shape[1] == Extent{layout.after, 0}) {
      Shape split(x.shape().take_front(x.batchAxis()));
      split.append({Extent{0, 1}, shape[1]});
      return mergeRows(reshape(x, split), shape, reason);
    }
    if (layout.hasBatch)
      return fail(reason);
    return fail("cannot reshape " + toString(x.shape()) + " to " +
                toString(shape));
  }
  if (x.isKnown())
    return known(x.type(), shape, x.elements());
  Value value = materialize(x);
  if (!value)
    return Tensor();
  if (auto producer = value.getDefiningOp<nn::ReshapeOp>())
    value = producer.getOperand();
  RankedTensorType type = getType(shape, x.type());
  return withValue(x.type(), shape,
                   value.getType() == type ? value
                                           : emit<nn::ReshapeOp>(type, value));
}

Tensor TensorBuilder::unsqueeze(const Tensor &x, ArrayRef<int64_t> sortedAxes) {
  if (!x)
    return x;
  Shape shape(x.shape());
  for (int64_t axis : sortedAxes) {
    if (axis < 0 || axis > static_cast<int64_t>(shape.size()))
      return fail("axis " + Twine(axis) + " is outside of rank " +
                  Twine(shape.size() + 1));
    shape.insert(shape.begin() + axis, Extent{1, 0});
  }
  return reshape(x, shape);
}

Tensor TensorBuilder::squeeze(const Tensor &x, ArrayRef<int64_t> axes) {
  if (!x)
    return x;
  Shape shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!llvm::is_contained(axes, axis))
      shape.push_back(x.shape()[axis]);
    else if (!x.shape()[axis].isOne())
      return fail("axis " + Twine(axis) + " of " + toString(x.shape()) +
                  " is not 1");
  }
  return reshape(x, shape);
}

/// Row-major walk over the index space `extents`: calls `visit` with the
/// position in a source that has the given offset and strides.
static void walk(ArrayRef<int64_t> extents, int64_t offset,
                 ArrayRef<int64_t> strides,
                 llvm::function_ref<void(int64_t)> visit) {
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  SmallVector<int64_t> counter(extents.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(offset);
    for (int64_t axis = extents.size() - 1; axis >= 0; --axis) {
      offset += strides[axis];
      if (++counter[axis] < extents[axis])
        break;
      offset -= strides[axis] * counter[axis];
      counter[axis] = 0;
    }
  }
}

static SmallVector<int64_t> extentsForOneSample(ArrayRef<Extent> shape) {
  SmallVector<int64_t> extents;
  for (const Extent &extent : shape)
    extents.push_back(extent.forOneSample());
  return extents;
}

static SmallVector<int64_t> rowMajorStrides(ArrayRef<Extent> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis].forOneSample();
  }
  return strides;
}

Tensor TensorBuilder::transpose(const Tensor &x,
                                ArrayRef<int64_t> permutation) {
  if (!x)
    return x;
  if (static_cast<int64_t>(permutation.size()) != x.rank())
    return fail("permutation has " + Twine(permutation.size()) +
                " entries, expected " + Twine(x.rank()));
  if (x.isBatchSum())
    return mapSum(x, [&](const Tensor &numerator) {
      return transpose(numerator, permutation);
    });
  Shape shape;
  for (int64_t axis : permutation) {
    if (axis < 0 || axis >= x.rank() || llvm::count(permutation, axis) != 1)
      return fail("not a permutation of the axes of " + toString(x.shape()));
    shape.push_back(x.shape()[axis]);
  }
  if (llvm::is_sorted(permutation))
    return x;
  // Moving unit axes alone moves no element.
  int64_t last = -1;
  bool moves = false;
  for (int64_t axis : permutation) {
    if (x.shape()[axis].isOne())
      continue;
    moves |= axis < last;
    last = axis;
  }
  if (!moves)
    return reshape(x, shape);
  if (x.isKnown()) {
    SmallVector<int64_t> source = rowMajorStrides(x.shape()), strides;
    for (int64_t axis : permutation)
      strides.push_back(source[axis]);
    std::vector<Element> elements;
    walk(extentsForOneSample(shape), 0, strides,
         [&](int64_t i) { elements.push_back(x.elements()[i]); });
    return known(x.type(), shape, std::move(elements));
  }
  Value value = materialize(x);
  if (!value)
    return Tensor();
  SmallVector<int64_t> combined(permutation);
  if (auto producer = value.getDefiningOp<nn::TransposeOp>()) {
    for (int64_t &axis : combined)
      axis = producer.getPermutation()[axis];
    value = producer.getOperand();
  } else if (auto producer = value.getDefiningOp<nn::ReshapeOp>();
             producer && permutation[0] == 0) {
    // Leading axes that a reshape has merged stay apart, so that the reshape
    // moves to the end, where it meets the one that splits them again.
    Tensor source = fromValue(producer.getOperand(), x.type());
    int64_t merged = source.rank() - x.rank() + 1;
    if (merged > 1 &&
        source.shape().drop_front(merged) == x.shape().drop_front(1)) {
      combined.clear();
      for (int64_t axis = 0; axis < merged; ++axis)
        combined.push_back(axis);
      for (int64_t axis : permutation.drop_front())
        combined.push_back(axis + merged - 1);
      return reshape(transpose(source, combined), shape);
    }
  }
  RankedTensorType type = getType(shape, x.type());
  if (llvm::is_sorted(combined))
    return withValue(x.type(), shape, value);
  return withValue(x.type(), shape,
                   emit<nn::TransposeOp>(type, value, combined));
}

Tensor TensorBuilder::slice(const Tensor &x, ArrayRef<int64_t> starts,
                            ArrayRef<Extent> extents,
                            ArrayRef<int64_t> strides) {
  if (!x)
    return x;
  if (x.isBatchSum())
    return mapSum(x, [&](const Tensor &numerator) {
      return slice(numerator, starts, extents, strides);
    });
  bool whole = x.shape() == extents;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    whole &= strides[axis] == 1 && starts[axis] == 0;
    if (x.shape()[axis].isBatch() && (x.shape()[axis] != extents[axis] ||
                                      starts[axis] != 0 || strides[axis] != 1))
      return fail("takes some samples of " + toString(x.shape()) +
                  " along the batch axis " + Twine(axis) +
                  ": this combines samples");
  }
  if (whole)
    return x;
  if (x.isKnown()) {
    SmallVector<int64_t> steps = rowMajorStrides(x.shape());
    int64_t offset = 0;
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      offset += starts[axis] * steps[axis];
      steps[axis] *= strides[axis];
    }
    std::vector<Element> elements;
    walk(extentsForOneSample(extents), offset, steps,
         [&](int64_t i) { elements.push_back(x.elements()[i]); });
    return known(x.type(), extents, std::move(elements));
  }
  Value value = materialize(x);
  if (!value)
    return Tensor();
  return withValue(
      x.type(), extents,
      emit<nn::SliceOp>(getType(extents, x.type()), value, starts, strides));
}

Tensor TensorBuilder::sliceAxis(const Tensor &x, int64_t axis, int64_t start,
                                int64_t size) {
  if (!x)
    return x;
  SmallVector<int64_t> starts(x.rank(), 0), strides(x.rank(), 1);
  Shape extents(x.shape());
  starts[axis] = start;
  if (!extents[axis].isBatch() || start != 0)
    extents[axis] = Extent{size, 0};
  return slice(x, starts, extents, strides);
}

Tensor TensorBuilder::concat(ArrayRef<Tensor> parts, int64_t axis) {
  if (parts.empty() ||
      !llvm::all_of(parts, [](const Tensor &part) { return bool(part); }))
    return parts.empty() ? fail("has no operands") : Tensor();
  if (parts.size() == 1)
    return parts.front();
  Shape shape(parts.front().shape());
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
    return fail("axis " + Twine(axis) + " is outside of rank " +
                Twine(shape.size()));
  shape[axis] = Extent{0, 0};
  bool isKnown = true;
  for (const Tensor &part : parts) {
    if (part.isBatchSum())
      return refuseBatchSum(part, "is concatenated");
    Shape other(part.shape());
    if (other.size() == shape.size() && other[axis].isBatch())
      return fail("joins " + toString(part.shape()) +
                  " along the batch axis: this combines samples");
    if (other.size() != shape.size() || part.type() != parts.front().type())
      return fail("operands have shapes " + toString(parts.front().shape()) +
                  " and " + toString(part.shape()));
    int64_t size = other[axis].size;
    other[axis] = shape[axis];
    if (other != shape)
      return fail("operands have shapes " + toString(parts.front().shape()) +
                  " and " + toString(part.shape()));
    shape[axis].size += size;
    isKnown &= part.isKnown();
  }
  if (isKnown) {
    std::vector<Element> elements;
    int64_t outer = getElementCount(ArrayRef(shape).take_front(axis));
    for (int64_t i = 0; i < outer; ++i)
      for (const Tensor &part : parts) {
        int64_t block = getElementCount(part.shape().drop_front(axis));
        elements.insert(elements.end(), part.elements().begin() + i * block,
                        part.elements().begin() + (i + 1) * block);
      }
    return known(parts.front().type(), shape, std::move(elements));
  }
  if (llvm::all_of(
          parts, [](const Tensor &part) { return bool(part->channelsLast); })) {
    SmallVector<Tensor> images;
    for (const Tensor &part : parts)
      images.push_back(part->channelsLast);
    int64_t last = static_cast<int64_t>(shape.size()) - 1;
    return fromChannelsLast(concat(images, axis == 0   ? 0
                                           : axis == 1 ? last
                                                       : axis - 1));
  }
  SmallVector<Value> values;
  for (const Tensor &part : parts) {
    if (part.shape()[axis].size == 0)
      continue;
    values.push_back(materialize(part));
    if (!values.back())
      return Tensor();
  }
  if (values.size() == 1)
    return withValue(parts.front().type(), shape, values.front());
  return withValue(
      parts.front().type(), shape,
      emit<nn::ConcatOp>(getType(shape, parts.front().type()), values, axis));
}

Tensor TensorBuilder::pad(const Tensor &x, const Tensor &fill,
                          ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  if (!x || !fill)
    return Tensor();
  if (x.isBatchSum())
    return refuseBatchSum(x, "is padded");
  SmallVector<int64_t> starts, added, ones(x.rank(), 1), zeros(x.rank(), 0);
  Shape cut(x.shape()), shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (cut[axis].isBatch() && (low[axis] || high[axis]))
      return fail("pads the batch axis " + Twine(axis) + " of " +
                  toString(x.shape()));
    starts.push_back(std::max<int64_t>(-low[axis], 0));
    added.push_back(std::max<int64_t>(low[axis], 0));
    if (!cut[axis].isBatch())
      cut[axis].size -= starts.back() + std::max<int64_t>(-high[axis], 0);
    if (cut[axis].size < 0)
      return fail("removes more than axis " + Twine(axis) + " of " +
                  toString(x.shape()) + " has");
    shape.push_back(cut[axis]);
    if (!cut[axis].isBatch())
      shape.back().size += added.back() + std::max<int64_t>(high[axis], 0);
  }
  Tensor inner = slice(x, starts, cut, ones);
  if (!inner || cut == shape)
    return inner;
  std::optional<Element> fillElement = fill.splat();
  if (inner.isKnown() && fillElement) {
    std::vector<Element> elements(getElementCount(shape), *fillElement);
    SmallVector<int64_t> strides = rowMajorStrides(shape);
    int64_t offset = 0, next = 0;
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      offset += added[axis] * strides[axis];
    walk(extentsForOneSample(cut), offset, strides,
         [&](int64_t i) { elements[i] = inner.elements()[next++]; });
    return known(x.type(), shape, std::move(elements));
  }
  Value value = materialize(inner), fillValue = materialize(reshape(fill, {}));
  if (!value || !fillValue)
    return Tensor();
  return withValue(x.type(), shape,
                   emit<nn::PadOp>(getType(shape, x.type()), value, fillValue,
                                   added, zeros));
}

Tensor TensorBuilder::iota(Type type, ArrayRef<Extent> shape, int64_t axis) {
  return withValue(type, shape, emit<nn::IotaOp>(getType(shape, type), axis));
}

/// x[k n + j] along a batch axis of extent k N, 0 <= j < k, in row n of the
/// indices: every sample reads what is its own. Nothing where the indices are
/// others.
std::optional<Tensor> TensorBuilder::gatherOwnSample(const Tensor &x,
                                                     const Tensor &indices) {
  int64_t k = x.shape()[0].factor;
  if (!indices.isKnown() || indices.batchAxis() != 0 ||
      !llvm::all_of(indices.elements(), [&](const Element &element) {
        return element.sample == k && element.batch == 0 &&
               element.integer >= 0 && element.integer < k;
      }))
    return std::nullopt;
  std::vector<Element> positions;
  for (const Element &element : indices.elements())
    positions.push_back(Element{element.integer});
  Shape rows{Extent{0, 1}, Extent{k, 0}}, at(indices.shape()),
      result(indices.shape());
  ArrayRef<Extent> inner = x.shape().drop_front();
  rows.append(inner.begin(), inner.end());
  result.append(inner.begin(), inner.end());
  at[0] = Extent{at[0].factor, 0};
  return reshape(gather(reshape(x, rows),
                        known(indices.type(), at, std::move(positions)), 1),
                 result);
}

Tensor TensorBuilder::gather(const Tensor &x, const Tensor &indices,
                             int64_t axis, int64_t batchDims) {
  if (!x || !indices)
    return Tensor();
  if (x.isBatchSum())
    return refuseBatchSum(x, "is gathered from");
  if (axis < batchDims || axis >= x.rank() || batchDims > indices.rank())
    return fail("axis " + Twine(axis) + " is outside of " +
                toString(x.shape()));
  if (x.shape()[axis].isBatch()) {
    if (batchDims == 0 && axis == 0)
      if (std::optional<Tensor> own = gatherOwnSample(x, indices))
        return *own;
    return fail("selects samples along the batch axis " + Twine(axis) + " of " +
                toString(x.shape()) + ": this combines samples");
  }
  int64_t extent = x.shape()[axis].size;
  Shape shape(x.shape().take_front(axis));
  ArrayRef<Extent> own = indices.shape().drop_front(batchDims);
  shape.append(own.begin(), own.end());
  ArrayRef<Extent> inner = x.shape().drop_front(axis + 1);
  shape.append(inner.begin(), inner.end());
  if (llvm::count_if(shape, [](const Extent &e) { return e.isBatch(); }) > 1)
    return fail("indices " + toString(indices.shape()) + " and operand " +
                toString(x.shape()) +
                " both carry the batch: this combines samples");

  bool constantIndices = batchDims == 0 && indices.isKnown() &&
                         llvm::all_of(indices.elements(), [](const Element &e) {
                           return e.isConstant();
                         });
  if (constantIndices) {
    SmallVector<int64_t> positions;
    for (const Element &element : indices.elements()) {
      int64_t position =
          element.integer < 0 ? element.integer + extent : element.integer;
      if (position < 0 || position >= extent)
        return fail("index " + Twine(element.integer) + " is outside of [" +
                    Twine(-extent) + ", " + Twine(extent - 1) + "]");
      positions.push_back(position);
    }
    if (x.isKnown()) {
      std::vector<Element> elements;
      int64_t outer = getElementCount(x.shape().take_front(axis)),
              block = getElementCount(inner);
      for (int64_t i = 0; i < outer; ++i)
        for (int64_t position : positions) {
          auto first = x.elements().begin() + (i * extent + position) * block;
          elements.insert(elements.end(), first, first + block);
        }
      return known(x.type(), shape, std::move(elements));
    }
    // Evenly spaced indices are a slice.
    int64_t step = positions.size() > 1 ? positions[1] - positions[0] : 1;
    bool even = !positions.empty() && step != 0 && indices.batchAxis() < 0;
    for (size_t i = 1; i < positions.size(); ++i)
      even &= positions[i] - positions[i - 1] == step;
    if (even) {
      SmallVector<int64_t> starts(x.rank(), 0), strides(x.rank(), 1);
      Shape extents(x.shape());
      starts[axis] = positions[0];
      strides[axis] = step;
      extents[axis] = Extent{static_cast<int64_t>(positions.size()), 0};
      return reshape(slice(x, starts, extents, strides), shape);
    }
    std::vector<Element> elements;
    for (int64_t position : positions)
      elements.push_back(Element{position});
    Value value = materialize(x),
          at = materialize(
              known(indices.type(), indices.shape(), std::move(elements)));
    if (!value || !at)
      return Tensor();
    return withValue(x.type(), shape,
                     emit<nn::GatherOp>(getType(shape, x.type()), value, at,
                                        axis, batchDims));
  }
  // A graph input is checked by the data loader.
  Tensor at = indices;
  if (!indices.isKnown() && !isFromInput(materialize(indices)))
    at = fromEnd(indices, extent);
  Value value = materialize(x), atValue = materialize(at);
  if (!value || !atValue)
    return Tensor();
  auto gathered = nn::GatherOp::create(builder, location,
                                       getType(shape, x.type()), value, atValue,
                                       axis, batchDims);
  if (x->variable && findPadding && axis == 0)
    if (std::optional<int64_t> row = findPadding(x->variable))
      gathered->setAttr(nn::kPaddingAttr, builder.getI64IntegerAttr(*row));
  return withValue(x.type(), shape, unique(gathered));
}

Tensor TensorBuilder::fromEnd(const Tensor &indices, int64_t extent) {
  return select(compare(Compare::Less, indices, scalarLike(indices, 0)),
                add(indices, scalarLike(indices, extent)), indices);
}

Tensor TensorBuilder::scatterAdd(ArrayRef<Extent> shape, const Tensor &indices,
                                 const Tensor &updates, int64_t axis,
                                 int64_t batchDims) {
  if (!indices || !updates)
    return Tensor();
  Value at = materialize(fromEnd(indices, shape[axis].size)),
        value = materialize(updates);
  if (!at || !value)
    return Tensor();
  RankedTensorType type = getType(shape, updates.type());
  auto read = nn::inferGather(type, mlir::cast<RankedTensorType>(at.getType()),
                              axis, batchDims);
  if (failed(read) || *read != value.getType())
    return fail("updates " + toString(updates.shape()) + " at indices " +
                toString(indices.shape()) + " do not fit into " +
                toString(shape));
  return withValue(updates.type(), shape,
                   emit<nn::ScatterAddOp>(type, at, value, axis, batchDims));
}
