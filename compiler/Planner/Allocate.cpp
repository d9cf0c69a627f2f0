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
      begin.push_back(at - event.firstStep);
      at += event.kind == EventKind::Run ? event.endStep - event.firstStep : 1;
    }
    length = at;
  }
  int at(Point point) const { return begin[point.event] + point.step; }
  int size() const { return length; }

  /// By device, up to the last that has a buffer; one at least.
  std::vector<std::vector<Item>> items(const Plan &plan) const {
    std::vector<std::vector<Item>> items(1);
    for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b) {
      const Buffer &buffer = plan.buffers[b];
      if (buffer.device >= static_cast<int>(items.size()))
        items.resize(buffer.device + 1);
      items[buffer.device].push_back(
          {b, at(buffer.first), at(buffer.last), alignedBytes(buffer.bytes())});
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

/// Addresses this close to the live bytes (1/256 above) are not worth another
/// try.
constexpr int64_t closeEnough = 256;

/// First fit in a given order. Placed items are found through buckets of
/// points, each sorted by offset.
class FirstFit {
public:
  FirstFit(const std::vector<Item> &items, int points)
      : items(items), bucketCount(std::max(1, std::min(points / 8, 256))),
        bucketPoints((points + bucketCount - 1) / bucketCount + 1),
        buckets(bucketCount), offsets(items.size(), 0), seen(items.size(), -1) {
  }

  /// The peak; `limit`: give up (and return limit) once it is reached.
  int64_t place(const std::vector<int> &order, int64_t limit) {
    int64_t peak = 0;
    for (int index : order) {
      offsets[index] = gapFor(index);
      peak = std::max(peak, offsets[index] + items[index].bytes);
      if (peak >= limit)
        return limit;
      for (int b = items[index].first / bucketPoints;
           b <= items[index].last / bucketPoints; ++b)
        insert(buckets[b], index);
    }
    return peak;
  }

  const std::vector<int64_t> &result() const { return offsets; }

private:
  const std::vector<Item> &items;
  int bucketCount, bucketPoints;
  struct Placed {
    int64_t begin, end; ///< addresses
    int index;
    bool operator<(const Placed &o) const { return begin < o.begin; }
  };
  std::vector<std::vector<Placed>> buckets;
  std::vector<int64_t> offsets;
  std::vector<int> seen;
  std::vector<Placed> taken;

  void insert(std::vector<Placed> &bucket, int index) {
    Placed placed{offsets[index], offsets[index] + items[index].bytes, index};
    bucket.insert(std::upper_bound(bucket.begin(), bucket.end(), placed),
                  placed);
  }

  bool meets(const Item &item, int other) const {
    return items[other].first <= item.last && item.first <= items[other].last;
  }

  int64_t gapFor(int index) {
    const Item &item = items[index];
    int first = item.first / bucketPoints, last = item.last / bucketPoints;
    if (first == last)
      return firstGap(item, buckets[first]);
    taken.clear();
    for (int b = first; b <= last; ++b)
      for (const Placed &placed : buckets[b])
        if (seen[placed.index] != index) {
          seen[placed.index] = index;
          taken.push_back(placed);
        }
    std::sort(taken.begin(), taken.end());
    return firstGap(item, taken);
  }

  int64_t firstGap(const Item &item, const std::vector<Placed> &sorted) const {
    int64_t at = 0;
    for (const Placed &placed : sorted) {
      if (placed.end <= at || !meets(item, placed.index))
        continue;
      if (placed.begin - at >= item.bytes)
        return at;
      at = placed.end;
    }
    return at;
  }
};

constexpr int orderCount = 6;
/// Large plans try fewer: their many small ranges pack well.
constexpr int largeOrderCount = 2;
constexpr size_t largePlan = 8000;

/// The orders to try, by number.
std::vector<int> orderOf(const std::vector<Item> &items, int number) {
  std::vector<int> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  auto sorted = [&](auto key) {
    using Key = decltype(key(items[0]));
    std::vector<std::pair<Key, int>> keyed;
    keyed.reserve(order.size());
    for (int i : order)
      keyed.push_back({key(items[i]), i});
    std::sort(keyed.begin(), keyed.end());
    for (size_t i = 0; i < keyed.size(); ++i)
      order[i] = keyed[i].second;
    return order;
  };
  auto length = [](const Item &item) {
    return static_cast<int64_t>(item.last) - item.first + 1;
  };
  auto area = [&](const Item &item) {
    return static_cast<double>(item.bytes) * static_cast<double>(length(item));
  };
  switch (number) {
  case 0: // long-lived first
    return sorted([&](const Item &item) { return -length(item); });
  case 1: // large first
    return sorted([](const Item &item) { return -item.bytes; });
  case 2: // as time goes
    return sorted([](const Item &item) { return item.first; });
  case 3:
    return sorted([&](const Item &item) { return -area(item); });
  case 4: // long-lived first, of equal length the large
    return sorted([&](const Item &item) {
      return std::pair(-length(item), -item.bytes);
    });
  default: // backward in time
    return sorted([](const Item &item) { return -item.last; });
  }
}

} // namespace

std::vector<int64_t> liveBytes(const Plan &plan) {
  Timeline timeline(plan);
  std::vector<int64_t> bytes;
  for (const std::vector<Item> &items : timeline.items(plan))
    bytes.push_back(peakOf(items, timeline.size()));
  return bytes;
}

static int64_t allocateDevice(Plan &plan, const Timeline &timeline,
                              const std::vector<Item> &items, int64_t enough) {
  // What is live throughout lies below all else.
  std::vector<Item> passing;
  int64_t base = 0;
  for (const Item &item : items) {
    if (!plan.buffers[item.buffer].persistent) {
      passing.push_back(item);
      continue;
    }
    plan.buffers[item.buffer].offset = base;
    base += item.bytes;
  }
  int64_t least = peakOf(passing, timeline.size());
  int64_t best = INT64_MAX;
  int tries = passing.size() > largePlan ? largeOrderCount : orderCount;
  for (int number = 0; number < tries && !passing.empty(); ++number) {
    FirstFit fit(passing, timeline.size());
    int64_t peak = fit.place(orderOf(passing, number), best);
    if (peak >= best)
      continue;
    best = peak;
    for (size_t i = 0; i < passing.size(); ++i)
      plan.buffers[passing[i].buffer].offset = base + fit.result()[i];
    if (best <= least + least / closeEnough || base + best <= enough)
      break;
  }
  // The peak counts bytes, not what alignment adds behind the topmost buffer.
  int64_t peak = 0;
  for (const Item &item : items)
    peak = std::max(peak, plan.buffers[item.buffer].end());
  return peak;
}

void allocate(Plan &plan, const std::vector<int64_t> &enough) {
  Timeline timeline(plan);
  plan.peakBytes.clear();
  for (const std::vector<Item> &items : timeline.items(plan)) {
    size_t device = plan.peakBytes.size();
    plan.peakBytes.push_back(allocateDevice(
        plan, timeline, items, device < enough.size() ? enough[device] : 0));
  }
  int64_t host = 0;
  for (Home &home : plan.homes) {
    home.offset = host;
    host += alignedBytes(home.bytes());
  }
  plan.hostBytes = host;
}

} // namespace harmony::planner
