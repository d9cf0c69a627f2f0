//===- PlanProfile.h - Plans of profiles ------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `harmonyc plan` of a profile instead of a model: a "harmony.profile" document
// or a profile of Harmony's artifact. Like Planning.h the border to the
// planner, which throws.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_PLANPROFILE_H
#define COMPILER_DRIVER_PLANPROFILE_H

#include "compiler/Driver/Planning.h"

namespace harmony {

/// Whether the file is a JSON object, which no model is.
bool isProfile(const std::string &path);

/// What the JSON document is instead of a model, and what takes it.
std::string whyNoModel(const std::string &path);

struct ProfilePlan {
  planner::Problem problem;
  PlanOutcome outcome;
};

/// Reads the profile in options.model and plans it, or verifies the plan of
/// --plan-in. An artifact profile needs --batch; a problem has its own. On
/// `machine`, where that is not null, instead of that of the flags.
ProfilePlan planProfile(const CompilerOptions &options,
                        const planner::Machine *machine = nullptr);

} // namespace harmony

#endif // COMPILER_DRIVER_PLANPROFILE_H
