//===- BufferIndex.cpp - Finding buffers of a large plan ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BufferIndex.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace harmony::planner {

namespace {

auto held(const Buffer &buffer) {
  return std::make_tuple(buffer.use, buffer.device, buffer.firstSample);
}

} // namespace

BufferIndex::BufferIndex(const Plan &plan) : buffers(plan.buffers) {
  objects = 1;
  for (const Buffer &buffer : buffers)
    objects = std::max(objects, static_cast<size_t>(buffer.object + 2));
  order.resize(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const Buffer &x = buffers[a], &y = buffers[b];
    size_t cellX = cell(x.content, x.object), cellY = cell(y.content, y.object);
    if (cellX != cellY)
      return cellX < cellY;
    if (held(x) != held(y))
      return held(x) < held(y);
    return x.first == y.first ? a < b : x.first < y.first;
  });
  starts.assign(objects * (static_cast<size_t>(Content::Scalar) + 1) + 1, 0);
  for (const Buffer &buffer : buffers)
    ++starts[cell(buffer.content, buffer.object) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
}

const Buffer *BufferIndex::find(Content content, int object, int use,
                                int device, Point at,
                                int64_t firstSample) const {
  if (object < -1 || static_cast<size_t>(object + 1) >= objects)
    return nullptr;
  size_t of = cell(content, object);
  auto begin = order.begin() + starts[of], end = order.begin() + starts[of + 1];
  auto key = std::make_tuple(use, device, firstSample);
  auto after = std::upper_bound(begin, end, at, [&](Point point, int index) {
    const Buffer &buffer = buffers[index];
    return key != held(buffer) ? key < held(buffer) : point < buffer.first;
  });
  if (after == begin)
    return nullptr;
  const Buffer &buffer = buffers[*std::prev(after)];
  return held(buffer) == key && at <= buffer.last ? &buffer : nullptr;
}

std::pair<int, int> BufferIndex::ambiguous() const {
  for (size_t i = 1; i < order.size(); ++i) {
    const Buffer &x = buffers[order[i - 1]], &y = buffers[order[i]];
    if (x.content == y.content && x.object == y.object && held(x) == held(y) &&
        y.first <= x.last)
      return {order[i - 1], order[i]};
  }
  return {-1, -1};
}

} // namespace harmony::planner
