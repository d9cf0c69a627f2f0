//===- BufferIndex.h - Finding buffers of a large plan ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUFFERINDEX_H
#define COMPILER_PLANNER_BUFFERINDEX_H

#include "compiler/Planner/Plan.h"

#include <tuple>
#include <utility>

namespace harmony::planner {

/// Plan::find in logarithmic time. Stands for the plan's buffers as they are
/// when it is made; the plan must outlive it.
class BufferIndex {
public:
  explicit BufferIndex(const Plan &plan);

  /// The buffer that holds something at a point, or null.
  const Buffer *find(Content content, int object, int use, int device, Point at,
                     int64_t firstSample = 0) const;

  /// Two buffers that hold the same thing at the same time, by index; {-1, -1}:
  /// none, so that find() is unambiguous.
  std::pair<int, int> ambiguous() const;

private:
  /// Of what a buffer holds, all but content and object.
  struct Key {
    int use, device;
    int64_t firstSample;
    bool operator==(const Key &o) const {
      return use == o.use && device == o.device && firstSample == o.firstSample;
    }
    bool operator<(const Key &o) const {
      return std::tie(use, device, firstSample) <
             std::tie(o.use, o.device, o.firstSample);
    }
  };
  /// Apart from the buffers, so that a search stays within few bytes.
  struct Entry {
    Key held;
    Point first; ///< of the live range
    int buffer;
  };

  const std::vector<Buffer> &buffers;
  size_t objects = 0; ///< one more than the highest object, 0 for -1
  /// By content, object, the rest of what is held, and the beginning.
  std::vector<Entry> entries;
  std::vector<int> starts; ///< of each (content, object), in `entries`

  size_t cell(Content content, int object) const {
    return static_cast<size_t>(content) * objects +
           static_cast<size_t>(object + 1);
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUFFERINDEX_H
