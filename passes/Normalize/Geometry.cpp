//===- Geometry.cpp - Windows as ONNX's attributes say --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Geometry.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

std::optional<SmallVector<int64_t>>
harmony::normalize::readList(Binder &b, StringRef name, int64_t size,
                             int64_t otherwise, int64_t least) {
  SmallVector<int64_t> list(size, otherwise);
  if (auto given = b.integerList(name))
    list = *given;
  if (static_cast<int64_t>(list.size()) != size) {
    b.refuse(name + " has " + Twine(list.size()) + " entries, expected " +
             Twine(size));
    return std::nullopt;
  }
  for (int64_t value : list)
    if (value < least || value > kMost) {
      b.refuse(name + " has an entry " + Twine(value) + ", expected " +
               Twine(least) + " to " + Twine(kMost));
      return std::nullopt;
    }
  return list;
}

std::optional<Geometry>
harmony::normalize::readGeometry(Binder &b, ArrayRef<Extent> shape,
                                 ArrayRef<int64_t> kernel) {
  int64_t rank = static_cast<int64_t>(shape.size()) - 2;
  if (rank < 1) {
    b.refuse("input must have the shape [N, C, n..], not " + toString(shape));
    return std::nullopt;
  }
  Geometry g;
  for (const Extent &extent : shape.drop_front(2)) {
    if (extent.isBatch()) {
      b.refuse("input " + toString(shape) +
               " has the batch along an axis of the image: this combines "
               "samples");
      return std::nullopt;
    }
    g.image.push_back(extent.size);
  }
  auto kernelShape = b.integerList("kernel_shape");
  if (kernelShape && !kernel.empty() && ArrayRef(*kernelShape) != kernel) {
    b.refuse("kernel_shape is not that of the weights");
    return std::nullopt;
  }
  std::string autoPad = b.string("auto_pad", "NOTSET");
  bool isCeil = b.integer("ceil_mode", 0);
  auto strides = readList(b, "strides", rank, 1, 1);
  auto dilations = readList(b, "dilations", rank, 1, 1);
  auto pads = readList(b, "pads", 2 * rank, 0, 0);
  if (!strides || !dilations || !pads)
    return std::nullopt;
  g.window.axis = 1;
  g.window.kernel.assign(kernel.begin(), kernel.end());
  if (kernelShape)
    g.window.kernel.assign(kernelShape->begin(), kernelShape->end());
  g.window.strides.assign(strides->begin(), strides->end());
  g.window.dilations.assign(dilations->begin(), dilations->end());
  if (g.window.rank() != rank || llvm::any_of(g.window.kernel, [](int64_t k) {
        return k < 1 || k > kMost;
      })) {
    b.refuse("kernel_shape must have " + Twine(rank) + " entries of 1 to " +
             Twine(kMost));
    return std::nullopt;
  }
  if (autoPad != "NOTSET" && autoPad != "VALID" && autoPad != "SAME_UPPER" &&
      autoPad != "SAME_LOWER") {
    b.refuse("auto_pad is '" + autoPad +
             "', accepted are NOTSET, VALID, SAME_UPPER and SAME_LOWER");
    return std::nullopt;
  }
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t low = 0, high = 0, span = g.getSpan(axis), n = g.image[axis],
            stride = g.window.strides[axis], out;
    if (StringRef(autoPad).starts_with("SAME")) {
      out = llvm::divideCeil(n, stride);
      int64_t total = std::max<int64_t>((out - 1) * stride + span - n, 0);
      low = total / 2;
      if (autoPad == "SAME_LOWER")
        low = total - low;
      high = total - low;
    } else {
      if (autoPad == "NOTSET") {
        low = (*pads)[axis];
        high = (*pads)[rank + axis];
      }
      int64_t free = n + low + high - span;
      if (free < 0) {
        b.refuse("a window of " + Twine(span) + " elements does not fit axis " +
                 Twine(axis + 2) + " of " + toString(shape) +
                 " with a padding of " + Twine(low) + " and " + Twine(high));
        return std::nullopt;
      }
      out = (isCeil ? llvm::divideCeil(free, stride) : free / stride) + 1;
      if (isCeil && (out - 1) * stride >= n + low)
        --out;
    }
    g.window.low.push_back(low);
    g.high.push_back(high);
    g.out.push_back(out);
  }
  return g;
}

std::optional<nn::Window> harmony::normalize::getWholeImage(Binder &b,
                                                            const Tensor &x) {
  if (!x)
    return std::nullopt;
  nn::Window window;
  window.axis = 1;
  if (x.rank() < 3) {
    b.refuse("input must have the shape [N, C, n..], not " +
             toString(x.shape()));
    return std::nullopt;
  }
  for (const Extent &extent : x.shape().drop_front(2)) {
    if (extent.isBatch()) {
      b.refuse("input " + toString(x.shape()) +
               " has the batch along an axis of the image: this combines "
               "samples");
      return std::nullopt;
    }
    window.kernel.push_back(extent.size);
    window.strides.push_back(1);
    window.dilations.push_back(1);
    window.low.push_back(0);
  }
  return window;
}

int64_t harmony::normalize::behindChannels(int64_t axis, int64_t rank) {
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

Tensor harmony::normalize::takeAlong(TensorBuilder &t, const Tensor &x,
                                     int64_t axis,
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

bool harmony::normalize::isOneOf(Binder &b, StringRef name, StringRef value,
                                 ArrayRef<StringRef> accepted) {
  if (llvm::is_contained(accepted, value))
    return true;
  b.refuse(name + " is '" + value + "', accepted are " +
           llvm::join(accepted, ", "));
  return false;
}
