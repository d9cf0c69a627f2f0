//===- Faults.h - Memory faults inside kernels ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_FAULTS_H
#define RUNTIME_DRIVERS_HOST_FAULTS_H

namespace harmony::runtime {

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT that end
/// the process and name the command that the thread was running: generated code
/// has no way to unwind. Idempotent; does nothing in sanitizer builds, whose
/// reports say more.
void installFaultHandlers();

/// Gives the calling thread a stack for these handlers, so that an overflow of
/// its own is reported as well.
void useFaultStack();

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_FAULTS_H
