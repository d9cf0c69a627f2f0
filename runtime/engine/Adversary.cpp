//===- Adversary.cpp - Hostile but legal orders ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Adversary.h"

#include <algorithm>
#include <utility>

namespace harmony::runtime {

/// A policy is kept for at most this many commands, so that long steps meet
/// several of them.
static constexpr uint64_t longestPolicy = 400;
static constexpr uint64_t priorityChanges = 50; // one in so many picks

void Adversary::begin(size_t queues) {
  priority.resize(queues);
  for (size_t q = 0; q < queues; ++q)
    priority[q] = q;
  candidates.reserve(queues);
  since.assign(queues, -1);
  last = 0;
  drawPolicy();
}

void Adversary::drawPolicy() {
  current =
      static_cast<Policy>(random.below(static_cast<uint64_t>(Policy::Count)));
  picksLeft = static_cast<int64_t>(1 + random.below(longestPolicy));
  victim = random.below(priority.size());
  for (size_t i = priority.size(); i > 1; --i)
    std::swap(priority[i - 1], priority[random.below(i)]);
}

size_t Adversary::pick(const std::vector<char> &ready) {
  if (picksLeft-- <= 0)
    drawPolicy();
  ++picks;
  candidates.clear();
  for (size_t q = 0; q < ready.size(); ++q) {
    if (!ready[q]) {
      since[q] = -1;
      continue;
    }
    if (since[q] < 0)
      since[q] = picks;
    candidates.push_back(q);
  }
  last = candidates.size() == 1 ? candidates[0] : choose();
  return last;
}

size_t Adversary::drawReady() {
  return candidates[random.below(candidates.size())];
}

size_t Adversary::choose() {
  auto bySince = [&](size_t a, size_t b) { return since[a] < since[b]; };
  switch (current) {
  case Policy::Priorities:
    if (random.below(priorityChanges) == 0)
      std::swap(priority[random.below(priority.size())],
                priority[random.below(priority.size())]);
    for (size_t q : priority)
      if (since[q] >= 0)
        return q;
    break;
  case Policy::Starve: {
    size_t q = drawReady();
    while (q == victim)
      q = drawReady();
    return q;
  }
  case Policy::RunAhead:
    if (since[last] >= 0)
      return last;
    break;
  case Policy::NewestReady:
    return *std::max_element(candidates.begin(), candidates.end(), bySince);
  case Policy::OldestReady:
    return *std::min_element(candidates.begin(), candidates.end(), bySince);
  case Policy::InTurn: {
    auto next = std::upper_bound(candidates.begin(), candidates.end(), last);
    return next == candidates.end() ? candidates.front() : *next;
  }
  default:
    break;
  }
  return drawReady();
}

} // namespace harmony::runtime
