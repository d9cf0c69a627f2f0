//===- LinearModel.cpp - A model small enough to follow by hand -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/LinearModel.h"

namespace harmony::runtime::test {

// Host store.
static constexpr int64_t homeOfW = 0, numerator = 64, denominator = 68,
                         evaluated = 72, homeOfScores = 128;

BlobBuilder linearModel() {
  BlobBuilder b;
  const uint32_t inTraining = 1u << HM_PROGRAM_STEP,
                 inEvaluation = 1u << HM_PROGRAM_EVALUATE;
  b.device(4096);
  b.variable("w", HM_ROLE_PARAMETER, {3}, homeOfW, {0, 16});
  b.variable("batch", HM_ROLE_CONSTANT, {1}, denominator, {}, b.constant({2}));
  b.input("x", HM_F32, {0, 3}, 0, inTraining | inEvaluation);
  HmInput &labels = b.input("labels", HM_I64, {0}, 64, inTraining);
  labels.checked = 1;
  labels.high = 2;
  b.header.batchBytes = 80;
  b.output("scores", {0, 2}, homeOfScores);
  b.header.hostBytes = homeOfScores + 16;
  b.lossTerm(numerator, denominator, 1, HM_PROGRAM_STEP);
  b.lossTerm(evaluated, denominator, 1, HM_PROGRAM_EVALUATE);
  b.scalar(HM_SCALAR_LR, 0);
  uint32_t forward = b.kernel("forward", LinearForward);
  uint32_t gradient = b.kernel("gradient", LinearGradient);
  uint32_t update = b.kernel("update", LinearUpdate, HM_FAMILY_UPDATE);
  uint32_t scores = b.kernel("scores", LinearScores);

  // Arena.
  HmRef w = onDevice(0, 0, 12), x = onDevice(0, 64, 24),
        g = onDevice(0, 128, 32), sum = onDevice(0, 192, 4),
        result = onDevice(0, 256, 16);
  auto store = [](int64_t offset, int64_t bytes) {
    return in(HM_SPACE_HOST, offset, bytes);
  };

  b.queue(HM_PROGRAM_LOAD, "d0.in", HM_QUEUE_IN, 0)
      .copy(w, store(homeOfW, 12))
      .signal();
  b.program(HM_PROGRAM_LOAD, 0);
  b.queue(HM_PROGRAM_STORE, "d0.out", HM_QUEUE_OUT, 0)
      .copy(store(homeOfW, 12), w, HM_TRAFFIC_SWAP_OUT)
      .signal();
  b.program(HM_PROGRAM_STORE, 0);

  b.queue(HM_PROGRAM_STEP, "d0.in", HM_QUEUE_IN, 0)
      .wait(1, 0)
      .copy(x, in(HM_SPACE_BATCH, 0, 24), HM_TRAFFIC_INPUT)
      .signal();
  b.queue(HM_PROGRAM_STEP, "d0.compute", HM_QUEUE_COMPUTE, 0)
      .wait(0, 1)
      .wait(2, 0)
      .launch(forward, {w, x, sum}, 1)
      .launch(gradient, {x, g}, 2)
      .signal()
      .release(x)
      .launch(update, {w, g, in(HM_SPACE_SCALARS, 0, 4)}, 3)
      .signal();
  b.queue(HM_PROGRAM_STEP, "d0.out", HM_QUEUE_OUT, 0)
      .wait(1, 1)
      .copy(in(HM_SPACE_DUMP, 0, 12), onDevice(0, 128, 12), HM_TRAFFIC_OUTPUT)
      .copy(in(HM_SPACE_DUMP, 16, 12), onDevice(0, 144, 12), HM_TRAFFIC_OUTPUT)
      .copy(store(numerator, 4), sum, HM_TRAFFIC_OUTPUT)
      .signal();
  b.program(HM_PROGRAM_STEP, 2);

  b.queue(HM_PROGRAM_EVALUATE, "d0.in", HM_QUEUE_IN, 0)
      .wait(2, 0)
      .copy(w, store(homeOfW, 12))
      .copy(x, in(HM_SPACE_BATCH, 0, 24), HM_TRAFFIC_INPUT)
      .signal();
  b.queue(HM_PROGRAM_EVALUATE, "d0.compute", HM_QUEUE_COMPUTE, 0)
      .wait(0, 1)
      .launch(forward, {w, x, sum}, 1)
      .launch(scores, {w, x, result}, 2)
      .signal();
  b.queue(HM_PROGRAM_EVALUATE, "d0.out", HM_QUEUE_OUT, 0)
      .wait(1, 1)
      .copy(store(evaluated, 4), sum, HM_TRAFFIC_OUTPUT)
      .copy(store(homeOfScores, 16), result, HM_TRAFFIC_OUTPUT)
      .signal();
  b.program(HM_PROGRAM_EVALUATE, 2);
  return b;
}

} // namespace harmony::runtime::test
