//===- DescribeExplanation.cpp - What limits a plan, for people -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Explain.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <cstdio>

namespace harmony::planner {

namespace {

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, two spaces apart: the first to the
/// left, the rest to the right.
std::string tableText(const std::vector<Row> &rows) {
  std::vector<size_t> widths;
  for (const Row &row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row &row : rows) {
    text += "  ";
    for (size_t c = 0; c < row.size(); ++c) {
      std::string gap(widths[c] - row[c].size(), ' ');
      if (c > 0)
        text += "  ";
      text += c == 0 ? row[c] + gap : gap + row[c];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

/// "backward 47 %, forward 23 %": from the largest share down, without those
/// below 0.5 %.
std::string sharesText(std::vector<std::pair<std::string, double>> shares,
                       double whole) {
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const auto &a, const auto &b) { return a.second > b.second; });
  std::string text;
  for (const auto &[what, seconds] : shares)
    if (seconds >= 0.005 * whole)
      text += (text.empty() ? "" : ", ") + what + " " +
              percentText(seconds / whole);
  return text;
}

int64_t swapped(const Plan &plan) {
  return plan.traffic[static_cast<int>(Traffic::SwapIn)] +
         plan.traffic[static_cast<int>(Traffic::SwapOut)];
}

/// One sentence: what the critical path is mostly made of.
std::string limitText(const Explanation &explanation) {
  auto of = [&](Activity activity) {
    return explanation.critical[static_cast<int>(activity)];
  };
  double in = of(Activity::SwapIn) + of(Activity::Input);
  double room = std::min(in, explanation.criticalRoom);
  std::vector<std::pair<double, std::string>> limits = {
      {of(Activity::Forward) + of(Activity::Backward), "computing"},
      {of(Activity::Recompute), "recomputation, which more memory would avoid"},
      {in - room, "the links from the host"},
      {room, "memory: transfers in wait until there is room for them"},
      {of(Activity::SwapOut) + of(Activity::Output), "the links to the host"},
      {of(Activity::Peer), "the links between devices"},
      {of(Activity::Update), "updates"},
      {of(Activity::Release), "freeing packs"}};
  std::stable_sort(
      limits.begin(), limits.end(),
      [](const auto &a, const auto &b) { return a.first > b.first; });
  std::string text = "limited by ";
  for (size_t i = 0; i < 2; ++i)
    if (i == 0 || limits[i].first >= 0.1 * explanation.period)
      text += (i > 0 ? "; then by " : "") + limits[i].second + " (" +
              percentText(limits[i].first / explanation.period) +
              " of the critical path)";
  return text + "\n";
}

/// The best of every other form.
std::string runnersUpText(const Planned &planned) {
  if (planned.runnersUp.size() < 2)
    return "";
  std::vector<Row> rows = {{"best of each form", "microbatches", "packs F / B",
                            "iteration", "of the best", "swaps", "peak"}};
  double best = planned.runnersUp.front().seconds;
  constexpr size_t shown = 12;
  for (const RunnerUp &other : planned.runnersUp) {
    if (rows.size() > shown)
      break;
    rows.push_back({other.form, listText(other.microbatches),
                    std::to_string(other.forwardPacks) + " / " +
                        std::to_string(other.backwardPacks),
                    secondsText(other.seconds),
                    best > 0 ? percentText(other.seconds / best) : "",
                    bytesText(other.swapBytes), bytesText(other.peakBytes)});
  }
  return tableText(rows);
}

std::string boundsText(const Planned &planned) {
  if (planned.boundSeconds <= 0)
    return "";
  auto times = [&](double bound) {
    char factor[32];
    std::snprintf(factor, sizeof factor, "%.3f", planned.plan.seconds / bound);
    return std::string(factor);
  };
  std::string text = "no plan is faster than " +
                     secondsText(planned.boundSeconds) + "; this one takes " +
                     times(planned.boundSeconds) + " times that\n";
  // Where a bound of other groups is the least, the distance says little.
  if (planned.groupsBoundSeconds > planned.boundSeconds)
    text += "none of " + countText(planned.plan.groups, "group") +
            " is faster than " + secondsText(planned.groupsBoundSeconds) +
            ": " + times(planned.groupsBoundSeconds) + " times\n";
  return text;
}

} // namespace

std::string describe(const Explanation &explanation, const Planned &planned) {
  double period = explanation.period;
  if (period <= 0)
    return "nothing takes time\n";
  std::string text = limitText(explanation);

  std::vector<std::pair<std::string, double>> critical;
  for (int a = 0; a < activityCount; ++a)
    critical.push_back(
        {name(static_cast<Activity>(a)), explanation.critical[a]});
  critical.push_back({"not explained", explanation.criticalUnknown});
  text += "critical path: " + sharesText(critical, period) + "\n";

  std::vector<Row> rows = {{"share of an iteration"}};
  std::vector<int> works, waits; // columns that are not empty
  auto any = [&](auto member) {
    return std::any_of(explanation.devices.begin(), explanation.devices.end(),
                       [&](const DeviceTime &time) {
                         return member(time) >= 0.0005 * period;
                       });
  };
  for (int a = 0; a < activityCount; ++a)
    if (any([&](const DeviceTime &time) { return time.works[a]; })) {
      works.push_back(a);
      rows[0].push_back(name(static_cast<Activity>(a)));
    }
  for (int l = 0; l < lackCount; ++l)
    if (any([&](const DeviceTime &time) { return time.waits[l]; })) {
      waits.push_back(l);
      rows[0].push_back(std::string("waits: ") + name(static_cast<Lack>(l)));
    }
  bool unknown = any([](const DeviceTime &time) { return time.unknown; });
  if (unknown)
    rows[0].push_back("not explained");
  for (size_t d = 0; d < explanation.devices.size(); ++d) {
    const DeviceTime &time = explanation.devices[d];
    Row row = {"device " + std::to_string(d)};
    for (int a : works)
      row.push_back(percentText(time.works[a] / period));
    for (int l : waits)
      row.push_back(percentText(time.waits[l] / period));
    if (unknown)
      row.push_back(percentText(time.unknown / period));
    rows.push_back(std::move(row));
  }
  text += tableText(rows);

  constexpr size_t shown = 4;
  std::string carriers;
  for (size_t c = 0; c < std::min(shown, explanation.carriers.size()); ++c)
    carriers += (c > 0 ? ", " : "") + explanation.carriers[c].name + " " +
                percentText(explanation.carriers[c].share);
  if (!carriers.empty())
    text += "bandwidth in use: " + carriers + "\n";
  return text + boundsText(planned) + runnersUpText(planned);
}

std::string describe(const std::vector<WhatIf> &whatIfs,
                     const Planned &planned) {
  const Plan &plan = planned.plan;
  std::vector<Row> rows = {{"what would help", "iteration", "faster", "swaps"}};
  rows.push_back(
      {"as it is", secondsText(plan.seconds), "", bytesText(swapped(plan))});
  for (const WhatIf &whatIf : whatIfs) {
    if (!whatIf.planned) {
      rows.push_back({whatIf.change, "no plan fits"});
      continue;
    }
    const Plan &other = whatIf.planned->plan;
    rows.push_back({whatIf.change, secondsText(other.seconds),
                    percentText(1 - other.seconds / plan.seconds),
                    bytesText(swapped(other))});
  }
  return tableText(rows);
}

} // namespace harmony::planner
