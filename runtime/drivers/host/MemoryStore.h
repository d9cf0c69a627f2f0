//===- MemoryStore.h - A host store that is always there --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_MEMORYSTORE_H
#define RUNTIME_DRIVERS_HOST_MEMORYSTORE_H

#include "runtime/drivers/host/Mapping.h"
#include "runtime/drivers/host/StoreFile.h"
#include "runtime/hal/HostStore.h"

#include <optional>
#include <string>

namespace harmony::runtime {

/// Anonymous memory; or a file that is mapped, which the system pages.
class MemoryStore final : public HostStore {
public:
  /// Throws NoDevice.
  explicit MemoryStore(int64_t bytes) : bytes(bytes) {
    anonymous.emplace(bytes, "host store");
    base = anonymous->data();
  }
  /// The file lies in the folder `path`. Throws as StoreFile does.
  MemoryStore(int64_t bytes, const std::string &path);
  ~MemoryStore() override;

  char *data() const override { return base; }
  int64_t size() const override { return bytes; }
  void enter(const HostAccess *, size_t, bool) override {}
  void leave(const HostAccess *, size_t, bool) override {}
  int64_t piece(int64_t, int64_t most) const override {
    return most < pieceBytes ? most : pieceBytes;
  }
  void begin(HmProgramKind) override {}
  void setAccessible(bool isAccessible) override;
  int64_t memoryBytes() const override { return bytes; }
  HostStoreEvidence evidence() const override { return {}; }

private:
  static constexpr int64_t pieceBytes = int64_t(4) << 20;

  int64_t bytes;
  char *base = nullptr;
  std::optional<Mapping> anonymous;
  std::optional<StoreFile> file;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_MEMORYSTORE_H
