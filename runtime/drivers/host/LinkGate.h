//===- LinkGate.h - Copies as slow as links ---------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_LINKGATE_H
#define RUNTIME_DRIVERS_HOST_LINKGATE_H

#include "runtime/hal/Links.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace harmony::runtime {

/// Makes copies last as long as their links need, shared with the copies that
/// are under way at the same time.
class LinkGate {
public:
  explicit LinkGate(const LinkTable &links);

  /// From the start of a copy to its end: the destructor returns when the link
  /// has had its time. Nothing where `gate` is null or there is no such link.
  class Passage {
  public:
    Passage(LinkGate *gate, int from, int to, int64_t bytes);
    ~Passage();
    Passage(const Passage &) = delete;
    Passage &operator=(const Passage &) = delete;

  private:
    friend class LinkGate;
    LinkGate *gate = nullptr;
    int link = LinkShares::none;
    TransferProgress progress;
    bool over = false;
  };

private:
  using Clock = std::chrono::steady_clock;

  /// Brings every transfer up to date; one whose time ends on the way makes
  /// room for the others from then on. Returns whether one has ended.
  bool advance();

  std::mutex mutex;
  std::condition_variable changed;
  LinkShares shares;
  std::vector<Passage *> passages; // under way
  Clock::time_point now = Clock::now();
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_LINKGATE_H
