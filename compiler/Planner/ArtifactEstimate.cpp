//===- ArtifactEstimate.cpp - What the artifact's estimator says ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules are those of 3_scheduler/simulator.py and sim_data_struct.py of the
// artifact. Every device has six queues. A task swaps its weights in; for every
// microbatch its input comes, it computes, its result goes; a backward task
// swaps its gradients out, whereupon the host updates; the pack is freed. What
// waits for what differs with and without prefetch: see inputWaits() and
// Builder::task().
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ArtifactSchedule.h"
#include "compiler/Planner/QueueSimulator.h"

#include <algorithm>
#include <map>

namespace harmony::planner {

namespace {

enum Stream { SwapIn, PeerIn, Compute, PeerOut, SwapOut, Host };
constexpr int streams = 6;

struct Task {
  bool backward = false;
  bool criterion = false; ///< of the last pack: its forward is not a task
  ArtifactPack pack;
  int device = 0;
  int64_t microbatch = 0;
};

using Waits = std::vector<int>; ///< events

/// What later tasks of a device wait for.
struct Done {
  int freed = -1;
  std::vector<int> computed; ///< by microbatch
};

class Builder {
public:
  Builder(const ArtifactSchedule &schedule, const ArtifactProfile &profile,
          const Machine &machine, const ArtifactRules &rules)
      : schedule(schedule), profile(profile), machine(machine), rules(rules),
        // Neighbours are the same device, so that values go by the host.
        swaps(schedule.dataParallel || schedule.devices == 1),
        copies(schedule.dataParallel ? schedule.devices : 1),
        samples(schedule.batch / copies),
        lasts(static_cast<size_t>(schedule.devices)) {
    placeTasks();
    used = schedule.dataParallel
               ? schedule.devices
               : std::min(schedule.devices, static_cast<int>(tasks.size()));
    order.resize(static_cast<size_t>(schedule.devices) * streams);
  }

  ArtifactEstimate run() {
    for (number = 0; number < tasks.size(); ++number)
      task();
    countWeights();
    for (std::vector<int> &events : order) {
      work.queues.emplace_back();
      if (!events.empty())
        work.queues.back().push_back({std::move(events), 1});
    }
    std::vector<QueueInterval> intervals;
    QueueTimes times = simulateQueues(work, machine, used, 1, &intervals);
    if (times.blocked >= 0)
      throw Error("the schedule of " + schedule.model + " deadlocks");
    result.seconds = times.finish.front();
    result.deviceSeconds.assign(copies > 1 ? 1 : schedule.devices, 0);
    for (const QueueInterval &interval : intervals) {
      double &end = result.deviceSeconds[deviceOf[interval.event]];
      end = std::max(end, interval.end);
    }
    return std::move(result);
  }

private:
  const ArtifactSchedule &schedule;
  const ArtifactProfile &profile;
  const Machine &machine;
  const ArtifactRules &rules;
  bool swaps;
  int64_t copies;  ///< of every task: data parallel devices
  int64_t samples; ///< of a device
  int used = 1;    ///< devices
  std::vector<Task> tasks;

  QueueWork work;
  std::vector<int> deviceOf;           ///< by event
  std::vector<std::vector<int>> order; ///< by device and stream
  std::vector<Done> lasts;             ///< by device: its task before
  ArtifactEstimate result;

  /// By layer and microbatch of the forward: when it is with the host process
  /// whose device needs it.
  std::map<std::pair<int, int64_t>, int> stashed;
  /// Of the task before, by its microbatch: results that go by the host.
  std::vector<int> sent;
  /// Of copies to the next task: sender's gate and copy, by microbatch.
  std::vector<std::pair<int, int>> copied;

  // Of the task that is built.
  size_t number = 0;
  int weights = -1; ///< their swap in
  std::vector<int> computed, results, recomputed;
  std::vector<int> sentNow;
  std::vector<std::pair<int, int>> copiedNow;

  //===--------------------------------------------------------------------===//
  // Tasks
  //===--------------------------------------------------------------------===//

  void placeTasks() {
    auto place = [&](bool backward, bool criterion, ArtifactPack pack) {
      int device = schedule.dataParallel
                       ? 0
                       : static_cast<int>(tasks.size()) % schedule.devices;
      tasks.push_back({backward, criterion, pack, device,
                       backward ? schedule.backwardMicrobatch
                                : schedule.forwardMicrobatch});
    };
    for (const ArtifactPack &pack : schedule.forwardPacks)
      place(false, false, pack);
    for (size_t p = schedule.backwardPacks.size(); p-- > 0;)
      place(true, p + 1 == schedule.backwardPacks.size(),
            schedule.backwardPacks[p]);
  }

  /// The device of the backward task whose pack begins with a layer; -1: none
  /// needs that layer's input kept.
  int stashUser(int layer) const {
    for (const Task &task : tasks)
      if (task.backward && !task.criterion && task.pack.firstLayer == layer)
        return task.device;
    return -1;
  }

  /// The last forward task's results go by the host where the criterion's pack
  /// runs other microbatches than the forward.
  bool forwardByMessage(size_t task) const {
    return !swaps && task + 1 == schedule.forwardPacks.size() &&
           schedule.forwardMicrobatch != schedule.backwardMicrobatch;
  }

  /// The microbatch of the forward that has the last sample of one of this
  /// task's.
  int64_t forwardMicrobatch(int64_t i) const {
    return ((i + 1) * tasks[number].microbatch - 1) /
           schedule.forwardMicrobatch;
  }

  //===--------------------------------------------------------------------===//
  // Sizes and durations
  //===--------------------------------------------------------------------===//

  int64_t weightBytes(const ArtifactPack &pack) const {
    return sum(profile.weightBytes, pack);
  }
  int64_t bufferBytes(const ArtifactPack &pack) const {
    return sum(profile.bufferBytes, pack);
  }
  template <typename T>
  static T sum(const std::vector<T> &list, const ArtifactPack &pack) {
    T total = 0;
    for (int l = pack.firstLayer; l <= pack.lastLayer; ++l)
      total += list[l];
    return total;
  }
  double forwardSeconds(int first, int last, int64_t microbatch) const {
    double total = 0;
    for (int l = first; l <= last; ++l)
      total += profile.forwardSeconds(l, microbatch);
    return total;
  }
  double backwardSeconds(const ArtifactPack &pack, int64_t microbatch) const {
    double total = 0;
    for (int l = pack.firstLayer; l <= pack.lastLayer; ++l)
      total += profile.backwardSeconds(l, microbatch);
    return total;
  }
  double messageSeconds(int64_t bytes, int from, int to) const {
    return from == to ? 0
                      : 2 * static_cast<double>(bytes) * used /
                            rules.messageBytesPerSecond;
  }

  //===--------------------------------------------------------------------===//
  // Events
  //===--------------------------------------------------------------------===//

  int add(Stream stream, double seconds, const Waits &waits) {
    int device = tasks[number].device;
    int event = static_cast<int>(work.events.size());
    work.events.emplace_back();
    work.events.back().seconds = seconds;
    for (int wait : waits)
      if (wait >= 0)
        await(event, wait);
    deviceOf.push_back(device);
    order[static_cast<size_t>(device) * streams + stream].push_back(event);
    return event;
  }

  void await(int event, int other) {
    QueueWork::Wait wait;
    wait.event = other;
    work.events[event].waits.push_back(wait);
  }

  int transfer(Stream stream, int from, int to, int64_t bytes,
               const Waits &waits) {
    const Link &link = machine.link(from, to);
    int event = add(stream, link.latencySeconds, waits);
    work.events[event].bytes = static_cast<double>(bytes);
    work.events[event].link = static_cast<int>(&link - machine.links.data());
    return event;
  }

  /// Between a device and the host; `count` adds what all devices move.
  int swapIn(int64_t bytes, int64_t &count, const Waits &waits) {
    count += bytes * copies;
    return transfer(SwapIn, hostEndpoint, tasks[number].device, bytes, waits);
  }
  int swapOut(int64_t bytes, int64_t &count, const Waits &waits) {
    count += bytes * copies;
    return transfer(SwapOut, tasks[number].device, hostEndpoint, bytes, waits);
  }

  /// To the device of the next task, whose receive() is its other end.
  int send(int64_t bytes, int64_t &count, const Waits &waits) {
    count += bytes;
    int gate = add(PeerOut, 0, waits);
    int event = transfer(PeerOut, tasks[number].device,
                         tasks[number + 1].device, bytes, {gate});
    copiedNow.emplace_back(gate, event);
    return event;
  }
  int receive(int64_t bytes, int64_t microbatch, const Waits &waits) {
    auto [sendersGate, sending] = copied[microbatch];
    int gate = add(PeerIn, 0, waits);
    if (rules.rendezvous)
      await(sending, gate);
    return transfer(PeerIn, tasks[number - 1].device, tasks[number].device,
                    bytes, {gate, sendersGate});
  }

  //===--------------------------------------------------------------------===//
  // One task
  //===--------------------------------------------------------------------===//

  /// What an input from the host waits for on its device. With prefetch there
  /// are two buffers: the first is free when the task before has computed its
  /// last microbatch but one, the second when it is freed.
  Waits inputWaits(int64_t i) const {
    const Done &last = lasts[tasks[number].device];
    if (rules.prefetch && rules.doubleBuffers) {
      if (i == 0)
        return last.computed.size() < 2
                   ? Waits{}
                   : Waits{last.computed[last.computed.size() - 2]};
      return {i == 1 ? last.freed : computed[i - 2]};
    }
    if (i == 0)
      return {last.freed};
    // Without prefetch one swap follows the other.
    bool inTurn = swaps && !rules.prefetch && !results.empty();
    return {inTurn ? results[i - 1] : computed[i - 1]};
  }

  int input(int64_t i) {
    const Task &task = tasks[number];
    int layer = task.pack.firstLayer;
    int64_t bytes = profile.inputBytes[layer] * task.microbatch;
    Waits waits = inputWaits(i);
    if (task.backward && !task.criterion) {
      waits.push_back(stashed.at({layer, forwardMicrobatch(i)}));
      return swapIn(bytes, result.bytes.stashIn, waits);
    }
    if (layer == 0)
      return swapIn(bytes, result.bytes.inputs, waits);
    if (!swaps && !forwardByMessage(number - 1)) {
      if (!rules.prefetch)
        waits = {i == 0 ? weights : computed[i - 1]};
      return receive(bytes, i, waits);
    }
    waits.push_back(sent[task.backward ? forwardMicrobatch(i) : i]);
    return swapIn(bytes, result.bytes.valuesIn, waits);
  }

  void task() {
    const Task &task = tasks[number];
    const Done &last = lasts[task.device];
    int64_t trips = samples / task.microbatch;
    int64_t held = weightBytes(task.pack) + bufferBytes(task.pack);
    int64_t uncounted = 0; // see countWeights()
    computed.clear();
    results.clear();
    recomputed.clear();
    // With prefetch the first input is asked for before the weights, unless it
    // comes by a message.
    bool early =
        rules.prefetch && !(number > 0 && forwardByMessage(number - 1));
    int first = early ? input(0) : -1;
    weights = swapIn(held, uncounted,
                     {!rules.prefetch         ? last.freed
                      : last.computed.empty() ? -1
                                              : last.computed.back()});
    for (int64_t i = 0; i < trips; ++i) {
      int in = i == 0 && early ? first : input(i);
      if (task.backward)
        backward(i, in);
      else
        forward(i, in);
    }
    // Copies between devices hold nothing up; without prefetch swaps do.
    int end = swaps && !rules.prefetch && !results.empty() ? results.back()
                                                           : computed.back();
    int freed = task.backward ? finishBackward(held, end)
                              : add(Compute, machine.phaseSeconds, {end});
    lasts[task.device] = {freed, std::move(computed)};
    sent = std::move(sentNow);
    copied = std::move(copiedNow);
    sentNow.clear();
    copiedNow.clear();
  }

  void forward(int64_t i, int in) {
    const Task &task = tasks[number];
    int last = in;
    for (int layer = task.pack.firstLayer; layer <= task.pack.lastLayer;) {
      Waits waits{last, weights};
      if (int user = stashUser(layer); user >= 0) {
        int64_t bytes = profile.inputBytes[layer] * task.microbatch;
        int out = swapOut(bytes, result.bytes.stashOut, {last});
        stashed[{layer, i}] =
            add(Host, messageSeconds(bytes, task.device, user), {out});
        if (!rules.prefetch)
          waits.push_back(out);
      }
      int end = layer;
      while (end < task.pack.lastLayer && stashUser(end + 1) < 0)
        ++end;
      last = add(Compute, forwardSeconds(layer, end, task.microbatch), waits);
      layer = end + 1;
    }
    computed.push_back(last);
    int64_t bytes =
        profile.inputBytes[task.pack.lastLayer + 1] * task.microbatch;
    if (forwardByMessage(number)) {
      int out = swapOut(bytes, result.bytes.valuesOut, {last});
      sentNow.push_back(add(
          Host, messageSeconds(bytes, task.device, tasks[number + 1].device),
          {out}));
      results.push_back(out);
      return;
    }
    results.push_back(swaps ? swapOut(bytes, result.bytes.valuesOut, {last})
                            : send(bytes, result.bytes.peerValues, {last}));
    if (swaps)
      sentNow.push_back(results.back());
  }

  void backward(int64_t i, int in) {
    const Task &task = tasks[number];
    double recompute = forwardSeconds(task.pack.firstLayer, task.pack.lastLayer,
                                      task.microbatch);
    recomputed.push_back(add(Compute, recompute, {in, weights}));
    Waits waits{recomputed.back()};
    if (!task.criterion) {
      int64_t bytes =
          profile.inputBytes[task.pack.lastLayer + 1] * task.microbatch;
      Waits gradient;
      if (!rules.prefetch)
        gradient.push_back(recomputed.back());
      else if (i > 0)
        gradient.push_back(recomputed[i - 1]);
      if (swaps)
        gradient.push_back(sent[i]);
      waits.push_back(swaps ? swapIn(bytes, result.bytes.gradientsIn, gradient)
                            : receive(bytes, i, gradient));
    }
    double seconds = backwardSeconds(task.pack, task.microbatch);
    computed.push_back(
        add(Compute, rules.backwardHoldsForward ? seconds - recompute : seconds,
            waits));
    if (task.pack.firstLayer == 0)
      return;
    int64_t bytes = profile.inputBytes[task.pack.firstLayer] * task.microbatch;
    results.push_back(
        swaps ? swapOut(bytes, result.bytes.gradientsOut, {computed.back()})
              : send(bytes, result.bytes.peerGradients, {computed.back()}));
    if (swaps)
      sentNow.push_back(results.back());
  }

  /// Gradients are reduced over data parallel devices and leave the first.
  int finishBackward(int64_t held, int end) {
    const ArtifactPack &pack = tasks[number].pack;
    if (copies > 1)
      end = add(Compute,
                2.0 * (used - 1) / used * static_cast<double>(held) /
                    machine.link(0, 1).bytesPerSecond,
                {end});
    int64_t uncounted = 0;
    int out = swapOut(held, uncounted, {end});
    result.bytes.weightGradientsOut += weightBytes(pack);
    result.bytes.buffersOut += bufferBytes(pack);
    int freed = add(Compute, machine.phaseSeconds, {out});
    add(rules.updatesBeside ? Host : Compute, sum(profile.updateSeconds, pack),
        {out});
    return freed;
  }

  /// Weights that stay on a device are charged like others, but not moved.
  void countWeights() {
    ArtifactBytes &bytes = result.bytes;
    std::vector<const Task *> lastForward(lasts.size()),
        firstBackward(lasts.size());
    for (const Task &task : tasks) {
      bytes.weightsIn += copies * weightBytes(task.pack);
      bytes.buffersIn += copies * bufferBytes(task.pack);
      if (!task.backward)
        lastForward[task.device] = &task;
      else if (!firstBackward[task.device])
        firstBackward[task.device] = &task;
    }
    for (size_t d = 0; d < lasts.size(); ++d) {
      if (!lastForward[d] || !firstBackward[d])
        continue;
      const ArtifactPack &a = lastForward[d]->pack, &b = firstBackward[d]->pack;
      ArtifactPack both{std::max(a.firstLayer, b.firstLayer),
                        std::min(a.lastLayer, b.lastLayer)};
      bytes.weightsPinned += copies * weightBytes(both);
      bytes.buffersPinned += copies * bufferBytes(both);
    }
    bytes.weightsIn -= bytes.weightsPinned;
    bytes.buffersIn -= bytes.buffersPinned;
  }
};

} // namespace

ArtifactEstimate estimateArtifact(const ArtifactSchedule &schedule,
                                  const ArtifactProfile &profile,
                                  const Machine &machine,
                                  const ArtifactRules &rules) {
  int layers = schedule.backwardPacks.back().lastLayer + 1;
  if (layers != profile.layerCount())
    throw Error("the schedule of " + schedule.model + " has " +
                std::to_string(layers) + " layers, the profile " +
                std::to_string(profile.layerCount()));
  if (schedule.devices > static_cast<int>(machine.devices.size()))
    throw Error("the schedule of " + schedule.model + " is for " +
                std::to_string(schedule.devices) + " devices, machine '" +
                machine.name + "' has " +
                std::to_string(machine.devices.size()));
  return Builder(schedule, profile, machine, rules).run();
}

} // namespace harmony::planner
