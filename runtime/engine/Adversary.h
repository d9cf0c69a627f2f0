//===- Adversary.h - Hostile but legal orders -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_ADVERSARY_H
#define RUNTIME_ENGINE_ADVERSARY_H

#include "runtime/hal/SplitMix.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmony::runtime {

/// Chooses which of the queues that could go on executes its next command. Any
/// legal order can come out; policies that run to extremes make those likely
/// that a machine rarely shows. Deterministic by seed.
class Adversary {
public:
  enum class Policy {
    Uniform,     // any
    Priorities,  // a random order of queues, drawn anew now and then
    Starve,      // one queue only when no other can go on
    RunAhead,    // one queue as far as it can, then any other
    NewestReady, // the queue that became ready last
    OldestReady, // the queue that has been ready longest
    InTurn,      // the next queue after the one chosen last
    Count
  };

  explicit Adversary(uint64_t seed) : random(seed) {}

  /// An execution of a program with this many queues begins.
  void begin(size_t queues);

  /// `ready[q]` says whether queue q could execute a command; at least one
  /// could. Returns the one that does.
  size_t pick(const std::vector<char> &ready);

  Policy policy() const { return current; }

private:
  void drawPolicy();
  size_t choose();
  size_t drawReady();

  SplitMix random;
  Policy current = Policy::Uniform;
  int64_t picksLeft = 0;          // until the next policy
  size_t last = 0;                // chosen last
  size_t victim = 0;              // starved
  std::vector<size_t> priority;   // the first that is ready goes on
  std::vector<size_t> candidates; // ready now
  std::vector<int64_t> since; // pick number at which it became ready; -1: not
  int64_t picks = 0;
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_ADVERSARY_H
