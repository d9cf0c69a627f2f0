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

} // namespace harmony::planner

#endif // COMPILER_PLANNER_LIMITS_H
