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
#include "compiler/Planner/CountingSort.h"

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

/// Bytes of an address space, as ranks among its bounds.
struct Ranks {
  int begin = 0, end = 0;
};

/// Last accesses to the bytes of one address space. All extents that are
/// accessed are added first, and their bounds ranked.
class AddressMap {
public:
  /// As new, but for its memory.
  void clear() {
    bounds.clear();
    extents.clear();
    segments.clear();
    readers.clear();
    unused = none;
  }
  /// Returns the extent's number.
  int add(int64_t begin, int64_t end) {
    int extent = static_cast<int>(extents.size());
    bounds.push_back({begin, 2 * extent});
    bounds.push_back({end, 2 * extent + 1});
    extents.emplace_back();
    return extent;
  }
  /// After all extents.
  void rank() {
    sortBounds();
    int rank = 0;
    int64_t before = 0; // which is a bound in any case
    for (const Bound &bound : bounds) {
      rank += bound.address != before;
      before = bound.address;
      Ranks &ranks = extents[bound.of / 2];
      (bound.of % 2 == 0 ? ranks.begin : ranks.end) = rank;
    }
    segments.resize(rank + 1);
    // One bit behind the last, where the last segment ends.
    begins.assign(segments.size() / wordBits + 1, 0);
    mark(0);
    mark(static_cast<int>(segments.size()));
  }
  Ranks ranks(int extent) const { return extents[extent]; }

  /// Records an access, and appends what it conflicts with to `conflicts`, but
  /// for what is known to be over: `over`, by queue, the last instance that is.
  void access(Ranks ranks, bool writes, const Toucher &by, const Instance *over,
              std::vector<Conflict> &conflicts) {
    auto [begin, end] = ranks;
    if (begin >= end)
      return;
    split(begin);
    split(end);
    auto conflict = [&](const Toucher &other) {
      if (other.instance != none && over[other.queue] < other.instance &&
          other.queue != by.queue)
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
  struct Bound {
    int64_t address;
    int of; ///< twice an extent, and 1 for its end
  };
  std::vector<Bound> bounds;
  CountingSort<Bound> sort;
  std::vector<Ranks> extents;
  /// By rank of its begin. A segment ends where the next one begins.
  std::vector<Segment> segments;
  std::vector<uint64_t> begins; ///< bit by rank: a segment begins
  std::vector<Reader> readers;
  int unused = none; ///< the first free place of `readers`

  /// By address, digit by digit where there are many.
  void sortBounds() {
    constexpr int digitBits = 11, digits = 1 << digitBits;
    if (bounds.size() < digits / 2) {
      std::sort(
          bounds.begin(), bounds.end(),
          [](const Bound &a, const Bound &b) { return a.address < b.address; });
      return;
    }
    int64_t highest = 0;
    for (const Bound &bound : bounds)
      highest = std::max(highest, bound.address);
    for (int shift = 0; highest >> shift > 0; shift += digitBits)
      sort(bounds, digits, [&](const Bound &bound) {
        return static_cast<int>(bound.address >> shift & (digits - 1));
      });
  }

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

} // namespace

class Synchronizer::Walk {
public:
  /// By event, then by what is touched.
  void sortTouches(std::vector<Touch> &touches, int events) {
    sort(touches, events, [](const Touch &touch) { return touch.event; });
    auto isBefore = [](const Touch &a, const Touch &b) {
      return a.index < b.index;
    };
    auto first = touches.begin();
    for (int e = 0; e < events; ++e) {
      auto end = touches.begin() + sort.end(e);
      if (!std::is_sorted(first, end, isBefore))
        std::stable_sort(first, end, isBefore);
      first = end;
    }
  }

  /// Of a draft without waits, whose touches are sorted by event.
  void run(Draft &of) {
    begin(of);
    lastOfQueue.assign(queueCount, none);
    for (int round = 0; round < 2; ++round) {
      bufferTouch = homeTouch = scalarTouch = 0;
      for (int e = 0; e < count; ++e) {
        Instance self = round * count + e;
        std::fill_n(startClock(self), queueCount, none);
        if (Instance before = lastOfQueue[plan->events[e].queue];
            before != none)
          sameGroup(self, before) ? followPairwise(self, before)
                                  : follow(self, before);
        conflicts.clear();
        touchAll(e, self);
        wait(e, self, round);
        finish(self);
        lastOfQueue[plan->events[e].queue] = self;
      }
    }
    addRingWaits();
  }

private:
  // Of the plan at hand; what else it takes is kept from one to the next.
  Draft *draft = nullptr;
  Plan *plan = nullptr;
  int count = 0, queueCount = 0;
  AddressMap hostStore, stepScalars;
  std::vector<AddressMap> arenas;            ///< by device
  std::vector<Ranks> bufferRanks, homeRanks; ///< by touch
  /// By instance and queue: the last instance on that queue known to be over
  /// when the instance starts.
  std::vector<Instance> started;
  /// Likewise when it ends, for the instances that follow others iteration by
  /// iteration: by `ends` of an instance and queue. Of others (none) it is the
  /// same, but for the instance itself.
  std::vector<int> ends;
  std::vector<Instance> ended;
  size_t bufferTouch = 0, homeTouch = 0, scalarTouch = 0;
  std::vector<Conflict> conflicts;
  std::vector<Instance> lastOfQueue;
  CountingSort<Touch> sort;
  std::vector<int> wholes, parts, homes; ///< extents

  void begin(Draft &of) {
    draft = &of;
    plan = &of.plan;
    count = static_cast<int>(plan->events.size());
    queueCount = static_cast<int>(plan->queues.size());
    int devices = 0;
    for (const Buffer &buffer : plan->buffers)
      devices = std::max(devices, buffer.device + 1);
    arenas.resize(devices);
    for (AddressMap &arena : arenas)
      arena.clear();
    hostStore.clear();
    stepScalars.clear();
    rankAll();
    size_t instances = static_cast<size_t>(2) * count;
    // What it holds is set when an instance is walked.
    started.resize(std::max(started.size(), instances * queueCount));
    ends.assign(instances, none);
    ended.clear();
  }

  Instance *startClock(Instance i) {
    return &started[static_cast<size_t>(i) * queueCount];
  }
  /// Null: that of the start.
  Instance *endClock(Instance i) {
    return ends[i] == none ? nullptr
                           : &ended[static_cast<size_t>(ends[i]) * queueCount];
  }
  Instance overAtEnd(Instance i, int queue) {
    const Instance *clock = endClock(i);
    return clock ? clock[queue] : none;
  }
  const Event &event(Instance i) const {
    return plan->events[i < count ? i : i - count];
  }
  bool isSameRound(Instance i, Instance j) const {
    return (i < count) == (j < count);
  }

  void join(Instance *clock, const Instance *other) {
    // A bound of its own, which no clock can be: the loop becomes vectors.
    int queues = queueCount;
    for (int q = 0; q < queues; ++q)
      clock[q] = std::max(clock[q], other[q]);
  }
  void joinEnd(Instance *clock, Instance before) {
    const Instance *end = endClock(before);
    join(clock, end ? end : startClock(before));
    Instance &own = clock[event(before).queue];
    own = std::max(own, before);
  }
  /// `self` starts after `before` is over.
  void follow(Instance self, Instance before) {
    joinEnd(startClock(self), before);
  }
  /// The pairwise form: `self` starts after the first iteration of `before`,
  /// and ends after its last.
  void followPairwise(Instance self, Instance before) {
    join(startClock(self), startClock(before));
    if (ends[self] == none) {
      ends[self] = static_cast<int>(ended.size() / queueCount);
      ended.resize(ended.size() + queueCount, none);
    }
    joinEnd(endClock(self), before);
  }
  void finish(Instance self) {
    if (Instance *clock = endClock(self)) {
      join(clock, startClock(self));
      clock[event(self).queue] = self;
    }
  }

  /// Loops of one phase in one execution advance together.
  bool sameGroup(Instance self, Instance before) const {
    return isSameRound(self, before) && event(self).phase >= 0 &&
           event(self).phase == event(before).phase;
  }

  void rankAll() {
    auto add = [](AddressMap &space, const Touch &touch, int64_t offset) {
      return space.add(offset + touch.offset,
                       offset + touch.offset + touch.bytes);
    };
    // Most touches are of a whole buffer.
    wholes.clear();
    parts.clear();
    for (const Buffer &buffer : plan->buffers)
      wholes.push_back(arenas[buffer.device].add(buffer.offset, buffer.end()));
    for (const Touch &touch : draft->bufferTouches)
      if (touch.bytes != Touch::whole) {
        const Buffer &buffer = plan->buffers[touch.index];
        parts.push_back(add(arenas[buffer.device], touch, buffer.offset));
      }
    for (AddressMap &arena : arenas)
      arena.rank();
    bufferRanks.clear();
    bufferRanks.reserve(draft->bufferTouches.size());
    size_t part = 0;
    for (const Touch &touch : draft->bufferTouches)
      bufferRanks.push_back(arenas[plan->buffers[touch.index].device].ranks(
          touch.bytes == Touch::whole ? wholes[touch.index] : parts[part++]));
    homes.clear();
    for (const Touch &touch : draft->homeTouches) {
      const Home &home = plan->homes[touch.index];
      homes.push_back(touch.bytes == Touch::whole
                          ? hostStore.add(home.offset, home.offset + home.size)
                          : add(hostStore, touch, home.offset));
    }
    hostStore.rank();
    homeRanks.clear();
    for (int extent : homes)
      homeRanks.push_back(hostStore.ranks(extent));
    stepScalars.add(0, 1);
    stepScalars.rank();
  }

  void touchAll(int e, Instance self) {
    int queue = plan->events[e].queue;
    const Instance *over = startClock(self);
    for (auto &at = bufferTouch; isOf(draft->bufferTouches, at, e); ++at) {
      const Touch &touch = draft->bufferTouches[at];
      arenas[plan->buffers[touch.index].device].access(
          bufferRanks[at], touch.writes, {self, touch.index, queue}, over,
          conflicts);
    }
    for (auto &at = homeTouch; isOf(draft->homeTouches, at, e); ++at) {
      const Touch &touch = draft->homeTouches[at];
      hostStore.access(homeRanks[at], touch.writes, {self, touch.index, queue},
                       over, conflicts);
    }
    for (auto &at = scalarTouch; isOf(draft->scalarTouches, at, e); ++at)
      stepScalars.access({0, 1}, draft->scalarTouches[at].writes,
                         {self, 0, queue}, over, conflicts);
  }
  static bool isOf(const std::vector<Touch> &touches, size_t at, int event) {
    return at < touches.size() && touches[at].event == event;
  }

  /// Two loops of which iteration by iteration suffices: those of one phase
  /// group, and those that share the microbatches of the same samples alone.
  bool pairwise(Instance self, const Conflict &conflict) const {
    Instance before = conflict.before;
    if (!isSameRound(self, before))
      return false;
    if (sameGroup(self, before))
      return true;
    int p = event(self).phase, q = event(before).phase;
    if (p < 0 || q < 0 || !conflict.same)
      return false;
    const Phase &a = plan->phases[p], &b = plan->phases[q];
    return a.firstSample == b.firstSample &&
           a.trips * a.microbatch == b.trips * b.microbatch &&
           (a.microbatch % b.microbatch == 0 ||
            b.microbatch % a.microbatch == 0);
  }

  Wait pairwiseWait(Instance self, Instance before) const {
    Wait wait{before < count ? before : before - count, 0, false};
    int64_t a = plan->phases[event(self).phase].microbatch;
    int64_t b = plan->phases[event(before).phase].microbatch;
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
      if (startClock(self)[queue] >= before)
        continue;
      bool pair = pairwise(self, conflict);
      if (pair && overAtEnd(self, queue) >= before)
        continue;
      if (pair)
        followPairwise(self, before);
      else
        follow(self, before);
      if (round == 1)
        plan->events[e].waits.push_back(
            pair ? pairwiseWait(self, before)
                 : Wait{before < count ? before : before - count, Wait::whole,
                        before < count});
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
    std::vector<Users> users(plan->buffers.size());
    for (const Touch &touch : draft->bufferTouches) {
      const Buffer &buffer = plan->buffers[touch.index];
      bool looped = plan->events[touch.event].phase >= 0;
      bool crosses = buffer.content == Content::Value ||
                     buffer.content == Content::ValueGradient;
      if (!looped || !crosses ||
          buffer.slots >= plan->events[touch.event].trips)
        continue;
      Users &use = users[touch.index];
      if (use.first < 0)
        use.first = touch.event;
      if (touch.writes || !use.read)
        use.last.clear();
      use.read = !touch.writes;
      // Of one queue the last suffices.
      if (!use.last.empty() && plan->events[use.last.back()].queue ==
                                   plan->events[touch.event].queue)
        use.last.pop_back();
      use.last.push_back(touch.event);
    }
    for (size_t b = 0; b < users.size(); ++b)
      for (int last : users[b].last)
        if (plan->events[last].queue != plan->events[users[b].first].queue)
          addRingWait(users[b].first, last,
                      static_cast<int>(plan->buffers[b].slots));
  }

  void addRingWait(int first, int last, int slots) {
    for (Wait &wait : plan->events[first].waits)
      if (wait.event == last && wait.lag > 0) {
        wait.lag = std::min(wait.lag, slots);
        return;
      }
    plan->events[first].waits.push_back({last, slots, false});
  }
};

Synchronizer::Synchronizer() : walk(std::make_unique<Walk>()) {}
Synchronizer::~Synchronizer() = default;

void Synchronizer::synchronize(Draft &draft) {
  for (Event &event : draft.plan.events)
    event.waits.clear();
  for (auto *touches :
       {&draft.bufferTouches, &draft.homeTouches, &draft.scalarTouches})
    walk->sortTouches(*touches, static_cast<int>(draft.plan.events.size()));
  walk->run(draft);
}

void synchronize(Draft &draft) { Synchronizer().synchronize(draft); }

} // namespace harmony::planner
