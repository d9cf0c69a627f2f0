//===- UpdateTest.cpp - Optimizers against their formulas -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

namespace {

constexpr double kWeight = 0.75, kGradient = -0.3, kFirst = 0.11,
                 kSecond = 0.04;

/// Adds `optimizer` to a module with one parameter of one element and applies
/// it.
std::vector<double> applyOptimizer(const std::string &optimizer,
                                   std::vector<double> state,
                                   std::vector<double> scalars) {
  Model model;
  EXPECT_TRUE(model.parse("nn.variable <parameter> @w : "
                          "tensor<1xf32>\nfunc.func @main() { return }"));
  EXPECT_TRUE(model.run(createAddOptimizerPass(optimizer))) << model.messages;
  func::FuncOp update = model.function(optimizer + "_1");
  std::vector<HostTensor> inputs{makeFloats(model.context, {1}, {kWeight}),
                                 makeFloats(model.context, {1}, {kGradient})};
  for (double value : state)
    inputs.push_back(makeFloats(model.context, {1}, {value}));
  for (double value : scalars)
    inputs.push_back(makeFloats(model.context, {}, {value}));
  auto results = nn::evaluate(update, inputs);
  EXPECT_TRUE(succeeded(results)) << model.messages;
  std::vector<double> values;
  for (const HostTensor &result : *results)
    values.push_back(result.floats[0]);
  return values;
}

// PyTorch's formulas at step 3: lr 0.01, betas 0.9 and 0.99, epsilon 1e-3,
// decay 0.1.
struct Adam {
  double m, v, step;

  explicit Adam(double g) {
    m = 0.9 * kFirst + 0.1 * g;
    v = 0.99 * kSecond + 0.01 * g * g;
    step = 0.01 * (m / (1 - std::pow(0.9, 3))) /
           (std::sqrt(v / (1 - std::pow(0.99, 3))) + 1e-3);
  }
};

std::vector<double> adamScalars(double decay) {
  return {decay,
          0.1,
          0.99,
          0.01,
          1e-3,
          0.01 / (1 - std::pow(0.9, 3)),
          std::sqrt(1 - std::pow(0.99, 3))};
}

TEST(AddOptimizer, AdamWDecaysTheWeight) {
  std::vector<double> result =
      applyOptimizer("adamw", {kFirst, kSecond}, adamScalars(1 - 0.01 * 0.1));
  Adam expected(kGradient);
  EXPECT_NEAR(result[0], kWeight * (1 - 0.01 * 0.1) - expected.step, 1e-12);
  EXPECT_NEAR(result[1], expected.m, 1e-12);
  EXPECT_NEAR(result[2], expected.v, 1e-12);
}

TEST(AddOptimizer, AdamAddsTheDecayToTheGradient) {
  std::vector<double> result =
      applyOptimizer("adam", {kFirst, kSecond}, adamScalars(0.1));
  Adam expected(kGradient + 0.1 * kWeight);
  EXPECT_NEAR(result[0], kWeight - expected.step, 1e-12);
  EXPECT_NEAR(result[1], expected.m, 1e-12);
  EXPECT_NEAR(result[2], expected.v, 1e-12);
}

TEST(AddOptimizer, SgdHasMomentum) {
  std::vector<double> result =
      applyOptimizer("sgd", {kFirst}, {0.1, 0.9, 0.01});
  double v = 0.9 * kFirst + kGradient + 0.1 * kWeight;
  EXPECT_NEAR(result[0], kWeight - 0.01 * v, 1e-12);
  EXPECT_NEAR(result[1], v, 1e-12);
}

/// The specification's Adam with the rate of step T, on one element of the
/// golden training graph.
void checkTrainingGraph(int64_t counter) {
  Model model(std::string(HARMONY_TEST_MODELS) + "/training_info/mlp_adam.onnx",
              {});
  ASSERT_TRUE(model.ok) << model.messages;
  auto steps = nn::evaluate(model.function("step_scalars"),
                            {makeIntegers(model.context, {}, {counter})});
  ASSERT_TRUE(succeeded(steps)) << model.messages;
  double alpha = 0.9f, beta = 0.999f, rate = 1e-3;
  // R is the model's only constant rate: found again in the result for T = 0.
  auto plain = nn::evaluate(model.function("step_scalars"),
                            {makeIntegers(model.context, {}, {0})});
  ASSERT_TRUE(succeeded(plain));
  rate = (*plain)[0].floats[0];
  double t = static_cast<double>(counter);
  double expected = counter > 0 ? rate * std::sqrt(1 - std::pow(beta, t)) /
                                      (1 - std::pow(alpha, t))
                                : rate;
  EXPECT_NEAR((*steps)[0].floats[0], expected, 1e-9 * expected);
  EXPECT_EQ((*steps)[1].integers[0], counter + 1);

  nn::HostTensor w(
      RankedTensorType::get({32}, Float32Type::get(&model.context)));
  nn::HostTensor g = w, v = w, h = w;
  w.floats.assign(32, kWeight);
  g.floats.assign(32, kGradient);
  v.floats.assign(32, kFirst);
  h.floats.assign(32, kSecond);
  auto update =
      nn::evaluate(model.function("update_32"), {w, g, v, h, (*steps)[0]});
  ASSERT_TRUE(succeeded(update)) << model.messages;
  double newV = alpha * kFirst + (1 - alpha) * kGradient;
  double newH = beta * kSecond + (1 - beta) * kGradient * kGradient;
  EXPECT_NEAR((*update)[1].floats[7], newV, 1e-7);
  EXPECT_NEAR((*update)[2].floats[7], newH, 1e-7);
  EXPECT_NEAR((*update)[0].floats[7],
              kWeight - expected * newV / (std::sqrt(newH) + 1e-8), 1e-7);
}

TEST(TrainingGraph, AdamWithoutCorrection) { checkTrainingGraph(0); }
TEST(TrainingGraph, AdamFirstStep) { checkTrainingGraph(1); }
TEST(TrainingGraph, AdamManySteps) { checkTrainingGraph(1237); }
TEST(TrainingGraph, AdamBeyondThePowers) {
  checkTrainingGraph(int64_t(1) << 40);
}

} // namespace
