//===- BuildUpdates.cpp - Gradients, contributions and updates ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildTensors.h"

#include <algorithm>

namespace harmony::planner {

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
  Decision &decision = decisions[t];
  decision.parts.begin = static_cast<int>(parts.size());
  for (int group = 0; group < choices.groups; ++group)
    for (int use = 0; use < useCount; ++use) {
      Part part = addPart(t, use, group);
      Section &section = b.sections[part.lastPhase];
      if (decision.onHost && b.isOpen(part.lastPhase))
        storeAmong(t, part);
      else if (decision.onHost)
        storePart(t, part, section.stores);
      else if (!contributes && !holds(t, part))
        storePart(t, part, section.storesNow);
      parts.push_back(part);
    }
  decision.parts.end = static_cast<int>(parts.size());
}

/// Whether a part is with the host from one phase that adds to the next on the
/// same device, as between rounds; staysFor() says the same of tensors.
bool TensorBuilder::leavesBetween(int t, int before, int p) const {
  int gap = b.phases[p].ordinal - b.phases[before].ordinal;
  return gap > (choices.overlap ? 2 : 1) &&
         !(choices.stay && choices.holdGradient[t]);
}

/// Through the host to phase `p`, which adds next, in its part `need`: at once
/// from another device, else behind the phase before it and ahead of it.
void TensorBuilder::passPart(int t, Part &part, int p, int need) {
  Section &from = b.sections[part.lastPhase];
  int device = b.phase(p).device;
  bool late = part.device != device || !choices.stay;
  storePart(t, part, late ? from.storesNow : from.stores);
  part.stored = false;
  EventList &list = late || !choices.overlap
                        ? b.sections[p].lateLoads
                        : b.sections[b.phases[p].block].loads;
  part.buffer = loadPart(t, part, device, list);
  b.issues[list.last].neededBy = late ? 0 : need;
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
    Parts adds =
        b.partsOf(p, tensor.gradientUses[use].layer, StepKind::Backward);
    if (part.buffer < 0) {
      part.buffer = b.makeBuffer(Content::Gradient, phase.device, t,
                                 part.number, tensor.gradientBytes);
      int zero = b.makeEvent(EventKind::ZeroGradient, phase.device, computeLane,
                             t, part.number, -1);
      b.touch(zero, part.buffer, true);
      b.issues[zero].neededBy = b.firstOf(adds) - 1;
      b.append(b.isOpen(p) ? b.sections[p].among : b.sections[p].zeros, zero);
    } else if (part.device != phase.device ||
               leavesBetween(t, part.lastPhase, p)) {
      passPart(t, part, p, b.firstOf(adds));
    }
    part.device = phase.device;
    part.lastPhase = p;
    b.touchRuns(p, adds, part.buffer, adds);
  }
  if (part.buffer < 0)
    throw Error("group " + std::to_string(group) +
                " has no backward phase of a layer that uses tensor '" +
                tensor.name + "'");
  return part;
}

void TensorBuilder::storePart(int t, Part &part, EventList &list) {
  b.append(list,
           b.makeTransfer(EventKind::StoreGradient, outTensors, t, part.number,
                          -1, problem.tensors[t].gradientBytes, part.buffer,
                          b.gradientHome(t, part.number)));
  part.stored = true;
}

/// Behind the Run that completes it. It has its memory for as much of its phase
/// and the next as makes half a phase: links carry other things too.
void TensorBuilder::storeAmong(int t, Part &part) {
  const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
  int p = part.lastPhase, use = part.number % static_cast<int>(uses.size());
  int last = b.lastOf(b.partsOf(p, uses[use].layer, StepKind::Backward));
  EventList &list = b.sections[p].among;
  storePart(t, part, list);
  b.issues[list.last].neededBy = last;
  int until = last + b.partCount(p) / 2;
  if (until >= b.partCount(p)) {
    until -= b.partCount(p);
    p = b.phases[p].next;
  }
  if (p >= b.phaseCount())
    return;
  until = std::min(until, b.partCount(p) - 1);
  PhasePart leaves = b.partAt(p, until);
  b.cover(part.buffer, leaves.run, leaves.step, leaves.step);
}

/// The buffer into which the part is loaded from its home.
int TensorBuilder::loadPart(int t, const Part &part, int device,
                            EventList &list) {
  int64_t bytes = problem.tensors[t].gradientBytes;
  int buffer = b.makeBuffer(Content::Gradient, device, t, part.number, bytes);
  b.append(list,
           b.makeTransfer(EventKind::LoadGradient, inTensors, t, part.number,
                          -1, bytes, buffer, b.gradientHome(t, part.number)));
  return buffer;
}

/// The buffer into which the part is copied from the device that has it.
int TensorBuilder::copyPart(int t, const Part &part, int device,
                            EventList &list) {
  int64_t bytes = problem.tensors[t].gradientBytes;
  int buffer = b.makeBuffer(Content::Gradient, device, t, part.number, bytes);
  b.append(list, b.makeCopy(EventKind::CopyGradient, peerGradients, t,
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
  if (last >= 0 && b.phase(next).trips == 1)
    step = b.partEnd(next, std::min(last, b.partCount(next) - 1));
  b.cover(part.buffer, b.runOf(next, b.partOf(next, step)), step, step);
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
  EventList &list =
      decisions[t].updatedBeside ? section.among : section.collected;
  int buffer = copyPart(t, part, decisions[t].owner, list);
  b.issues[list.last].neededBy = coverFromComplete(buffer, p, layer);
  return buffer;
}

/// The buffer has its place from the Run of a phase on that completes the
/// gradient of a layer's use; returns the part that does.
int TensorBuilder::coverFromComplete(int buffer, int p, int layer) {
  int last = b.partOf(p, b.findStep(p, layer, StepKind::Backward));
  PhasePart completes = b.partAt(p, last);
  b.cover(buffer, completes.run, completes.step, completes.step);
  return last;
}

/// As if the others' parts of what the group updates came.
void TensorBuilder::makeRoomForOthers(int t, int event) {
  const Tensor &tensor = problem.tensors[t];
  const Decision &decision = decisions[t];
  for (const Part &part : partsOf(t)) {
    int buffer = b.makeBuffer(Content::Gradient, decision.owner, t, part.number,
                              choices.others * tensor.gradientBytes);
    b.touch(event, buffer, false);
    int p = decision.updatePhase;
    if (p < b.phaseCount() && p != decision.collectPhase)
      b.cover(buffer, b.firstRun(p), 0, 0);
    int layer = tensor.gradientUses[part.number].layer;
    p = choices.runs > 1 ? ownersPhase(t, layer) : -1;
    if (p >= 0)
      coverFromComplete(buffer, p, layer);
  }
}

//===--- contributions ---===//

void TensorBuilder::addContributions() {
  ordered.clear();
  for (int t = 0; t < tensorCount(); ++t)
    if (decisions[t].updated && problem.tensors[t].contribution >= 0)
      ordered.push_back(t);
  sort(ordered, b.phaseCount(), [&](int t) { return decisions[t].lastAdd; });
  for (int t : ordered)
    decisions[t].onHost ? addHostContribution(t) : addDeviceContribution(t);
}

void TensorBuilder::addHostContribution(int t) {
  int scalar = problem.tensors[t].contribution;
  int event = b.makeHostEvent(EventKind::Contribute, t, ownerOf(t));
  b.events[event].onHost = true;
  int point = 0;
  for (const Part &part : partsOf(t)) {
    b.touchHome(event, b.gradientHome(t, part.number), false);
    point = std::max(point, b.storePoint(part.lastPhase));
  }
  int place =
      b.home(HomeKind::Scalar, scalar, -1, problem.scalars[scalar].bytes);
  b.touchHome(event, place, true);
  b.touchHome(b.epilogue, place, false);
  b.append(b.sections[point].hostContributions, event);
}

/// Right behind the last phase that adds, while most parts are still there.
/// Parts that wait for the update do so where it will be.
void TensorBuilder::addDeviceContribution(int t) {
  const Decision &decision = decisions[t];
  int scalar = problem.tensors[t].contribution;
  int64_t bytes = problem.scalars[scalar].bytes;
  EventList &list = b.sections[decision.lastAdd].contributions;
  int event = b.makeEvent(EventKind::Contribute, decision.owner, computeLane, t,
                          -1, -1);
  for (Part &part : partsOf(t)) {
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
  b.append(list, event);
  b.append(list, b.makeTransfer(EventKind::StoreScalar, outValues, scalar, -1,
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
  for (const Access &access : accessesOf(t))
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
  spread.clear();
  for (int t = tensorCount() - 1; t >= 0; --t)
    if (int part = earliestPart(t); part >= 0)
      spread.push_back({decisions[t].updatePhase, part, t});
  std::stable_sort(
      spread.begin(), spread.end(), [](const Spread &x, const Spread &y) {
        return x.phase != y.phase ? x.phase < y.phase : x.part < y.part;
      });
  for (size_t begin = 0, end; begin < spread.size(); begin = end) {
    for (end = begin;
         end < spread.size() && spread[end].phase == spread[begin].phase;)
      ++end;
    int count = static_cast<int>(end - begin);
    int partCount = b.partCount(spread[begin].phase);
    for (int i = 0; i < count; ++i) {
      const Spread &one = spread[begin + i];
      int part = std::max(one.part, 1 + i * (partCount - 1) / count);
      if (part + 1 < partCount || decisions[one.tensor].updatedBeside)
        decisions[one.tensor].updatePart = part;
    }
  }
}

void TensorBuilder::addUpdates() {
  spreadUpdates();
  ordered.clear();
  for (int t = 0; t < tensorCount(); ++t)
    if (decisions[t].updated)
      ordered.push_back(t);
  sort(ordered, b.phaseCount() + 1,
       [&](int t) { return decisions[t].updatePhase; });
  EventList pendingStores, refreshes;
  int phase = -1;
  for (int t : ordered) {
    if (decisions[t].updatePhase != phase && phase >= 0)
      b.append(b.sections[phase].stores, pendingStores);
    phase = decisions[t].updatePhase;
    if (problem.tensors[t].stateBytes > 0)
      b.stateHome(t);
    if (decisions[t].onHost)
      addHostUpdate(t);
    else if (decisions[t].byOthers)
      for (const Part &part : partsOf(t))
        leaveBehind(t, part);
    else
      addDeviceUpdate(t, pendingStores, refreshes);
  }
  if (phase >= 0)
    b.append(b.sections[phase].stores, pendingStores);
  b.append(b.sections[b.phaseCount()].stores, refreshes);
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
  for (const Part &part : partsOf(t)) {
    b.touchHome(event, b.gradientHome(t, part.number), false);
    point = std::max(point, storePoint(part.lastPhase));
  }
  for (const Access &access : accessesOf(t))
    if (access.writes != 0)
      point = std::max(point, b.storePoint(access.phase));
  b.append(b.sections[point].hostUpdates, event);
}

/// Load what is missing, update, store what does not stay. With overlap the
/// stores of one tensor are issued after the update of the next.
void TensorBuilder::addDeviceUpdate(int t, EventList &pendingStores,
                                    EventList &refreshes) {
  const Decision &decision = decisions[t];
  const Tensor &tensor = problem.tensors[t];
  Section &section = b.sections[decision.updatePhase];
  bool among = decision.updatePart >= 0;
  EventList before, stores;
  EventList &list = among ? before : section.updates;
  int event =
      b.makeEvent(EventKind::Update, decision.owner, computeLane, t, -1, -1);
  b.touchStepScalars(event, false);

  if (decision.loadForUpdate)
    b.append(list, b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                                  tensor.bytes, decision.updateBuffer,
                                  b.tensorHome(t)));
  b.touch(event, decision.updateBuffer, true);
  if (decision.resident)
    refreshResidents(t, stores, refreshes);
  else {
    b.append(stores, b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1,
                                    -1, tensor.bytes, decision.updateBuffer,
                                    b.tensorHome(t)));
    storeBehind(t, decision.updateBuffer);
  }
  if (tensor.stateBytes > 0)
    addState(t, event, list, stores);
  for (Part &part : partsOf(t)) {
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
    for (int e = before.first; e >= 0; e = b.issues[e].next)
      b.issues[e].neededBy = decision.updatePart - 1;
    for (int e = stores.first; e >= 0; e = b.issues[e].next)
      b.issues[e].neededBy = decision.updatePart;
    b.issues[event].neededBy = decision.updatePart;
    b.append(section.among, before);
    b.append(section.among, event);
    b.append(section.among, stores);
    return;
  }
  b.append(list, event);
  b.append(list, pendingStores);
  b.append(choices.overlap ? pendingStores : list, stores);
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
    b.cover(buffer, b.lastRun(next), b.lastStep(next), b.lastStep(next));
}

void TensorBuilder::addState(int t, int event, EventList &list,
                             EventList &stores) {
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
    b.cover(buffer, b.firstRun(decisions[t].updatePhase), 0, 0);
  b.append(list, b.makeTransfer(EventKind::LoadState, inTensors, t, -1, -1,
                                bytes, buffer, b.stateHome(t)));
  b.append(stores, b.makeTransfer(EventKind::StoreState, outTensors, t, -1, -1,
                                  bytes, buffer, b.stateHome(t)));
  storeBehind(t, buffer);
}

/// The copies of the devices that do not update. What goes through the host is
/// loaded at the end, where nothing is held up behind it.
void TensorBuilder::refreshResidents(int t, EventList &stores,
                                     EventList &refreshes) {
  const Decision &decision = decisions[t];
  int64_t bytes = problem.tensors[t].bytes;
  bool stored = false;
  for (auto [device, buffer] : elementsOf(residents, decision.residents)) {
    if (device == decision.owner)
      continue;
    if (b.canCopy(decision.owner, device)) {
      b.append(stores, b.makeCopy(EventKind::CopyTensor, peerTensors, t, -1, -1,
                                  bytes, decision.updateBuffer, buffer));
      continue;
    }
    if (!stored)
      b.append(stores,
               b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1,
                              bytes, decision.updateBuffer, b.tensorHome(t)));
    stored = true;
    b.append(refreshes, b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1,
                                       -1, bytes, buffer, b.tensorHome(t)));
  }
}

} // namespace harmony::planner
