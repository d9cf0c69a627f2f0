//===- SymbolicTensor.cpp - What is known about an ONNX value -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/SymbolicTensor.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace mlir;
using namespace harmony::normalize;

std::string harmony::normalize::toString(ArrayRef<Extent> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '[';
  llvm::interleaveComma(shape, stream, [&](const Extent &extent) {
    if (!extent.isBatch())
      stream << extent.size;
    else if (extent.factor == 1)
      stream << 'N';
    else
      stream << extent.factor << 'N';
  });
  stream << ']';
  return text;
}

int64_t harmony::normalize::getBatchAxis(ArrayRef<Extent> shape) {
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (extent.isBatch())
      return axis;
  return -1;
}

int64_t harmony::normalize::getElementCount(ArrayRef<Extent> shape) {
  int64_t count = 1;
  for (const Extent &extent : shape)
    if (llvm::MulOverflow(count, extent.forOneSample(), count))
      return std::numeric_limits<int64_t>::max();
  return count;
}

std::optional<Shape> harmony::normalize::broadcastShapes(ArrayRef<Extent> a,
                                                         ArrayRef<Extent> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape result(a);
  size_t offset = a.size() - b.size();
  for (auto [index, extent] : llvm::enumerate(b)) {
    Extent &target = result[offset + index];
    if (target == extent || extent.isOne())
      continue;
    if (!target.isOne())
      return std::nullopt;
    target = extent;
  }
  return result;
}

bool Element::operator==(const Element &other) const {
  // Not a number equals itself here: the question is whether two elements are
  // the same.
  bool sameReal = real == other.real
                      ? std::signbit(real) == std::signbit(other.real)
                      : std::isnan(real) && std::isnan(other.real);
  return integer == other.integer && sameReal && batch == other.batch &&
         sample == other.sample;
}

// a + b N + c n over the cone N >= 1, 0 <= n <= N - 1: its vertex is (1, 0),
// its rays are (1, 0) and (1, 1).
bool harmony::normalize::isNonNegative(const Element &element) {
  return element.integer + element.batch >= 0 && element.batch >= 0 &&
         element.batch + element.sample >= 0;
}

bool harmony::normalize::isPositive(const Element &element) {
  return element.integer + element.batch > 0 && element.batch >= 0 &&
         element.batch + element.sample >= 0;
}

double harmony::normalize::roundTo(Type type, double value) {
  auto floatType = dyn_cast<FloatType>(type);
  if (!floatType || floatType.isF64())
    return value;
  if (floatType.isF32())
    return static_cast<float>(value);
  llvm::APFloat rounded(value);
  bool losesInfo = false;
  rounded.convert(floatType.getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  rounded.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return rounded.convertToDouble();
}

bool Tensor::isKnown() const {
  return data->content || (data->base && data->base.isKnown() &&
                           getElementCount(data->shape) <= kRepeatLimit);
}

const std::vector<Element> &Tensor::elements() const & {
  if (!data->content) {
    const std::vector<Element> &source = data->base.elements();
    // Strides of the base along the axes of the result, 0 where it is repeated.
    SmallVector<int64_t> strides(rank(), 0), counter(rank(), 0);
    int64_t stride = 1, offset = rank() - data->base.rank();
    for (int64_t axis = rank() - 1; axis >= offset; --axis) {
      int64_t extent = data->base.shape()[axis - offset].forOneSample();
      strides[axis] = extent == 1 ? 0 : stride;
      stride *= extent;
    }
    auto expanded = std::make_shared<std::vector<Element>>();
    int64_t count = getElementCount(data->shape);
    expanded->reserve(count);
    int64_t position = 0;
    for (int64_t i = 0; i < count; ++i) {
      expanded->push_back(source[position]);
      for (int64_t axis = rank() - 1; axis >= 0; --axis) {
        position += strides[axis];
        if (++counter[axis] < data->shape[axis].forOneSample())
          break;
        position -= strides[axis] * counter[axis];
        counter[axis] = 0;
      }
    }
    data->content = std::move(expanded);
  }
  return *data->content;
}

std::optional<Element> Tensor::splat() const {
  if (data->base)
    return data->base.splat();
  if (!data->content || data->content->empty())
    return std::nullopt;
  const Element &first = data->content->front();
  if (!first.isConstant() ||
      !llvm::all_of(*data->content,
                    [&](const Element &other) { return other == first; }))
    return std::nullopt;
  return first;
}

std::optional<double> Tensor::splatNumber() const {
  std::optional<Element> element = splat();
  if (!element)
    return std::nullopt;
  return isFloat() ? element->real : static_cast<double>(element->integer);
}
