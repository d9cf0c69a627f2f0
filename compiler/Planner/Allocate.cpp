//===- Allocate.cpp - Addresses for live ranges ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"

#include <algorithm>
#include <numeric>

namespace harmony::planner {

namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

/// A live range on a line on which every event has one point, a Run one a step.
struct Item {
  int buffer;
  int first, last;
  int64_t bytes; ///< aligned
};

class Timeline {
public:
  explicit Timeline(const Plan &plan) {
    int at = 0;
    for (const Event &event : plan.events) {
      begin.push_back(at);
      at += event.kind == EventKind::Run ? static_cast<int>(plan.phases[event.phase].steps.size()) : 1;
    }
    length = at;
  }
  int at(Point point) const { return begin[point.event] + point.step; }
  int size() const { return length; }

  std::vector<Item> items(const Plan &plan, int device) const {
    std::vector<Item> items;
    for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b) {
      const Buffer &buffer = plan.buffers[b];
      if (buffer.device == device)
        items.push_back({b, at(buffer.first), at(buffer.last), aligned(buffer.bytes())});
    }
    return items;
  }

private:
  std::vector<int> begin;
  int length = 0;
};

int64_t peakOf(const std::vector<Item> &items, int points) {
  std::vector<int64_t> change(static_cast<size_t>(points) + 1, 0);
  for (const Item &item : items) {
    change[item.first] += item.bytes;
    change[item.last + 1] -= item.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}

/// First fit in a given order. Placed items are found through buckets of points.
class FirstFit {
public:
  FirstFit(const std::vector<Item> &items, int points)
      : items(items), bucketCount(std::max(1, std::min(points / 8, 4096))),
        bucketPoints((points + bucketCount - 1) / bucketCount + 1), buckets(bucketCount),
        offsets(items.size(), 0), seen(items.size(), -1) {}

  /// The peak; `limit`: give up (and return limit) once it is reached.
  int64_t place(const std::vector<int> &order, int64_t limit) {
    int64_t peak = 0;
    for (int index : order) {
      offsets[index] = gapFor(index);
      peak = std::max(peak, offsets[index] + items[index].bytes);
      if (peak >= limit)
        return limit;
      for (int b = items[index].first / bucketPoints; b <= items[index].last / bucketPoints; ++b)
        buckets[b].push_back(index);
    }
    return peak;
  }

  const std::vector<int64_t> &result() const { return offsets; }

private:
  const std::vector<Item> &items;
  int bucketCount, bucketPoints;
  std::vector<std::vector<int>> buckets;
  std::vector<int64_t> offsets;
  std::vector<int> seen;
  std::vector<std::pair<int64_t, int64_t>> taken;

  int64_t gapFor(int index) {
    const Item &item = items[index];
    taken.clear();
    for (int b = item.first / bucketPoints; b <= item.last / bucketPoints; ++b)
      for (int other : buckets[b]) {
        if (seen[other] == index)
          continue;
        seen[other] = index;
        if (items[other].first <= item.last && item.first <= items[other].last)
          taken.push_back({offsets[other], offsets[other] + items[other].bytes});
      }
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto &[begin, end] : taken) {
      if (begin - at >= item.bytes)
        return at;
      at = std::max(at, end);
    }
    return at;
  }
};

/// Orders to try; what is live throughout comes first in all of them.
std::vector<std::vector<int>> orders(const Plan &plan, const std::vector<Item> &items) {
  std::vector<int> base(items.size());
  std::iota(base.begin(), base.end(), 0);
  auto sorted = [&](auto before) {
    std::vector<int> order = base;
    std::sort(order.begin(), order.end(), [&](int x, int y) {
      const Item &a = items[x], &b = items[y];
      bool persistentA = plan.buffers[a.buffer].persistent;
      bool persistentB = plan.buffers[b.buffer].persistent;
      if (persistentA != persistentB)
        return persistentA;
      if (before(a, b) != before(b, a))
        return before(a, b);
      return x < y;
    });
    return order;
  };
  auto length = [](const Item &item) { return static_cast<int64_t>(item.last) - item.first + 1; };
  auto area = [&](const Item &item) {
    return static_cast<double>(item.bytes) * static_cast<double>(length(item));
  };
  return {
      sorted([&](const Item &a, const Item &b) { return length(a) > length(b); }),
      sorted([](const Item &a, const Item &b) { return a.bytes > b.bytes; }),
      sorted([](const Item &a, const Item &b) { return a.first < b.first; }),
      sorted([&](const Item &a, const Item &b) { return area(a) > area(b); }),
      sorted([](const Item &a, const Item &b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
      }),
      sorted([](const Item &a, const Item &b) { return a.last > b.last; }),
  };
}

} // namespace

int64_t liveBytes(const Plan &plan, int device) {
  Timeline timeline(plan);
  return peakOf(timeline.items(plan, device), timeline.size());
}

static int64_t allocateDevice(Plan &plan, const Timeline &timeline, int device) {
  std::vector<Item> items = timeline.items(plan, device);
  if (items.empty())
    return 0;
  int64_t least = peakOf(items, timeline.size());
  int64_t best = INT64_MAX;
  for (const std::vector<int> &order : orders(plan, items)) {
    FirstFit fit(items, timeline.size());
    int64_t peak = fit.place(order, best);
    if (peak >= best)
      continue;
    best = peak;
    for (size_t i = 0; i < items.size(); ++i)
      plan.buffers[items[i].buffer].offset = fit.result()[i];
    if (best == least)
      break;
  }
  // The peak counts bytes, not what alignment adds behind the topmost buffer.
  int64_t peak = 0;
  for (const Item &item : items)
    peak = std::max(peak, plan.buffers[item.buffer].end());
  return peak;
}

void allocate(Plan &plan) {
  Timeline timeline(plan);
  int devices = 1;
  for (const Buffer &buffer : plan.buffers)
    devices = std::max(devices, buffer.device + 1);
  plan.peakBytes.clear();
  for (int device = 0; device < devices; ++device)
    plan.peakBytes.push_back(allocateDevice(plan, timeline, device));
  int64_t host = 0;
  for (Home &home : plan.homes) {
    home.offset = host;
    host += aligned(home.bytes());
  }
  plan.hostBytes = host;
}

} // namespace harmony::planner
