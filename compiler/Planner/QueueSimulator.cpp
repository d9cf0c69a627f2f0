//===- QueueSimulator.cpp - Work on queues, in time -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every queue has at most one event under way. A queue that waits is looked at
// again when the event that it waits for gets there.
//
// A transfer takes its latency, and then its bytes at its rate. Rates are
// max-min fair over links and resources (progressive filling: all rates grow
// alike until a link or resource is full; those that cross it stay there, the
// others grow on). They change where a transfer starts or ends, and only for
// those that a chain of common links and resources ties to it: the machine's
// links fall into domains, and only a domain that changed is filled anew.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/QueueSimulator.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace harmony::planner {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr int none = -1;

/// The links and resources of a machine, as what transfers cross.
class Tracks {
public:
  Tracks(const Machine &machine, int used)
      : fixed(machine.sharing == Sharing::Static) {
    size_t links = machine.links.size();
    for (const Link &link : machine.links)
      capacity.push_back(link.bytesPerSecond);
    for (const Resource &resource : machine.resources)
      capacity.push_back(resource.bytesPerSecond / (fixed ? used : 1));
    left.resize(capacity.size());
    users.assign(capacity.size(), 0);
    std::vector<int> parent(capacity.size());
    std::iota(parent.begin(), parent.end(), 0);
    auto root = [&](int track) {
      while (parent[track] != track)
        track = parent[track] = parent[parent[track]];
      return track;
    };
    for (size_t l = 0; l < links; ++l) {
      first.push_back(static_cast<int>(crossed.size()));
      crossed.push_back(static_cast<int>(l));
      double rate = capacity[l];
      for (int share : machine.links[l].shares) {
        int track = static_cast<int>(links) + share;
        crossed.push_back(track);
        rate = std::min(rate, capacity[track]);
        parent[root(track)] = root(static_cast<int>(l));
      }
      alone.push_back(rate);
    }
    first.push_back(static_cast<int>(crossed.size()));
    std::vector<int> number(capacity.size(), none);
    for (size_t l = 0; l < links; ++l) {
      int &domain = number[root(static_cast<int>(l))];
      if (domain == none)
        domain = domainCount++;
      domainOf.push_back(domain);
    }
  }

  int domains() const { return domainCount; }
  int domain(int link) const { return domainOf[link]; }

  /// Max-min fair rates of transfers over `links`, all of one domain.
  void fill(const std::vector<int> &links, std::vector<double> &rates) {
    rates.resize(links.size());
    if (links.size() == 1 || fixed) {
      for (size_t i = 0; i < links.size(); ++i)
        rates[i] = alone[links[i]];
      return;
    }
    touched.clear();
    for (int link : links)
      for (int c = first[link]; c < first[link + 1]; ++c) {
        int track = crossed[c];
        if (users[track]++ == 0) {
          left[track] = capacity[track];
          touched.push_back(track);
        }
      }
    growing.resize(links.size());
    std::iota(growing.begin(), growing.end(), 0);
    while (!growing.empty()) {
      int full = none;
      double least = never;
      for (int track : touched)
        if (users[track] > 0)
          if (double share = left[track] / users[track]; share < least) {
            least = share;
            full = track;
          }
      size_t kept = 0;
      for (int i : growing) {
        int begin = first[links[i]], end = first[links[i] + 1];
        if (std::find(&crossed[begin], &crossed[end - 1] + 1, full) ==
            &crossed[end - 1] + 1) {
          growing[kept++] = i;
          continue;
        }
        rates[i] = least;
        for (int c = begin; c < end; ++c) {
          left[crossed[c]] = std::max(0.0, left[crossed[c]] - least);
          --users[crossed[c]];
        }
      }
      growing.resize(kept);
    }
  }

private:
  bool fixed; ///< rates do not depend on who else is under way
  std::vector<double> capacity, alone; ///< by track, by link
  std::vector<int> first, crossed;     ///< tracks of link l: [first l, l + 1)
  std::vector<int> domainOf;           ///< by link
  int domainCount = 0;
  // Of fill().
  std::vector<double> left;
  std::vector<int> users, touched, growing;
};

class Simulation {
public:
  Simulation(const QueueWork &work, const Machine &machine, int used,
             int executions, std::vector<QueueInterval> *record, int following)
      : work(work), executions(executions), following(following),
        tracks(machine, used), record(record), finish(executions, 0),
        completed(work.events.size(), 0), awaiting(work.events.size(), none),
        queues(work.queues.size()), domains(tracks.domains()) {}

  QueueTimes run() {
    for (size_t q = 0; q < queues.size(); ++q) {
      toStart.push_back(static_cast<int>(q));
      unfinished += !work.queues[q].empty();
    }
    while (true) {
      startReady();
      if (unfinished == 0)
        break;
      for (int d : changed)
        shareAnew(domains[d]);
      changed.clear();
      double next = nextEnd();
      if (next == never)
        break;
      now = next;
      endAll();
    }
    QueueTimes times;
    times.finish = finish;
    for (size_t q = 0; q < queues.size(); ++q)
      if (queues[q].execution < executions && !work.queues[q].empty())
        times.blocked = eventOf(static_cast<int>(q));
    return times;
  }

private:
  struct QueueState {
    // Where it stands.
    size_t loop = 0, member = 0;
    int64_t iteration = 0;
    int execution = 0;
    size_t checked = 0; ///< waits of the event that are satisfied
    // What it is blocked on.
    int64_t needed = 0; ///< iterations
    int nextAwaiting = none;
    // What is under way.
    double begun = 0, end = 0;
    double dataBegin = 0; ///< when the latency of a transfer is over
    double bytesLeft = 0; ///< at `updated`
    double updated = 0, rate = 0;
  };
  /// Transfers under way which may share a link or resource.
  struct Domain {
    std::vector<int> active, links; ///< queues, and what they transfer over
    double end = never;             ///< the first
    bool isChanged = false, isListed = false;
  };

  const QueueWork &work;
  int executions, following;
  int unfinished = 0; ///< queues that are not through all executions
  Tracks tracks;
  std::vector<QueueInterval> *record;
  std::vector<double> finish;
  std::vector<int64_t> completed; ///< iterations by event, all executions
  std::vector<int> awaiting;      ///< by event: the first queue that awaits it
  std::vector<QueueState> queues;
  std::vector<Domain> domains;
  std::vector<int> toStart;   ///< idle queues that may be ready
  std::vector<int> computing; ///< queues at work that is no transfer
  std::vector<int> listed;    ///< domains with transfers under way
  std::vector<int> changed;   ///< domains where a transfer started or ended
  std::vector<double> rates;
  double now = 0;

  bool left(int q) const {
    return queues[q].execution < executions + following &&
           !work.queues[q].empty();
  }
  int eventOf(int q) const {
    return work.queues[q][queues[q].loop].events[queues[q].member];
  }

  void startReady() {
    while (!toStart.empty()) {
      int q = toStart.back();
      toStart.pop_back();
      if (left(q) && ready(q))
        start(q);
    }
  }

  /// If not, the queue awaits the first event that is not there yet.
  bool ready(int q) {
    QueueState &queue = queues[q];
    const std::vector<QueueWork::Wait> &waits = work.events[eventOf(q)].waits;
    for (; queue.checked < waits.size(); ++queue.checked) {
      const QueueWork::Wait &wait = waits[queue.checked];
      int64_t needed = iterationsNeeded(queue, wait);
      if (completed[wait.event] >= needed)
        continue;
      queue.needed = needed;
      queue.nextAwaiting = awaiting[wait.event];
      awaiting[wait.event] = q;
      return false;
    }
    return true;
  }

  /// Of the awaited event, over all executions; 0: none.
  int64_t iterationsNeeded(const QueueState &queue,
                           const QueueWork::Wait &wait) const {
    int64_t round = queue.execution - (wait.previousExecution ? 1 : 0);
    if (round < 0)
      return 0;
    int64_t trips = work.events[wait.event].trips;
    if (wait.lag < 0)
      return (round + 1) * trips;
    int64_t group =
        wait.every == 1 ? queue.iteration : queue.iteration / wait.every;
    int64_t needed = group * wait.times + wait.times - wait.lag;
    return needed <= 0 ? 0 : round * trips + needed;
  }

  void start(int q) {
    QueueState &queue = queues[q];
    const QueueWork::Event &event = work.events[eventOf(q)];
    queue.begun = now;
    if (event.link < 0) {
      double seconds = event.seconds;
      if (event.lastSeconds != 0 && queue.iteration == event.trips - 1)
        seconds += event.lastSeconds;
      queue.end = now + seconds;
      if (queue.end <= now)
        end(q);
      else
        computing.push_back(q);
      return;
    }
    queue.dataBegin = now + event.seconds;
    queue.bytesLeft = event.bytes;
    queue.updated = now;
    queue.rate = 0;
    int d = tracks.domain(event.link);
    Domain &domain = domains[d];
    domain.active.push_back(q);
    domain.links.push_back(event.link);
    markChanged(d);
    if (!domain.isListed) {
      domain.isListed = true;
      listed.push_back(d);
    }
  }

  void markChanged(int d) {
    if (domains[d].isChanged)
      return;
    domains[d].isChanged = true;
    changed.push_back(d);
  }

  void shareAnew(Domain &domain) {
    domain.isChanged = false;
    domain.end = never;
    if (domain.active.empty())
      return;
    tracks.fill(domain.links, rates);
    for (size_t i = 0; i < rates.size(); ++i) {
      QueueState &queue = queues[domain.active[i]];
      if (rates[i] != queue.rate) {
        double from = std::max(queue.updated, queue.dataBegin);
        if (now > from)
          queue.bytesLeft =
              std::max(0.0, queue.bytesLeft - (now - from) * queue.rate);
        queue.updated = now;
        queue.rate = rates[i];
        queue.end =
            std::max(now, queue.dataBegin) + queue.bytesLeft / queue.rate;
      }
      domain.end = std::min(domain.end, queue.end);
    }
  }

  double nextEnd() {
    double next = never;
    for (int q : computing)
      next = std::min(next, queues[q].end);
    size_t kept = 0;
    for (int d : listed) {
      if (domains[d].active.empty()) {
        domains[d].isListed = false;
        continue;
      }
      listed[kept++] = d;
      next = std::min(next, domains[d].end);
    }
    listed.resize(kept);
    return next;
  }

  void endAll() {
    for (size_t i = 0; i < computing.size();) {
      int q = computing[i];
      if (queues[q].end > now) {
        ++i;
        continue;
      }
      computing[i] = computing.back();
      computing.pop_back();
      end(q);
    }
    for (int d : listed) {
      Domain &domain = domains[d];
      if (domain.end > now)
        continue;
      size_t kept = 0;
      for (size_t i = 0; i < domain.active.size(); ++i) {
        int q = domain.active[i];
        if (queues[q].end <= now) {
          end(q);
          continue;
        }
        domain.active[kept] = q;
        domain.links[kept++] = domain.links[i];
      }
      domain.active.resize(kept);
      domain.links.resize(kept);
      markChanged(d);
    }
  }

  void end(int q) {
    QueueState &queue = queues[q];
    int e = eventOf(q);
    ++completed[e];
    if (record && queue.execution == executions - 1)
      record->push_back({e, queue.iteration, queue.begun, now});
    if (queue.execution < executions)
      finish[queue.execution] = now; // time only grows
    advance(q);
    toStart.push_back(q);
    for (int *link = &awaiting[e]; *link != none;) {
      int waiting = *link;
      if (queues[waiting].needed > completed[e]) {
        link = &queues[waiting].nextAwaiting;
        continue;
      }
      *link = queues[waiting].nextAwaiting;
      toStart.push_back(waiting);
    }
  }

  void advance(int q) {
    QueueState &queue = queues[q];
    const std::vector<QueueWork::Loop> &loops = work.queues[q];
    queue.checked = 0;
    if (++queue.member < loops[queue.loop].events.size())
      return;
    queue.member = 0;
    if (++queue.iteration < loops[queue.loop].trips)
      return;
    queue.iteration = 0;
    if (++queue.loop < loops.size())
      return;
    queue.loop = 0;
    if (++queue.execution == executions)
      --unfinished;
  }
};

} // namespace

QueueTimes simulateQueues(const QueueWork &work, const Machine &machine,
                          int used, int executions,
                          std::vector<QueueInterval> *last, int following) {
  return Simulation(work, machine, used, executions, last, following).run();
}

} // namespace harmony::planner
