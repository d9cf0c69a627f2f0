//===- BufferIndex.cpp - Finding buffers of a large plan ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BufferIndex.h"

#include <algorithm>
#include <numeric>

namespace harmony::planner {

BufferIndex::BufferIndex(const Plan &plan) : buffers(plan.buffers) {
  objects = 1;
  for (const Buffer &buffer : buffers)
    objects = std::max(objects, static_cast<size_t>(buffer.object + 2));
  starts.assign(objects * (static_cast<size_t>(Content::Scalar) + 1) + 1, 0);
  for (const Buffer &buffer : buffers)
    ++starts[cell(buffer.content, buffer.object) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  entries.resize(buffers.size());
  std::vector<int> ends(starts.begin(), starts.end() - 1);
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Buffer &buffer = buffers[b];
    entries[ends[cell(buffer.content, buffer.object)]++] = {
        {buffer.use, buffer.device, buffer.firstSample},
        buffer.first,
        static_cast<int>(b)};
  }
  for (size_t of = 0; of + 1 < starts.size(); ++of)
    std::stable_sort(
        entries.begin() + starts[of], entries.begin() + starts[of + 1],
        [](const Entry &x, const Entry &y) {
          return x.held == y.held ? x.first < y.first : x.held < y.held;
        });
}

const Buffer *BufferIndex::find(Content content, int object, int use,
                                int device, Point at,
                                int64_t firstSample) const {
  if (object < -1 || static_cast<size_t>(object + 1) >= objects)
    return nullptr;
  size_t of = cell(content, object);
  auto begin = entries.begin() + starts[of];
  Key key{use, device, firstSample};
  // The first that begins behind the point.
  auto after = std::partition_point(
      begin, entries.begin() + starts[of + 1], [&](const Entry &entry) {
        return !(key < entry.held) && (entry.held < key || entry.first <= at);
      });
  if (after == begin)
    return nullptr;
  const Entry &entry = *std::prev(after);
  const Buffer &buffer = buffers[entry.buffer];
  return entry.held == key && at <= buffer.last ? &buffer : nullptr;
}

std::pair<int, int> BufferIndex::ambiguous() const {
  for (size_t i = 1; i < entries.size(); ++i) {
    const Buffer &x = buffers[entries[i - 1].buffer],
                 &y = buffers[entries[i].buffer];
    if (x.content == y.content && x.object == y.object &&
        entries[i - 1].held == entries[i].held && y.first <= x.last)
      return {entries[i - 1].buffer, entries[i].buffer};
  }
  return {-1, -1};
}

} // namespace harmony::planner
