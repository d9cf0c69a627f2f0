//===- BuildPhases.h - Phases of a plan under construction ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDPHASES_H
#define COMPILER_PLANNER_BUILDPHASES_H

#include "compiler/Planner/BuildContext.h"

#include <tuple>

namespace harmony::planner {

/// Phases with their steps and parts, where each stands on its device and among
/// those of its samples.
class PhaseBuilder {
public:
  explicit PhaseBuilder(BuildContext &context)
      : b(context), problem(context.problem), choices(context.choices) {}

  /// All of the choices' phases.
  void makePhases();
  /// Their Runs, once it is known where values and gradients come in.
  void makeRuns();

private:
  /// Phases with the same samples and microbatches.
  struct Chain {
    std::tuple<int64_t, int64_t, int64_t> key; ///< sample, microbatch, trips
    int number = 0, phases = 0;
  };

  BuildContext &b;
  const Problem &problem;
  const Choices &choices;
  std::vector<Chain> chains; ///< by key
  // Of the phase at hand.
  std::vector<char> again, joined;
  std::vector<double> stepEnds;
  std::vector<int> bySample;

  void makePhase(int p, const PhaseChoice &choice);
  void joinChain(int p, const PhaseChoice &choice);
  void findBands();
  bool isBeside(int before, int p) const;
  void placeOnDevice(int p, bool goesOn);
  void addForwardSteps(int p);
  void addBackwardStep(int p, int layer);
  void addBackwardPhaseSteps(int p);
  void findRecomputed(int p);
  void cutParts(int p);
  void numberMicrobatches();
  int makeRun(int p, int first, int end);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDPHASES_H
