//===- Programs.h - Chains from plans to blobs ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PROGRAM_PROGRAMS_H
#define TEST_UNIT_PROGRAM_PROGRAMS_H

#include "compiler/Planner/Search.h"
#include "compiler/Target/Program/EmitProgram.h"
#include "passes/Memory/Memory.h"
#include "passes/Schedule/Schedule.h"
#include "test/unit/program/Chain.h"
#include "test/unit/program/Runner.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

namespace harmony::test {

inline constexpr float rate = 0.01f;

/// A chain's plans and what they became.
struct Compiled {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  planner::Plan step, evaluate;
  EmittedProgram program;
};

/// Plans chains (Chain.h), compiles them and compares their runs with a
/// reference.
class Programs : public ::testing::Test {
protected:
  void SetUp() override { loadDialects(&context); }

  planner::Machine machine(int64_t capacity) {
    planner::Link peer;
    peer.bytesPerSecond = devices > 1 ? 2e8 : 0;
    return planner::Machine::uniform("test", devices, capacity, 1e8, 1e-6, peer,
                                     3e8);
  }

  /// Microbatch sizes of a split of the batch.
  static std::vector<int64_t>
  sizes(int64_t u, const planner::SearchOptions &options, int devices) {
    planner::SearchOptions pinned = options;
    pinned.microbatch = u;
    return planner::candidateMicrobatches(batch, devices, pinned);
  }

  int64_t least(int64_t u, const planner::SearchOptions &options) {
    return planner::minDeviceBytes(
        makeChain(true, sizes(u, options, devices), clips).problem,
        machine(1 << 20), options);
  }

  std::optional<planner::Plan> plan(const Model &model, int64_t capacity,
                                    const planner::SearchOptions &options) {
    planner::Result result =
        planner::solve(model.problem, machine(capacity), options);
    if (auto *planned = std::get_if<planner::Planned>(&result))
      return planned->plan;
    ADD_FAILURE() << std::get<planner::Infeasible>(result).message;
    return std::nullopt;
  }

  /// Through all stages with their verifiers.
  std::optional<Compiled> compile(int64_t u, int64_t capacity,
                                  const planner::SearchOptions &options) {
    Compiled compiled;
    std::vector<int64_t> candidates = sizes(u, options, devices);
    Model train = makeChain(true, candidates, clips),
          evaluate = makeChain(false, candidates);
    planner::SearchOptions evaluateOptions;
    evaluateOptions.residency = options.residency;
    auto step = plan(train, capacity, options);
    if (!step)
      return std::nullopt;
    // No more than a share of the batch, as training.
    evaluateOptions.microbatch = splitBatch(step->groups, u)[0][0];
    auto evaluation = plan(evaluate, capacity, evaluateOptions);
    if (!evaluation)
      return std::nullopt;
    compiled.step = *step;
    compiled.evaluate = *evaluation;
    compiled.module =
        makeChainModule(&context, candidates, step->groups, clips);
    mlir::ModuleOp module = *compiled.module;
    addDevices(module, machine(capacity), devices);
    bool built =
        mlir::succeeded(schedulePlan(module, train, compiled.step,
                                     schedule::ProgramKind::step)) &&
        mlir::succeeded(schedulePlan(module, evaluate, compiled.evaluate,
                                     schedule::ProgramKind::evaluate)) &&
        mlir::succeeded(
            assignAddresses(module, &compiled.step, &compiled.evaluate)) &&
        mlir::succeeded(mlir::verify(module)) &&
        mlir::succeeded(verifyMemory(module));
    if (!built) {
      ADD_FAILURE() << "schedule or memory failed";
      return std::nullopt;
    }
    ProgramInfo info;
    info.model = "chain";
    mlir::FailureOr<EmittedProgram> program = emitProgram(module, info);
    if (mlir::failed(program)) {
      ADD_FAILURE() << "emission failed";
      return std::nullopt;
    }
    compiled.program = std::move(*program);
    return compiled;
  }

  void checkRun(const Compiled &compiled, int64_t u, RunMode mode,
                uint64_t seed = 0) {
    constexpr int64_t steps = 3;
    RunResult result = runBlob(compiled.program.blob, compiled.program.kernels,
                               steps, rate, mode, seed);
    ASSERT_EQ(result.error, "");
    State state = initialState();
    Split split = splitBatch(compiled.step.groups, u);
    for (int64_t step = 0; step < steps; ++step) {
      StepResult expected = trainStep(state, step, split, rate, clips);
      EXPECT_EQ(result.steps[step].losses, expected.losses) << "step " << step;
      EXPECT_EQ(result.steps[step].denominator, expected.denominator);
      for (int p = 0; step == 0 && p < 3; ++p)
        EXPECT_EQ(result.steps[0].gradients[p], expected.gradients[p])
            << "parameter " << p;
    }
    for (int p = 0; p < 3; ++p) {
      EXPECT_EQ(result.state.weights[p], state.weights[p]) << "parameter " << p;
      EXPECT_EQ(result.state.momenta[p], state.momenta[p]) << "parameter " << p;
    }
    float loss = 0;
    EXPECT_EQ(result.outputs, evaluateOutputs(state, 0, split[0][0], loss));
    EXPECT_EQ(result.evaluationLoss, loss);
    EXPECT_EQ(result.evidence, "");
  }

  static RunMode alternate(int count) {
    return count % 2 == 0 ? RunMode::SingleThread : RunMode::Threads;
  }

  mlir::MLIRContext context;
  int devices = 1;
  bool clips = false;
};

} // namespace harmony::test

#endif // TEST_UNIT_PROGRAM_PROGRAMS_H
