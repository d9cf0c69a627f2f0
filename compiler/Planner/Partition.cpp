//===- Partition.cpp - Packs of layers ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Partition.h"

#include <algorithm>
#include <numeric>

namespace harmony::planner {

std::vector<int> evenPartition(int layers, int size) {
  std::vector<int> ends;
  for (int end = size - 1; end < layers - 1; end += size)
    ends.push_back(end);
  ends.push_back(layers - 1);
  return ends;
}

/// Packs that are filled up to `limit`, one layer at least in each.
static std::vector<int> filled(const std::vector<double> &weights,
                               double limit) {
  std::vector<int> ends;
  double sum = 0;
  for (int l = 0; l < static_cast<int>(weights.size()); ++l) {
    if (l > 0 && sum + weights[l] > limit) {
      ends.push_back(l - 1);
      sum = 0;
    }
    sum += weights[l];
  }
  ends.push_back(static_cast<int>(weights.size()) - 1);
  return ends;
}

std::vector<int> balancedPartition(const std::vector<double> &weights,
                                   int packs) {
  double high = std::accumulate(weights.begin(), weights.end(), 0.0);
  double low = *std::max_element(weights.begin(), weights.end());
  std::vector<int> best = filled(weights, high);
  for (int step = 0; step < 40 && low < high; ++step) {
    double middle = step == 0 ? low : (low + high) / 2;
    std::vector<int> ends = filled(weights, middle);
    if (static_cast<int>(ends.size()) <= packs) {
      best = std::move(ends);
      high = middle;
    } else {
      low = middle;
    }
  }
  return best;
}

std::vector<std::vector<int>> candidatePartitions(const Problem &problem,
                                                  int64_t microbatch) {
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
  for (int packs = 1;;
       packs = std::min(layers, packs < 4 ? packs + 1 : packs * 3 / 2)) {
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

} // namespace harmony::planner
