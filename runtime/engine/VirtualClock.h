//===- VirtualClock.h - When commands would run on a machine ----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_VIRTUALCLOCK_H
#define RUNTIME_ENGINE_VIRTUALCLOCK_H

#include "runtime/engine/Blob.h"
#include "runtime/engine/Cursor.h"
#include "runtime/hal/Links.h"

#include <string>
#include <vector>

namespace harmony::runtime {

LinkTable linkTable(const Blob &blob);

/// Discrete-event simulation of one program's executions. Every queue has at
/// most one command under way. Launches take the seconds that the program
/// predicts; copies between endpoints with a link take its latency and then
/// their bytes at the share of it that they get (see HmLink); all else takes no
/// time. Waits, timelines and loops are those of the engine: a queue enters the
/// next execution when that has begun. The planner's simulator
/// (compiler/Planner/Simulate.cpp) is to have the same rules and shares no code
/// with this.
class VirtualClock {
public:
  /// The blob outlives it.
  VirtualClock(const Blob &blob, HmProgramKind kind);

  /// The execution after the last begins: now, or at `at` where that is later.
  void begin(double at);

  struct Completion {
    size_t queue;
    size_t command;
    int64_t iteration;
    double begin, end; // seconds
  };
  /// The command that is over next; of those over at one time in the order of
  /// queues. A wait begins when its queue comes to it. Returns false when no
  /// queue can go on.
  bool next(Completion &completion);

  double now() const { return time; }

private:
  struct State {
    explicit State(Span<HmCommand> commands) : cursor(commands) {}

    Cursor cursor;
    int64_t step = -1; // the execution that it is in or has left
    int64_t timeline = 0;
    bool busy = false;
    bool over = false; // to be completed at the present time
    double begun = 0;  // busy or waiting since

    bool atEnd() const { return step < 0 || cursor.atEnd(); }
    int link = LinkShares::none;
    TransferProgress progress; // launches: seconds in latencyLeft
  };

  bool ready(const State &state) const;
  void enter(State &state);
  void start(State &state);
  double timeLeft(const State &state);
  /// To the next time at which commands end; false when none is under way.
  bool advance();

  const Blob &blob;
  const HmProgramKind kind;
  LinkShares shares;
  std::vector<State> states;
  int64_t begun = 0; // executions
  double time = 0;
  size_t firstOver = 0; // no queue before it is over
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_VIRTUALCLOCK_H
