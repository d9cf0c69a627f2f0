//===- LinearModel.h - A model small enough to follow by hand ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// loss = (sum over the samples of a batch of w . x) / 2, batches of two samples
// of three values. The gradient of w is one part per sample, x / 2; the update
// is w -= lr * (sum of the parts). Evaluation gives scores (w . x, 0) for two
// classes.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_RUNTIME_LINEARMODEL_H
#define TEST_UNIT_RUNTIME_LINEARMODEL_H

#include "test/unit/runtime/BlobBuilder.h"

namespace harmony::runtime::test {

enum LinearKernel : uint32_t {
  LinearForward,
  LinearGradient,
  LinearUpdate,
  LinearScores
};
constexpr size_t linearKernelCount = 4;

BlobBuilder linearModel();

} // namespace harmony::runtime::test

extern "C" const HmRangeFunction
    harmony_kernels[harmony::runtime::test::linearKernelCount];

#endif // TEST_UNIT_RUNTIME_LINEARMODEL_H
