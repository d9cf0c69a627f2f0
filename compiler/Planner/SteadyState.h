//===- SteadyState.h - One iteration of a plan, over and over ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The simulated timeline of one execution, of which every other one is a copy
// `period` seconds earlier or later. What begins below 0 overlaps the end of
// the execution before. Private to the picture and the explanation of a plan.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_STEADYSTATE_H
#define COMPILER_PLANNER_STEADYSTATE_H

#include "compiler/Planner/Build.h"

namespace harmony::planner {

/// What a queue does.
enum class Activity {
  Forward,
  Recompute,
  Backward,
  Update,  ///< optimizer, contributions, prologue and epilogue
  Release, ///< what a phase takes beyond its steps
  SwapIn,
  SwapOut,
  Peer,
  Input,
  Output
};
inline constexpr int activityCount = 10;
const char *name(Activity activity);
/// Of an event that is no Run.
Activity activityOf(const Event &event, const Problem &problem);

/// A stretch of time with one activity.
struct Stretch {
  Activity activity = Activity::Forward;
  double begin = 0, end = 0;
};

/// What a buffer holds, roughly.
enum class Holding { State, Gradients, Activations, Workspace };
inline constexpr int holdingCount = 4;
Holding holdingOf(Content content);

/// The arena of a device from `begin` to the next point's.
struct MemoryPoint {
  double begin = 0;
  std::array<int64_t, holdingCount> bytes{}; ///< live, aligned, by Holding
  int64_t highest = 0;                       ///< end address of what is live
  int64_t live() const;
};

class SteadyState {
public:
  SteadyState(const Plan &plan, const Problem &problem, const Machine &machine);

  double period = 0;
  std::vector<Interval> intervals; ///< of one execution, by event, iteration

  const Interval &at(int event, int64_t iteration) const {
    return intervals[first[event] + static_cast<size_t>(iteration)];
  }
  /// The steps of a Run one after the other, equal neighbours joined; or the
  /// whole interval.
  std::vector<Stretch> stretches(const Interval &interval) const;
  /// Over the period [0, period), with what executions before and after have
  /// there; the first point begins at 0. A buffer is live from the first step of
  /// its live range to the last, or until its addresses get another use.
  std::vector<MemoryPoint> memory(int device) const;

private:
  struct Life {
    double begin, end;
    int64_t offset, bytes;
    Holding holding;
  };
  const Plan &plan;
  const Problem &problem;
  std::vector<size_t> first; ///< of each event, in `intervals`

  /// From the begin of an iteration to that of a step, if a Run.
  double secondsBefore(const Event &event, int step) const;
  std::vector<Life> lives(int device) const;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_STEADYSTATE_H
