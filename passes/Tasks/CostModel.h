//===- CostModel.h - Seconds of tasks ---------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A roofline for each launch, by the rates of a machine:
//
//   product      max(waves * FLOP of a call / rate of such calls,
//                    bytes / bandwidth), waves = ceil(calls / workers)
//   kernel       max(bytes / bandwidth, operations / rate)
//
// and what starting it takes. A task whose measured cost is known has that;
// the others of its direction are scaled by the median of measured by modelled.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_COSTMODEL_H
#define PASSES_TASKS_COSTMODEL_H

#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Measurements.h"
#include "passes/Tasks/LowerTask.h"
#include "runtime/program.h"

#include <map>
#include <set>

namespace harmony {

class CostModel {
public:
  /// Rates are those of the machine's first device. `measurements` may be null.
  /// Both outlive the model.
  CostModel(const planner::Machine &machine,
            const planner::Measurements *measurements);

  /// Seconds of one execution of a task on a device. While measurements are
  /// used, a modelled cost is negative until settle() has scaled it. `kind`:
  /// of the layer functions' three directions.
  double seconds(const TaskCost &cost, HmTaskKind kind);

  /// Scales the modelled costs of a problem's functions, and gives it the
  /// measured costs of updates.
  void settle(planner::Problem &problem) const;

  /// What an update costs that reads and writes `factor` bytes for each byte of
  /// the tensor.
  planner::UpdateCost updateCost(bool onHost, double factor) const;

  const planner::Device &device() const { return machine.devices[0]; }

  /// How many tasks had measured costs, by what the others were scaled, whose
  /// code has changed, and which measured tasks were not asked for; for people,
  /// one line each.
  /// Empty without measurements.
  std::string report() const;

private:
  double modelled(const LaunchCost &launch) const;
  double productRate(const LaunchCost &launch) const;
  double bandwidth(double bytes) const;
  double scale(bool backward) const;

  const planner::Machine &machine;
  const planner::Measurements *measurements;
  std::map<std::string, double> measured;   ///< seconds by key
  std::map<std::string, std::string> keyOf; ///< measured tasks, by name
  /// The extents of Device::products, ascending; rates by their indices.
  std::vector<int64_t> rows, columns, depths;
  std::vector<double> rates;
  std::vector<double> ratios[2]; ///< measured by modelled: forward, backward
  std::set<std::string> used, missing, changed; ///< names of tasks
  std::set<std::string> usedKeys;
};

} // namespace harmony

#endif // PASSES_TASKS_COSTMODEL_H
