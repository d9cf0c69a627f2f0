//===- BuildTensors.cpp - Which tensors are where -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildTensors.h"

#include <algorithm>

namespace harmony::planner {

TensorBuilder::TensorBuilder(BuildContext &context)
    : b(context), problem(context.problem), choices(context.choices),
      uses(problem.tensors.size()) {
  for (int l = 0; l < problem.layerCount(); ++l)
    for (int i = 0; i < static_cast<int>(problem.layers[l].tensors.size()); ++i)
      uses[problem.layers[l].tensors[i].tensor].push_back({l, i});
}

//===--- decisions ---===//

void TensorBuilder::plan() {
  decisions.assign(problem.tensors.size(), {});
  runAccesses.clear();
  stretchAccesses.clear();
  stretches.clear();
  loads.clear();
  loaded.clear();
  residents.clear();
  parts.clear();
  for (int t = 0; t < tensorCount(); ++t) {
    Decision &decision = decisions[t];
    findAccesses(t);
    decideExchange(t);
    if (!problem.tensors[t].gradientUses.empty())
      decideUpdate(t);
    decision.resident = choices.stay && choices.resident[t] &&
                        !decision.exchanged &&
                        !(decision.updated && decision.onHost);
  }
  for (std::vector<int> &sections : b.foreignWork)
    std::sort(sections.begin(), sections.end());
  for (int t = 0; t < tensorCount(); ++t) {
    Decision &decision = decisions[t];
    if (decision.resident || decision.accesses.empty())
      continue;
    cutStretches(t);
    findLoads(t);
    for (const Loads &group : elementsOf(loads, decision.loads))
      for (int i = 0; group.size() > 1 && i < group.size(); ++i)
        b.couple(gatherPoint(group) - 1, phaseOf(loadAt(group, i)));
  }
}

/// Run accesses of a tensor by phase, ascending.
void TensorBuilder::findAccesses(int t) {
  int begin = static_cast<int>(runAccesses.size());
  for (auto [layer, position] : uses[t]) {
    const TensorUse &use = problem.layers[layer].tensors[position];
    for (int p : b.forwardPhases[layer]) {
      Parts parts = b.partsOf(p, layer, StepKind::Forward);
      runAccesses.push_back({p, parts, use.forwardWrites ? parts : 0});
    }
    for (int p : b.backwardPhases[layer]) {
      Parts parts = 0;
      if (b.readsAgain(p, layer, use))
        parts = b.partsOf(p, layer, StepKind::Recompute);
      if (use.backwardReads)
        parts |= b.partsOf(p, layer, StepKind::Backward);
      if (parts != 0)
        runAccesses.push_back({p, parts, 0});
    }
  }
  decisions[t].accesses = mergeByPhase(runAccesses, begin);
}

/// What forward phases on several devices write goes through the host store
/// from one to the next.
void TensorBuilder::decideExchange(int t) {
  Elements<const Access> accesses = accessesOf(t);
  if (std::none_of(accesses.begin(), accesses.end(),
                   [](const Access &a) { return a.writes != 0; }))
    return;
  const Access *before = nullptr;
  for (const Access &access : accesses) {
    if (before && deviceOf(access) != deviceOf(*before)) {
      decisions[t].exchanged = true;
      b.couple(before->phase, access.phase);
    }
    before = &access;
  }
}

/// The device that updates, or whose update engine on the host does.
int TensorBuilder::ownerOf(int t) const {
  bool chosen = !choices.owner.empty() && choices.owner[t] >= 0;
  return chosen ? choices.owner[t] : b.phase(decisions[t].lastAdd).device;
}

void TensorBuilder::decideUpdate(int t) {
  Decision &decision = decisions[t];
  for (const GradientUse &use : problem.tensors[t].gradientUses)
    for (int p : b.backwardPhases[use.layer])
      decision.lastAdd = std::max(decision.lastAdd, p);
  decision.updated = true;
  decision.onHost = choices.updateOnHost[t];
  decision.collectPhase = decision.updatePhase =
      b.deferred ? b.phaseCount()
                 : std::max(decision.lastAdd,
                            runAccesses[decision.accesses.end - 1].phase);
  if (decision.onHost)
    return;
  decision.owner = ownerOf(t);
  if (static_cast<size_t>(decision.owner) >= b.devicePhases.size()) {
    b.devicePhases.resize(decision.owner + 1);
    b.foreignWork.resize(decision.owner + 1);
  }
  decision.byOthers = t % (choices.others + 1) != 0;
  if (!b.deferred && choices.stay && collects(t)) {
    int beside = besidePhase(t);
    decision.updatedBeside =
        beside >= 0 && completePart(t, beside) + 1 < b.partCount(beside);
    if (decision.updatedBeside)
      decision.updatePhase = beside;
    else if (choices.overlap)
      decision.updatePhase = b.nextOn(decision.owner, decision.collectPhase);
  }
  if (decision.updatePhase < b.phaseCount())
    follow(decision.updatePhase, decision.owner);
  if (problem.tensors[t].contribution >= 0)
    follow(decision.lastAdd, decision.owner);
  followParts(t);
}

/// A part leaves its device when there is room where it goes, and makes room
/// where it was.
void TensorBuilder::followParts(int t) {
  const Decision &decision = decisions[t];
  for (const GradientUse &use : problem.tensors[t].gradientUses) {
    latest.assign(choices.groups, -1);
    for (int p : b.backwardPhases[use.layer]) {
      int &before = latest[b.phase(p).group];
      if (before >= 0 && b.phase(before).device != b.phase(p).device)
        b.couple(before, p);
      before = p;
      if (decision.collectPhase < b.phaseCount())
        follow(decision.collectPhase, b.phase(p).device);
      if (problem.tensors[t].contribution >= 0)
        follow(decision.lastAdd, b.phase(p).device);
    }
  }
}

/// Whether parts come from other devices: with overlap while the owner goes on
/// with its next phase, behind which the update then is.
bool TensorBuilder::collects(int t) const {
  if (choices.others > 0)
    return true;
  for (const GradientUse &use : problem.tensors[t].gradientUses)
    for (int p : b.backwardPhases[use.layer])
      if (b.phase(p).device != decisions[t].owner)
        return true;
  return false;
}

/// Something on a device follows phase `p`, so that the next phase there does.
void TensorBuilder::follow(int p, int device) {
  if (b.phase(p).device == device)
    return;
  b.couple(p, b.nextOn(device, p));
  // Tensors of one pack follow the same phase one after the other.
  std::vector<int> &work = b.foreignWork[device];
  if (work.empty() || work.back() != p)
    work.push_back(p);
}

//===--- events ---===//

void TensorBuilder::emit() {
  for (int t = 0; t < tensorCount(); ++t) {
    b.tensorHome(t);
    const Decision &decision = decisions[t];
    if (decision.accesses.empty())
      continue;
    if (decision.resident)
      addResident(t);
    else
      addStretches(t);
    if (decision.updated)
      addGradients(t);
  }
  addContributions();
  addUpdates();
}

/// A copy on every device that uses or updates the tensor.
void TensorBuilder::addResident(int t) {
  Decision &decision = decisions[t];
  int written = decision.owner; // the device whose copy changes
  int begin = static_cast<int>(residents.size());
  auto copyOn = [&](int device) {
    for (size_t i = begin; i < residents.size(); ++i)
      if (residents[i].device == device)
        return residents[i].buffer;
    int buffer = b.makePersistent(Content::Tensor, device, t, -1,
                                  problem.tensors[t].bytes);
    residents.push_back({device, buffer});
    b.draft.plan.load.push_back({Content::Tensor, t, device, buffer});
    return buffer;
  };
  for (const Access &access : accessesOf(t)) {
    b.touchRuns(access.phase, access.parts, copyOn(deviceOf(access)),
                access.writes);
    if (access.writes != 0)
      written = deviceOf(access);
  }
  if (decision.updated)
    decision.updateBuffer = copyOn(decision.owner);
  if (written >= 0)
    b.draft.plan.store.push_back(
        {Content::Tensor, t, written, copyOn(written)});
  decision.residents = {begin, static_cast<int>(residents.size())};
  std::sort(
      residents.begin() + begin, residents.end(),
      [](const Resident &x, const Resident &y) { return x.device < y.device; });
}

/// Stretches that the tensor is on a device, between which it is not.
void TensorBuilder::cutStretches(int t) {
  Decision &decision = decisions[t];
  // What is exchanged is on one device at a time.
  auto placeOf = [&](const Access &access) {
    return decision.exchanged ? 0 : deviceOf(access, decision);
  };
  auto isBefore = [](const Placed &x, const Placed &y) {
    return x.device < y.device;
  };
  placed.clear();
  for (const Access &access : accessesOf(t))
    placed.push_back({placeOf(access), access});
  if (decision.updated && !decision.onHost && !decision.byOthers) {
    Access last = {update, /*parts=*/0, /*writes=*/1};
    placed.push_back({placeOf(last), last});
  }
  if (!std::is_sorted(placed.begin(), placed.end(), isBefore))
    std::stable_sort(placed.begin(), placed.end(), isBefore);
  decision.stretches.begin = static_cast<int>(stretches.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const Access &access = placed[i].access;
    if (i == 0 || placed[i].device != placed[i - 1].device ||
        !staysFor(t, placed[i - 1].access, access, stretches.back().dirty)) {
      int begin = static_cast<int>(stretchAccesses.size());
      stretches.emplace_back().accesses = {begin, begin};
    }
    Stretch &stretch = stretches.back();
    stretchAccesses.push_back(access);
    ++stretch.accesses.end;
    stretch.dirty |= access.writes != 0;
  }
  decision.stretches.end = static_cast<int>(stretches.size());
}

void TensorBuilder::addStretches(int t) {
  for (Stretch &stretch : elementsOf(stretches, decisions[t].stretches))
    addStretch(t, stretch);
  for (Loads group : elementsOf(loads, decisions[t].loads))
    if (group.size() == 1)
      addLoad(t, group);
    else if (gatherOf(t) != Gather::Slices || !gatherSlices(t, group))
      gatherFromOne(t, group);
}

/// The place of an access among the phases of its device.
int TensorBuilder::ordinal(const Access &access,
                           const Decision &decision) const {
  if (access.phase != update)
    return b.phases[access.phase].ordinal;
  return b.ordinalOn(decision.owner, decision.updatePhase);
}

bool TensorBuilder::staysFor(int t, const Access &from, const Access &to,
                             bool dirty) const {
  const Decision &decision = decisions[t];
  if (deviceOf(from, decision) != deviceOf(to, decision))
    return false;
  int gap = ordinal(to, decision) - ordinal(from, decision);
  if (gap == 0)
    return true;
  if (!choices.stay)
    return false;
  // A copy that is loaded ahead must not meet the one that is still there, nor
  // be read before a delayed store has written it.
  int reach = choices.overlap ? (dirty ? 2 : 1) : 0;
  return choices.pinned[t] || gap <= std::max(reach, 1);
}

void TensorBuilder::addStretch(int t, Stretch &stretch) {
  Decision &decision = decisions[t];
  const Access &first = firstOf(stretch);
  const Access &last = stretchAccesses[stretch.accesses.end - 1];
  int64_t bytes = problem.tensors[t].bytes;
  stretch.buffer =
      b.makeBuffer(Content::Tensor, deviceOf(first, decision), t, -1, bytes);
  for (const Access &access : elementsOf(stretchAccesses, stretch.accesses))
    if (access.phase != update)
      b.touchRuns(access.phase, access.parts, stretch.buffer, access.writes);
  if (last.phase == update) {
    decision.loadForUpdate = first.phase == update;
    decision.updateBuffer = stretch.buffer;
  } else if (stretch.dirty) {
    Section &section = b.sections[last.phase];
    b.append(decision.exchanged ? section.contributions
             : choices.stay     ? section.stores
                                : section.storesNow,
             b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1,
                            bytes, stretch.buffer, b.tensorHome(t)));
  }
}

//===--- loads ---===//

Gather TensorBuilder::gatherOf(int t) const {
  return choices.gather.empty() || decisions[t].exchanged ? Gather::Each
                                                          : choices.gather[t];
}

void TensorBuilder::findLoads(int t) {
  Decision &decision = decisions[t];
  decision.loads.begin = static_cast<int>(loads.size());
  bool gathers = gatherOf(t) != Gather::Each;
  // By load: the first one of its pack. A device has a pack once in a round,
  // and its loads follow each other.
  packs.clear();
  packDevices.clear();
  int first = static_cast<int>(loaded.size());
  auto isOfPack = [&](int s, int other) {
    const Phase &x = b.phase(phaseOf(stretches[s])),
                &y = b.phase(phaseOf(stretches[other]));
    return x.kind == y.kind && x.firstLayer == y.firstLayer &&
           x.lastLayer == y.lastLayer;
  };
  for (int s = decision.stretches.begin; s < decision.stretches.end; ++s) {
    if (phaseOf(stretches[s]) == update)
      continue;
    int pack = static_cast<int>(packs.size());
    int device = b.phase(phaseOf(stretches[s])).device;
    for (int i = 0; gathers && i < pack; i = i + 1)
      if (packs[i] == i && packDevices[i] != device &&
          isOfPack(s, loaded[first + i])) {
        pack = i;
        break;
      }
    packs.push_back(pack);
    packDevices.push_back(device);
    packDevices[pack] = device;
    loaded.push_back(s);
  }
  int count = static_cast<int>(packs.size());
  if (!gathers) {
    for (int i = first; i < first + count; ++i)
      loads.push_back({i, i + 1});
  } else {
    // Pack by pack, behind the list of all.
    for (int pack = 0; pack < count; ++pack) {
      if (packs[pack] != pack)
        continue;
      int begin = static_cast<int>(loaded.size());
      for (int i = pack; i < count; ++i)
        if (packs[i] == pack) {
          int s = loaded[first + i];
          loaded.push_back(s);
        }
      addLoads({begin, static_cast<int>(loaded.size())});
    }
  }
  decision.loads.end = static_cast<int>(loads.size());
}

/// Of one pack.
void TensorBuilder::addLoads(Loads group) {
  if (canGather(group))
    loads.push_back(group);
  else
    for (int i = group.begin; i < group.end; ++i)
      loads.push_back({i, i + 1});
}

/// The phase with which loads of one pack are issued: with overlap when the
/// first of its devices begins the phase before, so that on each there is room
/// for them beside that phase; -1: before all phases.
int TensorBuilder::gatherPoint(Loads group) const {
  int before = b.phaseCount(), first = b.phaseCount();
  for (int i = 0; i < group.size(); ++i) {
    int p = phaseOf(loadAt(group, i));
    before = std::min(before, b.phases[p].blockBefore);
    first = std::min(first, p);
  }
  return choices.overlap ? before : first;
}

/// Whether all devices are between two phases, or about to begin the one
/// before, at once.
bool TensorBuilder::canGather(Loads group) const {
  int point = gatherPoint(group);
  if (!choices.stay)
    return false;
  for (int i = 0; i < group.size(); ++i) {
    const PhaseInfo &info = b.phases[phaseOf(loadAt(group, i))];
    int before = info.blockBefore;
    if (choices.overlap ? before >= 0 && b.phases[before].previous >= point
                        : info.previous >= point)
      return false;
  }
  return true;
}

int TensorBuilder::makeLoad(int t, const Stretch &load, int need) {
  int event =
      b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                     problem.tensors[t].bytes /
                         (choices.othersGather ? choices.others + 1 : 1),
                     load.buffer, b.tensorHome(t));
  b.issues[event].neededBy = need;
  return event;
}

int TensorBuilder::makeCopy(int t, const Stretch &from, const Stretch &to,
                            int need) {
  int event = b.makeCopy(EventKind::CopyTensor, peerTensors, t, -1, -1,
                         problem.tensors[t].bytes, from.buffer, to.buffer);
  b.issues[event].neededBy = need;
  return event;
}

/// The first part that needs one of them.
int TensorBuilder::needOf(Loads group) const {
  Parts parts = 0;
  for (int i = 0; i < group.size(); ++i)
    parts |= firstOf(loadAt(group, i)).parts;
  return b.firstOf(parts);
}

/// Of one.
void TensorBuilder::addLoad(int t, Loads group) {
  const Stretch &load = loadAt(group, 0);
  int p = phaseOf(load);
  bool ahead = choices.overlap && choices.stay && !decisions[t].exchanged;
  b.append(ahead ? b.sections[b.phases[p].block].loads
                 : b.sections[p].lateLoads,
           makeLoad(t, load, needOf(group)));
}

/// The device of the group that is to load does, and so does whoever it has no
/// link to; the others copy.
void TensorBuilder::gatherFromOne(int t, Loads group) {
  int one = 0;
  for (int i = 0; i < group.size(); ++i)
    if (!choices.loader.empty() &&
        b.phase(phaseOf(loadAt(group, i))).group == choices.loader[t])
      one = i;
  const Stretch &from = loadAt(group, one);
  EventList &list = b.gathersAt(gatherPoint(group));
  int need = needOf(group);
  b.append(list, makeLoad(t, from, need));
  for (int i = 0; i < group.size(); ++i) {
    const Stretch &load = loadAt(group, i);
    if (i != one)
      b.append(list, b.canCopy(deviceOf(from), deviceOf(load))
                         ? makeCopy(t, from, load, need)
                         : makeLoad(t, load, need));
  }
}

/// Slices of equal size, as far as alignment allows. Where there are fewer than
/// devices, those of one tensor are of other devices than those of the next.
/// False: the tensor is too small, or a link is missing.
bool TensorBuilder::gatherSlices(int t, Loads group) {
  int64_t bytes = problem.tensors[t].bytes;
  int count = group.size();
  int most = std::min(count, choices.slices);
  int64_t size = alignedBytes((bytes + most - 1) / most);
  bool linked = size < bytes;
  for (int from = 0; from < count && linked; ++from)
    for (int to = 0; to < count; ++to)
      linked &= from == to || b.canCopy(deviceOf(loadAt(group, from)),
                                        deviceOf(loadAt(group, to)));
  if (!linked)
    return false;
  EventList &list = b.gathersAt(gatherPoint(group));
  int slices = static_cast<int>((bytes + size - 1) / size);
  int need = needOf(group);
  auto cut = [&](int event, int64_t k) {
    b.slice(event, k * size, std::min(size, bytes - k * size));
    b.append(list, event);
  };
  int first = most < count ? static_cast<int>(int64_t(t) * most % count) : 0;
  auto loadOf = [&](int k) { return loadAt(group, (first + k) % count); };
  for (int k = 0; k < slices; ++k)
    cut(makeLoad(t, loadOf(k), need), k);
  for (int k = 0; k < slices; ++k)
    for (int other = 1; other < count; ++other)
      cut(makeCopy(t, loadOf(k), loadOf(k + other), need), k);
  return true;
}

} // namespace harmony::planner
