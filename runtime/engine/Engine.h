//===- Engine.h - Executes programs on a driver -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_ENGINE_H
#define RUNTIME_ENGINE_ENGINE_H

#include "runtime/engine/Blob.h"
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
  Trace *trace = nullptr; // outlives the engine
  // Negative controls, numbered as NegativeControl.h says.
  std::optional<int64_t> dropWait, earlyRelease;
};

/// Runs the programs of a blob. Executions of one program follow each other
/// without overlap, which every program allows. Nothing is allocated after the
/// first execution of a program.
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

  /// Executes the program once and returns when all of its queues are done.
  /// `dump`: its commands with a reference in the dump space are executed
  /// rather than skipped. Throws the first error of a queue, with the queue and
  /// command in its message; the other queues stop at their next wait, and the
  /// engine runs nothing afterwards. A queue's thread that ends without an
  /// exception ends the process; the message names the queue.
  void run(HmProgramKind kind, bool dump = false);

  /// How often the program has been executed.
  int64_t executions(HmProgramKind kind) const;

  /// What the last execution of any program takes on the virtual clock; 0
  /// without one.
  double virtualSeconds() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

/// The kernels of a blob with the functions of its payload.
KernelTable kernelTable(const Blob &blob, const HmRangeFunction *functions,
                        size_t functionCount);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_ENGINE_H
