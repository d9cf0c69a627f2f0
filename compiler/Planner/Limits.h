//===- Limits.h - What a planner's numbers may be ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_LIMITS_H
#define COMPILER_PLANNER_LIMITS_H

#include <cstdint>

namespace harmony::planner {

/// Of one thing, a buffer or an offset: sums of as many as there can be in a
/// plan do not overflow, and executables take it (runtime/engine/Blob.cpp).
inline constexpr int64_t maximalBytes = int64_t(1) << 45;

/// Of bytes, FLOP or operations a second, and of seconds: times of plans are
/// then finite, and what follows what is told from them.
inline constexpr double minimalRate = 1, maximalRate = 1e30;
inline constexpr double maximalLatency = 1e9;  ///< what a machine charges once
inline constexpr double maximalSeconds = 1e18; ///< of a layer

} // namespace harmony::planner

#endif // COMPILER_PLANNER_LIMITS_H
