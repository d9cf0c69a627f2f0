//===- Error.h - How the runtime reports what went wrong --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_ERROR_H
#define RUNTIME_HAL_ERROR_H

#include <stdexcept>
#include <string>

namespace harmony::runtime {

/// What the executable returns to the shell; docs and scripts rely on the
/// values.
enum class ExitCode : int {
  Failure = 1,   // a file could not be written, a device failed
  Usage = 2,     // flags, or an executable without a payload
  NoDevice = 3,  // device or host memory, or the processor, is not there
  Data = 4,      // data or weights: file, key, sample
  NotFinite = 5, // loss or gradient
  Internal = 70, // the program contradicts itself or its plan
};

/// The one exception of the runtime. The message is complete: what, where, the
/// value, what is accepted. `main` prints it and returns the code.
class Error : public std::runtime_error {
public:
  Error(ExitCode code, const std::string &message)
      : std::runtime_error(message), code(code) {}

  ExitCode exitCode() const { return code; }

private:
  ExitCode code;
};

/// Thrown out of waits once another queue has failed; never the cause itself.
class Aborted : public Error {
public:
  Aborted()
      : Error(ExitCode::Failure, "stopped because another queue failed") {}
};

} // namespace harmony::runtime

#endif // RUNTIME_HAL_ERROR_H
