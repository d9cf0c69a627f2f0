//===- ProgramTest.cpp - From plans to blobs that train -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Search.h"
#include "compiler/Target/Program/EmitProgram.h"
#include "passes/Memory/Memory.h"
#include "passes/Schedule/Schedule.h"
#include "test/unit/program/Chain.h"
#include "test/unit/program/Runner.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using schedule::ProgramKind;

namespace {

constexpr float rate = 0.01f;

struct Compiled {
  OwningOpRef<ModuleOp> module;
  planner::Plan step, evaluate;
  EmittedProgram program;
};

class Programs : public ::testing::Test {
protected:
  void SetUp() override { loadDialects(&context); }

  planner::Machine machine(int64_t capacity) { return planner::Machine::uniform("test", 1, capacity, 1e8, 1e-6); }

  int64_t least(int64_t u, const planner::SearchOptions &options) {
    return planner::minDeviceBytes(makeChain(true, u).problem, machine(1 << 20), options);
  }

  std::optional<planner::Plan> plan(const Model &model, int64_t capacity, const planner::SearchOptions &options) {
    planner::Result result = planner::solve(model.problem, machine(capacity), options);
    if (auto *planned = std::get_if<planner::Planned>(&result))
      return planned->plan;
    ADD_FAILURE() << std::get<planner::Infeasible>(result).message;
    return std::nullopt;
  }

  /// Through all stages with their verifiers.
  std::optional<Compiled> compile(int64_t u, int64_t capacity, const planner::SearchOptions &options) {
    Compiled compiled;
    Model train = makeChain(true, u), evaluate = makeChain(false, u);
    planner::SearchOptions evaluateOptions;
    evaluateOptions.residency = options.residency;
    auto step = plan(train, capacity, options), evaluation = plan(evaluate, capacity, evaluateOptions);
    if (!step || !evaluation)
      return std::nullopt;
    compiled.step = *step;
    compiled.evaluate = *evaluation;
    compiled.module = makeChainModule(&context, u);
    ModuleOp module = *compiled.module;
    addDevices(module, machine(capacity));
    bool built = succeeded(schedulePlan(module, train, compiled.step, ProgramKind::step)) &&
                 succeeded(schedulePlan(module, evaluate, compiled.evaluate, ProgramKind::evaluate)) &&
                 succeeded(assignAddresses(module, &compiled.step, &compiled.evaluate)) && succeeded(verify(module)) &&
                 succeeded(verifyMemory(module));
    if (!built) {
      ADD_FAILURE() << "schedule or memory failed";
      return std::nullopt;
    }
    ProgramInfo info;
    info.model = "chain";
    FailureOr<EmittedProgram> program = emitProgram(module, info);
    if (failed(program)) {
      ADD_FAILURE() << "emission failed";
      return std::nullopt;
    }
    compiled.program = std::move(*program);
    return compiled;
  }

  void checkRun(const Compiled &compiled, int64_t u, bool singleThread) {
    constexpr int64_t steps = 3;
    RunResult result = runBlob(compiled.program.blob, compiled.program.kernels, steps, rate, singleThread);
    ASSERT_EQ(result.error, "");
    State state = initialState();
    for (int64_t step = 0; step < steps; ++step) {
      StepResult expected = trainStep(state, step, u, rate);
      EXPECT_EQ(result.steps[step].loss, expected.loss) << "step " << step;
      EXPECT_EQ(result.steps[step].denominator, expected.denominator);
      for (int p = 0; step == 0 && p < 3; ++p) {
        EXPECT_EQ(result.steps[0].gradients[p][0], expected.gradients[p][0]) << "parameter " << p;
        if (p == 1) {
          EXPECT_EQ(result.steps[0].gradients[p][1], expected.gradients[p][1]);
        }
      }
    }
    for (int p = 0; p < 3; ++p) {
      EXPECT_EQ(result.state.weights[p], state.weights[p]) << "parameter " << p;
      EXPECT_EQ(result.state.momenta[p], state.momenta[p]) << "parameter " << p;
    }
    float loss = 0;
    EXPECT_EQ(result.outputs, evaluateOutputs(state, 0, u, loss));
    EXPECT_EQ(result.evaluationLoss, loss);
    EXPECT_EQ(result.evidence, "");
  }

  MLIRContext context;
};

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
      for (int64_t capacity : {smallest, smallest + smallest / 4, int64_t(1) << 20}) {
        SCOPED_TRACE("microbatch " + std::to_string(u) + ", pins " + std::to_string(pins) + ", capacity " +
                     std::to_string(capacity));
        std::optional<Compiled> compiled = compile(u, capacity, options);
        ASSERT_TRUE(compiled);
        checkRun(*compiled, u, count++ % 2 == 0);
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
    checkRun(*compiled, 2, true);
    checkRun(*compiled, 2, false);
  }
}

TEST_F(Programs, SizeDoesNotGrowWithMicrobatches) {
  planner::SearchOptions options;
  options.residency = planner::Residency::None;
  options.layersPerPack = 2;
  options.recompute = planner::Recompute::All;
  options.updatePlace = planner::UpdatePlace::Host;
  std::optional<Compiled> few = compile(4, 1 << 20, options), many = compile(1, 1 << 20, options);
  ASSERT_TRUE(few && many);
  auto commands = [](const Compiled &compiled) {
    return reinterpret_cast<const HmHeader *>(compiled.program.blob.data())->commands.count;
  };
  EXPECT_LE(commands(*many), commands(*few) + commands(*few) / 8) << "8 microbatches against 2";
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

/// Removes one wait after another from valid programs: the replay must see the missing order, or the
/// order must be given by others. Counts both.
TEST_F(Programs, ReplayMissesNoMissingWait) {
  int caught = 0, implied = 0;
  for (int64_t slack : {0, 500, 100000}) {
    planner::SearchOptions options;
    options.microbatch = 2;
    std::optional<Compiled> compiled = compile(2, least(2, options) + slack, options);
    ASSERT_TRUE(compiled);
    int waits = 0;
    compiled->module->walk([&](schedule::WaitOp) { ++waits; });
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
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
  EXPECT_GT(caught, 3 * implied) << caught << " caught, " << implied << " implied by other waits";
}

/// Moves one buffer after another onto the address of the first: the replay must object.
TEST_F(Programs, ReplaySeesOverlap) {
  planner::SearchOptions options;
  options.microbatch = 2;
  std::optional<Compiled> compiled = compile(2, 1 << 20, options);
  ASSERT_TRUE(compiled);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  SmallVector<schedule::BufferOp> persistent;
  for (auto buffer : compiled->module->getOps<schedule::BufferOp>())
    if (buffer.getPersistent() && buffer.getProgram() == ProgramKind::step && buffer.getContent() == schedule::Content::tensor)
      persistent.push_back(buffer);
  ASSERT_GE(persistent.size(), 2u) << "everything fits, so weights stay";
  persistent[1].setOffset(*persistent[0].getOffset());
  EXPECT_TRUE(failed(verifyMemory(*compiled->module)));
}

} // namespace
