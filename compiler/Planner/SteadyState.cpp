//===- SteadyState.cpp - One iteration of a plan, over and over -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/SteadyState.h"

#include "compiler/Planner/Simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace harmony::planner {

const char *name(Activity activity) {
  static const char *const names[] = {
      "forward", "recompute", "backward",        "update", "free packs",
      "swap in", "swap out",  "between devices", "input",  "output"};
  return names[static_cast<int>(activity)];
}

Activity activityOf(const Event &event, const Problem &problem) {
  if (!isTransfer(event.kind))
    return Activity::Update;
  switch (trafficOf(event, problem)) {
  case Traffic::SwapIn:
    return Activity::SwapIn;
  case Traffic::SwapOut:
    return Activity::SwapOut;
  case Traffic::Peer:
    return Activity::Peer;
  case Traffic::Input:
    return Activity::Input;
  case Traffic::Output:
    break;
  }
  return Activity::Output;
}

static Activity activityOf(StepKind kind) {
  return kind == StepKind::Forward     ? Activity::Forward
         : kind == StepKind::Recompute ? Activity::Recompute
                                       : Activity::Backward;
}

Holding holdingOf(Content content) {
  switch (content) {
  case Content::Tensor:
  case Content::State:
    return Holding::State;
  case Content::Gradient:
    return Holding::Gradients;
  case Content::Value:
  case Content::ValueGradient:
  case Content::RecomputedValue:
  case Content::Saved:
    return Holding::Activations;
  case Content::Workspace:
  case Content::Scalar:
    break;
  }
  return Holding::Workspace;
}

int64_t MemoryPoint::live() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

SteadyState::SteadyState(const Plan &plan, const Problem &problem,
                         const Machine &machine)
    : period(plan.seconds), intervals(timeline(plan, problem, machine)),
      plan(plan), problem(problem) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval &a, const Interval &b) {
              return a.event != b.event ? a.event < b.event
                                        : a.iteration < b.iteration;
            });
  size_t next = 0;
  for (const Event &event : plan.events) {
    first.push_back(next);
    next += static_cast<size_t>(event.trips);
  }
}

std::vector<Stretch> SteadyState::stretches(const Interval &interval) const {
  const Event &event = plan.events[interval.event];
  if (event.kind != EventKind::Run)
    return {{activityOf(event, problem), interval.begin, interval.end}};
  std::vector<Stretch> result;
  double at = interval.begin;
  Event one = event;
  for (int s = event.firstStep; s < event.endStep; ++s) {
    one.firstStep = s;
    one.endStep = s + 1;
    double seconds = workSeconds(plan, problem, one);
    Activity activity = activityOf(plan.phases[event.phase].steps[s].kind);
    if (result.empty() || result.back().activity != activity)
      result.push_back({activity, at, at});
    result.back().end = at = std::min(at + seconds, interval.end);
  }
  // Sums of the same terms in another order differ by a rounding.
  if (interval.end - at > 1e-9 * (interval.end - interval.begin))
    result.push_back({Activity::Release, at, interval.end});
  else if (!result.empty())
    result.back().end = interval.end;
  return result;
}

double SteadyState::secondsBefore(const Event &event, int step) const {
  if (event.kind != EventKind::Run)
    return 0;
  Event part = event;
  part.endStep = step;
  return workSeconds(plan, problem, part);
}

std::vector<SteadyState::Life> SteadyState::lives(int device) const {
  std::vector<Life> result;
  for (const Buffer &buffer : plan.buffers) {
    if (buffer.device != device)
      continue;
    Life life{0, 0, buffer.offset, alignedBytes(buffer.bytes()),
              holdingOf(buffer.content)};
    if (buffer.persistent) {
      life.end = period;
      result.push_back(life);
      continue;
    }
    const Event &from = plan.events[buffer.first.event];
    const Event &to = plan.events[buffer.last.event];
    double begin = secondsBefore(from, buffer.first.step);
    // With the last step ends what the Run takes beyond its steps.
    bool toTheEnd =
        to.kind != EventKind::Run || buffer.last.step + 1 == to.endStep;
    double end = toTheEnd ? 0 : secondsBefore(to, buffer.last.step + 1);
    auto add = [&](int64_t firstIteration, int64_t lastIteration) {
      const Interval &a = at(buffer.first.event, firstIteration);
      const Interval &b = at(buffer.last.event, lastIteration);
      life.begin = std::min(a.begin + begin, a.end);
      life.end = toTheEnd ? b.end : std::min(b.begin + end, b.end);
      // What follows at the same address begins when this ends, but for a
      // rounding.
      life.end = std::max(life.begin, life.end - 1e-9 * period);
      result.push_back(life);
    };
    // What lives within a phase comes and goes with every microbatch, in the
    // slot of that.
    bool within = buffer.first.event == buffer.last.event ||
                  (from.phase >= 0 && from.phase == to.phase);
    if (!within) {
      add(0, to.trips - 1);
      continue;
    }
    life.bytes = alignedBytes(buffer.slotBytes);
    for (int64_t i = 0; i < from.trips; ++i) {
      life.offset = buffer.address(i);
      add(i, i);
    }
  }
  return result;
}

namespace {

enum class ChangeKind { Ends, Begins, EndsAtOnce };

/// Of what is live. Ends come before beginnings, but for what has no length.
struct Change {
  double time;
  ChangeKind kind;
  size_t life; ///< in lives()
  int64_t copy;
};

/// In the order of time, of all copies of a life that touch the period.
template <typename Life>
std::vector<Change> changesOf(const std::vector<Life> &all, double period) {
  std::vector<Change> changes;
  for (size_t i = 0; i < all.size(); ++i) {
    const Life &life = all[i];
    double shift = -period * std::floor(life.end / period);
    int64_t copy = 0;
    do {
      double begin = std::max(0.0, life.begin + shift);
      double end = std::min(period, life.end + shift);
      changes.push_back({begin, ChangeKind::Begins, i, copy});
      changes.push_back(
          {end, begin < end ? ChangeKind::Ends : ChangeKind::EndsAtOnce, i,
           copy});
      shift += period;
      ++copy;
    } while (life.begin + shift < period);
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change &a, const Change &b) {
              return a.time != b.time ? a.time < b.time : a.kind < b.kind;
            });
  return changes;
}

} // namespace

std::vector<MemoryPoint> SteadyState::memory(int device) const {
  std::vector<Life> all = lives(device);
  std::vector<MemoryPoint> points(1);
  // What is live, by its first address. No two of them overlap: a live range
  // may end with a step that does not touch the buffer any more, and what comes
  // next at its address does not wait for that.
  std::map<int64_t, std::pair<size_t, int64_t>> live;
  auto remove =
      [&](std::map<int64_t, std::pair<size_t, int64_t>>::iterator it) {
        const Life &life = all[it->second.first];
        points.back().bytes[static_cast<int>(life.holding)] -= life.bytes;
        return live.erase(it);
      };
  for (const Change &change : changesOf(all, period)) {
    if (points.back().begin != change.time ||
        change.kind == ChangeKind::EndsAtOnce)
      points.push_back(points.back());
    MemoryPoint &point = points.back();
    point.begin = change.time;
    const Life &life = all[change.life];
    std::pair<size_t, int64_t> which = {change.life, change.copy};
    auto it = live.lower_bound(life.offset);
    if (change.kind != ChangeKind::Begins) {
      if (it != live.end() && it->second == which)
        remove(it);
    } else if (life.bytes > 0) {
      if (it != live.begin()) {
        auto before = std::prev(it);
        if (before->first + all[before->second.first].bytes > life.offset)
          it = remove(before);
      }
      while (it != live.end() && it->first < life.offset + life.bytes)
        it = remove(it);
      live.emplace(life.offset, which);
      point.bytes[static_cast<int>(life.holding)] += life.bytes;
    }
    point.highest = live.empty() ? 0
                                 : live.rbegin()->first +
                                       all[live.rbegin()->second.first].bytes;
  }
  return points;
}

} // namespace harmony::planner
