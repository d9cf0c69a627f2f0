//===- Text.cpp - Numbers for people --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Text.h"

#include <cstdio>

namespace harmony::planner {

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string bytesText(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value,
                units[unit]);
  return text;
}

std::string secondsText(double seconds) {
  char text[64];
  if (seconds >= 1e9)
    return numberText(seconds) + " s";
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

std::string percentText(double share) {
  char text[64];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%",
                100 * share);
  return text;
}

std::string rangesText(const std::vector<int> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    if (end - i < 3)
      end = i + 1;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1)
      text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string countText(int64_t number, const std::string &thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

} // namespace harmony::planner
