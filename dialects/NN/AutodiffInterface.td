//===- AutodiffInterface.td - Ops with an adjoint ---------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_AUTODIFFINTERFACE_TD
#define DIALECTS_NN_AUTODIFFINTERFACE_TD

include "mlir/IR/OpBase.td"

def AutodiffOpInterface : OpInterface<"AutodiffOpInterface"> {
  let cppNamespace = "::harmony::nn";
  let description = [{
    An op that reverse-mode differentiation can go through. What the adjoint reads
    of the forward is what it asks the context for: there is no second declaration
    that could disagree with the rule.
  }];
  let methods = [
    InterfaceMethod<[{
      Why this very op cannot be differentiated (a reduction to the maximum, say);
      empty where it can. Asked of all ops before any adjoint is built.
    }], "std::string", "getAdjointRefusal", (ins), "", "return std::string();">,
    InterfaceMethod<[{
      Adds to the backward: for every operand that `context.isNeeded`, the products of the
      cotangents of the results with the derivative by that operand, in primitives,
      each handed to `context.contribute`. No contribution means zero.
    }], "void", "buildAdjoint", (ins "::harmony::nn::AdjointContext &":$context)>,
  ];
}

#endif // DIALECTS_NN_AUTODIFFINTERFACE_TD
