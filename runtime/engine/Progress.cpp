//===- Progress.cpp - Does a program run to its end? ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Progress.h"

#include "runtime/engine/Cursor.h"

#include <vector>

namespace harmony::runtime {

std::string findStuckWait(const Blob &blob, HmProgramKind kind) {
  Span<HmQueue> queues = blob.queues(kind);
  std::vector<int64_t> timelines(queues.size(), 0);
  for (int64_t step = 0; step < 2; ++step) {
    std::vector<Cursor> cursors;
    for (const HmQueue &queue : queues)
      cursors.emplace_back(blob.commands(queue));
    auto target = [&](const Cursor &cursor) {
      const HmCommand &c = cursor.command();
      return awaitedValue(c, queues[c.kernel].period, step, cursor.iteration());
    };
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t q = 0; q < queues.size(); ++q) {
        Cursor &cursor = cursors[q];
        for (; !cursor.atEnd(); cursor.next(), moved = true) {
          const HmCommand &c = cursor.command();
          if (c.op == HM_OP_WAIT && timelines[c.kernel] < target(cursor))
            break;
          timelines[q] += c.signal;
        }
      }
    }
    for (size_t q = 0; q < queues.size(); ++q) {
      if (cursors[q].atEnd())
        continue;
      const HmCommand &c = cursors[q].command();
      return "in execution " + std::to_string(step + 1) + " queue '" +
             blob.string(queues[q].name) + "' command " +
             std::to_string(cursors[q].index()) + ", iteration " +
             std::to_string(cursors[q].iteration()) + ", waits for '" +
             blob.string(queues[c.kernel].name) + "' to reach " +
             std::to_string(target(cursors[q])) + ", it stops at " +
             std::to_string(timelines[c.kernel]);
    }
  }
  return "";
}

} // namespace harmony::runtime
