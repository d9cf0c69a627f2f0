//===- Allocate.cpp - Addresses for live ranges ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"
#include "compiler/Planner/CountingSort.h"

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
  /// Of another plan, in the same memory.
  void set(const Plan &plan) {
    int at = 0;
    begin.clear();
    for (const Event &event : plan.events) {
      begin.push_back(at - event.firstStep);
      at += event.kind == EventKind::Run ? event.endStep - event.firstStep : 1;
    }
    length = at;
  }
  int at(Point point) const { return begin[point.event] + point.step; }
  int size() const { return length; }

  /// By device, up to the last that has a buffer; one at least. Stands until
  /// it is called again.
  const std::vector<std::vector<Item>> &items(const Plan &plan) {
    int devices = 1;
    for (const Buffer &buffer : plan.buffers)
      devices = std::max(devices, buffer.device + 1);
    byDevice.resize(devices);
    for (std::vector<Item> &items : byDevice)
      items.clear();
    for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b) {
      const Buffer &buffer = plan.buffers[b];
      byDevice[buffer.device].push_back(
          {b, at(buffer.first), at(buffer.last), alignedBytes(buffer.bytes())});
    }
    return byDevice;
  }

private:
  std::vector<std::vector<Item>> byDevice;
  std::vector<int> begin;
  int length = 0;
};

int64_t peakOf(const std::vector<Item> &items, int points,
               std::vector<int64_t> &change) {
  change.assign(static_cast<size_t>(points) + 1, 0);
  for (const Item &item : items) {
    change[item.first] += item.bytes;
    change[item.last + 1] -= item.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}

/// Points where nothing begins or ends are left out; returns how many remain.
int rankPoints(std::vector<Item> &items, int points, std::vector<int> &rank) {
  rank.assign(points, 0);
  for (const Item &item : items)
    rank[item.first] = rank[item.last] = 1;
  int count = 0;
  for (int &of : rank)
    of = count += of;
  for (Item &item : items) {
    item.first = rank[item.first] - 1;
    item.last = rank[item.last] - 1;
  }
  return count;
}

/// Addresses this close to the live bytes (1/256 above) are not worth another
/// try.
constexpr int64_t closeEnough = 256;

/// First fit in a given order. Time is cut into overlapping windows, of several
/// lengths, so that every item lies within one that is at most some times as
/// long. A window lists what is placed in it by address, once it is looked at.
class FirstFit {
public:
  /// The peak of these items; `limit`: give up (and return limit) once it is
  /// reached.
  int64_t place(const std::vector<Item> &items, int points,
                const std::vector<int> &order, int64_t limit) {
    clear(points);
    offsets.assign(items.size(), 0);
    for (size_t i = 0; i < order.size(); ++i)
      levels[levelOf(items[order[i]])].lastUse = i;
    int64_t peak = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Item &item = items[order[i]];
      Level &level = levels[levelOf(item)];
      int w = item.first / level.stride;
      settle(level, w);
      int64_t begin = firstGap(item, level.windows[w]);
      int64_t end = begin + item.bytes;
      offsets[order[i]] = begin;
      peak = std::max(peak, end);
      if (peak >= limit)
        return limit;
      for (Level &other : levels)
        if (other.lastUse > i)
          insert(other, {begin, end, item.first, item.last});
    }
    return peak;
  }

  /// By item.
  const std::vector<int64_t> &result() const { return offsets; }

private:
  struct Placed {
    int64_t begin, end; ///< addresses
    int first, last;
  };
  struct Window {
    /// Up to here, what is live throughout the window leaves no gap, so that
    /// all else in the window lies above.
    int64_t solidEnd = 0;
    /// The first `settled` by address; neighbours that are live throughout are
    /// one.
    std::vector<Placed> above;
    size_t settled = 0;
  };
  /// Window w has points [w * stride, (w + 2) * stride).
  struct Level {
    int stride = 1;
    std::vector<Window> windows;
    size_t lastUse = 0; ///< in the order: nobody looks for a gap here behind it
  };
  static constexpr int leastStride = 64, growth = 4;
  std::vector<Level> levels;
  int pointCount = 0;
  std::vector<int64_t> offsets;

  /// Keeps what memory there is.
  void clear(int points) {
    pointCount = points;
    size_t count = 0;
    for (int64_t stride = leastStride;; stride *= growth) {
      if (levels.size() == count)
        levels.emplace_back();
      Level &level = levels[count++];
      level.stride = static_cast<int>(stride);
      level.lastUse = 0;
      for (Window &window : level.windows) {
        window.above.clear();
        window.settled = 0;
        window.solidEnd = 0;
      }
      size_t windows = static_cast<size_t>(points / stride) + 1;
      if (level.windows.size() < windows)
        level.windows.resize(windows);
      if (stride >= points)
        break;
    }
    levels.resize(count);
  }

  /// The one whose stride the item is not longer than.
  size_t levelOf(const Item &item) const {
    size_t level = 0;
    while (levels[level].stride <= item.last - item.first)
      ++level;
    return level;
  }

  static void insert(Level &level, const Placed &placed) {
    for (int w = std::max(0, placed.first / level.stride - 1);
         w <= placed.last / level.stride; ++w)
      level.windows[w].above.push_back(placed);
  }

  /// Puts what came last in its place.
  void settle(Level &level, int w) const {
    Window &window = level.windows[w];
    std::vector<Placed> &above = window.above;
    if (window.settled == above.size())
      return;
    auto isBelow = [](const Placed &a, const Placed &b) {
      return a.begin < b.begin;
    };
    auto tail = above.begin() + static_cast<long>(window.settled);
    constexpr size_t few = 4;
    if (above.size() - window.settled <= few && window.settled > 0) {
      for (; tail != above.end(); ++tail)
        std::rotate(std::upper_bound(above.begin(), tail, *tail, isBelow), tail,
                    tail + 1);
      window.settled = above.size();
      return;
    }
    std::sort(tail, above.end(), isBelow);
    std::inplace_merge(above.begin(), tail, above.end(), isBelow);
    int first = w * level.stride;
    int last = std::min(first + 2 * level.stride, pointCount) - 1;
    size_t kept = 0;
    for (const Placed &placed : above) {
      bool throughout = placed.first <= first && placed.last >= last;
      Placed *below = kept > 0 ? &above[kept - 1] : nullptr;
      if (throughout && placed.begin == window.solidEnd)
        window.solidEnd = placed.end;
      else if (throughout && below && below->end == placed.begin &&
               below->first <= first && below->last >= last)
        below->end = placed.end;
      else
        above[kept++] = placed;
    }
    above.resize(kept);
    window.settled = kept;
  }

  static int64_t firstGap(const Item &item, const Window &window) {
    int64_t at = window.solidEnd;
    for (const Placed &placed : window.above) {
      if (placed.first > item.last || placed.last < item.first ||
          placed.end <= at)
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
class Orders {
public:
  /// Items lie on a line of so many points. Stands until it is called again.
  const std::vector<int> &order(const std::vector<Item> &items, int points,
                                int number) {
    list.resize(items.size());
    std::iota(list.begin(), list.end(), 0);
    auto byPoint = [&](auto key) {
      sort(list, points, [&](int i) { return key(items[i]); });
    };
    auto length = [](const Item &item) {
      return static_cast<int64_t>(item.last) - item.first + 1;
    };
    auto area = [&](const Item &item) {
      return static_cast<double>(item.bytes) *
             static_cast<double>(length(item));
    };
    switch (number) {
    case 0: // long-lived first
      byPoint([&](const Item &item) {
        return points - 1 - (item.last - item.first);
      });
      break;
    case 1: // large first
      sortBy(items, [](const Item &item) { return -item.bytes; });
      break;
    case 2: // as time goes
      byPoint([](const Item &item) { return item.first; });
      break;
    case 3:
      sortBy(items, [&](const Item &item) { return -area(item); });
      break;
    case 4: // long-lived first, of equal length the large
      sortBy(items, [&](const Item &item) {
        return std::pair(-length(item), -item.bytes);
      });
      break;
    default: // backward in time
      byPoint([&](const Item &item) { return points - 1 - item.last; });
    }
    return list;
  }

private:
  std::vector<int> list;
  CountingSort<int> sort;

  template <typename Key>
  void sortBy(const std::vector<Item> &items, Key key) {
    std::vector<std::pair<decltype(key(items[0])), int>> keyed;
    keyed.reserve(list.size());
    for (int i : list)
      keyed.push_back({key(items[i]), i});
    std::sort(keyed.begin(), keyed.end());
    for (size_t i = 0; i < keyed.size(); ++i)
      list[i] = keyed[i].second;
  }
};

} // namespace

std::vector<int64_t> liveBytes(const Plan &plan) {
  Timeline timeline;
  timeline.set(plan);
  std::vector<int64_t> bytes, change;
  for (const std::vector<Item> &items : timeline.items(plan))
    bytes.push_back(peakOf(items, timeline.size(), change));
  return bytes;
}

class Allocator::Packer {
public:
  void pack(Plan &plan, const std::vector<int64_t> &enough) {
    timeline.set(plan);
    plan.peakBytes.clear();
    for (const std::vector<Item> &items : timeline.items(plan)) {
      size_t device = plan.peakBytes.size();
      plan.peakBytes.push_back(
          packDevice(plan, items, device < enough.size() ? enough[device] : 0));
    }
  }

private:
  Timeline timeline;
  FirstFit fit;
  Orders orders;
  std::vector<Item> passing, ranked;
  std::vector<int64_t> change;
  std::vector<int> rank;

  int64_t packDevice(Plan &plan, const std::vector<Item> &items,
                     int64_t enough) {
    // What is live throughout lies below all else.
    passing.clear();
    int64_t base = 0;
    for (const Item &item : items) {
      if (!plan.buffers[item.buffer].persistent) {
        passing.push_back(item);
        continue;
      }
      plan.buffers[item.buffer].offset = base;
      base += item.bytes;
    }
    int64_t least = peakOf(passing, timeline.size(), change);
    ranked = passing;
    int points = rankPoints(ranked, timeline.size(), rank);
    int64_t best = INT64_MAX;
    int tries = passing.size() > largePlan ? largeOrderCount : orderCount;
    for (int number = 0; number < tries && !passing.empty(); ++number) {
      int64_t peak = fit.place(
          ranked, points, orders.order(passing, timeline.size(), number), best);
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
};

Allocator::Allocator() : packer(std::make_unique<Packer>()) {}
Allocator::~Allocator() = default;

void Allocator::allocate(Plan &plan, const std::vector<int64_t> &enough) {
  packer->pack(plan, enough);
  int64_t host = 0;
  for (Home &home : plan.homes) {
    home.offset = host;
    host += alignedBytes(home.bytes());
  }
  plan.hostBytes = host;
}

void allocate(Plan &plan, const std::vector<int64_t> &enough) {
  Allocator().allocate(plan, enough);
}

} // namespace harmony::planner
