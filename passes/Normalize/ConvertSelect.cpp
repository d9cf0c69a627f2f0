//===- ConvertSelect.cpp - Extremes, one-hot, scatters --------------------===//
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

/// Refuses an axis that carries the batch; made non-negative.
std::optional<int64_t> ownAxis(Binder &b, const Tensor &x, int64_t axis,
                               StringRef what) {
  if (!x)
    return std::nullopt;
  if (axis < -x.rank() || axis >= x.rank()) {
    b.axis(axis, x.rank());
    return std::nullopt;
  }
  axis = b.axis(axis, x.rank());
  if (!x.shape()[axis].isBatch() && x.shape()[axis].size > 0)
    return axis;
  b.refuse(what + (x.shape()[axis].isBatch()
                       ? " over the batch axis of " + toString(x.shape()) +
                             ": this combines samples"
                       : " of no elements along axis " + Twine(axis) + " of " +
                             toString(x.shape())));
  return std::nullopt;
}

/// Where the extreme elements along `axis` are, the axis being kept with extent
/// 1: the first of equal ones, or the last. Elements where `isTaken`, which may
/// be null, do not count.
Tensor findExtreme(TensorBuilder &t, const Tensor &x, int64_t axis,
                   bool largest, bool last, const Tensor &isTaken = Tensor()) {
  if (!x)
    return x;
  int64_t extent = x.shape()[axis].size;
  Tensor candidates = x;
  if (isTaken)
    candidates = t.select(
        isTaken, t.scalar(x.type(), largest ? -INFINITY : INFINITY), x);
  Tensor extreme = t.reduce(largest ? Reduction::Maximum : Reduction::Minimum,
                            candidates, {axis}, /*keepDims=*/true);
  Tensor isExtreme = t.compare(Compare::Equal, candidates, extreme);
  if (isTaken)
    isExtreme = t.binary(Binary::And, isExtreme, t.unary(Unary::Not, isTaken));
  Tensor position =
      knownPositions(t, t.getBuilder().getI64Type(), extent, x.rank(), axis);
  Tensor outside = t.scalarLike(position, last ? -1 : extent);
  Tensor found = t.reduce(last ? Reduction::Maximum : Reduction::Minimum,
                          t.select(isExtreme, position, outside), {axis},
                          /*keepDims=*/true);
  // Rows of NaN have no extreme element: an index all the same.
  return last ? t.atLeast(found, t.scalarLike(found, 0))
              : t.atMost(found, t.scalarLike(found, extent - 1));
}

void addExtremes(ConverterTable &table) {
  for (bool largest : {true, false})
    table.onOp(largest ? "ArgMax" : "ArgMin", {1, 11, 12, 13},
               [largest](Binder &b) {
                 Tensor x = b.input(0);
                 int64_t requested = b.integer("axis", 0);
                 bool keepDims = b.integer("keepdims", 1),
                      last = b.integer("select_last_index", 0);
                 std::optional<int64_t> axis =
                     ownAxis(b, x, requested, "takes the extreme element");
                 if (!axis)
                   return;
                 TensorBuilder &t = b.build();
                 Tensor found = findExtreme(t, x, *axis, largest, last);
                 b.output(0, keepDims ? found : t.squeeze(found, {*axis}));
               });
  auto hardmax = [](Binder &b, int64_t requested, bool flattens) {
    Tensor x = b.input(0);
    std::optional<int64_t> axis =
        ownAxis(b, x, requested, "takes the extreme element");
    if (!axis)
      return;
    if (flattens && *axis != x.rank() - 1) {
      b.refuse("axis is " + Twine(*axis) + " of rank " + Twine(x.rank()) +
               ": before opset 13 that flattens the input, which is supported "
               "for the last axis alone");
      return;
    }
    TensorBuilder &t = b.build();
    Tensor found = findExtreme(t, x, *axis, /*largest=*/true, /*last=*/false);
    Tensor position = knownPositions(t, t.getBuilder().getI64Type(),
                                     x.shape()[*axis].size, x.rank(), *axis);
    b.output(0, t.cast(t.compare(Compare::Equal, position, found), x.type()));
  };
  table.onOp("Hardmax", {1, 11},
             [hardmax](Binder &b) { hardmax(b, b.integer("axis", 1), true); });
  table.onOp("Hardmax", {13}, [hardmax](Binder &b) {
    hardmax(b, b.integer("axis", -1), false);
  });
}

/// The permutation that swaps `axis` and the last one.
SmallVector<int64_t> swapWithLast(int64_t rank, int64_t axis) {
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[axis], permutation.back());
  return permutation;
}

/// One extreme element after the other, each of what is left. Values are
/// gathered, so that their gradient goes where they come from.
void convertTopK(Binder &b) {
  constexpr int64_t kMost = 64; // each is a pass over the rows
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> count = b.integers(1);
  bool largest = b.integer("largest", 1);
  b.ignore("sorted"); // sorted is one of the orders that 0 allows
  std::optional<int64_t> axis =
      ownAxis(b, x, b.integer("axis", -1), "takes extreme elements");
  if (!axis || !count || count->size() != 1)
    return;
  int64_t k = count->front(), extent = x.shape()[*axis].size;
  if (k < 1 || k > std::min(extent, kMost)) {
    b.refuse("k is " + Twine(k) + ", accepted is 1 to " +
             Twine(std::min(extent, kMost)));
    return;
  }
  if (!x.isFloat()) {
    b.refuse("is supported for floating elements");
    return;
  }
  TensorBuilder &t = b.build();
  SmallVector<int64_t> swap = swapWithLast(x.rank(), *axis);
  int64_t last = x.rank() - 1;
  x = t.transpose(x, swap);
  Tensor position =
      knownPositions(t, t.getBuilder().getI64Type(), extent, x.rank(), last);
  SmallVector<Tensor> found;
  Tensor isTaken;
  for (int64_t i = 0; i < k; ++i) {
    found.push_back(findExtreme(t, x, last, largest, false, isTaken));
    if (!found.back())
      return;
    Tensor isFound = t.compare(Compare::Equal, position, found.back());
    isTaken = isTaken ? t.binary(Binary::Or, isTaken, isFound) : isFound;
  }
  Tensor indices = t.concat(found, last);
  b.output(0, t.transpose(t.gather(x, indices, last, last), swap));
  b.output(1, t.transpose(indices, swap));
}

/// `off` but `on` at the index; negative indices count from the end, and what
/// is outside of the depth is off everywhere.
void convertOneHot(Binder &b) {
  Tensor indices = b.input(0), depthInput = b.input(1), values = b.input(2);
  int64_t requested = b.integer("axis", -1);
  if (!indices || !depthInput || !values)
    return;
  std::optional<double> depth = depthInput.splatNumber();
  if (!depth || *depth < 1 || getElementCount(values.shape()) != 2) {
    b.refuse(
        "depth must be a positive number known at compile time, values two "
        "elements; they have shapes " +
        toString(depthInput.shape()) + " and " + toString(values.shape()));
    return;
  }
  int64_t rank = indices.rank() + 1, axis = b.axis(requested, rank),
          extent = static_cast<int64_t>(*depth);
  TensorBuilder &t = b.build();
  values = t.reshape(values, {Extent{2, 0}});
  Tensor off = t.reshape(t.sliceAxis(values, 0, 0, 1), {}),
         on = t.reshape(t.sliceAxis(values, 0, 1, 1), {});
  Tensor row = t.fromEnd(t.unsqueeze(indices, {axis}), extent);
  if (!row)
    return;
  Tensor position = knownPositions(t, row.type(), extent, rank, axis);
  b.output(0, t.select(t.compare(Compare::Equal, position, row), on, off));
}

void convertEyeLike(Binder &b) {
  Tensor x = b.input(0);
  int64_t type = b.integer("dtype", 0), diagonal = b.integer("k", 0);
  if (!x)
    return;
  if (x.rank() != 2 || x.batchAxis() >= 0) {
    b.refuse("needs two axes that do not carry the batch, not " +
             toString(x.shape()));
    return;
  }
  TensorBuilder &t = b.build();
  Type element = type ? getElementType(x.type().getContext(), type) : x.type();
  if (!element) {
    b.refuse("element type number " + Twine(type) + " is not supported");
    return;
  }
  Type index = t.getBuilder().getI64Type();
  Tensor row = knownPositions(t, index, x.shape()[0].size, 2, 0),
         column = knownPositions(t, index, x.shape()[1].size, 2, 1);
  Tensor isOne = t.compare(Compare::Equal, column,
                           t.add(row, t.scalarLike(row, diagonal)));
  b.output(0, t.cast(isOne, element));
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// `x` with `updates` put in, or added, at `indices`: rows of axis `axis`, the
/// axes before it being batched. Two updates of one place, which ONNX leaves
/// undefined without a reduction, add up.
Tensor scatter(TensorBuilder &t, const Tensor &x, const Tensor &indices,
               const Tensor &updates, int64_t axis, bool adds) {
  Tensor added = t.scatterAdd(x.shape(), indices, updates, axis, axis);
  if (adds)
    return t.add(x, added);
  Tensor ones = t.expand(t.scalarLike(updates, 1), updates.shape());
  Tensor hits = t.scatterAdd(x.shape(), indices, ones, axis, axis);
  return t.select(t.compare(Compare::Greater, hits, t.scalarLike(hits, 0)),
                  added, x);
}

std::optional<bool> readReduction(Binder &b) {
  std::string reduction = b.string("reduction", "none");
  if (reduction == "none" || reduction == "add")
    return reduction == "add";
  b.refuse("reduction is '" + reduction + "', accepted are 'none' and 'add'");
  return std::nullopt;
}

bool checkFloating(Binder &b, const Tensor &x) {
  if (x.isFloat())
    return true;
  b.refuse("is supported for floating elements");
  return false;
}

/// result[i.., j, k..] = x[i.., indices[i.., j, k..], k..]: a gather along the
/// last axis with all others batched, of which indices may have fewer elements.
void convertGatherElements(Binder &b) {
  Tensor x = b.input(0), indices = b.input(1);
  std::optional<int64_t> axis =
      ownAxis(b, x, b.integer("axis", 0), "reads elements");
  if (!axis || !indices)
    return;
  TensorBuilder &t = b.build();
  Tensor read = x;
  bool fits = x.rank() == indices.rank();
  for (int64_t other = 0; fits && other < x.rank(); ++other) {
    Extent has = x.shape()[other], wanted = indices.shape()[other];
    if (other == *axis || has == wanted)
      continue;
    fits = !has.isBatch() && !wanted.isBatch() && wanted.size < has.size;
    if (fits)
      read = t.sliceAxis(read, other, 0, wanted.size);
  }
  if (!fits) {
    b.refuse("indices " + toString(indices.shape()) +
             " must have no more elements than " + toString(x.shape()) +
             " along axes other than " + Twine(*axis));
    return;
  }
  SmallVector<int64_t> swap = swapWithLast(x.rank(), *axis);
  b.output(0, t.transpose(t.gather(t.transpose(read, swap),
                                   t.transpose(indices, swap), x.rank() - 1,
                                   x.rank() - 1),
                          swap));
}

void convertScatterElements(Binder &b) {
  Tensor x = b.input(0), indices = b.input(1), updates = b.input(2);
  std::optional<bool> adds = readReduction(b);
  std::optional<int64_t> axis =
      ownAxis(b, x, b.integer("axis", 0), "writes elements");
  if (!axis || !adds || !indices || !updates || !checkFloating(b, x))
    return;
  SmallVector<int64_t> swap = swapWithLast(x.rank(), *axis);
  Shape others(x.shape()), given(indices.shape());
  if (given.size() == others.size()) {
    others.erase(others.begin() + *axis);
    given.erase(given.begin() + *axis);
  }
  if (given != others || indices.shape() != updates.shape()) {
    b.refuse("indices " + toString(indices.shape()) + " and updates " +
             toString(updates.shape()) + " must have the shape of " +
             toString(x.shape()) + " but for axis " + Twine(*axis));
    return;
  }
  TensorBuilder &t = b.build();
  b.output(0, t.transpose(
                  scatter(t, t.transpose(x, swap), t.transpose(indices, swap),
                          t.transpose(updates, swap), x.rank() - 1, *adds),
                  swap));
}

/// The axes that coordinates name become one, which a scatter of slices
/// indexes.
void convertScatterND(Binder &b) {
  Tensor x = b.input(0), indices = b.input(1), updates = b.input(2);
  std::optional<bool> adds = readReduction(b);
  if (!x || !indices || !updates || !adds || !checkFloating(b, x))
    return;
  int64_t depth = indices.rank() ? indices.shape().back().size : 0;
  if (depth < 1 || depth > x.rank() ||
      (x.batchAxis() >= 0 && x.batchAxis() < depth) ||
      indices.batchAxis() >= 0) {
    b.refuse("indices " + toString(indices.shape()) + " into " +
             toString(x.shape()) +
             " choose samples: coordinates must not name the batch axis");
    return;
  }
  TensorBuilder &t = b.build();
  Tensor linear = linearIndex(t, indices, x.shape(), 0);
  int64_t count = getElementCount(x.shape().take_front(depth));
  Shape rows(x.shape().drop_front(depth));
  rows.insert(rows.begin(), Extent{count, 0});
  Tensor result = scatter(t, t.reshape(x, rows), linear, updates, 0, *adds);
  b.output(0, t.reshape(result, x.shape()));
}

} // namespace

void harmony::normalize::addSelectConverters(ConverterTable &table) {
  addExtremes(table);
  table.onOp("TopK", {10, 11, 24}, convertTopK);
  table.onOp("OneHot", {9, 11}, convertOneHot);
  table.onOp("EyeLike", {9, 22}, convertEyeLike);
  table.onOp("GatherElements", {11, 13}, convertGatherElements);
  table.onOp("Scatter", {9}, convertScatterElements);
  table.onOp("ScatterElements", {11, 13, 16, 18}, convertScatterElements);
  table.onOp("ScatterND", {11, 13, 16, 18}, convertScatterND);
}
