//===- Packing.h - Packs of a group of one device ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search. In a group of one device nothing depends on who has
// which pack: the packs of least time within a budget of memory, and the
// microbatch size of each, come from dynamic programming over the layers.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PACKING_H
#define COMPILER_PLANNER_PACKING_H

#include "compiler/Planner/Layout.h"

#include <map>
#include <memory>
#include <tuple>

namespace harmony::planner {

struct Shape;

/// The maximum of any range of a list, in constant time (a sparse table).
class RangeMaximum {
public:
  RangeMaximum() = default;
  explicit RangeMaximum(std::vector<double> list);

  /// Of [from, to), which is not empty.
  double of(int from, int to) const;

private:
  std::vector<std::vector<double>> powers; ///< by log2 of the length, from
};

/// What packs of a training step take, at one microbatch size. Sums are over
/// the layers before.
struct SizeTable {
  int64_t microbatch = 1;
  std::vector<double> forward, backward; ///< seconds, sums
  std::vector<double> saved; ///< bytes of saved blocks and outputs, sums
  /// Of a layer's saved bytes times its outputs', sums: over the bytes of a
  /// segment, what its stashes take.
  std::vector<double> stashes;
  RangeMaximum beside;  ///< of one layer: gradients, workspace
  RangeMaximum largest; ///< of one layer: all that a forward needs
  /// The same where nothing is there before it is needed.
  RangeMaximum leanBeside, leanLargest;
};

struct LayerTable {
  explicit LayerTable(const Problem &problem);

  std::vector<SizeTable> sizes; ///< by Problem::microbatches
  std::vector<double> tensors,
      gradients;                ///< bytes, sums over the layers before
  std::vector<double> crossing; ///< bytes of a sample, into each layer
  std::vector<double> inputs;   ///< of a sample's batch inputs, sums
  std::vector<double> outputs;  ///< bytes of a sample, by layer
  /// A large tensor of two layers and of none between them, which packs of both
  /// have once.
  struct Shared {
    int first, last;
    double bytes;
  };
  std::vector<Shared> shared;
  double states = 0; ///< bytes

  const SizeTable &at(int64_t microbatch) const;
};

/// Makes layouts of shapes whose groups have one device. What shapes have in
/// common is computed once.
class Packer {
public:
  Packer(const Problem &problem, const Machine &machine,
         const LayerTable &table);
  ~Packer();

  Layout layoutOf(const Shape &shape);

private:
  const Problem &problem;
  const Machine &machine;
  const LayerTable &table;

  struct Packing;
  class ShapePacker;
  /// By groups, rounds, microbatch size, part of the memory, and Shape's
  /// segments, ahead, lean and resident.
  using Key = std::tuple<int, int, int64_t, double, bool, bool, bool, bool>;
  std::map<Key, std::unique_ptr<Packing>> backward;
  /// And by layer, whether its outputs are left behind.
  std::map<std::pair<Key, std::vector<char>>, std::unique_ptr<Packing>> forward;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PACKING_H
