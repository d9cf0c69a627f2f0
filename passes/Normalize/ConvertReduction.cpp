//===- ConvertReduction.cpp - Sums, means, normalisation ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// (builder, x, axes, keepDims) -> reduced
using Formula =
    std::function<Tensor(TensorBuilder &, Tensor, ArrayRef<int64_t>, bool)>;

/// `axesInputSince`: the version from which axes are an input.
void addReduction(ConverterTable &table, StringRef name,
                  std::initializer_list<int64_t> versions,
                  int64_t axesInputSince, Formula formula) {
  table.onOp(name, versions, [axesInputSince, formula](Binder &b) {
    Tensor x = b.input(0);
    bool keepDims = b.integer("keepdims", 1),
         isInput = b.version() >= axesInputSince;
    bool emptyMeansNone = isInput && b.integer("noop_with_empty_axes", 0);
    std::optional<SmallVector<int64_t>> axes;
    if (!isInput)
      axes = b.integerList("axes");
    else if (b.hasInput(1) && !(axes = b.integers(1)))
      return;
    if (!x)
      return;
    if (!axes || axes->empty()) {
      axes.emplace();
      for (int64_t axis = 0; axis < x.rank() && !emptyMeansNone; ++axis)
        axes->push_back(axis);
    }
    b.output(0, formula(b.build(), x, b.axes(*axes, x.rank()), keepDims));
  });
}

/// Products of the elements along axes, half by half: no element is divided by,
/// so that the gradient is right where one is 0.
Tensor multiplyAxes(TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes,
                    bool keepDims) {
  for (int64_t axis : axes) {
    if (!x)
      return x;
    if (x.shape()[axis].isBatch())
      return t.fail("multiplies over the batch axis of " + toString(x.shape()) +
                    ": this combines samples");
    if (x.shape()[axis].size == 0) {
      Shape shape(x.shape());
      shape[axis] = Extent{1, 0};
      x = t.expand(t.scalarLike(x, 1), shape);
    }
    for (int64_t size; x && (size = x.shape()[axis].size) > 1;) {
      int64_t half = size / 2;
      Tensor product = t.multiply(t.sliceAxis(x, axis, 0, half),
                                  t.sliceAxis(x, axis, half, half));
      x = size % 2
              ? t.concat({product, t.sliceAxis(x, axis, size - 1, 1)}, axis)
              : product;
    }
  }
  return keepDims ? x : t.squeeze(x, axes);
}

/// `formula` over all axes from `axis` on, made one.
template <typename Formula>
Tensor applyFlattened(TensorBuilder &t, const Tensor &x, int64_t axis,
                      Formula formula) {
  Shape shape(x.shape());
  if (axis == x.rank() - 1)
    return formula(t, x, axis);
  if (x.batchAxis() >= axis)
    return t.fail("axis is " + Twine(axis) + " of " + toString(shape) +
                  ": this combines samples");
  Shape flat(x.shape().take_front(axis));
  flat.push_back(Extent{getElementCount(x.shape().drop_front(axis)), 0});
  return t.reshape(formula(t, t.reshape(x, flat), axis), shape);
}

void addSoftmax(ConverterTable &table) {
  auto add = [&](StringRef name, auto formula) {
    table.onOp(name, {1, 11}, [formula](Binder &b) {
      Tensor x = b.input(0);
      int64_t axis = b.integer("axis", 1);
      if (x) // before 13 everything from the axis on is one row
        b.output(0,
                 applyFlattened(b.build(), x, b.axis(axis, x.rank()), formula));
    });
    table.onOp(name, {13}, [formula](Binder &b) {
      Tensor x = b.input(0);
      int64_t axis = b.integer("axis", -1);
      if (x)
        b.output(0, formula(b.build(), x, b.axis(axis, x.rank())));
    });
  };
  add("Softmax", [](TensorBuilder &t, Tensor x, int64_t axis) {
    return t.softmax(x, axis);
  });
  add("LogSoftmax", [](TensorBuilder &t, Tensor x, int64_t axis) {
    return t.logSoftmax(x, axis);
  });
}

/// Statistics are computed in the input's type: stash_type must not ask for
/// more.
void checkStashType(Binder &b, const Tensor &x) {
  int64_t stash = b.integer("stash_type", 1);
  if (x && getElementType(x.type().getContext(), stash) != x.type())
    b.refuse("stash_type is " + Twine(stash) +
             ", accepted is the type of the input");
}

void convertLayerNormalization(Binder &b) {
  Tensor x = b.input(0), scale = b.input(1), shift = b.optionalInput(2);
  int64_t axis = b.integer("axis", -1);
  double epsilon = b.real("epsilon", 1e-5f);
  checkStashType(b, x);
  if (!x)
    return;
  TensorBuilder::Normalized normalized =
      b.build().layerNorm(x, scale, shift, b.axis(axis, x.rank()), epsilon);
  Tensor results[] = {normalized.result, normalized.mean,
                      normalized.inverseDeviation};
  for (unsigned i = 0; i < b.outputCount() && i < 3; ++i)
    b.output(i, results[i]);
}

void convertRMSNormalization(Binder &b) {
  Tensor x = b.input(0), scale = b.input(1);
  int64_t axis = b.integer("axis", -1);
  double epsilon = b.real("epsilon", 1e-5f);
  checkStashType(b, x);
  if (!x)
    return;
  b.output(0, b.build()
                  .layerNorm(x, scale, Tensor(), b.axis(axis, x.rank()),
                             epsilon, /*centered=*/false)
                  .result);
}

} // namespace

void harmony::normalize::addReductionConverters(ConverterTable &table) {
  addReduction(
      table, "ReduceSum", {1, 11, 13}, 13,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.reduce(Reduction::Sum, x, axes, keep);
      });
  addReduction(table, "ReduceMean", {1, 11, 13, 18}, 18,
               [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes,
                  bool keep) { return t.mean(x, axes, keep); });
  addReduction(
      table, "ReduceMax", {1, 11, 12, 13, 18, 20}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.reduce(Reduction::Maximum, x, axes, keep);
      });
  addReduction(
      table, "ReduceMin", {1, 11, 12, 13, 18, 20}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.reduce(Reduction::Minimum, x, axes, keep);
      });
  addReduction(
      table, "ReduceSumSquare", {1, 11, 13, 18}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.reduce(Reduction::Sum, t.multiply(x, x), axes, keep);
      });
  addReduction(
      table, "ReduceL1", {1, 11, 13, 18}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.reduce(Reduction::Sum, t.unary(Unary::Absolute, x), axes,
                        keep);
      });
  addReduction(
      table, "ReduceL2", {1, 11, 13, 18}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.unary(Unary::SquareRoot,
                       t.reduce(Reduction::Sum, t.multiply(x, x), axes, keep));
      });
  addReduction(
      table, "ReduceLogSum", {1, 11, 13, 18, 28}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        return t.unary(Unary::Logarithm,
                       t.reduce(Reduction::Sum, x, axes, keep));
      });
  addReduction(table, "ReduceProd", {1, 11, 13, 18, 28}, 18, multiplyAxes);
  addReduction(
      table, "ReduceLogSumExp", {1, 11, 13, 18}, 18,
      [](TensorBuilder &t, Tensor x, ArrayRef<int64_t> axes, bool keep) {
        Tensor shift = t.reduce(Reduction::Maximum, x, axes, true);
        Tensor powers = t.unary(Unary::Exponential, t.subtract(x, shift));
        Tensor sum = t.reduce(Reduction::Sum, powers, axes, true);
        Tensor result = t.add(t.unary(Unary::Logarithm, sum), shift);
        SmallVector<int64_t> dropped(axes);
        llvm::sort(dropped);
        return keep ? result : t.squeeze(result, dropped);
      });
  addSoftmax(table);
  table.onOp("LayerNormalization", {17}, convertLayerNormalization);
  table.onOp("RMSNormalization", {23}, convertRMSNormalization);
}
