//===- Simulate.cpp - Time of a plan --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every queue has at most one operation under way. Work takes its time; a
// transfer its latency, and then its bytes at the least of its shares of the
// link and of what the link shares with others. Those shares change when a
// transfer starts or ends, and only then are the ends of others worked out
// anew. A queue that waits is looked at again when the event that it waits for
// gets there.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Simulate.h"

#include "compiler/Planner/Build.h"
#include "compiler/Planner/QueueCursor.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

namespace harmony::planner {

namespace {

/// Executions simulated: the first fills the queues, the last two are compared.
constexpr int executions = 3;

class Simulator {
public:
  Simulator(const Plan &plan, const Problem &problem, const Machine &machine)
      : plan(plan), problem(problem), completed(plan.events.size(), 0),
        blocked(plan.events.size()), finish(executions, 0) {
    for (const Link &link : machine.links)
      tracks.push_back({link.bytesPerSecond, 0});
    for (const Resource &resource : machine.resources)
      tracks.push_back({resource.bytesPerSecond, 0});
    std::map<std::pair<int, int>, int> links;
    for (size_t l = 0; l < machine.links.size(); ++l)
      links.emplace(std::make_pair(machine.links[l].from, machine.links[l].to),
                    static_cast<int>(l));
    for (const Event &event : plan.events)
      work.push_back(makeWork(event, machine, links));
    for (std::vector<QueueLoop> &loops : queueLoops(plan)) {
      queues.emplace_back();
      queues.back().cursor = QueueCursor(std::move(loops), executions);
      toStart.push_back(static_cast<int>(queues.size()) - 1);
    }
  }

  void run(std::vector<Interval> *intervals) {
    record = intervals;
    while (true) {
      startReady();
      if (sharesChanged)
        shareAnew();
      double next = nextEnd();
      if (next == std::numeric_limits<double>::infinity())
        break;
      now = next;
      endAll();
    }
    for (const QueueState &queue : queues)
      if (queue.cursor.left())
        throw Error("the plan deadlocks: " +
                    describe(plan, problem, queue.cursor.event()) +
                    " is never ready");
  }

  double period() const {
    return finish[executions - 1] - finish[executions - 2];
  }
  double lastBegin() const { return finish[executions - 2]; }

private:
  /// A link, or a resource that links share.
  struct Track {
    double bytesPerSecond = 0;
    int users = 0;
  };
  /// One iteration of an event.
  struct Work {
    double seconds = 0; ///< transfers: the latency
    double bytes = 0;
    std::vector<int> tracks; ///< that it crosses
  };
  struct QueueState {
    QueueCursor cursor;
    int64_t neededIterations = 0; ///< of the event that it is blocked on
    double begun = 0;
    // Of a transfer under way.
    double dataBegin = 0; ///< when its latency is over
    double bytesLeft = 0; ///< at `updated`
    double updated = 0, rate = 0, end = 0;
  };
  using Ending = std::pair<double, int>; ///< time, queue

  const Plan &plan;
  const Problem &problem;
  std::vector<QueueState> queues;
  std::vector<Work> work; ///< by event
  std::vector<Track> tracks;
  std::vector<int64_t>
      completed; ///< iterations of each event, over all executions
  std::vector<std::vector<int>> blocked; ///< queues, by the event they await
  std::vector<int> toStart;              ///< idle queues that may be ready
  std::vector<int> transfers;            ///< queues with a transfer under way
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> computing;
  bool sharesChanged = false;
  std::vector<double> finish; ///< of each execution
  double now = 0;
  std::vector<Interval> *record = nullptr;

  Work makeWork(const Event &event, const Machine &machine,
                const std::map<std::pair<int, int>, int> &links) const {
    if (!isTransfer(event.kind))
      return {workSeconds(plan, problem, event), 0, {}};
    QueueKind kind = plan.queues[event.queue].kind;
    int from = kind == QueueKind::In     ? hostEndpoint
               : kind == QueueKind::Peer ? event.source
                                         : event.device;
    int to = kind == QueueKind::Out ? hostEndpoint : event.device;
    auto it = links.find({from, to});
    if (it == links.end())
      machine.link(from, to); // throws
    const Link &link = machine.links[it->second];
    Work result{
        link.latencySeconds, static_cast<double>(event.bytes), {it->second}};
    for (int share : link.shares)
      result.tracks.push_back(static_cast<int>(machine.links.size()) + share);
    return result;
  }

  void startReady() {
    std::sort(toStart.begin(), toStart.end());
    for (int q : toStart)
      if (queues[q].cursor.left() && ready(q))
        start(q);
    toStart.clear();
  }

  /// If not, the queue is blocked on the first event that is not there yet.
  bool ready(int q) {
    QueueState &queue = queues[q];
    for (const Wait &wait : plan.events[queue.cursor.event()].waits) {
      int64_t needed =
          queue.cursor.iterationsNeeded(wait, plan.events[wait.event].trips);
      if (completed[wait.event] >= needed)
        continue;
      queue.neededIterations = needed;
      blocked[wait.event].push_back(q);
      return false;
    }
    return true;
  }

  void start(int q) {
    QueueState &queue = queues[q];
    const Work &what = work[queue.cursor.event()];
    queue.begun = now;
    if (what.tracks.empty()) {
      computing.push({now + what.seconds, q});
      return;
    }
    queue.dataBegin = now + what.seconds;
    queue.bytesLeft = what.bytes;
    queue.updated = now;
    queue.rate = 0;
    transfers.push_back(q);
    for (int track : what.tracks)
      ++tracks[track].users;
    sharesChanged = true;
  }

  void shareAnew() {
    sharesChanged = false;
    for (int q : transfers) {
      QueueState &queue = queues[q];
      double rate = std::numeric_limits<double>::infinity();
      for (int track : work[queue.cursor.event()].tracks)
        rate =
            std::min(rate, tracks[track].bytesPerSecond / tracks[track].users);
      if (rate == queue.rate)
        continue;
      double from = std::max(queue.updated, queue.dataBegin);
      if (now > from)
        queue.bytesLeft =
            std::max(0.0, queue.bytesLeft - (now - from) * queue.rate);
      queue.updated = now;
      queue.rate = rate;
      queue.end = std::max(now, queue.dataBegin) + queue.bytesLeft / rate;
    }
  }

  double nextEnd() const {
    double next = computing.empty() ? std::numeric_limits<double>::infinity()
                                    : computing.top().first;
    for (int q : transfers)
      next = std::min(next, queues[q].end);
    return next;
  }

  void endAll() {
    while (!computing.empty() && computing.top().first <= now) {
      int q = computing.top().second;
      computing.pop();
      end(q);
    }
    auto under =
        std::stable_partition(transfers.begin(), transfers.end(),
                              [&](int q) { return queues[q].end > now; });
    for (auto it = under; it != transfers.end(); ++it) {
      for (int track : work[queues[*it].cursor.event()].tracks)
        --tracks[track].users;
      sharesChanged = true;
      end(*it);
    }
    transfers.erase(under, transfers.end());
  }

  void end(int q) {
    QueueState &queue = queues[q];
    int e = queue.cursor.event();
    int execution = queue.cursor.executionNumber();
    ++completed[e];
    if (record && execution == executions - 1)
      record->push_back({e, queue.cursor.iterationNumber(), queue.begun, now});
    finish[execution] = std::max(finish[execution], now);
    queue.cursor.next();
    toStart.push_back(q);
    std::vector<int> &waiting = blocked[e];
    auto still = std::partition(waiting.begin(), waiting.end(), [&](int w) {
      return queues[w].neededIterations > completed[e];
    });
    toStart.insert(toStart.end(), still, waiting.end());
    waiting.erase(still, waiting.end());
  }
};

} // namespace

double workSeconds(const Plan &plan, const Problem &problem,
                   const Event &event) {
  switch (event.kind) {
  case EventKind::Run: {
    double total = 0;
    const Phase &phase = plan.phases[event.phase];
    for (int s = event.firstStep; s < event.endStep; ++s) {
      const Step &step = phase.steps[s];
      const Cost &cost = problem.cost(step.layer, phase.microbatch);
      total += step.kind == StepKind::Backward ? cost.backwardSeconds
               : step.kind == StepKind::Recompute
                   ? cost.recomputeSeconds(phase.level(step.layer))
                   : cost.forwardSeconds;
    }
    return total;
  }
  case EventKind::Update:
  case EventKind::Contribute: {
    const UpdateCost &cost =
        event.onHost ? problem.hostUpdate : problem.deviceUpdate;
    const Tensor &tensor = problem.tensors[event.object];
    double bytes = static_cast<double>(tensor.bytes);
    // A parameter is read and written, its gradient is read, a state is read
    // and written: that is what the cost of an update is for.
    double passes = 3 + 2 * static_cast<double>(tensor.stateBytes) / bytes;
    double uses = static_cast<double>(tensor.gradientUses.size());
    double groups = static_cast<double>(plan.groups);
    double done = event.kind == EventKind::Update ? passes + uses * (groups - 1)
                                                  : uses * groups;
    double seconds = event.onHost && tensor.hostUpdateSeconds >= 0
                         ? tensor.hostUpdateSeconds
                         : cost.perByte * bytes;
    return cost.perTensor + seconds * done / passes;
  }
  case EventKind::Epilogue:
    return problem.hostUpdate.perTensor;
  default:
    return 0;
  }
}

std::vector<double> deviceSeconds(const Plan &plan, const Problem &problem,
                                  int devices) {
  std::vector<double> seconds(static_cast<size_t>(devices), 0);
  for (const Event &event : plan.events)
    if (plan.queues[event.queue].kind == QueueKind::Compute)
      seconds[event.device] +=
          workSeconds(plan, problem, event) * static_cast<double>(event.trips);
  return seconds;
}

void simulate(Plan &plan, const Problem &problem, const Machine &machine) {
  Simulator simulator(plan, problem, machine);
  simulator.run(nullptr);
  plan.seconds = simulator.period();
  std::vector<double> busy =
      deviceSeconds(plan, problem, static_cast<int>(machine.devices.size()));
  plan.computeSeconds = *std::max_element(busy.begin(), busy.end());
}

std::vector<Interval> timeline(const Plan &plan, const Problem &problem,
                               const Machine &machine) {
  std::vector<Interval> intervals;
  Simulator simulator(plan, problem, machine);
  simulator.run(&intervals);
  for (Interval &interval : intervals) {
    interval.begin -= simulator.lastBegin();
    interval.end -= simulator.lastBegin();
  }
  return intervals;
}

} // namespace harmony::planner
