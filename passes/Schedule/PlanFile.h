//===- PlanFile.h - Plans and problems from JSON files ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For passes that run alone. The border between the planner, which throws, and
// passes, which are compiled without exceptions.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PLANFILE_H
#define PASSES_SCHEDULE_PLANFILE_H

#include "compiler/Planner/Plan.h"

#include <optional>
#include <string>

namespace harmony {

/// Read a "harmony.plan" or "harmony.profile" file; without a value `error`
/// says why.
std::optional<planner::Plan> readPlanFile(const std::string &file,
                                          std::string &error);
std::optional<planner::Problem> readProblemFile(const std::string &file,
                                                std::string &error);

/// Whether the plan's numbers mean something in the problem: otherwise `error`
/// says which do not. What the plan does is not judged.
bool fits(const planner::Plan &plan, const planner::Problem &problem,
          std::string &error);

} // namespace harmony

#endif // PASSES_SCHEDULE_PLANFILE_H
