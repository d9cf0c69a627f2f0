//===- PagedPlan.h - A plan made operation by operation ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to Paging.cpp: events in order of creation, sorted into the sections
// of operations; buffers, homes and scalars.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PAGEDPLAN_H
#define COMPILER_PLANNER_PAGEDPLAN_H

#include "compiler/Planner/Paging.h"

#include <map>

namespace harmony::planner {

class PagedPlan {
public:
  PagedPlan(const Problem &problem, const PagedProgram &program, int devices);

protected:
  /// Events of one operation, in issue order: transfers of tensors and the
  /// like, values in, the operation itself, values out.
  struct Section {
    std::vector<int> before, loads;
    int event = -1;
    std::vector<int> after;
  };

  const Problem &problem;
  const PagedProgram &program;
  int devices;
  Draft draft;
  std::vector<Event> events;     ///< in order of creation
  std::vector<Section> sections; ///< by operation
  std::vector<int> suffix;       ///< events behind all operations

  int queue(QueueKind kind, int device, int lane = 0);
  int makeEvent(EventKind kind, int queue, int device, int object, int use,
                int phase = -1);
  int makeBuffer(Content content, int object, int use, int64_t firstSample,
                 int device, int64_t size);
  /// Records an access; the live range covers it. Accesses come in issue order.
  void touch(int event, int buffer, bool writes);
  /// Of a value its microbatch, which is that of the event's phase.
  void touchHome(int event, const Piece &piece, bool writes);
  static EventKind loadOf(Content content);
  static EventKind storeOf(Content content);

  /// The events of the operations themselves, and what lives in them alone.
  void makeOperationEvents();
  /// Of a Contribute operation: its scalar, to the host.
  void addContribution(int operation);
  /// Seeds and accumulators; needs the operations' events.
  void addScalars();
  Draft finish();

private:
  /// A live range by events in order of creation.
  struct Range {
    int first = -1, firstStep = 0, last = -1, lastStep = 0;
  };

  std::vector<Range> ranges; ///< of draft.plan.buffers
  std::vector<int> prefix;   ///< events before all operations
  std::map<std::pair<int, int>, int> homeOf[6]; ///< by kind, object and use
  int64_t microbatches = 0;                     ///< of all groups

  int lastStep(int event) const;
  void addTransients(int event, const Phase &phase);
  void makeHomes();
  int home(HomeKind kind, int object, int use, int64_t size);
  int pieceHome(const Piece &piece);
  int64_t valueHomeBytes(int v) const;
  int scalarBuffer(int scalar, int use, int device);
  int transferScalar(EventKind kind, int scalar, int use, int device,
                     int buffer);
  void addSeed(int scalar);
  void addAccumulator(int scalar, int group);
};

/// Of a microbatch, moved as part of a phase's loop.
inline bool isValue(Content content) {
  return content == Content::Value || content == Content::ValueGradient;
}

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PAGEDPLAN_H
