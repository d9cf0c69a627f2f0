//===- Sandbox.h - The folder that a target reads from ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_SANDBOX_H
#define TEST_FUZZ_SANDBOX_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace harmony::fuzz {

/// A folder in memory where the system has one, removed when the process ends
/// well. It holds what external data may refer to: "data.bin" of 64 bytes,
/// "empty.bin", "sub/data.bin", the pipe "pipe", and two links, "link.bin" to
/// data.bin and "out" to the root folder.
class Sandbox {
public:
  Sandbox();
  ~Sandbox();
  Sandbox(const Sandbox &) = delete;
  Sandbox &operator=(const Sandbox &) = delete;

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }
  /// Replaces the file `name`; returns its path.
  std::string write(const std::string &name, const void *data,
                    size_t size) const;

private:
  std::string folder;
};

/// Says what does not hold and aborts, which is what a fuzzer looks for.
[[noreturn]] void fail(const std::string &what);

} // namespace harmony::fuzz

#endif // TEST_FUZZ_SANDBOX_H
