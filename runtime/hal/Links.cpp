//===- Links.cpp - What transfers share -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/hal/Links.h"

#include <algorithm>
#include <utility>

namespace harmony::runtime {

LinkShares::LinkShares(LinkTable given)
    : table(std::move(given)), users(table.links.size()),
      rates(table.links.size()),
      tracks(table.links.size() + table.resources.size()) {
  used.reserve(users.size());
  open.reserve(users.size());
}

int LinkShares::find(int from, int to) const {
  for (size_t i = 0; i < table.links.size(); ++i)
    if (table.links[i].from == from && table.links[i].to == to)
      return static_cast<int>(i);
  return none;
}

void LinkShares::count(int link, int change) {
  int before = users[link];
  users[link] += change;
  if (before == 0)
    used.push_back(link);
  else if (users[link] == 0)
    used.erase(std::find(used.begin(), used.end(), link));
  isSettled = false;
}

double LinkShares::rate(int link) {
  if (!isSettled)
    settle();
  return rates[link];
}

/// The tracks that a link's transfers cross: itself and what it shares.
template <typename Visit>
void LinkShares::visitTracks(int link, Visit visit) {
  visit(tracks[link]);
  for (uint32_t share : table.links[link].shares)
    if (share != HM_NONE)
      visit(tracks[table.links.size() + share]);
}

/// The fullest track limits the transfers that cross it to an equal part of
/// what is free there; they are settled, and the rest share what they leave.
void LinkShares::settle() {
  isSettled = true;
  open.clear();
  for (int link : used) {
    rates[link] = table.links[link].bytesPerSecond;
    if (table.links[link].fixed)
      continue;
    open.push_back(link);
    visitTracks(link, [&](Track &track) { track.unsettled = 0; });
    tracks[link].free = table.links[link].bytesPerSecond;
    for (uint32_t share : table.links[link].shares)
      if (share != HM_NONE)
        tracks[table.links.size() + share].free = table.resources[share];
  }
  for (int link : open)
    visitTracks(link, [&](Track &track) { track.unsettled += users[link]; });
  while (!open.empty()) {
    const Track *fullest = nullptr;
    for (int link : open)
      visitTracks(link, [&](Track &track) {
        if (!fullest ||
            track.free / track.unsettled < fullest->free / fullest->unsettled)
          fullest = &track;
      });
    double rate = fullest->free / fullest->unsettled;
    // Settled ones are moved to the end, and dropped.
    auto settled = std::partition(open.begin(), open.end(), [&](int link) {
      bool crosses = false;
      visitTracks(link, [&](Track &track) { crosses |= &track == fullest; });
      return !crosses;
    });
    for (auto it = settled; it != open.end(); ++it) {
      rates[*it] = rate;
      visitTracks(*it, [&](Track &track) {
        track.free = std::max(0.0, track.free - rate * users[*it]);
        track.unsettled -= users[*it];
      });
    }
    open.erase(settled, open.end());
  }
}

void TransferProgress::advance(double seconds, double rate) {
  double spent = std::min(seconds, latencyLeft);
  latencyLeft -= spent;
  bytesLeft = std::max(0.0, bytesLeft - (seconds - spent) * rate);
}

} // namespace harmony::runtime
