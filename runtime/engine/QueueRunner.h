//===- QueueRunner.h - One queue of a program -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_QUEUERUNNER_H
#define RUNTIME_ENGINE_QUEUERUNNER_H

#include "runtime/engine/Blob.h"
#include "runtime/engine/Cursor.h"
#include "runtime/engine/Profile.h"
#include "runtime/engine/Trace.h"
#include "runtime/hal/CurrentCommand.h"
#include "runtime/hal/Driver.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace harmony::runtime {

/// A range that is poisoned before its last reader runs; see NegativeControl.h.
struct EarlyRelease {
  size_t reader = 0;  // command of the queue
  size_t release = 0; // the release that comes too early
};

/// A float of the host store that an execution leaves behind: `home` is copied
/// to `kept` in the results space by the queue that writes it, right behind
/// each command that does, since the next execution may overwrite it any time
/// later.
struct KeptResult {
  int64_t home = 0, kept = 0; // offsets
};

/// Issues the commands of one queue to the driver's queue, one by one. A
/// program's runners stand in the order of its queues.
class QueueRunner {
public:
  /// `trace` may be null. A virtual one is recorded by whoever has the times.
  QueueRunner(const Blob &blob, HmProgramKind kind, size_t number,
              std::unique_ptr<Queue> target, Trace *trace);

  /// Keeps a result behind every command of the queue that writes it; false if
  /// there is none. Before the first start.
  bool keep(const KeptResult &result);

  /// Back to the first command, for execution number `step` of the program.
  /// `copy`: of batch and scalars; results are kept from `resultsBase` on.
  void start(int64_t step, bool dump, unsigned copy, int64_t resultsBase);

  /// What its commands take is recorded there, if not null.
  void measure(Profile *recorder) { profile = recorder; }

  /// Of an execution; also before the first.
  bool atEnd() const { return step < 0 || cursor.atEnd(); }
  /// The next command is no wait, or its wait is over.
  bool ready(const std::vector<QueueRunner> &queues) const;
  /// Executes the next command, waiting where it is a wait, and records it.
  /// Errors name the command.
  void executeNext(const std::vector<QueueRunner> &queues);
  /// After the last command. Throws Internal when the timeline is not where the
  /// period says.
  void finish();
  /// Executions started.
  int64_t started() const { return step + 1; }

  Queue &driverQueue() const { return *target; }
  const char *name() const { return blob.string(queue.name); }
  uint32_t device() const {
    return queue.kind == HM_QUEUE_HOST ? HM_NONE : queue.device;
  }

  /// Negative controls: a wait that is passed over, a release that comes early.
  void dropWait(size_t command) { droppedWait = command; }
  void releaseEarly(EarlyRelease release) { early = release; }

private:
  static constexpr size_t nothing = ~size_t(0);

  Range resolve(const HmRef &ref, int64_t iteration) const;
  int64_t awaited(const std::vector<QueueRunner> &queues) const;
  /// False where the command is skipped: it dumps, and nothing is dumped.
  bool execute(const HmCommand &c);
  void poisonEarly();
  void keepResults();
  CurrentCommand describe() const;

  const Blob &blob;
  const HmProgramKind kind;
  const size_t number;
  const HmQueue &queue;
  std::unique_ptr<Queue> target;
  Trace *trace;
  Profile *profile = nullptr;
  Cursor cursor;
  int64_t step = -1;
  bool dump = false;
  unsigned copy = 0;
  int64_t resultsBase = 0;
  /// By command: a result that it may write.
  std::vector<std::pair<size_t, KeptResult>> results;
  size_t droppedWait = nothing;
  EarlyRelease early = {nothing, nothing};
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_QUEUERUNNER_H
