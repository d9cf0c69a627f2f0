//===- CurrentCommand.h - What a thread is executing ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For reports of faults and of threads that end: there is no way to unwind from
// either, and the message has to name the command.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_CURRENTCOMMAND_H
#define RUNTIME_HAL_CURRENTCOMMAND_H

#include "runtime/program.h"

#include <cstdint>

namespace harmony::runtime {

/// A command as messages name it. The strings outlive its execution.
struct CurrentCommand {
  const char *queue = nullptr; // null: issued without an engine
  uint32_t device = HM_NONE;   // HM_NONE: the host's queue
  uint64_t index = 0;          // in its queue
  int64_t iteration = 0;
  const char *opcode = "";
  const char *label = "";
};

/// Of this thread; null between commands.
extern thread_local const CurrentCommand *currentCommand;

/// Sets currentCommand for as long as it lives.
class CommandScope {
public:
  /// `command` outlives the object.
  explicit CommandScope(const CurrentCommand *command) : outer(currentCommand) {
    currentCommand = command;
  }
  ~CommandScope() { currentCommand = outer; }
  CommandScope(const CommandScope &) = delete;
  CommandScope &operator=(const CommandScope &) = delete;

private:
  const CurrentCommand *outer;
};

/// Prints "internal error: <what> in device 0, queue 'd0.compute' command 3
/// (launch 'fc1: gemm'), iteration 0" and ends the process with
/// ExitCode::Internal, without destructors. Callable in a signal handler; only
/// the first caller prints.
[[noreturn]] void endProcess(const char *what, const CurrentCommand *command);

} // namespace harmony::runtime

#endif // RUNTIME_HAL_CURRENTCOMMAND_H
