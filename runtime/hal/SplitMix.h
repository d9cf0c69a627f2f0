//===- SplitMix.h - Random numbers ------------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_SPLITMIX_H
#define RUNTIME_HAL_SPLITMIX_H

#include <cstdint>

namespace harmony::runtime {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, OOPSLA 2014): the same sequence on every machine.
class SplitMix {
public:
  explicit SplitMix(uint64_t state) : state(state) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound), without bias (Lemire, Fast Random Integer
  /// Generation in an Interval, 2019). `bound` is positive.
  uint64_t below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<uint64_t>(product) < bound)
      for (uint64_t threshold = -bound % bound;
           static_cast<uint64_t>(product) < threshold;)
        product = static_cast<unsigned __int128>(next()) * bound;
    return static_cast<uint64_t>(product >> 64);
  }

  /// Uniform in [-1, 1).
  double symmetric() {
    return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0;
  }

private:
  uint64_t state;
};

} // namespace harmony::runtime

#endif // RUNTIME_HAL_SPLITMIX_H
