//===- CostModel.cpp - Seconds of tasks -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/CostModel.h"

#include "passes/Tasks/TaskDigest.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace harmony;

/// The values of one member over all products, ascending, each once.
static std::vector<int64_t>
extentsOf(const std::vector<planner::ProductRate> &products,
          int64_t planner::ProductRate::*member) {
  std::set<int64_t> values;
  for (const planner::ProductRate &product : products)
    values.insert(product.*member);
  return {values.begin(), values.end()};
}

CostModel::CostModel(const planner::Machine &machine,
                     const planner::Measurements *measurements)
    : machine(machine), measurements(measurements) {
  const std::vector<planner::ProductRate> &products = device().products;
  rows = extentsOf(products, &planner::ProductRate::rows);
  columns = extentsOf(products, &planner::ProductRate::columns);
  depths = extentsOf(products, &planner::ProductRate::depth);
  rates.resize(products.size());
  for (const planner::ProductRate &product : products) {
    auto index = [](const std::vector<int64_t> &extents, int64_t extent) {
      return llvm::lower_bound(extents, extent) - extents.begin();
    };
    rates[(index(rows, product.rows) * columns.size() +
           index(columns, product.columns)) *
              depths.size() +
          index(depths, product.depth)] = product.flopsPerSecond;
  }
  if (!measurements)
    return;
  for (const planner::Measurements::Task &task : measurements->tasks)
    if (!task.onHost && task.kind != planner::Measurements::Kind::Update) {
      measured[task.key] = task.seconds;
      keyOf[task.name] = task.key;
    }
}

namespace {
/// Between which of `extents` a value lies, and how far, on a logarithmic
/// scale; beyond the ends it is at the end.
struct Place {
  size_t low = 0, high = 0;
  double part = 0;
};
} // namespace

static Place placeOf(const std::vector<int64_t> &extents, double value) {
  Place place;
  while (place.high + 1 < extents.size() &&
         static_cast<double>(extents[place.high]) < value)
    ++place.high;
  if (place.high == 0 || static_cast<double>(extents[place.high]) <= value)
    return {place.high, place.high, 0};
  place.low = place.high - 1;
  double low = std::log(static_cast<double>(extents[place.low])),
         high = std::log(static_cast<double>(extents[place.high]));
  place.part = (std::log(value) - low) / (high - low);
  return place;
}

/// FLOP per second of one worker in a call; interpolated in the logarithms of
/// extents and rates.
double CostModel::productRate(const LaunchCost &launch) const {
  if (rates.empty())
    return device().flopsPerSecond / device().workers;
  Place r = placeOf(rows, static_cast<double>(launch.rows)),
        c = placeOf(columns, static_cast<double>(launch.columns)),
        d = placeOf(depths, static_cast<double>(launch.depth));
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    auto pick = [&](const Place &place, int bit) {
      bool high = corner >> bit & 1;
      return std::pair(high ? place.high : place.low,
                       high ? place.part : 1 - place.part);
    };
    auto [row, rowPart] = pick(r, 0);
    auto [column, columnPart] = pick(c, 1);
    auto [depth, depthPart] = pick(d, 2);
    sum += rowPart * columnPart * depthPart *
           std::log(
               rates[(row * columns.size() + column) * depths.size() + depth]);
  }
  return std::exp(sum);
}

/// Of all workers, where a launch touches so many bytes.
double CostModel::bandwidth(double bytes) const {
  const std::vector<planner::MemoryRate> &memory = device().memory;
  if (memory.empty())
    return device().bytesPerSecond;
  std::vector<int64_t> sizes;
  for (const planner::MemoryRate &rate : memory)
    sizes.push_back(rate.bytes);
  Place place = placeOf(sizes, bytes);
  return std::exp(std::log(memory[place.low].bytesPerSecond) *
                      (1 - place.part) +
                  std::log(memory[place.high].bytesPerSecond) * place.part);
}

double CostModel::modelled(const LaunchCost &launch) const {
  double workers = device().workers;
  // A launch that is too short to be shared runs on fewer workers.
  double share = std::min(workers, std::max(1.0, launch.pieces)) / workers;
  double seconds = launch.bytes / (bandwidth(launch.bytes) * share);
  if (launch.calls > 0) {
    double calls = static_cast<double>(launch.calls);
    double computing = std::ceil(calls / workers) * (launch.flops / calls) /
                       productRate(launch);
    // Measured rates are those of operands in caches, which come there first.
    seconds =
        rates.empty() ? std::max(seconds, computing) : seconds + computing;
  } else if (device().operationsPerSecond > 0) {
    seconds = std::max(seconds, launch.operations /
                                    (device().operationsPerSecond * share));
  }
  return seconds + device().launchSeconds;
}

double CostModel::seconds(const TaskCost &cost, HmTaskKind kind) {
  double model = 0;
  for (const LaunchCost &launch : cost.launchCosts)
    model += modelled(launch);
  if (!measurements)
    return model;
  schedule::TaskOp task = cost.task;
  std::string name = task.getSymName().str(), key = digestTask(task);
  auto found = measured.find(key);
  if (found == measured.end()) {
    (keyOf.count(name) ? changed : missing).insert(name);
    return -model;
  }
  used.insert(name);
  usedKeys.insert(key);
  if (model > 0 && found->second > 0)
    ratios[kind == HM_TASK_BACKWARD].push_back(found->second / model);
  return found->second;
}

/// Where nothing of a direction was measured, that of the other; 1 without any.
double CostModel::scale(bool backward) const {
  std::vector<double> values =
      ratios[backward].empty() ? ratios[!backward] : ratios[backward];
  if (values.empty())
    return 1;
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void CostModel::settle(planner::Problem &problem) const {
  if (!measurements)
    return;
  auto apply = [](double &seconds, double factor) {
    if (seconds < 0)
      seconds *= -factor;
  };
  double forward = scale(false), backward = scale(true);
  for (planner::Function &function : problem.functions)
    for (planner::Cost &cost : function.costs) {
      apply(cost.forwardSeconds, forward);
      apply(cost.backwardSeconds, backward);
      for (planner::Keep &keep : cost.keeps)
        apply(keep.recomputeSeconds, forward);
    }
  if (auto cost = planner::measuredUpdates(*measurements, /*onHost=*/true))
    problem.hostUpdate = *cost;
  if (auto cost = planner::measuredUpdates(*measurements, /*onHost=*/false))
    problem.deviceUpdate = *cost;
}

planner::UpdateCost CostModel::updateCost(bool onHost, double factor) const {
  double rate = device().updateBytesPerSecond > 0
                    ? device().updateBytesPerSecond
                    : device().bytesPerSecond;
  if (onHost && machine.hostUpdateBytesPerSecond > 0)
    rate = machine.hostUpdateBytesPerSecond;
  return {device().launchSeconds, factor / rate};
}

/// The first few names, and how many more.
static std::string list(const std::set<std::string> &names) {
  constexpr size_t limit = 5;
  std::string text;
  size_t count = 0;
  for (const std::string &name : names)
    if (count++ < limit)
      text += (text.empty() ? "" : ", ") + name;
  return count <= limit
             ? text
             : text + " and " + std::to_string(count - limit) + " more";
}

std::string CostModel::report() const {
  if (!measurements)
    return "";
  char scales[64];
  std::snprintf(scales, sizeof(scales), "%.2f, backward times %.2f",
                scale(false), scale(true));
  std::string text = measurements->where + ": " + std::to_string(used.size()) +
                     " tasks have measured costs";
  if (!missing.empty() || !changed.empty())
    text += ", " + std::to_string(missing.size() + changed.size()) +
            " have modelled ones, forward times " + scales;
  text += "\n";
  if (!changed.empty())
    text += measurements->where +
            ": stale, since their code has changed: " + list(changed) + "\n";
  std::set<std::string> unused;
  for (const auto &[name, key] : keyOf)
    if (!usedKeys.count(key) && !changed.count(name))
      unused.insert(name);
  if (!unused.empty())
    text += measurements->where +
            ": of no function at a size that is looked at: " + list(unused) +
            "\n";
  return text;
}
