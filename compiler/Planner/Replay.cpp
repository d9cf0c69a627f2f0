//===- Replay.cpp - What events read and write ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replayer.h"

#include <algorithm>

namespace harmony::planner {

Replayer::Replayer(const Plan &plan, const Problem &problem, Report &report)
    : ReplayOrder(plan, problem, report), buffers(plan),
      shares(groupShares(plan)), madeAgain(plan.phases.size()),
      tensorVersion(problem.tensors.size(), 0),
      written(problem.layers.size(), 0) {
  for (const Scalar &scalar : problem.scalars)
    seeded |= scalar.role == ScalarRole::Seed;
  int devices = 0;
  for (const Buffer &buffer : plan.buffers)
    devices = std::max(devices, buffer.device + 1);
  for (const Event &event : plan.events)
    devices = std::max(devices, event.device + 1);
  spaces.resize(static_cast<size_t>(devices) + 2);
  for (size_t p = 0; p < plan.phases.size(); ++p) {
    for (const Step &step : plan.phases[p].steps)
      if (step.kind == StepKind::Recompute &&
          plan.phases[p].level(step.layer) == 0)
        madeAgain[p].push_back(step.layer);
    std::sort(madeAgain[p].begin(), madeAgain[p].end());
  }
}

void Replayer::run() {
  if (auto [first, second] = buffers.ambiguous(); first >= 0) {
    const Buffer &x = plan.buffers[first], &y = plan.buffers[second];
    report.add("live-range",
               "buffers " + std::to_string(first) + " and " +
                   std::to_string(second) + " both hold " + name(x.content) +
                   " " + std::to_string(x.object) + " on device " +
                   std::to_string(x.device) + " at " + text(y.first.event) +
                   ", the first until " + text(x.last.event),
               x.first.event, y.first.event);
    return;
  }
  if (!indexHomes())
    return;
  placeInitial();
  runAll();
  if (!report.full())
    checkFinal();
}

void Replayer::execute(const Event &event) {
  int o = event.object;
  switch (event.kind) {
  case EventKind::Prologue:
    prologue();
    break;
  case EventKind::ZeroScalar:
    store(endOnDevice(event, event.device), scalar(o, event.use, 0));
    break;
  case EventKind::ZeroGradient:
    store(endOnDevice(event, event.device), gradient(o, event.use, 0));
    break;
  case EventKind::Contribute:
    contribute(event);
    break;
  case EventKind::Epilogue:
    epilogue();
    break;
  case EventKind::Update:
    update(event);
    break;
  case EventKind::Run:
    runSteps(event);
    break;
  case EventKind::StoreScalar:
    storeScalar(event);
    break;
  case EventKind::LoadValue:
    loadValue(event);
    break;
  case EventKind::LoadScalar:
  case EventKind::LoadTensor:
  case EventKind::LoadState:
  case EventKind::LoadGradient:
  case EventKind::LoadValueGradient:
    copy(endAtHome(event), endOnDevice(event, event.device), moved(event));
    break;
  case EventKind::StoreTensor:
  case EventKind::StoreState:
  case EventKind::StoreGradient:
  case EventKind::StoreValue:
  case EventKind::StoreValueGradient:
    copy(endOnDevice(event, event.device), endAtHome(event), moved(event));
    break;
  case EventKind::CopyTensor:
  case EventKind::CopyGradient:
  case EventKind::CopyValue:
  case EventKind::CopyValueGradient:
    copy(endOnDevice(event, event.source), endOnDevice(event, event.device),
         moved(event));
    break;
  }
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

namespace {

/// What the two ends of a transfer, and of the zeroing of its destination, are.
struct Ends {
  Content content;
  HomeKind home;
  Held::Kind held;
};

Ends endsOf(EventKind kind) {
  switch (kind) {
  case EventKind::LoadScalar:
  case EventKind::StoreScalar:
  case EventKind::ZeroScalar:
    return {Content::Scalar, HomeKind::Scalar, Held::Scalar};
  case EventKind::LoadState:
  case EventKind::StoreState:
    return {Content::State, HomeKind::State, Held::State};
  case EventKind::LoadGradient:
  case EventKind::StoreGradient:
  case EventKind::ZeroGradient:
  case EventKind::CopyGradient:
    return {Content::Gradient, HomeKind::Gradient, Held::Gradient};
  case EventKind::LoadValue:
  case EventKind::StoreValue:
  case EventKind::CopyValue:
    return {Content::Value, HomeKind::Value, Held::Value};
  case EventKind::LoadValueGradient:
  case EventKind::StoreValueGradient:
  case EventKind::CopyValueGradient:
    return {Content::ValueGradient, HomeKind::ValueGradient,
            Held::ValueGradient};
  default:
    return {Content::Tensor, HomeKind::Tensor, Held::Tensor};
  }
}

} // namespace

Replayer::Bytes Replayer::endOnDevice(const Event &event, int device) {
  int64_t bytes = event.phase >= 0 ? event.bytes : -1;
  return sliceOf(event, on(device, endsOf(event.kind).content, event.object,
                           event.use, 0, bytes));
}

Replayer::Bytes Replayer::endAtHome(const Event &event) {
  return sliceOf(event, home(endsOf(event.kind).home, event.object, event.use));
}

/// What an event moves of a tensor.
Replayer::Bytes Replayer::sliceOf(const Event &event, Bytes whole) const {
  if (event.kind == EventKind::LoadTensor ||
      event.kind == EventKind::CopyTensor) {
    whole.skipped = event.firstByte;
    whole.begin += event.firstByte;
    whole.end = whole.begin + event.bytes;
  }
  return whole;
}

Held Replayer::moved(const Event &event) const {
  Held::Kind kind = endsOf(event.kind).held;
  switch (kind) {
  case Held::Tensor:
    return tensor(event.object, 0);
  case Held::State:
    return state(event.object, 0);
  case Held::Gradient:
    return gradient(event.object, event.use, 0);
  case Held::Scalar:
    return scalar(event.object, event.use, 0);
  default:
    return microbatch(kind, event.object);
  }
}

void Replayer::storeScalar(const Event &event) {
  Bytes from = endOnDevice(event, event.device);
  bool sums = problem.scalars[event.object].role == ScalarRole::Accumulator;
  expect(from,
         scalar(event.object, event.use, sums ? shares[event.use].bytes : 0),
         "scalar");
  copy(from, endAtHome(event), moved(event));
}

/// Batch inputs are always there.
void Replayer::loadValue(const Event &event) {
  Bytes to = endOnDevice(event, event.device);
  if (problem.values[event.object].isInput())
    store(to, value(event.object));
  else
    copy(endAtHome(event), to, moved(event));
}

//===----------------------------------------------------------------------===//
// Around the updates
//===----------------------------------------------------------------------===//

void Replayer::prologue() {
  for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
    if (problem.scalars[s].role == ScalarRole::Seed)
      store(home(HomeKind::Scalar, s, -1), scalar(s, -1, 0));
  store(mark(EventKind::Prologue), mark());
}

/// All parts of the tensor's gradient, where the event finds them.
void Replayer::expectGradients(const Event &event) {
  int t = event.object;
  int uses = static_cast<int>(problem.tensors[t].gradientUses.size());
  for (int part = 0; part < uses * plan.groups; ++part)
    expect(event.onHost ? home(HomeKind::Gradient, t, part)
                        : on(event.device, Content::Gradient, t, part, 0),
           gradient(t, part, shares[part / uses].bytes), "gradient");
}

void Replayer::contribute(const Event &event) {
  expectGradients(event);
  int s = problem.tensors[event.object].contribution;
  store(event.onHost ? home(HomeKind::Scalar, s, -1)
                     : on(event.device, Content::Scalar, s, -1, 0),
        scalar(s, -1, 0));
}

void Replayer::epilogue() {
  for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
    if (problem.scalars[s].role == ScalarRole::Contribution)
      expect(home(HomeKind::Scalar, s, -1), scalar(s, -1, 0), "epilogue");
  store(mark(EventKind::Epilogue), mark());
}

void Replayer::update(const Event &event) {
  int t = event.object;
  expectGradients(event);
  if (problem.epilogue)
    for (EventKind kind : {EventKind::Prologue, EventKind::Epilogue})
      if (kind == EventKind::Epilogue || seeded)
        expect(mark(kind), mark(), "epilogue");
  auto place = [&](Content content, HomeKind kind) {
    return event.onHost ? home(kind, t, -1)
                        : on(event.device, content, t, -1, 0);
  };
  Bytes weights = place(Content::Tensor, HomeKind::Tensor);
  expect(weights, tensor(t, execution), "update");
  store(weights, tensor(t, execution + 1));
  tensorVersion[t] = execution + 1;
  if (problem.tensors[t].stateBytes == 0)
    return;
  Bytes slots = place(Content::State, HomeKind::State);
  expect(slots, state(t, execution), "update");
  store(slots, state(t, execution + 1));
}

void replay(const Plan &plan, const Problem &problem, Report &report) {
  Replayer(plan, problem, report).run();
}

} // namespace harmony::planner
