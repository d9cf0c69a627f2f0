//===- Schedule.h - What changes from step to step --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_SCHEDULE_H
#define RUNTIME_TRAIN_SCHEDULE_H

#include "runtime/program.h"

#include <cstdint>
#include <string>

namespace harmony::runtime {

enum class RateSchedule { Constant, Linear, Cosine };

struct Hyperparameters {
  double rate = 0;
  RateSchedule schedule = RateSchedule::Constant;
  int64_t warmup = 0; // steps
  double momentum = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weightDecay = 0;
  double maxNorm = 0; // of all gradients together; for programs that clip
};

/// PyTorch's values where it has them: see docs of --lr and the others.
Hyperparameters defaultHyperparameters(HmOptimizer optimizer);

/// Learning rate of step t, counted from 1, of `total`: rises as rate * t /
/// warmup over the first `warmup` steps; then constant, or falling from the
/// full rate in step warmup + 1 towards zero after the last step, linearly or
/// as half a cosine period.
double learningRate(const Hyperparameters &parameters, int64_t t,
                    int64_t total);

/// The value that HmScalarKind documents, for step t with learning rate `rate`;
/// computed in double.
double scalarValue(HmScalarKind kind, const Hyperparameters &parameters,
                   double rate, int64_t t);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_SCHEDULE_H
