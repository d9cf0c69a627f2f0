//===- Runner.h - Execute an emitted blob -----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PROGRAM_RUNNER_H
#define TEST_UNIT_PROGRAM_RUNNER_H

#include "test/unit/program/Kernels.h"

namespace harmony::test {

/// What a blob computed, and what the driver measured against what the header
/// says.
struct RunResult {
  std::string error; ///< of the runtime; empty: it ran
  State state;
  std::vector<StepResult> steps; ///< gradients of the dumped step alone
  std::vector<float> outputs;    ///< of the evaluation, where there is one
  float evaluationLoss = 0;
  std::string evidence; ///< what differs from the header: empty when peak and
                        ///< traffic agree
};

enum class RunMode { Threads, SingleThread, Adversarial };

/// Load, `steps` training steps of which the first is dumped, store, an
/// evaluation on the batch of step 0, with released and unwritten memory
/// poisoned. SingleThread also makes the host store unreadable in kernels;
/// `seed` is the adversary's.
RunResult runBlob(const std::vector<char> &blob,
                  const std::vector<std::string> &kernels, int64_t steps,
                  float rate, RunMode mode, uint64_t seed = 0);

} // namespace harmony::test

#endif // TEST_UNIT_PROGRAM_RUNNER_H
