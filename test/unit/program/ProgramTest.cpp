//===- ProgramTest.cpp - From plans to blobs that train -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Measured.h"
#include "test/unit/program/Programs.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using schedule::ProgramKind;

namespace {

TEST_F(Programs, EveryPlanTrainsAlike) {
  int count = 0;
  for (int64_t u : {1, 2, 4, 8})
    for (int pins = 0; pins < 12; ++pins) {
      planner::SearchOptions options;
      options.microbatch = u;
      if (pins & 1)
        options.residency = planner::Residency::None;
      if (pins & 2)
        options.updatePlace = planner::UpdatePlace::Host;
      if (pins / 4 == 1)
        options.update = planner::UpdateOrder::Deferred;
      if (pins / 4 == 2)
        options.recompute = planner::Recompute::All;
      int64_t smallest = least(u, options);
      for (int64_t capacity :
           {smallest, smallest + smallest / 4, int64_t(1) << 20}) {
        SCOPED_TRACE("microbatch " + std::to_string(u) + ", pins " +
                     std::to_string(pins) + ", capacity " +
                     std::to_string(capacity));
        std::optional<Compiled> compiled = compile(u, capacity, options);
        ASSERT_TRUE(compiled);
        checkRun(*compiled, u, alternate(count++));
        if (HasFailure()) {
          compiled->module->dump();
          llvm::errs() << dumpProgram(compiled->program.blob);
          return;
        }
      }
    }
}

TEST_F(Programs, PacksOfOneLayer) {
  planner::SearchOptions options;
  options.microbatch = 2;
  options.layersPerPack = 1;
  for (auto recompute : {planner::Recompute::All, planner::Recompute::None}) {
    options.recompute = recompute;
    std::optional<Compiled> compiled = compile(2, 1 << 20, options);
    ASSERT_TRUE(compiled);
    checkRun(*compiled, 2, RunMode::SingleThread);
    checkRun(*compiled, 2, RunMode::Threads);
  }
}

/// Plans drawn at random for several devices: packs, groups, places, rings,
/// copies, with sizes that do not divide the batch.
TEST_F(Programs, SeveralDevicesTrainAlike) {
  int count = 0;
  for (int n : {1, 2, 3, 4, 8})
    for (planner::Schedule schedule :
         {planner::Schedule::HarmonyPp, planner::Schedule::HarmonyDp,
          planner::Schedule::PpSwap, planner::Schedule::DpSwap})
      for (int64_t u : {1, 2, 3}) {
        devices = n;
        planner::SearchOptions options;
        options.schedule = schedule;
        options.microbatch = u;
        int64_t smallest = least(u, options);
        bool baseline = schedule == planner::Schedule::PpSwap ||
                        schedule == planner::Schedule::DpSwap;
        for (int draw = 0; draw < (baseline ? 1 : 5); ++draw) {
          int64_t capacity = smallest + draw * smallest / 3;
          SCOPED_TRACE(std::to_string(n) + " devices, " +
                       planner::name(schedule) + ", microbatch " +
                       std::to_string(u) + ", draw " + std::to_string(draw));
          if (draw > 0)
            options.randomSeed = draw + 100 * count;
          std::optional<Compiled> compiled = compile(u, capacity, options);
          ASSERT_TRUE(compiled);
          checkRun(*compiled, u, RunMode::Adversarial, count);
          checkRun(*compiled, u, alternate(count++));
          if (HasFailure())
            return;
        }
      }
}

/// Contributions on the host and on devices, before all updates.
TEST_F(Programs, UpdatesThatReadAllGradients) {
  clips = true;
  int count = 0;
  for (int n : {1, 2, 3})
    for (planner::Schedule schedule :
         {planner::Schedule::HarmonyPp, planner::Schedule::HarmonyDp,
          planner::Schedule::DpSwap})
      for (auto place :
           {planner::UpdatePlace::Host, planner::UpdatePlace::Device}) {
        bool baseline = schedule == planner::Schedule::DpSwap;
        if (baseline && place == planner::UpdatePlace::Host)
          continue;
        devices = n;
        planner::SearchOptions options;
        options.schedule = schedule;
        options.microbatch = 2;
        if (!baseline)
          options.updatePlace = place;
        int64_t smallest = least(2, options);
        for (int draw = 0; draw < (baseline ? 1 : 3); ++draw) {
          SCOPED_TRACE(std::to_string(n) + " devices, " +
                       planner::name(schedule) + ", draw " +
                       std::to_string(draw));
          if (draw > 0)
            options.randomSeed = 1000 + draw + 10 * count;
          std::optional<Compiled> compiled =
              compile(2, smallest + draw * smallest / 2, options);
          ASSERT_TRUE(compiled);
          checkRun(*compiled, 2, RunMode::Adversarial, count);
          checkRun(*compiled, 2, alternate(count++));
          if (HasFailure())
            return;
        }
      }
}

/// 4 and 64 microbatches, in the same packs: loops stay loops.
TEST_F(Programs, SizeDoesNotGrowWithMicrobatches) {
  for (int n : {1, 2, 3})
    for (planner::Schedule schedule :
         {planner::Schedule::HarmonyPp, planner::Schedule::HarmonyDp}) {
      devices = n;
      planner::SearchOptions options;
      options.schedule = schedule;
      options.residency = planner::Residency::None;
      options.layersPerPack = 2;
      options.recompute = planner::Recompute::All;
      options.updatePlace = planner::UpdatePlace::Host;
      int work[2] = {}, order[2] = {}; // commands, by `many`
      for (int many : {0, 1}) {
        int64_t u = many ? 1 : 8;
        Model model = makeChain(true, {u});
        model.problem.batch = n * u * (many ? 64 : 4);
        auto step = plan(model, 1 << 20, options);
        ASSERT_TRUE(step);
        int groups = step->groups;
        OwningOpRef<ModuleOp> module = makeChainModule(&context, {u}, groups);
        addDevices(*module, machine(1 << 20), n);
        ASSERT_TRUE(
            succeeded(schedulePlan(*module, model, *step, ProgramKind::step)));
        ASSERT_TRUE(succeeded(assignAddresses(*module, &*step, nullptr)));
        ASSERT_TRUE(succeeded(verifyMemory(*module)));
        FailureOr<EmittedProgram> program = emitProgram(*module, {});
        ASSERT_TRUE(succeeded(program));
        const char *blob = program->blob.data();
        auto *header = reinterpret_cast<const HmHeader *>(blob);
        auto *commands =
            reinterpret_cast<const HmCommand *>(blob + header->commands.offset);
        for (uint32_t i = 0; i < header->commands.count; ++i) {
          bool ordering =
              commands[i].op == HM_OP_WAIT || commands[i].op == HM_OP_RELEASE;
          ++(ordering ? order : work)[many];
        }
      }
      SCOPED_TRACE(std::to_string(n) + " devices, " + planner::name(schedule));
      EXPECT_EQ(work[0], work[1]);
      // Addresses are not the same, nor is all that waits for them.
      EXPECT_LE(order[1], order[0] + order[0] / 8);
    }
}

/// No number of a machine makes an executable that refuses itself; what one
/// would refuse is known before it is written.
TEST_F(Programs, WhatExecutablesRefuse) {
  for (int64_t capacity : {int64_t(1) << 41, int64_t(1) << 60}) {
    std::optional<Compiled> compiled = compile(2, capacity, {});
    ASSERT_TRUE(compiled);
    std::vector<char> &blob = compiled->program.blob;
    size_t kernels = compiled->program.kernels.size();
    EXPECT_EQ(whyRefused(blob, kernels), "");
    checkRun(*compiled, 2, RunMode::Threads);
    EXPECT_NE(whyRefused(blob, kernels - 1).find(": index is "),
              std::string::npos);
    auto *header = reinterpret_cast<HmHeader *>(blob.data());
    header->hostBytes = int64_t(1) << 47;
    EXPECT_EQ(whyRefused(blob, kernels),
              "header: size of a space is 140737488355328, accepted range is "
              "[0, 140737488355328)");
  }
}

TEST_F(Programs, TextSurvivesParsing) {
  std::optional<Compiled> compiled = compile(2, least(2, {}), {});
  ASSERT_TRUE(compiled);
  std::string text;
  llvm::raw_string_ostream(text) << **compiled->module;
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(again);
  std::string second;
  llvm::raw_string_ostream(second) << **again;
  EXPECT_EQ(text, second);
}

/// Removes one wait after another from valid programs: the replay must see the
/// missing order, or the order must be given by others. Counts both.
TEST_F(Programs, ReplayMissesNoMissingWait) {
  int caught = 0, implied = 0;
  using planner::Schedule;
  struct Row {
    int devices;
    Schedule schedule;
    int64_t slack;
  };
  for (auto [count, schedule, slack] :
       {Row{1, Schedule::HarmonyPp, 0}, Row{1, Schedule::HarmonyPp, 500},
        Row{1, Schedule::HarmonyPp, 100000}, Row{3, Schedule::HarmonyPp, 0},
        Row{2, Schedule::HarmonyPp, 1000}, Row{2, Schedule::HarmonyDp, 0},
        Row{3, Schedule::HarmonyDp, 1000}, Row{2, Schedule::PpSwap, 0}}) {
    devices = count;
    planner::SearchOptions options;
    options.microbatch = 2;
    options.schedule = schedule;
    std::optional<Compiled> compiled =
        compile(2, least(2, options) + slack, options);
    ASSERT_TRUE(compiled);
    int waits = 0;
    compiled->module->walk([&](schedule::WaitOp) { ++waits; });
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    for (int index = 0; index < waits; ++index) {
      OwningOpRef<ModuleOp> mutant = compiled->module->clone();
      int at = 0;
      schedule::WaitOp victim;
      mutant->walk([&](schedule::WaitOp wait) {
        if (at++ == index)
          victim = wait;
      });
      victim.erase();
      failed(verifyMemory(*mutant)) ? ++caught : ++implied;
    }
  }
  RecordProperty("caught", caught);
  RecordProperty("implied", implied);
  EXPECT_GT(caught, 3 * implied)
      << caught << " caught, " << implied << " implied by other waits";
}

/// Moves one buffer after another onto the address of the first: the replay
/// must object.
TEST_F(Programs, ReplaySeesOverlap) {
  planner::SearchOptions options;
  options.microbatch = 2;
  std::optional<Compiled> compiled = compile(2, 1 << 20, options);
  ASSERT_TRUE(compiled);
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  SmallVector<schedule::BufferOp> persistent;
  for (auto buffer : compiled->module->getOps<schedule::BufferOp>())
    if (buffer.getPersistent() && buffer.getProgram() == ProgramKind::step &&
        buffer.getContent() == schedule::Content::tensor)
      persistent.push_back(buffer);
  ASSERT_GE(persistent.size(), 2u) << "everything fits, so weights stay";
  persistent[1].setOffset(*persistent[0].getOffset());
  EXPECT_TRUE(failed(verifyMemory(*compiled->module)));
}

} // namespace
