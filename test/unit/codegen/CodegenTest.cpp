//===- CodegenTest.cpp - Kernels against the reference interpreter --------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every case is a function that becomes one kernel. Its results must be close
// to the reference, and have the same bits for every split of the ranges, under
// AVX2 and AVX-512, and with all intermediate values stored.
//
//===----------------------------------------------------------------------===//

#include "test/unit/codegen/KernelRunner.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace harmony;
using namespace harmony::test;

namespace {

/// A case; `$D` in the text is replaced by each of `extents`.
struct Case {
  const char *name;
  const char *text;
  std::vector<int64_t> extents = {1};
  RunnerOptions options = {};
  int64_t limit = 4; ///< of integer inputs
  double tolerance = 2e-5;
  size_t launches = 0; ///< as many as there must be; 0: any
};

std::string instantiate(const char *text, int64_t extent) {
  std::string result = text;
  for (size_t at; (at = result.find("$D")) != std::string::npos;)
    result.replace(at, 2, std::to_string(extent));
  return result;
}

void expectClose(const Case &test, const std::vector<double> &actual,
                 const nn::HostTensor &expected) {
  for (size_t i = 0; i < actual.size(); ++i) {
    double wanted = expected.isFloat()
                        ? expected.floats[i]
                        : static_cast<double>(expected.integers[i]);
    if (test.options.accumulate)
      wanted += KernelRunner::kOld;
    double allowed = test.tolerance * std::max(1.0, std::fabs(wanted));
    if (!(std::fabs(actual[i] - wanted) <= allowed)) {
      ADD_FAILURE() << "element " << i << " is " << actual[i] << ", expected "
                    << wanted;
      return;
    }
  }
}

void expectClose(const Case &test, const KernelRunner &runner,
                 const std::vector<Bytes> &results,
                 const std::vector<nn::HostTensor> &expected) {
  ASSERT_EQ(results.size(), runner.resultTypes.size());
  ASSERT_FALSE(expected.empty());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    expectClose(test,
                KernelRunner::toNumbers(results[i],
                                        runner.resultTypes[i].getElementType()),
                expected[i]);
  }
}

void runCase(const Case &test, int64_t extent) {
  SCOPED_TRACE(std::string(test.name) + " with D = " + std::to_string(extent));
  std::string text = instantiate(test.text, extent);
  KernelRunner runner(text, test.options);
  ASSERT_TRUE(runner.isValid());
  if (test.launches) {
    EXPECT_EQ(runner.getKernel().launches.size(), test.launches);
  }
  ASSERT_TRUE(runner.compile(HostTarget{HostTarget::Isa::Avx2}));
  runner.makeInputs(extent + 17, test.limit);
  std::vector<Bytes> results = runner.run(0);
  expectClose(test, runner, results, runner.evaluate());
  for (int64_t split : {1, 3, 7, 13})
    EXPECT_EQ(results, runner.run(split)) << "ranges of " << split;
  auto best = HostTarget::detect();
  if (succeeded(best) && best->isa == HostTarget::Isa::Avx512) {
    ASSERT_TRUE(runner.compile(*best));
    EXPECT_EQ(results, runner.run(0)) << "AVX-512";
    EXPECT_EQ(results, runner.run(3)) << "AVX-512";
  }
  if (!test.options.inPlace.empty() || test.options.accumulate ||
      !runner.isGroup())
    return;
  RunnerOptions storing = test.options;
  storing.storeAll = true;
  KernelRunner all(text, storing);
  ASSERT_TRUE(all.isValid());
  ASSERT_TRUE(all.compile(HostTarget{HostTarget::Isa::Avx2}));
  all.inputs = runner.inputs;
  std::vector<Bytes> stored = all.run(0);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i], stored[i])
        << "result " << i << " with intermediate values stored";
}

constexpr const char *kGeluBias = R"(
func.func @f(%x: tensor<5x$Dxf32>, %b: tensor<$Dxf32>) -> tensor<5x$Dxf32> {
  %0 = nn.broadcast %b to [1] : tensor<$Dxf32> -> tensor<5x$Dxf32>
  %1 = arith.addf %x, %0 : tensor<5x$Dxf32>
  %2 = nn.gelu tanh %1 : tensor<5x$Dxf32>
  return %2 : tensor<5x$Dxf32>
})";

constexpr const char *kGeluErf = R"(
func.func @f(%x: tensor<3x$Dxf32>) -> tensor<3x$Dxf32> {
  %0 = nn.gelu %x : tensor<3x$Dxf32>
  return %0 : tensor<3x$Dxf32>
})";

constexpr const char *kSoftmax = R"(
func.func @f(%x: tensor<2x3x$Dxf32>) -> tensor<2x3x$Dxf32> {
  %0 = nn.softmax %x : tensor<2x3x$Dxf32>
  return %0 : tensor<2x3x$Dxf32>
})";

constexpr const char *kLayerNorm = R"(
func.func @f(%x: tensor<4x5x$Dxf32>, %w: tensor<$Dxf32>, %b: tensor<$Dxf32>)
    -> (tensor<4x5x$Dxf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %0, %1, %2 = nn.layer_norm %x, %w, %b axis 2 epsilon 1.0e-5
    : tensor<4x5x$Dxf32>, tensor<$Dxf32>, tensor<$Dxf32> -> tensor<4x5x$Dxf32>, tensor<4x5xf32>, tensor<4x5xf32>
  return %0, %1, %2 : tensor<4x5x$Dxf32>, tensor<4x5xf32>, tensor<4x5xf32>
})";

/// Gradients of layer_norm: dx, and scale's and shift's summed over 130 rows (3
/// chunks).
constexpr const char *kLayerNormBackward = R"(
func.func @f(%x: tensor<130x$Dxf32>, %dy: tensor<130x$Dxf32>, %w: tensor<$Dxf32>, %mean: tensor<130xf32>, %inv: tensor<130xf32>)
    -> (tensor<130x$Dxf32>, tensor<$Dxf32>, tensor<$Dxf32>) {
  %m = nn.broadcast %mean to [0] : tensor<130xf32> -> tensor<130x$Dxf32>
  %i = nn.broadcast %inv to [0] : tensor<130xf32> -> tensor<130x$Dxf32>
  %c = arith.subf %x, %m : tensor<130x$Dxf32>
  %n = arith.mulf %c, %i : tensor<130x$Dxf32>
  %p = arith.mulf %dy, %n : tensor<130x$Dxf32>
  %dw = nn.reduce sum %p over [0] : tensor<130x$Dxf32> -> tensor<$Dxf32>
  %db = nn.reduce sum %dy over [0] : tensor<130x$Dxf32> -> tensor<$Dxf32>
  %wb = nn.broadcast %w to [1] : tensor<$Dxf32> -> tensor<130x$Dxf32>
  %g = arith.mulf %dy, %wb : tensor<130x$Dxf32>
  %s = nn.reduce sum %g over [1] : tensor<130x$Dxf32> -> tensor<130xf32>
  %gn = arith.mulf %g, %n : tensor<130x$Dxf32>
  %t = nn.reduce sum %gn over [1] : tensor<130x$Dxf32> -> tensor<130xf32>
  %sb = nn.broadcast %s to [0] : tensor<130xf32> -> tensor<130x$Dxf32>
  %tb = nn.broadcast %t to [0] : tensor<130xf32> -> tensor<130x$Dxf32>
  %nt = arith.mulf %n, %tb : tensor<130x$Dxf32>
  %r = arith.addf %sb, %nt : tensor<130x$Dxf32>
  %dx = arith.subf %g, %r : tensor<130x$Dxf32>
  return %dx, %dw, %db : tensor<130x$Dxf32>, tensor<$Dxf32>, tensor<$Dxf32>
})";

/// Losses per row, their sum, and the saved logarithms.
constexpr const char *kCrossEntropy = R"(
func.func @f(%x: tensor<70x$Dxf32>, %l: tensor<70xi64>) -> (tensor<f32>, tensor<70xf32>) {
  %0, %1 = nn.cross_entropy %x, %l ignore 1 : tensor<70x$Dxf32>, tensor<70xi64> -> tensor<70xf32>, tensor<70xf32>
  %2 = nn.reduce sum %0 over [0] : tensor<70xf32> -> tensor<f32>
  return %2, %1 : tensor<f32>, tensor<70xf32>
})";

constexpr const char *kMask = R"(
func.func @f(%x: tensor<2x4x$Dx$Dxf32>, %m: tensor<2x$Dxi1>) -> tensor<2x4x$Dx$Dxf32> {
  %r = nn.iota 2 : tensor<2x4x$Dx$Dxi64>
  %c = nn.iota 3 : tensor<2x4x$Dx$Dxi64>
  %0 = arith.cmpi sle, %c, %r : tensor<2x4x$Dx$Dxi64>
  %1 = nn.broadcast %m to [0, 3] : tensor<2x$Dxi1> -> tensor<2x4x$Dx$Dxi1>
  %2 = arith.andi %0, %1 : tensor<2x4x$Dx$Dxi1>
  %k = arith.constant dense<-1.0e+4> : tensor<2x4x$Dx$Dxf32>
  %3 = arith.select %2, %x, %k : tensor<2x4x$Dx$Dxi1>, tensor<2x4x$Dx$Dxf32>
  %4 = nn.softmax %3 : tensor<2x4x$Dx$Dxf32>
  return %4 : tensor<2x4x$Dx$Dxf32>
})";

/// Dropout along with the work beside it; the samples are on the second axis.
constexpr const char *kDropout = R"(
func.func @f(%x: tensor<3x5x$Dxf32>, %keys: tensor<5x3xi64>, %stream: tensor<i64>) -> (tensor<3x5x$Dxf32>, tensor<3x5x$Dxf64>) {
  %0 = nn.random %keys stream %stream axis 1 : tensor<5x3xi64>, tensor<i64> -> tensor<3x5x$Dxi64>
  %1 = arith.constant dense<2147483648> : tensor<3x5x$Dxi64>
  %2 = arith.cmpi sge, %0, %1 : tensor<3x5x$Dxi64>
  %3 = arith.constant dense<0.0> : tensor<3x5x$Dxf32>
  %4 = arith.addf %x, %x : tensor<3x5x$Dxf32>
  %5 = arith.select %2, %4, %3 : tensor<3x5x$Dxi1>, tensor<3x5x$Dxf32>
  %6 = arith.sitofp %0 : tensor<3x5x$Dxi64> to tensor<3x5x$Dxf64>
  return %5, %6 : tensor<3x5x$Dxf32>, tensor<3x5x$Dxf64>
})";

constexpr const char *kTotal = R"(
func.func @f(%x: tensor<150x$Dxf32>) -> tensor<f32> {
  %0 = arith.mulf %x, %x : tensor<150x$Dxf32>
  %1 = nn.reduce sum %0 over [0, 1] : tensor<150x$Dxf32> -> tensor<f32>
  return %1 : tensor<f32>
})";

constexpr const char *kColumnMiddle = R"(
func.func @f(%x: tensor<70x3x$Dxf32>) -> (tensor<3x$Dxf32>, tensor<70x$Dxf32>, tensor<$Dxf32>, tensor<3xf32>) {
  %0 = nn.reduce sum %x over [0] : tensor<70x3x$Dxf32> -> tensor<3x$Dxf32>
  %1 = nn.reduce max %x over [1] : tensor<70x3x$Dxf32> -> tensor<70x$Dxf32>
  %2 = nn.reduce min %x over [0, 1] : tensor<70x3x$Dxf32> -> tensor<$Dxf32>
  %3 = nn.reduce sum %x over [0, 2] : tensor<70x3x$Dxf32> -> tensor<3xf32>
  return %0, %1, %2, %3 : tensor<3x$Dxf32>, tensor<70x$Dxf32>, tensor<$Dxf32>, tensor<3xf32>
})";

/// Statistics over rows that the rows are normalised by: needs three launches.
constexpr const char *kBatchNorm = R"(
func.func @f(%x: tensor<70x3x$Dxf32>) -> tensor<70x3x$Dxf32> {
  %0 = nn.reduce sum %x over [0, 2] : tensor<70x3x$Dxf32> -> tensor<3xf32>
  %k = arith.constant dense<0.01> : tensor<3xf32>
  %1 = arith.mulf %0, %k : tensor<3xf32>
  %2 = nn.broadcast %1 to [1] : tensor<3xf32> -> tensor<70x3x$Dxf32>
  %3 = arith.subf %x, %2 : tensor<70x3x$Dxf32>
  return %3 : tensor<70x3x$Dxf32>
})";

constexpr const char *kTranspose = R"(
func.func @f(%x: tensor<2x5x3x$Dxf32>) -> tensor<2x3x5x$Dxf32> {
  %0 = nn.transpose %x by [0, 2, 1, 3] : tensor<2x5x3x$Dxf32> -> tensor<2x3x5x$Dxf32>
  return %0 : tensor<2x3x5x$Dxf32>
})";

constexpr const char *kTransposeLast = R"(
func.func @f(%x: tensor<2x5x$Dxf32>, %y: tensor<2x$Dx5xf32>) -> tensor<2x$Dx5xf32> {
  %0 = nn.transpose %x by [0, 2, 1] : tensor<2x5x$Dxf32> -> tensor<2x$Dx5xf32>
  %1 = arith.mulf %0, %y : tensor<2x$Dx5xf32>
  return %1 : tensor<2x$Dx5xf32>
})";

constexpr const char *kReshape = R"(
func.func @f(%x: tensor<2x3x$Dxf32>, %y: tensor<6x$Dxf32>) -> (tensor<6x$Dxf32>, tensor<6xf32>) {
  %0 = nn.reshape %x : tensor<2x3x$Dxf32> -> tensor<6x$Dxf32>
  %1 = arith.addf %0, %y : tensor<6x$Dxf32>
  %2 = nn.reduce sum %1 over [1] : tensor<6x$Dxf32> -> tensor<6xf32>
  return %1, %2 : tensor<6x$Dxf32>, tensor<6xf32>
})";

/// One value at two indices of the same axis.
constexpr const char *kOuterProduct = R"(
func.func @f(%x: tensor<$Dxf32>) -> tensor<$Dx$Dxf32> {
  %0 = math.exp %x : tensor<$Dxf32>
  %1 = nn.broadcast %0 to [0] : tensor<$Dxf32> -> tensor<$Dx$Dxf32>
  %2 = nn.broadcast %0 to [1] : tensor<$Dxf32> -> tensor<$Dx$Dxf32>
  %3 = arith.mulf %1, %2 : tensor<$Dx$Dxf32>
  return %3 : tensor<$Dx$Dxf32>
})";

constexpr const char *kGather = R"(
func.func @f(%t: tensor<11x$Dxf32>, %i: tensor<2x7xi64>, %p: tensor<7x$Dxf32>) -> tensor<2x7x$Dxf32> {
  %0 = nn.gather %t at %i axis 0 batch 0 : tensor<11x$Dxf32>, tensor<2x7xi64> -> tensor<2x7x$Dxf32>
  %1 = nn.broadcast %p to [1, 2] : tensor<7x$Dxf32> -> tensor<2x7x$Dxf32>
  %2 = arith.addf %0, %1 : tensor<2x7x$Dxf32>
  return %2 : tensor<2x7x$Dxf32>
})";

constexpr const char *kGatherBatch = R"(
func.func @f(%t: tensor<3x$Dxf32>, %i: tensor<3x37xi32>) -> tensor<3x37xf32> {
  %0 = nn.gather %t at %i axis 1 batch 1 : tensor<3x$Dxf32>, tensor<3x37xi32> -> tensor<3x37xf32>
  return %0 : tensor<3x37xf32>
})";

constexpr const char *kScatter = R"(
func.func @f(%i: tensor<2x7xi64>, %u: tensor<2x7x$Dxf32>) -> tensor<11x$Dxf32> {
  %0 = nn.scatter_add %u at %i axis 0 batch 0 : tensor<2x7x$Dxf32>, tensor<2x7xi64> -> tensor<11x$Dxf32>
  return %0 : tensor<11x$Dxf32>
})";

/// Windows of 3 x 2 with a stride, a dilation and padding on all sides; the
/// last axis is lanes and a rest.
constexpr const char *kWindow = R"(
func.func @f(%x: tensor<2x5x6x$Dxf32>) -> tensor<2x5x3x3x2x$Dxf32> {
  %0 = nn.window %x axis 1 kernel [3, 2] strides [1, 2] dilations [1, 2] low [1, 1]
    : tensor<2x5x6x$Dxf32> -> tensor<2x5x3x3x2x$Dxf32>
  return %0 : tensor<2x5x3x3x2x$Dxf32>
})";

constexpr const char *kFold = R"(
func.func @f(%x: tensor<2x5x3x3x2x$Dxf32>) -> tensor<2x5x6x$Dxf32> {
  %0 = nn.fold %x axis 1 kernel [3, 2] strides [1, 2] dilations [1, 2] low [1, 1]
    : tensor<2x5x3x3x2x$Dxf32> -> tensor<2x5x6x$Dxf32>
  return %0 : tensor<2x5x6x$Dxf32>
})";

/// The last window has padding behind.
constexpr const char *kMaxPool = R"(
func.func @f(%x: tensor<2x5x6x$Dxf32>) -> (tensor<2x3x4x$Dxf32>, tensor<2x3x4x$Dxi8>) {
  %0:2 = nn.max_pool %x axis 1 kernel [3, 2] strides [2, 2] dilations [1, 1] low [1, 1]
    : tensor<2x5x6x$Dxf32> -> tensor<2x3x4x$Dxf32>, tensor<2x3x4x$Dxi8>
  return %0#0, %0#1 : tensor<2x3x4x$Dxf32>, tensor<2x3x4x$Dxi8>
})";

constexpr const char *kSumPool = R"(
func.func @f(%x: tensor<3x7x$Dxf32>) -> tensor<3x4x$Dxf32> {
  %0 = nn.sum_pool %x axis 1 kernel [3] strides [2] dilations [1] low [1] : tensor<3x7x$Dxf32> -> tensor<3x4x$Dxf32>
  return %0 : tensor<3x4x$Dxf32>
})";

constexpr const char *kUnpool = R"(
func.func @f(%x: tensor<3x4x$Dxf32>) -> tensor<3x7x$Dxf32> {
  %0 = nn.unpool %x axis 1 kernel [3] strides [2] dilations [1] low [1] : tensor<3x4x$Dxf32> -> tensor<3x7x$Dxf32>
  return %0 : tensor<3x7x$Dxf32>
})";

constexpr const char *kUnpoolAt = R"(
func.func @f(%x: tensor<2x3x3x$Dxf32>, %p: tensor<2x3x3x$Dxi8>) -> tensor<2x5x6x$Dxf32> {
  %0 = nn.unpool %x at %p axis 1 kernel [3, 2] strides [2, 2] dilations [1, 1] low [1, 0]
    : tensor<2x3x3x$Dxf32>, tensor<2x3x3x$Dxi8> -> tensor<2x5x6x$Dxf32>
  return %0 : tensor<2x5x6x$Dxf32>
})";

constexpr const char *kScatterBatch = R"(
func.func @f(%i: tensor<3x5xi64>, %u: tensor<3x2x5x$Dxf32>) -> tensor<3x2x6x$Dxf32> {
  %0 = nn.scatter_add %u at %i axis 2 batch 1 : tensor<3x2x5x$Dxf32>, tensor<3x5xi64> -> tensor<3x2x6x$Dxf32>
  return %0 : tensor<3x2x6x$Dxf32>
})";

constexpr const char *kSlice = R"(
func.func @f(%x: tensor<4x7xf32>) -> tensor<4x3xf32> {
  %0 = nn.slice %x from [0, 6] by [1, -2] : tensor<4x7xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
})";

constexpr const char *kPad = R"(
func.func @f(%x: tensor<4x3xf32>, %v: tensor<f32>) -> tensor<4x9xf32> {
  %0 = nn.pad %x with %v low [0, 2] interior [0, 1] : tensor<4x3xf32>, tensor<f32> -> tensor<4x9xf32>
  return %0 : tensor<4x9xf32>
})";

constexpr const char *kConcat = R"(
func.func @f(%x: tensor<4x3xf32>, %y: tensor<4x40xf32>) -> tensor<4x43xf32> {
  %0 = nn.concat %x, %y along 1 : tensor<4x3xf32>, tensor<4x40xf32> -> tensor<4x43xf32>
  return %0 : tensor<4x43xf32>
})";

constexpr const char *kScalars = R"(
func.func @f(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<i1>) {
  %0 = arith.divf %a, %b : tensor<f32>
  %1 = math.log %0 : tensor<f32>
  %2 = math.exp %1 : tensor<f32>
  %3 = arith.cmpf ogt, %a, %b : tensor<f32>
  %4 = arith.select %3, %0, %2 : tensor<i1>, tensor<f32>
  %5 = math.absf %0 : tensor<f32>
  return %5, %3 : tensor<f32>, tensor<i1>
})";

/// AdamW: parameter and moments are updated in place; step scalars are tensors
/// of rank 0.
constexpr const char *kAdam = R"(
func.func @f(%w: tensor<3x$Dxf32>, %m: tensor<3x$Dxf32>, %g: tensor<3x$Dxf32>, %beta: tensor<f32>)
    -> (tensor<3x$Dxf32>, tensor<3x$Dxf32>) {
  %b = nn.broadcast %beta to [] : tensor<f32> -> tensor<3x$Dxf32>
  %0 = arith.subf %g, %m : tensor<3x$Dxf32>
  %1 = arith.mulf %0, %b : tensor<3x$Dxf32>
  %2 = arith.addf %m, %1 : tensor<3x$Dxf32>
  %3 = math.sqrt %b : tensor<3x$Dxf32>
  %4 = arith.subf %w, %2 : tensor<3x$Dxf32>
  return %4, %2 : tensor<3x$Dxf32>, tensor<3x$Dxf32>
})";

constexpr const char *kFunctions = R"(
func.func @f(%x: tensor<3x$Dxf32>) -> (tensor<3x$Dxf32>, tensor<3x$Dxf32>, tensor<3x$Dxf32>) {
  %k = arith.constant dense<2.5> : tensor<3x$Dxf32>
  %a = arith.addf %x, %k : tensor<3x$Dxf32>
  %0 = math.log %a : tensor<3x$Dxf32>
  %1 = math.rsqrt %a : tensor<3x$Dxf32>
  %2 = math.powf %a, %x : tensor<3x$Dxf32>
  %3 = math.sin %x : tensor<3x$Dxf32>
  %4 = math.cos %x : tensor<3x$Dxf32>
  %5 = arith.mulf %3, %4 : tensor<3x$Dxf32>
  %6 = math.expm1 %x : tensor<3x$Dxf32>
  %7 = math.log1p %1 : tensor<3x$Dxf32>
  %8 = arith.addf %0, %6 : tensor<3x$Dxf32>
  %9 = arith.addf %8, %7 : tensor<3x$Dxf32>
  return %9, %2, %5 : tensor<3x$Dxf32>, tensor<3x$Dxf32>, tensor<3x$Dxf32>
})";

constexpr const char *kDouble = R"(
func.func @f(%x: tensor<3x$Dxf64>) -> (tensor<3x$Dxf64>, tensor<3x$Dxf64>) {
  %0 = nn.softmax %x : tensor<3x$Dxf64>
  %1 = nn.gelu %x : tensor<3x$Dxf64>
  return %0, %1 : tensor<3x$Dxf64>, tensor<3x$Dxf64>
})";

constexpr const char *kIntegers = R"(
func.func @f(%x: tensor<9x$Dxi64>, %y: tensor<9x$Dxi32>) -> (tensor<9xi64>, tensor<9x$Dxf32>, tensor<9x$Dxi1>, tensor<9xi1>) {
  %0 = arith.extsi %y : tensor<9x$Dxi32> to tensor<9x$Dxi64>
  %1 = arith.addi %x, %0 : tensor<9x$Dxi64>
  %2 = nn.reduce max %1 over [1] : tensor<9x$Dxi64> -> tensor<9xi64>
  %3 = arith.sitofp %1 : tensor<9x$Dxi64> to tensor<9x$Dxf32>
  %4 = arith.cmpi eq, %x, %0 : tensor<9x$Dxi64>
  %5 = nn.reduce min %4 over [1] : tensor<9x$Dxi1> -> tensor<9xi1>
  return %2, %3, %4, %5 : tensor<9xi64>, tensor<9x$Dxf32>, tensor<9x$Dxi1>, tensor<9xi1>
})";

constexpr const char *kTable = R"(
func.func @f(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %k = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = nn.broadcast %k to [1] : tensor<3xf32> -> tensor<4x3xf32>
  %1 = arith.mulf %x, %0 : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
})";

/// Losses that reduce over rows of rows, then scale: the total is used again.
constexpr const char *kMeanSquare = R"(
func.func @f(%x: tensor<70x$Dxf32>, %y: tensor<70x$Dxf32>) -> (tensor<f32>, tensor<70x$Dxf32>) {
  %0 = arith.subf %x, %y : tensor<70x$Dxf32>
  %1 = arith.mulf %0, %0 : tensor<70x$Dxf32>
  %2 = nn.reduce sum %1 over [0, 1] : tensor<70x$Dxf32> -> tensor<f32>
  %k = arith.constant dense<0.125> : tensor<f32>
  %3 = arith.mulf %2, %k : tensor<f32>
  return %3, %0 : tensor<f32>, tensor<70x$Dxf32>
})";

constexpr const char *kSquareTranspose = R"(
func.func @f(%x: tensor<$Dx$Dxf32>) -> tensor<$Dx$Dxf32> {
  %0 = nn.transpose %x by [1, 0] : tensor<$Dx$Dxf32> -> tensor<$Dx$Dxf32>
  %1 = arith.addf %x, %0 : tensor<$Dx$Dxf32>
  return %1 : tensor<$Dx$Dxf32>
})";

const std::vector<int64_t> kAll = {1, 3, 31, 32, 33, 100, 4097};
const std::vector<int64_t> kFew = {1, 10, 33, 64};

const std::vector<Case> kCases = {
    {"gelu_bias", kGeluBias, kAll, {}, 4, 2e-5, 1},
    {"gelu_erf", kGeluErf, kAll, {}, 4, 2e-5, 1},
    {"softmax", kSoftmax, {1, 3, 31, 32, 33, 100, 4097, 9000}, {}, 4, 2e-5, 1},
    {"layer_norm", kLayerNorm, {3, 31, 32, 33, 100, 4097}, {}, 4, 1e-4, 1},
    {"layer_norm_backward",
     kLayerNormBackward,
     {10, 33, 100, 768},
     {},
     4,
     1e-4,
     2},
    {"cross_entropy", kCrossEntropy, {2, 10, 33, 100, 4097}, {}, 2, 1e-4, 2},
    {"mask", kMask, {1, 5, 33}, {}},
    {"dropout", kDropout, kFew, {}, 1000, 1e-7, 1},
    {"total", kTotal, {10, 33, 64}, {}, 4, 1e-4, 2},
    {"column_middle", kColumnMiddle, kFew, {}, 4, 1e-4},
    {"batch_norm", kBatchNorm, kFew, {}, 4, 1e-4},
    {"transpose", kTranspose, kFew, {}, 4, 0, 1},
    {"transpose_last", kTransposeLast, kFew, {}, 4, 1e-6, 1},
    {"square_transpose", kSquareTranspose, kFew, {}, 4, 1e-6, 1},
    {"reshape", kReshape, kFew, {}, 4, 1e-5, 1},
    {"outer_product", kOuterProduct, {10, 33, 64}, {}, 4, 1e-5, 2},
    {"gather", kGather, kFew, {}, 11, 1e-6, 1},
    {"gather_batch", kGatherBatch, {4, 33}, {}, 4, 0, 1},
    {"scatter", kScatter, kFew, {}, 11, 1e-5, 1},
    {"scatter_batch", kScatterBatch, kFew, {}, 6, 1e-5, 1},
    {"window", kWindow, kFew, {}, 4, 1e-5, 1},
    {"fold", kFold, kFew, {}, 4, 1e-5, 1},
    {"max_pool", kMaxPool, kFew, {}, 4, 1e-5, 1},
    {"sum_pool", kSumPool, kFew, {}, 4, 1e-5, 1},
    {"unpool", kUnpool, kFew, {}, 4, 1e-5, 1},
    {"unpool_at", kUnpoolAt, kFew, {}, 6, 1e-5, 1},
    {"slice", kSlice, {1}, {}, 4, 0, 1},
    {"pad", kPad, {1}, {}, 4, 0, 2},
    {"concat", kConcat, {1}, {}, 4, 0},
    {"scalars", kScalars, {1}, {}, 4, 1e-6, 1},
    {"functions", kFunctions, kFew, {}, 4, 1e-4, 1},
    {"double", kDouble, kFew, {}, 4, 1e-12, 1},
    {"integers", kIntegers, kFew, {}, 4, 0},
    {"table", kTable, {1}, {}, 4, 1e-6, 1},
    {"mean_square", kMeanSquare, kFew, {}, 4, 1e-4},
};

TEST(Kernels, MatchTheReference) {
  const char *only = getenv("CODEGEN_TEST_CASE");
  for (const Case &test : kCases)
    if (!only || std::string(only) == test.name)
      for (int64_t extent : test.extents)
        runCase(test, extent);
}

TEST(Kernels, WorkOnStridedViews) {
  for (Case test : kCases) {
    test.options.strided = true;
    test.launches = 0;
    for (int64_t extent : test.extents)
      if (extent == 1 || extent == 10 || extent == 33)
        runCase(test, extent);
  }
}

TEST(Kernels, Accumulate) {
  for (Case test : kCases) {
    // A test of accumulation on numbers other than floats would say nothing,
    // and windows and maxima are never added to.
    std::string name = test.name;
    if (name == "scalars" || name == "integers" || name == "window" ||
        name == "max_pool")
      continue;
    test.options.accumulate = true;
    test.launches = 0;
    for (int64_t extent : test.extents)
      if (extent == 1 || extent == 10 || extent == 33)
        runCase(test, extent);
  }
}

TEST(Kernels, RunInPlace) {
  Case adam{"adam", kAdam, kAll, {}, 4, 1e-5, 1};
  adam.options.inPlace = {0, 1};
  for (int64_t extent : adam.extents)
    runCase(adam, extent);
  Case softmax{"softmax in place", kSoftmax, kAll, {}, 4, 2e-5, 1};
  softmax.options.inPlace = {0};
  for (int64_t extent : softmax.extents)
    runCase(softmax, extent);
  Case backward{"layer_norm_backward in place",
                kLayerNormBackward,
                {10, 100},
                {},
                4,
                1e-4};
  backward.options.inPlace = {1, -1, -1};
  for (int64_t extent : backward.extents)
    runCase(backward, extent);
}

TEST(Kernels, CompareLabelsOfAnySize) {
  // Comparisons with indices are made in 32 bits; labels are not indices yet.
  Case test{"labels", kCrossEntropy, {}, {}, 4, 1e-4};
  KernelRunner runner(instantiate(kCrossEntropy, 40), {});
  ASSERT_TRUE(runner.isValid());
  ASSERT_TRUE(runner.compile(HostTarget{}));
  runner.makeInputs(5, 40);
  runner.inputs[1].integers[0] = -100;
  runner.inputs[1].integers[1] = (int64_t(1) << 32) + 3;
  runner.inputs[1].integers[2] = std::numeric_limits<int64_t>::min();
  expectClose(test, runner, runner.run(0), runner.evaluate());
}

TEST(Kernels, PassOnNaN) {
  constexpr int64_t kLength = 100;
  KernelRunner softmax(instantiate(kSoftmax, kLength), {}),
      column(instantiate(kColumnMiddle, kLength), {});
  for (int64_t at : {0, 31, 32, 95, 96, 99}) {
    SCOPED_TRACE("element " + std::to_string(at));
    ASSERT_TRUE(softmax.compile(HostTarget{}));
    softmax.makeInputs(1, 1);
    softmax.inputs[0].floats[kLength + at] = NAN;
    std::vector<double> values = KernelRunner::toNumbers(
        softmax.run(0)[0], softmax.resultTypes[0].getElementType());
    for (int64_t i = 0; i < 3 * kLength; ++i)
      EXPECT_EQ(std::isnan(values[i]), i / kLength == 1) << i;

    // [70, 3, D]: the maximum over axis 1 of sample 0, the minimum over axes 0
    // and 1.
    ASSERT_TRUE(column.compile(HostTarget{}));
    column.makeInputs(1, 1);
    column.inputs[0].floats[kLength + at] = NAN;
    std::vector<Bytes> results = column.run(0);
    for (int result : {1, 2}) {
      values = KernelRunner::toNumbers(
          results[result], column.resultTypes[result].getElementType());
      for (int64_t i = 0; i < kLength; ++i)
        EXPECT_EQ(std::isnan(values[i]), i == at)
            << "result " << result << ", " << i;
    }
  }
}

TEST(Kernels, RefuseToOverwriteWhatIsStillRead) {
  RunnerOptions options;
  options.inPlace = {0};
  testing::internal::CaptureStderr();
  EXPECT_FALSE(
      KernelRunner(instantiate(kSquareTranspose, 8), options).isValid());
  std::string message = testing::internal::GetCapturedStderr();
  EXPECT_NE(message.find("operand 0 is read at other indices than result 0 is "
                         "stored at in its place"),
            std::string::npos)
      << message;
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
