//===- ScheduleQueues.cpp - Queues and timelines --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every event of the plan signals its queue once an iteration. The loops of one
// pack that are on one queue become one loop, so that they advance together. A
// buffer is released on the queue of its last event, where all else that
// touches its bytes is ordered with that event.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Swaps.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

namespace {

/// An event of the program: its ops (of one iteration) and where it stands.
struct Step {
  int64_t event = 0;
  SmallVector<Operation *> ops;
  SmallVector<BufferOp> releases,
      releasesAfter; ///< in each iteration, after the loop
};

/// Consecutive steps of one queue: a loop when they belong to a pack.
struct Group {
  PackOp pack;
  std::vector<Step> steps;
  int64_t base = 0; ///< signals before it
  int64_t trips = 1;
  bool tail = false; ///< a signal follows the loop
  int64_t count() const {
    return static_cast<int64_t>(steps.size()) * trips + tail;
  }
};

struct Queue {
  std::string name;
  QueueKind kind = QueueKind::compute;
  int64_t device = 0;
  std::vector<Group> groups;
  int64_t period = 0;
};

/// Where an event stands on its queue.
struct Position {
  int queue = -1, group = -1, step = -1;
};

class Scheduler {
public:
  Scheduler(ProgramOp program, const planner::Plan &plan)
      : program(program), plan(plan),
        places(program->getParentOfType<ModuleOp>()),
        builder(program.getContext()) {
    module = program->getParentOfType<ModuleOp>();
    planEvents = static_cast<int64_t>(plan.events.size());
    resident = program.getKind() == ProgramKind::load ||
               program.getKind() == ProgramKind::store;
  }

  LogicalResult run() {
    for (Operation &op : program.getBlock())
      if (isa<QueueOp>(op))
        return program.emitOpError() << "is split into queues already";
    if (failed(checkBuffers()))
      return failure();
    makeQueues();
    for (Operation &op : program.getBlock())
      if (failed(add(op)))
        return failure();
    if (!resident)
      addReleases();
    number();
    return emit();
  }

private:
  ProgramOp program;
  const planner::Plan &plan;
  ModuleOp module;
  Places places;
  OpBuilder builder;
  int64_t planEvents = 0;
  bool resident =
      false; ///< load or store: the plan's events are not this program's
  std::vector<Queue> queues;
  std::map<int64_t, Position> positions; ///< by event

  bool isEvaluation() { return program.getKind() == ProgramKind::evaluate; }
  bool owns(BufferOp buffer) {
    return (buffer.getProgram() == ProgramKind::evaluate) == isEvaluation();
  }

  LogicalResult checkBuffers() {
    int64_t count = plan.buffers.size();
    for (auto buffer : module.getOps<BufferOp>())
      if (owns(buffer) && (buffer.getId() < 0 || buffer.getId() >= count))
        return buffer.emitOpError() << "is buffer " << buffer.getId()
                                    << " of a plan that has " << count;
    return success();
  }

  //===--- queues --------------------------------------------------------===//

  void makeQueues() {
    for (const planner::Queue &queue : plan.queues) {
      static const QueueKind kinds[] = {QueueKind::compute, QueueKind::in,
                                        QueueKind::out, QueueKind::peer,
                                        QueueKind::host};
      QueueKind kind = kinds[static_cast<int>(queue.kind)];
      std::string name = queue.device < 0
                             ? "host"
                             : "d" + std::to_string(queue.device) + "." +
                                   stringifyQueueKind(kind).str();
      if (queue.lane > 0)
        name += ".lane" + std::to_string(queue.lane);
      queues.push_back({name, kind, queue.device, {}, 0});
    }
  }

  int findQueue(QueueKind kind, int64_t device) {
    for (auto [index, queue] : llvm::enumerate(queues))
      if (queue.kind == kind && queue.device == device)
        return index;
    std::string name = device < 0 ? "host"
                                  : "d" + std::to_string(device) + "." +
                                        stringifyQueueKind(kind).str();
    queues.push_back({name, kind, device, {}, 0});
    return queues.size() - 1;
  }

  FailureOr<int> queueOf(Operation *op) {
    int64_t event = getEvent(op);
    if (!resident && event >= 0 && event < planEvents)
      return plan.events[event].queue;
    if (event < 0)
      return op->emitOpError()
             << "has no event of the plan: swaps have to be elided first";
    if (!resident && !isEvaluation())
      return op->emitOpError()
             << "is of event " << event << " of a plan that has " << planEvents;
    if (Copy copy = getCopy(op))
      return findQueue(copy.toDevice() ? QueueKind::in : QueueKind::out,
                       copy.device());
    return findQueue(QueueKind::host, -1); // the prologue of an evaluation
  }

  //===--- groups --------------------------------------------------------===//

  LogicalResult add(Operation &op) {
    auto pack = dyn_cast<PackOp>(op);
    if (!pack)
      return addStep(&op, {});
    for (Operation &inner : pack.getBlock())
      if (failed(addStep(&inner, pack)))
        return failure();
    // A pack without runs is still an event that others wait for.
    if (!positions.count(pack.getEvent()))
      return pack.emitOpError() << "runs nothing";
    return success();
  }

  LogicalResult addStep(Operation *op, PackOp pack) {
    FailureOr<int> queueIndex = queueOf(op);
    if (failed(queueIndex))
      return failure();
    Queue &queue = queues[*queueIndex];
    int64_t event = getEvent(op);
    if (auto known = positions.find(event); known != positions.end()) {
      Position at = known->second;
      Group &group = queues[at.queue].groups[at.group];
      if (group.pack != pack)
        return op->emitOpError()
               << "is of event " << event << ", as are ops of another pack";
      group.steps[at.step].ops.push_back(op);
      return success();
    }
    bool joins =
        pack && !queue.groups.empty() && queue.groups.back().pack == pack;
    if (!joins) {
      Group group;
      group.pack = pack;
      group.trips = pack ? pack.getTrips() : 1;
      queue.groups.push_back(std::move(group));
    }
    Group &group = queue.groups.back();
    Step step;
    step.event = event;
    step.ops.push_back(op);
    group.steps.push_back(std::move(step));
    positions[event] = {*queueIndex, static_cast<int>(queue.groups.size()) - 1,
                        static_cast<int>(group.steps.size()) - 1};
    return success();
  }

  Step &stepAt(Position at) {
    return queues[at.queue].groups[at.group].steps[at.step];
  }
  Group &groupAt(Position at) { return queues[at.queue].groups[at.group]; }

  //===--- releases ------------------------------------------------------===//

  struct PlannedBuffer {
    BufferOp op;
    const planner::Buffer *plan;
  };

  /// Whether `later` starts only when all of `earlier` is done: the same queue,
  /// or a wait for the whole.
  bool follows(int64_t later, int64_t earlier, bool previousStep) {
    if (plan.events[later].queue == plan.events[earlier].queue)
      return true;
    return llvm::any_of(
        plan.events[later].waits, [&](const planner::Wait &wait) {
          return wait.event == earlier && wait.lag == planner::Wait::whole &&
                 (previousStep || !wait.previousStep);
        });
  }

  /// Whether every iteration of `later` waits for the same one of `earlier`.
  bool accompanies(int64_t later, int64_t earlier) {
    return llvm::any_of(
        plan.events[later].waits, [&](const planner::Wait &wait) {
          return wait.event == earlier && wait.lag == 0 && !wait.previousStep;
        });
  }

  /// Whether `event`, of the same execution or of the next, starts only when
  /// `earlier` and the releases behind it are done: by order of queues and
  /// waits for whole events, over any number of both.
  bool isAfter(int64_t event, int64_t earlier, bool nextExecution,
               llvm::DenseSet<std::pair<int64_t, int>> &visited) {
    bool sameQueue = plan.events[event].queue == plan.events[earlier].queue;
    if (sameQueue)
      return nextExecution || event > earlier;
    if (!visited.insert({event, nextExecution}).second)
      return false;
    for (const planner::Wait &wait : plan.events[event].waits) {
      if (wait.lag != planner::Wait::whole ||
          (wait.previousStep && !nextExecution))
        continue;
      bool crosses = nextExecution && !wait.previousStep;
      if ((!crosses && wait.event == earlier) ||
          isAfter(wait.event, earlier, crosses, visited))
        return true;
    }
    for (int64_t before = event; before-- > 0;)
      if (plan.events[before].queue == plan.events[event].queue)
        return isAfter(before, earlier, nextExecution, visited);
    return false;
  }

  void addReleases() {
    SmallVector<PlannedBuffer> buffers;
    for (auto buffer : module.getOps<BufferOp>())
      if (owns(buffer) && !buffer.getPersistent())
        buffers.push_back({buffer, &plan.buffers[buffer.getId()]});
    std::map<std::string, llvm::SetVector<int64_t>>
        events; // that touch a buffer
    program.walk([&](Operation *op) {
      if (Copy copy = getCopy(op))
        events[copy.buffer().str()].insert(copy.event);
      else if (isWork(op))
        for (const BufferUse &use : getBufferUses(op, places))
          events[BufferOp(use.buffer).getSymName().str()].insert(getEvent(op));
    });
    for (const PlannedBuffer &buffer : buffers) {
      auto touching = events.find(BufferOp(buffer.op).getSymName().str());
      if (touching != events.end())
        addRelease(buffer, touching->second, buffers);
    }
  }

  void addRelease(const PlannedBuffer &buffer,
                  const llvm::SetVector<int64_t> &touching,
                  ArrayRef<PlannedBuffer> buffers) {
    const planner::Buffer &planned = *buffer.plan;
    int64_t last = planned.last.event;
    if (!touching.contains(last))
      return;
    bool inside =
        planned.first.event == planned.last.event; // scratch of one iteration
    bool looped = plan.events[last].trips > 1;
    for (int64_t event : touching)
      if (event != last && !follows(last, event, false) &&
          !accompanies(last, event))
        return;
    // The next execution writes the same bytes again.
    llvm::DenseSet<std::pair<int64_t, int>> visited;
    if (!isAfter(planned.first.event, last, /*nextExecution=*/true, visited))
      return;
    for (const PlannedBuffer &other : buffers) {
      const planner::Buffer &neighbour = *other.plan;
      if (&neighbour == &planned || neighbour.device != planned.device ||
          neighbour.end() <= planned.offset ||
          planned.end() <= neighbour.offset)
        continue;
      bool sameRun =
          neighbour.first.event == last && neighbour.last.event == last;
      if (inside && sameRun)
        continue; // ordered by the queue within an iteration
      bool before =
          neighbour.last.event < last ||
          (neighbour.last.event == last && neighbour.first.event < last);
      if (!inside && (sameRun || neighbour.last.event == last ||
                      neighbour.first.event == last))
        return;
      if (!follows(neighbour.first.event, last, before))
        return;
    }
    Step &step = stepAt(positions[last]);
    if (inside || !looped)
      step.releases.push_back(buffer.op);
    else
      step.releasesAfter.push_back(buffer.op);
  }

  //===--- numbers -------------------------------------------------------===//

  void number() {
    for (Queue &queue : queues) {
      for (Group &group : queue.groups) {
        group.base = queue.period;
        group.tail = llvm::any_of(group.steps, [](const Step &step) {
          return !step.releasesAfter.empty();
        });
        queue.period += group.count();
      }
    }
  }

  static int64_t slopeOf(const Group &group) {
    return group.pack ? static_cast<int64_t>(group.steps.size()) : 0;
  }
  /// The timeline once iteration 0 of an event is done.
  int64_t valueOf(Position at) { return groupAt(at).base + at.step + 1; }
  /// The timeline once all of an event is done, releases after the loop
  /// included.
  int64_t endOf(Position at) {
    Group &group = groupAt(at);
    if (!stepAt(at).releasesAfter.empty())
      return group.base + group.count();
    return valueOf(at) + (group.trips - 1) * slopeOf(group);
  }

  //===--- emission ------------------------------------------------------===//

  using WaitMap =
      std::map<std::tuple<int, bool, int64_t, int64_t>,
               int64_t>; ///< (queue, previous, slope, from) -> value

  static void addWait(WaitMap &waits, int queue, bool previous, int64_t slope,
                      int64_t from, int64_t value) {
    int64_t &known =
        waits.insert({{queue, previous, slope, from}, value}).first->second;
    known = std::max(known, value);
  }

  /// Waits before the first iteration, and those of every iteration.
  void collectWaits(const Step &step, int queue, WaitMap &before,
                    WaitMap &inside) {
    if (resident)
      return;
    if (step.event >= planEvents)
      return collectResidentWaits(before);
    for (const planner::Wait &wait : plan.events[step.event].waits) {
      auto at = positions.find(wait.event);
      if (at == positions.end() || at->second.queue == queue)
        continue;
      Position target = at->second;
      if (wait.lag == planner::Wait::whole || wait.previousStep)
        addWait(before, target.queue, wait.previousStep, 0, 0, endOf(target));
      else
        addWait(inside, target.queue, false, slopeOf(groupAt(target)), wait.lag,
                valueOf(target) - wait.lag * slopeOf(groupAt(target)));
    }
    addResidentReads(step, queue, before);
  }

  /// What an evaluation loads at its start must not meet the reads of the one
  /// before.
  void collectResidentWaits(WaitMap &before) {
    for (auto [index, queue] : llvm::enumerate(queues))
      if (queue.kind == QueueKind::compute && queue.period > 0)
        addWait(before, index, true, 0, 0, queue.period);
  }

  /// Reads of what an evaluation loads at its start, and of what its prologue
  /// computes, come after it.
  void addResidentReads(const Step &step, int queue, WaitMap &before) {
    if (plan.events[step.event].kind != planner::EventKind::Run)
      return;
    for (auto it = positions.lower_bound(planEvents); it != positions.end();
         ++it)
      if (it->second.queue != queue &&
          queues[it->second.queue].kind == QueueKind::in)
        addWait(before, it->second.queue, false, 0, 0, endOf(it->second));
  }

  void emitWaits(WaitMap &waits) {
    // An execution's own value covers what the one before needs, one of a
    // loop's later start nothing else.
    for (auto &[key, value] : waits) {
      auto [queue, previous, slope, from] = key;
      auto current = waits.find({queue, false, 0, 0});
      if (previous && current != waits.end() &&
          current->second >= value - queues[queue].period)
        continue;
      WaitOp::create(builder, program.getLoc(), queues[queue].name, value,
                     slope, 1, from, previous);
    }
  }

  void emitStep(Step &step, int64_t value, int64_t slope) {
    for (Operation *op : step.ops)
      op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
    for (BufferOp buffer : step.releases)
      ReleaseOp::create(builder, buffer.getLoc(), buffer.getSymName());
    SignalOp::create(builder, program.getLoc(), value, slope);
  }

  void emitGroup(Group &group, int queue) {
    SmallVector<WaitMap> inside(group.steps.size());
    WaitMap before;
    for (auto [step, waits] : llvm::zip_equal(group.steps, inside))
      collectWaits(step, queue, before, waits);
    emitWaits(before);
    OpBuilder::InsertionGuard guard(builder);
    if (group.pack) {
      std::string label = (group.pack.getName() + " " +
                           stringifyPackKind(group.pack.getKind()) +
                           " of layers " + Twine(group.pack.getFirstLayer()) +
                           " to " + Twine(group.pack.getLastLayer()))
                              .str();
      auto loop =
          ForOp::create(builder, group.pack.getLoc(), group.trips, label);
      builder.setInsertionPointToEnd(&loop.getBody().emplaceBlock());
    }
    for (auto [index, step] : llvm::enumerate(group.steps)) {
      emitWaits(inside[index]);
      emitStep(step, group.base + static_cast<int64_t>(index) + 1,
               slopeOf(group));
    }
  }

  LogicalResult emit() {
    SmallVector<Operation *> old;
    for (Operation &op : program.getBlock())
      old.push_back(&op);
    for (auto [index, queue] : llvm::enumerate(queues)) {
      if (queue.groups.empty())
        continue;
      builder.setInsertionPointToEnd(&program.getBlock());
      auto op = QueueOp::create(builder, program.getLoc(), queue.name,
                                queue.kind, queue.device, queue.period);
      builder.setInsertionPointToEnd(&op.getBody().emplaceBlock());
      for (Group &group : queue.groups) {
        emitGroup(group, index);
        builder.setInsertionPointToEnd(&op.getBlock());
        if (!group.tail)
          continue;
        for (Step &step : group.steps)
          for (BufferOp buffer : step.releasesAfter)
            ReleaseOp::create(builder, buffer.getLoc(), buffer.getSymName());
        SignalOp::create(builder, program.getLoc(), group.base + group.count(),
                         0);
      }
    }
    for (Operation *op : old)
      if (isa<PackOp>(op))
        op->erase();
    return success();
  }
};

} // namespace

LogicalResult harmony::scheduleQueues(ProgramOp program,
                                      const planner::Plan &plan) {
  return Scheduler(program, plan).run();
}

LogicalResult harmony::schedulePlan(ModuleOp module, const Model &model,
                                    const planner::Plan &plan,
                                    ProgramKind kind) {
  if (failed(buildProgram(module, model, plan, kind)))
    return failure();
  for (ProgramOp program : getPrograms(module, kind))
    if (failed(insertSwaps(program)) ||
        failed(elideSwaps(program, plan, model.problem)) ||
        failed(hoistSwaps(program, plan)) ||
        failed(verifySwaps(program, plan, model.problem)) ||
        failed(scheduleQueues(program, plan)))
      return failure();
  return success();
}
