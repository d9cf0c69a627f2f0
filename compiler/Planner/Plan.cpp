//===- Plan.cpp - Look-ups and accounts of a plan -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace harmony::planner {

const Buffer *Plan::find(Content content, int object, int use, int device,
                         Point at, int64_t firstSample) const {
  for (const Buffer &buffer : buffers)
    if (buffer.content == content && buffer.object == object &&
        buffer.use == use && buffer.device == device &&
        buffer.firstSample == firstSample && buffer.first <= at &&
        at <= buffer.last)
      return &buffer;
  return nullptr;
}

const Home *Plan::findHome(HomeKind kind, int object, int use) const {
  for (const Home &home : homes)
    if (home.kind == kind && home.object == object && home.use == use)
      return &home;
  return nullptr;
}

std::vector<std::vector<QueueLoop>> queueLoops(const Plan &plan) {
  std::vector<std::vector<QueueLoop>> loops(plan.queues.size());
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
    const Event &event = plan.events[e];
    std::vector<QueueLoop> &queue = loops[event.queue];
    bool joins = !queue.empty() && event.phase >= 0 &&
                 plan.events[queue.back().events.front()].phase == event.phase;
    if (!joins)
      queue.push_back({{}, event.trips});
    queue.back().events.push_back(e);
  }
  return loops;
}

Timelines timelines(const Plan &plan) {
  Timelines result;
  result.signals.resize(plan.events.size());
  for (const std::vector<QueueLoop> &loops : queueLoops(plan)) {
    int64_t period = 0;
    for (const QueueLoop &loop : loops) {
      int64_t size = static_cast<int64_t>(loop.events.size());
      for (int64_t member = 0; member < size; ++member)
        result.signals[loop.events[member]] = {period + member, size};
      period += size * loop.trips;
    }
    result.period.push_back(period);
  }
  return result;
}

TimelineWait timelineWait(const Plan &plan, const Timelines &timelines,
                          const Wait &wait) {
  const Event &awaited = plan.events[wait.event];
  const Signals &signals = timelines.signals[wait.event];
  int64_t before = wait.previousStep ? timelines.period[awaited.queue] : 0;
  if (wait.lag == Wait::whole)
    return {awaited.queue,
            signals.start + (awaited.trips - 1) * signals.stride + 1 - before,
            0, 1, 0};
  // The first iteration whose awaited one exists.
  int64_t behind = std::max<int64_t>(0, wait.lag - (wait.times - 1));
  int64_t from = (behind + wait.times - 1) / wait.times * wait.every;
  return {awaited.queue,
          signals.start + 1 + (wait.times - 1 - wait.lag) * signals.stride -
              before,
          wait.times * signals.stride, wait.every, from};
}

double stepSeconds(const Problem &problem, const Phase &phase, Step step) {
  const Cost &cost = problem.cost(step.layer, phase.microbatch);
  switch (step.kind) {
  case StepKind::Forward:
    break;
  case StepKind::Recompute:
    return cost.recomputeSeconds(phase.level(step.layer));
  case StepKind::Backward:
    return cost.backwardSeconds;
  }
  return cost.forwardSeconds;
}

Extent homeExtent(const Plan &plan, const Problem &problem, const Home &home,
                  int phase, int64_t iteration) {
  bool value =
      home.kind == HomeKind::Value || home.kind == HomeKind::ValueGradient;
  if (!value || phase < 0)
    return {home.offset, home.size};
  const Phase &of = plan.phases[phase];
  const Value &what = problem.values[home.object];
  return {home.offset +
              (of.firstSample + iteration * of.microbatch) *
                  what.bytesPerSample +
              (of.firstMicrobatch + iteration) * what.fixedBytes,
          what.bytes(of.microbatch)};
}

bool isTransfer(EventKind kind) {
  switch (kind) {
  case EventKind::LoadScalar:
  case EventKind::StoreScalar:
  case EventKind::LoadTensor:
  case EventKind::StoreTensor:
  case EventKind::LoadState:
  case EventKind::StoreState:
  case EventKind::StoreGradient:
  case EventKind::LoadGradient:
  case EventKind::LoadValue:
  case EventKind::StoreValue:
  case EventKind::LoadValueGradient:
  case EventKind::StoreValueGradient:
  case EventKind::CopyTensor:
  case EventKind::CopyGradient:
  case EventKind::CopyValue:
  case EventKind::CopyValueGradient:
    return true;
  case EventKind::Prologue:
  case EventKind::ZeroScalar:
  case EventKind::ZeroGradient:
  case EventKind::Contribute:
  case EventKind::Epilogue:
  case EventKind::Update:
  case EventKind::Run:
    return false;
  }
  return false;
}

Traffic trafficOf(const Event &event, const Problem &problem) {
  switch (event.kind) {
  case EventKind::LoadScalar:
    return Traffic::Input;
  case EventKind::StoreScalar:
    return Traffic::Output;
  case EventKind::LoadValue:
    return problem.values[event.object].isInput() ? Traffic::Input
                                                  : Traffic::SwapIn;
  case EventKind::StoreValue:
    return problem.values[event.object].output ? Traffic::Output
                                               : Traffic::SwapOut;
  case EventKind::LoadTensor:
  case EventKind::LoadState:
  case EventKind::LoadGradient:
  case EventKind::LoadValueGradient:
    return Traffic::SwapIn;
  case EventKind::CopyTensor:
  case EventKind::CopyGradient:
  case EventKind::CopyValue:
  case EventKind::CopyValueGradient:
    return Traffic::Peer;
  default:
    return Traffic::SwapOut;
  }
}

std::array<int64_t, trafficCount> trafficOf(const Plan &plan,
                                            const Problem &problem) {
  std::array<int64_t, trafficCount> traffic{};
  for (const Event &event : plan.events)
    if (isTransfer(event.kind))
      traffic[static_cast<int>(trafficOf(event, problem))] +=
          event.bytes * event.trips;
  return traffic;
}

std::vector<Transfer> requiredTransfers(const Plan &plan,
                                        const Problem &problem) {
  std::vector<Transfer> transfers;
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
    const Event &event = plan.events[e];
    if (isTransfer(event.kind))
      transfers.push_back({e, event.kind, event.object, event.use, event.phase,
                           event.device, event.source,
                           event.bytes * event.trips, event.firstByte,
                           trafficOf(event, problem)});
  }
  return transfers;
}

int turnPacksOf(const Plan &plan) {
  std::map<int, const Phase *> goingOn; // by device
  std::set<int> packs;                  // by their last layers
  for (const Phase &phase : plan.phases) {
    if (phase.group != 0)
      continue;
    const Phase *&before = goingOn[phase.device];
    if (phase.kind == PhaseKind::Turn ||
        (phase.kind == PhaseKind::Backward && before &&
         before->kind == PhaseKind::Forward))
      packs.insert(phase.lastLayer);
    before = phase.frees ? nullptr : &phase;
  }
  return static_cast<int>(packs.size());
}

std::vector<int> redundantLoads(const Plan &plan) {
  std::map<int, std::vector<int>> runs, hostUpdates; // by device, by tensor
  for (int e = 0; e < static_cast<int>(plan.events.size()); ++e) {
    const Event &event = plan.events[e];
    if (event.kind == EventKind::Run)
      runs[event.device].push_back(e);
    if (event.kind == EventKind::Update && event.onHost)
      hostUpdates[event.object].push_back(e);
  }
  auto anyBetween = [](const std::vector<int> &events, int after, int before) {
    auto it = std::upper_bound(events.begin(), events.end(), after);
    return it != events.end() && *it < before;
  };
  std::map<std::tuple<Content, int, int>, std::vector<const Buffer *>> copies;
  for (const Buffer &buffer : plan.buffers)
    if (buffer.content == Content::Tensor || buffer.content == Content::State)
      copies[{buffer.content, buffer.object, buffer.device}].push_back(&buffer);
  std::vector<int> redundant;
  for (auto &[what, buffers] : copies) {
    std::sort(
        buffers.begin(), buffers.end(),
        [](const Buffer *a, const Buffer *b) { return a->first < b->first; });
    for (size_t i = 1; i < buffers.size(); ++i) {
      int begin = buffers[i]->first.event, old = buffers[i - 1]->last.event;
      if (!anyBetween(runs[buffers[i]->device], old, begin) &&
          !anyBetween(hostUpdates[buffers[i]->object],
                      buffers[i - 1]->first.event, begin))
        redundant.push_back(begin);
    }
  }
  std::sort(redundant.begin(), redundant.end());
  return redundant;
}

const char *name(EventKind kind) {
  static const char *const names[] = {
      "Prologue",           "LoadScalar",       "ZeroScalar",
      "StoreScalar",        "LoadTensor",       "StoreTensor",
      "LoadState",          "StoreState",       "ZeroGradient",
      "StoreGradient",      "LoadGradient",     "Contribute",
      "Epilogue",           "Update",           "Run",
      "LoadValue",          "StoreValue",       "LoadValueGradient",
      "StoreValueGradient", "CopyTensor",       "CopyGradient",
      "CopyValue",          "CopyValueGradient"};
  return names[static_cast<int>(kind)];
}

const char *name(PhaseKind kind) {
  static const char *const names[] = {"F", "T", "B"};
  return names[static_cast<int>(kind)];
}

const char *name(QueueKind kind) {
  static const char *const names[] = {"compute", "in", "out", "peer", "host"};
  return names[static_cast<int>(kind)];
}

const char *name(Content content) {
  static const char *const names[] = {
      "tensor",          "state", "gradient",  "value", "valueGradient",
      "recomputedValue", "saved", "workspace", "scalar"};
  return names[static_cast<int>(content)];
}

const char *name(HomeKind kind) {
  static const char *const names[] = {"tensor", "state",         "gradient",
                                      "value",  "valueGradient", "scalar"};
  return names[static_cast<int>(kind)];
}

const char *name(Traffic traffic) {
  static const char *const names[] = {"swapIn", "swapOut", "peer", "input",
                                      "output"};
  return names[static_cast<int>(traffic)];
}

std::string describe(const Plan &plan, const Problem &problem, int index) {
  if (index < 0 || index >= static_cast<int>(plan.events.size()))
    return "event " + std::to_string(index);
  const Event &event = plan.events[index];
  std::string text = "event " + std::to_string(index) + " (" + name(event.kind);
  switch (event.kind) {
  case EventKind::Run:
  case EventKind::Prologue:
  case EventKind::Epilogue:
    break;
  case EventKind::LoadScalar:
  case EventKind::ZeroScalar:
  case EventKind::StoreScalar:
    text += " " + problem.scalars[event.object].name;
    break;
  case EventKind::LoadValue:
  case EventKind::StoreValue:
  case EventKind::LoadValueGradient:
  case EventKind::StoreValueGradient:
  case EventKind::CopyValue:
  case EventKind::CopyValueGradient:
    text += " " + problem.values[event.object].name;
    break;
  default:
    text += " " + problem.tensors[event.object].name;
  }
  if (event.phase >= 0 && event.phase < static_cast<int>(plan.phases.size())) {
    const Phase &phase = plan.phases[event.phase];
    text += std::string(", phase ") + std::to_string(event.phase) + " = " +
            name(phase.kind) + "[" + std::to_string(phase.firstLayer) + ".." +
            std::to_string(phase.lastLayer) + "]";
  }
  return text + ")";
}

} // namespace harmony::planner
