//===- Order.h - What waits and queues imply --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of the step program's commands that holds however long each takes:
// that of each queue, and that of signals before the waits for them. Executions
// overlap as the engine lets them.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_ORDER_H
#define RUNTIME_ENGINE_ORDER_H

#include "runtime/engine/Blob.h"
#include "runtime/engine/Cursor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace harmony::runtime {

struct CommandPlace {
  size_t queue = 0, command = 0;
};

/// Replays executions and keeps, for every queue, what it knows to be over: a
/// vector clock whose entry r is a value that the timeline of r has certainly
/// reached.
class Order {
public:
  using Clock = std::vector<int64_t>;

  /// The blob outlives it. `dropped`: a wait that is passed over.
  explicit Order(const Blob &blob,
                 std::optional<CommandPlace> dropped = std::nullopt);

  /// Called for every command but waits, of one queue in its order, with all
  /// that comes before called before. The command is over when its queue's
  /// timeline has reached `over`.
  using Visitor = std::function<void(size_t queue, const Cursor &cursor,
                                     const Clock &known, int64_t over)>;

  /// The next execution. One may begin when the one two before is over.
  void replay(const Visitor &visit);

  /// Whether the wait has told its queue something which neither the others in
  /// front of the same command nor anything before had.
  bool isNeeded(const CommandPlace &wait) const {
    return needed[wait.queue][wait.command];
  }

private:
  struct Awaited {
    size_t command, queue;
    int64_t value;
  };

  bool pass(size_t q, const Cursor &cursor, const Visitor &visit);
  bool passWaits(size_t q, Cursor cursor);
  void learn(Clock &clock, const Awaited &wait) const;

  const Blob &blob;
  const std::optional<CommandPlace> dropped;
  Span<HmQueue> queues;
  int64_t step = -1;
  std::vector<Clock> known;                 // by queue
  std::vector<std::vector<Clock>> atSignal; // [queue][value - 1]
  std::vector<size_t> passed;            // by queue: waits ahead that are over
  std::vector<std::vector<bool>> needed; // [queue][command]
};

/// Two commands of the step program that touch the same bytes, one of them
/// writing, and of which neither is certain to be over before the other begins:
/// a message that names both, or an empty string. A release writes: poison. The
/// first three executions are looked at; later ones are like the third.
std::string findRace(const Blob &blob,
                     std::optional<CommandPlace> dropped = std::nullopt);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_ORDER_H
