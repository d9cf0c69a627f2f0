//===- PictureBars.h - What a queue does, as bars ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the picture of a plan.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PICTUREBARS_H
#define COMPILER_PLANNER_PICTUREBARS_H

#include "compiler/Planner/SteadyState.h"

#include <string>
#include <vector>

namespace harmony::planner {

constexpr double pixel = 1;
/// Neighbours stand apart from this width on.
constexpr double separateWidth = 3;

/// A bar within the period.
struct Bar {
  Activity activity;
  double begin, end; ///< pixels from the plot's left edge
  bool pale;         ///< of the execution before or after
  std::string title; ///< short: what is written in it where there is room
  int event;         ///< -1: of several
  int64_t iteration;
};

void sortByTime(std::vector<Bar> &bars);

/// Bars that are too narrow to be seen one by one become pixels with what
/// takes most of each; the rest are as they are. Sorted by time.
std::vector<Bar> coarsen(const std::vector<Bar> &bars, double plotWidth);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PICTUREBARS_H
