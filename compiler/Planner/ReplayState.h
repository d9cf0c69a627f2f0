//===- ReplayState.h - What a replay knows of every byte --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REPLAYSTATE_H
#define COMPILER_PLANNER_REPLAYSTATE_H

#include <cstdint>
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
/// since.
class Space {
public:
  struct Segment {
    Held held;
    Stamp writer;
    std::vector<Stamp> readers; ///< the last of each queue
  };

  template <typename Visit>
  void visit(int64_t begin, int64_t end, Visit visit) {
    auto it = split(begin);
    split(end);
    for (; it != segments.end() && it->first < end; ++it)
      visit(it->second);
  }

  void write(int64_t begin, int64_t end, const Held &held, const Stamp &by) {
    auto first = split(begin), last = split(end);
    segments.erase(std::next(first), last);
    first->second.held = held;
    first->second.writer = by;
    first->second.readers.clear();
  }

private:
  std::map<int64_t, Segment> segments{{0, {}}};

  /// The segment that begins at an address.
  std::map<int64_t, Segment>::iterator split(int64_t at) {
    auto it = std::prev(segments.upper_bound(at));
    if (it->first == at)
      return it;
    return segments.emplace_hint(std::next(it), at, it->second);
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAYSTATE_H
