//===- ConvertIndex.cpp - Gathers, ranges, triangles ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/Positions.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

void convertGather(Binder &b) {
  Tensor x = b.input(0), indices = b.input(1);
  int64_t axis = b.integer("axis", 0);
  if (x && indices)
    b.output(0, b.build().gather(x, indices, b.axis(axis, x.rank())));
}

/// The i-th coordinate of GatherND's indices, without the last axis.
Tensor coordinate(TensorBuilder &t, const Tensor &indices, int64_t i) {
  int64_t last = indices.rank() - 1;
  return t.squeeze(t.sliceAxis(indices, last, i, 1), {last});
}

/// Whether every element of `coordinate` is the index n of its own sample, the
/// batch axis being `axis`.
bool isOwnSample(const Tensor &coordinate, int64_t axis) {
  return coordinate.isKnown() && coordinate.batchAxis() == axis &&
         coordinate.shape()[axis].factor == 1 &&
         llvm::all_of(coordinate.elements(), [](const Element &e) {
           return e == Element{0, 0, 0, 1};
         });
}

/// All elements known: reads them, sample by sample.
Tensor gatherKnown(Binder &b, const Tensor &x, const Tensor &indices,
                   bool ownSample) {
  int64_t depth = indices.shape().back().size;
  ArrayRef<Extent> inner = x.shape().drop_front(depth);
  int64_t block = getElementCount(inner);
  Shape shape(indices.shape().drop_back());
  shape.append(inner.begin(), inner.end());
  std::vector<Element> elements;
  const std::vector<Element> &positions = indices.elements();
  for (size_t i = 0; i < positions.size(); i += depth) {
    int64_t offset = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      int64_t extent = x.shape()[axis].forOneSample();
      if (axis == 0 && ownSample)
        continue; // elements are stored for the one sample n
      const Element &position = positions[i + axis];
      int64_t index =
          position.integer < 0 ? position.integer + extent : position.integer;
      if (!position.isConstant() || index < 0 || index >= extent)
        return b.refuse("an index is outside of [0, " + Twine(extent) +
                        ") of axis " + Twine(axis) + " of " +
                        toString(x.shape()));
      offset = offset * extent + index;
    }
    elements.insert(elements.end(), x.elements().begin() + offset * block,
                    x.elements().begin() + (offset + 1) * block);
  }
  return b.build().known(x.type(), shape, std::move(elements));
}

void convertGatherND(Binder &b) {
  Tensor x = b.input(0), indices = b.input(1);
  int64_t batchDims = b.version() >= 12 ? b.integer("batch_dims", 0) : 0;
  if (!x || !indices)
    return;
  TensorBuilder &t = b.build();
  if (indices.rank() == 0 || indices.shape().back().isBatch() ||
      x.rank() < batchDims + indices.shape().back().size) {
    b.refuse("indices " + toString(indices.shape()) + " do not fit " +
             toString(x.shape()));
    return;
  }
  int64_t depth = indices.shape().back().size;
  if (depth == 1) {
    b.output(0, t.gather(x, coordinate(t, indices, 0), batchDims, batchDims));
    return;
  }
  if (batchDims != 0 || depth == 0) {
    b.refuse(
        "has " + Twine(depth) + " coordinates behind " + Twine(batchDims) +
        " batch dimensions; accepted is one coordinate, or no batch dimension");
    return;
  }
  Tensor first = coordinate(t, indices, 0);
  if (!first)
    return;
  bool ownSample = x.shape()[0].isBatch() && x.shape()[0].factor == 1 &&
                   isOwnSample(first, first.batchAxis());
  if (x.isKnown() && indices.isKnown() && (ownSample || x.batchAxis() < 0)) {
    b.output(0, gatherKnown(b, x, indices, ownSample));
    return;
  }
  // Coordinates become one, which a gather indexes.
  bool bySample = ownSample && first.batchAxis() == 0;
  if (!bySample && x.batchAxis() >= 0 &&
      (x.batchAxis() < depth || indices.batchAxis() >= 0)) {
    b.refuse("indices " + toString(indices.shape()) + " into " +
             toString(x.shape()) +
             " choose samples: of the batch axis each sample can only be given "
             "its own");
    return;
  }
  ArrayRef<Extent> indexed = x.shape().slice(bySample, depth - bySample);
  Shape rows(x.shape().take_front(bySample));
  rows.push_back(Extent{getElementCount(indexed), 0});
  llvm::append_range(rows, x.shape().drop_front(depth));
  Tensor table = t.reshape(x, rows);
  Tensor linear = depth - bySample == 1
                      ? coordinate(t, indices, bySample)
                      : linearIndex(t, indices, x.shape(), bySample);
  if (!linear)
    return;
  bool sameForAll = bySample && linear.isKnown() &&
                    llvm::all_of(linear.elements(), [](const Element &e) {
                      return e.isConstant();
                    });
  if (sameForAll) {
    Shape rest(linear.shape().drop_front());
    linear = t.known(linear.type(), rest, linear.elements());
  }
  // x[n, i]: every sample reads from its own row, so the batch axis is kept.
  b.output(0, t.gather(table, linear, bySample, bySample && !sameForAll));
}

void convertRange(Binder &b) {
  Tensor start = b.input(0), limit = b.input(1), delta = b.input(2);
  TensorBuilder &t = b.build();
  if (!start || !limit || !delta)
    return;
  if (!start.isKnown() || !limit.isKnown() || !delta.isKnown()) {
    b.refuse("start, limit and delta must be known at compile time");
    return;
  }
  Element from = start.elements().front(), to = limit.elements().front(),
          by = delta.elements().front();
  std::vector<Element> elements;
  if (start.isFloat()) {
    double count = std::ceil((to.real - from.real) / by.real);
    if (from.batch || to.batch || by.batch || !(count < (1 << 24))) {
      b.refuse("a range of floating numbers must be constant");
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      Element element;
      element.real =
          roundTo(start.type(), from.real + static_cast<double>(i) * by.real);
      elements.push_back(element);
    }
  } else if (to.batch > 0 && to.integer == 0 && !to.sample &&
             from == Element{0} && by == Element{1}) {
    // Index i of k * N belongs to sample n = i / k.
    for (int64_t i = 0; i < to.batch; ++i)
      elements.push_back(Element{i, 0, 0, to.batch});
    b.output(0,
             t.known(start.type(), {Extent{0, to.batch}}, std::move(elements)));
    return;
  } else {
    if (!from.isConstant() || !to.isConstant() || !by.isConstant() ||
        by.integer == 0) {
      b.refuse("a range over the batch must start at 0 and step by 1");
      return;
    }
    int64_t span =
        by.integer > 0 ? to.integer - from.integer : from.integer - to.integer;
    int64_t width = std::abs(by.integer),
            count = span > 0 ? (span + width - 1) / width : 0;
    if (count >= (1 << 24)) {
      b.refuse("a range of " + Twine(count) + " elements is too long");
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      elements.push_back(Element{from.integer + i * by.integer});
  }
  Extent extent{static_cast<int64_t>(elements.size()), 0};
  b.output(0, t.known(start.type(), {extent}, std::move(elements)));
}

void convertTrilu(Binder &b) {
  Tensor x = b.input(0);
  bool upper = b.integer("upper", 1);
  int64_t diagonal = 0;
  if (b.hasInput(1)) {
    std::optional<SmallVector<int64_t>> k = b.integers(1);
    if (!k)
      return;
    diagonal = k->front();
  }
  if (!x)
    return;
  if (x.rank() < 2 || x.batchAxis() >= x.rank() - 2) {
    b.refuse("needs two last axes that do not carry the batch, not " +
             toString(x.shape()));
    return;
  }
  TensorBuilder &t = b.build();
  Type index = t.getBuilder().getI64Type();
  Tensor row = knownPositions(t, index, x.shape()[x.rank() - 2].size, 2, 0),
         column = knownPositions(t, index, x.shape().back().size, 2, 1);
  Tensor edge = t.add(row, t.scalarLike(row, diagonal));
  Tensor keep = t.compare(
      upper ? Compare::GreaterOrEqual : Compare::LessOrEqual, column, edge);
  b.output(0, t.select(keep, x, t.scalarLike(x, 0)));
}

/// Cumulative sums along an axis of n elements: for each of n positions the sum
/// of the elements before it. Of floating elements that is a product with a
/// triangle of ones.
Tensor sumBefore(TensorBuilder &t, const Tensor &x, int64_t axis,
                 bool exclusive, bool reverse) {
  Type index = t.getBuilder().getI64Type();
  int64_t extent = x.shape()[axis].size;
  auto triangle = [&](int64_t rank, int64_t positions, int64_t terms) {
    Tensor position = knownPositions(t, index, extent, rank, positions),
           term = knownPositions(t, index, extent, rank, terms);
    return t.compare(exclusive ? Compare::Less : Compare::LessOrEqual,
                     reverse ? position : term, reverse ? term : position);
  };
  if (x.isFloat()) {
    // The product puts the position behind the other axes.
    SmallVector<int64_t> back;
    for (int64_t i = 0; i + 1 < x.rank(); ++i)
      back.push_back(i);
    back.insert(back.begin() + axis, x.rank() - 1);
    return t.transpose(
        t.dot(x, t.cast(triangle(2, 1, 0), x.type()), {{}, {}, {axis}, {0}}),
        back);
  }
  Tensor terms = t.unsqueeze(x, {axis});
  return t.reduce(Reduction::Sum,
                  t.select(triangle(x.rank() + 1, axis, axis + 1), terms,
                           t.scalarLike(x, 0)),
                  {axis + 1});
}

void convertCumSum(Binder &b) {
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> axisInput = b.integers(1);
  bool exclusive = b.integer("exclusive", 0), reverse = b.integer("reverse", 0);
  if (!x || !axisInput)
    return;
  int64_t axis = b.axis(axisInput->front(), x.rank());
  if (x.shape()[axis].isBatch()) {
    b.refuse("adds up along the batch axis " + std::to_string(axis) +
             ", which combines samples");
    return;
  }
  if (!x.isKnown()) {
    b.output(0, sumBefore(b.build(), x, axis, exclusive, reverse));
    return;
  }
  int64_t extent = x.shape()[axis].size,
          inner = getElementCount(x.shape().drop_front(axis + 1));
  std::vector<Element> elements = x.elements();
  for (size_t first = 0; first < elements.size(); ++first) {
    if ((first / inner) % extent != 0)
      continue;
    Element total;
    for (int64_t i = 0; i < extent; ++i) {
      Element &element =
          elements[first + (reverse ? extent - 1 - i : i) * inner];
      Element before = total;
      total = Element{
          total.integer + element.integer,
          x.isFloat() ? roundTo(x.type(), total.real + element.real) : 0.0,
          total.batch + element.batch, total.sample + element.sample};
      element = exclusive ? before : total;
    }
  }
  b.output(0, b.build().known(x.type(), x.shape(), std::move(elements)));
}

} // namespace

void harmony::normalize::addIndexConverters(ConverterTable &table) {
  table.onOp("Gather", {1, 11, 13}, convertGather);
  table.onOp("GatherND", {11, 12, 13}, convertGatherND);
  table.onOp("Range", {11}, convertRange);
  table.onOp("Trilu", {14}, convertTrilu);
  table.onOp("CumSum", {11, 14}, convertCumSum);
}
