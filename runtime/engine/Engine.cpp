//===- Engine.cpp - Executes programs on a driver -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Engine.h"

#include "runtime/engine/Cursor.h"
#include "runtime/hal/Futex.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace harmony::runtime {

namespace {

constexpr size_t maximalOperands = 64;
const char *const opcodeNames[] = {"loop", "end",    "wait",   "copy",
                                   "fill", "launch", "release"};

/// One queue of one program: issues its commands to the driver's queue.
class QueueRunner {
public:
  QueueRunner(const Blob &blob, const HmQueue &queue,
              std::unique_ptr<Queue> target)
      : blob(blob), queue(queue), target(std::move(target)),
        cursor(blob.commands(queue)) {}

  void start(int64_t newStep, bool newDump) {
    step = newStep;
    dump = newDump;
    cursor.restart();
  }

  /// Runs to the end and returns true; with mayBlock false stops at a wait that
  /// is not satisfied yet and returns false. `progressed` is set when a command
  /// was executed.
  bool advance(const std::vector<QueueRunner> &queues, bool mayBlock,
               bool &progressed) {
    for (; !cursor.atEnd(); cursor.next()) {
      try {
        const HmCommand &c = cursor.command();
        if (c.op == HM_OP_WAIT) {
          const QueueRunner &other = queues[c.kernel];
          int64_t value =
              awaitedValue(c, other.queue.period, step, cursor.iteration());
          if (!mayBlock && other.target->timeline() < value)
            return false;
          target->wait(*other.target, value);
        } else {
          execute(c);
        }
        if (c.signal)
          target->signal();
      } catch (const Aborted &) {
        throw;
      } catch (const Error &error) {
        throw Error(error.exitCode(), describeCommand() + error.what());
      } catch (const std::exception &error) {
        throw Error(ExitCode::Internal, describeCommand() + error.what());
      } catch (...) {
        throw Error(ExitCode::Internal,
                    describeCommand() + "unknown exception");
      }
      progressed = true;
    }
    target->finish();
    int64_t expected = (step + 1) * queue.period;
    if (target->timeline() != expected)
      throw Error(ExitCode::Internal,
                  std::string("queue '") + blob.string(queue.name) +
                      "' is at " + std::to_string(target->timeline()) +
                      " after its commands, its period says " +
                      std::to_string(expected));
    return true;
  }

  Queue &driverQueue() { return *target; }

private:
  Range resolve(const HmRef &ref) const {
    return {static_cast<HmSpace>(ref.space), ref.device,
            offsetOf(ref, cursor.iteration()), ref.bytes};
  }

  void execute(const HmCommand &c) {
    Range ranges[maximalOperands];
    const HmRef *refs = blob.refs().data() + c.first;
    for (uint32_t i = 0; i < c.count; ++i) {
      if (refs[i].space == HM_SPACE_DUMP && !dump)
        return;
      ranges[i] = resolve(refs[i]);
    }
    switch (c.op) {
    case HM_OP_COPY:
      target->copy(ranges[0], ranges[1], static_cast<HmTraffic>(c.traffic));
      break;
    case HM_OP_FILL:
      target->fill(ranges[0], static_cast<uint8_t>(c.a));
      break;
    case HM_OP_LAUNCH:
      target->launch(c.kernel, ranges, c.count, c.a, c.b, blob.string(c.label));
      break;
    case HM_OP_RELEASE:
      target->release(ranges[0]);
      break;
    }
  }

  std::string describeCommand() const {
    const HmCommand &c = cursor.command();
    return std::string("queue '") + blob.string(queue.name) + "' command " +
           std::to_string(cursor.index()) + " (" + opcodeNames[c.op] + " '" +
           blob.string(c.label) + "'), iteration " +
           std::to_string(cursor.iteration()) + ": ";
  }

  const Blob &blob;
  const HmQueue &queue;
  std::unique_ptr<Queue> target;
  Cursor cursor;
  int64_t step = 0;
  bool dump = false;
};

} // namespace

class Engine::Implementation {
public:
  Implementation(const Blob &blob, Driver &driver, bool singleThread)
      : driver(driver), singleThread(singleThread) {
    size_t slots = 0;
    for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
      auto kind = static_cast<HmProgramKind>(p);
      if (!blob.has(kind))
        continue;
      for (const HmQueue &queue : blob.queues(kind))
        programs[p].emplace_back(
            blob, queue,
            driver.createQueue(static_cast<HmQueueKind>(queue.kind),
                               queue.device));
      slots = std::max(slots, programs[p].size());
    }
    finishedInTurn.reserve(slots);
    if (!singleThread)
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
    current = &queues;
    if (singleThread) {
      runInTurn(queues);
    } else if (!queues.empty()) {
      pending.store(threads.size(), std::memory_order_relaxed);
      generation.fetch_add(1, std::memory_order_release);
      begin.notify();
      end.await(
          [this] { return pending.load(std::memory_order_acquire) == 0; });
    }
    ++counts[kind];
    if (failure) {
      dead = true;
      std::rethrow_exception(failure);
    }
  }

  int64_t counts[HM_PROGRAM_COUNT] = {};

private:
  /// The thread of the queues number `slot`, one of each program.
  void serve(size_t slot) {
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
      bool progressed = false;
      queues[slot].advance(queues, true, progressed);
    } catch (...) {
      recordFailure();
    }
  }

  void runInTurn(std::vector<QueueRunner> &queues) {
    finishedInTurn.assign(queues.size(), false);
    bool &attached = attachedInTurn[&queues - programs];
    try {
      if (!attached)
        for (QueueRunner &queue : queues)
          queue.driverQueue().attachThread();
      attached = true;
      size_t left = queues.size();
      while (left) {
        bool progressed = false;
        for (size_t i = 0; i < queues.size(); ++i) {
          if (finishedInTurn[i] ||
              !queues[i].advance(queues, false, progressed))
            continue;
          finishedInTurn[i] = true;
          progressed = true;
          --left;
        }
        if (!progressed)
          throw Error(ExitCode::Internal, "every queue waits for another");
      }
    } catch (...) {
      recordFailure();
    }
  }

  /// Called inside a catch block.
  void recordFailure() {
    std::lock_guard<std::mutex> lock(failureMutex);
    if (!failure)
      failure = std::current_exception();
    driver.abort();
  }

  Driver &driver;
  const bool singleThread;
  std::vector<QueueRunner> programs[HM_PROGRAM_COUNT];
  std::vector<std::thread> threads;
  std::vector<bool> finishedInTurn;
  bool attachedInTurn[HM_PROGRAM_COUNT] = {};

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

Engine::Engine(const Blob &blob, Driver &driver, bool singleThread)
    : implementation(
          std::make_unique<Implementation>(blob, driver, singleThread)) {}

Engine::~Engine() = default;

void Engine::run(HmProgramKind kind, bool dump) {
  implementation->run(kind, dump);
}

int64_t Engine::executions(HmProgramKind kind) const {
  return implementation->counts[kind];
}

KernelTable kernelTable(const Blob &blob, const HmRangeFunction *functions,
                        size_t functionCount) {
  return {blob.kernels().data(), blob.kernels().size(), functions,
          functionCount,         blob.gemms().data(),   blob.gemms().size()};
}

} // namespace harmony::runtime
