//===- Simulate.cpp - Time of a plan --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Simulate.h"

#include "compiler/Planner/Build.h"
#include "compiler/Planner/QueueSimulator.h"

#include <algorithm>
#include <cmath>

namespace harmony::planner {

namespace {

/// Executions simulated: the first fills the queues, the last two count, of
/// which one may take longer than the other; beside the last, as beside any
/// other, the one that follows begins.
constexpr int executions = 6, following = 1;

/// What the last iteration of an event takes beside workSeconds(): a phase that
/// ends and frees its pack.
double phaseEndSeconds(const Plan &plan, const Machine &machine,
                       const Event &event) {
  if (event.kind != EventKind::Run)
    return 0;
  const Phase &phase = plan.phases[event.phase];
  bool ends = event.endStep == static_cast<int>(phase.steps.size());
  return ends && phase.frees ? machine.phaseSeconds : 0;
}

/// The index of the link between two endpoints.
class LinkIndex {
public:
  explicit LinkIndex(const Machine &machine)
      : machine(machine), stride(machine.devices.size() + 1),
        links(stride * stride, -1) {
    // Of links between the same endpoints the first: see Machine::link.
    for (size_t l = machine.links.size(); l-- > 0;)
      links[at(machine.links[l].from, machine.links[l].to)] =
          static_cast<int>(l);
  }
  /// Throws Error if there is none.
  int find(int from, int to) const {
    int link = links[at(from, to)];
    if (link < 0)
      machine.link(from, to); // throws
    return link;
  }

private:
  const Machine &machine;
  size_t stride;
  std::vector<int> links;

  size_t at(int from, int to) const {
    return static_cast<size_t>(from + 1) * stride + static_cast<size_t>(to + 1);
  }
};

QueueWork::Event queueEvent(const Plan &plan, const Problem &problem,
                            const Machine &machine, const LinkIndex &links,
                            const Event &event) {
  QueueWork::Event result;
  result.trips = event.trips;
  if (isTransfer(event.kind)) {
    QueueKind kind = plan.queues[event.queue].kind;
    int from = kind == QueueKind::In     ? hostEndpoint
               : kind == QueueKind::Peer ? event.source
                                         : event.device;
    int to = kind == QueueKind::Out ? hostEndpoint : event.device;
    result.link = links.find(from, to);
    result.seconds = machine.links[result.link].latencySeconds;
    result.bytes = static_cast<double>(event.bytes);
  } else {
    result.seconds = workSeconds(plan, problem, event);
    result.lastSeconds = phaseEndSeconds(plan, machine, event);
  }
  result.waits.reserve(event.waits.size());
  for (const Wait &wait : event.waits)
    result.waits.push_back({wait.event, wait.lag == Wait::whole ? -1 : wait.lag,
                            wait.times, wait.every, wait.previousStep});
  return result;
}

/// Sums of the same terms in another order differ in their last bits, which
/// must not tell plans apart that take equally long.
double withoutRounding(double seconds) {
  constexpr int bits = 40;
  int exponent = 0;
  double mantissa = std::frexp(seconds, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)),
                    exponent - bits);
}

int devicesUsed(const Plan &plan, const Machine &machine) {
  std::vector<char> used(machine.devices.size(), 0);
  for (const Event &event : plan.events)
    if (event.device >= 0)
      used[event.device] = 1;
  return static_cast<int>(std::count(used.begin(), used.end(), 1));
}

QueueTimes execute(const Plan &plan, const Problem &problem,
                   const Machine &machine, std::vector<QueueInterval> *last) {
  QueueWork work;
  LinkIndex links(machine);
  work.events.reserve(plan.events.size());
  for (const Event &event : plan.events)
    work.events.push_back(queueEvent(plan, problem, machine, links, event));
  for (std::vector<QueueLoop> &loops : queueLoops(plan)) {
    work.queues.emplace_back();
    for (QueueLoop &loop : loops)
      work.queues.back().push_back({std::move(loop.events), loop.trips});
  }
  QueueTimes times = simulateQueues(work, machine, devicesUsed(plan, machine),
                                    executions, last, following);
  if (times.blocked >= 0)
    throw Error("the plan deadlocks: " +
                describe(plan, problem, times.blocked) + " is never ready");
  return times;
}

} // namespace

double workSeconds(const Plan &plan, const Problem &problem,
                   const Event &event) {
  switch (event.kind) {
  case EventKind::Run: {
    double total = 0;
    const Phase &phase = plan.phases[event.phase];
    for (int s = event.firstStep; s < event.endStep; ++s)
      total += stepSeconds(problem, phase, phase.steps[s]);
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
                                  const Machine &machine) {
  std::vector<double> seconds(machine.devices.size(), 0);
  for (const Event &event : plan.events)
    if (plan.queues[event.queue].kind == QueueKind::Compute)
      seconds[event.device] +=
          workSeconds(plan, problem, event) * static_cast<double>(event.trips) +
          phaseEndSeconds(plan, machine, event);
  return seconds;
}

void simulate(Plan &plan, const Problem &problem, const Machine &machine) {
  QueueTimes times = execute(plan, problem, machine, nullptr);
  plan.firstSeconds = times.finish.front();
  plan.seconds = withoutRounding(
      (times.finish[executions - 1] - times.finish[executions - 3]) / 2);
  std::vector<double> busy = deviceSeconds(plan, problem, machine);
  plan.computeSeconds = *std::max_element(busy.begin(), busy.end());
}

std::vector<Interval> timeline(const Plan &plan, const Problem &problem,
                               const Machine &machine) {
  std::vector<QueueInterval> last;
  double begin = execute(plan, problem, machine, &last).finish[executions - 2];
  std::vector<Interval> intervals;
  intervals.reserve(last.size());
  for (const QueueInterval &interval : last)
    intervals.push_back({interval.event, interval.iteration,
                         interval.begin - begin, interval.end - begin});
  return intervals;
}

} // namespace harmony::planner
