//===- PictureBars.cpp - What a queue does, as bars -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/PictureBars.h"

#include <algorithm>
#include <array>
#include <map>

namespace harmony::planner {

void sortByTime(std::vector<Bar> &bars) {
  std::sort(bars.begin(), bars.end(), [](const Bar &a, const Bar &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
}

std::vector<Bar> coarsen(const std::vector<Bar> &bars, double plotWidth) {
  constexpr size_t kinds = 2 * activityCount;
  // So few that each can be seen, however short.
  constexpr size_t few = 300;
  double least = bars.size() <= few ? 0 : 0.25;
  std::map<int, std::array<double, kinds>> columns;
  std::vector<Bar> result;
  for (const Bar &bar : bars) {
    if (bar.end - bar.begin >= pixel) {
      result.push_back(bar);
      continue;
    }
    size_t kind =
        2 * static_cast<size_t>(bar.activity) + static_cast<size_t>(bar.pale);
    int column = static_cast<int>(bar.begin);
    double border = std::min(bar.end, column + 1.0);
    columns[column][kind] += border - bar.begin;
    if (bar.end > border)
      columns[column + 1][kind] += bar.end - border;
  }
  for (const auto &[column, widths] : columns) {
    auto most = std::max_element(widths.begin(), widths.end());
    double sum = 0;
    for (double width : widths)
      sum += width;
    if (sum < least)
      continue;
    size_t kind = static_cast<size_t>(most - widths.begin());
    Bar bar{static_cast<Activity>(kind / 2),
            static_cast<double>(column),
            std::min(column + 1.0, plotWidth),
            kind % 2 == 1,
            "",
            -1,
            0};
    result.push_back(bar);
  }
  sortByTime(result);
  // A pixel gives way to a bar that covers part of it.
  double covered = 0;
  size_t kept = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    Bar &bar = result[i];
    if (bar.event < 0) {
      bar.begin = std::max(bar.begin, covered);
      if (i + 1 < result.size())
        bar.end = std::min(bar.end, std::max(bar.begin, result[i + 1].begin));
      if (bar.end - bar.begin < 0.1)
        continue;
    }
    covered = std::max(covered, bar.end);
    bool joins =
        kept > 0 && result[kept - 1].activity == bar.activity &&
        result[kept - 1].pale == bar.pale &&
        bar.begin - result[kept - 1].end < 0.5 &&
        bar.end - bar.begin < separateWidth &&
        (result[kept - 1].event < 0 ||
         result[kept - 1].end - result[kept - 1].begin < separateWidth);
    if (joins) {
      result[kept - 1].end = std::max(result[kept - 1].end, bar.end);
      result[kept - 1].event = -1;
    } else {
      if (kept != i)
        result[kept] = std::move(bar);
      ++kept;
    }
  }
  result.resize(kept);
  return result;
}

} // namespace harmony::planner
