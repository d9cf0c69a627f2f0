//===- FusionTest.cpp - Fused graphs against unfused ones -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What exporters write for a composite, normalised with and without
// recognising it: the op that it must become, and equal outputs and gradients
// in double precision.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "passes/Autodiff/Adjoints.h"
#include "passes/Autodiff/Differentiate.h"
#include "passes/Normalize/Fuse.h"
#include "test/unit/autodiff/BackwardArguments.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

namespace {

constexpr const char *kX = "float[N,5] x";
constexpr const char *kMean =
    "u = ReduceMean <axes = [-1]> (x)  d = Sub (x, u) ";
constexpr const char *kVariance =
    "two = Constant <value_float = 2.0> ()  p = Pow (d, two) "
    "v = ReduceMean <axes = [-1]> (p) "
    "eps = Constant <value_float = 0.00001> ()  e = Add (v, eps) "
    "s = Sqrt (e) ";

std::string join(std::initializer_list<const char *> parts) {
  std::string text;
  for (const char *part : parts)
    text += std::string(part) + ' ';
  return text;
}

struct Case {
  /// `composite`: the op that the nodes become, "" if they must stay.
  std::string name, composite;
  unsigned nodes; ///< that are reported
  std::string inputs, body, output;
};

const std::vector<Case> &getCases() {
  const std::string scale =
      "w = Constant <value_floats = [1.5, -2.0, 0.5, 3.0, 1.0]> () "
      "b = Constant <value_floats = [0.5, 1.0, -1.0, 2.0, 0.0]> () ";
  const std::string one = "one = Constant <value_float = 1.0> () ";
  const std::string oneHot =
      "classes = Constant <value_ints = [0, 1, 2, 3, 4]> () "
      "axis = Constant <value_ints = [-1]> () "
      "t1 = Unsqueeze (t, axis)  equal = Equal (t1, classes) ";
  const std::string labels = "float[N,5] x, int64[N] t";
  static const std::vector<Case> cases = {
      {"LayerNorm", "nn.layer_norm", 9, kX,
       scale + kMean + kVariance +
           "q = Div (d, s)  m = Mul (q, w)  y = Add (m, b)",
       "float[N,5] y"},
      {"LayerNormWithoutScale", "nn.layer_norm", 7, kX,
       join({kMean, kVariance, "y = Div (d, s)"}), "float[N,5] y"},
      {"LayerNormByReciprocalScaleFirst", "nn.layer_norm", 10, kX,
       scale + kMean + kVariance +
           "r = Reciprocal (s)  q = Mul (d, r)  m = Mul (w, q) "
           "y = Add (b, m)",
       "float[N,5] y"},
      {"LayerNormOfTwoAxes", "nn.layer_norm", 7, "float[N,2,3] x",
       "u = ReduceMean <axes = [1, 2]> (x)  d = Sub (x, u)  p = Mul (d, d) "
       "v = ReduceMean <axes = [1, 2]> (p) "
       "eps = Constant <value_float = 0.1> ()  e = Add (v, eps)  s = Sqrt (e) "
       "y = Div (d, s)",
       "float[N,2,3] y"},
      {"UnbiasedVarianceIsAnother", "", 0, kX,
       join({kMean, "axes = Constant <value_ints = [-1]> ()  p = Mul (d, d) "
                    "v = ReduceSum <keepdims = 1> (p, axes) "}) +
           "four = Constant <value_float = 4.0> ()  e = Div (v, four) "
           "s = Sqrt (e)  y = Div (d, s)",
       "float[N,5] y"},
      {"RMSNorm", "nn.layer_norm", 7, kX,
       scale +
           "two = Constant <value_float = 2.0> ()  p = Pow (x, two) "
           "v = ReduceMean <axes = [-1]> (p) "
           "eps = Constant <value_float = 0.000001> ()  e = Add (v, eps) "
           "s = Sqrt (e)  r = Reciprocal (s)  q = Mul (x, r)  y = Mul (w, q)",
       "float[N,5] y"},
      {"RMSNormByDivision", "nn.layer_norm", 5, kX,
       "p = Mul (x, x)  v = ReduceMean <axes = [-1]> (p) "
       "eps = Constant <value_float = 0.000001> ()  e = Add (eps, v) "
       "s = Sqrt (e)  y = Div (x, s)",
       "float[N,5] y"},
      {"GeluErf", "nn.gelu", 5, kX,
       one + "root = Constant <value_float = 1.4142135> () "
             "half = Constant <value_float = 0.5> ()  q = Div (x, root) "
             "f = Erf (q)  g = Add (f, one)  h = Mul (x, g)  y = Mul (h, half)",
       "float[N,5] y"},
      {"GeluTanh", "nn.gelu", 8, kX,
       one +
           "half = Constant <value_float = 0.5> () "
           "three = Constant <value_float = 3.0> () "
           "c = Constant <value_float = 0.044715> () "
           "root = Constant <value_float = 0.7978845608> ()  h = Mul (x, half) "
           "p = Pow (x, three)  q = Mul (p, c)  r = Add (x, q) "
           "s = Mul (r, root)  f = Tanh (s)  g = Add (f, one)  y = Mul (h, g)",
       "float[N,5] y"},
      {"Sigmoid", "nn.sigmoid", 4, kX,
       one + "n = Neg (x)  e = Exp (n)  a = Add (one, e)  y = Div (one, a)",
       "float[N,5] y"},
      {"SiluAsAQuotient", "nn.sigmoid", 4, kX,
       one + "n = Neg (x)  e = Exp (n)  a = Add (e, one)  y = Div (x, a)",
       "float[N,5] y"},
      {"Softmax", "nn.softmax", 5, kX,
       "m = ReduceMax <axes = [-1]> (x)  z = Sub (x, m)  e = Exp (z) "
       "axes = Constant <value_ints = [-1]> ()  s = ReduceSum (e, axes) "
       "y = Div (e, s)",
       "float[N,5] y"},
      {"SoftmaxWithoutShift", "nn.softmax", 4, kX,
       "e = Exp (x)  axes = Constant <value_ints = [-1]> () "
       "s = ReduceSum (e, axes)  r = Reciprocal (s)  y = Mul (e, r)",
       "float[N,5] y"},
      {"LogSoftmax", "nn.log_softmax", 6, kX,
       "m = ReduceMax <axes = [-1]> (x)  z = Sub (x, m)  e = Exp (z) "
       "axes = Constant <value_ints = [-1]> ()  s = ReduceSum (e, axes) "
       "l = Log (s)  y = Sub (z, l)",
       "float[N,5] y"},
      {"LogSoftmaxByLogSumExp", "nn.log_softmax", 2, kX,
       "s = ReduceLogSumExp <axes = [-1]> (x)  y = Sub (x, s)", "float[N,5] y"},
      {"LogOfSoftmax", "nn.log_softmax", 2, kX,
       "s = Softmax <axis = -1> (x)  y = Log (s)", "float[N,5] y"},
      {"LogOfSoftmaxOverAxis1", "nn.log_softmax", 2, "float[N,3,2] x",
       "s = Softmax <axis = 1> (x)  y = Log (s)", "float[N,3,2] y"},
      {"CrossEntropyByGather", "nn.cross_entropy", 2, labels,
       "axis = Constant <value_ints = [-1]> ()  i = Unsqueeze (t, axis) "
       "l = LogSoftmax <axis = -1> (x)  y = GatherElements <axis = -1> (l, i)",
       "float[N,1] y"},
      {"CrossEntropyByOneHot", "nn.cross_entropy", 5, labels,
       oneHot + "hot = Cast <to = 1> (equal)  l = LogSoftmax <axis = -1> (x) "
                "p = Mul (hot, l)  r = ReduceSum <keepdims = 0> (p, axis) "
                "y = Neg (r)",
       "float[N] y"},
      {"CrossEntropyByMask", "nn.cross_entropy", 5, labels,
       oneHot +
           "zero = Constant <value_float = 0.0> () "
           "l = LogSoftmax <axis = -1> (x)  n = Neg (l) "
           "p = Where (equal, n, zero)  y = ReduceSum <keepdims = 0> (p, axis)",
       "float[N] y"},
      {"CrossEntropyOfLogOfSoftmax", "nn.cross_entropy", 6, labels,
       oneHot + "hot = Cast <to = 1> (equal)  s = Softmax <axis = -1> (x) "
                "l = Log (s)  p = Mul (l, hot) "
                "y = ReduceSum <keepdims = 0> (p, axis)",
       "float[N] y"},
  };
  return cases;
}

/// A case, normalised; its float inputs and outputs are differentiable.
struct Normalized {
  Normalized(const std::string &path, bool fuse)
      : model(path, getOptions(fuse)) {
    if (!model.ok)
      return;
    DialectRegistry registry;
    registerAutodiffModels(registry);
    model.context.appendDialectRegistry(registry);
    main = model.function("main");
    auto unit = UnitAttr::get(&model.context);
    auto isFloat = [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isFloat();
    };
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (isFloat(main.getArgument(i).getType()))
        main.setArgAttr(i, nn::kDifferentiableAttr, unit);
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      main.setResultAttr(i, nn::kDifferentiableAttr, unit);
  }

  static NormalizeOptions getOptions(bool fuse) {
    NormalizeOptions options;
    options.forward = true;
    options.fuse = fuse;
    return options;
  }

  HostTensor draw(Type type, std::mt19937 &generator) {
    std::uniform_real_distribution<double> real(-2, 2);
    HostTensor tensor(nn::instantiate(cast<RankedTensorType>(type), 4));
    for (double &element : tensor.floats)
      element = real(generator);
    for (int64_t &element : tensor.integers)
      element = generator() % 5;
    return tensor;
  }

  /// Outputs for some inputs, then gradients of their sum with some weights.
  std::vector<double> evaluate() {
    std::mt19937 generator(7);
    std::vector<HostTensor> inputs;
    for (BlockArgument argument : main.getArguments())
      inputs.push_back(draw(argument.getType(), generator));
    HostTensor weights = draw(main.getResultTypes()[0], generator);
    std::vector<double> numbers;
    nn::EvaluateOptions options;
    options.samples = inputs.front().shape.front();
    auto backward = autodiff::differentiate(main, {});
    if (failed(backward))
      return numbers;
    auto outputs = nn::evaluate(main, inputs, options);
    if (failed(outputs))
      return numbers;
    auto gradients = nn::evaluate(
        *backward,
        getBackwardArguments(main, *backward, inputs, *outputs, weights),
        options);
    if (failed(gradients))
      return numbers;
    numbers = outputs->front().floats;
    for (const HostTensor &gradient : *gradients)
      numbers.insert(numbers.end(), gradient.floats.begin(),
                     gradient.floats.end());
    return numbers;
  }

  Model model;
  func::FuncOp main;
};

class FusionTest : public testing::TestWithParam<Case> {};

TEST_P(FusionTest, ComputesTheSame) {
  const Case &pattern = GetParam();
  SmallString<128> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("fusion", "onnxtext", path));
  llvm::FileRemover remover(path);
  std::ofstream(path.c_str())
      << "<ir_version: 8, opset_import: [\"\" : 17]>\nmain (" << pattern.inputs
      << ") => (" << pattern.output << ")\n{ " << pattern.body << " }\n";

  Normalized fused(path.str().str(), true), plain(path.str().str(), false);
  ASSERT_TRUE(fused.model.ok) << fused.model.messages;
  ASSERT_TRUE(plain.model.ok) << plain.model.messages;
  auto report =
      (*fused.model.module)->getAttrOfType<ArrayAttr>(normalize::kFusionsAttr);
  EXPECT_FALSE((*plain.model.module)->hasAttr(normalize::kFusionsAttr));
  if (pattern.composite.empty()) {
    EXPECT_FALSE(report);
  } else {
    ASSERT_TRUE(report);
    ASSERT_EQ(report.size(), 1u);
    auto entry = cast<DictionaryAttr>(report[0]);
    EXPECT_EQ(entry.getAs<StringAttr>("op").getValue().str(),
              pattern.composite);
    EXPECT_EQ(entry.getAs<ArrayAttr>("nodes").size(), pattern.nodes);
    int count = 0;
    fused.main.walk([&](Operation *op) {
      count += op->getName().getStringRef() == pattern.composite;
    });
    EXPECT_EQ(count, 1);
  }

  std::vector<double> a = fused.evaluate(), b = plain.evaluate();
  ASSERT_FALSE(a.empty()) << fused.model.messages;
  ASSERT_EQ(a.size(), b.size()) << plain.model.messages;
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 2e-6 * std::max(1.0, std::fabs(b[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(Exports, FusionTest, testing::ValuesIn(getCases()),
                         [](const testing::TestParamInfo<Case> &info) {
                           return info.param.name;
                         });

} // namespace
