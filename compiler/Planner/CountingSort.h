//===- CountingSort.h - Sorting by small keys -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_COUNTINGSORT_H
#define COMPILER_PLANNER_COUNTINGSORT_H

#include <cstddef>
#include <numeric>
#include <vector>

namespace harmony::planner {

/// Sorts stably by keys from 0 on, in time linear in elements and keys. Keeps
/// its memory from one call to the next.
template <typename T>
class CountingSort {
public:
  /// `key` gives an element's, below `keys`.
  template <typename Key>
  void operator()(std::vector<T> &list, int keys, Key key) {
    ends.assign(static_cast<size_t>(keys) + 1, 0);
    for (const T &element : list)
      ++ends[key(element) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    sorted.resize(list.size());
    // What is the begin of a key's elements so far becomes their end.
    for (const T &element : list)
      sorted[ends[key(element)]++] = element;
    list.swap(sorted);
  }

  /// Of what was sorted last: behind the last element of a key.
  int end(int key) const { return ends[key]; }

private:
  std::vector<int> ends;
  std::vector<T> sorted;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_COUNTINGSORT_H
