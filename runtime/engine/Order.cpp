//===- Order.cpp - What waits and queues imply ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Order.h"

#include "runtime/hal/Driver.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace harmony::runtime {

Order::Order(const Blob &blob, std::optional<CommandPlace> dropped)
    : blob(blob), dropped(dropped), queues(blob.queues(HM_PROGRAM_STEP)),
      known(queues.size(), Clock(queues.size())), atSignal(queues.size()),
      passed(queues.size()) {
  for (const HmQueue &queue : queues)
    needed.emplace_back(blob.commands(queue).size());
}

void Order::replay(const Visitor &visit) {
  ++step;
  std::vector<Cursor> cursors;
  for (const HmQueue &queue : queues)
    cursors.emplace_back(blob.commands(queue));
  constexpr int64_t inFlight = Driver::maximalCopies;
  for (size_t q = 0; q < queues.size(); ++q)
    for (size_t r = 0; r < queues.size(); ++r)
      known[q][r] =
          std::max(known[q][r], (step - inFlight + 1) * queues[r].period);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t q = 0; q < queues.size(); ++q)
      for (; !cursors[q].atEnd(); cursors[q].next(), moved = true)
        if (!pass(q, cursors[q], visit))
          break;
  }
}

bool Order::pass(size_t q, const Cursor &cursor, const Visitor &visit) {
  const HmCommand &c = cursor.command();
  if (c.op == HM_OP_WAIT) {
    if (passed[q] == 0 && !passWaits(q, cursor))
      return false;
    --passed[q];
  } else {
    visit(q, cursor, known[q], known[q][q] + 1);
  }
  if (c.signal) {
    ++known[q][q];
    atSignal[q].push_back(known[q]);
  }
  return true;
}

/// All waits up to the next command that does something: the queue goes on when
/// the last of them is over, so each is judged beside the others.
bool Order::passWaits(size_t q, Cursor cursor) {
  std::vector<Awaited> waits;
  size_t count = 0;
  for (; !cursor.atEnd() && cursor.command().op == HM_OP_WAIT;
       cursor.next(), ++count) {
    const HmCommand &c = cursor.command();
    size_t r = c.kernel;
    int64_t value = awaitedValue(c, queues[r].period, step, cursor.iteration());
    if (value > known[r][r])
      return false;
    if (!dropped || dropped->queue != q || dropped->command != cursor.index())
      waits.push_back({cursor.index(), r, value});
  }
  Clock all = known[q];
  for (size_t w = 0; w < waits.size(); ++w) {
    Clock others = known[q];
    for (size_t v = 0; v < waits.size(); ++v)
      if (v != w)
        learn(others, waits[v]);
    if (waits[w].value > others[waits[w].queue])
      needed[q][waits[w].command] = true;
    learn(all, waits[w]);
  }
  known[q] = std::move(all);
  passed[q] = count;
  return true;
}

void Order::learn(Clock &clock, const Awaited &wait) const {
  if (wait.value <= clock[wait.queue])
    return;
  const Clock &then = atSignal[wait.queue][wait.value - 1];
  for (size_t i = 0; i < queues.size(); ++i)
    clock[i] = std::max(clock[i], then[i]);
}

namespace {

struct Access {
  size_t queue = ~size_t(0); // nobody
  size_t command = 0;
  int64_t iteration = 0, step = 0;
  int64_t over = 0; // when the queue's timeline is there
};

/// Last accesses to the bytes of one space. Segments begin at their key and end
/// at the next one.
class Shadow {
public:
  /// Records an access; returns one before it that it conflicts with and that
  /// `known` does not have over.
  std::optional<Access> access(int64_t begin, int64_t end, bool writes,
                               const Access &by, const Order::Clock &known) {
    split(begin);
    split(end);
    std::optional<Access> conflict;
    auto check = [&](const Access &other) {
      if (other.queue != ~size_t(0) && other.queue != by.queue &&
          known[other.queue] < other.over)
        conflict = other;
    };
    for (auto it = segments.find(begin); it->first < end; ++it) {
      check(it->second.writer);
      if (!writes) {
        addReader(it->second, by);
        continue;
      }
      for (const Access &reader : it->second.readers)
        check(reader);
      it->second = {by, {}};
    }
    return conflict;
  }

private:
  struct Segment {
    Access writer;
    std::vector<Access> readers; // since: the last of each queue
  };
  std::map<int64_t, Segment> segments{{0, {}}, {INT64_MAX, {}}};

  void split(int64_t at) {
    auto it = std::prev(segments.upper_bound(at));
    if (it->first != at)
      segments.emplace_hint(std::next(it), at, it->second);
  }

  static void addReader(Segment &segment, const Access &by) {
    for (Access &reader : segment.readers)
      if (reader.queue == by.queue) {
        reader = by;
        return;
      }
    segment.readers.push_back(by);
  }
};

class RaceFinder {
public:
  explicit RaceFinder(const Blob &blob)
      : blob(blob), queues(blob.queues(HM_PROGRAM_STEP)) {}

  std::string run(std::optional<CommandPlace> dropped) {
    Order order(blob, dropped);
    for (step = 0; step < executions && race.empty(); ++step)
      order.replay([&](size_t q, const Cursor &cursor,
                       const Order::Clock &known, int64_t over) {
        if (race.empty())
          visit(q, cursor, known, over);
      });
    return race;
  }

private:
  static constexpr int64_t executions = 3;

  void visit(size_t q, const Cursor &cursor, const Order::Clock &known,
             int64_t over) {
    const HmCommand &c = cursor.command();
    for (uint32_t r = 0; r < c.count; ++r) {
      const HmRef &ref = blob.refs()[c.first + r];
      bool reads = readsOperand(c, r, ref);
      bool writes = writesOperand(c, r, ref) || c.op == HM_OP_RELEASE;
      if ((!reads && !writes) || ref.bytes == 0)
        continue;
      int64_t begin = offsetOf(ref, cursor.iteration());
      Access self{q, cursor.index(), cursor.iteration(), step, over};
      if (std::optional<Access> other = spaceOf(ref).access(
              begin, begin + ref.bytes, writes, self, known))
        race = describe(Range{static_cast<HmSpace>(ref.space), ref.device,
                              begin, ref.bytes}) +
               ": " + text(*other) + " and " + text(self) +
               " are in no certain order";
    }
  }

  Shadow &spaceOf(const HmRef &ref) {
    bool copies = ref.space == HM_SPACE_BATCH || ref.space == HM_SPACE_SCALARS;
    return spaces[{ref.space, ref.space == HM_SPACE_DEVICE ? ref.device : 0,
                   copies ? step % Driver::maximalCopies : 0}];
  }

  std::string text(const Access &access) const {
    const HmQueue &queue = queues[access.queue];
    const HmCommand &c = blob.commands(queue)[access.command];
    return std::string("queue '") + blob.string(queue.name) + "' command " +
           std::to_string(access.command) + " ('" + blob.string(c.label) +
           "'), iteration " + std::to_string(access.iteration) +
           " of execution " + std::to_string(access.step + 1);
  }

  const Blob &blob;
  Span<HmQueue> queues;
  std::map<std::tuple<unsigned, unsigned, int64_t>, Shadow> spaces;
  int64_t step = 0;
  std::string race;
};

} // namespace

std::string findRace(const Blob &blob, std::optional<CommandPlace> dropped) {
  return RaceFinder(blob).run(dropped);
}

} // namespace harmony::runtime
