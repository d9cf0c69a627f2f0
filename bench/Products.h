//===- Products.h - What benchmarks multiply --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef BENCH_PRODUCTS_H
#define BENCH_PRODUCTS_H

#include "runtime/program.h"

#include <algorithm>
#include <cstdint>
#include <vector>

/// The product [m, k] x [k, n] of dense row-major matrices, in one block.
inline HmGemm makeGemm(int64_t m, int64_t n, int64_t k) {
  HmGemm g = {};
  g.m = g.blockM = m;
  g.n = g.blockN = n;
  g.k = g.lda = k;
  g.ldb = g.ldc = n;
  std::fill(g.batch, g.batch + 3, 1);
  return g;
}

/// Numbers in [-0.5, 0.5], none of them denormal.
inline std::vector<float> makeBuffer(int64_t elements) {
  std::vector<float> buffer(elements);
  for (int64_t i = 0; i < elements; ++i)
    buffer[i] = static_cast<float>(i % 251) / 251 - 0.5f;
  return buffer;
}

#endif // BENCH_PRODUCTS_H
