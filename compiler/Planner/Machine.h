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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmony::planner {

/// The endpoint of a link that is no device.
inline constexpr int hostEndpoint = -1;

/// What one call of the product library reaches, all workers computing at once:
/// a result of rows x columns, each element a sum of `depth` products.
struct ProductRate {
  int64_t rows = 0, columns = 0, depth = 0;
  double flopsPerSecond = 0; ///< of one worker
};

/// What all workers together read and write in a second where a kernel touches
/// so many bytes.
struct MemoryRate {
  int64_t bytes = 0;
  double bytesPerSecond = 0;
};

/// Speeds are for the cost model alone; the planner reads layer costs.
struct Device {
  std::string name;
  int64_t capacity = 0;      ///< bytes of the arena
  double flopsPerSecond = 0; ///< of products
  double bytesPerSecond = 0; ///< of the device's memory
  double launchSeconds = 2e-6;
  int workers = 1; ///< that share a launch; 1 also where that is not known
  /// Elementwise f32 operations, all workers together; 0: memory alone limits.
  double operationsPerSecond = 0;
  double updateBytesPerSecond = 0; ///< of optimizers; 0: bytesPerSecond
  /// Rates by size, measured (harmonyc machine): of all combinations of some
  /// rows, columns and depths; by ascending bytes. Empty: the rates above.
  std::vector<ProductRate> products = {};
  std::vector<MemoryRate> memory = {};
};

/// Bandwidth that several links share: a host root port, a switch, the host's
/// memory.
struct Resource {
  std::string name;
  double bytesPerSecond = 0;
};

/// A directed link. A transfer crosses the link and the resources that it
/// shares, and counts as under way there from its start, its latency included.
struct Link {
  int from = hostEndpoint, to = 0; ///< device index or hostEndpoint
  double bytesPerSecond = 0;
  double latencySeconds = 0;
  std::vector<int> shares; ///< in Machine::resources
};

/// What transfers that are under way at once get of the links and resources
/// that they cross.
enum class Sharing {
  MaxMin, ///< max-min fair shares (progressive filling): what one transfer
          ///< cannot use for another limit is left to the others
  Static  ///< of a link all; of a resource an n-th at all times, n being the
          ///< devices that the plan uses: the model of Harmony's artifact
};

struct Machine {
  std::string name;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Resource> resources;
  Sharing sharing = Sharing::MaxMin;
  int64_t hostBytes = 0; ///< of the host store; 0: not limited
  /// Engines on the host that update tensors, each one at a time: those of
  /// device d have engine d % hostQueues.
  int hostQueues = 1;
  /// The compute queue is held up for this long at the end of every phase:
  /// what freeing a pack's memory takes where addresses are not static.
  double phaseSeconds = 0;
  double hostUpdateBytesPerSecond = 0; ///< 0: that of device 0

  /// Throws Error: no device, a link to nowhere or a second one, a rate or a
  /// time out of range (Limits.h), a device without a link from or to the host,
  /// no host queue.
  void check() const;
  /// The link between two endpoints; Error if there is none.
  const Link &link(int from, int to) const;
  /// Whether there is one: devices without a link between them exchange data
  /// through the host.
  bool hasLink(int from, int to) const;

  /// `count` equal devices, each with a link of its own to and from the host,
  /// and to every other device if `peer.bytesPerSecond` is not 0. Where
  /// `sharedHostBytesPerSecond` is not 0, all links from the host share that
  /// much, and so do all links to it.
  static Machine uniform(const std::string &name, int count, int64_t capacity,
                         double linkBytesPerSecond, double linkLatencySeconds,
                         const Link &peer = {},
                         double sharedHostBytesPerSecond = 0);

  /// A machine that is described here, by name; none if it is not known.
  static std::optional<Machine> named(std::string_view name);
  static const std::vector<std::string> &names();
};

const char *name(Sharing sharing);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_MACHINE_H
