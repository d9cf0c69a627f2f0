//===- Simulate.cpp - Time of a plan --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Build.h"
#include "compiler/Planner/QueueCursor.h"

#include <algorithm>
#include <limits>

namespace harmony::planner {

namespace {

/// Executions simulated: the first fills the queues, the last two are compared.
constexpr int executions = 3;

/// Event-driven: every queue has at most one operation under way; compute takes
/// its time, transfers on one link progress at an equal share of its bandwidth.
class Simulator {
public:
  Simulator(const Plan &plan, const Problem &problem, const Machine &machine)
      : plan(plan), queues(plan.queues.size()),
        completed(plan.events.size(), 0), seconds(plan.events.size(), 0),
        finish(executions, 0) {
    for (size_t e = 0; e < plan.events.size(); ++e)
      seconds[e] = duration(plan.events[e], problem, machine);
    std::vector<std::vector<QueueLoop>> loops = queueLoops(plan);
    for (size_t q = 0; q < queues.size(); ++q)
      queues[q].cursor = QueueCursor(std::move(loops[q]), executions);
    for (size_t q = 0; q < queues.size(); ++q) {
      QueueKind kind = plan.queues[q].kind;
      int device = plan.queues[q].device;
      if (kind == QueueKind::In || kind == QueueKind::Out) {
        bool in = kind == QueueKind::In;
        queues[q].link = 2 * device + (in ? 0 : 1);
        queues[q].bandwidth = (in ? machine.link(hostEndpoint, device)
                                  : machine.link(device, hostEndpoint))
                                  .bytesPerSecond;
        linkUsers.resize(std::max<size_t>(
            linkUsers.size(), static_cast<size_t>(queues[q].link) + 1));
      }
    }
  }

  void run(std::vector<Interval> *intervals) {
    record = intervals;
    while (true) {
      startReady();
      double step = std::numeric_limits<double>::infinity();
      for (const QueueState &queue : queues)
        if (queue.busy)
          step = std::min(step, timeLeft(queue));
      if (step == std::numeric_limits<double>::infinity())
        break;
      advance(step);
    }
    for (const QueueState &queue : queues)
      if (queue.cursor.left())
        throw Error("the plan deadlocks: event " +
                    std::to_string(queue.cursor.event()) + " is never ready");
  }

  double period() const {
    return finish[executions - 1] - finish[executions - 2];
  }
  double computeSeconds() const {
    double most = 0;
    for (size_t q = 0; q < queues.size(); ++q) {
      if (plan.queues[q].kind != QueueKind::Compute)
        continue;
      double total = 0;
      for (size_t e = 0; e < plan.events.size(); ++e)
        if (plan.events[e].queue == static_cast<int>(q))
          total += seconds[e] * static_cast<double>(plan.events[e].trips);
      most = std::max(most, total);
    }
    return most;
  }
  double lastBegin() const { return finish[executions - 2]; }

private:
  struct QueueState {
    QueueCursor cursor;
    bool busy = false;
    double secondsLeft = 0; ///< of computation, or of a transfer's latency
    double bytesLeft = 0;
    int link = -1;
    double bandwidth = 0;
    double begun = 0;
  };

  const Plan &plan;
  std::vector<QueueState> queues;
  std::vector<int64_t>
      completed; ///< iterations of each event, over all executions
  std::vector<double> seconds; ///< of one iteration; transfers: the latency
  std::vector<int> linkUsers;
  std::vector<double> finish; ///< of each execution
  double now = 0;
  std::vector<Interval> *record = nullptr;

  static double duration(const Event &event, const Problem &problem,
                         const Plan &plan) {
    switch (event.kind) {
    case EventKind::Update: {
      const UpdateCost &cost =
          event.onHost ? problem.hostUpdate : problem.deviceUpdate;
      return cost.seconds(problem.tensors[event.object].bytes);
    }
    case EventKind::Run: {
      double total = 0;
      const Phase &phase = plan.phases[event.phase];
      for (const Step &step : phase.steps) {
        const Cost &cost = problem.cost(step.layer, phase.microbatch);
        total += step.kind == StepKind::Backward ? cost.backwardSeconds
                                                 : cost.forwardSeconds;
      }
      return total;
    }
    default:
      return 0;
    }
  }

  double duration(const Event &event, const Problem &problem,
                  const Machine &machine) const {
    if (!isTransfer(event.kind))
      return duration(event, problem, plan);
    bool in = plan.queues[event.queue].kind == QueueKind::In;
    return (in ? machine.link(hostEndpoint, event.device)
               : machine.link(event.device, hostEndpoint))
        .latencySeconds;
  }

  bool ready(const QueueCursor &cursor) const {
    const std::vector<Wait> &waits = plan.events[cursor.event()].waits;
    return std::all_of(waits.begin(), waits.end(), [&](const Wait &wait) {
      return completed[wait.event] >=
             cursor.iterationsNeeded(wait, plan.events[wait.event].trips);
    });
  }

  void startReady() {
    for (QueueState &queue : queues) {
      if (queue.busy || !queue.cursor.left() || !ready(queue.cursor))
        continue;
      int e = queue.cursor.event();
      queue.busy = true;
      queue.begun = now;
      queue.secondsLeft = seconds[e];
      queue.bytesLeft = static_cast<double>(plan.events[e].bytes);
      if (queue.link >= 0)
        ++linkUsers[queue.link];
    }
  }

  double rate(const QueueState &queue) const {
    return queue.bandwidth / linkUsers[queue.link];
  }

  double timeLeft(const QueueState &queue) const {
    return queue.secondsLeft +
           (queue.link >= 0 ? queue.bytesLeft / rate(queue) : 0);
  }

  void advance(double step) {
    now += step;
    // Whoever ends now is found before shares change.
    std::vector<QueueState *> ends;
    for (QueueState &queue : queues) {
      if (!queue.busy)
        continue;
      if (timeLeft(queue) <= step) {
        ends.push_back(&queue);
        continue;
      }
      double spent = std::min(step, queue.secondsLeft);
      queue.secondsLeft -= spent;
      if (queue.link >= 0)
        queue.bytesLeft =
            std::max(0.0, queue.bytesLeft - (step - spent) * rate(queue));
    }
    for (QueueState *queue : ends)
      end(*queue);
  }

  void end(QueueState &queue) {
    int e = queue.cursor.event();
    ++completed[e];
    queue.busy = false;
    if (queue.link >= 0)
      --linkUsers[queue.link];
    if (record && queue.cursor.executionNumber() == executions - 1)
      record->push_back({e, queue.cursor.iterationNumber(), queue.begun, now});
    finish[queue.cursor.executionNumber()] =
        std::max(finish[queue.cursor.executionNumber()], now);
    queue.cursor.next();
  }
};

} // namespace

void simulate(Plan &plan, const Problem &problem, const Machine &machine) {
  Simulator simulator(plan, problem, machine);
  simulator.run(nullptr);
  plan.seconds = simulator.period();
  plan.computeSeconds = simulator.computeSeconds();
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
