//===- ConvolutionShape.h - Extents of a convolution ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_CONVOLUTIONSHAPE_H
#define RUNTIME_HAL_CONVOLUTIONSHAPE_H

#include "runtime/hal/GemmShape.h"

#include <array>
#include <initializer_list>

namespace harmony::runtime {

/// Extent of a launch's range.
inline int64_t convolutionBlocks(const HmConvolution &c) {
  return detail::ceilDiv(c.samples, c.blockSamples);
}

/// Floats of its tensors. Fields are positive and below 2^31; what does not fit
/// is INT64_MAX.
struct ConvolutionSpans {
  int64_t image, result, weights;
};

inline ConvolutionSpans convolutionSpans(const HmConvolution &c) {
  auto product = [](std::initializer_list<int64_t> extents) {
    int64_t result = 1;
    for (int64_t extent : extents)
      result = detail::saturate(static_cast<__int128>(result) * extent);
    return result;
  };
  return {product({c.samples, c.image[0], c.image[1], c.channels}),
          product({c.samples, c.out[0], c.out[1], c.outputs}),
          product({c.outputs, c.channels, c.kernel[0], c.kernel[1]})};
}

/// Floats of the three operands of a launch, in their order.
inline std::array<int64_t, 3> convolutionOperands(const HmConvolution &c) {
  ConvolutionSpans spans = convolutionSpans(c);
  switch (c.direction) {
  case HM_CONVOLUTION_FORWARD:
    return {spans.image, spans.weights, spans.result};
  case HM_CONVOLUTION_IMAGE:
    return {spans.result, spans.weights, spans.image};
  default:
    return {spans.result, spans.image,
            detail::saturate(static_cast<__int128>(spans.weights) *
                             convolutionBlocks(c))};
  }
}

} // namespace harmony::runtime

#endif // RUNTIME_HAL_CONVOLUTIONSHAPE_H
