//===- Synchronize.cpp - Waits from conflicts -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The events of two consecutive executions are walked in issue order. A map of
// every address space says who wrote and who read each byte last; an event that
// touches a byte must come after those. Vector clocks leave out what queue
// order and earlier waits already give. What the second execution needs of the
// first becomes a wait for the execution before.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"

#include <algorithm>
#include <map>

namespace harmony::planner {

namespace {

/// An event of execution `number / eventCount`.
using Instance = int;
constexpr Instance none = -1;

/// Last accesses to the bytes of one address space.
class AddressMap {
public:
  struct Segment {
    Instance writer = none;
    std::vector<Instance> readers; ///< since the write
  };

  /// Records an access, and appends what it conflicts with to `before`.
  void access(int64_t begin, int64_t end, bool writes, Instance by,
              std::vector<Instance> &before) {
    split(begin);
    split(end);
    for (auto it = segments.find(begin);
         it != segments.end() && it->first < end; ++it) {
      Segment &segment = it->second;
      if (segment.writer != none)
        before.push_back(segment.writer);
      if (writes)
        before.insert(before.end(), segment.readers.begin(),
                      segment.readers.end());
      else if (segment.readers.empty() || segment.readers.back() != by)
        segment.readers.push_back(by);
    }
    if (!writes)
      return;
    auto first = segments.find(begin);
    segments.erase(std::next(first), segments.lower_bound(end));
    first->second = {by, {}};
  }

private:
  /// Segments begin at their key and end at the next one.
  std::map<int64_t, Segment> segments{{0, {}}};

  void split(int64_t at) {
    auto it = std::prev(segments.upper_bound(at));
    if (it->first != at)
      segments.emplace_hint(std::next(it), at, it->second);
  }
};

class Synchronizer {
public:
  explicit Synchronizer(Draft &draft)
      : draft(draft), plan(draft.plan),
        count(static_cast<int>(plan.events.size())),
        queueCount(static_cast<int>(plan.queues.size())), spaces(1) {
    for (const Buffer &buffer : plan.buffers)
      spaces.resize(std::max<size_t>(spaces.size(),
                                     static_cast<size_t>(buffer.device) + 2));
    started.assign(static_cast<size_t>(2 * count) * queueCount, none);
    ended = started;
  }

  void run() {
    std::vector<Instance> lastOfQueue(queueCount, none);
    for (int round = 0; round < 2; ++round) {
      bufferTouch = homeTouch = 0;
      for (int e = 0; e < count; ++e) {
        Instance self = round * count + e;
        if (Instance before = lastOfQueue[plan.events[e].queue]; before != none)
          sameGroup(self, before) ? followPairwise(self, before)
                                  : follow(self, before);
        conflicts.clear();
        touchAll(e, self);
        wait(e, self, round);
        finish(self);
        lastOfQueue[plan.events[e].queue] = self;
      }
    }
    addRingWaits();
  }

private:
  Draft &draft;
  Plan &plan;
  int count, queueCount;
  std::vector<AddressMap> spaces; ///< 0: the host store; 1 + d: device d
  /// By instance and queue: the last instance on that queue known to be over
  /// when the instance starts, and when it ends.
  std::vector<Instance> started, ended;
  size_t bufferTouch = 0, homeTouch = 0;
  std::vector<Instance> conflicts;

  Instance *startClock(Instance i) {
    return &started[static_cast<size_t>(i) * queueCount];
  }
  Instance *endClock(Instance i) {
    return &ended[static_cast<size_t>(i) * queueCount];
  }
  const Event &event(Instance i) const { return plan.events[i % count]; }

  void join(Instance *clock, const Instance *other) {
    for (int q = 0; q < queueCount; ++q)
      clock[q] = std::max(clock[q], other[q]);
  }
  /// `self` starts after `before` is over.
  void follow(Instance self, Instance before) {
    join(startClock(self), endClock(before));
  }
  /// The pairwise form: `self` starts after the first iteration of `before`,
  /// and ends after its last.
  void followPairwise(Instance self, Instance before) {
    join(startClock(self), startClock(before));
    join(endClock(self), endClock(before));
  }
  void finish(Instance self) {
    join(endClock(self), startClock(self));
    endClock(self)[event(self).queue] = self;
  }

  /// Loops of one phase in one execution advance together.
  bool sameGroup(Instance self, Instance before) const {
    return self / count == before / count && event(self).phase >= 0 &&
           event(self).phase == event(before).phase;
  }

  void touchAll(int e, Instance self) {
    for (; bufferTouch < draft.bufferTouches.size() &&
           draft.bufferTouches[bufferTouch].event == e;
         ++bufferTouch) {
      const Touch &touch = draft.bufferTouches[bufferTouch];
      const Buffer &buffer = plan.buffers[touch.index];
      spaces[1 + buffer.device].access(buffer.offset, buffer.end(),
                                       touch.writes, self, conflicts);
    }
    for (; homeTouch < draft.homeTouches.size() &&
           draft.homeTouches[homeTouch].event == e;
         ++homeTouch) {
      const Touch &touch = draft.homeTouches[homeTouch];
      const Home &home = plan.homes[touch.index];
      spaces[0].access(home.offset, home.offset + home.bytes(), touch.writes,
                       self, conflicts);
    }
  }

  /// Two loops whose iteration i touch the same microbatch: those of one phase
  /// group, and a value's load after its store.
  bool pairwise(Instance self, Instance before) const {
    if (self / count != before / count)
      return false;
    if (sameGroup(self, before))
      return true;
    const Event &a = event(self), &b = event(before);
    if (a.phase < 0 || b.phase < 0 || a.trips != b.trips)
      return false;
    bool value =
        a.kind == EventKind::LoadValue && b.kind == EventKind::StoreValue;
    bool gradient = a.kind == EventKind::LoadValueGradient &&
                    b.kind == EventKind::StoreValueGradient;
    return (value || gradient) && a.object == b.object &&
           onlyThroughHome(self, before);
  }

  /// Whether the two share nothing but the stash: an address that a ring reuses
  /// needs the whole of the loop before it.
  bool onlyThroughHome(Instance self, Instance before) const {
    const Buffer *a = touched(self % count), *b = touched(before % count);
    return a->device != b->device || a->end() <= b->offset ||
           b->end() <= a->offset;
  }
  const Buffer *touched(int e) const {
    auto it = std::lower_bound(
        draft.bufferTouches.begin(), draft.bufferTouches.end(), e,
        [](const Touch &touch, int at) { return touch.event < at; });
    return &plan.buffers[it->index];
  }

  void wait(int e, Instance self, int round) {
    std::sort(conflicts.begin(), conflicts.end(), std::greater<>());
    conflicts.erase(std::unique(conflicts.begin(), conflicts.end()),
                    conflicts.end());
    for (Instance before : conflicts) {
      int queue = event(before).queue;
      if (before == self || queue == event(self).queue ||
          startClock(self)[queue] >= before)
        continue;
      bool pair = pairwise(self, before);
      if (pair && endClock(self)[queue] >= before)
        continue;
      if (pair)
        followPairwise(self, before);
      else
        follow(self, before);
      if (round == 1)
        plan.events[e].waits.push_back(
            {before % count, pair ? 0 : Wait::whole, before / count != round});
    }
  }

  /// Slot reuse inside a phase group: the first to touch a ring's slot waits
  /// for the last to have used it `slots` iterations before.
  void addRingWaits() {
    struct Users {
      int first = -1, last = -1;
    };
    std::vector<Users> users(plan.buffers.size());
    for (const Touch &touch : draft.bufferTouches) {
      const Buffer &buffer = plan.buffers[touch.index];
      bool looped = plan.events[touch.event].phase >= 0;
      bool crosses = buffer.content == Content::Value ||
                     buffer.content == Content::ValueGradient;
      if (!looped || !crosses || buffer.slots >= plan.events[touch.event].trips)
        continue;
      Users &use = users[touch.index];
      if (use.first < 0)
        use.first = touch.event;
      use.last = touch.event;
    }
    for (size_t b = 0; b < users.size(); ++b)
      if (users[b].first != users[b].last)
        addRingWait(users[b].first, users[b].last,
                    static_cast<int>(plan.buffers[b].slots));
  }

  void addRingWait(int first, int last, int slots) {
    for (Wait &wait : plan.events[first].waits)
      if (wait.event == last && wait.lag > 0) {
        wait.lag = std::min(wait.lag, slots);
        return;
      }
    plan.events[first].waits.push_back({last, slots, false});
  }
};

} // namespace

void synchronize(Draft &draft) {
  for (Event &event : draft.plan.events)
    event.waits.clear();
  for (auto *touches : {&draft.bufferTouches, &draft.homeTouches})
    std::sort(
        touches->begin(), touches->end(), [](const Touch &a, const Touch &b) {
          return a.event != b.event ? a.event < b.event : a.index < b.index;
        });
  Synchronizer(draft).run();
}

} // namespace harmony::planner
