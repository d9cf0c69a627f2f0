//===- Faults.cpp - Memory faults inside kernels --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Faults.h"

#include "runtime/hal/Error.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <unistd.h>

namespace harmony::runtime {

thread_local const char *FaultLabel::current = nullptr;

namespace {

// Only async-signal-safe calls from here on.
void print(const char *text) {
  ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  (void)ignored;
}

void printHexadecimal(uintptr_t value) {
  char text[2 * sizeof(value) + 3] = "0x";
  for (unsigned i = 0; i < 2 * sizeof(value); ++i)
    text[2 + i] =
        "0123456789abcdef"[value >> (8 * sizeof(value) - 4 - 4 * i) & 15];
  print(text);
}

void reportFault(int number, siginfo_t *info, void *) {
  // One report: workers that run the same kernel fault together.
  static std::atomic_flag reporting = ATOMIC_FLAG_INIT;
  while (reporting.test_and_set())
    pause();
  const char *what = number == SIGSEGV || number == SIGBUS
                         ? "invalid memory access at "
                     : number == SIGFPE ? "arithmetic fault at "
                                        : "illegal instruction at ";
  print("internal error: ");
  print(what);
  printHexadecimal(reinterpret_cast<uintptr_t>(info->si_addr));
  print(FaultLabel::current ? " in '" : " outside of kernels");
  if (FaultLabel::current) {
    print(FaultLabel::current);
    print("'");
  }
  print("\n");
  _exit(static_cast<int>(ExitCode::Internal));
}

} // namespace

void installFaultHandlers() {
#ifdef HARMONY_SANITIZED
  constexpr bool sanitized = true;
#else
  constexpr bool sanitized = false;
#endif
  if (sanitized)
    return;
  struct sigaction action = {};
  action.sa_sigaction = reportFault;
  action.sa_flags = SA_SIGINFO;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    sigaction(number, &action, nullptr);
}

} // namespace harmony::runtime
