//===- Engine.cpp - Executes programs on a driver -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Engine.h"

#include "runtime/engine/Adversary.h"
#include "runtime/engine/NegativeControl.h"
#include "runtime/engine/QueueRunner.h"
#include "runtime/engine/VirtualClock.h"
#include "runtime/hal/Futex.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

namespace harmony::runtime {

/// One program's queues and the executions of it.
struct Engine::Program {
  std::vector<QueueRunner> queues;
  std::unique_ptr<VirtualClock> clock;
  unsigned inFlight = 1;

  /// Written before `begun` says so; of execution n at n mod inFlight.
  std::array<bool, Driver::maximalCopies> dumps{};
  std::atomic<int64_t> begun{0};
  int64_t finished = 0;
  /// Queues that are not done, by execution mod inFlight.
  std::array<std::atomic<size_t>, Driver::maximalCopies> pending{};
  bool attached = false; // where one thread runs all queues

  /// By execution mod inFlight and queue: what the queue had done at its end.
  std::array<std::vector<Evidence>, Driver::maximalCopies> atEnd;
  std::vector<Evidence> before; // by queue: at the end of the one before
  Evidence last;

  std::vector<int64_t> homes; // of results, ascending
  int64_t resultsBase = 0;    // in the results space
  double lastEnd = 0;         // on the virtual clock

  size_t slotOf(int64_t execution) const { return execution % inFlight; }
  int64_t resultBytes() const {
    return static_cast<int64_t>(homes.size() * sizeof(float));
  }
  bool isOver(int64_t execution) const {
    return pending[slotOf(execution)].load(std::memory_order_acquire) == 0;
  }
  /// A queue that is at the end of one execution may enter the next.
  bool hasNext(const QueueRunner &queue) const {
    return queue.started() < begun.load(std::memory_order_acquire);
  }
  void enter(QueueRunner &queue) const {
    int64_t execution = queue.started();
    size_t slot = slotOf(execution);
    queue.start(execution, dumps[slot], static_cast<unsigned>(slot),
                resultsBase + static_cast<int64_t>(slot) * resultBytes());
  }
  /// The queue is done with the execution it is in. True for the last queue.
  bool leave(size_t number) {
    QueueRunner &queue = queues[number];
    queue.finish();
    size_t slot = slotOf(queue.started() - 1);
    atEnd[slot][number] = queue.driverQueue().evidence();
    return pending[slot].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void gatherEvidence(size_t slot);
};

static void addDifference(Times &sum, const Times &now, const Times &before) {
  for (int i = 0; i < HM_FAMILY_COUNT; ++i)
    sum.kernels[i] += now.kernels[i] - before.kernels[i];
  sum.copies += now.copies - before.copies;
  sum.waits += now.waits - before.waits;
}

void Engine::Program::gatherEvidence(size_t slot) {
  last.traffic = {};
  last.times = {};
  for (size_t q = 0; q < queues.size(); ++q) {
    const Evidence &now = atEnd[slot][q];
    for (int i = 0; i < HM_TRAFFIC_COUNT; ++i)
      last.traffic[i] += now.traffic[i] - before[q].traffic[i];
    addDifference(last.times, now.times, before[q].times);
    for (size_t d = 0; d < now.peak.size(); ++d)
      last.peak[d] = std::max(last.peak[d], now.peak[d]);
    before[q] = now;
  }
}

class Engine::Implementation {
public:
  Implementation(const Blob &blob, Driver &driver, const EngineOptions &options)
      : blob(blob), driver(driver), options(options) {
    size_t slots = 0;
    for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
      auto kind = static_cast<HmProgramKind>(p);
      if (blob.has(kind))
        makeProgram(kind);
      slots = std::max(slots, programs[p].queues.size());
    }
    driver.setHostMemory(HM_SPACE_RESULTS, results.data(),
                         static_cast<int64_t>(results.size() * sizeof(float)));
    if (options.adversarialSeed)
      adversary = std::make_unique<Adversary>(*options.adversarialSeed);
    applyNegativeControls();
    readyQueues.reserve(slots);
    threadIds = std::vector<std::atomic<pid_t>>(slots);
    if (!runsOnOneThread())
      for (size_t i = 0; i < slots; ++i)
        threads.emplace_back([this, i] { serve(i); });
  }

  ~Implementation() {
    stopping.store(true);
    if (std::any_of(std::begin(programs), std::end(programs),
                    [](const Program &p) { return p.begun > p.finished; }))
      driver.abort();
    beginning.notify();
    for (std::thread &thread : threads)
      thread.join();
  }

  void begin(HmProgramKind kind, bool dump) {
    requireAlive();
    Program &program = programs[kind];
    int64_t execution = program.begun.load(std::memory_order_relaxed);
    current = kind;
    if (execution == program.finished) { // nothing is under way
      program.lastEnd = virtualNow;
      if (adversary && !program.queues.empty())
        adversary->begin(program.queues.size());
    }
    size_t slot = program.slotOf(execution);
    program.dumps[slot] = dump;
    program.pending[slot].store(program.queues.size(),
                                std::memory_order_relaxed);
    program.begun.store(execution + 1, std::memory_order_release);
    if (runsOnOneThread()) {
      if (program.clock)
        program.clock->begin(virtualNow);
    } else {
      beginning.notify();
    }
  }

  void finish(HmProgramKind kind) {
    requireAlive();
    Program &program = programs[kind];
    int64_t execution = program.finished;
    if (runsOnOneThread())
      runAlone(kind, execution);
    else
      ending.awaitChecking(
          [&] {
            return program.isOver(execution) ||
                   failed.load(std::memory_order_acquire);
          },
          [this] { requireThreads(); });
    if (failed.load()) {
      dead = true;
      ending.awaitChecking([this] { return busy.load() == 0; },
                           [this] { requireThreads(); });
      std::rethrow_exception(failure);
    }
    program.gatherEvidence(program.slotOf(execution));
    virtualSeconds = virtualNow - program.lastEnd;
    program.lastEnd = virtualNow;
    ++program.finished;
  }

  std::optional<float> result(HmProgramKind kind, int64_t home) const {
    const Program &program = programs[kind];
    auto at =
        std::lower_bound(program.homes.begin(), program.homes.end(), home);
    if (program.finished == 0 || at == program.homes.end() || *at != home)
      return std::nullopt;
    size_t slot = program.slotOf(program.finished - 1);
    return results[program.resultsBase / sizeof(float) +
                   slot * program.homes.size() + (at - program.homes.begin())];
  }

  Program programs[HM_PROGRAM_COUNT];
  double virtualSeconds = 0;

private:
  void makeProgram(HmProgramKind kind) {
    Program &program = programs[kind];
    Span<HmQueue> queues = blob.queues(kind);
    program.queues.reserve(queues.size());
    for (size_t q = 0; q < queues.size(); ++q)
      program.queues.emplace_back(
          blob, kind, q,
          driver.createQueue(static_cast<HmQueueKind>(queues[q].kind),
                             queues[q].device),
          options.trace);
    if (kind == HM_PROGRAM_STEP)
      program.inFlight =
          std::clamp(options.inFlight, 1u, Driver::maximalCopies);
    for (QueueRunner &queue : program.queues)
      queue.measure(options.profile);
    if (options.virtualTime)
      program.clock = std::make_unique<VirtualClock>(blob, kind);
    for (const QueueRunner &queue : program.queues)
      program.before.push_back(queue.driverQueue().evidence());
    program.atEnd.fill(program.before);
    program.last.peak.resize(blob.devices().size());
    keepResults(kind);
  }

  void keepResults(HmProgramKind kind) {
    Program &program = programs[kind];
    std::set<int64_t> homes;
    for (const HmLossTerm &term : blob.lossTerms())
      if (term.program == static_cast<uint32_t>(kind))
        homes.insert({term.numerator, term.denominator});
    program.resultsBase = static_cast<int64_t>(results.size() * sizeof(float));
    for (int64_t home : homes) {
      KeptResult result{home, program.resultBytes()};
      bool isWritten = false;
      for (QueueRunner &queue : program.queues)
        isWritten |= queue.keep(result);
      if (isWritten)
        program.homes.push_back(home);
    }
    results.resize(results.size() + program.inFlight * program.homes.size());
  }

  /// The thread of the queues number `slot`, one of each program.
  void serve(size_t slot) {
    threadIds[slot].store(gettid());
    bool attached[HM_PROGRAM_COUNT] = {};
    for (;;) {
      int next = -1;
      beginning.await([&] {
        next = nextProgram(slot);
        return next >= 0 || stopping.load();
      });
      if (stopping.load() || next < 0)
        return;
      runQueue(programs[next], slot, attached[next]);
    }
  }

  /// The program that has begun an execution which its queue number `slot` is
  /// to enter; -1: none, or a queue has failed.
  int nextProgram(size_t slot) const {
    if (failed.load(std::memory_order_acquire))
      return -1;
    for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
      if (slot < programs[p].queues.size() &&
          programs[p].hasNext(programs[p].queues[slot]))
        return p;
    return -1;
  }

  void runQueue(Program &program, size_t slot, bool &attached) {
    ++busy;
    if (!failed.load())
      runExecution(program, slot, attached);
    // After a failure somebody may wait for this.
    if (--busy == 0 && failed.load())
      ending.notify();
  }

  void runExecution(Program &program, size_t slot, bool &attached) {
    try {
      QueueRunner &queue = program.queues[slot];
      if (!attached)
        queue.driverQueue().attachThread();
      attached = true;
      program.enter(queue);
      while (!queue.atEnd())
        queue.executeNext(program.queues);
      if (program.leave(slot))
        ending.notify();
    } catch (...) {
      recordFailure();
    }
  }

  bool runsOnOneThread() const {
    return options.singleThread || adversary || options.virtualTime;
  }

  /// Until the execution is over; others that have begun go on beside it.
  void runAlone(HmProgramKind kind, int64_t execution) {
    Program &program = programs[kind];
    try {
      if (!program.attached)
        for (QueueRunner &queue : program.queues)
          queue.driverQueue().attachThread();
      program.attached = true;
      while (!program.isOver(execution)) {
        for (QueueRunner &queue : program.queues)
          enterNext(program, queue);
        if (program.isOver(execution))
          break;
        bool progress = options.virtualTime ? stepOnClock(kind)
                        : adversary         ? stepHostilely(program)
                                            : stepInTurn(program);
        if (!progress)
          throw Error(ExitCode::Internal, "every queue waits for another");
      }
    } catch (...) {
      recordFailure();
    }
  }

  /// Leaves the queue before a command, unless nothing more has begun.
  void enterNext(Program &program, QueueRunner &queue) {
    while (queue.atEnd() && program.hasNext(queue)) {
      program.enter(queue);
      if (queue.atEnd()) // has no command
        program.leave(&queue - program.queues.data());
    }
  }

  void execute(Program &program, size_t number) {
    QueueRunner &queue = program.queues[number];
    queue.executeNext(program.queues);
    if (queue.atEnd())
      program.leave(number);
  }

  // Each executes at least one command, or returns false where none is ready.

  bool stepInTurn(Program &program) {
    bool progress = false;
    for (size_t q = 0; q < program.queues.size(); ++q) {
      QueueRunner &queue = program.queues[q];
      for (; !queue.atEnd() && queue.ready(program.queues); progress = true)
        execute(program, q);
    }
    return progress;
  }

  bool stepHostilely(Program &program) {
    bool any = false;
    readyQueues.resize(program.queues.size());
    for (size_t q = 0; q < program.queues.size(); ++q) {
      const QueueRunner &queue = program.queues[q];
      readyQueues[q] = !queue.atEnd() && queue.ready(program.queues);
      any |= readyQueues[q] != 0;
    }
    if (any)
      execute(program, adversary->pick(readyQueues));
    return any;
  }

  bool stepOnClock(HmProgramKind kind) {
    Program &program = programs[kind];
    VirtualClock::Completion c;
    if (!program.clock->next(c))
      return false;
    if (options.trace)
      options.trace->record(kind, c.queue, c.command, c.iteration, c.begin,
                            c.end);
    virtualNow = program.clock->now();
    execute(program, c.queue);
    return true;
  }

  void requireAlive() const {
    if (dead)
      throw Error(ExitCode::Internal,
                  "a queue has failed before; nothing can be run");
  }

  void requireThreads() const {
    for (size_t i = 0; i < threads.size(); ++i)
      if (pid_t id = threadIds[i].load(); id && !threadLives(id)) {
        const std::vector<QueueRunner> &queues = programs[current].queues;
        CurrentCommand lost;
        lost.label = i < queues.size() ? queues[i].name() : "idle queue";
        endProcess("the thread of a queue has ended", &lost);
      }
  }

  void applyNegativeControls() {
    auto place = [&](HmOpcode opcode, int64_t number, const char *what) {
      std::vector<CommandPlace> all = findCommands(blob, opcode);
      if (number < 0 || number >= static_cast<int64_t>(all.size()))
        throw Error(ExitCode::Usage,
                    std::string(what) + " " + std::to_string(number) +
                        " does not exist, the step program has " +
                        std::to_string(all.size()));
      return all[number];
    };
    std::vector<QueueRunner> &queues = programs[HM_PROGRAM_STEP].queues;
    if (options.dropWait) {
      CommandPlace wait = place(HM_OP_WAIT, *options.dropWait, "wait");
      queues[wait.queue].dropWait(wait.command);
    }
    if (options.earlyRelease) {
      CommandPlace release =
          place(HM_OP_RELEASE, *options.earlyRelease, "release");
      std::optional<EarlyRelease> reader = findLastReader(blob, release);
      if (!reader)
        throw Error(ExitCode::Usage,
                    "release " + std::to_string(*options.earlyRelease) +
                        " comes after no command of its queue that reads what "
                        "it releases");
      queues[release.queue].releaseEarly(*reader);
    }
  }

  /// Called inside a catch block.
  void recordFailure() {
    {
      std::lock_guard<std::mutex> lock(failureMutex);
      if (!failure)
        failure = std::current_exception();
    }
    failed.store(true);
    driver.abort();
    ending.notify();
  }

  const Blob &blob;
  Driver &driver;
  const EngineOptions options;
  std::vector<float> results;
  std::vector<std::thread> threads;
  std::vector<std::atomic<pid_t>> threadIds; // 0: not started yet

  // One thread for all queues.
  std::unique_ptr<Adversary> adversary;
  std::vector<char> readyQueues;
  double virtualNow = 0;

  HmProgramKind current = HM_PROGRAM_STEP; // begun last
  std::atomic<bool> stopping{false};
  Signal beginning, ending;

  std::mutex failureMutex;
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  std::atomic<size_t> busy{0}; // threads in an execution
  bool dead = false;
};

Engine::Engine(const Blob &blob, Driver &driver, const EngineOptions &options)
    : implementation(std::make_unique<Implementation>(blob, driver, options)) {}

Engine::~Engine() = default;

void Engine::begin(HmProgramKind kind, bool dump) {
  implementation->begin(kind, dump);
}

void Engine::finish(HmProgramKind kind) { implementation->finish(kind); }

int64_t Engine::executions(HmProgramKind kind) const {
  return implementation->programs[kind].finished;
}

unsigned Engine::underWay(HmProgramKind kind) const {
  const Program &program = implementation->programs[kind];
  return static_cast<unsigned>(program.begun.load() - program.finished);
}

const Evidence &Engine::evidence(HmProgramKind kind) const {
  return implementation->programs[kind].last;
}

std::optional<float> Engine::result(HmProgramKind kind, int64_t home) const {
  return implementation->result(kind, home);
}

double Engine::virtualSeconds() const { return implementation->virtualSeconds; }

KernelTable kernelTable(const Blob &blob, const HmRangeFunction *functions,
                        size_t functionCount) {
  return {blob.kernels().data(),
          blob.kernels().size(),
          functions,
          functionCount,
          blob.gemms().data(),
          blob.gemms().size(),
          blob.convolutions().data(),
          blob.convolutions().size()};
}

} // namespace harmony::runtime
