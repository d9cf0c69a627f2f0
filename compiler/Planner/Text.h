//===- Text.h - Numbers for people ------------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to what the planner says about plans: text, explanation, picture.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_TEXT_H
#define COMPILER_PLANNER_TEXT_H

#include <cstdint>
#include <string>
#include <vector>

namespace harmony::planner {

struct Planned;

/// The form of a plan in one line: schedule, groups, packs, microbatches,
/// updates.
std::string planText(const Planned &planned);

/// "0.5", "8e+09": as short as six digits allow.
std::string numberText(double value);
/// "512 B", "1.50 MiB".
std::string bytesText(int64_t bytes);
/// "12.5 us", "3.20 ms", "1.250 s".
std::string secondsText(double seconds);
/// A share of one: "42 %", "3.1 %" below 10 %.
std::string percentText(double share);
/// "1 pack", "3 packs".
std::string countText(int64_t number, const std::string &thing);

/// "0-3, 5": ascending numbers, of which runs of three or more are ranges.
std::string rangesText(const std::vector<int> &numbers);

/// "3", "0 and 1", "0, 1 and 2".
template <typename Numbers>
std::string listText(const Numbers &numbers) {
  std::string text;
  size_t left = numbers.size();
  for (auto number : numbers) {
    text += std::to_string(number);
    --left;
    text += left > 1 ? ", " : left == 1 ? " and " : "";
  }
  return text;
}

} // namespace harmony::planner

#endif // COMPILER_PLANNER_TEXT_H
