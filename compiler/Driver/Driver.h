//===- Driver.h - harmonyc's commands ---------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_DRIVER_H
#define COMPILER_DRIVER_DRIVER_H

namespace harmony {

/// Runs a command line; returns the exit code (Options.h). Diagnostics go to
/// stderr.
int runDriver(int argc, char **argv);

} // namespace harmony

#endif // COMPILER_DRIVER_DRIVER_H
