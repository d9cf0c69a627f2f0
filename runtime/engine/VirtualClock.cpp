//===- VirtualClock.cpp - When commands would run on a machine ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/VirtualClock.h"

#include "runtime/hal/Driver.h"

#include <algorithm>
#include <limits>

namespace harmony::runtime {

LinkTable linkTable(const Blob &blob) {
  LinkTable table;
  table.links.assign(blob.links().begin(), blob.links().end());
  for (const HmResource &resource : blob.resources())
    table.resources.push_back(resource.bytesPerSecond);
  return table;
}

VirtualClock::VirtualClock(const Blob &blob, HmProgramKind kind)
    : blob(blob), kind(kind), shares(linkTable(blob)) {
  for (const HmQueue &queue : blob.queues(kind))
    states.emplace_back(blob.commands(queue));
  firstOver = states.size();
}

void VirtualClock::begin(double at) {
  ++begun;
  time = std::max(time, at);
  for (State &state : states)
    enter(state);
}

/// Where the queue is at the end of an execution and another has begun.
void VirtualClock::enter(State &state) {
  while (state.atEnd() && state.step + 1 < begun) {
    ++state.step;
    state.cursor.restart();
    state.begun = time;
  }
}

bool VirtualClock::ready(const State &state) const {
  const HmCommand &c = state.cursor.command();
  return c.op != HM_OP_WAIT ||
         states[c.kernel].timeline >=
             awaitedValue(c, blob.queues(kind)[c.kernel].period, state.step,
                          state.cursor.iteration());
}

void VirtualClock::start(State &state) {
  const HmCommand &c = state.cursor.command();
  state.busy = true;
  state.progress = {};
  state.link = LinkShares::none;
  if (c.op != HM_OP_WAIT)
    state.begun = time;
  if (c.op == HM_OP_LAUNCH) {
    bool isLast = state.cursor.iteration() + 1 >= state.cursor.iterationCount();
    state.progress.latencyLeft = c.seconds + (isLast ? c.lastSeconds : 0);
  } else if (c.op == HM_OP_COPY) {
    const HmRef &to = blob.refs()[c.first], &from = blob.refs()[c.first + 1];
    if (to.space == HM_SPACE_DUMP)
      return;
    state.link = shares.find(endpointOf(from.space, from.device),
                             endpointOf(to.space, to.device));
    if (state.link == LinkShares::none)
      return;
    state.progress = {shares.latency(state.link),
                      static_cast<double>(to.bytes)};
    shares.enter(state.link);
  }
}

double VirtualClock::timeLeft(const State &state) {
  return state.link == LinkShares::none
             ? state.progress.latencyLeft
             : state.progress.timeLeft(shares.rate(state.link));
}

bool VirtualClock::advance() {
  for (State &state : states)
    if (!state.busy && !state.atEnd() && ready(state))
      start(state);
  constexpr double never = std::numeric_limits<double>::infinity();
  double elapsed = never;
  for (State &state : states)
    if (state.busy)
      elapsed = std::min(elapsed, timeLeft(state));
  if (elapsed == never)
    return false;
  time += elapsed;
  // Whoever ends now is found before shares change.
  firstOver = states.size();
  for (size_t q = states.size(); q-- > 0;) {
    State &state = states[q];
    if (!state.busy)
      continue;
    if (timeLeft(state) <= elapsed) {
      state.over = true;
      firstOver = q;
    } else {
      state.progress.advance(elapsed, state.link == LinkShares::none
                                          ? 1
                                          : shares.rate(state.link));
    }
  }
  return true;
}

bool VirtualClock::next(Completion &completion) {
  while (firstOver < states.size() && !states[firstOver].over)
    ++firstOver;
  if (firstOver == states.size() && !advance())
    return false;
  State &state = states[firstOver];
  const HmCommand &c = state.cursor.command();
  completion = {firstOver, state.cursor.index(), state.cursor.iteration(),
                state.begun, time};
  if (state.link != LinkShares::none)
    shares.leave(state.link);
  state.timeline += c.signal;
  state.busy = state.over = false;
  state.begun = time;
  state.cursor.next();
  enter(state);
  return true;
}

} // namespace harmony::runtime
