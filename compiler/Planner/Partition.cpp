//===- Partition.cpp - Packs of layers ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Partition.h"

#include "compiler/Planner/Layout.h"
#include "compiler/Planner/Search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace harmony::planner {

std::vector<int> evenPartition(int layers, int size) {
  std::vector<int> ends;
  for (int end = size - 1; end < layers - 1; end += size)
    ends.push_back(end);
  ends.push_back(layers - 1);
  return ends;
}

namespace {

/// Packs that are filled up to a limit, one layer at least in each.
struct Filled {
  std::vector<int> ends;
  double heaviest = 0;
  /// The least limit above that gives other packs.
  double next = std::numeric_limits<double>::infinity();

  Filled(const std::vector<double> &weights, double limit) {
    double sum = 0;
    for (int l = 0; l < static_cast<int>(weights.size()); ++l) {
      if (l > 0 && sum + weights[l] > limit) {
        next = std::min(next, sum + weights[l]);
        ends.push_back(l - 1);
        sum = 0;
      }
      sum += weights[l];
      heaviest = std::max(heaviest, sum);
    }
    ends.push_back(static_cast<int>(weights.size()) - 1);
  }
};

} // namespace

std::vector<int> balancedPartition(const std::vector<double> &weights,
                                   int packs) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Filled best(weights, sum);
  // No packs are lighter than the heaviest weight and their mean.
  double low = std::max(*std::max_element(weights.begin(), weights.end()),
                        sum / std::max(1, packs));
  for (double limit = low; low < best.heaviest;) {
    Filled filled(weights, limit);
    if (static_cast<int>(filled.ends.size()) <= packs)
      best = std::move(filled);
    else
      low = filled.next;
    limit = (low + best.heaviest) / 2;
    if (limit >= best.heaviest) // rounded
      limit = low;
  }
  return std::move(best.ends);
}

std::vector<std::vector<int>>
candidatePartitions(const Problem &problem, int64_t microbatch, int devices) {
  int layers = problem.layerCount();
  std::vector<double> bytes(layers), seconds(layers);
  for (int l = 0; l < layers; ++l) {
    const Layer &layer = problem.layers[l];
    const Cost &cost = problem.cost(l, microbatch);
    seconds[l] = cost.forwardSeconds + cost.backwardSeconds;
    bytes[l] = static_cast<double>(cost.savedBytes);
    for (const TensorUse &use : layer.tensors)
      bytes[l] += static_cast<double>(problem.tensors[use.tensor].bytes) *
                  (use.gradient ? 2.0 : 1.0);
    for (int v : layer.outputs)
      bytes[l] += static_cast<double>(problem.values[v].bytes(microbatch)) *
                  (problem.values[v].differentiable ? 2.0 : 1.0);
  }
  std::vector<std::vector<int>> result;
  for (int rounds = 1;; rounds = rounds < 4 ? rounds + 1 : rounds * 3 / 2) {
    int packs = std::min(layers, rounds * devices);
    for (const std::vector<double> *weights : {&bytes, &seconds}) {
      std::vector<int> ends = balancedPartition(*weights, packs);
      if (std::find(result.begin(), result.end(), ends) == result.end())
        result.push_back(std::move(ends));
    }
    if (packs == layers)
      break;
  }
  return result;
}

/// More sizes cost compile time: each has tasks of its own.
static constexpr size_t mostMicrobatches = 12;

std::vector<int64_t> candidateMicrobatches(int64_t batch, int devices,
                                           const SearchOptions &options) {
  std::set<int64_t> shares{batch};
  for (int groups = 1; groups <= std::min<int64_t>(devices, batch); ++groups)
    if (groups == devices || devices % groups == 0 || groups == batch)
      for (int64_t share : sharesOf(batch, groups))
        shares.insert(share);
  std::set<int64_t> sizes;
  int64_t pinned = options.microbatch.value_or(0);
  if (pinned >= 1 && pinned <= batch) {
    sizes.insert(pinned);
    for (int64_t share : shares)
      if (share % pinned != 0)
        sizes.insert(share % pinned);
    return {sizes.begin(), sizes.end()};
  }
  // The whole of a share and one sample come first, then those that leave
  // nothing of the batch, then of the other shares.
  sizes = shares;
  sizes.insert(1);
  std::vector<int64_t> order{batch};
  order.insert(order.end(), shares.rbegin(), shares.rend());
  for (int64_t share : order) {
    std::vector<int64_t> divisors;
    for (int64_t u = 1; u <= share / u; ++u)
      if (share % u == 0)
        for (int64_t divisor : {u, share / u})
          divisors.push_back(divisor);
    std::sort(divisors.begin(), divisors.end());
    divisors.erase(std::unique(divisors.begin(), divisors.end()),
                   divisors.end());
    // Evenly over their range where they are too many.
    size_t room = mostMicrobatches - std::min(sizes.size(), mostMicrobatches);
    size_t step = room == 0 ? 0 : (divisors.size() + room - 1) / room;
    for (size_t i = 0; step > 0 && i < divisors.size(); i += step)
      if (sizes.size() < mostMicrobatches)
        sizes.insert(divisors[i]);
  }
  // What one size leaves of another share, where that makes it usable there.
  for (int64_t u : std::set<int64_t>(sizes))
    for (int64_t share : shares)
      if (sizes.size() < mostMicrobatches && share % u != 0)
        sizes.insert(share % u);
  return {sizes.begin(), sizes.end()};
}

} // namespace harmony::planner
