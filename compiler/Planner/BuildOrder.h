//===- BuildOrder.h - Order of a plan under construction --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDORDER_H
#define COMPILER_PLANNER_BUILDORDER_H

#include "compiler/Planner/BuildContext.h"

namespace harmony::planner {

/// From the sections to one order of all events, and what follows from it.
class OrderBuilder {
public:
  explicit OrderBuilder(BuildContext &context)
      : b(context), choices(context.choices) {}

  /// Orders the events; sections are empty then.
  void arrange();
  /// After arrange(): queues, events and live ranges of the plan.
  void number();
  /// After arrange(), in place of number(): liveBytes() of the plan.
  std::vector<int64_t> livePeaks();

private:
  BuildContext &b;
  const Choices &choices;
  std::vector<int> order; ///< events
  std::vector<int> index; ///< by event: its place in `order`
  // For a while.
  std::vector<int> sorted;
  std::vector<char> used;
  std::vector<int> hostIndex, queueIndex;
  std::vector<int> points;
  struct Span {
    int first = 0, last = 0;
  };
  std::vector<Span> spans;
  std::vector<int64_t> changes;

  template <typename Before>
  void sort(EventList &list, Before isBefore);
  void sortByNeed(EventList &list);
  void append(const EventList &list);
  int nextBlock(int p) const;
  void appendBefore(int p);
  void appendRuns(int band, int end);
  void appendBehind(int p);
  void appendLast();
  void numberQueues();
  void setLiveRanges();
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDORDER_H
