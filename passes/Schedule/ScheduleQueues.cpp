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

#include "passes/Schedule/Order.h"
#include "passes/Schedule/Swaps.h"

#include "llvm/ADT/StringMap.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

namespace {

/// An event of the program: its ops (of one iteration) and where it stands.
struct Step {
  int64_t event = 0;
  SmallVector<Operation *> ops;
  /// In each iteration, by the op behind which they stand.
  SmallVector<std::pair<Operation *, BufferOp>> releases;
  SmallVector<BufferOp> releasesAfter; ///< after the loop
};

/// Consecutive steps of one queue: a loop when they belong to a pack of several
/// microbatches.
struct Group {
  PackOp pack;
  std::vector<Step> steps;
  int64_t base = 0; ///< signals before it
  int64_t trips = 1;
  bool tail = false; ///< a signal follows the loop
  bool looped() const { return trips > 1; }
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
    if (!resident) {
      sortGroups();
      addReleases();
    }
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
    bool joins = pack && pack.getTrips() > 1 && !queue.groups.empty() &&
                 queue.groups.back().pack == pack;
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

  /// In the plan's order: among the Runs of one microbatch there may be other
  /// events, as updates.
  void sortGroups() {
    auto eventOf = [&](const Group &group) {
      int64_t event = group.steps.front().event;
      return event >= planEvents ? -1 : event; // before the plan's first event
    };
    for (auto [number, queue] : llvm::enumerate(queues)) {
      llvm::stable_sort(queue.groups, [&](const Group &a, const Group &b) {
        return eventOf(a) < eventOf(b);
      });
      for (auto [index, group] : llvm::enumerate(queue.groups))
        for (const Step &step : group.steps) {
          positions[step.event].queue = static_cast<int>(number);
          positions[step.event].group = static_cast<int>(index);
        }
    }
  }

  //===--- releases ------------------------------------------------------===//

  /// A buffer that may be released behind its last use.
  struct Life {
    BufferOp op;
    const planner::Buffer *plan = nullptr;
    std::vector<int64_t> events; ///< that touch it
    /// The first and the last touch: the plan's range may be longer.
    planner::Point first, last;
    bool released = true;
    /// Of one iteration of a loop, and not of the loop as a whole.
    bool perIteration = false;
  };

  /// What lay at an address last: a number in `lives`, and in which of two
  /// executions. Segments begin at their key and end at the next one.
  using Occupants = std::map<int64_t, std::pair<int, int>>;

  void addReleases() {
    std::vector<Life> lives = getLives();
    EventOrder order(plan);
    for (Life &life : lives)
      life.released = isOverAtLastUse(life, plan, order);
    llvm::stable_sort(
        lives, [](const Life &a, const Life &b) { return a.first < b.first; });
    // Who takes bytes over must come after their release. It is enough to ask
    // the next: whoever follows that one is ordered after it by the plan.
    std::map<int, Occupants> arenas;
    for (int execution = 0; execution < 2; ++execution)
      for (size_t i = 0; i < lives.size(); ++i)
        occupy(arenas[lives[i].plan->device], lives, static_cast<int>(i),
               execution, order);
    for (const Life &life : lives) {
      if (!life.released)
        continue;
      Step &step = stepAt(positions[life.last.event]);
      if (life.perIteration)
        step.releases.push_back({opOf(step, life.last), life.op});
      else
        step.releasesAfter.push_back(life.op);
    }
  }

  /// The op of a point of the plan.
  Operation *opOf(const Step &step, planner::Point point) const {
    const planner::Event &event = plan.events[point.event];
    size_t index = point.step - event.firstStep;
    bool ofStep =
        event.kind == planner::EventKind::Run && index < step.ops.size();
    return ofStep ? step.ops[index] : step.ops.back();
  }

  std::vector<Life> getLives() {
    llvm::StringMap<std::vector<int64_t>> events; // that touch a buffer
    auto add = [&](StringRef buffer, int64_t event) {
      std::vector<int64_t> &list = events[buffer];
      if (list.empty() || list.back() != event)
        list.push_back(event);
    };
    program.walk([&](Operation *op) {
      if (Copy copy = getCopy(op)) {
        add(copy.buffer(), copy.event);
        if (copy.isPeer())
          add(copy.otherPlace(), copy.event);
      } else if (isa<RunOp, UpdateOp, ZeroOp>(op)) {
        for (const BufferUse &use : getBufferUses(op, places))
          add(BufferOp(use.buffer).getSymName(), getEvent(op));
      }
    });
    std::vector<Life> lives;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (!owns(buffer) || buffer.getPersistent())
        continue;
      auto touching = events.find(buffer.getSymName());
      if (touching == events.end())
        continue;
      const planner::Buffer &planned = plan.buffers[buffer.getId()];
      std::vector<int64_t> &list = touching->second;
      int first = static_cast<int>(*llvm::min_element(list)),
          last = static_cast<int>(*llvm::max_element(list));
      Life life;
      life.op = buffer;
      life.plan = &planned;
      life.events = std::move(list);
      life.first = {first, 0};
      if (first == planned.first.event)
        life.first = planned.first;
      life.last = {last, plan.events[last].endStep - 1};
      if (last == planned.last.event)
        life.last = planned.last;
      lives.push_back(std::move(life));
    }
    return lives;
  }

  /// Whether all that touches a buffer is over at its last use; decides where
  /// that is.
  static bool isOverAtLastUse(Life &life, const planner::Plan &plan,
                              const EventOrder &order) {
    int last = life.last.event;
    auto all = [&](auto holds) {
      return llvm::all_of(life.events, [&](int64_t event) {
        return event == last || holds(static_cast<int>(event), last);
      });
    };
    life.perIteration =
        plan.events[last].trips == 1 ||
        all([&](int event, int last) { return order.inOneLoop(event, last); });
    // Of a loop of several Runs the last one releases what lasts as long as the
    // loop: who waits for an earlier Run does not wait for the releases.
    planner::Point end = life.plan->last;
    if (!life.perIteration && last < end.event &&
        order.inOneLoop(last, end.event)) {
      life.last = end;
      last = end.event;
    }
    return all(
        [&](int event, int last) { return order.endsAfter(last, event); });
  }

  /// Takes a buffer's bytes over from those that lie there.
  static void occupy(Occupants &arena, std::vector<Life> &lives, int self,
                     int execution, const EventOrder &order) {
    const planner::Buffer &buffer = *lives[self].plan;
    if (buffer.bytes() == 0)
      return;
    arena.try_emplace(0, -1, 0);
    auto split = [&](int64_t at) {
      auto it = std::prev(arena.upper_bound(at));
      return it->first == at
                 ? it
                 : arena.emplace_hint(std::next(it), at, it->second);
    };
    auto begin = split(buffer.offset), end = split(buffer.end());
    for (auto it = begin; it != end; ++it) {
      auto [before, when] = it->second;
      if (before >= 0 &&
          !followsRelease(lives[self], lives[before], when < execution, order))
        lives[before].released = false;
    }
    arena.erase(std::next(begin), end);
    begin->second = {self, execution};
  }

  /// Whether all that touches a buffer comes after the release of another: its
  /// first touch need not lead to the rest, as slices of a tensor come over
  /// several queues.
  static bool followsRelease(const Life &self, const Life &before,
                             bool nextExecution, const EventOrder &order) {
    int last = before.last.event;
    return llvm::all_of(self.events, [&](int64_t number) {
      int event = static_cast<int>(number);
      if (!nextExecution && (event == last || order.inOneLoop(event, last)))
        return before.perIteration;
      return order.startsAfter(event, last, nextExecution,
                               !before.perIteration);
    });
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
    return group.looped() ? static_cast<int64_t>(group.steps.size()) : 0;
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

  /// What a wait waits for, but for the value.
  struct WaitKey {
    int queue = 0;
    bool previous = false;
    int64_t slope = 0, every = 1, from = 0;
    bool operator<(const WaitKey &other) const {
      return std::tie(queue, previous, slope, every, from) <
             std::tie(other.queue, other.previous, other.slope, other.every,
                      other.from);
    }
  };
  using WaitMap = std::map<WaitKey, int64_t>; ///< values

  static void addWait(WaitMap &waits, const WaitKey &key, int64_t value) {
    int64_t &known = waits.insert({key, value}).first->second;
    known = std::max(known, value);
  }

  /// Waits for whole events, for which the first iteration waits, and those of
  /// every iteration.
  void collectWaits(const Step &step, int queue, bool looped, WaitMap &before,
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
      if (wait.lag == planner::Wait::whole || wait.previousStep) {
        addWait(before, {target.queue, wait.previousStep}, endOf(target));
        continue;
      }
      // As planner::timelineWait, over timelines that have signals for
      // releases too.
      int64_t perMicrobatch = slopeOf(groupAt(target));
      int64_t behind = std::max<int64_t>(0, wait.lag - (wait.times - 1));
      int64_t from = (behind + wait.times - 1) / wait.times * wait.every;
      int64_t slope = looped ? perMicrobatch * wait.times : 0;
      if (!looped && from > 0)
        continue;
      WaitKey key{target.queue, false, slope, slope ? wait.every : 1, from};
      addWait(inside, key,
              valueOf(target) + (wait.times - 1 - wait.lag) * perMicrobatch);
    }
    addResidentReads(step, queue, before);
  }

  /// What an evaluation loads at its start must not meet the reads of the one
  /// before.
  void collectResidentWaits(WaitMap &before) {
    for (auto [index, queue] : llvm::enumerate(queues))
      if (queue.kind == QueueKind::compute && queue.period > 0)
        addWait(before, {static_cast<int>(index), true}, queue.period);
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
        addWait(before, {it->second.queue}, endOf(it->second));
  }

  void emitWaits(WaitMap &waits) {
    // An execution's own value covers what the one before needs, one of a
    // loop's later start nothing else.
    for (auto &[key, value] : waits) {
      auto current = waits.find({key.queue});
      if (key.previous && current != waits.end() &&
          current->second >= value - queues[key.queue].period)
        continue;
      WaitOp::create(builder, program.getLoc(), queues[key.queue].name, value,
                     key.slope, key.every, key.from, key.previous);
    }
  }

  void emitStep(Step &step, int64_t value, int64_t slope) {
    for (Operation *op : step.ops) {
      op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
      for (auto &[behind, buffer] : step.releases)
        if (behind == op)
          ReleaseOp::create(builder, buffer.getLoc(), buffer.getSymName());
    }
    SignalOp::create(builder, program.getLoc(), value, slope);
  }

  void emitGroup(Group &group, int queue) {
    SmallVector<WaitMap> inside(group.steps.size());
    WaitMap before;
    // What another event of the loop waits for must not hold up the first:
    // a recomputation starts before the gradients arrive.
    for (auto [index, step] : llvm::enumerate(group.steps))
      collectWaits(step, queue, group.looped(),
                   index == 0 ? before : inside[index], inside[index]);
    emitWaits(before);
    OpBuilder::InsertionGuard guard(builder);
    if (group.looped()) {
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
    if (failed(insertSwaps(program)) || failed(expandCollectives(program)) ||
        failed(elideSwaps(program, plan, model.problem)) ||
        failed(hoistSwaps(program, plan)) ||
        failed(verifySwaps(program, plan, model.problem)) ||
        failed(scheduleQueues(program, plan)))
      return failure();
  return success();
}
