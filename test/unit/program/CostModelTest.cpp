//===- CostModelTest.cpp - Seconds of tasks -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/CostModel.h"

#include "passes/Tasks/KernelWork.h"
#include "passes/Tasks/LowerTask.h"
#include "passes/Tasks/TaskBuilder.h"
#include "passes/Tasks/TaskDigest.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace harmony;

namespace {

planner::Machine makeMachine() {
  planner::Machine machine = planner::Machine::uniform("m", 1, 1000, 1e6, 0);
  machine.devices[0].flopsPerSecond = 8e9;
  machine.devices[0].bytesPerSecond = 1e9;
  machine.devices[0].launchSeconds = 0;
  return machine;
}

LaunchCost product(int64_t calls, int64_t rows, int64_t columns,
                   int64_t depth) {
  LaunchCost launch;
  launch.calls = calls;
  launch.rows = rows;
  launch.columns = columns;
  launch.depth = depth;
  launch.flops = 2.0 * static_cast<double>(calls * rows * columns * depth);
  launch.pieces = static_cast<double>(calls);
  return launch;
}

double secondsOf(const planner::Machine &machine, const LaunchCost &launch) {
  CostModel model(machine, nullptr);
  TaskCost cost;
  cost.launchCosts = {launch};
  return model.seconds(cost, HM_TASK_FORWARD);
}

TEST(CostModel, ProductsTakeWavesOfCalls) {
  planner::Machine machine = makeMachine();
  LaunchCost launch = product(3, 10, 10, 10);
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 6000 / 8e9);
  machine.devices[0].workers = 2; // two waves, the second half empty
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 2 * 2000 / 4e9);
  machine.devices[0].launchSeconds = 1;
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 1 + 2 * 2000 / 4e9);
  launch.bytes = 5e9; // memory limits
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 1 + 5);
}

TEST(CostModel, RatesAreInterpolated) {
  planner::Machine machine = makeMachine();
  for (int64_t rows : {16, 64})
    for (int64_t depth : {4, 16})
      machine.devices[0].products.push_back(
          {rows, 8, depth, 1e9 * static_cast<double>(rows / 16 * depth)});
  machine.check();
  auto rate = [&](int64_t rows, int64_t columns, int64_t depth) {
    LaunchCost launch = product(1, rows, columns, depth);
    return launch.flops / secondsOf(machine, launch);
  };
  EXPECT_NEAR(rate(16, 8, 4), 4e9, 1);
  EXPECT_NEAR(rate(64, 8, 16), 64e9, 100);
  // In the middle of logarithms; beyond the ends as at the ends.
  EXPECT_NEAR(rate(32, 8, 4), 8e9, 1);
  EXPECT_NEAR(rate(32, 100, 8), 16e9, 1);
  EXPECT_NEAR(rate(1, 1, 1), 4e9, 1);
  EXPECT_NEAR(rate(1000, 1000, 1000), 64e9, 100);
}

TEST(CostModel, MeasuredProductsWaitForMemory) {
  planner::Machine machine = makeMachine();
  machine.devices[0].products = {{16, 16, 16, 2e9}};
  LaunchCost launch = product(2, 16, 16, 16);
  launch.bytes = 5e6;
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 5e6 / 1e9 + launch.flops / 2e9);
}

TEST(CostModel, ProductsReadWhatTheyAddTo) {
  MLIRContext context;
  context.loadDialect<schedule::HarmonyDialect>();
  OpBuilder builder(&context);
  for (schedule::Access access :
       {schedule::Access::Write, schedule::Access::ReadWrite}) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
    TaskOptions options;
    TaskBuilder task(options);
    int gradient = task.addBuffer(
        task.addSlot(schedule::SlotKind::gradient, 0, 4096), 4096);
    TaskBuilder::Launch launch{builder.getUnknownLoc(),
                               TaskBuilder::Launch::Kind::Product};
    launch.operands.push_back({gradient, 0, 4096, access});
    task.add(std::move(launch));
    TaskCost cost = task.finish(*module, builder.getUnknownLoc());
    ASSERT_EQ(cost.launchCosts.size(), 1U);
    EXPECT_EQ(cost.launchCosts[0].bytes,
              access == schedule::Access::Write ? 4096 : 2 * 4096);
  }
}

TEST(CostModel, KernelsAreBoundByMemoryOrOperations) {
  planner::Machine machine = makeMachine();
  planner::Device &device = machine.devices[0];
  LaunchCost launch;
  launch.bytes = 1000;
  launch.operations = 1e6;
  launch.pieces = 8;
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 1e-6);
  device.operationsPerSecond = 1e9;
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 1e-3);
  device.workers = 4;
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 1e-3);
  launch.pieces = 1; // one worker computes, three are idle
  EXPECT_DOUBLE_EQ(secondsOf(machine, launch), 4e-3);
  device = makeMachine().devices[0];
  device.memory = {{100, 8e9}, {10000, 2e9}};
  EXPECT_NEAR(secondsOf(machine, launch), 1000 / 4e9, 1e-12);
}

class MeasuredCosts : public ::testing::Test {
protected:
  MeasuredCosts() {
    context.loadDialect<schedule::HarmonyDialect>();
    module = parseSourceString<ModuleOp>(R"(
      harmony.task @layer_0.u4 slots [#harmony.slot<argument 0, 64>] {
        harmony.launch @a [#harmony.ref<0 + 0, 64, r>] extent 8 grain 1 family row
      }
      harmony.task @layer_0.u8 slots [#harmony.slot<argument 0, 64>] {
        harmony.launch @a [#harmony.ref<0 + 0, 64, r>] extent 16 grain 1 family row
      }
      harmony.task @layer_1.u4 slots [#harmony.slot<argument 0, 64>] {
        harmony.launch @b [#harmony.ref<0 + 0, 64, r>] extent 8 grain 1 family row
      })",
                                         &context);
  }

  schedule::TaskOp task(StringRef name) {
    return module->lookupSymbol<schedule::TaskOp>(name);
  }
  TaskCost cost(StringRef name, double bytes) {
    TaskCost result;
    result.task = task(name);
    LaunchCost launch;
    launch.bytes = bytes;
    result.launchCosts = {launch};
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(MeasuredCosts, TakePrecedenceAndScaleTheRest) {
  ASSERT_TRUE(module);
  planner::Measurements measurements;
  measurements.where = "f";
  auto add = [&](const std::string &key, const std::string &name) {
    planner::Measurements::Task measured;
    measured.key = key;
    measured.name = name;
    measured.seconds = 3e-6;
    measurements.tasks.push_back(measured);
  };
  add(digestTask(task("layer_0.u4")), "layer_0.u4");
  add("changed", "layer_1.u4");
  add("gone", "layer_9.u4");
  planner::Machine machine = makeMachine();
  CostModel model(machine, &measurements);
  planner::Problem problem;
  problem.functions.resize(3);
  auto forward = [&](int function, StringRef name) {
    planner::Cost entry;
    entry.forwardSeconds = model.seconds(cost(name, 1000), HM_TASK_FORWARD);
    problem.functions[function].costs = {entry};
  };
  forward(0, "layer_0.u4");
  forward(1, "layer_0.u8");
  forward(2, "layer_1.u4");
  model.settle(problem);
  // Modelled: 1 us; measured 3.
  EXPECT_DOUBLE_EQ(problem.functions[0].costs[0].forwardSeconds, 3e-6);
  EXPECT_DOUBLE_EQ(problem.functions[1].costs[0].forwardSeconds, 3e-6);
  EXPECT_DOUBLE_EQ(problem.functions[2].costs[0].forwardSeconds, 3e-6);
  std::string report = model.report();
  EXPECT_NE(report.find("1 tasks have measured costs, 2 have modelled ones, "
                        "forward times 3.00, backward times 3.00"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("stale, since their code has changed: layer_1.u4\n"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("is looked at: layer_9.u4\n"), std::string::npos)
      << report;
}

class KernelWork : public testing::Test {
protected:
  KernelWork() {
    context.loadDialect<func::FuncDialect, scf::SCFDialect, arith::ArithDialect,
                        math::MathDialect, vector::VectorDialect>();
  }
  void parse(const char *text) {
    module = parseSourceString<ModuleOp>(text, &context);
  }
  double count(StringRef kernel) const {
    return countOperations(*module, kernel);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(KernelWork, CountsLoopsAndFunctions) {
  parse(R"(
    func.func private @k.body(%x: vector<32xf32>, %s: f32, %begin: i64, %end: i64) {
      %c1 = arith.constant 1 : i64
      %c32 = arith.constant 32 : i64
      %c0 = arith.constant 0 : i64
      %c100 = arith.constant 100 : i64
      scf.for %i = %begin to %end step %c1 : i64 {
        scf.for %j = %c0 to %c100 step %c32 : i64 {
          %0 = arith.addf %x, %x : vector<32xf32>
          %1 = math.exp %0 : vector<32xf32>
          %2 = arith.addi %j, %c1 : i64
        }
        %3 = arith.mulf %s, %s : f32
      }
      return
    }
    func.func private @flat.body(%x: vector<32xf32>, %s: f32, %begin: i64, %end: i64) {
      %c1 = arith.constant 1 : i64
      %c32 = arith.constant 32 : i64
      scf.for %i = %begin to %end step %c32 : i64 {
        %0 = arith.divf %x, %x : vector<32xf32>
      }
      scf.for %i = %begin to %end step %c1 : i64 {
        %0 = arith.divf %s, %s : f32
      }
      return
    })");
  ASSERT_TRUE(module);
  // Four trips of 32 elements, each an addition and an exponential; a scalar
  // takes a register.
  EXPECT_DOUBLE_EQ(count("k"), 4 * 32 * (1 + 20) + 16);
  EXPECT_DOUBLE_EQ(count("flat"), 10);
  EXPECT_DOUBLE_EQ(count("none"), 0);
}

TEST_F(KernelWork, CountsWhatConditionsTake) {
  parse(R"(
    func.func private @either.body(%x: vector<32xf32>, %c: i1) {
      scf.if %c {
        %0 = arith.addf %x, %x : vector<32xf32>
        %1 = arith.addf %0, %x : vector<32xf32>
      } else {
        %0 = arith.addf %x, %x : vector<32xf32>
      }
      return
    }
    func.func private @seldom.body(%x: vector<32xf32>, %c: i1) {
      scf.if %c {
        %0 = arith.addf %x, %x : vector<32xf32>
      } {harmony.taken = 0.25}
      return
    })");
  ASSERT_TRUE(module);
  EXPECT_DOUBLE_EQ(count("either"), 2 * 32);
  EXPECT_DOUBLE_EQ(count("seldom"), 32 * 0.25);
}

TEST_F(KernelWork, ElementwiseLoopsTakeRegisters) {
  parse(R"(
    func.func private @each.body(%s: f32) {
      %c0 = arith.constant 0 : i64
      %c1 = arith.constant 1 : i64
      %c40 = arith.constant 40 : i64
      scf.for %i = %c0 to %c40 step %c1 : i64 {
        %0 = arith.addf %s, %s : f32
      }
      return
    }
    func.func private @chain.body(%s: f32) {
      %c0 = arith.constant 0 : i64
      %c1 = arith.constant 1 : i64
      %c40 = arith.constant 40 : i64
      %0 = scf.for %i = %c0 to %c40 step %c1 iter_args(%sum = %s) -> (f32) : i64 {
        %1 = arith.addf %sum, %s : f32
        scf.yield %1 : f32
      }
      return
    }
    func.func private @positions.body(%s: f32) {
      %c0 = arith.constant 0 : i64
      %c1 = arith.constant 1 : i64
      %c40 = arith.constant 40 : i64
      scf.for %i = %c0 to %c40 step %c1 : i64 {
        %0 = arith.cmpi slt, %i, %c1 : i64
        %1 = arith.addf %s, %s : f32
      }
      return
    })");
  ASSERT_TRUE(module);
  // Registers of 16: three steps where they are taken together, or 40.
  EXPECT_DOUBLE_EQ(count("each"), 3 * 16);
  EXPECT_DOUBLE_EQ(count("chain"), 40 * 16);
  EXPECT_DOUBLE_EQ(count("positions"), 40 * 16);
}

} // namespace
