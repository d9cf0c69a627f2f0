//===- GemmShape.h - Extents that follow from a product ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_GEMMSHAPE_H
#define RUNTIME_HAL_GEMMSHAPE_H

#include "runtime/program.h"

#include <algorithm>
#include <cstdint>

namespace harmony::runtime {

/// Elements from the first to one past the last that a product touches in each
/// operand.
struct GemmSpans {
  int64_t a, b, c;
};

namespace detail {
inline int64_t saturate(__int128 value) {
  return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value);
}
inline int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }
} // namespace detail

/// Extent of a launch's range: the blocks of all batch indices. Fields are
/// positive and below 2^47; a result that does not fit is INT64_MAX.
inline int64_t gemmBlocks(const HmGemm &g) {
  __int128 batches = static_cast<__int128>(g.batch[0]) * g.batch[1];
  batches = static_cast<__int128>(detail::saturate(batches)) * g.batch[2];
  __int128 blocks = static_cast<__int128>(detail::ceilDiv(g.m, g.blockM)) *
                    detail::ceilDiv(g.n, g.blockN);
  return detail::saturate(static_cast<__int128>(detail::saturate(batches)) *
                          detail::saturate(blocks));
}

inline GemmSpans gemmSpans(const HmGemm &g) {
  auto span = [&](int64_t rows, int64_t columns, int64_t ld,
                  const int64_t *strides) {
    __int128 sum = static_cast<__int128>(rows - 1) * ld + columns;
    for (int i = 0; i < 3; ++i)
      sum += static_cast<__int128>(g.batch[i] - 1) * strides[i];
    return detail::saturate(sum);
  };
  return {g.transA ? span(g.k, g.m, g.lda, g.strideA)
                   : span(g.m, g.k, g.lda, g.strideA),
          g.transB ? span(g.n, g.k, g.ldb, g.strideB)
                   : span(g.k, g.n, g.ldb, g.strideB),
          span(g.m, g.n, g.ldc, g.strideC)};
}

} // namespace harmony::runtime

#endif // RUNTIME_HAL_GEMMSHAPE_H
