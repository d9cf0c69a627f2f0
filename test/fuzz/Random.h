//===- Random.h - Choices of the mutators -----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_RANDOM_H
#define TEST_FUZZ_RANDOM_H

#include "runtime/hal/SplitMix.h"

#include <cstddef>
#include <cstdint>

namespace harmony::fuzz {

class Random {
public:
  explicit Random(uint64_t seed) : generator(seed) {}

  uint64_t next() { return generator.next(); }
  /// In [0, bound); `bound` is at least 1.
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }
  /// True once in `n` times.
  bool oneIn(size_t n) { return below(n) == 0; }

  /// Numbers at which extents, axes, sizes and offsets go wrong, and small
  /// ones.
  int64_t integer() {
    static constexpr int64_t edges[] = {INT64_MIN,
                                        INT64_MIN + 1,
                                        INT64_MAX,
                                        INT64_MAX - 1,
                                        INT64_MAX / 2,
                                        INT32_MIN,
                                        INT32_MAX,
                                        INT64_C(1) << 31,
                                        UINT32_MAX,
                                        INT64_C(1) << 32,
                                        INT64_C(1) << 40,
                                        INT64_C(1) << 62,
                                        65535,
                                        65536,
                                        127,
                                        128,
                                        255,
                                        256,
                                        1000,
                                        1000000,
                                        100000000,
                                        -1,
                                        -2,
                                        -3,
                                        -4,
                                        -100,
                                        0,
                                        0,
                                        1,
                                        1};
    constexpr size_t count = sizeof edges / sizeof *edges;
    return oneIn(3) ? edges[below(count)] : static_cast<int64_t>(below(9)) - 2;
  }

private:
  runtime::SplitMix generator;
};

} // namespace harmony::fuzz

#endif // TEST_FUZZ_RANDOM_H
