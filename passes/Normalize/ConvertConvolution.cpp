//===- ConvertConvolution.cpp - Convolution and pooling -------------------===//
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

/// [N, n.., G * C] -> [G, N, n.., C].
Tensor splitGroups(TensorBuilder &t, const Tensor &image, int64_t groups) {
  if (!image)
    return image;
  int64_t rank = image.rank();
  Shape split(image.shape().drop_back(1));
  split.append(
      {Extent{groups, 0}, Extent{image.shape().back().size / groups, 0}});
  SmallVector<int64_t> permutation{rank - 1};
  for (int64_t axis = 0; axis < rank - 1; ++axis)
    permutation.push_back(axis);
  permutation.push_back(rank);
  return t.transpose(t.reshape(image, split), permutation);
}

/// [G, N, n.., C] -> [N, n.., G * C].
Tensor joinGroups(TensorBuilder &t, const Tensor &image) {
  if (!image)
    return image;
  int64_t rank = image.rank();
  SmallVector<int64_t> permutation;
  for (int64_t axis = 1; axis < rank - 1; ++axis)
    permutation.push_back(axis);
  permutation.append({0, rank - 1});
  Tensor split = t.transpose(image, permutation);
  if (!split)
    return split;
  Shape joined(split.shape().drop_back(2));
  joined.push_back(
      Extent{image.shape().front().size * image.shape().back().size, 0});
  return t.reshape(split, joined);
}

/// Axis 0, of G * O, becomes two.
Tensor splitOutputs(TensorBuilder &t, const Tensor &weights, int64_t groups) {
  if (!weights)
    return weights;
  Shape split{Extent{groups, 0}, Extent{weights.shape()[0].size / groups, 0}};
  llvm::append_range(split, weights.shape().drop_front(1));
  return t.reshape(weights, split);
}

/// Whether the shapes are [N, C, n..] and [., ., k..], of one rank.
bool areImageAndWeights(const Tensor &x, const Tensor &weights) {
  return x.rank() > 2 && weights.rank() == x.rank() &&
         weights.batchAxis() < 0 && !x.shape()[1].isBatch();
}

SmallVector<int64_t> kernelOf(const Tensor &weights) {
  SmallVector<int64_t> kernel;
  for (const Extent &extent : weights.shape().drop_front(2))
    kernel.push_back(extent.size);
  return kernel;
}

/// Output 0: `result`, whose channels are last, and the bias if there is one.
void writeImage(Binder &b, Tensor result, const Tensor &bias) {
  if (bias)
    result = b.build().add(result, bias);
  b.output(0, b.build().fromChannelsLast(result));
}

/// A convolution whose groups are the channels of `x`; weights [M * C, 1, k..].
Tensor convolveChannels(TensorBuilder &t, const Tensor &x,
                        const Tensor &weights, const Geometry &g) {
  int64_t rank = g.window.rank(), channels = x.shape()[1].size,
          times = weights.shape()[0].size / channels;
  Tensor image = t.toChannelsLast(x);
  if (!image)
    return image;
  SmallVector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  for (int64_t axis = 0; axis < rank; ++axis) {
    low[axis + 1] = g.window.low[axis];
    // Exactly as far as the last window reaches.
    high[axis + 1] = (g.out[axis] - 1) * g.window.strides[axis] +
                     g.getSpan(axis) - low[axis + 1] - g.image[axis];
  }
  image = t.pad(image, t.scalarLike(x, 0), low, high);
  if (times > 1 && image) {
    // Each channel as often as it has outputs.
    Shape apart(image.shape()), joined(image.shape());
    apart.push_back(Extent{1, 0});
    Tensor column = t.reshape(image, apart);
    apart.back().size = times;
    joined.back().size *= times;
    image = t.reshape(t.expand(column, apart), joined);
  }
  // [C, 1, k..] -> [k.., C]
  SmallVector<int64_t> order;
  for (int64_t axis = 1; axis <= rank; ++axis)
    order.push_back(axis);
  order.push_back(0);
  Shape squeezed(weights.shape());
  squeezed.erase(squeezed.begin() + 1);
  return t.depthwise(image, t.transpose(t.reshape(weights, squeezed), order),
                     g.window.strides, g.window.dilations);
}

void convertConv(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0), weights = b.input(1), bias = b.optionalInput(2);
  int64_t groups = b.integer("group", 1);
  if (!x || !weights)
    return;
  int64_t rank = x.rank() - 2;
  if (!areImageAndWeights(x, weights)) {
    b.refuse("expected an input [N, C, n..] and weights [O, C, k..], not " +
             toString(x.shape()) + " and " + toString(weights.shape()));
    return;
  }
  std::optional<Geometry> g = readGeometry(b, x.shape(), kernelOf(weights));
  if (!g)
    return;
  int64_t channels = x.shape()[1].size, outputs = weights.shape()[0].size,
          perGroup = weights.shape()[1].size;
  if (groups < 1 || channels != groups * perGroup || outputs % groups != 0) {
    b.refuse("group is " + Twine(groups) + ", which does not divide input " +
             toString(x.shape()) + " and weights " + toString(weights.shape()));
    return;
  }
  if (perGroup == 1 && groups > 1) {
    writeImage(b, convolveChannels(t, x, weights, *g), bias);
    return;
  }

  // Rows are the windows of [N, n.., C], or of [G, N, n.., C]: a product for
  // each group. Windows of one element are the image itself.
  Tensor image = t.toChannelsLast(x), rows;
  nn::Window window = g->window;
  bool isPoint =
      window.size() == 1 &&
      llvm::all_of(window.low, [](int64_t low) { return low == 0; }) &&
      llvm::all_of(g->high, [](int64_t high) { return high == 0; });
  if (isPoint && image) {
    SmallVector<int64_t> starts(x.rank(), 0), strides(x.rank(), 1);
    Shape extents(image.shape());
    for (int64_t axis = 0; axis < rank; ++axis) {
      strides[axis + 1] = window.strides[axis];
      extents[axis + 1] = Extent{g->out[axis], 0};
    }
    image = t.slice(image, starts, extents, strides);
    weights = t.reshape(weights, weights.shape().take_front(2));
  }
  int64_t offsets = isPoint ? 0 : rank, outer = groups > 1;
  if (outer) {
    image = splitGroups(t, image, groups);
    weights = splitOutputs(t, weights, groups);
    window.axis = 2;
  }
  rows = isPoint ? image : t.window(image, window, g->out);
  if (!rows || !weights)
    return;

  // rows [G, N, out.., k.., C], weights [G, O, C, k..].
  SmallVector<int64_t> permutation;
  DotAxes axes;
  if (outer) {
    axes.lhsBatch = {0};
    axes.rhsBatch = {0};
    permutation.push_back(0);
  }
  permutation.push_back(outer);
  for (int64_t axis = 0; axis < offsets; ++axis) {
    permutation.push_back(outer + 2 + axis);
    axes.lhsContract.push_back(outer + 1 + rank + axis);
    axes.rhsContract.push_back(outer + 1 + axis);
  }
  permutation.push_back(outer + 1);
  axes.lhsContract.push_back(outer + 1 + rank + offsets);
  axes.rhsContract.push_back(outer + 1 + offsets);
  Tensor result = t.dot(rows, t.transpose(weights, permutation), axes);
  writeImage(b, outer ? joinGroups(t, result) : result, bias);
}

/// The windows that a transposed convolution adds up: the image of `window` is
/// the output, and there is a window for each position of the input.
std::optional<Geometry> readTransposed(Binder &b, ArrayRef<Extent> shape,
                                       ArrayRef<int64_t> kernel) {
  int64_t rank = static_cast<int64_t>(kernel.size());
  auto kernelShape = b.integerList("kernel_shape");
  if (kernelShape && ArrayRef(*kernelShape) != kernel) {
    b.refuse("kernel_shape is not that of the weights");
    return std::nullopt;
  }
  std::string autoPad = b.string("auto_pad", "NOTSET");
  auto strides = readList(b, "strides", rank, 1, 1);
  auto dilations = readList(b, "dilations", rank, 1, 1);
  auto pads = readList(b, "pads", 2 * rank, 0, 0);
  auto added = readList(b, "output_padding", rank, 0, 0);
  auto output = readList(b, "output_shape", rank, 0, 0);
  if (!strides || !dilations || !pads || !added || !output)
    return std::nullopt;
  Geometry g;
  g.window.axis = 1;
  g.window.kernel.assign(kernel.begin(), kernel.end());
  g.window.strides.assign(strides->begin(), strides->end());
  g.window.dilations.assign(dilations->begin(), dilations->end());
  for (int64_t axis = 0; axis < rank; ++axis) {
    const Extent &extent = shape[2 + axis];
    if (extent.isBatch()) {
      b.refuse("input " + toString(shape) +
               " has the batch along an axis of the image: this combines "
               "samples");
      return std::nullopt;
    }
    int64_t stride = g.window.strides[axis], wanted = (*output)[axis];
    int64_t full =
        (extent.size - 1) * stride + g.getSpan(axis) + (*added)[axis];
    int64_t low = (*pads)[axis], high = (*pads)[rank + axis];
    bool isSame = StringRef(autoPad).starts_with("SAME");
    if (wanted || isSame) {
      int64_t total = full - (wanted ? wanted : extent.size * stride);
      // An output that is larger than what the windows cover ends in zeros.
      int64_t shared = std::max<int64_t>(total, 0);
      low = autoPad == "SAME_UPPER" ? shared / 2 : shared - shared / 2;
      high = total - low;
    } else if (autoPad == "VALID") {
      low = high = 0;
    }
    int64_t n = full - low - high;
    if (n < 1) {
      b.refuse("axis " + Twine(axis + 2) + " of " + toString(shape) +
               " gives " + Twine(full) + " elements, of which a padding of " +
               Twine(low) + " and " + Twine(high) + " leaves none");
      return std::nullopt;
    }
    g.window.low.push_back(low);
    g.high.push_back(high);
    g.image.push_back(n);
    g.out.push_back(extent.size);
  }
  return g;
}

/// The gradient of a convolution by its image: each position of the input makes
/// a window, and windows are added up.
void convertConvTranspose(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0), weights = b.input(1), bias = b.optionalInput(2);
  int64_t groups = b.integer("group", 1);
  if (!x || !weights)
    return;
  int64_t rank = x.rank() - 2;
  if (!areImageAndWeights(x, weights) || groups < 1 ||
      x.shape()[1] != weights.shape()[0] || x.shape()[1].size % groups != 0) {
    b.refuse("expected an input [N, C, n..] and weights [C, O, k..] with C a "
             "multiple of group " +
             Twine(groups) + ", not " + toString(x.shape()) + " and " +
             toString(weights.shape()));
    return;
  }
  std::optional<Geometry> g = readTransposed(b, x.shape(), kernelOf(weights));
  if (!g)
    return;
  Tensor image = t.toChannelsLast(x);
  int64_t outer = groups > 1;
  DotAxes axes;
  if (outer) {
    image = splitGroups(t, image, groups);
    weights = splitOutputs(t, weights, groups);
    g->window.axis = 2;
    axes.lhsBatch = {0};
    axes.rhsBatch = {0};
  }
  axes.lhsContract = {outer + 1 + rank};
  axes.rhsContract = {outer};
  // [G, N, n.., O, k..] -> [G, N, n.., k.., O]
  Tensor windows = t.dot(image, weights, axes);
  SmallVector<int64_t> order;
  for (int64_t axis = 0; axis < outer + 1 + rank; ++axis)
    order.push_back(axis);
  for (int64_t axis = 0; axis < rank; ++axis)
    order.push_back(outer + 2 + rank + axis);
  order.push_back(outer + 1 + rank);
  Tensor result = t.fold(t.transpose(windows, order), g->window, g->image);
  writeImage(b, outer ? joinGroups(t, result) : result, bias);
}

/// Columns [N, C * k.., L] of windows, added up to an image.
void convertCol2Im(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0);
  std::optional<SmallVector<int64_t>> image = b.integers(1),
                                      kernel = b.integers(2);
  if (!x || !image || !kernel)
    return;
  auto rank = static_cast<int64_t>(kernel->size());
  auto strides = readList(b, "strides", rank, 1, 1);
  auto dilations = readList(b, "dilations", rank, 1, 1);
  auto pads = readList(b, "pads", 2 * rank, 0, 0);
  if (!strides || !dilations || !pads)
    return;
  nn::Window window;
  window.axis = 1;
  Shape split{x.rank() == 3 ? x.shape()[0] : Extent{1, 0}, Extent{1, 0}};
  SmallVector<int64_t> out;
  int64_t positions = 1, offsets = 1;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t extent = static_cast<int64_t>(image->size()) == rank
                         ? (*image)[axis]
                         : 0,
            k = (*kernel)[axis],
            free = extent + (*pads)[axis] + (*pads)[rank + axis] -
                   (k - 1) * (*dilations)[axis] - 1;
    if (k < 1 || k > kMost || extent < 1 || extent > kMost || free < 0) {
      b.refuse("image_shape, block_shape and pads do not fit each other");
      return;
    }
    window.kernel.push_back(k);
    window.strides.push_back((*strides)[axis]);
    window.dilations.push_back((*dilations)[axis]);
    window.low.push_back((*pads)[axis]);
    out.push_back(free / (*strides)[axis] + 1);
    positions *= out.back();
    offsets *= k;
    split.push_back(Extent{k, 0});
  }
  if (x.rank() != 3 || x.batchAxis() > 0 || x.shape()[1].size % offsets != 0 ||
      x.shape()[2] != Extent{positions, 0}) {
    b.refuse("input must have the shape [N, C * " + Twine(offsets) + ", " +
             Twine(positions) + "], not " + toString(x.shape()));
    return;
  }
  split[1] = Extent{x.shape()[1].size / offsets, 0};
  for (int64_t extent : out)
    split.push_back(Extent{extent, 0});
  // [N, C, k.., out..] -> [N, out.., k.., C]
  SmallVector<int64_t> order{0};
  for (int64_t axis = 0; axis < rank; ++axis)
    order.push_back(2 + rank + axis);
  for (int64_t axis = 0; axis < rank; ++axis)
    order.push_back(2 + axis);
  order.push_back(1);
  Tensor windows = t.transpose(t.reshape(x, split), order);
  b.output(0, t.fromChannelsLast(t.fold(windows, window, *image)));
}

void convertMaxPool(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0);
  b.ignore("storage_order"); // of the indices
  if (!x)
    return;
  std::optional<Geometry> g = readGeometry(b, x.shape(), {});
  if (!g)
    return;
  if (b.isOutputUsed(1)) {
    b.refuse("output 1 (indices) numbers the elements of all samples, which "
             "depends on the batch: it is not supported");
    return;
  }
  // Bytes are pooled as floats, which hold them exactly.
  Tensor image = t.toChannelsLast(
      x.isFloat() ? x : t.cast(x, t.getBuilder().getF32Type()));
  Tensor maxima = t.fromChannelsLast(t.maxPool(image, g->window, g->out));
  b.output(0, t.cast(maxima, x.type()));
}

void convertAveragePool(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0);
  bool countsPadding = b.integer("count_include_pad", 0);
  if (!x)
    return;
  std::optional<Geometry> g = readGeometry(b, x.shape(), {});
  if (!g)
    return;
  Tensor sums = t.sumPool(t.toChannelsLast(x), g->window, g->out);
  if (!sums)
    return;
  // 1 / the number of elements that a window has in the image (and padding).
  std::vector<Element> shares(1);
  shares[0].real = 1;
  Shape shape;
  bool isEven = true;
  for (int64_t axis = 0; axis < g->window.rank(); ++axis) {
    int64_t least = countsPadding ? -g->window.low[axis] : 0,
            end = g->image[axis] + (countsPadding ? g->high[axis] : 0),
            first = 0;
    std::vector<Element> next;
    for (const Element &outer : shares)
      for (int64_t out = 0; out < g->out[axis]; ++out) {
        int64_t count = 0;
        for (int64_t k = 0; k < g->window.kernel[axis]; ++k) {
          int64_t at = g->window.locate(axis, out, k);
          count += at >= least && at < end;
        }
        first = out == 0 ? count : first;
        isEven &= count == first && count > 0;
        next.push_back(outer);
        next.back().real *= count;
      }
    shares = std::move(next);
    shape.push_back(Extent{g->out[axis], 0});
  }
  for (Element &share : shares)
    share.real = roundTo(x.type(), 1 / share.real);
  shape.push_back(Extent{1, 0});
  Tensor mean = isEven ? t.scale(sums, shares.front().real)
                       : t.multiply(sums, t.known(x.type(), shape, shares));
  b.output(0, t.fromChannelsLast(mean));
}

void convertGlobalAveragePool(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0);
  std::optional<nn::Window> window = getWholeImage(b, x);
  if (!window)
    return;
  SmallVector<int64_t> ones(window->rank(), 1);
  Tensor sums = t.sumPool(t.toChannelsLast(x), *window, ones);
  b.output(0, t.fromChannelsLast(t.scale(sums, 1.0 / window->size())));
}

void convertGlobalMaxPool(Binder &b) {
  TensorBuilder &t = b.build();
  Tensor x = b.input(0);
  std::optional<nn::Window> window = getWholeImage(b, x);
  if (!window)
    return;
  SmallVector<int64_t> ones(window->rank(), 1);
  b.output(0,
           t.fromChannelsLast(t.maxPool(t.toChannelsLast(x), *window, ones)));
}

} // namespace

void harmony::normalize::addConvolutionConverters(ConverterTable &table) {
  table.onOp("Conv", {1, 11, 22}, convertConv);
  table.onOp("ConvTranspose", {1, 11, 22}, convertConvTranspose);
  table.onOp("Col2Im", {18}, convertCol2Im);
  table.onOp("MaxPool", {1, 8, 10, 11, 12, 22}, convertMaxPool);
  table.onOp("AveragePool", {1, 7, 10, 11, 19, 22}, convertAveragePool);
  table.onOp("GlobalAveragePool", {1, 22}, convertGlobalAveragePool);
  table.onOp("GlobalMaxPool", {1, 22}, convertGlobalMaxPool);
}
