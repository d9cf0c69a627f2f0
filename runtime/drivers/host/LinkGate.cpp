//===- LinkGate.cpp - Copies as slow as links -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/LinkGate.h"

#include <algorithm>
#include <thread>

namespace harmony::runtime {

/// More than there are queues; so that nothing is allocated while training.
static constexpr size_t expectedPassages = 1024;

/// A thread that sleeps until a time wakes up later, by about as much: many
/// copies take less.
static constexpr std::chrono::microseconds lateness{100};

LinkGate::LinkGate(const LinkTable &links) : shares(links) {
  passages.reserve(expectedPassages);
}

bool LinkGate::advance() {
  Clock::time_point then = Clock::now();
  double left = std::chrono::duration<double>(then - now).count();
  now = then;
  bool ended = false;
  while (!passages.empty()) {
    Passage *next = nullptr;
    double soonest = left;
    for (Passage *p : passages)
      if (double time = p->progress.timeLeft(shares.rate(p->link));
          time <= soonest) {
        soonest = time;
        next = p;
      }
    for (Passage *p : passages)
      if (p != next)
        p->progress.advance(soonest, shares.rate(p->link));
    if (!next)
      break;
    left -= soonest;
    next->over = ended = true;
    shares.leave(next->link);
    passages.erase(std::find(passages.begin(), passages.end(), next));
  }
  return ended;
}

LinkGate::Passage::Passage(LinkGate *given, int from, int to, int64_t bytes) {
  if (!given || from == to)
    return;
  std::lock_guard<std::mutex> lock(given->mutex);
  link = given->shares.find(from, to);
  if (link == LinkShares::none)
    return;
  gate = given;
  gate->advance();
  progress = {gate->shares.latency(link), static_cast<double>(bytes)};
  gate->shares.enter(link);
  gate->passages.push_back(this);
  gate->changed.notify_all(); // ends of others have moved
}

LinkGate::Passage::~Passage() {
  if (!gate)
    return;
  std::unique_lock<std::mutex> lock(gate->mutex);
  for (;;) {
    if (gate->advance())
      gate->changed.notify_all();
    if (over)
      return;
    std::chrono::duration<double> left(
        progress.timeLeft(gate->shares.rate(link)));
    Clock::time_point end =
        gate->now + std::chrono::ceil<Clock::duration>(left);
    if (left > lateness) {
      gate->changed.wait_until(lock, end - lateness);
      continue;
    }
    lock.unlock();
    // Real links take no processor: who computes must not wait for this one.
    while (Clock::now() < end)
      std::this_thread::yield();
    lock.lock();
  }
}

} // namespace harmony::runtime
