//===- Explain.cpp - What limits a plan -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Explain.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

namespace harmony::planner {

const char *name(Lack lack) {
  static const char *const names[] = {"loads",  "room to load", "stores",
                                      "copies", "host updates", "devices"};
  return names[static_cast<int>(lack)];
}

namespace {

/// An iteration of an event, `round` executions after the one at hand.
struct Instance {
  int event = -1;
  int64_t iteration = 0;
  int64_t round = 0;
};

class Causes {
public:
  Causes(const Plan &plan, const Problem &problem, const Machine &machine)
      : plan(plan), state(plan, problem, machine),
        tolerance(1e-9 * state.period) {
    size_t count = 0;
    for (const Event &event : plan.events) {
      first.push_back(count);
      count += static_cast<size_t>(event.trips);
    }
    position.resize(count);
    for (const std::vector<QueueLoop> &loops : queueLoops(plan)) {
      order.emplace_back();
      for (const QueueLoop &loop : loops)
        for (int64_t i = 0; i < loop.trips; ++i)
          for (int e : loop.events) {
            position[first[e] + static_cast<size_t>(i)] = order.back().size();
            order.back().push_back({e, i, 0});
          }
    }
    roomWaits.assign(count, -1);
  }

  const SteadyState &steady() const { return state; }
  const std::vector<Instance> &onQueue(int queue) const { return order[queue]; }

  double begin(const Instance &instance) const {
    return state.at(instance.event, instance.iteration).begin +
           static_cast<double>(instance.round) * state.period;
  }
  double end(const Instance &instance) const {
    return state.at(instance.event, instance.iteration).end +
           static_cast<double>(instance.round) * state.period;
  }

  /// The one before on the same queue.
  Instance before(const Instance &instance) const {
    const std::vector<Instance> &queue =
        order[plan.events[instance.event].queue];
    size_t at = position[first[instance.event] +
                         static_cast<size_t>(instance.iteration)];
    Instance result = queue[at > 0 ? at - 1 : queue.size() - 1];
    result.round = instance.round - (at > 0 ? 0 : 1);
    return result;
  }

  /// What ended last of all that an instance waits for.
  Instance cause(const Instance &instance) const {
    Instance last = before(instance);
    double latest = end(last);
    for (const Wait &wait : plan.events[instance.event].waits) {
      Instance awaited = awaitedBy(instance, wait);
      if (awaited.event >= 0 && end(awaited) > latest + tolerance) {
        last = awaited;
        latest = end(awaited);
      }
    }
    return last;
  }

  /// How much sooner a transfer in could have begun, had there been memory for
  /// it: of those that follow each other on its queue without a break up to it,
  /// the first waited so long for work on its device, or for something else to
  /// leave it, after the one before. 0 where that was not what it waited for.
  double waitForRoom(Instance instance) {
    std::vector<size_t> chain;
    double found = 0;
    while (true) {
      size_t index =
          first[instance.event] + static_cast<size_t>(instance.iteration);
      if (roomWaits[index] >= 0) {
        found = roomWaits[index];
        break;
      }
      roomWaits[index] = 0; // all in a ring: the link never rests
      chain.push_back(index);
      Instance by = cause(instance);
      const Event &load = plan.events[instance.event];
      const Event &event = plan.events[by.event];
      if (event.queue == load.queue) {
        instance = by;
        continue;
      }
      QueueKind kind = plan.queues[event.queue].kind;
      if (kind == QueueKind::Compute ||
          (kind == QueueKind::Out && event.device == load.device &&
           event.object != load.object))
        found = std::max(0.0, begin(instance) - end(before(instance)));
      break;
    }
    for (size_t index : chain)
      roomWaits[index] = found;
    return found;
  }

  /// What `device` lacks while `instance` is under way.
  Lack lackOf(const Instance &instance, int device) const {
    const Event &event = plan.events[instance.event];
    switch (plan.queues[event.queue].kind) {
    case QueueKind::In:
      if (event.device == device)
        return Lack::Load;
      break;
    case QueueKind::Out:
      if (event.device == device)
        return Lack::Store;
      break;
    case QueueKind::Peer:
      if (event.device == device || event.source == device)
        return Lack::Peer;
      break;
    case QueueKind::Host:
      return Lack::Host;
    case QueueKind::Compute:
      break;
    }
    return Lack::Devices;
  }

  /// Walks back from `from` along causes until `until`: `visit(instance, begin,
  /// end)` for each stretch of time, `gap(seconds)` for what none fills.
  template <typename Visit, typename Gap>
  void walkBack(Instance instance, double from, double until, Visit visit,
                Gap gap) const {
    double at = from;
    // Zero-length instances do not advance; rounds do.
    for (size_t steps = 0; at > until + tolerance; ++steps) {
      double ends = end(instance), begins = begin(instance);
      if (ends < at) {
        double to = std::max(ends, until);
        gap(at - to);
        at = to;
      }
      if (begins < at) {
        double to = std::max(begins, until);
        visit(instance, to, at);
        at = to;
      }
      if (steps > 4 * position.size()) {
        gap(at - until); // nothing takes time
        return;
      }
      instance = cause(instance);
    }
  }

private:
  const Plan &plan;
  SteadyState state;
  double tolerance;
  std::vector<size_t> first;                ///< instance, by event
  std::vector<size_t> position;             ///< by instance, in its queue
  std::vector<std::vector<Instance>> order; ///< by queue
  std::vector<double> roomWaits; ///< by instance; below 0: not known yet

  /// As QueueCursor::iterationsNeeded. None where the wait asks for nothing.
  Instance awaitedBy(const Instance &instance, const Wait &wait) const {
    int64_t round = instance.round - (wait.previousStep ? 1 : 0);
    if (wait.lag == Wait::whole)
      return {wait.event, plan.events[wait.event].trips - 1, round};
    int64_t last = instance.iteration / wait.every * wait.times + wait.times -
                   1 - wait.lag;
    if (last < 0)
      return {};
    return {wait.event, last, round};
  }
};

/// Of loads that follow each other, the time that they were late for want of
/// memory: no longer than the link stood idle.
class RoomShare {
public:
  double total = 0;

  void load(double wait, double seconds) {
    longest = std::max(longest, wait);
    loads += seconds;
  }
  void end() {
    total += std::min(loads, longest);
    loads = longest = 0;
  }

private:
  double loads = 0, longest = 0;
};

std::vector<Carrier> carriersOf(const Plan &plan, const Machine &machine,
                                double period) {
  std::vector<double> linkBytes(machine.links.size(), 0);
  std::vector<double> resourceBytes(machine.resources.size(), 0);
  for (const Event &event : plan.events) {
    if (!isTransfer(event.kind))
      continue;
    QueueKind kind = plan.queues[event.queue].kind;
    int from = kind == QueueKind::In     ? hostEndpoint
               : kind == QueueKind::Peer ? event.source
                                         : event.device;
    int to = kind == QueueKind::Out ? hostEndpoint : event.device;
    size_t link =
        static_cast<size_t>(&machine.link(from, to) - machine.links.data());
    double bytes =
        static_cast<double>(event.bytes) * static_cast<double>(event.trips);
    linkBytes[link] += bytes;
    for (int share : machine.links[link].shares)
      resourceBytes[share] += bytes;
  }
  auto endpoint = [](int index) {
    return index == hostEndpoint ? std::string("host")
                                 : "device " + std::to_string(index);
  };
  std::vector<Carrier> carriers;
  auto add = [&](const std::string &name, double bytes, double rate) {
    if (bytes > 0 && period > 0)
      carriers.push_back({name, bytes / (rate * period)});
  };
  for (size_t l = 0; l < machine.links.size(); ++l)
    add(endpoint(machine.links[l].from) + " to " +
            endpoint(machine.links[l].to),
        linkBytes[l], machine.links[l].bytesPerSecond);
  for (size_t r = 0; r < machine.resources.size(); ++r)
    add(machine.resources[r].name, resourceBytes[r],
        machine.resources[r].bytesPerSecond);
  std::stable_sort(
      carriers.begin(), carriers.end(),
      [](const Carrier &a, const Carrier &b) { return a.share > b.share; });
  return carriers;
}

/// One iteration of a compute queue.
void addTimes(const Plan &plan, Causes &causes, int queue, DeviceTime &time) {
  const SteadyState &state = causes.steady();
  for (const Instance &instance : causes.onQueue(queue)) {
    for (const Stretch &stretch :
         state.stretches(state.at(instance.event, instance.iteration)))
      time.works[static_cast<int>(stretch.activity)] +=
          stretch.end - stretch.begin;
    RoomShare room;
    causes.walkBack(
        causes.cause(instance), causes.begin(instance),
        causes.end(causes.before(instance)),
        [&](const Instance &by, double begin, double end) {
          Lack lack = causes.lackOf(by, plan.queues[queue].device);
          time.waits[static_cast<int>(lack)] += end - begin;
          if (lack == Lack::Load)
            room.load(causes.waitForRoom(by), end - begin);
          else
            room.end();
        },
        [&](double seconds) { time.unknown += seconds; });
    room.end();
    time.waits[static_cast<int>(Lack::Load)] -= room.total;
    time.waits[static_cast<int>(Lack::Room)] += room.total;
  }
}

/// From what ends last, one period back.
void findCriticalPath(const Plan &plan, Causes &causes, Explanation &result) {
  const SteadyState &state = causes.steady();
  Instance last;
  double latest = -std::numeric_limits<double>::infinity();
  for (const Interval &interval : state.intervals)
    if (interval.end > latest) {
      latest = interval.end;
      last = {interval.event, interval.iteration, 0};
    }
  if (last.event < 0)
    return;
  RoomShare room;
  causes.walkBack(
      last, latest, latest - state.period,
      [&](const Instance &by, double begin, double end) {
        Interval interval = state.at(by.event, by.iteration);
        double shift = causes.begin(by) - interval.begin;
        for (const Stretch &stretch : state.stretches(interval)) {
          double from = std::max(stretch.begin + shift, begin);
          double to = std::min(stretch.end + shift, end);
          if (to > from)
            result.critical[static_cast<int>(stretch.activity)] += to - from;
        }
        if (plan.queues[plan.events[by.event].queue].kind == QueueKind::In)
          room.load(causes.waitForRoom(by), end - begin);
        else
          room.end();
      },
      [&](double seconds) { result.criticalUnknown += seconds; });
  room.end();
  result.criticalRoom = room.total;
}

} // namespace

Explanation explain(const Plan &plan, const Problem &problem,
                    const Machine &machine) {
  Causes causes(plan, problem, machine);
  Explanation result;
  result.period = causes.steady().period;
  result.devices.resize(machine.devices.size());
  result.carriers = carriersOf(plan, machine, result.period);
  for (size_t q = 0; q < plan.queues.size(); ++q)
    if (plan.queues[q].kind == QueueKind::Compute)
      addTimes(plan, causes, static_cast<int>(q),
               result.devices[plan.queues[q].device]);
  findCriticalPath(plan, causes, result);
  return result;
}

namespace {

/// By resource, the device whose links alone share it, as a port's; -1: several
/// devices', or the only device's, which another would share.
std::vector<int> ownersOf(const Machine &machine) {
  constexpr int nobody = -1, unknown = -2;
  std::vector<std::set<int>> users(machine.resources.size());
  std::vector<int> owners(machine.resources.size(), unknown);
  for (const Link &link : machine.links)
    for (int share : link.shares) {
      std::set<int> ends;
      for (int end : {link.from, link.to})
        if (end != hostEndpoint)
          ends.insert(end);
      if (owners[share] == unknown) {
        users[share] = ends;
        owners[share] = nobody;
        continue;
      }
      for (auto user = users[share].begin(); user != users[share].end();)
        user = ends.count(*user) ? std::next(user) : users[share].erase(user);
    }
  for (size_t r = 0; r < owners.size(); ++r)
    owners[r] = machine.devices.size() > 1 && users[r].size() == 1
                    ? *users[r].begin()
                    : nobody;
  return owners;
}

/// With one more device like the last: its links, and what they alone share.
Machine withCopyOfLast(const Machine &machine) {
  Machine wider = machine;
  int copied = static_cast<int>(machine.devices.size()) - 1, added = copied + 1;
  wider.devices.push_back(wider.devices.back());
  std::vector<int> owners = ownersOf(machine);
  std::map<int, int> copies; // of resources
  auto copyOf = [&](int share) {
    if (owners[share] != copied)
      return share;
    auto [copy, isNew] =
        copies.try_emplace(share, static_cast<int>(wider.resources.size()));
    if (isNew)
      wider.resources.push_back(machine.resources[share]);
    return copy->second;
  };
  auto addLink = [&](Link link, int from, int to) {
    link.from = from;
    link.to = to;
    wider.links.push_back(std::move(link));
  };
  for (const Link &link : machine.links) {
    if (link.from != copied && link.to != copied)
      continue;
    Link copy = link;
    for (int &share : copy.shares)
      share = copyOf(share);
    addLink(copy, link.from == copied ? added : link.from,
            link.to == copied ? added : link.to);
  }
  // Between the copied device and its copy, as between the last two.
  int other = copied - 1;
  if (other < 0 || !machine.hasLink(copied, other) ||
      !machine.hasLink(other, copied))
    return wider;
  auto without = [&](std::vector<int> shares) {
    shares.erase(
        std::remove_if(shares.begin(), shares.end(),
                       [&](int share) { return owners[share] == other; }),
        shares.end());
    return shares;
  };
  const Link &sends = machine.link(copied, other);
  const Link &receives = machine.link(other, copied);
  Link toCopy = sends, fromCopy = sends;
  toCopy.shares = fromCopy.shares = without(sends.shares);
  for (int &share : fromCopy.shares)
    share = copyOf(share);
  for (int share : receives.shares)
    if (owners[share] == copied) {
      toCopy.shares.push_back(copyOf(share));
      fromCopy.shares.push_back(share);
    }
  addLink(toCopy, copied, added);
  addLink(fromCopy, added, copied);
  return wider;
}

/// Links to the host, or those between devices, are twice as fast, and so is
/// what they share; nothing: there are none.
std::optional<Machine> withFasterLinks(const Machine &machine, bool toHost) {
  Machine faster = machine;
  std::set<int> shared;
  bool any = false;
  for (Link &link : faster.links) {
    bool ofHost = link.from == hostEndpoint || link.to == hostEndpoint;
    if (ofHost != toHost)
      continue;
    any = true;
    link.bytesPerSecond *= 2;
    shared.insert(link.shares.begin(), link.shares.end());
  }
  for (int share : shared)
    faster.resources[share].bytesPerSecond *= 2;
  return any ? std::optional(std::move(faster)) : std::nullopt;
}

} // namespace

std::vector<WhatIf>
whatIfs(const Machine &machine, const Machine *more,
        const std::function<std::optional<Planned>(const Machine &)> &solve) {
  std::vector<WhatIf> result;
  auto add = [&](const std::string &change, const Machine &changed) {
    result.push_back({change, solve(changed)});
  };

  constexpr int64_t gibibyte = int64_t(1) << 30;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Device &device : machine.devices)
    least = std::min(least, device.capacity);
  Machine larger = machine;
  for (Device &device : larger.devices)
    device.capacity +=
        std::min(least >= 8 * gibibyte ? gibibyte : device.capacity / 10,
                 std::numeric_limits<int64_t>::max() - device.capacity);
  add(least >= 8 * gibibyte ? "1 GiB more on each device"
                            : "a tenth more memory on each device",
      larger);
  if (std::optional<Machine> faster = withFasterLinks(machine, true))
    add("links to the host twice as fast", *faster);
  if (std::optional<Machine> faster = withFasterLinks(machine, false))
    add("links between devices twice as fast", *faster);
  add("one more device", more ? *more : withCopyOfLast(machine));
  return result;
}

} // namespace harmony::planner
