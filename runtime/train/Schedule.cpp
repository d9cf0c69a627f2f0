//===- Schedule.cpp - What changes from step to step ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Schedule.h"

#include <cmath>

namespace harmony::runtime {

Hyperparameters defaultHyperparameters(HmOptimizer optimizer) {
  Hyperparameters p;
  p.rate = optimizer == HM_OPTIMIZER_SGD ? 0.01 : 1e-3;
  p.momentum = 0.9;
  p.beta1 = 0.9;
  p.beta2 = 0.999;
  p.epsilon = 1e-8;
  p.weightDecay = optimizer == HM_OPTIMIZER_ADAMW ? 0.01 : 0;
  p.maxNorm = 1;
  return p;
}

double learningRate(const Hyperparameters &p, int64_t t, int64_t total) {
  if (t <= p.warmup)
    return p.rate * static_cast<double>(t) / static_cast<double>(p.warmup);
  if (p.schedule == RateSchedule::Constant)
    return p.rate;
  double done = static_cast<double>(t - 1 - p.warmup) /
                static_cast<double>(total - p.warmup);
  if (p.schedule == RateSchedule::Linear)
    return p.rate * (1 - done);
  return p.rate * 0.5 * (1 + std::cos(M_PI * done));
}

double scalarValue(HmScalarKind kind, const Hyperparameters &p, double rate,
                   int64_t t) {
  double steps = static_cast<double>(t);
  switch (kind) {
  case HM_SCALAR_LR:
    return rate;
  case HM_SCALAR_DECAY_FACTOR:
    return 1 - rate * p.weightDecay;
  case HM_SCALAR_WEIGHT_DECAY:
    return p.weightDecay;
  case HM_SCALAR_BETA1:
    return p.beta1;
  case HM_SCALAR_BETA2:
    return p.beta2;
  case HM_SCALAR_EPSILON:
    return p.epsilon;
  case HM_SCALAR_STEP_SIZE:
    return rate / (1 - std::pow(p.beta1, steps));
  case HM_SCALAR_SQRT_CORRECTION2:
    return std::sqrt(1 - std::pow(p.beta2, steps));
  case HM_SCALAR_MOMENTUM:
    return t == 1 ? 0 : p.momentum;
  case HM_SCALAR_ONE_MINUS_BETA1:
    return 1 - p.beta1;
  case HM_SCALAR_ONE_MINUS_BETA2:
    return 1 - p.beta2;
  case HM_SCALAR_MAX_NORM:
    return p.maxNorm;
  case HM_SCALAR_GRAD_NORM: // not read before the program has written it
  case HM_SCALAR_COUNT:
    return 0;
  }
  return 0;
}

} // namespace harmony::runtime
