//===- ArtifactPlan.h - Schedules of Harmony's artifact as plans -*- C++
//-*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_ARTIFACTPLAN_H
#define COMPILER_PLANNER_ARTIFACTPLAN_H

#include "compiler/Planner/ArtifactSchedule.h"
#include "compiler/Planner/Search.h"

namespace harmony::planner {

/// The schedule's packs, microbatches and placement as a plan of ours, whatever
/// memory it takes: all of a pack recomputed, updates on the host, tensors
/// loaded a phase ahead and results stored a phase behind, values copied
/// between devices in the pipeline and stored on the host by data parallel
/// groups. `problem` is the profile's at the schedule's batch, with its two
/// microbatches; `machine` has the schedule's devices. Throws Error where the
/// three do not belong together.
Plan planOf(const ArtifactSchedule &schedule, const Problem &problem,
            const Machine &machine);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_ARTIFACTPLAN_H
