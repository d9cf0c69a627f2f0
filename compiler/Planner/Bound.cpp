//===- Bound.cpp - What no plan is faster than ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Bound.h"

#include "compiler/Planner/Layout.h"

#include <algorithm>
#include <limits>

namespace harmony::planner {

namespace {

/// A way to compute a layer: bytes that lie in memory, seconds of a sample.
struct Way {
  double bytes = 0, seconds = 0;
};

/// What more bytes buy: along the lower convex hull of a layer's ways.
struct Gain {
  double bytes = 0, seconds = 0;
};

/// The ways of a layer that are on the lower convex hull, by ascending bytes.
std::vector<Way> hullOf(std::vector<Way> ways) {
  std::sort(ways.begin(), ways.end(), [](const Way &a, const Way &b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  std::vector<Way> hull;
  for (const Way &way : ways) {
    if (!hull.empty() && way.seconds >= hull.back().seconds)
      continue;
    // The one before is above the line from its neighbour to this one.
    while (hull.size() > 1) {
      const Way &a = hull[hull.size() - 2], &b = hull.back();
      if ((a.seconds - b.seconds) * (way.bytes - a.bytes) >
          (a.seconds - way.seconds) * (b.bytes - a.bytes))
        break;
      hull.pop_back();
    }
    hull.push_back(way);
  }
  return hull;
}

/// The least of `weight` * the work of a device + (1 - weight) * one
/// microbatch's way.
double weighted(const Problem &problem, double room, double share, int pipeline,
                const std::vector<int64_t> &sizes, double weight) {
  double total = 0;
  std::vector<Gain> gains;
  for (int l = 0; l < problem.layerCount(); ++l) {
    std::vector<Way> ways;
    for (int64_t u : sizes) {
      const Cost &cost = problem.cost(l, u);
      double trips = share / static_cast<double>(u);
      double once =
          cost.forwardSeconds + (problem.training ? cost.backwardSeconds : 0);
      double seconds = once * (weight * trips / pipeline + 1 - weight);
      ways.push_back(
          {problem.training ? static_cast<double>(cost.savedBytes) : 0.0,
           seconds});
      if (problem.training)
        ways.push_back(
            {0, seconds + weight * trips / pipeline * cost.forwardSeconds});
    }
    std::vector<Way> hull = hullOf(std::move(ways));
    total += hull.front().seconds;
    room -= hull.front().bytes;
    for (size_t i = 1; i < hull.size(); ++i)
      gains.push_back({hull[i].bytes - hull[i - 1].bytes,
                       hull[i - 1].seconds - hull[i].seconds});
  }
  std::sort(gains.begin(), gains.end(), [](const Gain &a, const Gain &b) {
    return a.seconds * b.bytes > b.seconds * a.bytes;
  });
  for (const Gain &gain : gains) {
    if (room <= 0)
      break;
    total -= gain.seconds * std::min(1.0, room / gain.bytes);
    room -= gain.bytes;
  }
  return total;
}

} // namespace

double boundSeconds(const Problem &problem, const Machine &machine, int groups,
                    int pipeline, const std::vector<int64_t> &sizes) {
  double room = 0;
  for (int q = 0; q < pipeline; ++q)
    room += static_cast<double>(machine.devices[q].capacity);
  auto share = static_cast<double>(sharesOf(problem.batch, groups).front());
  // The larger of two is no less than any mean of them.
  double bound = 0;
  constexpr int parts = 16;
  for (int part = pipeline == 1 ? parts : 0; part <= parts; ++part)
    bound = std::max(bound, weighted(problem, room, share, pipeline, sizes,
                                     static_cast<double>(part) / parts));
  return bound + machine.phaseSeconds;
}

double boundSeconds(const Problem &problem, const Machine &machine,
                    int groups) {
  int devices = static_cast<int>(machine.devices.size());
  if (groups < 1 || groups > devices || groups > problem.batch ||
      (!problem.training && groups > 1))
    return std::numeric_limits<double>::infinity();
  int64_t share = sharesOf(problem.batch, groups).front();
  // Any may come with a remainder of another size.
  std::vector<int64_t> sizes;
  for (int64_t u : problem.microbatches)
    if (u <= share)
      sizes.push_back(u);
  return sizes.empty()
             ? std::numeric_limits<double>::infinity()
             : boundSeconds(problem, machine, groups, devices / groups, sizes);
}

double boundSeconds(const Problem &problem, const Machine &machine) {
  double least = std::numeric_limits<double>::infinity();
  int devices = static_cast<int>(machine.devices.size());
  for (int groups = 1; groups <= devices; ++groups)
    least = std::min(least, boundSeconds(problem, machine, groups));
  return least == std::numeric_limits<double>::infinity()
             ? problem.computeBoundSeconds() / devices
             : least;
}

} // namespace harmony::planner
