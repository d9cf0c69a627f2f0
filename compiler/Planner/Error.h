//===- Error.h - The planner's one error type -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_ERROR_H
#define COMPILER_PLANNER_ERROR_H

#include <stdexcept>
#include <string>

namespace harmony::planner {

/// Input that cannot be used: an inconsistent problem, a malformed file, a pin
/// that contradicts another. The message names the place, the value found and
/// what is accepted. Callers turn it into a diagnostic at their border.
struct Error : std::runtime_error {
  explicit Error(const std::string &message) : std::runtime_error(message) {}
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_ERROR_H
