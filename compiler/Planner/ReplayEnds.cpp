//===- ReplayEnds.cpp - What holds before and after executions ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replayer.h"

#include <algorithm>

namespace harmony::planner {

/// Homes hold version 0, resident buffers what `load` brings.
void Replayer::placeInitial() {
  Stamp before;
  for (const Home &home : plan.homes) {
    if (home.kind != HomeKind::Tensor && home.kind != HomeKind::State)
      continue;
    Held held = home.kind == HomeKind::Tensor ? tensor(home.object, 0)
                                              : state(home.object, 0);
    spaces[0].write(home.offset, home.offset + home.bytes(),
                    placed(held, home.offset), before);
  }
  for (const ResidentTransfer &transfer : plan.load) {
    const Buffer &buffer = plan.buffers[transfer.buffer];
    if (!buffer.persistent)
      report.add("persistent", "a resident transfer loads buffer " +
                                   std::to_string(transfer.buffer) +
                                   ", which is not persistent");
    Held held = transfer.content == Content::Tensor ? tensor(transfer.object, 0)
                                                    : state(transfer.object, 0);
    spaces[1 + buffer.device].write(buffer.offset, buffer.end(),
                                    placed(held, buffer.offset), before);
  }
}

/// After the last execution the host store, with what `store` adds to it, holds
/// the newest version of everything, and so does every copy that stays.
void Replayer::checkFinal() {
  for (const auto *list : {&plan.load, &plan.store})
    for (const ResidentTransfer &transfer : *list) {
      const Buffer &buffer = plan.buffers[transfer.buffer];
      bool weights = transfer.content == Content::Tensor;
      Held expected =
          weights ? tensor(transfer.object, 0) : state(transfer.object, 0);
      expected.count = finalVersion(expected.kind, transfer.object);
      finalCheck(
          {1 + buffer.device, buffer.offset, buffer.end(), &buffer}, expected,
          "the copy that stays on device " + std::to_string(buffer.device));
    }
  for (const Home &home : plan.homes) {
    if (home.kind != HomeKind::Tensor && home.kind != HomeKind::State)
      continue;
    bool weights = home.kind == HomeKind::Tensor;
    Content content = weights ? Content::Tensor : Content::State;
    if (std::any_of(plan.store.begin(), plan.store.end(),
                    [&](const ResidentTransfer &transfer) {
                      return transfer.content == content &&
                             transfer.object == home.object;
                    }))
      continue;
    Held expected = weights ? tensor(home.object, 0) : state(home.object, 0);
    expected.count = finalVersion(expected.kind, home.object);
    finalCheck(allOf(home), expected, "the host's copy");
  }
  for (int v = 0; v < static_cast<int>(problem.values.size()); ++v)
    if (problem.values[v].output)
      checkOutput(v);
  for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s)
    if (problem.scalars[s].role == ScalarRole::Accumulator)
      checkAccumulator(s);
}

int64_t Replayer::finalVersion(Held::Kind kind, int t) const {
  if (kind == Held::Tensor)
    return tensorVersion[t];
  return problem.tensors[t].gradientUses.empty() ? 0 : executions;
}

Held Replayer::finalHeld(Bytes bytes) {
  Held held;
  bool first = true, mixed = false;
  spaces[bytes.space].visit(bytes.begin, bytes.end,
                            [&](Space::Segment &segment) {
                              mixed |= !first && segment.held != held;
                              held = segment.held;
                              first = false;
                            });
  return mixed ? Held{} : held;
}

void Replayer::finalCheck(Bytes bytes, Held expected, const std::string &what) {
  expected = placed(expected, bytes.begin);
  Held held = finalHeld(bytes);
  if (held != expected)
    report.add("persistent", what + " is " + print(held) + " after " +
                                 std::to_string(executions) +
                                 " executions, accepted is " + print(expected));
}

void Replayer::checkOutput(int v) {
  const Home *home = findHome(HomeKind::Value, v, -1);
  const std::string &name = problem.values[v].name;
  if (!home) {
    report.add("output",
               "output '" + name + "' has no place in the host store");
    return;
  }
  int producer = problem.values[v].producer;
  for (int p = 0; p < static_cast<int>(plan.phases.size()); ++p) {
    const Phase &phase = plan.phases[p];
    if (phase.kind == PhaseKind::Backward || producer < phase.firstLayer ||
        producer > phase.lastLayer)
      continue;
    for (int64_t i = 0; i < phase.trips; ++i) {
      Extent extent = homeExtent(plan, problem, *home, p, i);
      Held expected{Held::Value,
                    v,
                    -1,
                    executions - 1,
                    phase.firstSample + i * phase.microbatch,
                    phase.microbatch,
                    0,
                    0};
      if (finalHeld({0, extent.offset, extent.offset + extent.bytes,
                     nullptr}) == placed(expected, extent.offset))
        continue;
      report.add("output", "output '" + name + "', microbatch " +
                               std::to_string(i) + " of phase " +
                               std::to_string(p) +
                               ", is not in the host store after an execution");
      return;
    }
  }
}

void Replayer::checkAccumulator(int s) {
  for (int group = 0; group < plan.groups; ++group) {
    const Home *home = findHome(HomeKind::Scalar, s, group);
    Held expected{Held::Scalar,        s, group, executions - 1, 0, 0,
                  shares[group].bytes, 0};
    if (!home || finalHeld(allOf(*home)) != placed(expected, home->offset))
      report.add("scalar", "scalar '" + problem.scalars[s].name +
                               "' of group " + std::to_string(group) +
                               " is not in the host store after an execution");
  }
}

} // namespace harmony::planner
