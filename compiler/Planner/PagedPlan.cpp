//===- PagedPlan.cpp - A plan made operation by operation -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/PagedPlan.h"

#include <algorithm>

namespace harmony::planner {

PagedPlan::PagedPlan(const Problem &problem, const PagedProgram &program,
                     int devices)
    : problem(problem), program(program), devices(devices),
      sections(program.operations.size()) {
  draft.plan.phases = program.phases;
  for (const Phase &phase : program.phases)
    microbatches = std::max(microbatches, phase.firstMicrobatch + 1);
  makeHomes();
}

int PagedPlan::queue(QueueKind kind, int device, int lane) {
  std::vector<Queue> &queues = draft.plan.queues;
  for (size_t q = 0; q < queues.size(); ++q)
    if (queues[q].kind == kind && queues[q].device == device &&
        queues[q].lane == lane)
      return static_cast<int>(q);
  queues.push_back({kind, device, lane});
  return static_cast<int>(queues.size()) - 1;
}

int PagedPlan::makeEvent(EventKind kind, int queue, int device, int object,
                         int use, int phase) {
  Event event;
  event.kind = kind;
  event.queue = queue;
  event.device = device;
  event.object = object;
  event.use = use;
  event.phase = phase;
  events.push_back(std::move(event));
  return static_cast<int>(events.size()) - 1;
}

int PagedPlan::makeBuffer(Content content, int object, int use,
                          int64_t firstSample, int device, int64_t size) {
  Buffer buffer;
  buffer.content = content;
  buffer.object = object;
  buffer.use = use;
  buffer.firstSample = firstSample;
  buffer.device = device;
  buffer.slotBytes = buffer.stride = size;
  draft.plan.buffers.push_back(buffer);
  ranges.emplace_back();
  return static_cast<int>(ranges.size()) - 1;
}

int PagedPlan::lastStep(int event) const {
  return events[event].kind == EventKind::Run ? events[event].endStep - 1 : 0;
}

void PagedPlan::touch(int event, int buffer, bool writes) {
  draft.bufferTouches.push_back({event, buffer, writes});
  if (ranges[buffer].first < 0)
    ranges[buffer].first = event;
  ranges[buffer].last = event;
  ranges[buffer].lastStep = lastStep(event);
}

int PagedPlan::home(HomeKind kind, int object, int use, int64_t size) {
  auto [it, fresh] = homeOf[static_cast<int>(kind)].insert(
      {{object, use}, static_cast<int>(draft.plan.homes.size())});
  if (fresh)
    draft.plan.homes.push_back({kind, object, use, 0, size});
  return it->second;
}

void PagedPlan::makeHomes() {
  for (int t = 0; t < static_cast<int>(problem.tensors.size()); ++t) {
    home(HomeKind::Tensor, t, -1, problem.tensors[t].bytes);
    if (!problem.tensors[t].gradientUses.empty() &&
        problem.tensors[t].stateBytes > 0)
      home(HomeKind::State, t, -1, problem.tensors[t].stateBytes);
  }
}

int PagedPlan::pieceHome(const Piece &piece) {
  switch (piece.content) {
  case Content::Tensor:
    return home(HomeKind::Tensor, piece.object, -1, piece.bytes);
  case Content::State:
    return home(HomeKind::State, piece.object, -1, piece.bytes);
  case Content::Gradient:
    return home(HomeKind::Gradient, piece.object, piece.use, piece.bytes);
  default:
    return home(piece.content == Content::Value ? HomeKind::Value
                                                : HomeKind::ValueGradient,
                piece.object, -1, valueHomeBytes(piece.object));
  }
}

void PagedPlan::touchHome(int event, const Piece &piece, bool writes) {
  Touch touch{event, pieceHome(piece), writes};
  if (isValue(piece.content)) {
    const Phase &phase = program.phases[events[event].phase];
    const Value &value = problem.values[piece.object];
    touch.offset = phase.firstSample * value.bytesPerSample +
                   phase.firstMicrobatch * value.fixedBytes;
    touch.bytes = piece.bytes;
  }
  draft.homeTouches.push_back(touch);
}

int64_t PagedPlan::valueHomeBytes(int v) const {
  return problem.batch * problem.values[v].bytesPerSample +
         microbatches * problem.values[v].fixedBytes;
}

EventKind PagedPlan::loadOf(Content content) {
  switch (content) {
  case Content::Tensor:
    return EventKind::LoadTensor;
  case Content::State:
    return EventKind::LoadState;
  case Content::Gradient:
    return EventKind::LoadGradient;
  case Content::Value:
    return EventKind::LoadValue;
  default:
    return EventKind::LoadValueGradient;
  }
}

EventKind PagedPlan::storeOf(Content content) {
  switch (content) {
  case Content::Tensor:
    return EventKind::StoreTensor;
  case Content::State:
    return EventKind::StoreState;
  case Content::Gradient:
    return EventKind::StoreGradient;
  case Content::Value:
    return EventKind::StoreValue;
  default:
    return EventKind::StoreValueGradient;
  }
}

void PagedPlan::makeOperationEvents() {
  for (int i = 0; i < static_cast<int>(program.operations.size()); ++i) {
    const Operation &operation = program.operations[i];
    bool epilogue = operation.kind == EventKind::Epilogue;
    bool host = epilogue || operation.onHost;
    int event = makeEvent(operation.kind,
                          host ? queue(QueueKind::Host, hostEndpoint)
                               : queue(QueueKind::Compute, operation.device),
                          host ? 0 : operation.device, operation.tensor, -1,
                          operation.phase);
    sections[i].event = event;
    events[event].onHost = operation.onHost;
    if (epilogue || operation.kind == EventKind::Update)
      draft.scalarTouches.push_back({event, 0, epilogue});
    if (operation.phase < 0)
      continue;
    const Phase &phase = program.phases[operation.phase];
    events[event].endStep = static_cast<int>(phase.steps.size());
    addTransients(event, phase);
  }
}

void PagedPlan::addTransients(int event, const Phase &phase) {
  const Cost &cost = problem.cost(phase.firstLayer, phase.microbatch);
  int last = static_cast<int>(phase.steps.size()) - 1;
  auto scratch = [&](Content content, int object, int64_t sample, int64_t size,
                     int first, int end) {
    int buffer = makeBuffer(content, object, -1, sample, phase.device, size);
    touch(event, buffer, true);
    ranges[buffer].firstStep = first;
    ranges[buffer].lastStep = end;
  };
  for (int s = 0; s <= last; ++s) {
    Step step = phase.steps[s];
    bool backward = step.kind == StepKind::Backward;
    int64_t workspace =
        backward ? cost.backwardWorkspace : cost.forwardWorkspace;
    if (workspace > 0)
      scratch(Content::Workspace, step.layer, 0, workspace, s, s);
    if (backward)
      continue;
    if (phase.keep.empty() && cost.savedBytes > 0)
      scratch(Content::Saved, step.layer, phase.firstSample, cost.savedBytes, s,
              last);
    for (int v : problem.layers[step.layer].outputs) {
      const Value &value = problem.values[v];
      bool recomputed = step.kind == StepKind::Recompute;
      if (recomputed || value.consumers.empty())
        scratch(recomputed ? Content::RecomputedValue : Content::Value, v,
                phase.firstSample, value.bytes(phase.microbatch), s, s);
    }
  }
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

int PagedPlan::scalarBuffer(int scalar, int use, int device) {
  int buffer = makeBuffer(Content::Scalar, scalar, use, 0, device,
                          problem.scalars[scalar].bytes);
  draft.plan.buffers[buffer].persistent = true;
  return buffer;
}

int PagedPlan::transferScalar(EventKind kind, int scalar, int use, int device,
                              int buffer) {
  bool in = kind == EventKind::LoadScalar;
  int event =
      makeEvent(kind, queue(in ? QueueKind::In : QueueKind::Out, device, 1),
                device, scalar, use);
  events[event].bytes = problem.scalars[scalar].bytes;
  touch(event, buffer, in);
  draft.homeTouches.push_back(
      {event, home(HomeKind::Scalar, scalar, use, events[event].bytes), !in});
  return event;
}

void PagedPlan::addScalars() {
  int prologue = -1;
  for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
    switch (problem.scalars[s].role) {
    case ScalarRole::Seed:
      if (prologue < 0) {
        prologue = makeEvent(EventKind::Prologue,
                             queue(QueueKind::Host, hostEndpoint), 0, -1, -1);
        prefix.insert(prefix.begin(), prologue);
        if (problem.epilogue)
          draft.scalarTouches.push_back({prologue, 0, true});
      }
      draft.homeTouches.push_back(
          {prologue, home(HomeKind::Scalar, s, -1, problem.scalars[s].bytes),
           true});
      addSeed(s);
      break;
    case ScalarRole::Accumulator:
      for (int g = 0; g < program.groups; ++g)
        addAccumulator(s, g);
      break;
    case ScalarRole::Contribution:
      break;
    }
}

void PagedPlan::addContribution(int i) {
  const Operation &operation = program.operations[i];
  int scalar = problem.tensors[operation.tensor].contribution;
  int64_t bytes = problem.scalars[scalar].bytes;
  int place = home(HomeKind::Scalar, scalar, -1, bytes);
  if (operation.onHost) {
    draft.homeTouches.push_back({sections[i].event, place, true});
  } else {
    int buffer =
        makeBuffer(Content::Scalar, scalar, -1, 0, operation.device, bytes);
    touch(sections[i].event, buffer, true);
    sections[i].after.push_back(transferScalar(EventKind::StoreScalar, scalar,
                                               -1, operation.device, buffer));
  }
  for (const Section &section : sections)
    if (events[section.event].kind == EventKind::Epilogue)
      draft.homeTouches.push_back({section.event, place, false});
}

void PagedPlan::addSeed(int scalar) {
  std::vector<int> buffers(devices, -1);
  for (const Section &section : sections) {
    const Event &run = events[section.event];
    if (run.phase < 0 ||
        !problem.layers[program.phases[run.phase].firstLayer].isLoss)
      continue;
    int &buffer = buffers[run.device];
    int device = run.device;
    if (buffer < 0) {
      buffer = scalarBuffer(scalar, -1, device);
      prefix.push_back(
          transferScalar(EventKind::LoadScalar, scalar, -1, device, buffer));
    }
    touch(section.event, buffer, false);
  }
}

void PagedPlan::addAccumulator(int scalar, int group) {
  int buffer = -1, device = 0;
  for (const Section &section : sections) {
    const Event &run = events[section.event];
    if (run.phase < 0)
      continue;
    const Phase &phase = program.phases[run.phase];
    if (phase.group != group || phase.kind == PhaseKind::Backward ||
        phase.firstLayer != problem.scalars[scalar].layer)
      continue;
    device = phase.device;
    if (buffer < 0) {
      buffer = scalarBuffer(scalar, group, device);
      int zero =
          makeEvent(EventKind::ZeroScalar, run.queue, device, scalar, group);
      touch(zero, buffer, true);
      prefix.push_back(zero);
    }
    touch(section.event, buffer, true);
  }
  suffix.push_back(
      transferScalar(EventKind::StoreScalar, scalar, group, device, buffer));
}

//===----------------------------------------------------------------------===//
// The order
//===----------------------------------------------------------------------===//

Draft PagedPlan::finish() {
  std::vector<int> order = prefix;
  auto append = [&](const std::vector<int> &list) {
    order.insert(order.end(), list.begin(), list.end());
  };
  for (const Section &section : sections) {
    append(section.before);
    append(section.loads);
    order.push_back(section.event);
    append(section.after);
  }
  append(suffix);

  Plan &plan = draft.plan;
  plan.problem = problem.name;
  plan.batch = problem.batch;
  plan.groups = program.groups;
  plan.update = UpdateOrder::Deferred;
  std::vector<int> index(events.size());
  for (size_t i = 0; i < order.size(); ++i) {
    index[order[i]] = static_cast<int>(i);
    plan.events.push_back(std::move(events[order[i]]));
  }
  int last = static_cast<int>(plan.events.size()) - 1;
  for (size_t b = 0; b < ranges.size(); ++b) {
    Buffer &buffer = plan.buffers[b];
    const Range &range = ranges[b];
    buffer.first = {buffer.persistent ? 0 : index[range.first],
                    range.firstStep};
    buffer.last = {buffer.persistent ? last : index[range.last],
                   range.lastStep};
    if (buffer.persistent) {
      buffer.first.step = 0;
      buffer.last.step = plan.events[last].kind == EventKind::Run
                             ? plan.events[last].endStep - 1
                             : 0;
    }
  }
  for (auto *touches :
       {&draft.bufferTouches, &draft.homeTouches, &draft.scalarTouches})
    for (Touch &touch : *touches)
      touch.event = index[touch.event];
  plan.traffic = trafficOf(plan, problem);
  return std::move(draft);
}

} // namespace harmony::planner
