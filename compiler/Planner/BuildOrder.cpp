//===- BuildOrder.cpp - Order of events, and live ranges ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildOrder.h"

#include <utility>

namespace harmony::planner {

//===--- the order ---===//

template <typename Before>
void OrderBuilder::sort(EventList &list, Before isBefore) {
  sorted.clear();
  bool inOrder = true;
  for (int e = list.first; e >= 0; e = b.issues[e].next) {
    inOrder &=
        sorted.empty() || !isBefore(b.issues[e], b.issues[sorted.back()]);
    sorted.push_back(e);
  }
  if (inOrder)
    return;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int x, int y) {
    return isBefore(b.issues[x], b.issues[y]);
  });
  for (size_t i = 0; i + 1 < sorted.size(); ++i)
    b.issues[sorted[i]].next = sorted[i + 1];
  b.issues[sorted.back()].next = -1;
  list = {sorted.front(), sorted.back()};
}

void OrderBuilder::sortByNeed(EventList &list) {
  sort(list,
       [](const Issue &x, const Issue &y) { return x.neededBy < y.neededBy; });
}

void OrderBuilder::append(const EventList &list) {
  for (int e = list.first; e >= 0; e = b.issues[e].next)
    order.push_back(e);
}

/// The first phase of the device's next block, or the number of phases.
int OrderBuilder::nextBlock(int p) const {
  int next = b.phases[p].next;
  while (next < b.phaseCount() && b.phases[next].block == b.phases[p].block)
    next = b.phases[next].next;
  return next;
}

void OrderBuilder::arrange() {
  for (Section &section : b.sections) {
    sortByNeed(section.loads);
    sortByNeed(section.gathers);
    sortByNeed(section.collected);
    sortByNeed(section.among);
    sort(section.values, [](const Issue &x, const Issue &y) {
      return x.part != y.part ? x.part < y.part : x.neededBy < y.neededBy;
    });
  }
  sortByNeed(b.firstGathers);
  order.clear();
  append(b.prefix);
  for (const std::vector<int> &list : b.devicePhases)
    if (choices.overlap && !list.empty())
      append(b.sections[list.front()].loads);
  append(b.firstGathers);
  for (int band = 0; band < b.phaseCount(); band = b.phases[band].bandEnd) {
    int end = b.phases[band].bandEnd;
    for (int p = band; p < end; ++p)
      appendBefore(p);
    appendRuns(band, end);
    for (int p = band; p < end; ++p)
      appendBehind(p);
  }
  appendLast();
  index.assign(b.events.size(), -1);
  for (size_t i = 0; i < order.size(); ++i)
    index[order[i]] = static_cast<int>(i);
}

void OrderBuilder::appendBefore(int p) {
  const Section &section = b.sections[p];
  append(section.gathers);
  if (!choices.overlap)
    append(section.loads);
  else if (b.phases[p].block == p && nextBlock(p) < b.phaseCount())
    append(b.sections[nextBlock(p)].loads);
  append(section.lateLoads);
  append(section.zeros);
}

/// Of phases side by side, with the values that come in front of each Run, and
/// what stands behind it.
void OrderBuilder::appendRuns(int band, int end) {
  // From the front of `list`, while an event is one of those to be appended.
  auto appendFrom = [&](EventList &list, auto isNow) {
    while (list.first >= 0 && isNow(b.issues[list.first])) {
      order.push_back(list.first);
      list.first = b.issues[list.first].next;
    }
  };
  auto appendAmong = [&](int part) {
    for (int p = band; p < end; ++p)
      appendFrom(b.sections[p].among,
                 [&](const Issue &issue) { return issue.neededBy <= part; });
  };
  for (int part = 0; part < b.partCount(band);) {
    int next = part + 1;
    while (next < b.partCount(band) &&
           b.runOf(band, next) == b.runOf(band, part))
      ++next;
    for (int p = band; p < end; ++p)
      appendFrom(b.sections[p].values,
                 [&](const Issue &issue) { return issue.part < next; });
    appendAmong(part - 1);
    for (int p = band; p < end; ++p)
      order.push_back(b.runOf(p, part));
    part = next;
  }
  appendAmong(b.partCount(band) - 1);
}

void OrderBuilder::appendBehind(int p) {
  const Section &section = b.sections[p];
  append(section.after);
  append(section.contributions);
  append(section.collected);
  append(section.updates);
  append(section.storesNow);
  if (!choices.overlap)
    append(section.stores);
  else if (b.phases[p].previous >= 0)
    append(b.sections[b.phases[p].previous].stores);
  append(section.hostContributions);
  append(section.hostUpdates);
}

/// What follows all phases.
void OrderBuilder::appendLast() {
  const Section &last = b.sections[b.phaseCount()];
  auto appendDelayed = [&] {
    for (int p = 0; p < b.phaseCount(); ++p)
      if (choices.overlap && b.phases[p].next == b.phaseCount())
        append(b.sections[p].stores);
  };
  bool epilogue = b.epilogue >= 0;
  if (epilogue) {
    appendDelayed();
    append(last.hostContributions);
    order.push_back(b.epilogue);
  }
  append(last.updates);
  append(last.storesNow);
  if (!epilogue)
    appendDelayed();
  append(last.stores);
  append(last.hostUpdates);
}

//===--- the plan ---===//

/// Only the queues that the plan may use: peer queues where it copies.
void OrderBuilder::numberQueues() {
  used.assign(b.devicePhases.size() * laneCount, 0);
  hostIndex.assign(static_cast<size_t>(b.machine.hostQueues), -1);
  for (const Event &event : b.events)
    if (event.queue <= BuildContext::hostQueue) {
      hostIndex[BuildContext::hostQueue - event.queue] = 0;
    } else {
      if (static_cast<size_t>(event.queue) >= used.size())
        used.resize(
            (static_cast<size_t>(event.queue / laneCount) + 1) * laneCount, 0);
      used[event.queue] = 1;
    }
  static constexpr Queue lanes[laneCount] = {
      {QueueKind::Compute, 0, 0}, {QueueKind::In, 0, 0},
      {QueueKind::In, 0, 1},      {QueueKind::Out, 0, 0},
      {QueueKind::Out, 0, 1},     {QueueKind::Peer, 0, 0},
      {QueueKind::Peer, 0, 1},    {QueueKind::Peer, 0, 2}};
  queueIndex.assign(used.size(), -1);
  std::vector<Queue> &queues = b.draft.plan.queues;
  for (size_t q = 0; q < used.size(); ++q) {
    Queue queue = lanes[q % laneCount];
    queue.device = static_cast<int>(q / laneCount);
    if (queue.kind == QueueKind::Peer && !used[q])
      continue;
    queueIndex[q] = static_cast<int>(queues.size());
    queues.push_back(queue);
  }
  for (int lane = 0; lane < b.machine.hostQueues; ++lane)
    if (lane == 0 || hostIndex[lane] == 0) {
      hostIndex[lane] = static_cast<int>(queues.size());
      queues.push_back({QueueKind::Host, hostEndpoint, lane});
    }
  for (Event &event : b.events)
    event.queue = event.queue <= BuildContext::hostQueue
                      ? hostIndex[BuildContext::hostQueue - event.queue]
                      : queueIndex[event.queue];
}

void OrderBuilder::number() {
  Plan &plan = b.draft.plan;
  plan.problem = b.problem.name;
  plan.batch = b.problem.batch;
  plan.groups = choices.groups;
  plan.update = b.deferred ? UpdateOrder::Deferred : UpdateOrder::JustInTime;
  numberQueues();
  plan.events.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    // The list of waits is kept for its memory.
    std::vector<Wait> waits = std::move(plan.events[i].waits);
    waits.clear();
    plan.events[i] = std::move(b.events[order[i]]);
    plan.events[i].waits = std::move(waits);
  }
  for (auto *touches :
       {&b.draft.bufferTouches, &b.draft.homeTouches, &b.draft.scalarTouches})
    for (Touch &touch : *touches)
      touch.event = index[touch.event];
  setLiveRanges();
  plan.traffic = trafficOf(plan, b.problem);
}

void OrderBuilder::setLiveRanges() {
  Plan &plan = b.draft.plan;
  const Event &tail = plan.events.back();
  Point end{static_cast<int>(plan.events.size()) - 1,
            tail.kind == EventKind::Run ? tail.endStep - 1 : 0};
  for (Buffer &buffer : plan.buffers) {
    buffer.first = buffer.persistent ? Point{0, 0} : end;
    buffer.last = buffer.persistent ? end : Point{0, 0};
  }
  for (const BuildContext::Cover &cover : b.covers) {
    Buffer &buffer = plan.buffers[cover.buffer];
    int event = index[cover.event];
    buffer.first = std::min(buffer.first, {event, cover.firstStep});
    buffer.last = std::max(buffer.last, {event, cover.lastStep});
  }
}

/// On a line on which every event has one point, a Run one a step: what is live
/// on it is summed up by device.
std::vector<int64_t> OrderBuilder::livePeaks() {
  const std::vector<Buffer> &buffers = b.draft.plan.buffers;
  points.resize(b.events.size());
  int length = 0, devices = 1;
  for (int e : order) {
    const Event &event = b.events[e];
    points[e] = length - event.firstStep;
    length +=
        event.kind == EventKind::Run ? event.endStep - event.firstStep : 1;
  }
  spans.clear();
  for (const Buffer &buffer : buffers) {
    spans.push_back(buffer.persistent ? Span{0, length - 1}
                                      : Span{length - 1, 0});
    devices = std::max(devices, buffer.device + 1);
  }
  for (const BuildContext::Cover &cover : b.covers) {
    Span &span = spans[cover.buffer];
    int point = points[cover.event];
    span.first = std::min(span.first, point + cover.firstStep);
    span.last = std::max(span.last, point + cover.lastStep);
  }
  size_t stride = static_cast<size_t>(length) + 1;
  changes.assign(stride * devices, 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = alignedBytes(buffers[i].bytes());
    int64_t *change = &changes[stride * buffers[i].device];
    change[spans[i].first] += bytes;
    change[spans[i].last + 1] -= bytes;
  }
  std::vector<int64_t> peaks;
  for (auto at = changes.begin(); at != changes.end();) {
    int64_t live = 0, peak = 0;
    for (auto end = at + static_cast<long>(stride); at != end; ++at)
      peak = std::max(peak, live += *at);
    peaks.push_back(peak);
  }
  return peaks;
}

} // namespace harmony::planner
