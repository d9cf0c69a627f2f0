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
#include <exception>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace harmony::runtime {

class Engine::Implementation {
public:
  Implementation(const Blob &blob, Driver &driver, const EngineOptions &options)
      : blob(blob), driver(driver), options(options) {
    size_t slots = 0;
    for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
      auto kind = static_cast<HmProgramKind>(p);
      if (!blob.has(kind))
        continue;
      size_t count = blob.queues(kind).size();
      for (size_t q = 0; q < count; ++q) {
        const HmQueue &queue = blob.queues(kind)[q];
        programs[p].emplace_back(
            blob, kind, q,
            driver.createQueue(static_cast<HmQueueKind>(queue.kind),
                               queue.device),
            options.trace);
      }
      if (options.virtualTime)
        clocks[p] = std::make_unique<VirtualClock>(blob, kind);
      slots = std::max(slots, count);
    }
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
    begin.notify();
    for (std::thread &thread : threads)
      thread.join();
  }

  void run(HmProgramKind kind, bool dump) {
    if (dead)
      throw Error(ExitCode::Internal,
                  "a queue has failed before; nothing can be run");
    std::vector<QueueRunner> &queues = programs[kind];
    for (QueueRunner &queue : queues)
      queue.start(counts[kind], dump);
    if (options.trace)
      options.trace->begin(kind, counts[kind]);
    current = &queues;
    if (runsOnOneThread()) {
      runAlone(kind, queues);
    } else if (!queues.empty()) {
      pending.store(threads.size(), std::memory_order_relaxed);
      generation.fetch_add(1, std::memory_order_release);
      begin.notify();
      end.awaitChecking(
          [this] { return pending.load(std::memory_order_acquire) == 0; },
          [this] { requireThreads(); });
    }
    ++counts[kind];
    if (failure) {
      dead = true;
      std::rethrow_exception(failure);
    }
  }

  int64_t counts[HM_PROGRAM_COUNT] = {};
  double virtualSeconds = 0;

private:
  /// The thread of the queues number `slot`, one of each program.
  void serve(size_t slot) {
    threadIds[slot].store(gettid());
    uint64_t seen = 0;
    bool attached[HM_PROGRAM_COUNT] = {};
    for (;;) {
      begin.await([&] {
        return generation.load(std::memory_order_acquire) != seen ||
               stopping.load();
      });
      if (stopping.load())
        return;
      seen = generation.load(std::memory_order_acquire);
      if (slot < current->size())
        runSlot(*current, slot, attached[current - programs]);
      // Every thread answers, also one without a queue in this program, so that
      // none still looks at `current` when the next execution replaces it.
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1)
        end.notify();
    }
  }

  void runSlot(std::vector<QueueRunner> &queues, size_t slot, bool &attached) {
    try {
      if (!attached)
        queues[slot].driverQueue().attachThread();
      attached = true;
      while (!queues[slot].atEnd())
        queues[slot].executeNext(queues);
      queues[slot].finish();
    } catch (...) {
      recordFailure();
    }
  }

  bool runsOnOneThread() const {
    return options.singleThread || adversary || options.virtualTime;
  }

  void runAlone(HmProgramKind kind, std::vector<QueueRunner> &queues) {
    bool &attached = attachedAlone[kind];
    try {
      if (!attached)
        for (QueueRunner &queue : queues)
          queue.driverQueue().attachThread();
      attached = true;
      if (options.virtualTime)
        runOnClock(kind, queues);
      else if (adversary)
        runHostilely(queues);
      else
        runInTurn(queues);
      for (QueueRunner &queue : queues)
        queue.finish();
    } catch (...) {
      recordFailure();
    }
  }

  static void runInTurn(std::vector<QueueRunner> &queues) {
    for (bool left = true; left;) {
      left = false;
      bool progressed = false;
      for (QueueRunner &queue : queues) {
        for (; !queue.atEnd() && queue.ready(queues); progressed = true)
          queue.executeNext(queues);
        left |= !queue.atEnd();
      }
      requireProgress(progressed || !left);
    }
  }

  void runHostilely(std::vector<QueueRunner> &queues) {
    if (queues.empty())
      return;
    adversary->begin(queues.size());
    readyQueues.resize(queues.size());
    for (;;) {
      bool left = false, any = false;
      for (size_t q = 0; q < queues.size(); ++q) {
        left |= !queues[q].atEnd();
        readyQueues[q] = !queues[q].atEnd() && queues[q].ready(queues);
        any |= readyQueues[q] != 0;
      }
      if (!left)
        return;
      requireProgress(any);
      queues[adversary->pick(readyQueues)].executeNext(queues);
    }
  }

  void runOnClock(HmProgramKind kind, std::vector<QueueRunner> &queues) {
    VirtualClock &clock = *clocks[kind];
    double start = virtualNow;
    clock.start(start);
    for (VirtualClock::Completion c; clock.next(c);) {
      queues[c.queue].executeNext(queues);
      if (options.trace)
        options.trace->record(kind, c.queue, c.command, c.iteration, c.begin,
                              c.end);
    }
    virtualNow = clock.now();
    virtualSeconds = virtualNow - start;
  }

  static void requireProgress(bool progress) {
    if (!progress)
      throw Error(ExitCode::Internal, "every queue waits for another");
  }

  void requireThreads() const {
    for (size_t i = 0; i < threads.size(); ++i)
      if (pid_t id = threadIds[i].load(); id && !threadLives(id)) {
        CurrentCommand lost;
        lost.label = i < current->size() ? (*current)[i].name() : "idle queue";
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
    std::vector<QueueRunner> &queues = programs[HM_PROGRAM_STEP];
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
    std::lock_guard<std::mutex> lock(failureMutex);
    if (!failure)
      failure = std::current_exception();
    driver.abort();
  }

  const Blob &blob;
  Driver &driver;
  const EngineOptions options;
  std::vector<QueueRunner> programs[HM_PROGRAM_COUNT];
  std::vector<std::thread> threads;
  std::vector<std::atomic<pid_t>> threadIds; // 0: not started yet

  // One thread for all queues.
  bool attachedAlone[HM_PROGRAM_COUNT] = {};
  std::unique_ptr<Adversary> adversary;
  std::vector<char> readyQueues;
  std::unique_ptr<VirtualClock> clocks[HM_PROGRAM_COUNT];
  double virtualNow = 0;

  // The execution in progress; `current` is written before the generation.
  std::vector<QueueRunner> *current = nullptr;
  std::atomic<uint64_t> generation{0};
  std::atomic<size_t> pending{0};
  std::atomic<bool> stopping{false};
  Signal begin, end;

  std::mutex failureMutex;
  std::exception_ptr failure;
  bool dead = false;
};

Engine::Engine(const Blob &blob, Driver &driver, const EngineOptions &options)
    : implementation(std::make_unique<Implementation>(blob, driver, options)) {}

Engine::~Engine() = default;

void Engine::run(HmProgramKind kind, bool dump) {
  implementation->run(kind, dump);
}

int64_t Engine::executions(HmProgramKind kind) const {
  return implementation->counts[kind];
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
