//===- Engine.h - Executes programs on a driver -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_ENGINE_H
#define RUNTIME_ENGINE_ENGINE_H

#include "runtime/engine/Blob.h"
#include "runtime/engine/Profile.h"
#include "runtime/engine/Trace.h"
#include "runtime/hal/Driver.h"

#include <memory>
#include <optional>
#include <string>

namespace harmony::runtime {

struct EngineOptions {
  bool singleThread = false;
  std::optional<uint64_t> adversarialSeed;
  bool virtualTime = false;
  /// Executions of the step program that may be under way at a time, at most
  /// Driver::maximalCopies. Number n (from 0) reads copy n mod inFlight of
  /// batch and scalars. Other programs have one, and copy 0.
  unsigned inFlight = 1;
  Trace *trace = nullptr;     // outlives the engine
  Profile *profile = nullptr; // likewise; not with virtual time
  // Negative controls, numbered as NegativeControl.h says.
  std::optional<int64_t> dropWait, earlyRelease;
};

/// Runs the programs of a blob. Queues run on into the next execution of the
/// step program as soon as it has begun and their waits allow; executions of
/// different programs follow each other without overlap. Nothing is allocated
/// after the first execution of a program.
///
/// Every queue has a thread of its own, unless one thread runs all of them:
///   singleThread      in turn, switching where a queue has to wait;
///   adversarialSeed   command by command in a hostile order (Adversary.h);
///   virtualTime       command by command in the order of a simulated machine,
///                     which also tells how long an execution takes there
///                     (VirtualClock.h).
class Engine {
public:
  /// Blob and driver outlive the engine. Creates the queues of every program
  /// that the blob holds and starts the threads. Throws Usage for a negative
  /// control that there is not.
  Engine(const Blob &blob, Driver &driver, const EngineOptions &options);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  /// Begins an execution of the program and returns at once; its copy of batch
  /// and scalars is set. Less than inFlight are under way, all of this program.
  /// `dump`: its commands with a reference in the dump space are executed
  /// rather than skipped.
  void begin(HmProgramKind kind, bool dump = false);

  /// Returns when all queues are done with the oldest execution of the program
  /// that has begun and is not finished. Throws the first error of a queue,
  /// with the queue and command in its message; the other queues stop at their
  /// next wait, and the engine runs nothing afterwards. A queue's thread that
  /// ends without an exception ends the process; the message names the queue.
  void finish(HmProgramKind kind);

  void run(HmProgramKind kind, bool dump = false) {
    begin(kind, dump);
    finish(kind);
  }

  /// How often the program has been executed; executions under way apart.
  int64_t executions(HmProgramKind kind) const;
  /// Of the program, begun and not finished.
  unsigned underWay(HmProgramKind kind) const;

  /// Of the execution finished last: bytes and times of it alone, peaks since
  /// the engine was made. What it left at `home`, the place of a loss term in
  /// the host store; nothing where the program does not write there.
  const Evidence &evidence(HmProgramKind kind) const;
  std::optional<float> result(HmProgramKind kind, int64_t home) const;

  /// On the virtual clock: from the end of the execution before, or from the
  /// beginning where none was under way then, to the end of the execution of
  /// any program that was finished last; 0 without a clock.
  double virtualSeconds() const;

private:
  struct Program;
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

/// The kernels of a blob with the functions of its payload.
KernelTable kernelTable(const Blob &blob, const HmRangeFunction *functions,
                        size_t functionCount);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_ENGINE_H
