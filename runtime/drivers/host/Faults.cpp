//===- Faults.cpp - Memory faults inside kernels --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Faults.h"

#include "runtime/hal/CurrentCommand.h"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace harmony::runtime {

namespace {

#ifdef HARMONY_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

const char *describeSignal(int number) {
  switch (number) {
  case SIGFPE:
    return "arithmetic fault at ";
  case SIGILL:
    return "illegal instruction at ";
  default:
    return "invalid memory access at ";
  }
}

void reportFault(int number, siginfo_t *info, void *) {
  if (number == SIGABRT)
    endProcess("abort", currentCommand);
  char what[64];
  std::strcpy(what, describeSignal(number));
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  char *at = what + std::strlen(what);
  *at++ = '0';
  *at++ = 'x';
  for (int shift = 8 * sizeof(address) - 4; shift >= 0; shift -= 4)
    *at++ = "0123456789abcdef"[address >> shift & 15];
  *at = 0;
  endProcess(what, currentCommand);
}

} // namespace

void installFaultHandlers() {
  if (sanitized)
    return;
  useFaultStack();
  struct sigaction action = {};
  action.sa_sigaction = reportFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(number, &action, nullptr);
}

void useFaultStack() {
  if (sanitized)
    return;
  static constexpr size_t stackBytes = 32 << 10;
  thread_local char memory[stackBytes];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = stackBytes;
  sigaltstack(&stack, nullptr);
}

} // namespace harmony::runtime
