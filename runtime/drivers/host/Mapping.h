//===- Mapping.h - Anonymous memory with guard pages ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_MAPPING_H
#define RUNTIME_DRIVERS_HOST_MAPPING_H

#include <cstddef>
#include <cstdint>

namespace harmony::runtime {

/// Zeroed anonymous memory between two unreadable pages. Starts on a page;
/// pages are taken from the system when they are first touched.
class Mapping {
public:
  /// Throws NoDevice naming `what` when the system refuses. `bytes` may be 0.
  Mapping(int64_t bytes, const char *what);
  ~Mapping();
  Mapping(Mapping &&other) noexcept;
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  Mapping &operator=(Mapping &&) = delete;

  char *data() const { return base; }
  int64_t size() const { return bytes; }

private:
  char *base = nullptr;
  int64_t bytes = 0;
  size_t mappedBytes = 0; // guards included
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_MAPPING_H
