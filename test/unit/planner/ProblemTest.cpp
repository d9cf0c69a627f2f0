//===- ProblemTest.cpp - Links, checks and bounds -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/planner/Problems.h"

#include <functional>

#include <gtest/gtest.h>

using namespace harmony::planner;
using namespace harmony::planner::test;

namespace {

TEST(Problem, LinkDerivesProducersConsumersAndGradientUses) {
  Problem problem = transformer(2, 4, 8, 4, 32);
  // The table is read by the embedding (layer 0) and the head (layer 3).
  ASSERT_EQ(problem.tensors[0].gradientUses.size(), 2u);
  EXPECT_EQ(problem.tensors[0].gradientUses[0].layer, 0);
  EXPECT_EQ(problem.tensors[0].gradientUses[1].layer, 3);
  const Value &mask = problem.values[3];
  EXPECT_EQ(mask.producer, 0);
  EXPECT_EQ(mask.consumers, (std::vector<int>{1, 2}));
  EXPECT_TRUE(problem.values[0].isInput());
}

TEST(Problem, LowerBoundIsTheLargestLayer) {
  // Layer: weight 4096 + gradient 4096 + input 512 + input gradient 512 +
  // output gradient 512 + saved 1024 + workspace 256; scalars 4 + 8. (u = 1)
  Problem problem = chain(5, 8);
  EXPECT_EQ(lowerBound(problem), 2 * 4096 + 3 * 512 + 1024 + 256 + 12);
  EXPECT_EQ(largestLayer(problem), 1); // the first has no input gradient
  EXPECT_EQ(problem.trainingStateBytes(), 5 * 4096 * 4);
}

TEST(Problem, ComputeBoundTakesTheBestMicrobatch) {
  // Forward (u + 0.5) * 4.096e-6, backward twice that: u = 8 is best for D = 8.
  Problem problem = chain(5, 8);
  EXPECT_NEAR(problem.computeBoundSeconds(), 5 * 3 * 8.5 * 4.096e-6, 1e-12);
}

struct Row {
  const char *message;
  std::function<void(Problem &)> damage;
};

TEST(Problem, CheckNamesWhatIsWrong) {
  const Row rows[] = {
      {"batch is 0", [](Problem &p) { p.batch = 0; }},
      {"microbatches is empty", [](Problem &p) { p.microbatches.clear(); }},
      {"microbatch is 5, accepted are ascending sizes from 1 to 4",
       [](Problem &p) { p.microbatches[2] = 5; }},
      {"the batch cannot be split", [](Problem &p) { p.splittable = false; }},
      {"tensor 'layer0.weight': bytes is 0",
       [](Problem &p) { p.tensors[0].bytes = 0; }},
      {"tensor 'layer0.weight': stateBytes is -8",
       [](Problem &p) { p.tensors[0].stateBytes = -8; }},
      {"tensor 'layer0.weight' is not trainable",
       [](Problem &p) { p.tensors[0].trainable = false; }},
      {"gradientBytes is 0",
       [](Problem &p) { p.tensors[0].gradientBytes = 0; }},
      {"tensor 'layer0.weight' takes 35184372088833 * 1 bytes, accepted are at "
       "most 35184372088832",
       [](Problem &p) { p.tensors[0].bytes = (int64_t(1) << 45) + 1; }},
      {"value 'x' takes 8796093022209 * 4 bytes",
       [](Problem &p) { p.values[0].bytesPerSample = (int64_t(1) << 43) + 1; }},
      {"takes 35184372088833 * 1 bytes",
       [](Problem &p) {
         p.functions[0].costs[0].savedBytes = (int64_t(1) << 45) + 1;
       }},
      {"in a forward-only program", [](Problem &p) { p.training = false; }},
      {"value 'x' has no bytes",
       [](Problem &p) { p.values[0].bytesPerSample = 0; }},
      {"value 'x' is a batch input and differentiable",
       [](Problem &p) { p.values[0].differentiable = true; }},
      {"value 'layer0.out' is differentiable but no consumer",
       [](Problem &p) { p.layers[1].inputs[0].gradient = false; }},
      {"contributes to the gradient of value 'layer0.out', which is not",
       [](Problem &p) { p.values[1].differentiable = false; }},
      {"no layer is the loss", [](Problem &p) { p.layers[2].isLoss = false; }},
      {"function 'layer' has 2 costs",
       [](Problem &p) { p.functions[0].costs.pop_back(); }},
      {"cost 0 is for microbatch 2",
       [](Problem &p) { p.functions[0].costs[0].microbatch = 2; }},
      {"forwardSeconds is -1",
       [](Problem &p) { p.functions[0].costs[0].forwardSeconds = -1; }},
      {"backwardSeconds is nan",
       [](Problem &p) {
         p.functions[0].costs[0].backwardSeconds = std::nan("");
       }},
      {"scalar 'seed': bytes is 0", [](Problem &p) { p.scalars[0].bytes = 0; }},
      {"layers is empty", [](Problem &p) { p.layers.clear(); }},
      {"value 'x' is sliceable and has fixedBytes 4",
       [](Problem &p) {
         p.values[0].sliceable = true;
         p.values[0].fixedBytes = 4;
       }},
      {"scalar 'loss': layer is 1, accepted is the loss layer",
       [](Problem &p) { p.scalars[1].layer = 1; }},
      {"tensor 'layer0.weight': contribution is 1, accepted is a scalar of "
       "role contribution",
       [](Problem &p) { p.tensors[0].contribution = 1; }},
      {"is given, but no epilogue reads it",
       [](Problem &p) {
         p.scalars.push_back({"norm", 4, ScalarRole::Contribution, -1});
         p.tensors[0].contribution = 2;
       }},
      {"scalar 'norm' is the contribution of 0 tensors",
       [](Problem &p) {
         p.scalars.push_back({"norm", 4, ScalarRole::Contribution, -1});
       }},
  };
  for (const Row &row : rows) {
    Problem problem = chain(3, 4);
    row.damage(problem);
    try {
      problem.check();
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
}

TEST(Problem, LinkNamesWhatIsWrong) {
  const Row rows[] = {
      {"tensor index is 7, accepted range is [0, 2]",
       [](Problem &p) { p.layers[1].tensors[0].tensor = 7; }},
      {"input value index is -1",
       [](Problem &p) { p.layers[1].inputs[0].value = -1; }},
      {"output value index is 9",
       [](Problem &p) { p.layers[1].outputs[0] = 9; }},
      {"function index is 1", [](Problem &p) { p.layers[1].function = 1; }},
      {"is produced by layers 'layer0' and 'layer1'",
       [](Problem &p) { p.layers[1].outputs = p.layers[0].outputs; }},
      {"lists input value 'layer0.out' twice",
       [](Problem &p) { p.layers[1].inputs.push_back(p.layers[1].inputs[0]); }},
  };
  for (const Row &row : rows) {
    Problem problem = chain(3, 4);
    row.damage(problem);
    try {
      problem.link();
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
}

TEST(Machine, CheckNamesWhatIsWrong) {
  struct MachineRow {
    const char *message;
    std::function<void(Machine &)> damage;
  };
  const MachineRow rows[] = {
      {"has no device", [](Machine &m) { m.devices.clear(); }},
      {"capacity of device 0 is 0",
       [](Machine &m) { m.devices[0].capacity = 0; }},
      {"has no link from device 0 to the host",
       [](Machine &m) { m.links.pop_back(); }},
      {"link end is 5", [](Machine &m) { m.links[0].to = 5; }},
      {"has bandwidth 0", [](Machine &m) { m.links[0].bytesPerSecond = 0; }},
      {"to itself", [](Machine &m) { m.links[0].from = 0; }},
      {"hostBytes is -1", [](Machine &m) { m.hostBytes = -1; }},
      {"resource 'port' has bandwidth 0",
       [](Machine &m) { m.resources.push_back({"port", 0}); }},
      {"shares resource 1, there are 1",
       [](Machine &m) {
         m.resources.push_back({"port", 1e9});
         m.links[0].shares = {1};
       }},
      {"shares 5 resources, accepted are at most 4",
       [](Machine &m) {
         m.resources.push_back({"port", 1e9});
         m.links[0].shares.assign(5, 0);
       }},
      {"has 257 devices",
       [](Machine &m) { m.devices.resize(257, m.devices[0]); }},
  };
  for (const MachineRow &row : rows) {
    Machine m = machine(1000);
    row.damage(m);
    try {
      m.check();
      ADD_FAILURE() << "accepted: " << row.message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << error.what();
    }
  }
}

TEST(Machine, NamedOnesAreSoundAndRoundTrip) {
  for (const std::string &name : Machine::names()) {
    std::optional<Machine> machine = Machine::named(name);
    ASSERT_TRUE(machine) << name;
    EXPECT_EQ(machine->name, name);
    EXPECT_EQ(machine->devices.size(), 8u);
    EXPECT_NO_THROW(machine->check());
  }
  EXPECT_FALSE(Machine::named("8x1080"));
  Machine original = *Machine::named("harmony-1080ti");
  EXPECT_EQ(original.devices[7].capacity, int64_t(10) << 30);
  EXPECT_TRUE(original.hasLink(7, 0));
  EXPECT_EQ(original.link(hostEndpoint, 0).shares,
            original.link(hostEndpoint, 7).shares);
  EXPECT_FALSE(Machine::named("8x4090-24g")->hasLink(0, 1));
  // NVLink: what device 2 sends shares a port, whoever receives it.
  Machine switched = *Machine::named("8xh100-80g");
  EXPECT_EQ(switched.link(2, 0).shares[0], switched.link(2, 7).shares[0]);
  EXPECT_NE(switched.link(2, 0).shares[1], switched.link(2, 7).shares[1]);
}

} // namespace
