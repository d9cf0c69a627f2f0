//===- PackBuilder.h - Packs of a plan's phases -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PACKBUILDER_H
#define PASSES_SCHEDULE_PACKBUILDER_H

#include "passes/Schedule/RunBuilder.h"

namespace harmony {

/// Adds the packs of a plan's phases, with the runs of their steps, where the
/// builder of `runs` stands.
class PackBuilder {
public:
  /// Keeps a reference.
  explicit PackBuilder(RunBuilder &runs) : runs(runs) {}

  /// Adds what one Run of a phase does. The pack of a phase begins with the
  /// first of its Runs.
  mlir::LogicalResult addRuns(int64_t index, const planner::Event &event);

private:
  RunBuilder &runs;
  std::map<int, schedule::PackOp> packs; ///< by phase

  schedule::PackOp addPack(int64_t index, const planner::Event &event,
                           const planner::Phase &phase);
  bool isRecomputed(const planner::Phase &phase, int value) const;
  std::string findValue(const planner::Phase &phase, int value,
                        planner::Point point) const;
  schedule::AtAttr savedSegment(const planner::Phase &phase, int layer,
                                int64_t segment, planner::Point point) const;
  std::vector<int> accumulated(int layer) const;
  bool contributes(int layer, int value) const;
  int gradientUse(int layer, int64_t argument) const;
  mlir::LogicalResult addStep(const planner::Phase &phase, int event, int s);
};

} // namespace harmony

#endif // PASSES_SCHEDULE_PACKBUILDER_H
