//===- Shuffle.h - The order of samples -------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_SHUFFLE_H
#define RUNTIME_TRAIN_SHUFFLE_H

#include "runtime/hal/SplitMix.h"

#include <cstdint>
#include <vector>

namespace harmony::runtime {

/// Fills `order` (its size is the number of samples) for one epoch, counted
/// from 0: the samples in turn, or a Fisher-Yates shuffle that depends on seed
/// and epoch alone.
void sampleOrder(std::vector<int64_t> &order, bool shuffle, uint64_t seed,
                 uint64_t epoch);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_SHUFFLE_H
