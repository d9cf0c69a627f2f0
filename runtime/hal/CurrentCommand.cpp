//===- CurrentCommand.cpp - What a thread is executing --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/hal/CurrentCommand.h"

#include "runtime/hal/Error.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

namespace harmony::runtime {

thread_local const CurrentCommand *currentCommand = nullptr;

namespace {

// Only async-signal-safe calls.
void print(const char *text) {
  ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  (void)ignored;
}

void printNumber(uint64_t value) {
  char text[24];
  char *at = text + sizeof(text) - 1;
  *at = 0;
  do
    *--at = static_cast<char>('0' + value % 10);
  while (value /= 10);
  print(at);
}

void printCommand(const CurrentCommand &command) {
  if (!command.queue) {
    print("'");
    print(command.label);
    print("'");
    return;
  }
  if (command.device == HM_NONE) {
    print("the host");
  } else {
    print("device ");
    printNumber(command.device);
  }
  print(", queue '");
  print(command.queue);
  print("' command ");
  printNumber(command.index);
  print(" (");
  print(command.opcode);
  print(" '");
  print(command.label);
  print("'), iteration ");
  printNumber(static_cast<uint64_t>(command.iteration));
}

} // namespace

void endProcess(const char *what, const CurrentCommand *command) {
  // One report: workers that run the same kernel fault together.
  static std::atomic_flag reporting = ATOMIC_FLAG_INIT;
  while (reporting.test_and_set())
    pause();
  print("internal error: ");
  print(what);
  print(command ? " in " : " outside of commands");
  if (command)
    printCommand(*command);
  print("\n");
  _exit(static_cast<int>(ExitCode::Internal));
}

} // namespace harmony::runtime
