//===- Synchronize.cpp - Waits from conflicts -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The events of two consecutive executions are walked in issue order. A map of
// every address space says who wrote and who read each byte last; an event that
// touches a byte must come after those. Addresses stand there as ranks among
// all at which some access begins or ends, so that a map is an array. Vector
// clocks leave out what queue order and earlier waits already give. What the
// second execution needs of the first becomes a wait for the execution before.
//
// Loops that share nothing but microbatches of the same samples wait for each
// other iteration by iteration. A ring is a buffer of fewer slots than there
// are microbatches: whoever fills a slot waits for those that used it before.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"

#include <algorithm>
#include <utility>

namespace harmony::planner {

namespace {

/// An event of execution `number / eventCount`.
using Instance = int;
constexpr Instance none = -1;

/// Who touched a byte, and as part of what.
struct Toucher {
  Instance instance = none;
  int object = -1; ///< in Plan::buffers or Plan::homes
  int queue = -1;
};

/// What must come before an instance.
struct Conflict {
  Instance before = none;
  bool same = true; ///< both touch the bytes as part of the same thing
  bool operator<(const Conflict &o) const { return before > o.before; }
};

/// Last accesses to the bytes of one address space. All bounds of accesses are
/// added first, and ranked; accesses are of ranks.
class AddressMap {
public:
  void addBounds(int64_t begin, int64_t end) {
    bounds.push_back(begin);
    bounds.push_back(end);
  }
  /// After all bounds.
  void rank() {
    bounds.push_back(0);
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    segments.resize(bounds.size());
    // One bit behind the last, where the last segment ends.
    begins.assign(bounds.size() / wordBits + 1, 0);
    mark(0);
    mark(static_cast<int>(bounds.size()));
  }
  int rankOf(int64_t address) const {
    return static_cast<int>(
        std::lower_bound(bounds.begin(), bounds.end(), address) -
        bounds.begin());
  }

  /// Records an access, and appends what it conflicts with to `conflicts`.
  void access(int begin, int end, bool writes, const Toucher &by,
              std::vector<Conflict> &conflicts) {
    if (begin >= end)
      return;
    split(begin);
    split(end);
    auto conflict = [&](const Toucher &other) {
      if (other.instance != none && other.instance != by.instance)
        conflicts.push_back({other.instance, other.object == by.object});
    };
    for (int at = begin; at < end; at = next(at)) {
      Segment &segment = segments[at];
      conflict(segment.writer);
      if (!writes) {
        addReader(segment, by);
        continue;
      }
      for (int r = segment.readers; r != none;) {
        conflict(readers[r].by);
        int following = readers[r].next;
        readers[r].next = unused;
        unused = r;
        r = following;
      }
      segment.readers = none;
      if (at != begin)
        begins[at / wordBits] &= ~(uint64_t(1) << at % wordBits);
    }
    if (writes)
      segments[begin].writer = by;
  }

private:
  struct Segment {
    Toucher writer;
    /// Since the write: the last of each queue, which follows the others. The
    /// first in `readers`.
    int readers = none;
  };
  struct Reader {
    Toucher by;
    int next = none; ///< in `readers`
  };
  static constexpr int wordBits = 64;
  std::vector<int64_t> bounds; ///< by rank
  /// By rank of its begin. A segment ends where the next one begins.
  std::vector<Segment> segments;
  std::vector<uint64_t> begins; ///< bit by rank: a segment begins
  std::vector<Reader> readers;
  int unused = none; ///< the first free place of `readers`

  void mark(int rank) {
    begins[rank / wordBits] |= uint64_t(1) << rank % wordBits;
  }
  /// The begin of the segment behind a rank.
  int next(int at) const {
    ++at;
    size_t word = at / wordBits;
    uint64_t bits = begins[word] >> at % wordBits << at % wordBits;
    while (bits == 0)
      bits = begins[++word];
    return static_cast<int>(word) * wordBits + __builtin_ctzll(bits);
  }
  /// The begin of the segment that holds a rank.
  int holding(int at) const {
    int word = at / wordBits;
    uint64_t bits = begins[word] << (wordBits - 1 - at % wordBits) >>
                    (wordBits - 1 - at % wordBits);
    while (bits == 0)
      bits = begins[--word];
    return word * wordBits + wordBits - 1 - __builtin_clzll(bits);
  }

  void split(int at) {
    int from = holding(at);
    if (from == at)
      return;
    mark(at);
    segments[at] = {segments[from].writer, none};
    for (int r = segments[from].readers; r != none; r = readers[r].next) {
      Toucher by = readers[r].by;
      segments[at].readers = makeReader(by, segments[at].readers);
    }
  }

  void addReader(Segment &segment, const Toucher &by) {
    for (int r = segment.readers; r != none; r = readers[r].next)
      if (readers[r].by.queue == by.queue) {
        readers[r].by = by;
        return;
      }
    segment.readers = makeReader(by, segment.readers);
  }
  int makeReader(const Toucher &by, int next) {
    if (unused == none) {
      readers.push_back({by, next});
      return static_cast<int>(readers.size()) - 1;
    }
    int place = unused;
    unused = readers[place].next;
    readers[place] = {by, next};
    return place;
  }
};

class Synchronizer {
public:
  explicit Synchronizer(Draft &draft)
      : draft(draft), plan(draft.plan),
        count(static_cast<int>(plan.events.size())),
        queueCount(static_cast<int>(plan.queues.size())) {
    int devices = 0;
    for (const Buffer &buffer : plan.buffers)
      devices = std::max(devices, buffer.device + 1);
    arenas.resize(devices);
    rankAll();
    started.assign(static_cast<size_t>(2 * count) * queueCount, none);
    ended = started;
  }

  void run() {
    std::vector<Instance> lastOfQueue(queueCount, none);
    for (int round = 0; round < 2; ++round) {
      bufferTouch = homeTouch = scalarTouch = 0;
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
  AddressMap hostStore, stepScalars;
  std::vector<AddressMap> arenas; ///< by device
  /// The bytes of a touch, as ranks in its address space.
  struct Ranks {
    int begin = 0, end = 0;
  };
  std::vector<Ranks> bufferRanks, homeRanks; ///< by touch
  /// By instance and queue: the last instance on that queue known to be over
  /// when the instance starts, and when it ends.
  std::vector<Instance> started, ended;
  size_t bufferTouch = 0, homeTouch = 0, scalarTouch = 0;
  std::vector<Conflict> conflicts;

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

  std::pair<int64_t, int64_t> bytesOf(const Touch &touch, int64_t offset,
                                      int64_t end) const {
    return touch.bytes == Touch::whole
               ? std::pair(offset, end)
               : std::pair(offset + touch.offset,
                           offset + touch.offset + touch.bytes);
  }
  std::pair<int64_t, int64_t> bufferBytes(const Touch &touch) const {
    const Buffer &buffer = plan.buffers[touch.index];
    return bytesOf(touch, buffer.offset, buffer.end());
  }
  std::pair<int64_t, int64_t> homeBytes(const Touch &touch) const {
    const Home &home = plan.homes[touch.index];
    return bytesOf(touch, home.offset, home.offset + home.size);
  }

  void rankAll() {
    stepScalars.addBounds(0, 1);
    stepScalars.rank();
    // Most touches are of a whole buffer.
    for (const Buffer &buffer : plan.buffers)
      arenas[buffer.device].addBounds(buffer.offset, buffer.end());
    for (const Touch &touch : draft.bufferTouches)
      if (touch.bytes != Touch::whole) {
        auto [begin, end] = bufferBytes(touch);
        arenas[plan.buffers[touch.index].device].addBounds(begin, end);
      }
    for (const Touch &touch : draft.homeTouches) {
      auto [begin, end] = homeBytes(touch);
      hostStore.addBounds(begin, end);
    }
    for (AddressMap &arena : arenas)
      arena.rank();
    hostStore.rank();
    auto ranksOf = [](const AddressMap &space, int64_t begin, int64_t end) {
      return Ranks{space.rankOf(begin), space.rankOf(end)};
    };
    std::vector<Ranks> wholes;
    for (const Buffer &buffer : plan.buffers)
      wholes.push_back(
          ranksOf(arenas[buffer.device], buffer.offset, buffer.end()));
    for (const Touch &touch : draft.bufferTouches) {
      auto [begin, end] = bufferBytes(touch);
      bufferRanks.push_back(
          touch.bytes == Touch::whole
              ? wholes[touch.index]
              : ranksOf(arenas[plan.buffers[touch.index].device], begin, end));
    }
    for (const Touch &touch : draft.homeTouches) {
      auto [begin, end] = homeBytes(touch);
      homeRanks.push_back(ranksOf(hostStore, begin, end));
    }
  }

  void touchAll(int e, Instance self) {
    int queue = plan.events[e].queue;
    for (auto &at = bufferTouch; isOf(draft.bufferTouches, at, e); ++at) {
      const Touch &touch = draft.bufferTouches[at];
      arenas[plan.buffers[touch.index].device].access(
          bufferRanks[at].begin, bufferRanks[at].end, touch.writes,
          {self, touch.index, queue}, conflicts);
    }
    for (auto &at = homeTouch; isOf(draft.homeTouches, at, e); ++at) {
      const Touch &touch = draft.homeTouches[at];
      hostStore.access(homeRanks[at].begin, homeRanks[at].end, touch.writes,
                       {self, touch.index, queue}, conflicts);
    }
    for (auto &at = scalarTouch; isOf(draft.scalarTouches, at, e); ++at)
      stepScalars.access(0, 1, draft.scalarTouches[at].writes, {self, 0, queue},
                         conflicts);
  }
  static bool isOf(const std::vector<Touch> &touches, size_t at, int event) {
    return at < touches.size() && touches[at].event == event;
  }

  /// Two loops of which iteration by iteration suffices: those of one phase
  /// group, and those that share the microbatches of the same samples alone.
  bool pairwise(Instance self, const Conflict &conflict) const {
    Instance before = conflict.before;
    if (self / count != before / count)
      return false;
    if (sameGroup(self, before))
      return true;
    int p = event(self).phase, q = event(before).phase;
    if (p < 0 || q < 0 || !conflict.same)
      return false;
    const Phase &a = plan.phases[p], &b = plan.phases[q];
    return a.firstSample == b.firstSample &&
           a.trips * a.microbatch == b.trips * b.microbatch &&
           (a.microbatch % b.microbatch == 0 ||
            b.microbatch % a.microbatch == 0);
  }

  Wait pairwiseWait(Instance self, Instance before) const {
    Wait wait{before % count, 0, false};
    int64_t a = plan.phases[event(self).phase].microbatch;
    int64_t b = plan.phases[event(before).phase].microbatch;
    wait.times = std::max<int64_t>(1, a / b);
    wait.every = std::max<int64_t>(1, b / a);
    return wait;
  }

  void wait(int e, Instance self, int round) {
    std::sort(conflicts.begin(), conflicts.end());
    for (size_t i = 0, end; i < conflicts.size(); i = end) {
      Conflict conflict = conflicts[i];
      for (end = i;
           end < conflicts.size() && conflicts[end].before == conflict.before;
           ++end)
        conflict.same &= conflicts[end].same;
      Instance before = conflict.before;
      int queue = event(before).queue;
      if (queue == event(self).queue || startClock(self)[queue] >= before)
        continue;
      bool pair = pairwise(self, conflict);
      if (pair && endClock(self)[queue] >= before)
        continue;
      if (pair)
        followPairwise(self, before);
      else
        follow(self, before);
      if (round == 1)
        plan.events[e].waits.push_back(
            pair ? pairwiseWait(self, before)
                 : Wait{before % count, Wait::whole, before / count != round});
    }
  }

  /// The first to touch a ring's slot waits for the last to have used it
  /// `slots` iterations before: for the readers, or for the writer if there are
  /// none.
  void addRingWaits() {
    struct Users {
      int first = -1;
      std::vector<int> last;
      bool read = false; ///< `last` are readers
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
      if (touch.writes || !use.read)
        use.last.clear();
      use.read = !touch.writes;
      // Of one queue the last suffices.
      if (!use.last.empty() &&
          plan.events[use.last.back()].queue == plan.events[touch.event].queue)
        use.last.pop_back();
      use.last.push_back(touch.event);
    }
    for (size_t b = 0; b < users.size(); ++b)
      for (int last : users[b].last)
        if (plan.events[last].queue != plan.events[users[b].first].queue)
          addRingWait(users[b].first, last,
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
  for (auto *touches :
       {&draft.bufferTouches, &draft.homeTouches, &draft.scalarTouches})
    std::sort(
        touches->begin(), touches->end(), [](const Touch &a, const Touch &b) {
          return a.event != b.event ? a.event < b.event : a.index < b.index;
        });
  Synchronizer(draft).run();
}

} // namespace harmony::planner
