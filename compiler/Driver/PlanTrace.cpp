//===- PlanTrace.cpp - A plan's simulated timeline as a trace -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/PlanTrace.h"

#include "compiler/Driver/OutputFiles.h"
#include "compiler/Planner/Build.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace harmony;
using nlohmann::json;

namespace {

/// The category of an event, as the runtime names it.
const char *category(const planner::Event &event,
                     const planner::Problem &problem) {
  using planner::Traffic;
  if (event.kind == planner::EventKind::Update)
    return "update";
  if (!planner::isTransfer(event.kind))
    return "compute";
  switch (planner::trafficOf(event, problem)) {
  case Traffic::SwapIn:
    return "swap_in";
  case Traffic::SwapOut:
    return "swap_out";
  case Traffic::Peer:
    return "peer";
  case Traffic::Input:
    return "input";
  case Traffic::Output:
    return "output";
  }
  return "compute";
}

/// As the schedule names its queues.
std::string queueName(const planner::Queue &queue) {
  if (queue.device < 0)
    return "host";
  std::string text =
      "d" + std::to_string(queue.device) + "." + planner::name(queue.kind);
  return queue.lane > 0 ? text + ".lane" + std::to_string(queue.lane) : text;
}

json metadata(const char *name, int process, int thread,
              const std::string &value) {
  return {{"ph", "M"},
          {"name", name},
          {"pid", process},
          {"tid", thread},
          {"args", {{"name", value}}}};
}

} // namespace

std::string harmony::writeTrace(const std::string &path,
                                const planner::Plan &plan,
                                const planner::Problem &problem,
                                const planner::Machine &machine) {
  // As in the executable's traces: processes 1 to N are the devices, N + 1 is
  // the host, and a process numbers its queues from 1.
  int devices = static_cast<int>(machine.devices.size());
  json events = json::array();
  for (int d = 0; d <= devices; ++d)
    events.push_back(
        metadata("process_name", d + 1, 0,
                 d == devices ? "host" : "device " + std::to_string(d)));
  struct Track {
    int process, thread;
  };
  std::vector<Track> tracks;
  std::vector<int> threads(devices + 1, 0);
  for (const planner::Queue &queue : plan.queues) {
    int place = queue.device < 0 ? devices : queue.device;
    tracks.push_back({place + 1, ++threads[place]});
    events.push_back(metadata("thread_name", tracks.back().process,
                              tracks.back().thread, queueName(queue)));
  }
  std::vector<planner::Interval> intervals =
      planner::timeline(plan, problem, machine);
  // What overlaps the execution before would begin below zero.
  double origin = 0;
  for (const planner::Interval &interval : intervals)
    origin = std::min(origin, interval.begin);
  for (const planner::Interval &interval : intervals) {
    const planner::Event &event = plan.events[interval.event];
    events.push_back(
        {{"ph", "X"},
         {"name", planner::describe(plan, problem, interval.event)},
         {"cat", category(event, problem)},
         {"ts", (interval.begin - origin) * 1e6},
         {"dur", (interval.end - interval.begin) * 1e6},
         {"pid", tracks[event.queue].process},
         {"tid", tracks[event.queue].thread},
         {"args",
          {{"event", interval.event},
           {"iteration", interval.iteration},
           {"step", 1},
           {"bytes", event.bytes}}}});
  }
  json trace = {{"displayTimeUnit", "ms"},
                {"otherData", {{"virtual", true}}},
                {"traceEvents", std::move(events)}};
  return writeTextFile(path, trace.dump() + '\n');
}
