//===- SearchResult.h - Refusals of the search ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search and the baselines' search.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SEARCHRESULT_H
#define COMPILER_PLANNER_SEARCHRESULT_H

#include "compiler/Planner/Search.h"

#include <algorithm>
#include <limits>

namespace harmony::planner {

/// The least plan of a command: the same for every capacity.
template <typename T>
struct Least {
  std::vector<int64_t> peaks; ///< by device
  T choices;

  int64_t bytes() const {
    return peaks.empty() ? std::numeric_limits<int64_t>::max()
                         : *std::max_element(peaks.begin(), peaks.end());
  }
  bool fits(const Machine &machine) const {
    for (size_t d = 0; d < peaks.size(); ++d)
      if (peaks[d] > machine.devices[d].capacity)
        return false;
    return true;
  }
};

/// No plan: `peaks` of the least plan, of which the one that is farthest above
/// its device's capacity is named.
Infeasible refuse(const Problem &problem, const Machine &machine,
                  const std::vector<int64_t> &peaks);
/// The host store is what is too small.
Infeasible refuseHost(const Problem &problem, const Machine &machine,
                      const std::vector<int64_t> &peaks, int64_t needed);

/// A fully built candidate, small enough to be kept for the final choice.
template <typename T>
struct Candidate {
  T choices;
  double seconds = 0;
  double computeSeconds = 0; ///< of the busiest device
  int64_t swapBytes = 0;
  int64_t peakBytes = 0; ///< of the fullest device
};

/// Of all candidates within 1 % of the best time the one that swaps least. `C`
/// is a Candidate.
template <typename C>
const C &chooseFrom(const std::vector<C> &candidates) {
  constexpr double equalTime = 1.01;
  double best = std::numeric_limits<double>::infinity();
  for (const C &candidate : candidates)
    best = std::min(best, candidate.seconds);
  const C *chosen = nullptr;
  for (const C &candidate : candidates) {
    if (candidate.seconds > best * equalTime)
      continue;
    if (!chosen || candidate.swapBytes < chosen->swapBytes ||
        (candidate.swapBytes == chosen->swapBytes &&
         candidate.seconds < chosen->seconds))
      chosen = &candidate;
  }
  return *chosen;
}

inline int64_t swapBytes(const Plan &plan) {
  return plan.traffic[static_cast<int>(Traffic::SwapIn)] +
         plan.traffic[static_cast<int>(Traffic::SwapOut)];
}

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SEARCHRESULT_H
