//===- Shape.cpp - How large packs are, and where the turn begins ---------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packs of groups of one device are the Packer's. Pipelines need packs that
// take the same time, in multiples of their devices.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Shape.h"

#include "compiler/Planner/Partition.h"
#include "compiler/Planner/SearchPolicy.h"

#include <algorithm>
#include <tuple>

namespace harmony::planner {

static auto membersOf(const Shape &s) {
  return std::make_tuple(
      s.groups, s.pipeline, s.microbatch, s.rounds, s.turnPart, s.backwardPart,
      s.forwardPart, s.segments, s.ahead, s.lean, s.resident, s.segmentPart,
      s.placement, s.packs, s.inTurn, s.evenTime, s.forwardMicrobatch);
}

bool Shape::operator==(const Shape &o) const {
  return membersOf(*this) == membersOf(o);
}

bool Shape::operator<(const Shape &o) const {
  return membersOf(*this) < membersOf(o);
}

Shapes::Shapes(const Problem &problem, const Machine &machine)
    : problem(problem), machine(machine), table(problem),
      packer(problem, machine, table) {
  mixes = problem.training && !problem.mixing &&
          std::all_of(problem.values.begin(), problem.values.end(),
                      [](const Value &value) {
                        return value.isInput() || value.sliceable;
                      });
  for (const TensorUse &first : problem.layers.front().tensors)
    for (const TensorUse &last : problem.layers.back().tensors)
      ties |= first.tensor == last.tensor;
  splits = std::all_of(problem.functions.begin(), problem.functions.end(),
                       [](const Function &function) {
                         return std::all_of(function.costs.begin(),
                                            function.costs.end(),
                                            [](const Cost &cost) {
                                              return cost.keptBytes(1) == 0;
                                            });
                       });
}

/// A segment ends with a layer that keeps its outputs and nothing else.
void Shapes::beginSegments(Layout &layout, double bytes) const {
  layout.keep.assign(problem.layers.size(), 0);
  for (int pack = 0; bytes > 0 && pack < layout.lastPack(); ++pack) {
    int64_t u = layout.backwardSize(pack);
    int first = layout.firstBackward(pack);
    double sum = 0;
    for (int l = first; l <= layout.backwardEnds[pack]; ++l) {
      auto saved = static_cast<double>(problem.cost(l, u).savedBytes);
      if (l > first && sum + saved > bytes &&
          problem.cost(l - 1, u).keptBytes(1) == 0) {
        layout.keep[l - 1] = 1;
        sum = 0;
      }
      sum += saved;
    }
  }
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::vector<double> Shapes::weightsOf(int64_t microbatch, bool ofTime) const {
  const SizeTable &of = table.at(microbatch);
  std::vector<double> weights;
  for (int l = 0; l < problem.layerCount(); ++l)
    weights.push_back(ofTime ? of.forward[l + 1] - of.forward[l] +
                                   of.backward[l + 1] - of.backward[l]
                             : of.saved[l + 1] - of.saved[l] +
                                   table.tensors[l + 1] - table.tensors[l] +
                                   table.gradients[l + 1] - table.gradients[l]);
  return weights;
}

const Layout &Shapes::layoutOf(const Shape &shape) {
  auto known = layouts.find(shape);
  if (known == layouts.end())
    known = layouts
                .emplace(shape, shape.pipeline == 1 ? packer.layoutOf(shape)
                                                    : balanced(shape))
                .first;
  return known->second;
}

Layout Shapes::balanced(const Shape &shape) const {
  std::vector<int> ends = balancedPartition(
      weightsOf(shape.microbatch, shape.evenTime), shape.packs);
  Layout layout = uniformLayout(problem, shape.groups, shape.pipeline,
                                shape.placement, ends, shape.microbatch);
  // Large layers may leave fewer packs than were asked for.
  if (int packs = layout.lastPack() + 1; shape.inTurn)
    layout = withTurnOf(packs, std::move(layout));
  if (shape.forwardMicrobatch > 0)
    layout.forwardMicrobatch = shape.forwardMicrobatch;
  layout.rounds = shape.rounds;
  if (shape.segmentPart > 0)
    beginSegments(layout, shape.segmentPart *
                              static_cast<double>(machine.devices[0].capacity));
  return layout;
}

static void addNew(std::vector<Shape> &shapes, const Shape &shape) {
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
    shapes.push_back(shape);
}

/// Those whose packs are all in the turn. Of more packs than devices the turn
/// waits for its copies and its tensors as often, and has fewer layers to do so
/// for: such layouts have won nowhere.
void Shapes::addTurns(Shape shape, std::vector<Shape> &shapes) const {
  int64_t share = sharesOf(problem.batch, shape.groups).front();
  int64_t phases =
      2 * shape.groups * shape.pipeline * (share / shape.microbatch);
  if (!problem.training || !canTakeTurns(problem, shape.groups) ||
      shape.pipeline > problem.layerCount() ||
      phases > SearchPolicy::mostPhasesOfTurn)
    return;
  shape.placement = Placement::Mirror;
  shape.inTurn = true;
  shape.packs = shape.pipeline;
  for (bool evenTime : {false, true}) {
    shape.evenTime = evenTime;
    addNew(shapes, shape);
  }
}

std::vector<Shape> Shapes::of(int groups, int pipeline, int64_t microbatch,
                              int inRounds) const {
  Shape shape;
  shape.groups = groups;
  shape.pipeline = pipeline;
  shape.microbatch = microbatch;
  shape.rounds = inRounds;
  std::vector<Shape> shapes;
  int layers = problem.layerCount();
  if (pipeline > 1) {
    for (Placement placement : {Placement::Mirror, Placement::Ring})
      for (int rounds = 1;; rounds = rounds < 4 ? rounds + 1 : rounds * 3 / 2) {
        shape.placement = placement;
        // With a pack more the last layers are on the device of the first,
        // which then has alone what both read.
        for (int more = 0; more <= (ties ? 1 : 0); ++more) {
          shape.packs = std::min(layers, rounds * pipeline + more);
          for (bool evenTime : {false, true}) {
            shape.evenTime = evenTime;
            addNew(shapes, shape);
          }
        }
        if (shape.packs == layers)
          break;
      }
    addTurns(shape, shapes);
    return shapes;
  }
  auto capacity = static_cast<double>(machine.devices[0].capacity);
  bool fits = table.tensors.back() + table.states / groups < 0.8 * capacity;
  static constexpr double parts[][3] = {
      {0.95, 0.95, 0.95}, {0.6, 0.9, 0.9},   {0.6, 0.9, 0.75},
      {0.9, 0.6, 0.9},    {0.6, 0.6, 0.6},   {0.4, 0.4, 0.5},
      {0.4, 0.2, 0.4},    {0.15, 0.15, 0.2}, {1e3, 0.9, 0.9}};
  for (bool resident : {false, true})
    for (bool segments : {false, true})
      for (bool ahead : {false, true})
        for (const double (&part)[3] : parts) {
          shape.resident = resident;
          shape.segments = segments;
          shape.ahead = ahead;
          shape.turnPart = part[0];
          shape.backwardPart = part[1];
          shape.forwardPart = part[2];
          if ((splits || !segments) && (!resident || (fits && !ahead)))
            shapes.push_back(shape);
        }
  // Memory that packs fill to the brim is missed by what stays and comes ahead,
  // unless there is more to gain by having fewer.
  constexpr double matters = 0.005;
  double computing = 0;
  for (const SizeTable &of : table.sizes)
    if (microbatch == 0 || of.microbatch == microbatch)
      computing = std::max(computing, (of.forward.back() + of.backward.back()) /
                                          static_cast<double>(of.microbatch));
  computing *= static_cast<double>(sharesOf(problem.batch, groups).front());
  if (machine.phaseSeconds < matters * computing)
    return shapes;
  shape.ahead = false;
  shape.lean = true;
  for (bool resident : {false, true})
    for (bool segments : {false, true})
      for (double part : {1.05, 1.0, 0.95}) {
        shape.resident = resident;
        shape.segments = segments;
        shape.turnPart = shape.backwardPart = shape.forwardPart = part;
        if ((splits || !segments) && (!resident || fits))
          shapes.push_back(shape);
      }
  return shapes;
}

std::vector<Shape> Shapes::around(const Shape &shape,
                                  const std::vector<int64_t> &sizes) const {
  std::vector<Shape> shapes;
  if (shape.pipeline > 1) {
    for (int packs : {shape.packs - shape.pipeline, shape.packs - 1,
                      shape.packs + 1, shape.packs + shape.pipeline})
      if (!shape.inTurn && packs >= 1 && packs <= problem.layerCount()) {
        Shape other = shape;
        other.packs = packs;
        addNew(shapes, other);
      }
    for (double segment : {0.0, 0.05, 0.15, 0.3}) {
      Shape other = shape;
      other.segmentPart = segment;
      addNew(shapes, other);
    }
    for (int64_t u : sizes)
      if (mixes && !shape.inTurn && u > shape.microbatch &&
          u <= 4 * shape.microbatch) {
        Shape other = shape;
        other.forwardMicrobatch = u;
        addNew(shapes, other);
      }
  } else {
    for (double factor : {0.75, 0.87, 0.94, 1.06, 1.15, 1.3})
      for (int which = 0; which < 4; ++which) {
        Shape other = shape;
        for (auto [index, part] :
             {std::pair(0, &other.turnPart), std::pair(1, &other.backwardPart),
              std::pair(2, &other.forwardPart)})
          if (which == index || which == 3)
            *part *= factor;
        addNew(shapes, other);
      }
    for (bool Shape::*flag : {&Shape::segments, &Shape::ahead}) {
      Shape other = shape;
      other.*flag = !(shape.*flag);
      if (splits || !other.segments)
        addNew(shapes, other);
    }
  }
  if (shape.microbatch > 0)
    for (int64_t u : sizes)
      if (u != shape.microbatch && u <= 2 * shape.microbatch &&
          2 * u >= shape.microbatch) {
        Shape other = shape;
        other.microbatch = u;
        addNew(shapes, other);
      }
  shapes.erase(std::remove(shapes.begin(), shapes.end(), shape), shapes.end());
  return shapes;
}

} // namespace harmony::planner
