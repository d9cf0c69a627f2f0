//===- Passes.td - Differentiation ------------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_AUTODIFF_PASSES_TD
#define PASSES_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"harmony-differentiate", "mlir::ModuleOp"> {
  let summary = "give every layer function a backward function";
  let description = [{
    Before: functions with `nn.layer`, whose arguments and results say by
    `nn.differentiable` what receives gradients. After: each returns, behind its
    results, the `nn.saved` values that its backward needs, and `@layer.bwd` maps
    arguments, saved values and cotangents to one gradient per differentiable
    argument (Differentiate.h tells the attributes). Calls are updated.

    Every op that a gradient would have to pass and that has no adjoint is an
    error, all of them in one run. A differentiable argument that no differentiable
    result depends on gets a zero gradient and a remark.
  }];
  let dependentDialects = ["::harmony::nn::NNDialect", "mlir::arith::ArithDialect", "mlir::func::FuncDialect",
                           "mlir::math::MathDialect"];
  let statistics = [Statistic<"saved", "values saved", "Values that forwards save for their backwards">];
}

def VerifyDifferentiatedPass : Pass<"harmony-verify-differentiated", "mlir::ModuleOp"> {
  let summary = "check forwards against backwards";
  let description = [{
    Every differentiable argument of a layer function has exactly one gradient, of its
    type; every argument of a backward is one argument, saved value or cotangent of
    the forward, of that type, named once, and read; every saved value is read.
  }];
}

#endif // PASSES_AUTODIFF_PASSES_TD
