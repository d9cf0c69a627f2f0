//===- Trace.cpp - What a run did when ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Trace.h"

#include "runtime/engine/Cursor.h"
#include "runtime/hal/AtomicFile.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

namespace harmony::runtime {

/// Real waits below this are what looking at a timeline costs.
static constexpr double shortestWait = 1e-6;

/// Releases take no time and are left out.
static int64_t recordsOf(Span<HmCommand> commands) {
  int64_t count = 0, iterations = 1;
  for (const HmCommand &c : commands) {
    if (c.op == HM_OP_LOOP)
      iterations = c.a;
    else if (c.op == HM_OP_END)
      iterations = 1;
    else if (c.op != HM_OP_RELEASE)
      count += iterations;
  }
  return count;
}

Trace::Trace(const Blob &blob, bool isVirtual)
    : blob(blob), virtualTimes(isVirtual) {
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
    auto kind = static_cast<HmProgramKind>(p);
    if (!blob.has(kind))
      continue;
    int64_t all = 0;
    for (const HmQueue &queue : blob.queues(kind))
      all += recordsOf(blob.commands(queue));
    int64_t kept = std::clamp(maximalRecords / std::max<int64_t>(1, all),
                              int64_t(1), maximalExecutions);
    for (const HmQueue &queue : blob.queues(kind)) {
      Track track;
      track.kept.resize(kept);
      for (Execution &execution : track.kept)
        execution.records.resize(recordsOf(blob.commands(queue)));
      tracks[p].push_back(std::move(track));
    }
  }
}

int64_t Trace::bytes() const {
  int64_t sum = 0;
  for (const std::vector<Track> &program : tracks)
    for (const Track &track : program)
      for (const Execution &execution : track.kept)
        sum += static_cast<int64_t>(execution.records.size() * sizeof(Record));
  return sum;
}

void Trace::begin(HmProgramKind kind, size_t queue, int64_t execution) {
  Track &track = tracks[kind][queue];
  track.slot = execution % track.kept.size();
  track.kept[track.slot].number = execution;
  track.kept[track.slot].used = 0;
}

void Trace::record(HmProgramKind kind, size_t queue, size_t command,
                   int64_t iteration, double begin, double end) {
  const HmCommand &c = blob.commands(blob.queues(kind)[queue])[command];
  // In virtual time a task's first launch has its whole cost.
  bool skipped = c.op == HM_OP_RELEASE || (virtualTimes && end <= begin) ||
                 (c.op == HM_OP_WAIT && end - begin < shortestWait);
  if (skipped)
    return;
  Track &track = tracks[kind][queue];
  Execution &execution = track.kept[track.slot];
  execution.records[execution.used++] = {begin, end, iteration,
                                         static_cast<uint32_t>(command)};
}

static std::string quoted(const char *text) {
  std::string out = "\"";
  for (; *text; ++text) {
    auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\')
      out += '\\';
    if (c < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += *text;
    }
  }
  return out + "\"";
}

static const char *categoryOf(const Blob &blob, const HmCommand &c) {
  static const char *const traffics[] = {"swap_in", "swap_out", "peer", "input",
                                         "output"};
  switch (c.op) {
  case HM_OP_WAIT:
    return "wait";
  case HM_OP_COPY:
    return traffics[c.traffic];
  case HM_OP_LAUNCH:
    return blob.kernels()[c.kernel].family == HM_FAMILY_UPDATE ? "update"
                                                               : "compute";
  default:
    return "compute";
  }
}

/// 1 to N: the devices; N + 1: the host. Viewers treat 0 as the idle process.
int Trace::processOf(const HmQueue &queue) const {
  return 1 + (queue.kind == HM_QUEUE_HOST
                  ? static_cast<int>(blob.devices().size())
                  : static_cast<int>(queue.device));
}

void Trace::writeTrack(std::string &out, HmProgramKind kind, size_t number,
                       int thread) const {
  const HmQueue &queue = blob.queues(kind)[number];
  Span<HmCommand> commands = blob.commands(queue);
  const Track &track = tracks[kind][number];
  std::vector<const Execution *> order;
  for (const Execution &execution : track.kept)
    if (execution.number >= 0)
      order.push_back(&execution);
  std::sort(order.begin(), order.end(),
            [](auto *a, auto *b) { return a->number < b->number; });
  for (const Execution *execution : order)
    for (size_t i = 0; i < execution->used; ++i) {
      const Record &r = execution->records[i];
      const HmCommand &c = commands[r.command];
      std::string name = c.op == HM_OP_WAIT
                             ? std::string("wait for ") +
                                   blob.string(blob.queues(kind)[c.kernel].name)
                             : std::string(blob.string(c.label));
      char text[256];
      std::snprintf(
          text, sizeof(text),
          ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, "
          "\"ts\": %.3f, \"dur\": %.3f, \"args\": {\"event\": %lld, "
          "\"iteration\": %lld, \"step\": %lld, \"bytes\": %lld}}",
          categoryOf(blob, c), processOf(queue), thread, r.begin * 1e6,
          (r.end - r.begin) * 1e6,
          static_cast<long long>(c.id == HM_NONE ? -1 : int64_t(c.id)),
          static_cast<long long>(r.iteration),
          static_cast<long long>(execution->number + 1),
          static_cast<long long>(c.op == HM_OP_COPY ? blob.refs()[c.first].bytes
                                                    : 0));
      out += ",\n{\"name\": " + quoted(name.c_str()) + text;
    }
}

void Trace::write(const std::string &path) const {
  std::string out =
      "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"virtual\": ";
  out += virtualTimes ? "true" : "false";
  out += "}, \"traceEvents\": [";
  auto metadata = [&](const char *kind, int process, int thread,
                      const std::string &name) {
    out += std::string(out.back() == '[' ? "\n" : ",\n") + "{\"name\": \"" +
           kind + "\", \"ph\": \"M\", \"pid\": " + std::to_string(process) +
           ", \"tid\": " + std::to_string(thread) +
           ", \"args\": {\"name\": " + quoted(name.c_str()) + "}}";
  };
  int devices = static_cast<int>(blob.devices().size());
  for (int i = 0; i <= devices; ++i)
    metadata("process_name", i + 1, 0,
             i == devices ? "host" : "device " + std::to_string(i));
  // Queues of one name are one thread, whichever program they belong to; the
  // step's come first.
  std::map<std::pair<int, std::string>, int> threads;
  std::map<int, int> threadCounts; // by process
  for (HmProgramKind kind : {HM_PROGRAM_STEP, HM_PROGRAM_EVALUATE,
                             HM_PROGRAM_LOAD, HM_PROGRAM_STORE})
    for (size_t q = 0; q < tracks[kind].size(); ++q) {
      const HmQueue &queue = blob.queues(kind)[q];
      int process = processOf(queue);
      std::string name = blob.string(queue.name);
      auto [entry, isNew] = threads.insert({{process, name}, 0});
      if (isNew) {
        entry->second = ++threadCounts[process];
        metadata("thread_name", process, entry->second, name);
      }
    }
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
    for (size_t q = 0; q < tracks[p].size(); ++q) {
      auto kind = static_cast<HmProgramKind>(p);
      const HmQueue &queue = blob.queues(kind)[q];
      writeTrack(out, kind, q,
                 threads[{processOf(queue), blob.string(queue.name)}]);
    }
  out += "\n]}\n";
  writeAtomically(path, out);
}

} // namespace harmony::runtime
