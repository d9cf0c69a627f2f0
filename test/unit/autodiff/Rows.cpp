//===- Rows.cpp - The table of differentiated functions -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/autodiff/Rows.h"

using namespace harmony::autodiff;

/// Types by short names: b and v carry the batch, the digits are extents.
static const std::string kAliases = R"(
!b3 = tensor<?x3xf64, #nn.batch<0, 1>>
!b4 = tensor<?x4xf64, #nn.batch<0, 1>>
!b5 = tensor<?x5xf64, #nn.batch<0, 1>>
!v = tensor<?xf64, #nn.batch<0, 1>>
!labels = tensor<?xi64, #nn.batch<0, 1>>
!mask3 = tensor<?x3xi1, #nn.batch<0, 1>>
)";

/// d: a differentiable argument or result.
static std::string expand(std::string text) {
  for (auto &[from, to] : std::vector<std::pair<std::string, std::string>>{
           {" d,", " {nn.differentiable},"}, {" d)", " {nn.differentiable})"}})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  return kAliases + text;
}

static Row unary(const std::string &op, double low = -1.5, double high = 1.5) {
  return {op,
          expand("func.func @f(%x: !b3 d) -> (!b3 d) {\n  %0 = " + op +
                 " %x : !b3\n  return %0 : !b3\n}"),
          {{0, {low, high}}}};
}

/// A function that is constant between its jumps, and one that is not.
static Row stepped(const std::string &op) {
  return {
      op,
      expand(
          "func.func @f(%x: !b3 d) -> (!b3 d, !b3 d) {\n  %0 = " + op +
          " %x : !b3\n  %1 = math.exp %x : !b3\n  return %0, %1 : !b3, !b3\n}"),
      {{0, {-3, 3}}}};
}

static Row binary(const std::string &op, Domain lhs = {-1.5, 1.5},
                  Domain rhs = {-1.5, 1.5}) {
  return {op,
          expand("func.func @f(%x: !b3 d, %y: !b3 d) -> (!b3 d) {\n  %0 = " +
                 op + " %x, %y : !b3\n  return %0 : !b3\n}"),
          {{0, lhs}, {1, rhs}}};
}

/// Where the mask is set both operands are equal.
static Row choice(const std::string &op) {
  return {
      op,
      expand("func.func @f(%x: !b3 d, %y: !b3 d, %tie: !mask3) -> (!b3 d) {\n"
             "  %z = arith.select %tie, %x, %y : !mask3, !b3\n  %0 = " +
             op + " %x, %z : !b3\n  return %0 : !b3\n}"),
      {},
      6};
}

static std::vector<Row> makeRows() {
  std::vector<Row> rows = {
      unary("arith.negf"),
      unary("math.absf"),
      unary("math.acos", -0.8, 0.8),
      unary("math.acosh", 1.3, 3),
      unary("math.asin", -0.8, 0.8),
      unary("math.asinh"),
      unary("math.atan"),
      unary("math.atanh", -0.8, 0.8),
      unary("math.cbrt", 0.5, 2),
      unary("math.cos"),
      unary("math.cosh"),
      unary("math.erf"),
      unary("math.erfc"),
      unary("math.exp"),
      unary("math.exp2"),
      unary("math.expm1"),
      unary("math.log", 0.4, 3),
      unary("math.log10", 0.4, 3),
      unary("math.log1p", -0.5, 2),
      unary("math.log2", 0.4, 3),
      unary("math.rsqrt", 0.4, 3),
      unary("math.sin"),
      unary("math.sinh"),
      unary("math.sqrt", 0.4, 3),
      unary("math.tan", -1, 1),
      unary("math.tanh"),
      stepped("math.ceil"),
      stepped("math.floor"),
      stepped("math.round"),
      stepped("math.roundeven"),
      stepped("math.trunc"),
      binary("arith.addf"),
      binary("arith.subf"),
      binary("arith.mulf"),
      binary("arith.divf", {-1.5, 1.5}, {0.5, 2}),
      binary("math.atan2", {0.3, 2}, {0.3, 2}),
      binary("math.copysign"),
      binary("math.powf", {0.4, 2}, {-2, 3}),
      choice("arith.maximumf"),
      choice("arith.minimumf"),
      choice("arith.maxnumf"),
      choice("arith.minnumf"),
  };
  auto add = [&](const char *name, const std::string &text,
                 std::map<unsigned, Domain> domains = {}, int64_t samples = 3) {
    rows.push_back({name, expand(text), std::move(domains), samples});
  };

  // Elementwise ops of another form.
  add("math.fma", R"(func.func @f(%x: !b3 d, %y: !b3 d, %z: !b3 d) -> (!b3 d) {
    %0 = math.fma %x, %y, %z : !b3
    return %0 : !b3
  })");
  add("math.clampf",
      R"(func.func @f(%x: !b3 d, %l: !b3 d, %h: !b3 d) -> (!b3 d) {
    %0 = math.clampf %x to [%l, %h] : !b3
    return %0 : !b3
  })",
      {{0, {-3, 3}}, {1, {-1.5, -0.5}}, {2, {0.5, 1.5}}}, 8);
  add("arith.select",
      R"(func.func @f(%c: !mask3, %x: !b3 d, %y: !b3 d) -> (!b3 d) {
    %0 = arith.select %c, %x, %y : !mask3, !b3
    return %0 : !b3
  })");
  add("relu", R"(func.func @f(%x: !b3 d) -> (!b3 d) {
    %cst = arith.constant dense<0.0> : tensor<f64>
    %zero = nn.broadcast %cst to [] : tensor<f64> -> !b3
    %c = arith.cmpf ugt, %x, %zero : !b3
    %0 = arith.select %c, %x, %zero : !mask3, !b3
    return %0 : !b3
  })");
  add("powers where bases or exponents are zero", R"(
  func.func @f(%x: !b3 d, %y: !b3 d, %c: !mask3) -> (!b3 d, !b3 d) {
    %cst = arith.constant dense<0.0> : tensor<f64>
    %zero = nn.broadcast %cst to [] : tensor<f64> -> !b3
    %0 = arith.select %c, %zero, %x : !mask3, !b3
    %1 = arith.select %c, %zero, %y : !mask3, !b3
    %2 = math.powf %x, %1 : !b3
    %3 = math.powf %0, %y : !b3
    return %2, %3 : !b3, !b3
  })",
      {{0, {0.5, 2}}, {1, {1.2, 2}}}, 4);
  add("change of precision", R"(func.func @f(%x: !b3 d) -> (!b3 d) {
    %0 = arith.truncf %x : !b3 to tensor<?x3xf32, #nn.batch<0, 1>>
    %1 = arith.mulf %0, %0 : tensor<?x3xf32, #nn.batch<0, 1>>
    %2 = arith.extf %1 : tensor<?x3xf32, #nn.batch<0, 1>> to !b3
    return %2 : !b3
  })");
  add("integers do not carry gradients",
      R"(func.func @f(%x: !b3 d, %i: !labels) -> (!b3 d) {
    %0 = arith.fptosi %x : !b3 to tensor<?x3xi64, #nn.batch<0, 1>>
    %1 = arith.sitofp %0 : tensor<?x3xi64, #nn.batch<0, 1>> to !b3
    %2 = arith.uitofp %i : !labels to !v
    %3 = nn.broadcast %2 to [0] : !v -> !b3
    %4 = arith.mulf %1, %x : !b3
    %5 = arith.mulf %4, %3 : !b3
    return %5 : !b3
  })",
      {{0, {-3, 3}}, {1, {1, 4}}});

  // Shapes.
  add("nn.broadcast of a parameter along the batch", R"(
  func.func @f(%x: !b3 d, %w: tensor<3xf64> d, %s: tensor<f64> d) -> (!b3 d) {
    %0 = nn.broadcast %w to [1] : tensor<3xf64> -> !b3
    %1 = nn.broadcast %s to [] : tensor<f64> -> !b3
    %2 = arith.mulf %x, %0 : !b3
    %3 = arith.mulf %2, %1 : !b3
    return %3 : !b3
  })");
  add("nn.broadcast of unit axes, also to the batch", R"(
  func.func @f(%x: tensor<1x2x1xf64> d, %y: tensor<?x1x4xf64, #nn.batch<0, 2>> d)
      -> (tensor<?x2x4xf64, #nn.batch<0, 2>> d) {
    %0 = nn.broadcast %x to [0, 1, 2] : tensor<1x2x1xf64> -> tensor<?x2x4xf64, #nn.batch<0, 2>>
    %1 = nn.broadcast %y to [0, 1, 2] : tensor<?x1x4xf64, #nn.batch<0, 2>> -> tensor<?x2x4xf64, #nn.batch<0, 2>>
    %2 = arith.mulf %0, %1 : tensor<?x2x4xf64, #nn.batch<0, 2>>
    return %2 : tensor<?x2x4xf64, #nn.batch<0, 2>>
  })",
      {}, 2);
  add("nn.reshape of the batch", R"(
  func.func @f(%x: tensor<?x2x6xf64, #nn.batch<0, 1>> d) -> (tensor<?x3x2xf64, #nn.batch<0, 2>> d) {
    %0 = nn.reshape %x : tensor<?x2x6xf64, #nn.batch<0, 1>> -> tensor<?x3x2xf64, #nn.batch<0, 2>>
    %1 = math.exp %0 : tensor<?x3x2xf64, #nn.batch<0, 2>>
    return %1 : tensor<?x3x2xf64, #nn.batch<0, 2>>
  })");
  add("nn.transpose of three axes", R"(
  func.func @f(%x: tensor<?x2x4xf64, #nn.batch<0, 1>> d) -> (tensor<4x?x2xf64, #nn.batch<1, 1>> d) {
    %0 = nn.transpose %x by [2, 0, 1] : tensor<?x2x4xf64, #nn.batch<0, 1>> -> tensor<4x?x2xf64, #nn.batch<1, 1>>
    %1 = arith.mulf %0, %0 : tensor<4x?x2xf64, #nn.batch<1, 1>>
    return %1 : tensor<4x?x2xf64, #nn.batch<1, 1>>
  })");
  add("nn.slice, forwards and backwards", R"(
  func.func @f(%x: tensor<?x7x5xf64, #nn.batch<0, 1>> d)
      -> (tensor<?x2x3xf64, #nn.batch<0, 1>> d, tensor<?x3x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.slice %x from [0, 1, 1] by [1, 3, 1]
        : tensor<?x7x5xf64, #nn.batch<0, 1>> -> tensor<?x2x3xf64, #nn.batch<0, 1>>
    %1 = nn.slice %x from [0, 6, 3] by [1, -2, -3]
        : tensor<?x7x5xf64, #nn.batch<0, 1>> -> tensor<?x3x2xf64, #nn.batch<0, 1>>
    return %0, %1 : tensor<?x2x3xf64, #nn.batch<0, 1>>, tensor<?x3x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("parts that make up a whole", R"(func.func @f(%x: !b5 d)
      -> (!b3 d, tensor<?x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.slice %x from [0, 2] by [1, 1] : !b5 -> !b3
    %1 = nn.slice %x from [0, 0] by [1, 1] : !b5 -> tensor<?x2xf64, #nn.batch<0, 1>>
    %2 = math.exp %0 : !b3
    return %2, %1 : !b3, tensor<?x2xf64, #nn.batch<0, 1>>
  })");
  add("nn.pad with a differentiable fill", R"(
  func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 1>> d, %fill: tensor<f64> d)
      -> (tensor<?x4x6xf64, #nn.batch<0, 1>> d) {
    %0 = nn.pad %x with %fill low [0, 1, 0] interior [0, 0, 1]
        : tensor<?x2x3xf64, #nn.batch<0, 1>>, tensor<f64> -> tensor<?x4x6xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x4x6xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.concat, one operand twice", R"(func.func @f(%x: !b3 d, %y: !b4 d)
      -> (tensor<?x10xf64, #nn.batch<0, 1>> d) {
    %0 = nn.concat %x, %y, %x along 1 : !b3, !b4, !b3 -> tensor<?x10xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x10xf64, #nn.batch<0, 1>>
  })");

  // Sums.
  add("nn.reduce over the batch and over others", R"(
  func.func @f(%x: tensor<2x?x4xf64, #nn.batch<1, 1>> d) -> (tensor<4xf64> d, !v d, tensor<f64> d) {
    %0 = nn.reduce sum %x over [0, 1] : tensor<2x?x4xf64, #nn.batch<1, 1>> -> tensor<4xf64>
    %1 = nn.reduce sum %x over [0, 2] : tensor<2x?x4xf64, #nn.batch<1, 1>> -> !v
    %2 = nn.reduce sum %x over [2, 0, 1] : tensor<2x?x4xf64, #nn.batch<1, 1>> -> tensor<f64>
    %3 = math.exp %1 : !v
    return %0, %3, %2 : tensor<4xf64>, !v, tensor<f64>
  })");
  add("nn.reduce to the maximum and to the minimum", R"(
  func.func @f(%x: tensor<2x?x4xf64, #nn.batch<1, 1>> d) -> (tensor<2x?xf64, #nn.batch<1, 1>> d, !v d) {
    %0 = nn.reduce max %x over [2] : tensor<2x?x4xf64, #nn.batch<1, 1>> -> tensor<2x?xf64, #nn.batch<1, 1>>
    %1 = nn.reduce min %x over [0, 2] : tensor<2x?x4xf64, #nn.batch<1, 1>> -> !v
    return %0, %1 : tensor<2x?xf64, #nn.batch<1, 1>>, !v
  })");
  add("maximum that carries no gradient",
      R"(func.func @f(%x: !b3 d, %y: !b3) -> (!b3 d) {
    %0 = nn.reduce max %y over [1] : !b3 -> !v
    %1 = nn.broadcast %0 to [0] : !v -> !b3
    %2 = arith.mulf %x, %1 : !b3
    return %2 : !b3
  })");
  for (auto [name, weight, axis] :
       {std::tuple("nn.dot_general with rows of a weight", "5x3", "1"),
        std::tuple("nn.dot_general with columns of a weight", "3x5", "0")})
    add(name,
        std::string("func.func @f(%x: !b3 d, %w: tensor<") + weight +
            "xf64> d) -> (!b5 d) {\n" +
            "  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [" +
            axis + "] : !b3, tensor<" + weight +
            "xf64> -> !b5\n  return %0 : !b5\n}");
  add("nn.dot_general with the weight first", R"(
  func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 1>> d, %w: tensor<4x3xf64> d)
      -> (tensor<4x?x2xf64, #nn.batch<1, 1>> d) {
    %0 = nn.dot_general %w, %x batch [] x [] contract [1] x [2]
        : tensor<4x3xf64>, tensor<?x2x3xf64, #nn.batch<0, 1>> -> tensor<4x?x2xf64, #nn.batch<1, 1>>
    return %0 : tensor<4x?x2xf64, #nn.batch<1, 1>>
  })",
      {}, 2);
  add("nn.dot_general of a value with itself",
      R"(func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 1>> d)
      -> (tensor<?x2x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.dot_general %x, %x batch [0] x [0] contract [2] x [2]
        : tensor<?x2x3xf64, #nn.batch<0, 1>>, tensor<?x2x3xf64, #nn.batch<0, 1>> -> tensor<?x2x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x2x2xf64, #nn.batch<0, 1>>
  })");
  add("nn.dot_general with batch axes and two contracted axes in other orders",
      R"(
  func.func @f(%x: tensor<2x?x3x4xf64, #nn.batch<1, 1>> d, %y: tensor<4x2x5x?x3xf64, #nn.batch<3, 1>> d)
      -> (tensor<?x5xf64, #nn.batch<0, 1>> d, tensor<?x2x5xf64, #nn.batch<0, 1>> d) {
    %0 = nn.dot_general %x, %y batch [1] x [3] contract [3, 0, 2] x [0, 1, 4]
        : tensor<2x?x3x4xf64, #nn.batch<1, 1>>, tensor<4x2x5x?x3xf64, #nn.batch<3, 1>> -> tensor<?x5xf64, #nn.batch<0, 1>>
    %1 = nn.dot_general %x, %y batch [1, 0] x [3, 1] contract [3, 2] x [0, 4]
        : tensor<2x?x3x4xf64, #nn.batch<1, 1>>, tensor<4x2x5x?x3xf64, #nn.batch<3, 1>> -> tensor<?x2x5xf64, #nn.batch<0, 1>>
    return %0, %1 : tensor<?x5xf64, #nn.batch<0, 1>>, tensor<?x2x5xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.dot_general over the batch",
      R"(func.func @f(%x: !b3 d, %y: !b4 d) -> (tensor<3x4xf64> d) {
    %0 = nn.dot_general %x, %y batch [] x [] contract [0] x [0] : !b3, !b4 -> tensor<3x4xf64>
    return %0 : tensor<3x4xf64>
  })");
  // Six indices into three rows: some repeat.
  add("nn.gather from a table", R"(
  func.func @f(%w: tensor<3x4xf64> d, %i: tensor<?x2xi64, #nn.batch<0, 1>>) -> (tensor<?x2x4xf64, #nn.batch<0, 1>> d) {
    %0 = nn.gather %w at %i axis 0 batch 0
        : tensor<3x4xf64>, tensor<?x2xi64, #nn.batch<0, 1>> -> tensor<?x2x4xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x2x4xf64, #nn.batch<0, 1>>
  })",
      {{1, {0, 2}}});
  add("nn.gather per sample, in the middle", R"(
  func.func @f(%x: tensor<?x2x4x3xf64, #nn.batch<0, 1>> d, %i: tensor<?x5xi64, #nn.batch<0, 1>>)
      -> (tensor<?x2x5x3xf64, #nn.batch<0, 1>> d) {
    %0 = nn.gather %x at %i axis 2 batch 1
        : tensor<?x2x4x3xf64, #nn.batch<0, 1>>, tensor<?x5xi64, #nn.batch<0, 1>> -> tensor<?x2x5x3xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x2x5x3xf64, #nn.batch<0, 1>>
  })",
      {{1, {0, 3}}}, 2);
  add("nn.scatter_add over the batch", R"(
  func.func @f(%x: tensor<?x2x4xf64, #nn.batch<0, 1>> d, %i: tensor<?x2xi64, #nn.batch<0, 1>>) -> (tensor<3x4xf64> d) {
    %0 = nn.scatter_add %x at %i axis 0 batch 0
        : tensor<?x2x4xf64, #nn.batch<0, 1>>, tensor<?x2xi64, #nn.batch<0, 1>> -> tensor<3x4xf64>
    %1 = arith.mulf %0, %0 : tensor<3x4xf64>
    return %1 : tensor<3x4xf64>
  })",
      {{1, {0, 2}}});

  // Composites.
  // Dropout of attention: the mask is made again in the backward.
  rows.push_back({"nn.random",
                  expand(R"(
!keys = tensor<?x3xi64, #nn.batch<0, 1>>
func.func @f(%x: !b4 d, %keys: !keys, %stream: tensor<i64>) -> (!b4 d) {
  %0 = nn.random %keys stream %stream axis 0 : !keys, tensor<i64> -> tensor<?x4xi64, #nn.batch<0, 1>>
  %1 = arith.constant dense<1073741824> : tensor<i64>
  %2 = nn.broadcast %1 to [] : tensor<i64> -> tensor<?x4xi64, #nn.batch<0, 1>>
  %3 = arith.cmpi sge, %0, %2 : tensor<?x4xi64, #nn.batch<0, 1>>
  %4 = arith.constant dense<0.0> : tensor<f64>
  %5 = nn.broadcast %4 to [] : tensor<f64> -> !b4
  %6 = math.exp %x : !b4
  %7 = arith.select %3, %6, %5 : tensor<?x4xi1, #nn.batch<0, 1>>, !b4
  %8 = arith.mulf %7, %7 : !b4
  return %8 : !b4
})"),
                  {{1, {0, 1000}}, {2, {0, 1000}}}});
  add("nn.softmax", R"(func.func @f(%x: !b5 d) -> (!b5 d) {
    %0 = nn.softmax %x : !b5
    return %0 : !b5
  })");
  add("nn.log_softmax", R"(func.func @f(%x: !b5 d) -> (!b5 d) {
    %0 = nn.log_softmax %x : !b5
    return %0 : !b5
  })");
  add("nn.layer_norm",
      R"(func.func @f(%x: !b5 d, %s: tensor<5xf64> d, %t: tensor<5xf64> d) -> (!b5 d) {
    %y, %m, %i = nn.layer_norm %x, %s, %t axis 1 epsilon 1.0e-3 : !b5, tensor<5xf64>, tensor<5xf64> -> !b5, !v, !v
    return %y : !b5
  })");
  add("nn.layer_norm over two axes without shift, statistics used too", R"(
  func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 1>> d, %s: tensor<2x3xf64> d)
      -> (tensor<?x2x3xf64, #nn.batch<0, 1>> d, !v d, !v d) {
    %y, %m, %i = nn.layer_norm %x, %s axis 1 epsilon 0.1
        : tensor<?x2x3xf64, #nn.batch<0, 1>>, tensor<2x3xf64> -> tensor<?x2x3xf64, #nn.batch<0, 1>>, !v, !v
    %0 = arith.mulf %m, %m : !v
    return %y, %0, %i : tensor<?x2x3xf64, #nn.batch<0, 1>>, !v, !v
  })",
      {{0, {-2, 3}}});
  add("nn.layer_norm without a mean, over two axes, statistics used too", R"(
  func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 1>> d, %s: tensor<2x3xf64> d, %t: tensor<2x3xf64> d)
      -> (tensor<?x2x3xf64, #nn.batch<0, 1>> d, !v d) {
    %y, %i = nn.layer_norm %x, %s, %t axis 1 epsilon 0.1
        : tensor<?x2x3xf64, #nn.batch<0, 1>>, tensor<2x3xf64>, tensor<2x3xf64> -> tensor<?x2x3xf64, #nn.batch<0, 1>>, !v
    return %y, %i : tensor<?x2x3xf64, #nn.batch<0, 1>>, !v
  })",
      {{0, {-2, 3}}});
  add("nn.batch_norm",
      R"(func.func @f(%x: !b5 d, %s: tensor<5xf64> d, %t: tensor<5xf64> d) -> (!b5 d) {
    %y, %m, %v, %i = nn.batch_norm %x, %s, %t epsilon 1.0e-3 : !b5, tensor<5xf64>, tensor<5xf64>
        -> !b5, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>
    return %y : !b5
  })");
  add("nn.batch_norm of images, statistics used too", R"(
  func.func @f(%x: tensor<?x2x3xf64, #nn.batch<0, 2>> d, %s: tensor<3xf64> d, %t: tensor<3xf64> d)
      -> (tensor<?x2x3xf64, #nn.batch<0, 2>> d, tensor<3xf64> d, tensor<3xf64> d, tensor<3xf64> d) {
    %y, %m, %v, %i = nn.batch_norm %x, %s, %t epsilon 0.1
        : tensor<?x2x3xf64, #nn.batch<0, 2>>, tensor<3xf64>, tensor<3xf64>
        -> tensor<?x2x3xf64, #nn.batch<0, 2>>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
    %0 = arith.mulf %m, %m : tensor<3xf64>
    return %y, %0, %v, %i : tensor<?x2x3xf64, #nn.batch<0, 2>>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
  })",
      {{0, {-2, 3}}});
  add("nn.batch_norm without batch, inverse deviation alone", R"(
  func.func @f(%x: tensor<4x3xf64> d, %s: tensor<3xf64> d, %t: tensor<3xf64> d) -> (tensor<3xf64> d) {
    %y, %m, %v, %i = nn.batch_norm %x, %s, %t epsilon 0.1 : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>
        -> tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
    return %i : tensor<3xf64>
  })",
      {{0, {-2, 3}}});
  add("nn.sigmoid", R"(func.func @f(%x: !b5 d) -> (!b5 d) {
    %0 = nn.sigmoid %x : !b5
    return %0 : !b5
  })",
      {{0, {-4, 4}}});
  for (auto [name, form] :
       {std::pair("nn.gelu", ""), std::pair("nn.gelu tanh", "tanh ")})
    add(name,
        std::string("func.func @f(%x: !b5 d) -> (!b5 d) {\n  %0 = nn.gelu ") +
            form + "%x : !b5\n  return %0 : !b5\n}",
        {{0, {-3, 3}}});
  add("nn.cross_entropy with ignored rows",
      R"(func.func @f(%x: !b5 d, %l: !labels) -> (!v d) {
    %0, %1 = nn.cross_entropy %x, %l ignore 1 : !b5, !labels -> !v, !v
    return %0 : !v
  })",
      {{1, {0, 3}}}, 8);
  add("nn.cross_entropy, logSum used too",
      R"(func.func @f(%x: !b5 d, %l: !labels) -> (tensor<f64> d, !v d) {
    %0, %1 = nn.cross_entropy %x, %l : !b5, !labels -> !v, !v
    %2 = nn.reduce sum %0 over [0] : !v -> tensor<f64>
    %3 = arith.mulf %1, %1 : !v
    return %2, %3 : tensor<f64>, !v
  })",
      {{1, {0, 4}}});

  // Convolution of each channel by itself.
  add("nn.depthwise", R"(
  func.func @f(%x: tensor<?x5x4x3xf64, #nn.batch<0, 1>> d, %w: tensor<3x2x3xf64> d)
      -> (tensor<?x3x3x3xf64, #nn.batch<0, 1>> d) {
    %0 = nn.depthwise %x, %w axis 1 strides [1, 1] dilations [1, 1]
        : tensor<?x5x4x3xf64, #nn.batch<0, 1>>, tensor<3x2x3xf64> -> tensor<?x3x3x3xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x3x3x3xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.depthwise with strides and dilations that leave a rest", R"(
  func.func @f(%x: tensor<?x8x7x2xf64, #nn.batch<0, 1>> d, %w: tensor<2x3x2xf64> d)
      -> (tensor<?x2x2x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.depthwise %x, %w axis 1 strides [3, 2] dilations [3, 2]
        : tensor<?x8x7x2xf64, #nn.batch<0, 1>>, tensor<2x3x2xf64> -> tensor<?x2x2x2xf64, #nn.batch<0, 1>>
    %1 = arith.mulf %0, %0 : tensor<?x2x2x2xf64, #nn.batch<0, 1>>
    return %1 : tensor<?x2x2x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.depthwise of one offset along one axis", R"(
  func.func @f(%x: tensor<?x5x2xf64, #nn.batch<0, 1>> d, %w: tensor<1x2xf64> d) -> (tensor<?x3x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.depthwise %x, %w axis 1 strides [2] dilations [1]
        : tensor<?x5x2xf64, #nn.batch<0, 1>>, tensor<1x2xf64> -> tensor<?x3x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x3x2xf64, #nn.batch<0, 1>>
  })");

  // Graphs.
  add("several uses, one of them the result",
      R"(func.func @f(%x: !b3 d) -> (!b3 d, !b3 d, !b3 d) {
    %0 = math.sin %x : !b3
    %1 = arith.mulf %0, %0 : !b3
    %2 = arith.addf %1, %x : !b3
    %3 = arith.mulf %2, %0 : !b3
    return %3, %0, %x : !b3, !b3, !b3
  })");
  add("an argument that nothing depends on",
      R"(func.func @f(%x: !b3 d, %y: !b4 d) -> (!b3 d, !b4) {
    %0 = math.exp %x : !b3
    %1 = math.exp %y : !b4
    return %0, %1 : !b3, !b4
  })");
  add("a network", R"(
  func.func @f(%x: !b4, %w: tensor<3x4xf64> d, %b: tensor<3xf64> d, %v: tensor<5x3xf64> d, %l: !labels)
      -> (tensor<f64> d) {
    %cst = arith.constant dense<0.0> : tensor<f64>
    %zero = nn.broadcast %cst to [] : tensor<f64> -> !b3
    %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : !b4, tensor<3x4xf64> -> !b3
    %1 = nn.broadcast %b to [1] : tensor<3xf64> -> !b3
    %2 = arith.addf %0, %1 : !b3
    %c = arith.cmpf ugt, %2, %zero : !b3
    %3 = arith.select %c, %2, %zero : !mask3, !b3
    %4 = nn.dot_general %3, %v batch [] x [] contract [1] x [1] : !b3, tensor<5x3xf64> -> !b5
    %5, %6 = nn.cross_entropy %4, %l ignore -100 : !b5, !labels -> !v, !v
    %7 = nn.reduce sum %5 over [0] : !v -> tensor<f64>
    return %7 : tensor<f64>
  })",
      {{4, {0, 4}}}, 4);
  // Windows that overlap, padding on both sides, a stride and a dilation.
  add("nn.window", R"(
  func.func @f(%x: tensor<?x4x5x2xf64, #nn.batch<0, 1>> d) -> (tensor<?x4x2x3x2x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.window %x axis 1 kernel [3, 2] strides [1, 2] dilations [1, 2] low [1, 0]
        : tensor<?x4x5x2xf64, #nn.batch<0, 1>> -> tensor<?x4x2x3x2x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x4x2x3x2x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.fold", R"(
  func.func @f(%x: tensor<?x3x3x2xf64, #nn.batch<0, 1>> d) -> (tensor<?x5x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.fold %x axis 1 kernel [3] strides [2] dilations [1] low [1]
        : tensor<?x3x3x2xf64, #nn.batch<0, 1>> -> tensor<?x5x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x5x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.sum_pool", R"(
  func.func @f(%x: tensor<?x5x2xf64, #nn.batch<0, 1>> d) -> (tensor<?x3x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.sum_pool %x axis 1 kernel [3] strides [2] dilations [1] low [1]
        : tensor<?x5x2xf64, #nn.batch<0, 1>> -> tensor<?x3x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x3x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  // Overlapping windows share their maximum now and then.
  add("nn.max_pool", R"(
  func.func @f(%x: tensor<?x5x6x2xf64, #nn.batch<0, 1>> d) -> (tensor<?x3x3x2xf64, #nn.batch<0, 1>> d) {
    %0, %1 = nn.max_pool %x axis 1 kernel [3, 2] strides [2, 2] dilations [1, 1] low [1, 0]
        : tensor<?x5x6x2xf64, #nn.batch<0, 1>> -> tensor<?x3x3x2xf64, #nn.batch<0, 1>>, tensor<?x3x3x2xi8, #nn.batch<0, 1>>
    return %0 : tensor<?x3x3x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  add("nn.unpool", R"(
  func.func @f(%x: tensor<?x3x2xf64, #nn.batch<0, 1>> d) -> (tensor<?x5x2xf64, #nn.batch<0, 1>> d) {
    %0 = nn.unpool %x axis 1 kernel [3] strides [2] dilations [1] low [1]
        : tensor<?x3x2xf64, #nn.batch<0, 1>> -> tensor<?x5x2xf64, #nn.batch<0, 1>>
    return %0 : tensor<?x5x2xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  // A convolution with two groups, a bias, and pooling.
  add("convolution", R"(
  func.func @f(%x: tensor<?x4x4x4xf64, #nn.batch<0, 1>> d, %w: tensor<2x3x2x3x3xf64> d, %b: tensor<6xf64> d)
      -> (tensor<?x2x2x6xf64, #nn.batch<0, 1>> d) {
    %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1]
        : tensor<?x4x4x4xf64, #nn.batch<0, 1>> -> tensor<?x4x4x3x3x4xf64, #nn.batch<0, 1>>
    %1 = nn.reshape %0 : tensor<?x4x4x3x3x4xf64, #nn.batch<0, 1>> -> tensor<?x4x4x3x3x2x2xf64, #nn.batch<0, 1>>
    %2 = nn.transpose %w by [0, 1, 3, 4, 2] : tensor<2x3x2x3x3xf64> -> tensor<2x3x3x3x2xf64>
    %3 = nn.dot_general %1, %2 batch [5] x [0] contract [3, 4, 6] x [2, 3, 4]
        : tensor<?x4x4x3x3x2x2xf64, #nn.batch<0, 1>>, tensor<2x3x3x3x2xf64> -> tensor<2x?x4x4x3xf64, #nn.batch<1, 1>>
    %4 = nn.transpose %3 by [1, 2, 3, 0, 4] : tensor<2x?x4x4x3xf64, #nn.batch<1, 1>> -> tensor<?x4x4x2x3xf64, #nn.batch<0, 1>>
    %5 = nn.reshape %4 : tensor<?x4x4x2x3xf64, #nn.batch<0, 1>> -> tensor<?x4x4x6xf64, #nn.batch<0, 1>>
    %6 = nn.broadcast %b to [3] : tensor<6xf64> -> tensor<?x4x4x6xf64, #nn.batch<0, 1>>
    %7 = arith.addf %5, %6 : tensor<?x4x4x6xf64, #nn.batch<0, 1>>
    %8, %9 = nn.max_pool %7 axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0]
        : tensor<?x4x4x6xf64, #nn.batch<0, 1>> -> tensor<?x2x2x6xf64, #nn.batch<0, 1>>, tensor<?x2x2x6xi8, #nn.batch<0, 1>>
    return %8 : tensor<?x2x2x6xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  // A block of a transformer: two heads of two over three positions, a causal
  // mask.
  add("attention", R"(
  func.func @f(%x: tensor<?x3x4xf64, #nn.batch<0, 1>> d, %w: tensor<4x12xf64> d, %b: tensor<12xf64> d,
               %p: tensor<4x4xf64> d, %s: tensor<4xf64> d) -> (tensor<?x3x4xf64, #nn.batch<0, 1>> d) {
    %mask = arith.constant dense<[[1, 0, 0], [1, 1, 0], [1, 1, 1]]> : tensor<3x3xi1>
    %low = arith.constant dense<-1.0e9> : tensor<f64>
    %half = arith.constant dense<0.5> : tensor<f64>
    %y, %m, %i = nn.layer_norm %x, %s axis 2 epsilon 1.0e-3 : tensor<?x3x4xf64, #nn.batch<0, 1>>, tensor<4xf64>
        -> tensor<?x3x4xf64, #nn.batch<0, 1>>, tensor<?x3xf64, #nn.batch<0, 1>>, tensor<?x3xf64, #nn.batch<0, 1>>
    %0 = nn.dot_general %y, %w batch [] x [] contract [2] x [0]
        : tensor<?x3x4xf64, #nn.batch<0, 1>>, tensor<4x12xf64> -> tensor<?x3x12xf64, #nn.batch<0, 1>>
    %1 = nn.broadcast %b to [2] : tensor<12xf64> -> tensor<?x3x12xf64, #nn.batch<0, 1>>
    %2 = arith.addf %0, %1 : tensor<?x3x12xf64, #nn.batch<0, 1>>
    %q = nn.slice %2 from [0, 0, 0] by [1, 1, 1] : tensor<?x3x12xf64, #nn.batch<0, 1>> -> tensor<?x3x4xf64, #nn.batch<0, 1>>
    %k = nn.slice %2 from [0, 0, 4] by [1, 1, 1] : tensor<?x3x12xf64, #nn.batch<0, 1>> -> tensor<?x3x4xf64, #nn.batch<0, 1>>
    %v = nn.slice %2 from [0, 0, 8] by [1, 1, 1] : tensor<?x3x12xf64, #nn.batch<0, 1>> -> tensor<?x3x4xf64, #nn.batch<0, 1>>
    %qh = nn.reshape %q : tensor<?x3x4xf64, #nn.batch<0, 1>> -> tensor<?x3x2x2xf64, #nn.batch<0, 1>>
    %kh = nn.reshape %k : tensor<?x3x4xf64, #nn.batch<0, 1>> -> tensor<?x3x2x2xf64, #nn.batch<0, 1>>
    %vh = nn.reshape %v : tensor<?x3x4xf64, #nn.batch<0, 1>> -> tensor<?x3x2x2xf64, #nn.batch<0, 1>>
    %3 = nn.dot_general %qh, %kh batch [0, 2] x [0, 2] contract [3] x [3]
        : tensor<?x3x2x2xf64, #nn.batch<0, 1>>, tensor<?x3x2x2xf64, #nn.batch<0, 1>> -> tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %4 = nn.broadcast %half to [] : tensor<f64> -> tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %5 = arith.mulf %3, %4 : tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %6 = nn.broadcast %mask to [2, 3] : tensor<3x3xi1> -> tensor<?x2x3x3xi1, #nn.batch<0, 1>>
    %7 = nn.broadcast %low to [] : tensor<f64> -> tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %8 = arith.select %6, %5, %7 : tensor<?x2x3x3xi1, #nn.batch<0, 1>>, tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %9 = nn.softmax %8 : tensor<?x2x3x3xf64, #nn.batch<0, 1>>
    %10 = nn.dot_general %9, %vh batch [0, 1] x [0, 2] contract [3] x [1]
        : tensor<?x2x3x3xf64, #nn.batch<0, 1>>, tensor<?x3x2x2xf64, #nn.batch<0, 1>> -> tensor<?x2x3x2xf64, #nn.batch<0, 1>>
    %11 = nn.transpose %10 by [0, 2, 1, 3] : tensor<?x2x3x2xf64, #nn.batch<0, 1>> -> tensor<?x3x2x2xf64, #nn.batch<0, 1>>
    %12 = nn.reshape %11 : tensor<?x3x2x2xf64, #nn.batch<0, 1>> -> tensor<?x3x4xf64, #nn.batch<0, 1>>
    %13 = nn.dot_general %12, %p batch [] x [] contract [2] x [0]
        : tensor<?x3x4xf64, #nn.batch<0, 1>>, tensor<4x4xf64> -> tensor<?x3x4xf64, #nn.batch<0, 1>>
    %14 = arith.addf %13, %x : tensor<?x3x4xf64, #nn.batch<0, 1>>
    return %14 : tensor<?x3x4xf64, #nn.batch<0, 1>>
  })",
      {}, 2);
  return rows;
}

const std::vector<Row> &harmony::autodiff::getRows() {
  static const std::vector<Row> rows = makeRows();
  return rows;
}
