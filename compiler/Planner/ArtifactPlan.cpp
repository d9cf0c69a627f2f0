//===- ArtifactPlan.cpp - Schedules of Harmony's artifact as plans --------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ArtifactPlan.h"

#include "compiler/Planner/Filling.h"

namespace harmony::planner {

static Layout layoutOf(const ArtifactSchedule &schedule) {
  Layout layout;
  layout.groups = schedule.dataParallel ? schedule.devices : 1;
  layout.pipeline = schedule.dataParallel ? 1 : schedule.devices;
  layout.placement = Placement::Ring;
  for (const ArtifactPack &pack : schedule.forwardPacks)
    layout.forwardEnds.push_back(pack.lastLayer);
  for (const ArtifactPack &pack : schedule.backwardPacks)
    layout.backwardEnds.push_back(pack.lastLayer);
  layout.forwardMicrobatch = schedule.forwardMicrobatch;
  layout.backwardMicrobatch = schedule.backwardMicrobatch;
  return layout;
}

Plan planOf(const ArtifactSchedule &schedule, const Problem &problem,
            const Machine &machine) {
  auto differ = [&](const std::string &what, int64_t of, int64_t wanted) {
    if (of != wanted)
      throw Error("schedule of '" + schedule.model + "': " + what + " is " +
                  std::to_string(wanted) + ", accepted is " +
                  std::to_string(of) + " as of profile and machine");
  };
  differ("the number of layers", problem.layerCount(),
         schedule.backwardPacks.back().lastLayer + 1);
  differ("D", problem.batch, schedule.batch);
  differ("N", static_cast<int64_t>(machine.devices.size()), schedule.devices);
  SearchOptions options;
  Decisions decisions = Filling(problem, machine, options)
                            .base(layoutOf(schedule), Updates::Host);
  Choices &choices = decisions.choices;
  choices.overlap = true;
  choices.slots = 2;
  choices.gather.clear();
  choices.loader.clear();
  if (!schedule.dataParallel)
    choices.place = choices.gradientPlace =
        std::vector<Place>(problem.values.size(), Place::Adjacent);
  Draft draft = build(problem, machine, choices);
  allocate(draft.plan);
  draft.plan.peakBytes.resize(machine.devices.size(), 0);
  synchronize(draft);
  simulate(draft.plan, problem, machine);
  return std::move(draft.plan);
}

} // namespace harmony::planner
