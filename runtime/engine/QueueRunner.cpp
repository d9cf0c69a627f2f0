//===- QueueRunner.cpp - One queue of a program ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/QueueRunner.h"

#include <cxxabi.h>
#include <exception>
#include <utility>

namespace harmony::runtime {

static constexpr size_t maximalOperands = 64;
static const char *const opcodeNames[] = {"loop", "end",    "wait",   "copy",
                                          "fill", "launch", "release"};

static std::string text(const CurrentCommand &c) {
  return (c.device == HM_NONE ? std::string("the host")
                              : "device " + std::to_string(c.device)) +
         ", queue '" + c.queue + "' command " + std::to_string(c.index) + " (" +
         c.opcode + " '" + c.label + "'), iteration " +
         std::to_string(c.iteration) + ": ";
}

QueueRunner::QueueRunner(const Blob &blob, HmProgramKind kind, size_t number,
                         std::unique_ptr<Queue> target, Trace *trace)
    : blob(blob), kind(kind), number(number), queue(blob.queues(kind)[number]),
      target(std::move(target)), trace(trace), cursor(blob.commands(queue)) {}

/// Whether the command writes the float of the host store in an iteration.
static bool writes(const Blob &blob, const HmCommand &c, int64_t home,
                   int64_t iteration) {
  if (c.op != HM_OP_COPY && c.op != HM_OP_FILL && c.op != HM_OP_LAUNCH)
    return false;
  uint32_t operands = c.op == HM_OP_LAUNCH ? c.count : 1;
  for (uint32_t r = 0; r < operands; ++r) {
    const HmRef &ref = blob.refs()[c.first + r];
    int64_t begin = offsetOf(ref, iteration);
    if (ref.space == HM_SPACE_HOST && writesOperand(c, r, ref) &&
        begin < home + static_cast<int64_t>(sizeof(float)) &&
        home < begin + ref.bytes)
      return true;
  }
  return false;
}

bool QueueRunner::keep(const KeptResult &result) {
  bool any = false;
  for (Cursor c(blob.commands(queue)); !c.atEnd(); c.next())
    if (writes(blob, c.command(), result.home, c.iteration())) {
      any = true;
      if (results.empty() || results.back().first != c.index() ||
          results.back().second.home != result.home)
        results.push_back({c.index(), result});
    }
  return any;
}

void QueueRunner::keepResults() {
  constexpr int64_t bytes = sizeof(float);
  for (const auto &[command, result] : results)
    if (command == cursor.index() &&
        writes(blob, cursor.command(), result.home, cursor.iteration()))
      target->copy({HM_SPACE_RESULTS, 0, resultsBase + result.kept, bytes},
                   {HM_SPACE_HOST, 0, result.home, bytes}, HM_TRAFFIC_OUTPUT);
}

void QueueRunner::start(int64_t newStep, bool newDump, unsigned newCopy,
                        int64_t newResultsBase) {
  step = newStep;
  dump = newDump;
  copy = newCopy;
  resultsBase = newResultsBase;
  cursor.restart();
  if (trace)
    trace->begin(kind, number, step);
  if (profile)
    profile->begin(kind, number, step);
}

int64_t QueueRunner::awaited(const std::vector<QueueRunner> &queues) const {
  const HmCommand &c = cursor.command();
  return awaitedValue(c, queues[c.kernel].queue.period, step,
                      cursor.iteration());
}

bool QueueRunner::ready(const std::vector<QueueRunner> &queues) const {
  const HmCommand &c = cursor.command();
  return c.op != HM_OP_WAIT || cursor.index() == droppedWait ||
         queues[c.kernel].target->timeline() >= awaited(queues);
}

void QueueRunner::executeNext(const std::vector<QueueRunner> &queues) {
  CurrentCommand here = describe();
  CommandScope scope(&here);
  try {
    const HmCommand &c = cursor.command();
    double begin = trace ? trace->now() : 0;
    double measuredFrom = profile ? Profile::now() : 0;
    bool isExecuted = true;
    if (c.op == HM_OP_WAIT) {
      if (cursor.index() != droppedWait)
        target->wait(*queues[c.kernel].target, awaited(queues));
    } else {
      isExecuted = execute(c);
    }
    if (trace && !trace->isVirtual() && isExecuted)
      trace->record(kind, number, cursor.index(), cursor.iteration(), begin,
                    trace->now());
    if (profile && isExecuted)
      profile->record(kind, number, cursor.index(), measuredFrom,
                      Profile::now());
    if (!results.empty() && isExecuted)
      keepResults();
    if (c.signal)
      target->signal();
  } catch (abi::__forced_unwind &) {
    endProcess("a thread was ended", &here);
  } catch (const Aborted &) {
    throw;
  } catch (const Error &error) {
    throw Error(error.exitCode(), text(here) + error.what());
  } catch (const std::exception &error) {
    throw Error(ExitCode::Internal, text(here) + error.what());
  } catch (...) {
    throw Error(ExitCode::Internal, text(here) + "unknown exception");
  }
  cursor.next();
}

void QueueRunner::finish() {
  target->finish();
  int64_t expected = (step + 1) * queue.period;
  if (target->timeline() != expected)
    throw Error(ExitCode::Internal,
                std::string("queue '") + name() + "' is at " +
                    std::to_string(target->timeline()) +
                    " after its commands, its period says " +
                    std::to_string(expected));
}

Range QueueRunner::resolve(const HmRef &ref, int64_t iteration) const {
  bool copies = ref.space == HM_SPACE_BATCH || ref.space == HM_SPACE_SCALARS;
  return {static_cast<HmSpace>(ref.space), ref.device, offsetOf(ref, iteration),
          ref.bytes, copies ? copy : 0, ref.access};
}

bool QueueRunner::execute(const HmCommand &c) {
  Range ranges[maximalOperands];
  const HmRef *refs = blob.refs().data() + c.first;
  for (uint32_t i = 0; i < c.count; ++i) {
    if (refs[i].space == HM_SPACE_DUMP && !dump)
      return false;
    ranges[i] = resolve(refs[i], cursor.iteration());
  }
  if (cursor.index() == early.reader)
    poisonEarly();
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
  return true;
}

/// A release in the reader's loop belongs to the same iteration; one behind the
/// loop comes before the last.
void QueueRunner::poisonEarly() {
  Span<HmCommand> commands = blob.commands(queue);
  bool loopEnds = false;
  for (size_t i = early.reader; i < early.release; ++i)
    loopEnds |= commands[i].op == HM_OP_END;
  if (loopEnds && cursor.iteration() + 1 < cursor.iterationCount())
    return;
  target->release(resolve(blob.refs()[commands[early.release].first],
                          loopEnds ? 0 : cursor.iteration()));
}

CurrentCommand QueueRunner::describe() const {
  const HmCommand &c = cursor.command();
  return {name(),
          device(),
          cursor.index(),
          cursor.iteration(),
          opcodeNames[c.op],
          blob.string(c.label)};
}

} // namespace harmony::runtime
