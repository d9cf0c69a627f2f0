//===- ScheduleTest.cpp - Orders of samples, rates and scalars ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Schedule.h"
#include "runtime/train/Shuffle.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace harmony::runtime {
namespace {

TEST(Shuffle, DependsOnSeedAndEpochAlone) {
  auto order = [](uint64_t seed, uint64_t epoch) {
    std::vector<int64_t> result(100);
    sampleOrder(result, true, seed, epoch);
    return result;
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 1));
  std::vector<int64_t> sorted = order(7, 7);
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
}

TEST(Shuffle, FirstPlaceIsUniform) {
  std::vector<int> counts(5);
  std::vector<int64_t> order(5);
  for (uint64_t epoch = 0; epoch < 10000; ++epoch) {
    sampleOrder(order, true, 0, epoch);
    ++counts[order[0]];
  }
  for (int count : counts)
    EXPECT_NEAR(count, 2000, 200); // five standard deviations
}

TEST(Schedule, Rates) {
  Hyperparameters p;
  p.rate = 0.8;
  p.warmup = 4;
  EXPECT_DOUBLE_EQ(learningRate(p, 1, 12), 0.2);
  EXPECT_DOUBLE_EQ(learningRate(p, 4, 12), 0.8);
  EXPECT_DOUBLE_EQ(learningRate(p, 12, 12), 0.8);
  p.schedule = RateSchedule::Linear;
  EXPECT_DOUBLE_EQ(learningRate(p, 5, 12), 0.8);
  EXPECT_DOUBLE_EQ(learningRate(p, 9, 12), 0.4);
  EXPECT_DOUBLE_EQ(learningRate(p, 12, 12), 0.1);
  p.schedule = RateSchedule::Cosine;
  EXPECT_DOUBLE_EQ(learningRate(p, 5, 12), 0.8);
  EXPECT_DOUBLE_EQ(learningRate(p, 9, 12), 0.4);
}

TEST(Schedule, Scalars) {
  Hyperparameters p = defaultHyperparameters(HM_OPTIMIZER_ADAMW);
  auto value = [&](HmScalarKind kind, int64_t t) {
    return scalarValue(kind, p, 1e-3, t);
  };
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_LR, 1), 1e-3);
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_DECAY_FACTOR, 1), 1 - 1e-5);
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_STEP_SIZE, 2), 1e-3 / (1 - 0.9 * 0.9));
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_SQRT_CORRECTION2, 2),
                   std::sqrt(1 - 0.999 * 0.999));
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_ONE_MINUS_BETA1, 1), 1 - 0.9);
  EXPECT_DOUBLE_EQ(value(HM_SCALAR_ONE_MINUS_BETA2, 1), 1 - 0.999);
  EXPECT_EQ(value(HM_SCALAR_MOMENTUM, 1), 0);
  EXPECT_EQ(value(HM_SCALAR_MOMENTUM, 2), 0.9);
  EXPECT_EQ(value(HM_SCALAR_BETA1, 3), 0.9);
  EXPECT_EQ(value(HM_SCALAR_BETA2, 3), 0.999);
  EXPECT_EQ(value(HM_SCALAR_EPSILON, 3), 1e-8);
  EXPECT_EQ(value(HM_SCALAR_WEIGHT_DECAY, 3), 0.01);
  EXPECT_EQ(value(HM_SCALAR_MAX_NORM, 3), 1);
}

} // namespace
} // namespace harmony::runtime
