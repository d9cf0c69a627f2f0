//===- PlanArtifact.h - Estimates of Harmony's schedules --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `harmonyc plan PROFILE.json --estimator artifact --plan-in SCHEDULE.json`.
// Like Planning.h the border to the planner, which throws.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PLANARTIFACT_H
#define COMPILER_DRIVER_PLANARTIFACT_H

#include "compiler/Driver/Planning.h"

namespace harmony {

struct ScheduleEstimate {
  std::string text;     ///< what is printed
  std::string document; ///< "harmony.estimate", for --plan-out
};

/// Of the artifact's profile in options.model and the artifact's schedule of
/// --plan-in, on the machine of the flags, by default the artifact's. `error`
/// where there is none.
ScheduleEstimate estimateSchedule(const CompilerOptions &options,
                                  std::string &error);

} // namespace harmony

#endif // COMPILER_DRIVER_PLANARTIFACT_H
