//===- Kernels.h - The kernels of the chain model ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PROGRAM_KERNELS_H
#define TEST_UNIT_PROGRAM_KERNELS_H

#include "runtime/program.h"

#include <string>
#include <vector>

namespace harmony::test {

/// Elements of a sample and of a weight: 96 bytes, so that not everything is
/// aligned by itself.
inline constexpr int64_t width = 24;
inline constexpr int64_t batch = 8;

/// The function of a kernel name; null for one that is not known.
HmRangeFunction findKernel(const std::string &name);

/// State of the model: weights and momenta of its three parameters.
struct State {
  std::vector<float> weights[3], momenta[3];
};
State initialState();
std::vector<float> batchInput(int64_t step), batchTarget(int64_t step);

/// Samples of the microbatches of each data-parallel group, in order.
using Split = std::vector<std::vector<int64_t>>;
/// Shares that differ by one sample at most, in microbatches of one size and
/// what remains.
Split splitBatch(int groups, int64_t microbatch);

/// What a step and an evaluation give, computed layer by layer with the same
/// kernels.
struct StepResult {
  std::vector<float> losses; ///< of each group
  float denominator = 0;
  std::vector<std::vector<float>> gradients[3]; ///< by part
};
/// `clips`: every update is scaled by a factor that depends on all gradients.
StepResult trainStep(State &state, int64_t step, const Split &split, float rate,
                     bool clips = false);
std::vector<float> evaluateOutputs(const State &state, int64_t step,
                                   int64_t microbatch, float &loss);

} // namespace harmony::test

#endif // TEST_UNIT_PROGRAM_KERNELS_H
