//===- Shuffle.cpp - The order of samples ---------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Shuffle.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace harmony::runtime {

void sampleOrder(std::vector<int64_t> &order, bool shuffle, uint64_t seed,
                 uint64_t epoch) {
  std::iota(order.begin(), order.end(), int64_t(0));
  if (!shuffle)
    return;
  // Two rounds of mixing keep (seed, epoch) pairs that are close apart.
  SplitMix random(SplitMix(seed).next() ^ SplitMix(~epoch).next());
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
}

} // namespace harmony::runtime
