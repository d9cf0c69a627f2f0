//===- Measured.h - Measured costs, machines and numerics keys --*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the compiler learns from executables and from running the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_MEASURED_H
#define COMPILER_DRIVER_MEASURED_H

#include "compiler/Driver/Options.h"
#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Measurements.h"

#include <optional>
#include <string>
#include <vector>

namespace harmony {

/// Reads the file of --profile. Nothing, and a message, on failure.
std::optional<planner::Measurements> readMeasurements(const std::string &path,
                                                      std::string &error);

/// Why costs measured there do not hold here: another processor, version of the
/// product library, instruction set, or number of threads than `machine` says,
/// or, of the `builtIn` one, another number of devices that share the
/// processors; empty if they do. `error` is set where this cannot be found out.
std::string whyStale(const planner::Measurements &measurements,
                     const std::string &isa, const planner::Machine &machine,
                     bool builtIn, std::string &error);

/// Measures this machine: `devices` equal ones that share its processors and
/// its memory. Nothing, and a message, on failure.
std::optional<planner::Machine> measureThisMachine(const std::string &isa,
                                                   unsigned threads,
                                                   int devices,
                                                   std::string &error);

/// Why an executable of this program would refuse it; empty if it would not.
/// `functions`: generated kernels.
std::string whyRefused(const std::vector<char> &program, size_t functions);

/// harmonyc machine: an exit code. `isa`: avx2 or avx512.
int machineCommand(const CompilerOptions &options, const std::string &isa);

/// The numerics key of a plan, a profile or an executable; of what is no file
/// the text itself, if it looks like a key. Empty, and a message, on failure.
std::string readNumericsKey(const std::string &source, std::string &error);

/// What has to be pinned for a plan to have the key. Throws nothing; what the
/// key does not say in so many words is left to the search.
struct NumericsPins {
  std::string key;
  int64_t batch = 0;
  int groups = 1;
  std::optional<int64_t> microbatch; ///< where there is one for all layers
};
NumericsPins pinsOf(const std::string &key);

/// Bytes that a process can get here, by the system and by the memory cgroup,
/// which an executable asks the same way; 0 where the system does not say.
int64_t availableMemory();

} // namespace harmony

#endif // COMPILER_DRIVER_MEASURED_H
