//===- Simulate.h - What the work of a plan takes ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// simulate() and timeline() are declared in Build.h.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SIMULATE_H
#define COMPILER_PLANNER_SIMULATE_H

#include "compiler/Planner/Plan.h"

namespace harmony::planner {

/// Seconds of one iteration of an event; 0 for transfers and for what takes
/// next to nothing. A Run is the sum of its steps. An update reads the gradient
/// of one group at the problem's cost, and that of each further group at the
/// share of it which reading one array has; a contribution reads all parts.
double workSeconds(const Plan &plan, const Problem &problem,
                   const Event &event);

/// Seconds that the compute queues of each device are at work in one execution,
/// the machine's seconds at the ends of phases included.
std::vector<double> deviceSeconds(const Plan &plan, const Problem &problem,
                                  const Machine &machine);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SIMULATE_H
