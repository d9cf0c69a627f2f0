//===- CheckStructure.cpp - Well-formedness of a plan ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replay.h"

#include <algorithm>

namespace harmony::planner {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

class Structure {
public:
  Structure(const Plan &plan, const Problem &problem, const Machine &machine,
            Report &report)
      : plan(plan), problem(problem), machine(machine), report(report) {}

  void check() {
    devices = static_cast<int>(machine.devices.size());
    if (plan.batch != problem.batch)
      report.add("structure", "the plan is for a batch of " +
                                  number(plan.batch) + ", the problem has " +
                                  number(problem.batch));
    checkQueues();
    checkPhases();
    if (!report.violations().empty())
      return;
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e)
      checkEvent(e);
    if (!report.violations().empty())
      return;
    checkBuffers();
    checkHomes();
    if (!report.violations().empty())
      return;
    checkRuns();
    checkUpdates();
    checkTraffic();
  }

private:
  const Plan &plan;
  const Problem &problem;
  const Machine &machine;
  Report &report;
  int devices = 0;

  /// Byte counts and offsets beyond this are nonsense, and would overflow sums.
  static bool sensible(int64_t n) { return n >= 0 && n <= int64_t(1) << 45; }

  static bool within(int index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  }

  void checkQueues() {
    for (size_t q = 0; q < plan.queues.size(); ++q) {
      const Queue &queue = plan.queues[q];
      bool host = queue.kind == QueueKind::Host;
      if (host ? queue.device != hostEndpoint : !within(queue.device, devices))
        report.add("structure", "queue " + number(static_cast<int64_t>(q)) +
                                    " (" + name(queue.kind) +
                                    ") is of device " + number(queue.device) +
                                    ", the machine has " + number(devices));
    }
  }

  //===--- phases ---===//

  void checkPhases() {
    std::vector<int> forward(problem.layers.size(), 0),
        backward(problem.layers.size(), 0);
    std::vector<int> keptForward(problem.layers.size(), -1);
    for (int p = 0; p < static_cast<int>(plan.phases.size()); ++p) {
      const Phase &phase = plan.phases[p];
      std::string what = "phase " + number(p);
      if (!within(phase.device, devices) || phase.firstLayer < 0 ||
          phase.firstLayer > phase.lastLayer ||
          phase.lastLayer >= problem.layerCount()) {
        report.add("structure", what + " is of layers " +
                                    number(phase.firstLayer) + " to " +
                                    number(phase.lastLayer) + " on device " +
                                    number(phase.device));
        return;
      }
      if (std::find(problem.microbatches.begin(), problem.microbatches.end(),
                    phase.microbatch) == problem.microbatches.end() ||
          phase.microbatch != plan.phases[0].microbatch)
        report.add(
            "microbatch",
            what + " has microbatches of " + number(phase.microbatch) +
                ", accepted is one candidate of the problem, the same in "
                "all phases");
      checkSteps(p);
      for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
        forward[l] += phase.kind != PhaseKind::Backward;
        backward[l] += phase.kind != PhaseKind::Forward;
        if (phase.kind == PhaseKind::Forward)
          keptForward[l] = phase.keep;
        else if (phase.kind == PhaseKind::Backward &&
                 keptForward[l] != phase.keep)
          report.add("coverage", what + " and the forward of layer " +
                                     number(l) + " disagree on what is kept");
      }
    }
    for (int l = 0; l < problem.layerCount(); ++l)
      if (forward[l] != 1 || backward[l] != (problem.training ? 1 : 0))
        report.add("coverage",
                   "layer " + number(l) + " has " + number(forward[l]) +
                       " forwards and " + number(backward[l]) +
                       " backwards of every sample, accepted is 1 and " +
                       number(problem.training ? 1 : 0));
  }

  /// Forward and recompute steps ascend, backward steps descend; all layers but
  /// for the recomputed ones, which may be fewer.
  void checkSteps(int p) {
    const Phase &phase = plan.phases[p];
    std::vector<Step> expected;
    if (phase.kind != PhaseKind::Backward)
      for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
        expected.push_back({l, StepKind::Forward});
    if (phase.kind != PhaseKind::Forward)
      for (int l = phase.lastLayer; l >= phase.firstLayer; --l)
        expected.push_back({l, StepKind::Backward});
    std::vector<Step> found;
    int recomputed = phase.firstLayer - 1;
    for (const Step &step : phase.steps)
      if (step.kind != StepKind::Recompute) {
        found.push_back(step);
      } else if (phase.kind != PhaseKind::Backward || phase.keep ||
                 !found.empty() || step.layer <= recomputed ||
                 step.layer > phase.lastLayer) {
        report.add("coverage", "phase " + number(p) + " recomputes layer " +
                                   number(step.layer) + " where it may not");
      } else {
        recomputed = step.layer;
      }
    bool same = found.size() == expected.size();
    for (size_t i = 0; same && i < found.size(); ++i)
      same = found[i].layer == expected[i].layer &&
             found[i].kind == expected[i].kind;
    if (!same)
      report.add("coverage", "the steps of phase " + number(p) +
                                 " are not one forward and backward of each of "
                                 "its layers in order");
  }

  //===--- events ---===//

  static QueueKind queueOf(const Event &event) {
    switch (event.kind) {
    case EventKind::Prologue:
      return QueueKind::Host;
    case EventKind::Update:
      return event.onHost ? QueueKind::Host : QueueKind::Compute;
    case EventKind::LoadScalar:
    case EventKind::LoadTensor:
    case EventKind::LoadState:
    case EventKind::LoadGradient:
    case EventKind::LoadValue:
    case EventKind::LoadValueGradient:
      return QueueKind::In;
    case EventKind::StoreScalar:
    case EventKind::StoreTensor:
    case EventKind::StoreState:
    case EventKind::StoreGradient:
    case EventKind::StoreValue:
    case EventKind::StoreValueGradient:
      return QueueKind::Out;
    default:
      return QueueKind::Compute;
    }
  }

  bool objectExists(const Event &event) const {
    switch (event.kind) {
    case EventKind::Prologue:
    case EventKind::Run:
      return event.object == -1;
    case EventKind::LoadScalar:
    case EventKind::ZeroScalar:
    case EventKind::StoreScalar:
      return within(event.object, problem.scalars.size());
    case EventKind::LoadValue:
    case EventKind::StoreValue:
    case EventKind::LoadValueGradient:
    case EventKind::StoreValueGradient:
      return within(event.object, problem.values.size());
    case EventKind::ZeroGradient:
    case EventKind::StoreGradient:
    case EventKind::LoadGradient:
      return within(event.object, problem.tensors.size()) &&
             within(event.use,
                    problem.tensors[event.object].gradientUses.size());
    default:
      return within(event.object, problem.tensors.size());
    }
  }

  static bool looped(EventKind kind) {
    return kind == EventKind::Run || kind == EventKind::LoadValue ||
           kind == EventKind::StoreValue ||
           kind == EventKind::LoadValueGradient ||
           kind == EventKind::StoreValueGradient;
  }

  void checkEvent(int e) {
    const Event &event = plan.events[e];
    std::string what = "event " + number(e) + " (" + name(event.kind) + ")";
    if (!within(event.queue, plan.queues.size()) ||
        !within(event.device, devices) || !objectExists(event) ||
        looped(event.kind) != within(event.phase, plan.phases.size())) {
      report.add(
          "structure",
          what +
              " names a queue, device, object, use or phase that is not there",
          e);
      return;
    }
    const Queue &queue = plan.queues[event.queue];
    if (queue.kind != queueOf(event) ||
        (queue.kind != QueueKind::Host && queue.device != event.device))
      report.add("structure",
                 what + " is on a " + name(queue.kind) + " queue of device " +
                     number(queue.device),
                 e);
    int64_t trips = looped(event.kind)
                        ? plan.batch / plan.phases[event.phase].microbatch
                        : 1;
    if (event.trips != trips)
      report.add("coverage",
                 what + " has " + number(event.trips) +
                     " iterations, accepted is " + number(trips),
                 e);
    if (looped(event.kind) && plan.phases[event.phase].device != event.device)
      report.add("structure", what + " is on another device than its phase", e);
    for (const Wait &wait : event.waits)
      checkWait(e, event, wait, what);
  }

  void checkWait(int e, const Event &event, const Wait &wait,
                 const std::string &what) {
    if (!within(wait.event, plan.events.size()) || wait.lag < Wait::whole) {
      report.add("structure",
                 what + " waits for event " + number(wait.event) +
                     " with lag " + number(wait.lag),
                 e);
      return;
    }
    if (wait.lag != Wait::whole &&
        (wait.previousStep || plan.events[wait.event].trips != event.trips))
      report.add("structure",
                 what +
                     " waits by iteration for an event with other iterations",
                 e, wait.event);
  }

  void checkBuffers() {
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer &buffer = plan.buffers[b];
      bool points = true;
      for (const Point &point : {buffer.first, buffer.last}) {
        points &= within(point.event, plan.events.size());
        if (points) {
          const Event &event = plan.events[point.event];
          size_t steps = event.kind == EventKind::Run
                             ? plan.phases[event.phase].steps.size()
                             : 1;
          points &= within(point.step, steps);
        }
      }
      bool numbers = sensible(buffer.offset) && sensible(buffer.slotBytes) &&
                     sensible(buffer.stride) && sensible(buffer.slots) &&
                     buffer.slots >= 1 && buffer.slots <= plan.batch;
      if (!points || !numbers || !within(buffer.device, devices) ||
          buffer.last < buffer.first || !contentExists(buffer))
        report.add(
            "structure",
            "buffer " + number(static_cast<int64_t>(b)) + " (" +
                name(buffer.content) +
                ") has a live range, device, object or size that cannot be");
    }
    for (const auto *list : {&plan.load, &plan.store})
      for (const ResidentTransfer &transfer : *list)
        if (!within(transfer.buffer, plan.buffers.size()) ||
            plan.buffers[transfer.buffer].object != transfer.object ||
            plan.buffers[transfer.buffer].content != transfer.content ||
            (transfer.content != Content::Tensor &&
             transfer.content != Content::State))
          report.add("structure", "a resident transfer names buffer " +
                                      number(transfer.buffer) +
                                      ", which does not hold its object");
  }

  void checkHomes() {
    for (const Home &home : plan.homes)
      if (!sensible(home.offset) || !sensible(home.size) || home.object < 0 ||
          home.use < -1)
        report.add("structure",
                   std::string("a home of ") + name(home.kind) +
                       " has an object, offset or size that cannot be");
  }

  bool contentExists(const Buffer &buffer) const {
    switch (buffer.content) {
    case Content::Tensor:
    case Content::State:
      return within(buffer.object, problem.tensors.size());
    case Content::Gradient:
      return within(buffer.object, problem.tensors.size()) &&
             within(buffer.use,
                    problem.tensors[buffer.object].gradientUses.size());
    case Content::Saved:
    case Content::Workspace:
      return within(buffer.object, problem.layers.size());
    case Content::Scalar:
      return within(buffer.object, problem.scalars.size());
    default:
      return within(buffer.object, problem.values.size());
    }
  }

  //===--- counts ---===//

  void checkRuns() {
    std::vector<int> runs(plan.phases.size(), 0);
    for (const Event &event : plan.events)
      if (event.kind == EventKind::Run)
        ++runs[event.phase];
    for (size_t p = 0; p < runs.size(); ++p)
      if (runs[p] != 1)
        report.add("coverage", "phase " + number(static_cast<int64_t>(p)) +
                                   " is run " + number(runs[p]) +
                                   " times, accepted is once");
  }

  void checkUpdates() {
    std::vector<std::vector<int>> updates(problem.tensors.size());
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e)
      if (plan.events[e].kind == EventKind::Update)
        updates[plan.events[e].object].push_back(e);
    for (size_t t = 0; t < updates.size(); ++t) {
      const Tensor &tensor = problem.tensors[t];
      size_t expected = tensor.gradientUses.empty() ? 0 : 1;
      if (updates[t].size() != expected) {
        report.add("update",
                   "tensor '" + tensor.name + "' is updated " +
                       number(static_cast<int64_t>(updates[t].size())) +
                       " times, accepted is " +
                       number(static_cast<int64_t>(expected)),
                   updates[t].empty() ? -1 : updates[t].front(),
                   updates[t].size() < 2 ? -1 : updates[t].back());
        continue;
      }
      if (updates[t].empty() || tensor.updatePlace == UpdatePlace::Any)
        continue;
      if (plan.events[updates[t][0]].onHost !=
          (tensor.updatePlace == UpdatePlace::Host))
        report.add("update",
                   "tensor '" + tensor.name +
                       "' is updated where it may not be",
                   updates[t][0]);
    }
  }

  int64_t bytesOf(const Event &event) const {
    switch (event.kind) {
    case EventKind::LoadScalar:
    case EventKind::StoreScalar:
      return problem.scalars[event.object].bytes;
    case EventKind::LoadTensor:
    case EventKind::StoreTensor:
      return problem.tensors[event.object].bytes;
    case EventKind::LoadState:
    case EventKind::StoreState:
      return problem.tensors[event.object].stateBytes;
    case EventKind::LoadGradient:
    case EventKind::StoreGradient:
      return problem.tensors[event.object].gradientBytes;
    default:
      return problem.values[event.object].bytes(
          plan.phases[event.phase].microbatch);
    }
  }

  void checkTraffic() {
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
      const Event &event = plan.events[e];
      int64_t expected = isTransfer(event.kind) ? bytesOf(event) : 0;
      if (event.bytes != expected)
        report.add("traffic",
                   "event " + number(e) + " (" + name(event.kind) + ") moves " +
                       number(event.bytes) + " bytes, what it moves has " +
                       number(expected),
                   e);
    }
    if (trafficOf(plan, problem) != plan.traffic)
      report.add("traffic", "the plan's account of transferred bytes is not "
                            "the sum of its transfers");
  }
};

} // namespace

void checkStructure(const Plan &plan, const Problem &problem,
                    const Machine &machine, Report &report) {
  Structure(plan, problem, machine, report).check();
}

} // namespace harmony::planner
