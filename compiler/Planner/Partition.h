//===- Partition.h - Packs of layers ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PARTITION_H
#define COMPILER_PLANNER_PARTITION_H

#include "compiler/Planner/Problem.h"

namespace harmony::planner {

/// Packs of `size` layers, the last one perhaps smaller: the last layer of
/// each.
std::vector<int> evenPartition(int layers, int size);

/// At most `packs` packs whose heaviest is as light as possible (bisection on
/// its weight, greedy filling).
std::vector<int> balancedPartition(const std::vector<double> &weights,
                                   int packs);

/// Partitions worth trying at a microbatch size, by ascending number of packs,
/// balanced by what a pack needs of memory and by its time, without repetition.
/// For several devices in a row the numbers are multiples of theirs, so that
/// none has a pack more to do.
std::vector<std::vector<int>> candidatePartitions(const Problem &problem,
                                                  int64_t microbatch,
                                                  int devices = 1);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PARTITION_H
