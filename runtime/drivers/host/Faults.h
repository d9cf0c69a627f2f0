//===- Faults.h - Memory faults inside kernels ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_FAULTS_H
#define RUNTIME_DRIVERS_HOST_FAULTS_H

namespace harmony::runtime {

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE and SIGILL that print which
/// command the thread was running and end the process with ExitCode::Internal:
/// generated code has no way to unwind. Idempotent; does nothing in sanitizer
/// builds, whose reports say more.
void installFaultHandlers();

/// Names the command that this thread runs, for as long as the object lives.
class FaultLabel {
public:
  /// `label` outlives the object.
  explicit FaultLabel(const char *label) : outer(current) { current = label; }
  ~FaultLabel() { current = outer; }
  FaultLabel(const FaultLabel &) = delete;
  FaultLabel &operator=(const FaultLabel &) = delete;

  static thread_local const char *current;

private:
  const char *outer;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_FAULTS_H
