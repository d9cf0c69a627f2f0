//===- Profile.cpp - What tasks and transfers cost ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Profile.h"

#include "runtime/hal/AtomicFile.h"
#include "runtime/hal/Driver.h"
#include "runtime/hal/Error.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace harmony::runtime {

Profile::Profile(const Blob &blob) : blob(blob) {
  for (HmProgramKind kind : {HM_PROGRAM_STEP, HM_PROGRAM_EVALUATE}) {
    if (!blob.has(kind))
      continue;
    for (const HmQueue &queue : blob.queues(kind)) {
      Track track;
      std::map<uint32_t, int> byTask;
      std::map<std::pair<int, int>, int> byLink;
      auto item = [&](auto &index, auto key, uint32_t task, Track::Ends ends) {
        auto [entry, inserted] = index.insert({key, track.items.size()});
        if (inserted) {
          track.items.emplace_back();
          track.items.back().samples.resize(maximalSamples);
          track.tasks.push_back(task);
          track.links.push_back(ends);
        }
        return entry->second;
      };
      int64_t trips = 1;
      for (const HmCommand &c : blob.commands(queue)) {
        int measured = -1;
        if (c.op == HM_OP_LOOP)
          trips = c.a;
        if (c.op == HM_OP_END)
          trips = 1;
        if ((c.op == HM_OP_LAUNCH || c.op == HM_OP_FILL) && c.task)
          measured = item(byTask, c.task, c.task, {});
        if (c.op == HM_OP_COPY) {
          const HmRef *refs = blob.refs().data() + c.first;
          int to = endpointOf(refs[0].space, refs[0].device),
              from = endpointOf(refs[1].space, refs[1].device);
          // The rest is no link's: copies to be dumped, within one memory.
          // Evaluations copy the same way, in other sizes.
          if (from != to && refs[0].space != HM_SPACE_DUMP &&
              kind == HM_PROGRAM_STEP) {
            measured = item(byLink, std::make_pair(from, to), 0u, {from, to});
            track.items[measured].copyBytes += refs[0].bytes * trips;
            track.items[measured].copies += trips;
          }
        }
        track.itemOf.push_back(measured);
      }
      tracks[kind].push_back(std::move(track));
    }
  }
}

void Profile::close(Track &track) const {
  for (Item &item : track.items) {
    if (track.execution > 0 && item.count)
      item.samples[item.used++ % maximalSamples] =
          static_cast<float>(item.seconds / static_cast<double>(item.count));
    item.seconds = 0;
    item.count = 0;
  }
}

void Profile::begin(HmProgramKind kind, size_t queue, int64_t execution) {
  if (tracks[kind].empty())
    return;
  Track &track = tracks[kind][queue];
  close(track);
  track.execution = execution;
}

void Profile::record(HmProgramKind kind, size_t queue, size_t command,
                     double begin, double end) {
  if (tracks[kind].empty())
    return;
  Track &track = tracks[kind][queue];
  int index = track.itemOf[command];
  if (index < 0)
    return;
  const HmCommand &c = blob.commands(blob.queues(kind)[queue])[command];
  Item &item = track.items[index];
  // What the engine does between the commands of a task is a part of it.
  bool continues = c.task && !c.begins;
  item.seconds += end - (continues ? track.last : begin);
  item.count += !continues;
  track.last = end;
}

static double median(std::vector<float> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

static std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void Profile::write(const std::string &path, const ProfileOrigin &origin) {
  static const char *const kindNames[] = {
      "forward",      "recompute", "backward", "prologue",
      "contribution", "epilogue",  "update"};
  struct Sum {
    std::vector<float> samples;
    int64_t bytes = 0, copies = 0;
  };
  // Tasks by key and place: queues that run the same one are taken together.
  std::map<std::pair<uint32_t, bool>, Sum> tasks;
  std::map<std::pair<int, int>, Sum> links;
  for (HmProgramKind kind : {HM_PROGRAM_STEP, HM_PROGRAM_EVALUATE})
    for (size_t q = 0; q < tracks[kind].size(); ++q) {
      Track &track = tracks[kind][q];
      close(track);
      bool onHost = blob.queues(kind)[q].kind == HM_QUEUE_HOST;
      for (size_t i = 0; i < track.items.size(); ++i) {
        const Item &item = track.items[i];
        size_t taken = std::min(item.used, maximalSamples);
        if (!taken)
          continue;
        Sum &sum = track.tasks[i]
                       ? tasks[{track.tasks[i], onHost}]
                       : links[{track.links[i].from, track.links[i].to}];
        sum.samples.insert(sum.samples.end(), item.samples.begin(),
                           item.samples.begin() + static_cast<long>(taken));
        sum.bytes += item.copyBytes;
        sum.copies += item.copies;
      }
    }
  if (tasks.empty())
    throw Error(ExitCode::Failure,
                path + ": nothing was measured: the first step does not count, "
                       "at least two are needed");
  const HmHeader &h = blob.header();
  std::string out = "{\n \"schema\": \"harmony.measurements\", \"version\": 1,";
  out += "\n \"model\": " + quoted(blob.string(h.model)) +
         ", \"compiler\": " + quoted(blob.string(h.compiler)) +
         ", \"numerics_key\": " + quoted(blob.string(h.numericsKey)) +
         ",\n \"device\": " + quoted(origin.device) +
         ", \"library\": " + quoted(origin.library) + ", \"isa\": \"" +
         (h.isa == HM_ISA_AVX512 ? "avx512" : "avx2") +
         "\", \"threads\": " + std::to_string(origin.threads) +
         ", \"devices\": " + std::to_string(blob.devices().size()) +
         ", \"enforced_links\": " + (origin.enforcedLinks ? "true" : "false") +
         ",\n \"tasks\": [";
  char text[128];
  const char *separator = "\n  ";
  for (auto &[where, sum] : tasks) {
    const HmTask &task = blob.tasks()[where.first - 1];
    std::snprintf(text, sizeof(text), ", \"samples\": %zu, \"seconds\": %.9g}",
                  sum.samples.size(), median(sum.samples));
    out += separator + std::string("{\"key\": ") +
           quoted(blob.string(task.key)) +
           ", \"name\": " + quoted(blob.string(task.name)) + ", \"kind\": \"" +
           kindNames[task.kind] + "\", \"place\": \"" +
           (where.second ? "host" : "device") +
           "\", \"bytes\": " + std::to_string(task.bytes) + text;
    separator = ",\n  ";
  }
  out += "],\n \"transfers\": [";
  separator = "\n  ";
  for (auto &[ends, sum] : links) {
    std::snprintf(text, sizeof(text),
                  ", \"copies\": %lld, \"bytes\": %lld, \"seconds\": %.9g}",
                  static_cast<long long>(sum.copies),
                  static_cast<long long>(sum.bytes), median(sum.samples));
    out += separator + std::string("{\"from\": ") + std::to_string(ends.first) +
           ", \"to\": " + std::to_string(ends.second) + text;
    separator = ",\n  ";
  }
  out += "]\n}\n";
  writeAtomically(path, out);
}

} // namespace harmony::runtime
