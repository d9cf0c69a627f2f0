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

/// What bytes hold. Equal contents are the same numbers.
struct Held {
  enum Kind {
    Nothing,
    Tensor,
    State,
    Gradient,
    Value,
    ValueGradient,
    Saved,
    Scalar
  } kind = Nothing;
  int object = -1;
  int use = -1;
  int execution = 0;     ///< that made it; tensors and states: 0
  int64_t iteration = 0; ///< of the phase that made it
  int64_t count =
      0; ///< version of a tensor; microbatches or contributions added

  bool operator==(const Held &o) const {
    return kind == o.kind && object == o.object && use == o.use &&
           execution == o.execution && iteration == o.iteration &&
           count == o.count;
  }
  bool operator!=(const Held &o) const { return !(*this == o); }
};

/// Position of an instance in the order of its queue, from 1.
struct Stamp {
  int queue = -1;
  int64_t sequence = 0;
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
    split(begin);
    split(end);
    for (auto it = segments.find(begin);
         it != segments.end() && it->first < end; ++it)
      visit(it->second);
  }

  void write(int64_t begin, int64_t end, const Held &held, const Stamp &by) {
    split(begin);
    split(end);
    auto first = segments.find(begin);
    segments.erase(std::next(first), segments.lower_bound(end));
    first->second = {held, by, {}};
  }

private:
  std::map<int64_t, Segment> segments{{0, {}}};

  void split(int64_t at) {
    auto it = std::prev(segments.upper_bound(at));
    if (it->first != at)
      segments.emplace_hint(std::next(it), at, it->second);
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAYSTATE_H
