//===- Links.h - What transfers share ---------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_LINKS_H
#define RUNTIME_HAL_LINKS_H

#include "runtime/program.h"

#include <cstddef>
#include <vector>

namespace harmony::runtime {

/// The links of a machine, as HmLink and HmResource describe them.
struct LinkTable {
  std::vector<HmLink> links;
  std::vector<double> resources; // bytes per second
};

/// Who is under way on which link, and the max-min fair rate that each transfer
/// gets (Bertsekas and Gallager, Data Networks, 6.5.2). Transfers on one link
/// cross the same and have one rate. Not synchronised.
class LinkShares {
public:
  static constexpr int none = -1;

  explicit LinkShares(LinkTable table);

  /// The link from one endpoint (a device or HM_HOST_ENDPOINT) to another, or
  /// none.
  int find(int from, int to) const;

  /// A transfer begins, ends on a link.
  void enter(int link) { count(link, 1); }
  void leave(int link) { count(link, -1); }

  /// Bytes per second of each transfer under way on the link. At least one is.
  double rate(int link);
  double latency(int link) const { return table.links[link].latencySeconds; }

private:
  /// A link or a resource.
  struct Track {
    double free = 0;   // bytes per second that no settled transfer has
    int unsettled = 0; // transfers
  };

  void count(int link, int change);
  void settle();
  template <typename Visit>
  void visitTracks(int link, Visit visit);

  LinkTable table;
  std::vector<int> users;    // by link
  std::vector<double> rates; // by link, where there are users
  std::vector<int> used;     // links with users
  bool isSettled = true;
  // Of settle(): links, then resources; links that are not settled.
  std::vector<Track> tracks;
  std::vector<int> open;
};

/// A transfer's progress at rates that change: first the latency, then the
/// bytes.
struct TransferProgress {
  double latencyLeft = 0; // seconds
  double bytesLeft = 0;

  double timeLeft(double rate) const { return latencyLeft + bytesLeft / rate; }
  /// `seconds` < timeLeft(rate) pass.
  void advance(double seconds, double rate);
};

} // namespace harmony::runtime

#endif // RUNTIME_HAL_LINKS_H
