//===- Build.cpp - Events and live ranges from choices --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/BuildTensors.h"
#include "compiler/Planner/BuildValues.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace harmony::planner {

std::vector<int> keepAll(const Problem &problem, int firstLayer,
                         int lastLayer) {
  std::vector<int> levels;
  for (int l = firstLayer; l <= lastLayer; ++l)
    levels.push_back(problem.levels(l));
  return levels;
}

int BuildContext::nextOn(int device, int p) const {
  const std::vector<int> &list = devicePhases[device];
  auto it = std::upper_bound(list.begin(), list.end(), p);
  return it == list.end() ? phaseCount() : *it;
}

int BuildContext::ordinalOn(int device, int p) const {
  const std::vector<int> &list = devicePhases[device];
  auto it = std::upper_bound(list.begin(), list.end(), p);
  int ordinal = it == list.begin() ? -1 : phases[*std::prev(it)].ordinal;
  return p < phaseCount() ? ordinal : ordinal + 1;
}

void BuildContext::reserve() {
  size_t steps = 0, mostUses = 0;
  for (const Phase &phase : draft.plan.phases)
    steps += phase.steps.size();
  for (const Tensor &tensor : problem.tensors)
    mostUses = std::max(mostUses, tensor.gradientUses.size());
  size_t size = steps + problem.tensors.size() + problem.values.size();
  events.reserve(4 * size);
  draft.plan.buffers.reserve(5 * size);
  draft.bufferTouches.reserve(10 * size);
  draft.homeTouches.reserve(4 * size);
  covers.reserve(12 * size);
  for (HomeKind kind :
       {HomeKind::Tensor, HomeKind::State, HomeKind::Gradient, HomeKind::Value,
        HomeKind::ValueGradient, HomeKind::Scalar}) {
    HomeTable &table = homeTables[static_cast<int>(kind)];
    bool ofValue = kind == HomeKind::Value || kind == HomeKind::ValueGradient;
    if (kind == HomeKind::Gradient)
      table.uses = 1 + choices.groups * static_cast<int>(mostUses);
    else if (kind == HomeKind::Scalar)
      table.uses = 1 + choices.groups;
    size_t objects = ofValue                    ? problem.values.size()
                     : kind == HomeKind::Scalar ? problem.scalars.size()
                                                : problem.tensors.size();
    table.index.assign(objects * table.uses, -1);
  }
}

namespace {

class Builder : BuildContext {
public:
  using BuildContext::BuildContext;

  Draft build() {
    makePhases();
    numberMicrobatches();
    reserve();
    sections.resize(static_cast<size_t>(phaseCount()) + 1);
    TensorBuilder tensors(*this);
    ValueBuilder values(*this);
    tensors.plan();
    values.link();
    makeRuns();
    for (int p = 0; p < phaseCount(); ++p)
      addSteps(p);
    addScalars();
    tensors.emit();
    values.emit();
    return finish();
  }

private:
  //===--- phases ---===//

  void makePhases() {
    forwardPhases.resize(problem.layers.size());
    backwardPhases.resize(problem.layers.size());
    std::map<std::tuple<int64_t, int64_t, int64_t>, std::pair<int, int>> chains;
    for (const PhaseChoice &choice : choices.phases) {
      int p = phaseCount();
      draft.plan.phases.push_back({choice.device,
                                   choice.kind,
                                   choice.firstLayer,
                                   choice.lastLayer,
                                   choice.microbatch,
                                   choice.firstSample,
                                   choice.trips,
                                   0,
                                   choice.group,
                                   choice.keep,
                                   {}});
      PhaseInfo &info = phases.emplace_back();
      auto [chain, isNew] =
          chains.insert({{choice.firstSample, choice.microbatch, choice.trips},
                         {chainCount, 0}});
      chainCount += isNew;
      info.chain = chain->second.first;
      info.position = chain->second.second++;
      info.root = p;
      placeOnDevice(p, choice.goesOn);
      Phase &phase = draft.plan.phases.back();
      if (phase.kind == PhaseKind::Backward) {
        addBackwardPhaseSteps(p);
      } else {
        addForwardSteps(p);
        info.firstBackward = static_cast<int>(phase.steps.size());
        for (int l = phase.lastLayer;
             phase.kind == PhaseKind::Turn && l >= phase.firstLayer; --l)
          addBackwardStep(p, l);
      }
      cutParts(p);
    }
    for (PhaseInfo &info : phases)
      if (info.next < 0)
        info.next = phaseCount();
    findBands();
    foreignWork.resize(devicePhases.size());
  }

  void findBands() {
    for (int p = 0; p < phaseCount(); ++p) {
      phases[p].band = p > 0 && isBeside(p - 1, p) ? phases[p - 1].band : p;
      for (int other = phases[p].band; other <= p; ++other)
        phases[other].bandEnd = p + 1;
    }
  }

  /// Forwards that write tensors take turns instead.
  bool isBeside(int before, int p) const {
    const Phase &a = phase(before), &b = phase(p);
    return isOpen(before) && isOpen(p) && a.group < b.group &&
           a.kind == b.kind && a.firstLayer == b.firstLayer &&
           a.lastLayer == b.lastLayer &&
           phases[before].parts == phases[p].parts && !problem.forwardsWrite();
  }

  void placeOnDevice(int p, bool goesOn) {
    size_t device = phase(p).device;
    if (device >= devicePhases.size())
      devicePhases.resize(device + 1);
    PhaseInfo &info = phases[p];
    info.block = p;
    info.next = -1;
    if (!devicePhases[device].empty()) {
      info.previous = devicePhases[device].back();
      PhaseInfo &before = phases[info.previous];
      goesOn &= phase(info.previous).firstLayer == phase(p).firstLayer &&
                phase(info.previous).lastLayer == phase(p).lastLayer;
      before.next = p;
      info.follows = info.previous;
      info.block = goesOn ? before.block : p;
      info.blockBefore = goesOn ? before.blockBefore : before.block;
      info.ordinal = before.ordinal + !goesOn;
    }
    devicePhases[device].push_back(p);
  }

  void addForwardSteps(int p) {
    Phase &phase = draft.plan.phases[p];
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
      forwardPhases[l].push_back(p);
      phase.steps.push_back({l, StepKind::Forward});
    }
  }

  void addBackwardStep(int p, int layer) {
    backwardPhases[layer].push_back(p);
    draft.plan.phases[p].steps.push_back({layer, StepKind::Backward});
  }

  /// What is made again in front of the backward that needs it first, or all of
  /// it in front of all of them.
  void addBackwardPhaseSteps(int p) {
    const Phase &of = phase(p);
    PhaseInfo &info = phases[p];
    std::vector<char> again, joined;
    findRecomputed(p, again, joined);
    info.recompute.assign(again.size(), -1);
    info.backward.assign(again.size(), -1);
    info.firstBackward = -1;
    for (int end = of.lastLayer; end >= of.firstLayer;) {
      int begin = end;
      while (begin > of.firstLayer &&
             (choices.recomputeAhead || joined[begin - of.firstLayer]))
        --begin;
      for (int l = begin; l <= end; ++l)
        if (again[l - of.firstLayer]) {
          info.recompute[l - of.firstLayer] = static_cast<int>(of.steps.size());
          draft.plan.phases[p].steps.push_back({l, StepKind::Recompute});
        }
      if (info.firstBackward < 0)
        info.firstBackward = static_cast<int>(of.steps.size());
      for (int l = end; l >= begin; --l) {
        info.backward[l - of.firstLayer] = static_cast<int>(of.steps.size());
        addBackwardStep(p, l);
      }
      end = begin - 1;
    }
  }

  /// By layer of the pack: `again`, of which something is to be made again for
  /// the pack's backward: what is not kept of its saved block, or outputs.
  /// `joined`: it, or one behind it, needs outputs that are made again by a
  /// layer before it.
  void findRecomputed(int p, std::vector<char> &again,
                      std::vector<char> &joined) const {
    const Phase &of = phase(p);
    size_t layers = static_cast<size_t>(of.lastLayer - of.firstLayer) + 1;
    again.assign(layers, 0);
    joined.assign(layers, 0);
    for (int l = of.lastLayer; l >= of.firstLayer; --l) {
      int level = of.level(l);
      char &need = again[l - of.firstLayer];
      need = problem.cost(l, of.microbatch).restBytes(level) > 0;
      if (level > 0)
        continue;
      int last = l;
      for (int v : problem.layers[l].outputs)
        for (int consumer : problem.values[v].consumers) {
          if (consumer > of.lastLayer)
            break;
          const ValueUse &use = inputUse(consumer, v);
          if (use.backwardReads ||
              (again[consumer - of.firstLayer] && readsAgain(p, consumer, use)))
            last = std::max(last, consumer);
        }
      need |= last > l;
      for (int m = l + 1; m <= last; ++m)
        joined[m - of.firstLayer] = 1;
    }
  }

  /// Of about equal time, and at the first backward.
  void cutParts(int p) {
    const Phase &of = phase(p);
    PhaseInfo &info = phases[p];
    int runs = std::min(choices.runs, Choices::mostRuns);
    std::vector<double> end; // of each step
    double total = 0;
    for (int s = 0; runs > 1 && s <= lastStep(p); ++s)
      end.push_back(total += stepSeconds(problem, of, of.steps[s]));
    int cuts = 1;
    for (int s = 0; s <= lastStep(p); ++s) {
      bool cut = s == 0 || s == info.firstBackward;
      for (; s > 0 && cuts < runs && end[s - 1] >= total * cuts / runs; ++cuts)
        cut = true;
      if (cut)
        info.parts.push_back(s);
    }
  }

  /// In each direction, by samples.
  void numberMicrobatches() {
    for (bool backward : {false, true})
      for (int l = 0; l < problem.layerCount(); ++l) {
        std::vector<int> list = backward ? backwardPhases[l] : forwardPhases[l];
        std::sort(list.begin(), list.end(), [&](int a, int b) {
          return phase(a).firstSample < phase(b).firstSample;
        });
        int64_t number = 0;
        for (int p : list) {
          Phase &of = draft.plan.phases[p];
          if (of.firstLayer == l &&
              backward == (of.kind == PhaseKind::Backward))
            of.firstMicrobatch = number;
          number += of.trips;
        }
      }
  }

  void makeRuns() {
    for (int p = 0; p < phaseCount(); ++p) {
      PhaseInfo &info = phases[p];
      for (int part = 0; part < partCount(p); ++part) {
        int first = info.parts[part];
        bool begins = part == 0 || choices.runs > 1 || first == info.split;
        info.runs.push_back(begins ? makeRun(p, first, lastStep(p) + 1)
                                   : info.runs.back());
        if (begins && part > 0)
          events[info.runs[part - 1]].endStep = first;
      }
    }
  }

  int makeRun(int p, int first, int end) {
    int event =
        makeEvent(EventKind::Run, phase(p).device, computeLane, -1, -1, p);
    events[event].firstStep = first;
    events[event].endStep = end;
    return event;
  }

  //===--- what one microbatch of a Run needs ---===//

  /// Saved blocks and workspaces.
  void addSteps(int p) {
    const Phase &of = phase(p);
    for (int s = 0; s <= lastStep(p); ++s) {
      Step step = of.steps[s];
      const Cost &cost = problem.cost(step.layer, of.microbatch);
      bool backward = step.kind == StepKind::Backward;
      int level = of.level(step.layer);
      int64_t workspace = backward ? cost.backwardWorkspace
                          : step.kind == StepKind::Recompute
                              ? cost.recomputeWorkspace(level)
                              : cost.forwardWorkspace;
      if (workspace > 0)
        touchSteps(p,
                   makeBuffer(Content::Workspace, of.device, step.layer, -1,
                              workspace),
                   true, s, s);
      if (backward)
        continue;
      if (step.kind == StepKind::Forward && cost.keptBytes(level) > 0)
        addKept(p, step.layer, cost.keptBytes(level));
      if (cost.restBytes(level) == 0)
        continue;
      int buffer = makeBuffer(Content::Saved, of.device, step.layer, -1,
                              cost.restBytes(level), 1, of.firstSample);
      int until = findStep(p, step.layer, StepKind::Backward);
      touchSteps(p, buffer, true, s, until < 0 ? s : until);
    }
  }

  /// What stays of a saved block from F to B.
  void addKept(int forward, int layer, int64_t bytes) {
    const Phase &from = phase(forward);
    int buffer = makeBuffer(Content::Saved, from.device, layer, keptPart, bytes,
                            from.trips, from.firstSample);
    int to = keepingPhase(forward, layer);
    Parts made = partsOf(forward, layer, StepKind::Forward);
    touchRuns(forward, made, buffer, made);
    touchRuns(to,
              partsOf(to, layer, StepKind::Recompute) |
                  partsOf(to, layer, StepKind::Backward),
              buffer, 0);
  }

  /// The B phase that has what an F phase keeps of a layer.
  int keepingPhase(int forward, int layer) const {
    const Phase &from = phase(forward);
    for (int p : backwardPhases[layer]) {
      const Phase &to = phase(p);
      if (phases[p].chain == phases[forward].chain &&
          to.device == from.device && to.level(layer) == from.level(layer))
        return p;
    }
    throw Error("phase " + std::to_string(forward) + " keeps layer " +
                std::to_string(layer) + " at level " +
                std::to_string(from.level(layer)) +
                ", but no backward phase on device " +
                std::to_string(from.device) + " has the same");
  }

  //===--- scalars ---===//

  void addScalars() {
    int prologue = -1;
    for (int s = 0; s < static_cast<int>(problem.scalars.size()); ++s) {
      if (problem.scalars[s].role == ScalarRole::Seed) {
        if (prologue < 0) {
          prologue = makeHostEvent(EventKind::Prologue, -1);
          prefix.insert(prefix.begin(), prologue);
          touchStepScalars(prologue, true);
        }
        addSeed(s, prologue);
      } else if (problem.scalars[s].role == ScalarRole::Accumulator) {
        addAccumulator(s);
      }
    }
    if (problem.epilogue) {
      epilogue = makeHostEvent(EventKind::Epilogue, -1);
      touchStepScalars(epilogue, true);
    }
  }

  /// On every device that runs a loss layer.
  void addSeed(int s, int prologue) {
    int64_t bytes = problem.scalars[s].bytes;
    int place = home(HomeKind::Scalar, s, -1, bytes);
    touchHome(prologue, place, true);
    std::map<int, std::set<int>> users; // phases by device
    for (int l = 0; l < problem.layerCount(); ++l)
      if (problem.layers[l].isLoss)
        for (const auto *list : {&forwardPhases[l], &backwardPhases[l]})
          for (int p : *list)
            users[phase(p).device].insert(p);
    for (const auto &[device, list] : users) {
      int buffer = makePersistent(Content::Scalar, device, s, -1, bytes);
      prefix.push_back(makeTransfer(EventKind::LoadScalar, inValues, s, -1, -1,
                                    bytes, buffer, place));
      for (int p : list)
        touchRuns(p, partsOfLoss(p), buffer, 0);
    }
  }

  Parts partsOfLoss(int p) const {
    Parts parts = 0;
    for (int l = phase(p).firstLayer; l <= phase(p).lastLayer; ++l)
      if (problem.layers[l].isLoss)
        for (StepKind kind :
             {StepKind::Forward, StepKind::Recompute, StepKind::Backward})
          parts |= partsOf(p, l, kind);
    return parts;
  }

  /// One for each group, where its loss layer is.
  void addAccumulator(int s) {
    const Scalar &scalar = problem.scalars[s];
    std::map<int, std::vector<int>> byGroup;
    for (int p : forwardPhases[scalar.layer])
      byGroup[phase(p).group].push_back(p);
    for (const auto &[group, list] : byGroup) {
      int device = phase(list.front()).device;
      int buffer =
          makePersistent(Content::Scalar, device, s, group, scalar.bytes);
      int zero =
          makeEvent(EventKind::ZeroScalar, device, computeLane, s, group, -1);
      touch(zero, buffer, true);
      prefix.push_back(zero);
      for (int p : list) {
        if (phase(p).device != device)
          throw Error("scalar '" + scalar.name + "' is added to on devices " +
                      std::to_string(device) + " and " +
                      std::to_string(phase(p).device) + " of one group");
        Parts adds = partsOf(p, scalar.layer, StepKind::Forward);
        touchRuns(p, adds, buffer, adds);
      }
      sections[list.back()].storesNow.push_back(makeTransfer(
          EventKind::StoreScalar, outValues, s, group, -1, scalar.bytes, buffer,
          home(HomeKind::Scalar, s, group, scalar.bytes)));
    }
  }

  //===--- the order ---===//

  static void append(std::vector<int> &to, const std::vector<int> &from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  /// The first phase of the device's next block, or the number of phases.
  int nextBlock(int p) const {
    int next = phases[p].next;
    while (next < phaseCount() && phases[next].block == phases[p].block)
      next = phases[next].next;
    return next;
  }

  void sortByNeed(std::vector<int> &list) const {
    std::stable_sort(list.begin(), list.end(),
                     [&](int x, int y) { return neededBy[x] < neededBy[y]; });
  }

  Draft finish() {
    for (Section &section : sections) {
      sortByNeed(section.loads);
      sortByNeed(section.gathers);
      sortByNeed(section.collected);
      sortByNeed(section.among);
    }
    sortByNeed(firstGathers);
    std::vector<int> order = prefix;
    bool overlap = choices.overlap;
    for (const std::vector<int> &list : devicePhases)
      if (overlap && !list.empty())
        append(order, sections[list.front()].loads);
    append(order, firstGathers);
    for (int band = 0; band < phaseCount(); band = phases[band].bandEnd) {
      int end = phases[band].bandEnd;
      for (int p = band; p < end; ++p)
        appendBefore(order, p);
      appendRuns(order, band, end);
      for (int p = band; p < end; ++p)
        appendBehind(order, p);
    }
    appendLast(order);
    return renumber(order);
  }

  void appendBefore(std::vector<int> &order, int p) const {
    const Section &section = sections[p];
    append(order, section.gathers);
    if (!choices.overlap)
      append(order, section.loads);
    else if (phases[p].block == p && nextBlock(p) < phaseCount())
      append(order, sections[nextBlock(p)].loads);
    append(order, section.lateLoads);
    append(order, section.zeros);
  }

  /// Of phases side by side, with the values that come in front of each Run,
  /// and what stands behind it.
  void appendRuns(std::vector<int> &order, int band, int end) {
    std::vector<size_t> come(end - band, 0), gone = come;
    for (int p = band; p < end; ++p)
      std::stable_sort(sections[p].values.begin(), sections[p].values.end(),
                       [&](const auto &x, const auto &y) {
                         return x.first != y.first
                                    ? x.first < y.first
                                    : neededBy[x.second] < neededBy[y.second];
                       });
    auto appendAmong = [&](int part) {
      for (int p = band; p < end; ++p) {
        const std::vector<int> &among = sections[p].among;
        for (size_t &at = gone[p - band];
             at < among.size() && neededBy[among[at]] <= part; ++at)
          order.push_back(among[at]);
      }
    };
    const std::vector<int> &runs = phases[band].runs;
    for (int part = 0; part < partCount(band);) {
      int next = part + 1;
      while (next < partCount(band) && runs[next] == runs[part])
        ++next;
      for (int p = band; p < end; ++p) {
        const std::vector<std::pair<int, int>> &values = sections[p].values;
        for (size_t &at = come[p - band];
             at < values.size() && values[at].first < next; ++at)
          order.push_back(values[at].second);
      }
      appendAmong(part - 1);
      for (int p = band; p < end; ++p)
        order.push_back(phases[p].runs[part]);
      part = next;
    }
    appendAmong(partCount(band) - 1);
  }

  void appendBehind(std::vector<int> &order, int p) const {
    const Section &section = sections[p];
    append(order, section.after);
    append(order, section.contributions);
    append(order, section.collected);
    append(order, section.updates);
    append(order, section.storesNow);
    if (!choices.overlap)
      append(order, section.stores);
    else if (phases[p].previous >= 0)
      append(order, sections[phases[p].previous].stores);
    append(order, section.hostContributions);
    append(order, section.hostUpdates);
  }

  /// What follows all phases.
  void appendLast(std::vector<int> &order) {
    const Section &last = sections[phaseCount()];
    std::vector<int> delayed;
    for (int p = 0; p < phaseCount(); ++p)
      if (choices.overlap && phases[p].next == phaseCount())
        append(delayed, sections[p].stores);
    if (epilogue >= 0) {
      append(order, delayed);
      append(order, last.hostContributions);
      order.push_back(epilogue);
      delayed.clear();
    }
    append(order, last.updates);
    append(order, last.storesNow);
    append(order, delayed);
    append(order, last.stores);
    append(order, last.hostUpdates);
  }

  /// Only the queues that the plan may use: peer queues where it copies.
  void numberQueues() {
    std::vector<char> used(devicePhases.size() * laneCount, 0);
    std::vector<int> hostIndex(static_cast<size_t>(machine.hostQueues), -1);
    for (const Event &event : events)
      if (event.queue <= hostQueue) {
        hostIndex[hostQueue - event.queue] = 0;
      } else {
        if (static_cast<size_t>(event.queue) >= used.size())
          used.resize((event.queue / laneCount + 1) * laneCount, 0);
        used[event.queue] = 1;
      }
    static constexpr Queue lanes[laneCount] = {
        {QueueKind::Compute, 0, 0}, {QueueKind::In, 0, 0},
        {QueueKind::In, 0, 1},      {QueueKind::Out, 0, 0},
        {QueueKind::Out, 0, 1},     {QueueKind::Peer, 0, 0},
        {QueueKind::Peer, 0, 1},    {QueueKind::Peer, 0, 2}};
    std::vector<int> index(used.size(), -1);
    std::vector<Queue> &queues = draft.plan.queues;
    for (size_t q = 0; q < used.size(); ++q) {
      Queue queue = lanes[q % laneCount];
      queue.device = static_cast<int>(q / laneCount);
      if (queue.kind == QueueKind::Peer && !used[q])
        continue;
      index[q] = static_cast<int>(queues.size());
      queues.push_back(queue);
    }
    for (int lane = 0; lane < machine.hostQueues; ++lane)
      if (lane == 0 || hostIndex[lane] == 0) {
        hostIndex[lane] = static_cast<int>(queues.size());
        queues.push_back({QueueKind::Host, hostEndpoint, lane});
      }
    for (Event &event : events)
      event.queue = event.queue <= hostQueue
                        ? hostIndex[hostQueue - event.queue]
                        : index[event.queue];
  }

  Draft renumber(const std::vector<int> &order) {
    Plan &plan = draft.plan;
    plan.problem = problem.name;
    plan.batch = problem.batch;
    plan.groups = choices.groups;
    plan.update = deferred ? UpdateOrder::Deferred : UpdateOrder::JustInTime;
    numberQueues();
    plan.events.reserve(order.size());
    std::vector<int> index(events.size(), -1);
    for (size_t i = 0; i < order.size(); ++i) {
      index[order[i]] = static_cast<int>(i);
      plan.events.push_back(std::move(events[order[i]]));
    }
    for (auto *touches :
         {&draft.bufferTouches, &draft.homeTouches, &draft.scalarTouches})
      for (Touch &touch : *touches)
        touch.event = index[touch.event];
    setLiveRanges(index);
    plan.traffic = trafficOf(plan, problem);
    return std::move(draft);
  }

  void setLiveRanges(const std::vector<int> &index) {
    Plan &plan = draft.plan;
    const Event &tail = plan.events.back();
    Point end{static_cast<int>(plan.events.size()) - 1,
              tail.kind == EventKind::Run ? tail.endStep - 1 : 0};
    for (Buffer &buffer : plan.buffers) {
      buffer.first = buffer.persistent ? Point{0, 0} : end;
      buffer.last = buffer.persistent ? end : Point{0, 0};
    }
    for (const Cover &cover : covers) {
      Buffer &buffer = plan.buffers[cover.buffer];
      int event = index[cover.event];
      buffer.first = std::min(buffer.first, {event, cover.firstStep});
      buffer.last = std::max(buffer.last, {event, cover.lastStep});
    }
  }
};

} // namespace

Draft build(const Problem &problem, const Machine &machine,
            const Choices &choices) {
  return Builder(problem, machine, choices).build();
}

} // namespace harmony::planner
