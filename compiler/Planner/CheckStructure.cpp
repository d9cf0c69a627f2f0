//===- CheckStructure.cpp - Well-formedness of a plan ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BufferIndex.h"
#include "compiler/Planner/Limits.h"
#include "compiler/Planner/Replay.h"

#include <algorithm>
#include <limits>
#include <map>

namespace harmony::planner {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

class Structure {
public:
  Structure(const Plan &plan, const Problem &problem, const Machine &machine,
            Report &report)
      : plan(plan), problem(problem), report(report),
        devices(static_cast<int>(machine.devices.size())),
        hostQueues(machine.hostQueues) {
    linked.assign(machine.devices.size() * machine.devices.size(), 0);
    for (const Link &link : machine.links)
      if (link.from >= 0 && link.to >= 0)
        linked[static_cast<size_t>(link.from) * machine.devices.size() +
               static_cast<size_t>(link.to)] = 1;
  }

  void check() {
    checkQueues();
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
    checkEpilogue();
    checkTraffic();
    checkSlices();
  }

private:
  const Plan &plan;
  const Problem &problem;
  Report &report;
  int devices, hostQueues;
  std::vector<char> linked; ///< by source and destination

  /// Byte counts and offsets beyond this are nonsense, and would overflow sums.
  static bool sensible(int64_t n) { return n >= 0 && n <= maximalBytes; }

  static bool within(int index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  }
  bool isDevice(int device) const { return device >= 0 && device < devices; }

  void checkQueues() {
    for (size_t q = 0; q < plan.queues.size(); ++q) {
      const Queue &queue = plan.queues[q];
      std::string what = "queue " + number(static_cast<int64_t>(q)) + " (" +
                         name(queue.kind) + ")";
      bool host = queue.kind == QueueKind::Host;
      if (host ? queue.device != hostEndpoint : !isDevice(queue.device))
        report.add("structure", what + " is of device " + number(queue.device) +
                                    ", the machine has " + number(devices));
      if (queue.lane < 0 || (host && queue.lane >= hostQueues))
        report.add("structure", what + " has lane " + number(queue.lane) +
                                    ", the host has " + number(hostQueues) +
                                    " queues");
    }
  }

  //===--- events ---===//

  static QueueKind queueOf(const Event &event) {
    switch (event.kind) {
    case EventKind::Prologue:
    case EventKind::Epilogue:
      return QueueKind::Host;
    case EventKind::Contribute:
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
    case EventKind::CopyTensor:
    case EventKind::CopyGradient:
    case EventKind::CopyValue:
    case EventKind::CopyValueGradient:
      return QueueKind::Peer;
    case EventKind::ZeroScalar:
    case EventKind::ZeroGradient:
    case EventKind::Run:
      return QueueKind::Compute;
    }
    return QueueKind::Compute;
  }

  bool partExists(int tensor, int part) const {
    return within(part, problem.tensors[tensor].gradientUses.size() *
                            static_cast<size_t>(plan.groups));
  }
  /// The group of an accumulator; nothing of other scalars.
  bool scalarUseExists(int scalar, int use) const {
    return problem.scalars[scalar].role == ScalarRole::Accumulator
               ? within(use, static_cast<size_t>(plan.groups))
               : use == -1;
  }

  bool objectExists(const Event &event) const {
    auto scalar = [&](ScalarRole role) {
      return within(event.object, problem.scalars.size()) &&
             problem.scalars[event.object].role == role &&
             scalarUseExists(event.object, event.use);
    };
    switch (event.kind) {
    case EventKind::Prologue:
    case EventKind::Epilogue:
    case EventKind::Run:
      return event.object == -1 && event.use == -1;
    case EventKind::LoadScalar:
      return scalar(ScalarRole::Seed);
    case EventKind::ZeroScalar:
      return scalar(ScalarRole::Accumulator);
    case EventKind::StoreScalar:
      return scalar(ScalarRole::Accumulator) ||
             scalar(ScalarRole::Contribution);
    case EventKind::LoadValue:
    case EventKind::StoreValue:
    case EventKind::LoadValueGradient:
    case EventKind::StoreValueGradient:
    case EventKind::CopyValue:
    case EventKind::CopyValueGradient:
      return within(event.object, problem.values.size()) && event.use == -1;
    case EventKind::ZeroGradient:
    case EventKind::StoreGradient:
    case EventKind::LoadGradient:
    case EventKind::CopyGradient:
      return within(event.object, problem.tensors.size()) &&
             partExists(event.object, event.use);
    case EventKind::Contribute:
    case EventKind::Update:
    case EventKind::LoadTensor:
    case EventKind::StoreTensor:
    case EventKind::LoadState:
    case EventKind::StoreState:
    case EventKind::CopyTensor:
      return within(event.object, problem.tensors.size()) && event.use == -1;
    }
    return false;
  }

  static bool looped(EventKind kind) {
    switch (kind) {
    case EventKind::Run:
    case EventKind::LoadValue:
    case EventKind::StoreValue:
    case EventKind::LoadValueGradient:
    case EventKind::StoreValueGradient:
    case EventKind::CopyValue:
    case EventKind::CopyValueGradient:
      return true;
    default:
      return false;
    }
  }

  void checkEvent(int e) {
    const Event &event = plan.events[e];
    std::string what = "event " + number(e) + " (" + name(event.kind) + ")";
    if (!within(event.queue, plan.queues.size()) || !isDevice(event.device) ||
        !objectExists(event) ||
        (looped(event.kind) ? !within(event.phase, plan.phases.size())
                            : event.phase != -1)) {
      report.add(
          "structure",
          what +
              " names a queue, device, object, use or phase that is not there",
          e);
      return;
    }
    if (event.kind == EventKind::StoreValue &&
        problem.values[event.object].isInput())
      report.add("structure",
                 what + " stores the input '" +
                     problem.values[event.object].name +
                     "', which the host has",
                 e);
    checkEndpoints(e, event, what);
    int64_t trips = looped(event.kind) ? plan.phases[event.phase].trips : 1;
    if (event.trips != trips)
      report.add("coverage",
                 what + " has " + number(event.trips) +
                     " iterations, accepted is " + number(trips),
                 e);
    int steps = event.kind == EventKind::Run
                    ? static_cast<int>(plan.phases[event.phase].steps.size())
                    : 0;
    if (event.firstStep < 0 || event.endStep < event.firstStep ||
        event.endStep > steps ||
        (event.kind == EventKind::Run && event.endStep == event.firstStep))
      report.add("coverage",
                 what + " has steps [" + number(event.firstStep) + ", " +
                     number(event.endStep) + ") of " + number(steps),
                 e);
    for (const Wait &wait : event.waits)
      checkWait(e, event, wait, what);
  }

  void checkEndpoints(int e, const Event &event, const std::string &what) {
    const Queue &queue = plan.queues[event.queue];
    bool copies = queueOf(event) == QueueKind::Peer;
    int owner = copies ? event.source : event.device;
    if (queue.kind != queueOf(event) ||
        (queue.kind != QueueKind::Host && queue.device != owner))
      report.add("structure",
                 what + " is on a " + name(queue.kind) + " queue of device " +
                     number(queue.device),
                 e);
    if (!copies ? event.source != -1
                : !isDevice(event.source) || event.source == event.device ||
                      !linked[static_cast<size_t>(event.source) *
                                  static_cast<size_t>(devices) +
                              static_cast<size_t>(event.device)])
      report.add("structure",
                 what + " is from device " + number(event.source) +
                     " to device " + number(event.device) +
                     (copies ? ", accepted is a link between two devices"
                             : ", accepted is a source for copies alone"),
                 e);
    if (event.phase >= 0 && plan.phases[event.phase].device != owner)
      report.add("structure", what + " is on another device than its phase", e);
  }

  void checkWait(int e, const Event &event, const Wait &wait,
                 const std::string &what) {
    bool whole = wait.lag == Wait::whole;
    if (!within(wait.event, plan.events.size()) || wait.lag < Wait::whole ||
        wait.times < 1 || wait.times > plan.batch || wait.every < 1 ||
        wait.every > plan.batch || (wait.times > 1 && wait.every > 1) ||
        (whole && (wait.times > 1 || wait.every > 1))) {
      report.add("structure",
                 what + " waits for event " + number(wait.event) +
                     " with lag " + number(wait.lag) + ", times " +
                     number(wait.times) + ", every " + number(wait.every),
                 e);
      return;
    }
    if (whole)
      return;
    const Event &awaited = plan.events[wait.event];
    if (event.trips < 1) // reported with the event
      return;
    int64_t last = 0;
    if (__builtin_mul_overflow((event.trips - 1) / wait.every, wait.times,
                               &last) ||
        __builtin_add_overflow(last, wait.times - 1 - wait.lag, &last))
      last = std::numeric_limits<int64_t>::max();
    if (wait.previousStep || event.phase < 0 || awaited.phase < 0 ||
        last >= awaited.trips)
      report.add("structure",
                 what + " waits for iteration " + number(last) + " of event " +
                     number(wait.event) + ", which has " +
                     number(awaited.trips) +
                     ", or by iteration for what is no loop of the execution",
                 e, wait.event);
  }

  //===--- buffers and homes ---===//

  bool pointExists(Point point) const {
    if (!within(point.event, plan.events.size()))
      return false;
    const Event &event = plan.events[point.event];
    return event.kind == EventKind::Run
               ? point.step >= event.firstStep && point.step < event.endStep
               : point.step == 0;
  }

  void checkBuffers() {
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer &buffer = plan.buffers[b];
      bool numbers = sensible(buffer.offset) && sensible(buffer.slotBytes) &&
                     sensible(buffer.stride) && buffer.slots >= 1 &&
                     buffer.slots <= plan.batch &&
                     sensible(buffer.slots * buffer.stride);
      if (!pointExists(buffer.first) || !pointExists(buffer.last) || !numbers ||
          !isDevice(buffer.device) || buffer.last < buffer.first ||
          !contentExists(buffer))
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
            plan.buffers[transfer.buffer].device != transfer.device ||
            (transfer.content != Content::Tensor &&
             transfer.content != Content::State))
          report.add("structure", "a resident transfer names buffer " +
                                      number(transfer.buffer) +
                                      ", which does not hold its object");
  }

  bool contentExists(const Buffer &buffer) const {
    switch (buffer.content) {
    case Content::Tensor:
    case Content::State:
      return within(buffer.object, problem.tensors.size());
    case Content::Gradient:
      return within(buffer.object, problem.tensors.size()) &&
             partExists(buffer.object, buffer.use);
    case Content::Saved:
      return within(buffer.object, problem.layers.size()) &&
             (buffer.use == -1 || buffer.use == keptPart);
    case Content::Workspace:
      return within(buffer.object, problem.layers.size());
    case Content::Scalar:
      return within(buffer.object, problem.scalars.size()) &&
             scalarUseExists(buffer.object, buffer.use);
    case Content::Value:
    case Content::ValueGradient:
    case Content::RecomputedValue:
      return within(buffer.object, problem.values.size());
    }
    return false;
  }

  void checkHomes() {
    for (const Home &home : plan.homes)
      if (!sensible(home.offset) || !sensible(home.size) || !homeExists(home))
        report.add("structure",
                   std::string("a home of ") + name(home.kind) +
                       " has an object, use, offset or size that cannot be");
  }

  bool homeExists(const Home &home) const {
    switch (home.kind) {
    case HomeKind::Tensor:
    case HomeKind::State:
      return within(home.object, problem.tensors.size()) && home.use == -1;
    case HomeKind::Gradient:
      return within(home.object, problem.tensors.size()) &&
             partExists(home.object, home.use);
    case HomeKind::Value:
    case HomeKind::ValueGradient:
      return within(home.object, problem.values.size()) && home.use == -1;
    case HomeKind::Scalar:
      return within(home.object, problem.scalars.size()) &&
             scalarUseExists(home.object, home.use);
    }
    return false;
  }

  //===--- counts ---===//

  /// The Runs of a phase have its steps in order. All that belongs to a phase
  /// of several microbatches, which is a loop, is adjacent.
  void checkRuns() {
    std::vector<int> done(plan.phases.size(), 0);
    std::vector<int> lastEvent(plan.phases.size(), -1);
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
      const Event &event = plan.events[e];
      if (event.phase < 0)
        continue;
      int &last = lastEvent[event.phase];
      if (last >= 0 && last != e - 1 && event.trips > 1)
        report.add("structure",
                   "events of phase " + number(event.phase) +
                       " are not adjacent",
                   last, e);
      last = e;
      if (event.kind != EventKind::Run)
        continue;
      if (event.firstStep != done[event.phase])
        report.add("coverage",
                   "event " + number(e) + " begins phase " +
                       number(event.phase) + " at step " +
                       number(event.firstStep) + ", accepted is " +
                       number(done[event.phase]),
                   e);
      done[event.phase] = event.endStep;
    }
    for (size_t p = 0; p < done.size(); ++p) {
      int steps = static_cast<int>(plan.phases[p].steps.size());
      if (done[p] != steps)
        report.add("coverage", "the Runs of phase " +
                                   number(static_cast<int64_t>(p)) + " have " +
                                   number(done[p]) + " of its " +
                                   number(steps) + " steps");
    }
  }

  /// The one event of a kind for every tensor where it is expected, or -1.
  std::vector<int> checkOncePerTensor(EventKind kind, const char *rule,
                                      bool (*expected)(const Tensor &)) {
    std::vector<int> found(problem.tensors.size(), -1);
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
      if (plan.events[e].kind != kind)
        continue;
      int &first = found[plan.events[e].object];
      const Tensor &tensor = problem.tensors[plan.events[e].object];
      if (first >= 0 || !expected(tensor))
        report.add(rule,
                   "tensor '" + tensor.name + "' has an event " + number(e) +
                       " (" + name(kind) + "), accepted is " +
                       (expected(tensor) ? "one" : "none"),
                   first >= 0 ? first : e, first >= 0 ? e : -1);
      first = e;
    }
    for (size_t t = 0; t < found.size(); ++t)
      if (found[t] < 0 && expected(problem.tensors[t]))
        report.add(rule, "tensor '" + problem.tensors[t].name +
                             "' has no event " + name(kind));
    return found;
  }

  void checkUpdates() {
    std::vector<int> updates =
        checkOncePerTensor(EventKind::Update, "update", [](const Tensor &t) {
          return !t.gradientUses.empty();
        });
    for (size_t t = 0; t < updates.size(); ++t) {
      const Tensor &tensor = problem.tensors[t];
      if (updates[t] >= 0 && tensor.updatePlace != UpdatePlace::Any &&
          plan.events[updates[t]].onHost !=
              (tensor.updatePlace == UpdatePlace::Host))
        report.add("update",
                   "tensor '" + tensor.name +
                       "' is updated where it may not be",
                   updates[t]);
    }
  }

  /// One epilogue if the problem has it, and contributions where updates are.
  void checkEpilogue() {
    std::vector<int> contributions =
        checkOncePerTensor(EventKind::Contribute, "epilogue",
                           [](const Tensor &t) { return t.contribution >= 0; });
    int epilogues = 0;
    for (const Event &event : plan.events) {
      epilogues += event.kind == EventKind::Epilogue;
      if (event.kind != EventKind::Update)
        continue;
      int at = contributions[event.object];
      if (at >= 0 && (plan.events[at].onHost != event.onHost ||
                      plan.events[at].device != event.device))
        report.add("epilogue",
                   "tensor '" + problem.tensors[event.object].name +
                       "' contributes in another place than it is updated",
                   at);
    }
    if (epilogues != (problem.epilogue ? 1 : 0))
      report.add("epilogue", "the plan has " + number(epilogues) +
                                 " epilogues, accepted is " +
                                 number(problem.epilogue ? 1 : 0));
  }

  static bool mayBeSlice(EventKind kind) {
    return kind == EventKind::LoadTensor || kind == EventKind::CopyTensor;
  }

  int64_t bytesOf(const Event &event) const {
    switch (event.kind) {
    case EventKind::LoadScalar:
    case EventKind::StoreScalar:
      return problem.scalars[event.object].bytes;
    case EventKind::LoadTensor:
    case EventKind::StoreTensor:
    case EventKind::CopyTensor:
      return problem.tensors[event.object].bytes;
    case EventKind::LoadState:
    case EventKind::StoreState:
      return problem.tensors[event.object].stateBytes;
    case EventKind::LoadGradient:
    case EventKind::StoreGradient:
    case EventKind::CopyGradient:
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
      if (mayBeSlice(event.kind)
              ? !sensible(event.firstByte) || event.bytes < 1 ||
                    event.firstByte % bufferAlignment != 0 ||
                    event.bytes > expected - event.firstByte
              : event.firstByte != 0)
        report.add("traffic",
                   "event " + number(e) + " (" + name(event.kind) + ") moves " +
                       number(event.bytes) + " bytes from " +
                       number(event.firstByte) + " on, what it moves has " +
                       number(expected),
                   e);
      if (!mayBeSlice(event.kind) && event.bytes != expected)
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

  /// The slices that fill a buffer make up the whole, each byte once.
  void checkSlices() {
    BufferIndex buffers(plan);
    std::map<const Buffer *, std::vector<int>> filled; // by events
    for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
      const Event &event = plan.events[e];
      if (!mayBeSlice(event.kind) || event.bytes == bytesOf(event))
        continue;
      if (const Buffer *to = buffers.find(Content::Tensor, event.object, -1,
                                          event.device, {e, 0}))
        filled[to].push_back(e);
    }
    for (auto &entry : filled) {
      const Buffer *buffer = entry.first;
      std::vector<int> &events = entry.second;
      std::stable_sort(events.begin(), events.end(), [&](int a, int b) {
        return plan.events[a].firstByte < plan.events[b].firstByte;
      });
      int64_t end = 0;
      int before = -1;
      auto expect = [&](int64_t begin, int e) {
        if (begin != end)
          report.add("slices",
                     "device " + number(buffer->device) + " gets tensor '" +
                         problem.tensors[buffer->object].name +
                         "' up to byte " + number(end) + ", then from " +
                         number(begin) + " on",
                     before, e);
      };
      for (int e : events) {
        expect(plan.events[e].firstByte, e);
        end = plan.events[e].firstByte + plan.events[e].bytes;
        before = e;
      }
      expect(problem.tensors[buffer->object].bytes, -1);
    }
  }
};

} // namespace

void checkStructure(const Plan &plan, const Problem &problem,
                    const Machine &machine, Report &report) {
  Structure(plan, problem, machine, report).check();
}

} // namespace harmony::planner
