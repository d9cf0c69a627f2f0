//===- Passes.cpp - The steps of Schedule.h as passes ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/Passes.h"
#include "passes/Schedule/PlanFile.h"
#include "passes/Schedule/Schedule.h"

namespace harmony {
#define GEN_PASS_DEF_INSERTSWAPSPASS
#define GEN_PASS_DEF_EXPANDCOLLECTIVESPASS
#define GEN_PASS_DEF_ELIDESWAPSPASS
#define GEN_PASS_DEF_HOISTSWAPSPASS
#define GEN_PASS_DEF_VERIFYSWAPSPASS
#define GEN_PASS_DEF_SCHEDULEQUEUESPASS
#include "passes/Schedule/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

namespace {

/// What a planned pass works on.
struct Planned {
  ProgramOp program;
  planner::Plan plan;
  planner::Problem problem;
};

FailureOr<Planned> readPlanned(ModuleOp module, const std::string &planFile,
                               const std::string &problemFile,
                               const std::string &programName) {
  Planned planned;
  std::optional<ProgramKind> kind = symbolizeProgramKind(programName);
  for (auto program : module.getOps<ProgramOp>())
    if (program.getKind() == kind)
      planned.program = program;
  if (!planned.program ||
      (kind != ProgramKind::step && kind != ProgramKind::evaluate))
    return module.emitError()
           << "option 'program': the module has no program of kind '"
           << programName << "'; accepted are step and evaluate";
  std::string error;
  std::optional<planner::Plan> plan = readPlanFile(planFile, error);
  if (!plan)
    return module.emitError() << "option 'plan': " << error;
  std::optional<planner::Problem> problem = readProblemFile(problemFile, error);
  if (!problem)
    return module.emitError() << "option 'problem': " << error;
  if (!fits(*plan, *problem, error))
    return module.emitError()
           << "option 'plan': " << planFile << " does not fit " << problemFile
           << ": " << error;
  planned.plan = std::move(*plan);
  planned.problem = std::move(*problem);
  return planned;
}

struct InsertSwaps : harmony::impl::InsertSwapsPassBase<InsertSwaps> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(insertSwaps(program)))
        return signalPassFailure();
  }
};

struct ExpandCollectives
    : harmony::impl::ExpandCollectivesPassBase<ExpandCollectives> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(expandCollectives(program)))
        return signalPassFailure();
  }
};

struct ElideSwaps : harmony::impl::ElideSwapsPassBase<ElideSwaps> {
  using ElideSwapsPassBase::ElideSwapsPassBase;
  void runOnOperation() override {
    FailureOr<Planned> planned =
        readPlanned(getOperation(), planFile, problemFile, programName);
    if (failed(planned) ||
        failed(elideSwaps(planned->program, planned->plan, planned->problem)))
      signalPassFailure();
  }
};

struct HoistSwaps : harmony::impl::HoistSwapsPassBase<HoistSwaps> {
  using HoistSwapsPassBase::HoistSwapsPassBase;
  void runOnOperation() override {
    FailureOr<Planned> planned =
        readPlanned(getOperation(), planFile, problemFile, programName);
    if (failed(planned) || failed(hoistSwaps(planned->program, planned->plan)))
      signalPassFailure();
  }
};

struct VerifySwaps : harmony::impl::VerifySwapsPassBase<VerifySwaps> {
  using VerifySwapsPassBase::VerifySwapsPassBase;
  void runOnOperation() override {
    FailureOr<Planned> planned =
        readPlanned(getOperation(), planFile, problemFile, programName);
    if (failed(planned) ||
        failed(verifySwaps(planned->program, planned->plan, planned->problem)))
      signalPassFailure();
  }
};

struct ScheduleQueues : harmony::impl::ScheduleQueuesPassBase<ScheduleQueues> {
  using ScheduleQueuesPassBase::ScheduleQueuesPassBase;
  void runOnOperation() override {
    FailureOr<Planned> planned =
        readPlanned(getOperation(), planFile, problemFile, programName);
    if (failed(planned))
      return signalPassFailure();
    for (ProgramOp program :
         getPrograms(getOperation(), planned->program.getKind()))
      if (failed(scheduleQueues(program, planned->plan)))
        return signalPassFailure();
  }
};

} // namespace
