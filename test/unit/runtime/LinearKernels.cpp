//===- LinearKernels.cpp - Kernels of the hand-made model -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/LinearModel.h"

namespace {

float *floats(void *buffer) { return static_cast<float *>(buffer); }

float dot(const float *w, const float *x) {
  return w[0] * x[0] + w[1] * x[1] + w[2] * x[2];
}

void forward(void *const *b, int64_t, int64_t) {
  *floats(b[2]) =
      dot(floats(b[0]), floats(b[1])) + dot(floats(b[0]), floats(b[1]) + 3);
}

void gradient(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int j = 0; j < 3; ++j)
      floats(b[1])[4 * i + j] = floats(b[0])[3 * i + j] / 2;
}

void update(void *const *b, int64_t begin, int64_t end) {
  float rate = *floats(b[2]);
  for (int64_t j = begin; j < end; ++j)
    floats(b[0])[j] -= rate * (floats(b[1])[j] + floats(b[1])[4 + j]);
}

void scores(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    floats(b[2])[2 * i] = dot(floats(b[0]), floats(b[1]) + 3 * i);
    floats(b[2])[2 * i + 1] = 0;
  }
}

} // namespace

extern "C" const HmRangeFunction harmony_kernels[] = {forward, gradient, update,
                                                      scores};
