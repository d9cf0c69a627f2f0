//===- Explain.h - What limits a plan, and what would help ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every interval of the simulated timeline begins when the last of what it
// waits for ends: the one before on its queue, or an awaited event. Walking
// back through these causes tells what a gap on a compute queue was spent on,
// and what the time of an iteration is made of.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_EXPLAIN_H
#define COMPILER_PLANNER_EXPLAIN_H

#include "compiler/Planner/Search.h"
#include "compiler/Planner/SteadyState.h"

#include <functional>

namespace harmony::planner {

/// What a compute queue waits for.
enum class Lack {
  Load,   ///< a transfer in, which the link did not bring sooner
  Room,   ///< the same, by as much as it waited until there was memory for it
  Store,  ///< a transfer out
  Peer,   ///< a copy from or to another device
  Host,   ///< the host's updates
  Devices ///< other devices' work and what they wait for: bubbles
};
inline constexpr int lackCount = 6;
const char *name(Lack lack);

/// One iteration of a device's compute queue, in seconds. All together are the
/// period, but for `unknown`.
struct DeviceTime {
  std::array<double, activityCount> works{};
  std::array<double, lackCount> waits{};
  /// Gaps that no cause fills: executions are not yet equal.
  double unknown = 0;
};

/// A link, or a resource that links share.
struct Carrier {
  std::string name;
  double share = 0; ///< of the bytes that it could carry in an iteration
};

struct Explanation {
  double period = 0;
  std::vector<DeviceTime> devices;
  /// One period of the chain of causes that ends with the iteration.
  std::array<double, activityCount> critical{};
  /// Of `critical`, what loads were late for want of memory.
  double criticalRoom = 0;
  double criticalUnknown = 0;
  std::vector<Carrier> carriers; ///< busiest first; none that carries nothing
};

Explanation explain(const Plan &plan, const Problem &problem,
                    const Machine &machine);

/// Another machine, and the plan that the same search finds for it.
struct WhatIf {
  std::string change;
  std::optional<Planned> planned; ///< none: no plan fits
};

/// One more GiB on each device (a tenth more where there are less than 8 GiB),
/// links to the host, links between devices twice as fast with what they
/// share, one more device. `solve` is called for each machine and gives nothing
/// where no plan fits; `more` is the machine with one more device, null: a copy
/// of the last one.
std::vector<WhatIf>
whatIfs(const Machine &machine, const Machine *more,
        const std::function<std::optional<Planned>(const Machine &)> &solve);

/// For people.
std::string describe(const Explanation &explanation, const Planned &planned);
std::string describe(const std::vector<WhatIf> &whatIfs,
                     const Planned &planned);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_EXPLAIN_H
