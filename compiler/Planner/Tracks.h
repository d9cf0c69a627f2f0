//===- Tracks.h - What transfers cross --------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_TRACKS_H
#define COMPILER_PLANNER_TRACKS_H

#include "compiler/Planner/Machine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace harmony::planner {

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
    joined.resize(capacity.size());
    std::vector<int> parent(capacity.size());
    std::iota(parent.begin(), parent.end(), 0);
    for (size_t l = 0; l < links; ++l) {
      first.push_back(static_cast<int>(crossed.size()));
      crossed.push_back(static_cast<int>(l));
      double rate = capacity[l];
      for (int share : machine.links[l].shares) {
        int track = static_cast<int>(links) + share;
        crossed.push_back(track);
        rate = std::min(rate, capacity[track]);
        parent[rootOf(parent, track)] = rootOf(parent, static_cast<int>(l));
      }
      alone.push_back(rate);
    }
    first.push_back(static_cast<int>(crossed.size()));
    std::vector<int> number(capacity.size(), noTrack);
    for (size_t l = 0; l < links; ++l) {
      int &domain = number[rootOf(parent, static_cast<int>(l))];
      if (domain == noTrack)
        domain = domainCount++;
      domainOf.push_back(domain);
    }
  }

  int domains() const { return domainCount; }
  int domain(int link) const { return domainOf[link]; }
  /// Of a transfer over a link that nothing else under way ties to others.
  double rateAlone(int link) const { return alone[link]; }

  /// Whether transfers over `links` are tied to one over a link of `changed`,
  /// by tracks that they have in common, or that others of them have.
  const std::vector<char> &tied(const std::vector<int> &links,
                                const std::vector<int> &changed) {
    for (const auto *list : {&links, &changed})
      for (int link : *list)
        for (int c = first[link]; c < first[link + 1]; ++c)
          joined[crossed[c]] = crossed[c];
    for (int link : links)
      for (int c = first[link] + 1; c < first[link + 1]; ++c)
        joined[rootOf(joined, crossed[c])] =
            rootOf(joined, crossed[first[link]]);
    for (int link : changed)
      for (int c = first[link]; c < first[link + 1]; ++c)
        users[rootOf(joined, crossed[c])] = 1;
    areTied.clear();
    for (int link : links)
      areTied.push_back(users[rootOf(joined, crossed[first[link]])] != 0);
    for (int link : changed)
      for (int c = first[link]; c < first[link + 1]; ++c)
        users[rootOf(joined, crossed[c])] = 0;
    return areTied;
  }

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
      int full = noTrack;
      double least = std::numeric_limits<double>::infinity();
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
  static constexpr int noTrack = -1;
  bool fixed; ///< rates do not depend on who else is under way
  std::vector<double> capacity, alone; ///< by track, by link
  std::vector<int> first, crossed;     ///< tracks of link l: [first l, l + 1)
  std::vector<int> domainOf;           ///< by link
  int domainCount = 0;
  // Of fill() and tied().
  std::vector<double> left;
  std::vector<int> users, touched, growing, joined;
  std::vector<char> areTied;

  static int rootOf(std::vector<int> &parent, int track) {
    while (parent[track] != track)
      track = parent[track] = parent[parent[track]];
    return track;
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_TRACKS_H
