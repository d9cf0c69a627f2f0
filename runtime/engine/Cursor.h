//===- Cursor.h - Walking through a queue's commands ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_CURSOR_H
#define RUNTIME_ENGINE_CURSOR_H

#include "runtime/engine/Blob.h"

#include <algorithm>

namespace harmony::runtime {

/// Where a reference lies in its space in an iteration.
inline int64_t offsetOf(const HmRef &ref, int64_t iteration) {
  int64_t divide = std::max<int64_t>(1, ref.divide);
  int64_t slot = iteration / divide;
  if (ref.modulo)
    slot %= ref.modulo;
  return ref.offset + slot * ref.stride + iteration % divide * ref.part;
}

/// Whether a copy, fill or launch reads, writes its operand number `operand`.
inline bool readsOperand(const HmCommand &c, uint32_t operand,
                         const HmRef &ref) {
  if (c.op == HM_OP_COPY)
    return operand == 1;
  return c.op == HM_OP_LAUNCH && (ref.access & 1);
}
inline bool writesOperand(const HmCommand &c, uint32_t operand,
                          const HmRef &ref) {
  if (c.op == HM_OP_COPY || c.op == HM_OP_FILL)
    return operand == 0;
  return c.op == HM_OP_LAUNCH && (ref.access & 2);
}

/// What a wait waits for on a queue with this period; 0, which every timeline
/// has reached, in an iteration that does not wait.
inline int64_t awaitedValue(const HmCommand &wait, int64_t period, int64_t step,
                            int64_t iteration) {
  if (iteration < wait.first)
    return 0;
  return step * period + wait.a +
         iteration / std::max<int64_t>(1, wait.count) * wait.b;
}

/// The position in a queue's command list, loops unrolled. The list has been
/// checked.
class Cursor {
public:
  explicit Cursor(Span<HmCommand> commands) : commands(commands) {
    skipLoops();
  }

  bool atEnd() const { return position >= commands.size(); }
  const HmCommand &command() const { return commands[position]; }
  /// Of the enclosing loop; 0 outside of one.
  int64_t iteration() const { return current; }
  /// Of the enclosing loop; 1 outside of one.
  int64_t iterationCount() const { return inLoop ? iterations : 1; }
  size_t index() const { return position; }

  void next() {
    ++position;
    skipLoops();
  }

  void restart() {
    position = 0;
    current = 0;
    inLoop = false;
    skipLoops();
  }

private:
  /// Leaves the cursor at a command that does something, or at the end.
  void skipLoops() {
    while (!atEnd()) {
      const HmCommand &c = commands[position];
      if (c.op == HM_OP_LOOP) {
        current = 0;
        iterations = c.a;
        inLoop = true;
        bodyStart = position + 1;
        if (iterations == 0) {
          inLoop = false;
          while (commands[position].op != HM_OP_END)
            ++position;
        }
        ++position;
      } else if (c.op == HM_OP_END) {
        if (++current < iterations) {
          position = bodyStart;
        } else {
          current = 0;
          inLoop = false;
          ++position;
        }
      } else {
        return;
      }
    }
  }

  Span<HmCommand> commands;
  size_t position = 0;
  size_t bodyStart = 0;
  int64_t current = 0;
  int64_t iterations = 0;
  bool inLoop = false;
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_CURSOR_H
