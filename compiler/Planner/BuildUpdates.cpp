//===- BuildUpdates.cpp - Gradients, contributions and updates ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildTensors.h"

#include <algorithm>

namespace harmony::planner {

static void append(std::vector<int> &to, const std::vector<int> &from) {
  to.insert(to.end(), from.begin(), from.end());
}

//===--- gradients ---===//

/// Whether no further phase of its device comes before the section of `phase`
/// ends: until then a part takes no room from anything.
bool TensorBuilder::isNear(const Part &part, int phase) const {
  return b.phases[part.lastPhase].next > phase;
}

/// Whether a part waits on its device for the update.
bool TensorBuilder::holds(int t, const Part &part) const {
  if (decisions[t].onHost)
    return false;
  return isNear(part, decisions[t].collectPhase) ||
         (choices.stay && choices.holdGradient[t]);
}

void TensorBuilder::addGradients(int t) {
  int useCount = static_cast<int>(problem.tensors[t].gradientUses.size());
  bool contributes = problem.tensors[t].contribution >= 0;
  for (int group = 0; group < choices.groups; ++group)
    for (int use = 0; use < useCount; ++use) {
      Part part = addPart(t, use, group);
      part.number = group * useCount + use;
      Section &section = b.sections[part.lastPhase];
      if (decisions[t].onHost && b.isOpen(part.lastPhase))
        storeAmong(t, part);
      else if (decisions[t].onHost)
        storePart(t, part, section.stores);
      else if (!contributes && !holds(t, part))
        storePart(t, part, section.storesNow);
      parts[t].push_back(part);
    }
}

/// Zeroed once, then added to by the group's backward phases of the layer.
TensorBuilder::Part TensorBuilder::addPart(int t, int use, int group) {
  const Tensor &tensor = problem.tensors[t];
  Part part;
  part.number = group * static_cast<int>(tensor.gradientUses.size()) + use;
  for (int p : b.backwardPhases[tensor.gradientUses[use].layer]) {
    const Phase &phase = b.phase(p);
    if (phase.group != group)
      continue;
    if (part.buffer < 0) {
      part.buffer = b.makeBuffer(Content::Gradient, phase.device, t,
                                 part.number, tensor.gradientBytes);
      int zero = b.makeEvent(EventKind::ZeroGradient, phase.device, computeLane,
                             t, part.number, -1);
      b.touch(zero, part.buffer, true);
      Parts adds =
          b.partsOf(p, tensor.gradientUses[use].layer, StepKind::Backward);
      b.neededBy[zero] = b.firstOf(adds) - 1;
      (b.isOpen(p) ? b.sections[p].among : b.sections[p].zeros).push_back(zero);
    } else if (part.device != phase.device) {
      storePart(t, part, b.sections[part.lastPhase].storesNow);
      part.stored = false;
      part.buffer = loadPart(t, part, phase.device, b.sections[p].lateLoads);
    }
    part.device = phase.device;
    part.lastPhase = p;
    Parts adds =
        b.partsOf(p, tensor.gradientUses[use].layer, StepKind::Backward);
    b.touchRuns(p, adds, part.buffer, adds);
  }
  if (part.buffer < 0)
    throw Error("group " + std::to_string(group) +
                " has no backward phase of a layer that uses tensor '" +
                tensor.name + "'");
  return part;
}

void TensorBuilder::storePart(int t, Part &part, std::vector<int> &list) {
  list.push_back(b.makeTransfer(EventKind::StoreGradient, outTensors, t,
                                part.number, -1,
                                problem.tensors[t].gradientBytes, part.buffer,
                                b.gradientHome(t, part.number)));
  part.stored = true;
}

/// Behind the Run that completes it. It has its memory for as much of its phase
/// and the next as makes half a phase: links carry other things too.
void TensorBuilder::storeAmong(int t, Part &part) {
  const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
  int p = part.lastPhase, use = part.number % static_cast<int>(uses.size());
  int last = b.lastOf(b.partsOf(p, uses[use].layer, StepKind::Backward));
  std::vector<int> &list = b.sections[p].among;
  storePart(t, part, list);
  b.neededBy[list.back()] = last;
  int until = last + b.partCount(p) / 2;
  if (until >= b.partCount(p)) {
    until -= b.partCount(p);
    p = b.phases[p].next;
  }
  if (p >= b.phaseCount())
    return;
  until = std::min(until, b.partCount(p) - 1);
  int step = b.phases[p].parts[until];
  b.cover(part.buffer, b.phases[p].runs[until], step, step);
}

/// The buffer into which the part is loaded from its home.
int TensorBuilder::loadPart(int t, const Part &part, int device,
                            std::vector<int> &list) {
  int64_t bytes = problem.tensors[t].gradientBytes;
  int buffer = b.makeBuffer(Content::Gradient, device, t, part.number, bytes);
  list.push_back(b.makeTransfer(EventKind::LoadGradient, inTensors, t,
                                part.number, -1, bytes, buffer,
                                b.gradientHome(t, part.number)));
  return buffer;
}

/// The buffer into which the part is copied from the device that has it.
int TensorBuilder::copyPart(int t, const Part &part, int device,
                            std::vector<int> &list) {
  int64_t bytes = problem.tensors[t].gradientBytes;
  int buffer = b.makeBuffer(Content::Gradient, device, t, part.number, bytes);
  list.push_back(b.makeCopy(EventKind::CopyGradient, peerGradients, t,
                            part.number, -1, bytes, part.buffer, buffer));
  return buffer;
}

/// The backward phase of a layer on the device that updates, beside the last
/// one that adds; -1: none.
int TensorBuilder::ownersPhase(int t, int layer) const {
  const Decision &decision = decisions[t];
  if (decision.collectPhase >= b.phaseCount())
    return -1;
  const Phase &last = b.phase(decision.collectPhase);
  int found = -1;
  for (int p : b.backwardPhases[layer])
    if (const Phase &phase = b.phase(p);
        phase.device == decision.owner && phase.firstLayer == last.firstLayer &&
        phase.lastLayer == last.lastLayer && phase.kind == last.kind)
      found = std::max(found, p);
  return found;
}

/// With overlap a part leaves while its device runs the next phase, which has
/// its memory elsewhere: until the update, where that is among the Runs of this
/// phase or the next.
void TensorBuilder::leaveBehind(int t, const Part &part) {
  int collect = decisions[t].collectPhase;
  bool beside = decisions[t].updatedBeside;
  if ((!choices.overlap && !beside) || collect >= b.phaseCount())
    return;
  int next = beside ? part.lastPhase : b.nextOn(part.device, collect);
  if (next >= b.phaseCount())
    return;
  int step = b.lastStep(next), last = decisions[t].updatePart;
  const PhaseInfo &info = b.phases[next];
  if (last >= 0 && b.phase(next).trips == 1 && last + 1 < b.partCount(next))
    step = info.parts[last + 1] - 1;
  b.cover(part.buffer, info.runs[b.partOf(next, step)], step, step);
}

/// To the device that updates. Where phases are several Runs, the copy has its
/// place from the Run on that completes the gradient there, so that it is made
/// while the others still run.
int TensorBuilder::collectPart(int t, const Part &part) {
  const Tensor &tensor = problem.tensors[t];
  int useCount = static_cast<int>(tensor.gradientUses.size());
  int layer = tensor.gradientUses[part.number % useCount].layer;
  Section &section = b.sections[decisions[t].collectPhase];
  leaveBehind(t, part);
  int p = choices.runs > 1 ? ownersPhase(t, layer) : -1;
  if (p < 0)
    return copyPart(t, part, decisions[t].owner, section.updates);
  std::vector<int> &list =
      decisions[t].updatedBeside ? section.among : section.collected;
  int buffer = copyPart(t, part, decisions[t].owner, list);
  b.neededBy[list.back()] = coverFromComplete(buffer, p, layer);
  return buffer;
}

/// The buffer has its place from the Run of a phase on that completes the
/// gradient of a layer's use; returns the part that does.
int TensorBuilder::coverFromComplete(int buffer, int p, int layer) {
  int last = b.partOf(p, b.findStep(p, layer, StepKind::Backward));
  int step = b.phases[p].parts[last];
  b.cover(buffer, b.phases[p].runs[last], step, step);
  return last;
}

/// As if the others' parts of what the group updates came.
void TensorBuilder::makeRoomForOthers(int t, int event) {
  const Tensor &tensor = problem.tensors[t];
  const Decision &decision = decisions[t];
  for (const Part &part : parts[t]) {
    int buffer = b.makeBuffer(Content::Gradient, decision.owner, t, part.number,
                              choices.others * tensor.gradientBytes);
    b.touch(event, buffer, false);
    int p = decision.updatePhase;
    if (p < b.phaseCount() && p != decision.collectPhase)
      b.cover(buffer, b.phases[p].runs.front(), 0, 0);
    int layer = tensor.gradientUses[part.number].layer;
    p = choices.runs > 1 ? ownersPhase(t, layer) : -1;
    if (p >= 0)
      coverFromComplete(buffer, p, layer);
  }
}

//===--- contributions ---===//

void TensorBuilder::addContributions() {
  std::vector<int> order;
  for (int t = 0; t < tensorCount(); ++t)
    if (decisions[t].updated && problem.tensors[t].contribution >= 0)
      order.push_back(t);
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    return decisions[x].lastAdd < decisions[y].lastAdd;
  });
  for (int t : order)
    decisions[t].onHost ? addHostContribution(t) : addDeviceContribution(t);
}

void TensorBuilder::addHostContribution(int t) {
  int scalar = problem.tensors[t].contribution;
  int event = b.makeHostEvent(EventKind::Contribute, t, ownerOf(t));
  b.events[event].onHost = true;
  int point = 0;
  for (const Part &part : parts[t]) {
    b.touchHome(event, b.gradientHome(t, part.number), false);
    point = std::max(point, b.storePoint(part.lastPhase));
  }
  int place =
      b.home(HomeKind::Scalar, scalar, -1, problem.scalars[scalar].bytes);
  b.touchHome(event, place, true);
  b.touchHome(b.epilogue, place, false);
  b.sections[point].hostContributions.push_back(event);
}

/// Right behind the last phase that adds, while most parts are still there.
/// Parts that wait for the update do so where it will be.
void TensorBuilder::addDeviceContribution(int t) {
  const Decision &decision = decisions[t];
  int scalar = problem.tensors[t].contribution;
  int64_t bytes = problem.scalars[scalar].bytes;
  std::vector<int> &list = b.sections[decision.lastAdd].contributions;
  int event = b.makeEvent(EventKind::Contribute, decision.owner, computeLane, t,
                          -1, -1);
  for (Part &part : parts[t]) {
    bool hold = holds(t, part);
    bool there = hold || isNear(part, decision.lastAdd);
    if (there && part.device == decision.owner) {
      b.touch(event, part.buffer, false);
    } else if (there && b.canCopy(part.device, decision.owner)) {
      int copy = copyPart(t, part, decision.owner, list);
      b.touch(event, copy, false);
      if (hold) {
        part.buffer = copy;
        part.device = decision.owner;
      }
    } else {
      storePart(t, part,
                part.lastPhase == decision.lastAdd
                    ? list
                    : b.sections[part.lastPhase].storesNow);
      b.touch(event, loadPart(t, part, decision.owner, list), false);
    }
    if (!hold && !part.stored)
      storePart(t, part, b.sections[part.lastPhase].storesNow);
  }
  int buffer = b.makeBuffer(Content::Scalar, decision.owner, scalar, -1, bytes);
  int place = b.home(HomeKind::Scalar, scalar, -1, bytes);
  b.touch(event, buffer, true);
  list.push_back(event);
  list.push_back(b.makeTransfer(EventKind::StoreScalar, outValues, scalar, -1,
                                -1, bytes, buffer, place));
  b.touchHome(b.epilogue, place, false);
}

//===--- updates ---===//

/// The phase on the device that updates, of those that run the last pack side
/// by side, if all parts of the gradient come from these; -1: none.
int TensorBuilder::besidePhase(int t) const {
  const Decision &decision = decisions[t];
  if (decision.collectPhase >= b.phaseCount() ||
      !b.isOpen(decision.collectPhase))
    return -1;
  const PhaseInfo &last = b.phases[decision.collectPhase];
  for (const GradientUse &use : problem.tensors[t].gradientUses)
    for (int p : b.backwardPhases[use.layer])
      if (int device = b.phase(p).device;
          p < last.band ||
          (device != decision.owner && !b.canCopy(device, decision.owner)))
        return -1;
  for (int p = last.band; p < last.bandEnd; ++p)
    if (b.phase(p).device == decision.owner)
      return p;
  return -1;
}

/// The part of a phase, and of those beside it, behind which nothing reads a
/// tensor or adds to its gradient.
int TensorBuilder::completePart(int t, int p) const {
  Parts parts = 1;
  for (const Access &access : decisions[t].accesses)
    if (access.phase >= b.phases[p].band && access.phase < b.phases[p].bandEnd)
      parts |= access.parts;
  for (const GradientUse &use : problem.tensors[t].gradientUses)
    parts |= b.partsOf(p, use.layer, StepKind::Backward);
  return b.lastOf(parts);
}

/// The part of the phase of its update behind which a tensor may be updated,
/// while the Runs of the other parts go on; -1: none. A loop has them all until
/// it is left. What comes from other devices does so while another part runs.
int TensorBuilder::earliestPart(int t) const {
  const Decision &decision = decisions[t];
  int p = decision.updatePhase;
  if (!decision.updated || decision.onHost || p >= b.phaseCount() ||
      !b.isOpen(p) || b.phase(p).device != decision.owner)
    return -1;
  if (decision.updatedBeside)
    return completePart(t, p) + 1;
  if (decision.collectPhase < p)
    return 0;
  return collects(t) ? -1 : completePart(t, p);
}

/// Evenly over the parts of their phase, so that states come and go while it
/// computes; in the order in which gradients are complete.
void TensorBuilder::spreadUpdates() {
  std::map<int, std::vector<std::pair<int, int>>> byPhase; // part, tensor
  for (int t = tensorCount() - 1; t >= 0; --t)
    if (int part = earliestPart(t); part >= 0)
      byPhase[decisions[t].updatePhase].push_back({part, t});
  for (auto &[phase, list] : byPhase) {
    std::stable_sort(
        list.begin(), list.end(),
        [](const auto &x, const auto &y) { return x.first < y.first; });
    int count = static_cast<int>(list.size()), parts = b.partCount(phase);
    for (int i = 0; i < count; ++i) {
      auto [earliest, t] = list[i];
      int part = std::max(earliest, 1 + i * (parts - 1) / count);
      if (part + 1 < parts || decisions[t].updatedBeside)
        decisions[t].updatePart = part;
    }
  }
}

void TensorBuilder::addUpdates() {
  spreadUpdates();
  std::vector<int> order;
  for (int t = 0; t < tensorCount(); ++t)
    if (decisions[t].updated)
      order.push_back(t);
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    return decisions[x].updatePhase < decisions[y].updatePhase;
  });
  std::vector<int> pendingStores, refreshes;
  int phase = -1;
  auto flush = [&] {
    if (phase >= 0)
      append(b.sections[phase].stores, pendingStores);
    pendingStores.clear();
  };
  for (int t : order) {
    if (decisions[t].updatePhase != phase)
      flush();
    phase = decisions[t].updatePhase;
    if (problem.tensors[t].stateBytes > 0)
      b.stateHome(t);
    if (decisions[t].onHost)
      addHostUpdate(t);
    else if (decisions[t].byOthers)
      for (const Part &part : parts[t])
        leaveBehind(t, part);
    else
      addDeviceUpdate(t, pendingStores, refreshes);
  }
  flush();
  append(b.sections[b.phaseCount()].stores, refreshes);
}

void TensorBuilder::addHostUpdate(int t) {
  const Decision &decision = decisions[t];
  int event = b.makeHostEvent(EventKind::Update, t, ownerOf(t));
  b.events[event].onHost = true;
  b.touchHome(event, b.tensorHome(t), true);
  if (problem.tensors[t].stateBytes > 0)
    b.touchHome(event, b.stateHome(t), true);
  b.touchStepScalars(event, false);
  int point = decision.updatePhase;
  auto storePoint = [&](int p) { return b.isOpen(p) ? p : b.storePoint(p); };
  if (point < b.phaseCount())
    point = storePoint(point);
  for (const Part &part : parts[t]) {
    b.touchHome(event, b.gradientHome(t, part.number), false);
    point = std::max(point, storePoint(part.lastPhase));
  }
  for (const Access &access : decision.accesses)
    if (access.writes != 0)
      point = std::max(point, b.storePoint(access.phase));
  b.sections[point].hostUpdates.push_back(event);
}

/// Load what is missing, update, store what does not stay. With overlap the
/// stores of one tensor are issued after the update of the next.
void TensorBuilder::addDeviceUpdate(int t, std::vector<int> &pendingStores,
                                    std::vector<int> &refreshes) {
  const Decision &decision = decisions[t];
  const Tensor &tensor = problem.tensors[t];
  Section &section = b.sections[decision.updatePhase];
  bool among = decision.updatePart >= 0;
  std::vector<int> loads;
  std::vector<int> &list = among ? loads : section.updates;
  int event =
      b.makeEvent(EventKind::Update, decision.owner, computeLane, t, -1, -1);
  std::vector<int> stores;
  b.touchStepScalars(event, false);

  if (decision.loadForUpdate)
    list.push_back(b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                                  tensor.bytes, decision.updateBuffer,
                                  b.tensorHome(t)));
  b.touch(event, decision.updateBuffer, true);
  if (decision.resident)
    refreshResidents(t, stores, refreshes);
  else {
    stores.push_back(b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1,
                                    -1, tensor.bytes, decision.updateBuffer,
                                    b.tensorHome(t)));
    storeBehind(t, decision.updateBuffer);
  }
  if (tensor.stateBytes > 0)
    addState(t, event, list, stores);
  for (Part &part : parts[t]) {
    int buffer = part.buffer;
    if (part.stored) {
      buffer = loadPart(t, part, decision.owner, list);
    } else if (b.canCopy(part.device, decision.owner)) {
      buffer = collectPart(t, part);
    } else if (part.device != decision.owner) {
      storePart(t, part, b.sections[decision.collectPhase].updates);
      buffer = loadPart(t, part, decision.owner, list);
    }
    b.touch(event, buffer, false);
  }
  if (choices.others > 0)
    makeRoomForOthers(t, event);
  if (among) {
    for (int load : loads)
      b.neededBy[load] = decision.updatePart - 1;
    for (int store : stores)
      b.neededBy[store] = decision.updatePart;
    b.neededBy[event] = decision.updatePart;
    append(section.among, loads);
    section.among.push_back(event);
    append(section.among, stores);
    return;
  }
  list.push_back(event);
  append(list, pendingStores);
  pendingStores.clear();
  if (choices.overlap)
    pendingStores = std::move(stores);
  else
    append(list, stores);
}

/// Whether its owner runs a phase between the last part's coming and the update
/// behind that phase.
bool TensorBuilder::isUpdatedLater(int t) const {
  const Decision &decision = decisions[t];
  return decision.updatePhase < b.phaseCount() &&
         decision.updatePhase != decision.collectPhase &&
         decision.updatePart < 0;
}

/// What is updated behind a phase in between leaves while the owner runs the
/// next one.
void TensorBuilder::storeBehind(int t, int buffer) {
  if (!isUpdatedLater(t))
    return;
  int next = b.nextOn(decisions[t].owner, decisions[t].updatePhase);
  if (next < b.phaseCount())
    b.cover(buffer, b.phases[next].runs.back(), b.lastStep(next),
            b.lastStep(next));
}

void TensorBuilder::addState(int t, int event, std::vector<int> &list,
                             std::vector<int> &stores) {
  // All of one tensor in so many, where others have the rest.
  int64_t bytes = problem.tensors[t].stateBytes * (choices.others + 1);
  int owner = decisions[t].owner;
  if (choices.stay && choices.stateResident[t]) {
    int buffer = b.makePersistent(Content::State, owner, t, -1, bytes);
    b.touch(event, buffer, true);
    b.draft.plan.load.push_back({Content::State, t, owner, buffer});
    b.draft.plan.store.push_back({Content::State, t, owner, buffer});
    return;
  }
  int buffer = b.makeBuffer(Content::State, owner, t, -1, bytes);
  b.touch(event, buffer, true);
  // While the owner runs the phase in between, if there is one.
  if (isUpdatedLater(t))
    b.cover(buffer, b.phases[decisions[t].updatePhase].runs.front(), 0, 0);
  list.push_back(b.makeTransfer(EventKind::LoadState, inTensors, t, -1, -1,
                                bytes, buffer, b.stateHome(t)));
  stores.push_back(b.makeTransfer(EventKind::StoreState, outTensors, t, -1, -1,
                                  bytes, buffer, b.stateHome(t)));
  storeBehind(t, buffer);
}

/// The copies of the devices that do not update. What goes through the host is
/// loaded at the end, where nothing is held up behind it.
void TensorBuilder::refreshResidents(int t, std::vector<int> &stores,
                                     std::vector<int> &refreshes) {
  const Decision &decision = decisions[t];
  int64_t bytes = problem.tensors[t].bytes;
  bool stored = false;
  for (auto [device, buffer] : decision.residents) {
    if (device == decision.owner)
      continue;
    if (b.canCopy(decision.owner, device)) {
      stores.push_back(b.makeCopy(EventKind::CopyTensor, peerTensors, t, -1, -1,
                                  bytes, decision.updateBuffer, buffer));
      continue;
    }
    if (!stored)
      stores.push_back(b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1,
                                      -1, bytes, decision.updateBuffer,
                                      b.tensorHome(t)));
    stored = true;
    refreshes.push_back(b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1,
                                       -1, bytes, buffer, b.tensorHome(t)));
  }
}

} // namespace harmony::planner
