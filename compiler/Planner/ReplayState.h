//===- ReplayState.h - What a replay knows of every byte --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REPLAYSTATE_H
#define COMPILER_PLANNER_REPLAYSTATE_H

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace harmony::planner {

/// What bytes hold. Equal contents are the same numbers: bytes at address a
/// with equal `base` are byte a - base of the same thing.
struct Held {
  enum Kind {
    Nothing,
    Tensor,
    State,
    Gradient,
    Value,
    ValueGradient,
    Saved,
    Scalar,
    Mark ///< that the prologue or the epilogue has run
  } kind = Nothing;
  int object = -1;
  int use = -1;
  int execution = 0; ///< that made it; tensors and states: 0
  /// Of a microbatch: its samples; 0 where samples lie one after the other and
  /// `base` tells them apart.
  int64_t firstSample = 0, samples = 0;
  /// Version of a tensor or state; contributions to a value's gradient; samples
  /// that a gradient or accumulator has of its group's share.
  int64_t count = 0;
  int64_t base = 0; ///< where the whole thing would begin in this space

  bool operator==(const Held &o) const {
    return kind == o.kind && object == o.object && use == o.use &&
           execution == o.execution && firstSample == o.firstSample &&
           samples == o.samples && count == o.count && base == o.base;
  }
  bool operator!=(const Held &o) const { return !(*this == o); }
};

/// Position of an instance in the order of its queue, from 1.
struct Stamp {
  int queue = -1;
  int sequence = 0;
  int event = -1;
  int execution = 0;
};

/// One address space: what each byte holds, who wrote it and who has read it
/// since. Most accesses are of exactly the bytes that an earlier one was of.
class Space {
public:
  struct Segment {
    int64_t begin = 0, end = 0;
    Held held;
    Stamp writer;
    std::vector<Stamp> readers; ///< the last of each queue
    int next = none;            ///< the one that begins where it ends
  };

  Space() {
    segments.emplace_back();
    segments[0].end = std::numeric_limits<int64_t>::max();
    byBegin[0] = 0;
  }

  template <typename Visit>
  void visit(int64_t begin, int64_t end, Visit visit) {
    for (int at = find(begin); at != none && segments[at].begin < end;
         at = segments[at].next) {
      if (segments[at].end > end)
        split(at, end);
      visit(segments[at]);
    }
  }

  void write(int64_t begin, int64_t end, const Held &held, const Stamp &by) {
    int at = find(begin);
    while (segments[at].end < end)
      joinNext(at);
    if (segments[at].end > end)
      split(at, end);
    Segment &segment = segments[at];
    segment.held = held;
    segment.writer = by;
    segment.readers.clear();
  }

private:
  static constexpr int none = -1;
  std::vector<Segment> segments;
  std::vector<int> unused;        ///< in `segments`; they begin nowhere
  std::map<int64_t, int> byBegin; ///< in `segments`
  /// Where the segment of an address was found last, by a few of its bits.
  static constexpr size_t recentBits = 12;
  std::vector<int> recent = std::vector<int>(size_t(1) << recentBits, 0);

  /// The segment that begins at an address.
  int find(int64_t begin) {
    // Of 64 bits that all bits of the address change: Fibonacci hashing.
    uint64_t bits = static_cast<uint64_t>(begin) * 0x9E3779B97F4A7C15u;
    int &found = recent[bits >> (64 - recentBits)];
    if (segments[found].begin == begin)
      return found;
    auto [address, at] = *std::prev(byBegin.upper_bound(begin));
    return found = address == begin ? at : split(at, begin);
  }

  /// Returns what begins there.
  int split(int at, int64_t address) {
    int behind = make();
    Segment &first = segments[at], &second = segments[behind];
    second = first;
    second.begin = first.end = address;
    first.next = behind;
    byBegin[address] = behind;
    return behind;
  }

  void joinNext(int at) {
    int behind = segments[at].next;
    segments[at].end = segments[behind].end;
    segments[at].next = segments[behind].next;
    byBegin.erase(segments[behind].begin);
    segments[behind].begin = none;
    unused.push_back(behind);
  }

  int make() {
    if (unused.empty()) {
      segments.emplace_back();
      return static_cast<int>(segments.size()) - 1;
    }
    int place = unused.back();
    unused.pop_back();
    return place;
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAYSTATE_H
