//===- Shape.h - How large packs are, and where the turn begins -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the search: what it varies of a layout.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SHAPE_H
#define COMPILER_PLANNER_SHAPE_H

#include "compiler/Planner/Packing.h"

namespace harmony::planner {

/// Of a training step.
struct Shape {
  int groups = 1, pipeline = 1;
  /// Of all packs; 0: packs have sizes of their own.
  int64_t microbatch = 0;
  int rounds = 1; ///< Layout::rounds

  //===--- groups of one device ---===//

  /// Of a device's memory: what the turn, a backward pack and a forward pack
  /// may fill.
  double turnPart = 0, backwardPart = 0, forwardPart = 0;
  /// Backward packs are recomputed by segments, as few as fit.
  bool segments = false;
  /// Room for the tensors of the next pack, and for gradients of the one
  /// before.
  bool ahead = false;
  /// Memory is what packs cannot do without: one slot, and each thing while it
  /// is needed.
  bool lean = false;
  /// Tensors and what a group has of the states stay: packs fill the rest.
  bool resident = false;

  //===--- pipelines ---===//

  /// Of a device's memory, saved blocks that are recomputed at a time, if one
  /// layer has no more; 0: those of a whole pack.
  double segmentPart = 0;
  Placement placement = Placement::Mirror;
  int packs = 0;         ///< of the layers, the turn included
  bool inTurn = false;   ///< all of them are the turn, one on each device
  bool evenTime = false; ///< packs of equal time rather than equal bytes
  int64_t forwardMicrobatch = 0; ///< 0: as `microbatch`

  bool operator==(const Shape &o) const;
  bool operator<(const Shape &o) const;
};

/// Makes shapes, and layouts of them.
class Shapes {
public:
  Shapes(const Problem &problem, const Machine &machine);

  /// Lives as long as the shapes.
  const Layout &layoutOf(const Shape &shape);

  /// Shapes worth trying, all packs at one microbatch size or, with 0, each at
  /// its own, which needs values that can be sliced.
  std::vector<Shape> of(int groups, int pipeline, int64_t microbatch,
                        int rounds = 1) const;

  /// One step away.
  std::vector<Shape> around(const Shape &shape,
                            const std::vector<int64_t> &sizes) const;

  /// Whether the last layer has a tensor of the first.
  bool areTied() const { return ties; }

  /// Whether packs may have sizes of their own.
  bool mayMix() const { return mixes; }

private:
  const Problem &problem;
  const Machine &machine;
  bool mixes = false;
  bool splits = false; ///< layers may keep their outputs alone
  bool ties = false;   ///< the last layer has a tensor of the first

  LayerTable table;
  Packer packer;
  std::map<Shape, Layout> layouts; ///< so far

  Layout balanced(const Shape &shape) const;
  void addTurns(Shape shape, std::vector<Shape> &shapes) const;
  void beginSegments(Layout &layout, double bytes) const;
  std::vector<double> weightsOf(int64_t microbatch, bool ofTime) const;
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SHAPE_H
