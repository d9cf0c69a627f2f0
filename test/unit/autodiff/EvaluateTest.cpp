//===- EvaluateTest.cpp - The evaluator against formulas ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Evaluate.h"
#include "dialects/NN/Decompose.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <set>

using namespace mlir;
using namespace harmony::nn;

namespace {

struct EvaluateTest : testing::Test {
  EvaluateTest() {
    context.loadDialect<NNDialect, arith::ArithDialect, func::FuncDialect,
                        math::MathDialect>();
  }

  /// Runs @f of a module on tensors of the arguments' types whose elements
  /// count as start, start + step, ...
  FailureOr<SmallVector<HostTensor>> run(StringRef text, double start,
                                         double step) {
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return failure();
    auto function = module->lookupSymbol<func::FuncOp>("f");
    inputs.clear();
    for (Type type : function.getArgumentTypes()) {
      HostTensor &input = inputs.emplace_back(
          instantiate(cast<RankedTensorType>(type), options.samples));
      double next = start;
      for (double &element : input.floats)
        element = next, next += step;
      next = start;
      for (int64_t &element : input.integers)
        element = static_cast<int64_t>(next), next += step;
    }
    return evaluate(function, inputs, options);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  EvaluateOptions options;
  SmallVector<HostTensor> inputs;
};

using Floats = std::vector<double>;
using Integers = std::vector<int64_t>;

/// The vectors of Random123's kat_vectors, philox4x32 10.
TEST_F(EvaluateTest, PhiloxGivesTheAuthorsNumbers) {
  struct {
    std::array<int64_t, 4> counter;
    std::array<int64_t, 2> key;
    int64_t word;
  } cases[] = {{{0, 0, 0, 0}, {0, 0}, 0x6627e8d5},
               {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                {0xffffffff, 0xffffffff},
                0x408f276d},
               {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                {0xa4093822, 0x299f31d0},
                0xd16cfe09}};
  for (auto &[counter, key, word] : cases) {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    auto type = RankedTensorType::get({1}, builder.getI64Type());
    auto function = func::FuncOp::create(builder, loc, "f",
                                         builder.getFunctionType({}, {type}));
    builder.setInsertionPointToEnd(function.addEntryBlock());
    Algebra algebra(builder, loc);
    auto value = [&](int64_t integer) {
      return algebra.integer(integer, type);
    };
    Value bits = philox(algebra,
                        {value(counter[0]), value(counter[1]),
                         value(counter[2]), value(counter[3])},
                        {value(key[0]), value(key[1])});
    func::ReturnOp::create(builder, loc, bits);
    auto results = evaluate(function, {}, options);
    ASSERT_TRUE(succeeded(results));
    EXPECT_EQ((*results)[0].integers[0], word);
  }
}

/// A sample's bits do not depend on the samples beside it, nor on the layout.
TEST_F(EvaluateTest, RandomBitsBelongToTheSample) {
  auto text = [](StringRef result, int axis) {
    return ("func.func @f(%k: tensor<?x3xi64, #nn.batch<0, 1>>, %s: "
            "tensor<i64>) -> " +
            result + " {\n  %0 = nn.random %k stream %s axis " + Twine(axis) +
            " : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> " + result +
            "\n  return %0 : " + result + "\n}")
        .str();
  };
  options.samples = 2;
  // Keys (0, 1, 2) and (3, 4, 5), stream 0.
  auto both = run(text("tensor<?x2x3xi64, #nn.batch<0, 1>>", 0), 0, 1);
  ASSERT_TRUE(succeeded(both));
  auto middle = run(text("tensor<2x?x3xi64, #nn.batch<1, 1>>", 1), 0, 1);
  ASSERT_TRUE(succeeded(middle));
  for (int sample = 0; sample < 2; ++sample)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        EXPECT_EQ((*both)[0].integers[(sample * 2 + i) * 3 + j],
                  (*middle)[0].integers[(i * 2 + sample) * 3 + j]);
  options.samples = 1;
  auto first = run(text("tensor<?x6xi64, #nn.batch<0, 1>>", 0), 0, 1);
  ASSERT_TRUE(succeeded(first));
  std::set<int64_t> seen((*both)[0].integers.begin(),
                         (*both)[0].integers.end());
  EXPECT_EQ(seen.size(), 12u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ((*first)[0].integers[i], (*both)[0].integers[i]);
    EXPECT_TRUE((*first)[0].integers[i] >= 0 &&
                (*first)[0].integers[i] < int64_t(1) << 32);
  }
}

TEST_F(EvaluateTest, SoftmaxAndCrossEntropy) {
  options.samples = 2;
  auto results =
      run(R"(
    func.func @f(%x: tensor<?x3xf64, #nn.batch<0, 1>>, %l: tensor<?xi64, #nn.batch<0, 1>>)
        -> (tensor<?x3xf64, #nn.batch<0, 1>>, tensor<?xf64, #nn.batch<0, 1>>, tensor<?xf64, #nn.batch<0, 1>>) {
      %0 = nn.softmax %x : tensor<?x3xf64, #nn.batch<0, 1>>
      %1, %2 = nn.cross_entropy %x, %l ignore 1
          : tensor<?x3xf64, #nn.batch<0, 1>>, tensor<?xi64, #nn.batch<0, 1>> -> tensor<?xf64, #nn.batch<0, 1>>, tensor<?xf64, #nn.batch<0, 1>>
      return %0, %1, %2 : tensor<?x3xf64, #nn.batch<0, 1>>, tensor<?xf64, #nn.batch<0, 1>>, tensor<?xf64, #nn.batch<0, 1>>
    })",
          0, 1); // rows 0 1 2 and 3 4 5; labels 0 and 1, the latter ignored
  ASSERT_TRUE(succeeded(results));
  double sum = 1 + std::exp(1) + std::exp(2);
  for (int i = 0; i < 6; ++i)
    EXPECT_NEAR((*results)[0].floats[i], std::exp(i % 3) / sum, 1e-15);
  EXPECT_NEAR((*results)[1].floats[0], std::log(sum), 1e-15);
  EXPECT_EQ((*results)[1].floats[1], 0);
  EXPECT_NEAR((*results)[2].floats[1], std::log(sum) + 3, 1e-15);
}

TEST_F(EvaluateTest, LayerNormAndGelu) {
  auto results = run(R"(
    func.func @f(%x: tensor<1x4xf64>, %s: tensor<4xf64>) -> (tensor<1x4xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1x4xf64>, tensor<1x4xf64>) {
      %0, %1, %2 = nn.layer_norm %x, %s, %s axis 1 epsilon 0.5 : tensor<1x4xf64>, tensor<4xf64>, tensor<4xf64> -> tensor<1x4xf64>, tensor<1xf64>, tensor<1xf64>
      %3 = nn.gelu %x : tensor<1x4xf64>
      %4 = nn.gelu tanh %x : tensor<1x4xf64>
      return %0, %1, %2, %3, %4 : tensor<1x4xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1x4xf64>, tensor<1x4xf64>
    })",
                     1, 1); // 1 2 3 4: mean 2.5, variance 1.25
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[1].floats, Floats{2.5});
  EXPECT_NEAR((*results)[2].floats[0], 1 / std::sqrt(1.75), 1e-15);
  for (int i = 0; i < 4; ++i) {
    double x = i + 1;
    EXPECT_NEAR((*results)[0].floats[i], (x - 2.5) / std::sqrt(1.75) * x + x,
                1e-14);
    EXPECT_NEAR((*results)[3].floats[i],
                x * 0.5 * std::erfc(-x / std::sqrt(2.0)), 1e-14);
    EXPECT_NEAR(
        (*results)[4].floats[i],
        x * 0.5 *
            (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))),
        1e-14);
  }
}

TEST_F(EvaluateTest, ShapesAndSums) {
  auto results = run(R"(
    func.func @f(%x: tensor<2x3xf64>, %i: tensor<2xi64>)
        -> (tensor<3x2xf64>, tensor<2x2xf64>, tensor<2x5xf64>, tensor<2x2xf64>, tensor<3xf64>, tensor<2x2xf64>, tensor<2x2xf64>) {
      %cst = arith.constant dense<9.0> : tensor<f64>
      %0 = nn.transpose %x by [1, 0] : tensor<2x3xf64> -> tensor<3x2xf64>
      %1 = nn.slice %x from [0, 2] by [1, -2] : tensor<2x3xf64> -> tensor<2x2xf64>
      %2 = nn.pad %1 with %cst low [0, 1] interior [0, 1] : tensor<2x2xf64>, tensor<f64> -> tensor<2x5xf64>
      %3 = nn.gather %x at %i axis 1 batch 0 : tensor<2x3xf64>, tensor<2xi64> -> tensor<2x2xf64>
      %4 = nn.reduce max %x over [0] : tensor<2x3xf64> -> tensor<3xf64>
      %5 = nn.dot_general %x, %x batch [] x [] contract [1] x [1] : tensor<2x3xf64>, tensor<2x3xf64> -> tensor<2x2xf64>
      %6 = nn.scatter_add %3 at %i axis 0 batch 0 : tensor<2x2xf64>, tensor<2xi64> -> tensor<2x2xf64>
      return %0, %1, %2, %3, %4, %5, %6 : tensor<3x2xf64>, tensor<2x2xf64>, tensor<2x5xf64>, tensor<2x2xf64>, tensor<3xf64>, tensor<2x2xf64>, tensor<2x2xf64>
    })",
                     0, 1); // x is 0 1 2 / 3 4 5, the indices are 0 1
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].floats, (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ((*results)[1].floats, (Floats{2, 0, 5, 3}));
  EXPECT_EQ((*results)[2].floats, (Floats{9, 2, 9, 0, 9, 9, 5, 9, 3, 9}));
  EXPECT_EQ((*results)[3].floats, (Floats{0, 1, 3, 4}));
  EXPECT_EQ((*results)[4].floats, (Floats{3, 4, 5}));
  EXPECT_EQ((*results)[5].floats, (Floats{5, 14, 14, 50}));
  EXPECT_EQ((*results)[6].floats, (Floats{0, 1, 3, 4}));
}

TEST_F(EvaluateTest, IntegersWrapAndBooleansAreBits) {
  auto results = run(R"(
    func.func @f(%x: tensor<2xi8>) -> (tensor<2xi8>, tensor<2xi1>, tensor<2xf64>, tensor<2xf64>, tensor<2xi8>) {
      %big = arith.constant dense<100> : tensor<2xi8>
      %minus = arith.constant dense<-7> : tensor<2xi8>
      %two = arith.constant dense<2> : tensor<2xi8>
      %0 = arith.addi %x, %big : tensor<2xi8>
      %1 = arith.cmpi slt, %0, %x : tensor<2xi8>
      %2 = arith.uitofp %1 : tensor<2xi1> to tensor<2xf64>
      %3 = arith.sitofp %1 : tensor<2xi1> to tensor<2xf64>
      %4 = arith.floordivsi %minus, %two : tensor<2xi8>
      return %0, %1, %2, %3, %4 : tensor<2xi8>, tensor<2xi1>, tensor<2xf64>, tensor<2xf64>, tensor<2xi8>
    })",
                     27, 1); // 27 + 100 fits, 28 + 100 wraps
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].integers, (Integers{127, -128}));
  EXPECT_EQ((*results)[1].integers, (Integers{0, 1}));
  EXPECT_EQ((*results)[2].floats, (Floats{0, 1}));
  EXPECT_EQ((*results)[3].floats, (Floats{0, -1}));
  EXPECT_EQ((*results)[4].integers, (Integers{-4, -4}));
}

TEST_F(EvaluateTest, RoundsOnRequest) {
  const char *text = R"(
    func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {
      %0 = arith.mulf %x, %x : tensor<1xf32>
      return %0 : tensor<1xf32>
    })";
  auto exact = run(text, 1.1f, 0);
  options.roundToFloat = true;
  auto rounded = run(text, 1.1f, 0);
  ASSERT_TRUE(succeeded(exact) && succeeded(rounded));
  EXPECT_EQ((*exact)[0].floats[0], double(1.1f) * double(1.1f));
  EXPECT_EQ((*rounded)[0].floats[0], 1.1f * 1.1f);
}

TEST_F(EvaluateTest, FollowsCallsVariablesGroupsAndLosses) {
  SmallVector<double> losses;
  options.losses = &losses;
  options.samples = 4;
  auto results = run(R"(
    nn.variable #nn.role<parameter> @w : tensor<2xf64> = dense<[2.0, 3.0]> : tensor<2xf64>
    func.func @square(%x: tensor<2xf64>) -> tensor<2xf64> {
      %0 = nn.group (%a = %x) : (tensor<2xf64>) -> tensor<2xf64> {
        %1 = arith.mulf %a, %a : tensor<2xf64>
        nn.yield %1 : tensor<2xf64>
      }
      return %0 : tensor<2xf64>
    }
    func.func @f() -> tensor<2xf64> {
      %w = nn.get @w : tensor<2xf64>
      %0 = func.call @square(%w) : (tensor<2xf64>) -> tensor<2xf64>
      %1 = nn.reduce sum %0 over [0] : tensor<2xf64> -> tensor<f64>
      nn.loss %1 scale 2.0 count 1.0 : tensor<f64>
      return %0 : tensor<2xf64>
    })",
                     0, 0);
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].floats, (Floats{4, 9}));
  EXPECT_EQ(losses, SmallVector<double>{6.5}); // 2 * 13 / 4
}

TEST_F(EvaluateTest, ReportsWhatItCannotDo) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str() + "\n";
    return success();
  });
  EXPECT_TRUE(failed(run(R"(
    func.func @f(%x: tensor<2xf64>, %i: tensor<2xi64>) -> tensor<2xf64> {
      %0 = nn.gather %x at %i axis 0 batch 0 : tensor<2xf64>, tensor<2xi64> -> tensor<2xf64>
      return %0 : tensor<2xf64>
    })",
                         1, 1)));
  EXPECT_NE(message.find("an index is outside of [0, 2)"), std::string::npos)
      << message;
  EXPECT_TRUE(failed(run(R"(
    func.func @f(%x: tensor<2xi64>) -> tensor<2xi64> {
      %0 = math.ctpop %x : tensor<2xi64>
      return %0 : tensor<2xi64>
    })",
                         1, 1)));
  EXPECT_NE(message.find("'math.ctpop' op is not known to the evaluator"),
            std::string::npos)
      << message;
}

} // namespace
