//===- Draw.h - What is damaged, at random ----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_DRAW_H
#define TEST_UNIT_PLANNER_DRAW_H

#include <cstddef>
#include <random>

namespace harmony::planner::test {

using Generator = std::mt19937;

inline int below(Generator &generator, size_t n) {
  return static_cast<int>(generator() % static_cast<unsigned>(n));
}

/// An index that satisfies `accept`, or -1 if none is found at random.
template <typename Accept>
int draw(Generator &generator, size_t count, Accept accept) {
  for (int attempt = 0; attempt < 50 && count > 0; ++attempt)
    if (int i = below(generator, count); accept(i))
      return i;
  return -1;
}

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_DRAW_H
