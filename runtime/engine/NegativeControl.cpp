//===- NegativeControl.cpp - Step programs made wrong on purpose ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/NegativeControl.h"

#include "runtime/engine/Cursor.h"
#include "runtime/engine/Order.h"

#include <algorithm>
#include <cstring>

namespace harmony::runtime {

std::vector<CommandPlace> findCommands(const Blob &blob, HmOpcode opcode) {
  std::vector<CommandPlace> places;
  Span<HmQueue> queues = blob.queues(HM_PROGRAM_STEP);
  for (size_t q = 0; q < queues.size(); ++q) {
    Span<HmCommand> commands = blob.commands(queues[q]);
    for (size_t i = 0; i < commands.size(); ++i)
      if (commands[i].op == opcode)
        places.push_back({q, i});
  }
  return places;
}

namespace {

bool overlap(const HmRef &a, int64_t atA, const HmRef &b, int64_t atB) {
  int64_t first = offsetOf(a, atA), second = offsetOf(b, atB);
  return a.space == b.space && a.device == b.device &&
         first < second + b.bytes && second < first + a.bytes;
}

/// Which commands of a queue compute something that is used: that reaches the
/// host, another queue, or a command that is used itself. A layer that is
/// computed again makes outputs which nobody reads any more.
class Usefulness {
public:
  Usefulness(const Blob &blob, size_t number)
      : blob(blob), number(number), queues(blob.queues(HM_PROGRAM_STEP)),
        commands(blob.commands(queues[number])), loopOf(commands.size()),
        useful(commands.size(), true) {
    for (size_t i = 0, loop = none; i < commands.size(); ++i) {
      if (commands[i].op == HM_OP_LOOP)
        loop = i;
      loopOf[i] = loop;
      if (commands[i].op == HM_OP_END)
        loop = none;
    }
    // Commands start out useful; what a useless one alone reads becomes useless
    // in the next round.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = commands.size(); i-- > 0;)
        if (useful[i] && !isUseful(i)) {
          useful[i] = false;
          changed = true;
        }
    }
  }

  bool operator[](size_t command) const { return useful[command]; }

private:
  static constexpr size_t none = ~size_t(0);

  const HmRef *refsOf(const HmCommand &c) const {
    return blob.refs().data() + c.first;
  }

  /// Bytes of all iterations.
  struct Extent {
    int64_t begin, end;
  };
  static Extent extentOf(const HmRef &ref, int64_t iterations) {
    int64_t d = std::max<int64_t>(1, ref.divide), last = (iterations - 1) / d;
    if (ref.modulo)
      last = std::min<int64_t>(last, ref.modulo - 1);
    int64_t slots = last * ref.stride,
            parts = std::min(iterations - 1, d - 1) * ref.part;
    return {ref.offset + std::min<int64_t>(0, slots) +
                std::min<int64_t>(0, parts),
            ref.offset + std::max<int64_t>(0, slots) +
                std::max<int64_t>(0, parts) + ref.bytes};
  }
  Extent extentAt(size_t i, const HmRef &ref) const {
    return extentOf(ref, loopOf[i] == none ? 1 : commands[loopOf[i]].a);
  }

  bool isUseful(size_t i) const {
    const HmCommand &c = commands[i];
    if (c.op != HM_OP_LAUNCH && c.op != HM_OP_COPY)
      return true;
    bool writes = false;
    for (uint32_t r = 0; r < c.count; ++r) {
      const HmRef &ref = refsOf(c)[r];
      if (!writesOperand(c, r, ref))
        continue;
      writes = true;
      if (ref.space != HM_SPACE_DEVICE || isReadLater(i, ref))
        return true;
    }
    return !writes;
  }

  bool isReadLater(size_t i, const HmRef &written) const {
    Extent extent = extentAt(i, written);
    if (isReadElsewhere(written.device, extent))
      return true;
    bool killed = false;
    for (size_t k = i + 1; k < commands.size() && !killed; ++k) {
      if (commands[k].op == HM_OP_END && loopOf[k] == loopOf[i])
        // The next iteration comes back to the commands before.
        for (size_t w = loopOf[i] + 1; w <= i && !killed; ++w)
          if (touches(w, written.device, extent, killed))
            return true;
      if (!killed && touches(k, written.device, extent, killed))
        return true;
    }
    return !killed;
  }

  /// Whether a useful command reads of the bytes; `killed` where it overwrites
  /// or releases all of them.
  bool touches(size_t k, unsigned device, Extent extent, bool &killed) const {
    const HmCommand &c = commands[k];
    if (c.op == HM_OP_WAIT)
      return false;
    for (uint32_t r = 0; r < c.count; ++r) {
      const HmRef &ref = refsOf(c)[r];
      Extent other = extentAt(k, ref);
      if (ref.space != HM_SPACE_DEVICE || ref.device != device ||
          other.begin >= extent.end || extent.begin >= other.end)
        continue;
      if (readsOperand(c, r, ref) && useful[k])
        return true;
      killed |= !readsOperand(c, r, ref) && other.begin <= extent.begin &&
                extent.end <= other.end;
    }
    return false;
  }

  bool isReadElsewhere(unsigned device, Extent extent) const {
    for (size_t q = 0; q < queues.size(); ++q) {
      if (q == number)
        continue;
      int64_t iterations = 1;
      for (const HmCommand &c : blob.commands(queues[q])) {
        iterations = c.op == HM_OP_LOOP  ? c.a
                     : c.op == HM_OP_END ? 1
                                         : iterations;
        for (uint32_t r = 0; c.op != HM_OP_WAIT && r < c.count; ++r) {
          const HmRef &ref = refsOf(c)[r];
          Extent other = extentOf(ref, iterations);
          if (readsOperand(c, r, ref) && ref.space == HM_SPACE_DEVICE &&
              ref.device == device && other.begin < extent.end &&
              extent.begin < other.end)
            return true;
        }
      }
    }
    return false;
  }

  const Blob &blob;
  const size_t number;
  Span<HmQueue> queues;
  Span<HmCommand> commands;
  std::vector<size_t> loopOf;
  std::vector<bool> useful;
};

} // namespace

std::vector<bool> findRedundantWaits(const Blob &blob) {
  Order order(blob);
  for (int step = 0; step < 2; ++step)
    order.replay([](size_t, const Cursor &, const Order::Clock &, int64_t) {});
  std::vector<bool> redundant;
  for (const CommandPlace &wait : findCommands(blob, HM_OP_WAIT))
    redundant.push_back(!order.isNeeded(wait));
  return redundant;
}

std::vector<BlobLine> withLateWait(const Blob &blob, uint64_t functionCount,
                                   int64_t number) {
  std::vector<CommandPlace> waits = findCommands(blob, HM_OP_WAIT);
  if (number < 0 || number >= static_cast<int64_t>(waits.size()))
    throw Error(ExitCode::Usage, "wait " + std::to_string(number) +
                                     " does not exist, the step program has " +
                                     std::to_string(waits.size()));
  Span<HmQueue> queues = blob.queues(HM_PROGRAM_STEP);
  auto *start = reinterpret_cast<const char *>(&blob.header());
  const size_t size = blob.header().size;
  std::vector<BlobLine> lines((size + sizeof(BlobLine) - 1) / sizeof(BlobLine));
  char *bytes = lines.front().bytes;
  std::memcpy(bytes, start, size);
  auto *original =
      &blob.commands(queues[waits[number].queue])[waits[number].command];
  HmCommand wait = *original;
  auto endsWith = [&](int64_t value) {
    wait.a = value;
    std::memcpy(bytes + (reinterpret_cast<const char *>(original) - start),
                &wait, sizeof(wait));
    try {
      Blob(bytes, size, functionCount);
      return true;
    } catch (const Error &) { // it is stuck
      return false;
    }
  };
  // The most that is not stuck; more waits for more.
  int64_t ends = original->a, stuck = queues[original->kernel].period + 1;
  while (stuck - ends > 1) {
    int64_t middle = ends + (stuck - ends) / 2;
    (endsWith(middle) ? ends : stuck) = middle;
  }
  endsWith(ends);
  return lines;
}

std::optional<EarlyRelease> findLastReader(const Blob &blob,
                                           const CommandPlace &release) {
  Span<HmCommand> commands =
      blob.commands(blob.queues(HM_PROGRAM_STEP)[release.queue]);
  const HmRef &released = blob.refs()[commands[release.command].first];
  Usefulness useful(blob, release.queue);
  // Trips of the loop that a command before the release stands in; 0: in the
  // release's own, or in none.
  int64_t trips = 0;
  for (size_t i = release.command; i-- > 0;) {
    const HmCommand &c = commands[i];
    if (c.op == HM_OP_LOOP) {
      trips = 0;
    } else if (c.op == HM_OP_END) {
      size_t loop = i;
      while (commands[loop].op != HM_OP_LOOP)
        --loop;
      trips = commands[loop].a;
      if (!trips)
        i = loop;
    } else if (c.op == HM_OP_COPY || c.op == HM_OP_LAUNCH) {
      const HmRef *refs = blob.refs().data() + c.first;
      bool dumps = std::any_of(refs, refs + c.count, [](const HmRef &ref) {
        return ref.space == HM_SPACE_DUMP;
      });
      for (uint32_t r = 0; r < c.count && !dumps && useful[i]; ++r)
        if (readsOperand(c, r, refs[r]) &&
            overlap(refs[r], std::max<int64_t>(0, trips - 1), released, 0))
          return EarlyRelease{i, release.command};
    }
  }
  return std::nullopt;
}

std::string listControls(const Blob &blob) {
  std::string text;
  Span<HmQueue> queues = blob.queues(HM_PROGRAM_STEP);
  auto describe = [&](const CommandPlace &place) {
    return std::string("queue '") + blob.string(queues[place.queue].name) +
           "' command " + std::to_string(place.command);
  };
  std::vector<CommandPlace> waits = findCommands(blob, HM_OP_WAIT),
                            releases = findCommands(blob, HM_OP_RELEASE);
  std::vector<bool> redundant = findRedundantWaits(blob);
  text += "waits " + std::to_string(waits.size()) + "\n";
  for (size_t i = 0; i < waits.size(); ++i) {
    const HmCommand &c =
        blob.commands(queues[waits[i].queue])[waits[i].command];
    text += "wait " + std::to_string(i) + ": " + describe(waits[i]) + " for '" +
            blob.string(queues[c.kernel].name) + "'" +
            (redundant[i] ? " redundant" : "") + "\n";
  }
  text += "releases " + std::to_string(releases.size()) + "\n";
  for (size_t i = 0; i < releases.size(); ++i) {
    std::optional<EarlyRelease> reader = findLastReader(blob, releases[i]);
    text += "release " + std::to_string(i) + ": " + describe(releases[i]) +
            (reader ? " read by command " + std::to_string(reader->reader)
                    : " unread") +
            "\n";
  }
  return text;
}

} // namespace harmony::runtime
