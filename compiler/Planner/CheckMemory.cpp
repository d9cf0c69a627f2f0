//===- CheckMemory.cpp - Addresses of a plan ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replay.h"

#include <algorithm>
#include <map>

namespace harmony::planner {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

/// What a buffer's slots have at the least: values and blocks of a microbatch
/// are compared with their size where a phase uses them.
int64_t bytesOf(const Buffer &buffer, const Problem &problem) {
  switch (buffer.content) {
  case Content::Tensor:
    return problem.tensors[buffer.object].bytes;
  case Content::State:
    return problem.tensors[buffer.object].stateBytes;
  case Content::Gradient:
    return problem.tensors[buffer.object].gradientBytes;
  case Content::Scalar:
    return problem.scalars[buffer.object].bytes;
  default:
    return buffer.slotBytes;
  }
}

void checkBuffer(const Plan &plan, const Problem &problem, size_t b,
                 Report &report) {
  const Buffer &buffer = plan.buffers[b];
  std::string what = "buffer " + std::to_string(b) + " (" +
                     name(buffer.content) + " " +
                     std::to_string(buffer.object) + ")";
  if (buffer.slotBytes != bytesOf(buffer, problem))
    report.add("size",
               what + " has slots of " + number(buffer.slotBytes) +
                   " bytes, what it holds has " +
                   number(bytesOf(buffer, problem)),
               buffer.first.event);
  if (buffer.offset < 0 || buffer.offset % bufferAlignment != 0 ||
      (buffer.slots > 1 && (buffer.stride % bufferAlignment != 0 ||
                            buffer.stride < buffer.slotBytes)))
    report.add("alignment",
               what + " has offset " + number(buffer.offset) + " and stride " +
                   number(buffer.stride) + ", accepted are multiples of " +
                   number(bufferAlignment),
               buffer.first.event);
  const Event &tail = plan.events.back();
  int tailStep = tail.kind == EventKind::Run ? tail.endStep - 1 : 0;
  Point end{static_cast<int>(plan.events.size()) - 1, tailStep};
  if (buffer.persistent && !(buffer.first == Point{0, 0} && buffer.last == end))
    report.add("persistent", what + " is persistent but not live throughout",
               buffer.first.event);
}

/// Live buffers are pairwise disjoint, so that a new one can only meet its
/// neighbours by address.
void checkOverlap(const Plan &plan, int device, Report &report) {
  std::vector<int> byStart, byEnd;
  for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b)
    if (plan.buffers[b].device == device)
      byStart.push_back(b);
  byEnd = byStart;
  std::sort(byStart.begin(), byStart.end(), [&](int x, int y) {
    return plan.buffers[x].first < plan.buffers[y].first;
  });
  std::sort(byEnd.begin(), byEnd.end(), [&](int x, int y) {
    return plan.buffers[x].last < plan.buffers[y].last;
  });
  std::map<int64_t, int> live; // by offset
  size_t ended = 0;
  auto clash = [&](int a, int b) {
    const Buffer &x = plan.buffers[a], &y = plan.buffers[b];
    if (x.offset < y.end() && y.offset < x.end())
      report.add("overlap",
                 "buffers " + std::to_string(a) + " (" + name(x.content) + " " +
                     std::to_string(x.object) + ", [" + number(x.offset) +
                     ", " + number(x.end()) + ")) and " + std::to_string(b) +
                     " (" + name(y.content) + " " + std::to_string(y.object) +
                     ", [" + number(y.offset) + ", " + number(y.end()) +
                     ")) are live at the same time",
                 x.first.event, y.first.event);
  };
  for (int b : byStart) {
    const Buffer &buffer = plan.buffers[b];
    for (;
         ended < byEnd.size() && plan.buffers[byEnd[ended]].last < buffer.first;
         ++ended) {
      auto it = live.find(plan.buffers[byEnd[ended]].offset);
      if (it != live.end() && it->second == byEnd[ended])
        live.erase(it);
    }
    auto next = live.lower_bound(buffer.offset);
    if (next != live.end())
      clash(next->second, b);
    if (next != live.begin())
      clash(std::prev(next)->second, b);
    live.emplace(buffer.offset, b);
  }
}

int64_t bytesOf(const Home &home, const Problem &problem, const Plan &plan) {
  switch (home.kind) {
  case HomeKind::Tensor:
    return problem.tensors[home.object].bytes;
  case HomeKind::State:
    return problem.tensors[home.object].stateBytes;
  case HomeKind::Gradient:
    return problem.tensors[home.object].gradientBytes;
  case HomeKind::Scalar:
    return problem.scalars[home.object].bytes;
  case HomeKind::Value:
  case HomeKind::ValueGradient:
    break;
  }
  const Value &value = problem.values[home.object];
  int64_t fixed = value.fixedBytes;
  if (fixed > 0)
    fixed *= microbatchCount(plan, problem, home.object,
                             home.kind == HomeKind::ValueGradient);
  return plan.batch * value.bytesPerSample + fixed;
}

void checkHost(const Plan &plan, const Problem &problem, const Machine &machine,
               Report &report) {
  std::map<int64_t, int64_t> taken;
  for (const Home &home : plan.homes) {
    if (home.offset < 0 || home.offset % bufferAlignment != 0 || home.size < 1)
      report.add("host", std::string("the home of ") + name(home.kind) + " " +
                             std::to_string(home.object) + " is at " +
                             number(home.offset) + " with " +
                             number(home.bytes()) + " bytes");
    if (home.size != bytesOf(home, problem, plan))
      report.add("size", std::string("the home of ") + name(home.kind) + " " +
                             std::to_string(home.object) + " has " +
                             number(home.size) + " bytes, what it holds has " +
                             number(bytesOf(home, problem, plan)));
    auto next = taken.lower_bound(home.offset);
    bool clash =
        next != taken.end() && next->first < home.offset + home.bytes();
    clash |= next != taken.begin() && std::prev(next)->second > home.offset;
    if (clash)
      report.add("host", std::string("the home of ") + name(home.kind) + " " +
                             std::to_string(home.object) + " overlaps another");
    taken[home.offset] = home.offset + home.bytes();
    if (home.offset + home.bytes() > plan.hostBytes)
      report.add("host", "a home ends at " +
                             number(home.offset + home.bytes()) +
                             ", beyond the host store of " +
                             number(plan.hostBytes) + " bytes");
  }
  if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes)
    report.add("capacity", "the host store has " + number(plan.hostBytes) +
                               " bytes, the machine " +
                               number(machine.hostBytes));
}

} // namespace

void checkMemory(const Plan &plan, const Problem &problem,
                 const Machine &machine, Report &report) {
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    checkBuffer(plan, problem, b, report);
  std::vector<int64_t> peaks(machine.devices.size(), 0);
  for (const Buffer &buffer : plan.buffers)
    peaks[buffer.device] = std::max(peaks[buffer.device], buffer.end());
  for (size_t d = 0; d < peaks.size(); ++d) {
    if (peaks[d] > machine.devices[d].capacity)
      report.add("capacity", "device " + std::to_string(d) + " needs " +
                                 number(peaks[d]) + " bytes, it has " +
                                 number(machine.devices[d].capacity));
    if (peaks[d] != (d < plan.peakBytes.size() ? plan.peakBytes[d] : 0))
      report.add("peak",
                 "the peak of device " + std::to_string(d) + " is " +
                     number(peaks[d]) + " bytes, the plan says " +
                     number(d < plan.peakBytes.size() ? plan.peakBytes[d] : 0));
    checkOverlap(plan, static_cast<int>(d), report);
  }
  checkHost(plan, problem, machine, report);
}

} // namespace harmony::planner
