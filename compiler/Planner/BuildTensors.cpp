//===- BuildTensors.cpp - Which tensors are where -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildTensors.h"

#include <algorithm>
#include <tuple>

namespace harmony::planner {

TensorBuilder::TensorBuilder(BuildContext &context)
    : b(context), problem(context.problem), choices(context.choices),
      decisions(problem.tensors.size()), uses(problem.tensors.size()),
      parts(problem.tensors.size()) {
  for (int l = 0; l < problem.layerCount(); ++l)
    for (int i = 0; i < static_cast<int>(problem.layers[l].tensors.size()); ++i)
      uses[problem.layers[l].tensors[i].tensor].push_back({l, i});
}

//===--- decisions ---===//

void TensorBuilder::plan() {
  for (int t = 0; t < tensorCount(); ++t) {
    Decision &decision = decisions[t];
    decision.accesses = runAccesses(t);
    decideExchange(decision);
    if (!problem.tensors[t].gradientUses.empty())
      decideUpdate(t);
    decision.resident = choices.stay && choices.resident[t] &&
                        !decision.exchanged &&
                        !(decision.updated && decision.onHost);
  }
  for (std::vector<int> &sections : b.foreignWork)
    std::sort(sections.begin(), sections.end());
  for (int t = 0; t < tensorCount(); ++t) {
    if (decisions[t].resident || decisions[t].accesses.empty())
      continue;
    cutStretches(t);
    if (gatherOf(t) != Gather::Each)
      for (const Loads &loads : loadsOf(t))
        if (loads.size() > 1)
          for (const Stretch *load : loads)
            b.couple(gatherPoint(loads) - 1, phaseOf(*load));
  }
}

/// Run accesses of a tensor by phase, ascending.
std::vector<TensorBuilder::Access> TensorBuilder::runAccesses(int t) const {
  std::vector<Access> accesses;
  for (auto [layer, position] : uses[t]) {
    const TensorUse &use = problem.layers[layer].tensors[position];
    for (int p : b.forwardPhases[layer]) {
      Parts parts = b.partsOf(p, layer, StepKind::Forward);
      accesses.push_back({p, parts, use.forwardWrites ? parts : 0});
    }
    for (int p : b.backwardPhases[layer]) {
      Parts parts = 0;
      if (b.readsAgain(p, layer, use))
        parts = b.partsOf(p, layer, StepKind::Recompute);
      if (use.backwardReads)
        parts |= b.partsOf(p, layer, StepKind::Backward);
      if (parts != 0)
        accesses.push_back({p, parts, 0});
    }
  }
  return mergeByPhase(std::move(accesses));
}

/// What forward phases on several devices write goes through the host store
/// from one to the next.
void TensorBuilder::decideExchange(Decision &decision) {
  const std::vector<Access> &accesses = decision.accesses;
  bool written = std::any_of(accesses.begin(), accesses.end(),
                             [](const Access &a) { return a.writes != 0; });
  for (size_t i = 1; written && i < accesses.size(); ++i)
    if (deviceOf(accesses[i]) != deviceOf(accesses[i - 1])) {
      decision.exchanged = true;
      b.couple(accesses[i - 1].phase, accesses[i].phase);
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
                 : std::max(decision.lastAdd, decision.accesses.back().phase);
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
  std::map<std::pair<int, int>, int> latest; // phase by use and group
  const std::vector<GradientUse> &uses = problem.tensors[t].gradientUses;
  for (int use = 0; use < static_cast<int>(uses.size()); ++use)
    for (int p : b.backwardPhases[uses[use].layer]) {
      auto [before, isFirst] = latest.insert({{use, b.phase(p).group}, p});
      if (!isFirst && b.phase(before->second).device != b.phase(p).device)
        b.couple(before->second, p);
      before->second = p;
      if (decision.collectPhase < b.phaseCount())
        follow(decision.collectPhase, b.phase(p).device);
      if (problem.tensors[t].contribution >= 0)
        follow(decision.lastAdd, b.phase(p).device);
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
  b.foreignWork[device].push_back(p);
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
  std::map<int, int> &copies = decision.residents;
  auto copyOn = [&](int device) {
    auto [copy, isNew] = copies.insert({device, -1});
    if (isNew) {
      copy->second = b.makePersistent(Content::Tensor, device, t, -1,
                                      problem.tensors[t].bytes);
      b.draft.plan.load.push_back({Content::Tensor, t, device, copy->second});
    }
    return copy->second;
  };
  for (const Access &access : decision.accesses) {
    b.touchRuns(access.phase, access.parts, copyOn(deviceOf(access)),
                access.writes);
    if (access.writes != 0)
      written = deviceOf(access);
  }
  if (decision.updated)
    decision.updateBuffer = copyOn(decision.owner);
  if (written >= 0)
    b.draft.plan.store.push_back(
        {Content::Tensor, t, written, copies[written]});
}

/// Stretches that the tensor is on a device, between which it is not.
void TensorBuilder::cutStretches(int t) {
  Decision &decision = decisions[t];
  std::vector<Access> all = decision.accesses;
  if (decision.updated && !decision.onHost && !decision.byOthers)
    all.push_back({update, /*parts=*/0, /*writes=*/1});
  // What is exchanged is on one device at a time.
  std::map<int, std::vector<Access>> byDevice;
  for (const Access &access : all)
    byDevice[decision.exchanged ? 0 : deviceOf(access, decision)].push_back(
        access);
  for (const auto &[device, accesses] : byDevice)
    for (size_t i = 0; i < accesses.size(); ++i) {
      if (i == 0 || !staysFor(t, accesses[i - 1], accesses[i],
                              decision.stretches.back().dirty))
        decision.stretches.emplace_back();
      Stretch &stretch = decision.stretches.back();
      stretch.accesses.push_back(accesses[i]);
      stretch.dirty |= accesses[i].writes != 0;
    }
}

void TensorBuilder::addStretches(int t) {
  for (Stretch &stretch : decisions[t].stretches)
    addStretch(t, stretch);
  for (const Loads &loads : loadsOf(t))
    if (loads.size() == 1)
      addLoad(t, *loads.front());
    else if (gatherOf(t) != Gather::Slices || !gatherSlices(t, loads))
      gatherFromOne(t, loads);
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
  const Access &first = stretch.accesses.front();
  const Access &last = stretch.accesses.back();
  int64_t bytes = problem.tensors[t].bytes;
  stretch.buffer =
      b.makeBuffer(Content::Tensor, deviceOf(first, decision), t, -1, bytes);
  for (const Access &access : stretch.accesses)
    if (access.phase != update)
      b.touchRuns(access.phase, access.parts, stretch.buffer, access.writes);
  if (last.phase == update) {
    decision.loadForUpdate = first.phase == update;
    decision.updateBuffer = stretch.buffer;
  } else if (stretch.dirty) {
    Section &section = b.sections[last.phase];
    (decision.exchanged ? section.contributions
     : choices.stay     ? section.stores
                        : section.storesNow)
        .push_back(b.makeTransfer(EventKind::StoreTensor, outTensors, t, -1, -1,
                                  bytes, stretch.buffer, b.tensorHome(t)));
  }
}

//===--- loads ---===//

Gather TensorBuilder::gatherOf(int t) const {
  return choices.gather.empty() || decisions[t].exchanged ? Gather::Each
                                                          : choices.gather[t];
}

/// Those of one pack, which the groups run side by side, together.
std::vector<TensorBuilder::Loads> TensorBuilder::loadsOf(int t) const {
  bool gathers = gatherOf(t) != Gather::Each;
  std::vector<Loads> packs;
  std::map<std::tuple<PhaseKind, int, int>, size_t> index;
  for (const Stretch &stretch : decisions[t].stretches) {
    if (phaseOf(stretch) == update)
      continue;
    const Phase &phase = b.phase(phaseOf(stretch));
    size_t at = packs.size();
    if (gathers)
      at = index.insert({{phase.kind, phase.firstLayer, phase.lastLayer}, at})
               .first->second;
    if (at == packs.size())
      packs.emplace_back();
    packs[at].push_back(&stretch);
  }
  if (!gathers)
    return packs;
  std::vector<Loads> result;
  for (const Loads &loads : packs)
    if (canGather(loads))
      result.push_back(loads);
    else
      for (const Stretch *load : loads)
        result.push_back({load});
  return result;
}

/// The phase with which loads of one pack are issued: with overlap when the
/// first of its devices begins the phase before, so that on each there is room
/// for them beside that phase; -1: before all phases.
int TensorBuilder::gatherPoint(const Loads &loads) const {
  int before = b.phaseCount(), first = b.phaseCount();
  for (const Stretch *load : loads) {
    before = std::min(before, b.phases[phaseOf(*load)].blockBefore);
    first = std::min(first, phaseOf(*load));
  }
  return choices.overlap ? before : first;
}

/// Whether all devices are between two phases, or about to begin the one
/// before, at once.
bool TensorBuilder::canGather(const Loads &loads) const {
  int point = gatherPoint(loads);
  return choices.stay &&
         std::all_of(loads.begin(), loads.end(), [&](const Stretch *load) {
           const PhaseInfo &info = b.phases[phaseOf(*load)];
           if (!choices.overlap)
             return info.previous < point;
           int before = info.blockBefore;
           return before < 0 || b.phases[before].previous < point;
         });
}

int TensorBuilder::makeLoad(int t, const Stretch &load, int need) {
  int event =
      b.makeTransfer(EventKind::LoadTensor, inTensors, t, -1, -1,
                     problem.tensors[t].bytes /
                         (choices.othersGather ? choices.others + 1 : 1),
                     load.buffer, b.tensorHome(t));
  b.neededBy[event] = need;
  return event;
}

int TensorBuilder::makeCopy(int t, const Stretch &from, const Stretch &to,
                            int need) {
  int event = b.makeCopy(EventKind::CopyTensor, peerTensors, t, -1, -1,
                         problem.tensors[t].bytes, from.buffer, to.buffer);
  b.neededBy[event] = need;
  return event;
}

/// The first part that needs one of them.
int TensorBuilder::needOf(const Loads &loads) const {
  Parts parts = 0;
  for (const Stretch *load : loads)
    parts |= load->accesses[0].parts;
  return b.firstOf(parts);
}

void TensorBuilder::addLoad(int t, const Stretch &load) {
  int p = phaseOf(load);
  bool ahead = choices.overlap && choices.stay && !decisions[t].exchanged;
  (ahead ? b.sections[b.phases[p].block].loads : b.sections[p].lateLoads)
      .push_back(makeLoad(t, load, needOf({&load})));
}

/// The device of the group that is to load does, and so does whoever it has no
/// link to; the others copy.
void TensorBuilder::gatherFromOne(int t, const Loads &loads) {
  const Stretch *one = loads.front();
  for (const Stretch *load : loads)
    if (!choices.loader.empty() &&
        b.phase(phaseOf(*load)).group == choices.loader[t])
      one = load;
  std::vector<int> &list = b.gathersAt(gatherPoint(loads));
  int need = needOf(loads);
  list.push_back(makeLoad(t, *one, need));
  for (const Stretch *load : loads)
    if (load != one && b.canCopy(deviceOf(*one), deviceOf(*load)))
      list.push_back(makeCopy(t, *one, *load, need));
    else if (load != one)
      list.push_back(makeLoad(t, *load, need));
}

/// Slices of equal size, as far as alignment allows. False: the tensor is too
/// small, or a link is missing.
bool TensorBuilder::gatherSlices(int t, const Loads &loads) {
  int64_t bytes = problem.tensors[t].bytes;
  int64_t count = static_cast<int64_t>(loads.size());
  int64_t size = alignedBytes((bytes + count - 1) / count);
  bool linked = size < bytes;
  for (const Stretch *from : loads)
    for (const Stretch *to : loads)
      linked &= from == to || b.canCopy(deviceOf(*from), deviceOf(*to));
  if (!linked)
    return false;
  std::vector<int> &list = b.gathersAt(gatherPoint(loads));
  int64_t slices = (bytes + size - 1) / size;
  int need = needOf(loads);
  auto cut = [&](int event, int64_t k) {
    b.slice(event, k * size, std::min(size, bytes - k * size));
    list.push_back(event);
  };
  for (int64_t k = 0; k < slices; ++k)
    cut(makeLoad(t, *loads[k], need), k);
  for (int64_t k = 0; k < slices; ++k)
    for (int64_t other = 1; other < count; ++other)
      cut(makeCopy(t, *loads[k], *loads[(k + other) % count], need), k);
  return true;
}

} // namespace harmony::planner
