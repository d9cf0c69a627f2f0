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
// links fall into domains, and only in a domain that changed are rates found
// anew; where many transfers are under way in it, for those alone that others
// under way tie to what changed.
//
// Where the queues stand when an execution is over, and how much longer each is
// at work, determines all that follows. Once that is as it was one or two
// executions before, those left take as long as the ones in between did, and
// are not simulated.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/QueueSimulator.h"
#include "compiler/Planner/Tracks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harmony::planner {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr int none = -1;

class Simulation {
public:
  Simulation(const QueueWork &work, const Machine &machine, int used,
             int executions, std::vector<QueueInterval> *record, int following)
      : executions(executions), following(following), tracks(machine, used),
        record(record), finish(executions, 0), events(work.events.size()),
        queues(work.queues.size()), domains(tracks.domains()) {
    line(work);
  }

  QueueTimes run() {
    for (size_t q = 0; q < queues.size(); ++q) {
      toStart.push_back(static_cast<int>(q));
      unfinished += !isEmpty(static_cast<int>(q));
    }
    behind = unfinished;
    while (true) {
      startReady();
      if (unfinished == 0)
        break;
      for (int d : changed)
        shareAnew(domains[d]);
      changed.clear();
      if (isOver && isPeriodic())
        break;
      double next = nextEnd();
      if (next == never)
        break;
      now = next;
      endAll();
    }
    QueueTimes times;
    times.finish = finish;
    if (period > 0)
      return times;
    for (size_t q = 0; q < queues.size(); ++q)
      if (queues[q].execution < executions && !isEmpty(static_cast<int>(q)))
        times.blocked = tasks[queues[q].task].event;
    return times;
  }

private:
  /// An event, and a wait of it, in the order in which its queue comes to them.
  struct Task {
    double seconds, lastSeconds, bytes;
    int event, link;
    int waits, waitsEnd; ///< in `waits`
    /// Of its loop; the loop's trips.
    int loop, loopEnd;
    int64_t loopTrips;
  };
  struct Awaited {
    int event;
    int lag; ///< in `lags`; none: all of the event is awaited
    bool previousExecution;
  };
  struct Lag {
    int64_t by, times, every;
  };
  /// A queue when an execution is over; seconds from then on.
  struct Standing {
    int task, ahead; ///< executions that it is through beyond that one
    int64_t iteration;
    double latency, work; ///< until those are over; 0: it awaits something
  };
  struct EventState {
    int64_t completed = 0; ///< iterations, all executions
    int64_t trips = 1;
    int awaiting = none; ///< the first queue that awaits it
  };
  struct QueueState {
    // Where it stands.
    int begin = 0, end = 0; ///< in `tasks`
    int task = 0;
    int execution = 0;
    int64_t iteration = 0;
    int checked = 0; ///< the first wait that may not be satisfied
    // What it is blocked on.
    int64_t needed = 0; ///< iterations
    int nextAwaiting = none;
    // What is under way.
    double begun = 0, over = 0;
    double dataBegin = 0; ///< when the latency of a transfer is over
    double bytesLeft = 0; ///< at `updated`
    double updated = 0, rate = 0;
  };
  /// Transfers under way which may share a link or resource.
  struct Domain {
    std::vector<int> active, links; ///< queues, and what they transfer over
    std::vector<int> changed;       ///< where transfers started or ended
    size_t place = 0;               ///< in `listed`
    bool isChanged = false, isListed = false;
  };
  /// Domains of fewer transfers are filled whole.
  static constexpr size_t manyTransfers = 12;

  int executions, following;
  int unfinished = 0;  ///< queues that are not through all executions
  int execution = 0;   ///< the first that is not over
  int behind = 0;      ///< queues that are not through it
  bool isOver = false; ///< the one before `execution`, just now
  int period = 0;      ///< executions after which all is as before; 0: unknown
  /// After the last executions that are over, the last one first.
  std::vector<Standing> standings[3];
  Tracks tracks;
  std::vector<QueueInterval> *record;
  std::vector<double> finish;
  std::vector<Task> tasks; ///< by queue
  std::vector<Awaited> waits;
  std::vector<Lag> lags;
  std::vector<EventState> events;
  std::vector<QueueState> queues;
  std::vector<Domain> domains;
  std::vector<int> toStart; ///< idle queues that may be ready
  // What ends when lies apart from all else of a queue or domain, as it is
  // looked at in every step.
  std::vector<int> computing; ///< queues at work that is no transfer
  std::vector<double> computingEnds;
  std::vector<int> listed;        ///< domains with transfers under way
  std::vector<double> listedEnds; ///< of each the first
  bool someEmpty = false;         ///< a listed domain may have no transfer left
  std::vector<int> changed;       ///< domains where a transfer started or ended
  std::vector<int> tiedActive, tiedLinks;
  std::vector<double> rates;
  double now = 0;

  void line(const QueueWork &work) {
    size_t waitCount = 0;
    for (size_t e = 0; e < events.size(); ++e) {
      waitCount += work.events[e].waits.size();
      events[e].trips = work.events[e].trips;
    }
    tasks.reserve(work.events.size());
    waits.reserve(waitCount);
    for (size_t q = 0; q < queues.size(); ++q) {
      queues[q].begin = queues[q].task = static_cast<int>(tasks.size());
      for (const QueueWork::Loop &loop : work.queues[q]) {
        int begin = static_cast<int>(tasks.size());
        int end = begin + static_cast<int>(loop.events.size());
        for (int e : loop.events) {
          const QueueWork::Event &event = work.events[e];
          int first = static_cast<int>(waits.size());
          for (const QueueWork::Wait &wait : event.waits) {
            int lag = wait.lag < 0 ? none : static_cast<int>(lags.size());
            if (lag != none)
              lags.push_back({wait.lag, wait.times, wait.every});
            waits.push_back({wait.event, lag, wait.previousExecution});
          }
          tasks.push_back({event.seconds, event.lastSeconds, event.bytes, e,
                           event.link, first, static_cast<int>(waits.size()),
                           begin, end, loop.trips});
        }
      }
      queues[q].end = static_cast<int>(tasks.size());
      if (!isEmpty(static_cast<int>(q)))
        queues[q].checked = tasks[queues[q].task].waits;
    }
  }

  bool isEmpty(int q) const { return queues[q].begin == queues[q].end; }
  bool left(int q) const {
    return queues[q].execution < executions + following && !isEmpty(q);
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
    int end = tasks[queue.task].waitsEnd;
    for (; queue.checked < end; ++queue.checked) {
      const Awaited &wait = waits[queue.checked];
      int64_t needed = iterationsNeeded(queue, wait);
      EventState &awaited = events[wait.event];
      if (awaited.completed >= needed)
        continue;
      queue.needed = needed;
      queue.nextAwaiting = awaited.awaiting;
      awaited.awaiting = q;
      return false;
    }
    return true;
  }

  /// Of the awaited event, over all executions; 0: none.
  int64_t iterationsNeeded(const QueueState &queue, const Awaited &wait) const {
    int64_t round = queue.execution - (wait.previousExecution ? 1 : 0);
    if (round < 0)
      return 0;
    int64_t trips = events[wait.event].trips;
    if (wait.lag == none)
      return (round + 1) * trips;
    const Lag &lag = lags[wait.lag];
    int64_t group =
        lag.every == 1 ? queue.iteration : queue.iteration / lag.every;
    int64_t needed = group * lag.times + lag.times - lag.by;
    return needed <= 0 ? 0 : round * trips + needed;
  }

  void start(int q) {
    QueueState &queue = queues[q];
    const Task &task = tasks[queue.task];
    queue.begun = now;
    if (task.link < 0) {
      double seconds = task.seconds;
      if (task.lastSeconds != 0 &&
          queue.iteration == events[task.event].trips - 1)
        seconds += task.lastSeconds;
      queue.over = now + seconds;
      if (queue.over <= now)
        end(q);
      else {
        computing.push_back(q);
        computingEnds.push_back(queue.over);
      }
      return;
    }
    queue.dataBegin = now + task.seconds;
    queue.bytesLeft = task.bytes;
    queue.updated = now;
    queue.rate = 0;
    int d = tracks.domain(task.link);
    Domain &domain = domains[d];
    domain.active.push_back(q);
    domain.links.push_back(task.link);
    domain.changed.push_back(task.link);
    markChanged(d);
    if (!domain.isListed) {
      domain.isListed = true;
      domain.place = listed.size();
      listed.push_back(d);
      listedEnds.push_back(never);
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
    if (domain.active.size() == 1)
      setRate(domain.active[0], tracks.rateAlone(domain.links[0]));
    else if (domain.active.size() < manyTransfers)
      fill(domain.active, domain.links);
    else
      fillTied(domain);
    domain.changed.clear();
    double end = never;
    for (int q : domain.active)
      end = std::min(end, queues[q].over);
    listedEnds[domain.place] = end;
  }

  void fill(const std::vector<int> &active, const std::vector<int> &links) {
    tracks.fill(links, rates);
    for (size_t i = 0; i < rates.size(); ++i)
      setRate(active[i], rates[i]);
  }

  /// The rates of others are those that they have.
  void fillTied(const Domain &domain) {
    const std::vector<char> &tied = tracks.tied(domain.links, domain.changed);
    tiedActive.clear();
    tiedLinks.clear();
    for (size_t i = 0; i < tied.size(); ++i)
      if (tied[i]) {
        tiedActive.push_back(domain.active[i]);
        tiedLinks.push_back(domain.links[i]);
      }
    fill(tiedActive, tiedLinks);
  }

  void setRate(int q, double rate) {
    QueueState &queue = queues[q];
    if (rate == queue.rate)
      return;
    double from = std::max(queue.updated, queue.dataBegin);
    if (now > from)
      queue.bytesLeft =
          std::max(0.0, queue.bytesLeft - (now - from) * queue.rate);
    queue.updated = now;
    queue.rate = rate;
    queue.over = std::max(now, queue.dataBegin) + queue.bytesLeft / queue.rate;
  }

  double nextEnd() {
    if (someEmpty)
      leaveOutEmpty();
    double next = never;
    for (double end : computingEnds)
      next = std::min(next, end);
    for (double end : listedEnds)
      next = std::min(next, end);
    return next;
  }

  void leaveOutEmpty() {
    someEmpty = false;
    size_t kept = 0;
    for (size_t i = 0; i < listed.size(); ++i) {
      Domain &domain = domains[listed[i]];
      if (domain.active.empty()) {
        domain.isListed = false;
        continue;
      }
      domain.place = kept;
      listedEnds[kept] = listedEnds[i];
      listed[kept++] = listed[i];
    }
    listed.resize(kept);
    listedEnds.resize(kept);
  }

  void endAll() {
    for (size_t i = 0; i < computing.size();) {
      if (computingEnds[i] > now) {
        ++i;
        continue;
      }
      int q = computing[i];
      computing[i] = computing.back();
      computing.pop_back();
      computingEnds[i] = computingEnds.back();
      computingEnds.pop_back();
      end(q);
    }
    for (size_t l = 0; l < listed.size(); ++l) {
      if (listedEnds[l] > now)
        continue;
      Domain &domain = domains[listed[l]];
      size_t kept = 0;
      for (size_t i = 0; i < domain.active.size(); ++i) {
        int q = domain.active[i];
        if (queues[q].over <= now) {
          domain.changed.push_back(domain.links[i]);
          end(q);
          continue;
        }
        domain.active[kept] = q;
        domain.links[kept++] = domain.links[i];
      }
      domain.active.resize(kept);
      domain.links.resize(kept);
      someEmpty |= kept == 0;
      markChanged(listed[l]);
    }
  }

  void end(int q) {
    QueueState &queue = queues[q];
    int e = tasks[queue.task].event;
    EventState &event = events[e];
    ++event.completed;
    if (record && queue.execution == executions - 1)
      record->push_back({e, queue.iteration, queue.begun, now});
    if (queue.execution < executions)
      finish[queue.execution] = now; // time only grows
    advance(queue);
    toStart.push_back(q);
    for (int *link = &event.awaiting; *link != none;) {
      int waiting = *link;
      if (queues[waiting].needed > event.completed) {
        link = &queues[waiting].nextAwaiting;
        continue;
      }
      *link = queues[waiting].nextAwaiting;
      toStart.push_back(waiting);
    }
  }

  void advance(QueueState &queue) {
    const Task &task = tasks[queue.task];
    if (++queue.task == task.loopEnd) {
      if (++queue.iteration < task.loopTrips) {
        queue.task = task.loop;
      } else {
        queue.iteration = 0;
        if (queue.task == queue.end) {
          queue.task = queue.begin;
          passExecution(queue);
        }
      }
    }
    queue.checked = tasks[queue.task].waits;
  }

  void passExecution(QueueState &queue) {
    if (++queue.execution == executions)
      --unfinished;
    if (queue.execution - 1 != execution || --behind > 0)
      return;
    isOver = true;
    ++execution;
    for (size_t q = 0; q < queues.size(); ++q)
      behind +=
          queues[q].execution == execution && !isEmpty(static_cast<int>(q));
  }

  /// When an execution is over, and what follows has begun. If so, sets the
  /// times of the executions left.
  bool isPeriodic() {
    isOver = false;
    if (record)
      return false;
    std::rotate(std::begin(standings), std::end(standings) - 1,
                std::end(standings));
    standings[0].resize(queues.size());
    for (size_t q = 0; q < queues.size(); ++q) {
      const QueueState &queue = queues[q];
      // Through all of them it holds nothing up, whenever that was.
      standings[0][q] = left(static_cast<int>(q))
                            ? Standing{queue.task, queue.execution - execution,
                                       queue.iteration, 0, 0}
                            : Standing{none, 0, 0, 0, 0};
    }
    for (int q : computing)
      standings[0][q].work = queues[q].over - now;
    for (int d : listed)
      for (int q : domains[d].active) {
        standings[0][q].latency = std::max(0.0, queues[q].dataBegin - now);
        standings[0][q].work = queues[q].over - now;
      }
    for (int p : {1, 2}) {
      if (execution <= p || !areEqual(standings[0], standings[p]))
        continue;
      period = p;
      for (int e = execution; e < executions; ++e)
        finish[e] =
            finish[e - p] + (finish[execution - 1] - finish[execution - 1 - p]);
      return true;
    }
    return false;
  }

  bool areEqual(const std::vector<Standing> &x,
                const std::vector<Standing> &y) const {
    // Sums of the same terms from another time on differ by roundings.
    double rounding = 1e-12 * now;
    return std::equal(x.begin(), x.end(), y.begin(),
                      [&](const Standing &a, const Standing &b) {
                        return a.task == b.task && a.ahead == b.ahead &&
                               a.iteration == b.iteration &&
                               std::abs(a.latency - b.latency) <= rounding &&
                               std::abs(a.work - b.work) <= rounding;
                      });
  }
};

} // namespace

QueueTimes simulateQueues(const QueueWork &work, const Machine &machine,
                          int used, int executions,
                          std::vector<QueueInterval> *last, int following) {
  return Simulation(work, machine, used, executions, last, following).run();
}

} // namespace harmony::planner
