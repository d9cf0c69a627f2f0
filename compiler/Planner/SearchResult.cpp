//===- SearchResult.cpp - Refusals of the search --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/SearchResult.h"

#include <iterator>

namespace harmony::planner {

namespace {

constexpr const char *scheduleNames[] = {"auto", "harmony-pp", "harmony-dp",
                                         "pp-swap", "dp-swap"};

} // namespace

const char *name(Schedule schedule) {
  return scheduleNames[static_cast<int>(schedule)];
}

std::optional<Schedule> scheduleNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(scheduleNames); ++i)
    if (name == scheduleNames[i])
      return static_cast<Schedule>(i);
  return std::nullopt;
}

Infeasible refuse(const Problem &problem, const Machine &machine,
                  const std::vector<int64_t> &peaks) {
  Infeasible result;
  result.minDeviceBytes = *std::max_element(peaks.begin(), peaks.end());
  for (int d = 1; d < static_cast<int>(peaks.size()); ++d)
    if (peaks[d] - machine.devices[d].capacity >
        peaks[result.device] - machine.devices[result.device].capacity)
      result.device = d;
  result.boundBytes = lowerBound(problem);
  result.capacity = machine.devices[result.device].capacity;
  result.largestLayer = largestLayer(problem);
  result.message =
      "does not fit: device " + std::to_string(result.device) + " has " +
      std::to_string(result.capacity) + " bytes, the least plan needs " +
      std::to_string(peaks[result.device]) + "; the largest layer is '" +
      problem.layers[result.largestLayer].name +
      "': its tensors, gradients, values and workspace have " +
      std::to_string(result.boundBytes) + " bytes at a microbatch of " +
      std::to_string(problem.microbatches.front());
  return result;
}

Infeasible refuseHost(const Problem &problem, const Machine &machine,
                      const std::vector<int64_t> &peaks, int64_t needed) {
  Infeasible result = refuse(problem, machine, peaks);
  result.hostBytesNeeded = needed;
  result.hostBytes = machine.hostBytes;
  result.message =
      "does not fit: the host store has " + std::to_string(machine.hostBytes) +
      " bytes, the plan that needs least of it " + std::to_string(needed);
  return result;
}

} // namespace harmony::planner
