//===- Machine.h - What is planned for --------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_MACHINE_H
#define COMPILER_PLANNER_MACHINE_H

#include "compiler/Planner/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace harmony::planner {

/// The endpoint of a link that is no device.
inline constexpr int hostEndpoint = -1;

struct Device {
  std::string name;
  int64_t capacity = 0; ///< bytes of the arena
  double flopsPerSecond =
      0; ///< for the cost model; the planner reads layer costs
  double bytesPerSecond = 0; ///< of the device's memory; likewise
};

/// A directed link. Transfers that are under way on it share its bandwidth.
struct Link {
  int from = hostEndpoint, to = 0; ///< device index or hostEndpoint
  double bytesPerSecond = 0;
  double latencySeconds = 0;
};

struct Machine {
  std::string name;
  std::vector<Device> devices;
  std::vector<Link> links;
  int64_t hostBytes = 0; ///< of the host store; 0: not limited

  /// Throws Error: no device, a link to nowhere, a bandwidth that is not
  /// positive, a device without a link from or to the host.
  void check() const;
  /// The link between two endpoints; Error if there is none.
  const Link &link(int from, int to) const;

  /// `count` equal devices, each with a link of its own to and from the host.
  static Machine uniform(const std::string &name, int count, int64_t capacity,
                         double linkBytesPerSecond, double linkLatencySeconds);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_MACHINE_H
