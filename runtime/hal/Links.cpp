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
    : table(std::move(given)), linkUsers(table.links.size()),
      resourceUsers(table.resources.size()) {}

int LinkShares::find(int from, int to) const {
  for (size_t i = 0; i < table.links.size(); ++i)
    if (table.links[i].from == from && table.links[i].to == to)
      return static_cast<int>(i);
  return none;
}

void LinkShares::count(int link, int change) {
  linkUsers[link] += change;
  for (uint32_t share : table.links[link].shares)
    if (share != HM_NONE)
      resourceUsers[share] += change;
}

double LinkShares::rate(int link) const {
  double least = table.links[link].bytesPerSecond / linkUsers[link];
  for (uint32_t share : table.links[link].shares)
    if (share != HM_NONE)
      least = std::min(least, table.resources[share] / resourceUsers[share]);
  return least;
}

void TransferProgress::advance(double seconds, double rate) {
  double spent = std::min(seconds, latencyLeft);
  latencyLeft -= spent;
  bytesLeft = std::max(0.0, bytesLeft - (seconds - spent) * rate);
}

} // namespace harmony::runtime
