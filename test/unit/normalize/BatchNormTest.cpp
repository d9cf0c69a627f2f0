//===- BatchNormTest.cpp - BatchNormalization against its formulas --------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every version of the operator in both forms: loss and running statistics of
// one training step in double precision.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "dialects/NN/NN.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

namespace {

constexpr int kSamples = 4, kChannels = 3, kPositions = 2,
              kCount = kSamples * kPositions;
constexpr double kEpsilon = 0.01;

struct Case {
  int opset;
  bool trains;
  double momentum;
  const char *variance; ///< --bn-running-var
  const char *rule;     ///< --batch-norm
};

void PrintTo(const Case &c, std::ostream *out) {
  *out << "opset " << c.opset << (c.trains ? " trains" : " frozen")
       << ", momentum " << c.momentum << ", variance " << c.variance << ", "
       << c.rule;
}

const std::vector<double> kScale{1.5, -0.5, 2}, kShift{0.25, 1, -1},
    kMean{0.5, -1, 2}, kVariance{0.5, 2, 1.25};

/// x[sample][channel][position], row-major.
std::vector<double> makeInput() {
  std::vector<double> x;
  for (int i = 0; i < kSamples * kChannels * kPositions; ++i)
    x.push_back(static_cast<float>(std::sin(1.7 * i) + 0.1 * i));
  return x;
}

std::string makeModel(const Case &c) {
  auto list = [](const std::vector<double> &values) {
    std::ostringstream text;
    for (double value : values)
      text << (text.tellp() > 0 ? ", " : "") << value;
    return "{" + text.str() + "}";
  };
  bool hasMode = c.opset >= 14, isOld = c.opset < 7;
  std::ostringstream text;
  text << "<ir_version: 7, opset_import: [\"\" : " << c.opset << "]>\n"
       << "main (float[N, 3, 2] x) => (float loss)\n"
       << "<float[3] s = " << list(kScale) << ", float[3] b = " << list(kShift)
       << ", float[3] m = " << list(kMean)
       << ", float[3] v = " << list(kVariance) << ">\n{ y"
       << (!c.trains ? ""
           : hasMode ? ", m1, v1"
                     : ", m1, v1, m2, v2")
       << " = BatchNormalization <epsilon = " << kEpsilon
       << ", momentum = " << std::showpoint << c.momentum
       << (c.opset == 1 ? ", consumed_inputs = [0, 0, 0, 1, 1]" : "")
       << (hasMode && c.trains ? ", training_mode = 1" : "")
       << (isOld && !c.trains ? ", is_test = 1" : "") << "> (x, s, b, m, v)\n"
       << "  a = ReduceLogSumExp <axes = [1, 2], keepdims = 0> (y)\n"
       << "  loss = ReduceMean <keepdims = 0> (a) }\n";
  return text.str();
}

class BatchNormTest : public testing::TestWithParam<Case> {};

TEST_P(BatchNormTest, FollowsItsFormulas) {
  const Case &c = GetParam();
  SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("norm", "onnxtext", path));
  llvm::FileRemover remover(path);
  std::ofstream(path.c_str()) << makeModel(c);
  NormalizeOptions options;
  options.runningVariance = c.variance;
  options.batchNorm = c.rule;
  Model model(path, options);
  ASSERT_TRUE(model.ok) << model.messages;

  std::vector<double> x = makeInput();
  nn::EvaluateOptions evaluation;
  evaluation.samples = kSamples;
  SmallVector<double> losses;
  llvm::StringMap<HostTensor> assigned;
  evaluation.losses = &losses;
  evaluation.assigned = &assigned;
  ASSERT_TRUE(succeeded(nn::evaluate(
      model.function("main"),
      {makeFloats(model.context, {kSamples, kChannels, kPositions}, x)},
      evaluation)))
      << model.messages;

  bool byBatch = c.trains || std::string(c.rule) == "train";
  bool unbiased = std::string(c.variance) != "onnx";
  EXPECT_EQ(byBatch, (*model.module)->hasAttr(nn::kUnsplittableAttr));
  EXPECT_EQ(assigned.size(), byBatch ? 2u : 0u);
  std::vector<double> y(x.size());
  for (int channel = 0; channel < kChannels; ++channel) {
    double mean = 0, variance = 0;
    auto forEach = [&](auto body) {
      for (int sample = 0; sample < kSamples; ++sample)
        for (int position = 0; position < kPositions; ++position)
          body((sample * kChannels + channel) * kPositions + position);
    };
    forEach([&](int i) { mean += x[i] / kCount; });
    forEach([&](int i) { variance += std::pow(x[i] - mean, 2) / kCount; });
    double batchMean = byBatch ? mean : kMean[channel],
           batchVariance = byBatch ? variance : kVariance[channel];
    forEach([&](int i) {
      y[i] = (x[i] - batchMean) / std::sqrt(batchVariance + kEpsilon) *
                 kScale[channel] +
             kShift[channel];
    });
    if (!byBatch)
      continue;
    if (unbiased)
      variance *= static_cast<double>(kCount) / (kCount - 1);
    auto moved = [&](double old, double batch) {
      return c.momentum * old + (1 - c.momentum) * batch;
    };
    EXPECT_NEAR(assigned["m"].floats[channel], moved(kMean[channel], mean),
                1e-6);
    EXPECT_NEAR(assigned["v"].floats[channel],
                moved(kVariance[channel], variance), 1e-6);
  }
  double expected = 0, loss = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    double sum = 0;
    for (int i = 0; i < kChannels * kPositions; ++i)
      sum += std::exp(y[sample * kChannels * kPositions + i]);
    expected += std::log(sum) / kSamples;
  }
  for (double term : losses)
    loss += term;
  EXPECT_NEAR(loss, expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Versions, BatchNormTest,
    testing::Values(
        Case{1, true, 0.5, "", ""}, Case{1, false, 0.5, "", "as-exported"},
        Case{6, true, 0.5, "", ""}, Case{6, false, 0.5, "", "as-exported"},
        Case{7, true, 0.5, "", ""}, Case{7, false, 0.5, "", "as-exported"},
        Case{9, true, 0, "", ""}, Case{9, true, 0.5, "onnx", ""},
        Case{9, true, 1, "torch", ""}, Case{9, false, 0.5, "", "as-exported"},
        Case{14, true, 0, "torch", ""}, Case{14, true, 0.5, "onnx", ""},
        Case{14, true, 1, "", ""}, Case{14, false, 0.5, "", "train"},
        Case{15, true, 0, "onnx", ""}, Case{15, true, 0.5, "torch", ""},
        Case{15, true, 1, "", ""}, Case{15, false, 0.5, "", "as-exported"},
        Case{15, false, 0.5, "onnx", "train"}));

} // namespace
