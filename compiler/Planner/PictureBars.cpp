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

namespace {

bool isShort(const Bar &bar) { return bar.end - bar.begin < pixel; }

/// Short bars as pixels, each of the kind that has most of its width; those
/// alone of which `least` is covered.
std::vector<Bar> pixelsOf(const std::vector<Bar> &bars, double plotWidth,
                          double least) {
  constexpr size_t kinds = 2 * activityCount;
  std::map<int, std::array<double, kinds>> columns;
  for (const Bar &bar : bars) {
    if (!isShort(bar))
      continue;
    size_t kind =
        2 * static_cast<size_t>(bar.activity) + static_cast<size_t>(bar.pale);
    int column = static_cast<int>(bar.begin);
    double border = std::min(bar.end, column + 1.0);
    columns[column][kind] += border - bar.begin;
    if (bar.end > border)
      columns[column + 1][kind] += bar.end - border;
  }
  std::vector<Bar> pixels;
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
    pixels.push_back(bar);
  }
  return pixels;
}

/// Whether a bar continues the one before, so that they are drawn as one.
bool continues(const Bar &bar, const Bar &before) {
  return before.activity == bar.activity && before.pale == bar.pale &&
         bar.begin - before.end < 0.5 && bar.end - bar.begin < separateWidth &&
         (before.event < 0 || before.end - before.begin < separateWidth);
}

} // namespace

std::vector<Bar> coarsen(const std::vector<Bar> &bars, double plotWidth) {
  // So few that each can be seen, however short.
  constexpr size_t few = 300;
  std::vector<Bar> all;
  for (const Bar &bar : bars)
    if (!isShort(bar))
      all.push_back(bar);
  for (Bar &bar : pixelsOf(bars, plotWidth, bars.size() <= few ? 0 : 0.25))
    all.push_back(std::move(bar));
  sortByTime(all);
  // A pixel gives way to a bar that covers part of it.
  double covered = 0;
  std::vector<Bar> result;
  for (size_t i = 0; i < all.size(); ++i) {
    Bar &bar = all[i];
    if (bar.event < 0) {
      bar.begin = std::max(bar.begin, covered);
      if (i + 1 < all.size())
        bar.end = std::min(bar.end, std::max(bar.begin, all[i + 1].begin));
      if (bar.end - bar.begin < 0.1)
        continue;
    }
    covered = std::max(covered, bar.end);
    if (!result.empty() && continues(bar, result.back())) {
      result.back().end = std::max(result.back().end, bar.end);
      result.back().event = -1;
    } else {
      result.push_back(std::move(bar));
    }
  }
  return result;
}

} // namespace harmony::planner
