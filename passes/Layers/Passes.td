//===- Passes.td - Layers, groups and tasks -----------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LAYERS_PASSES_TD
#define PASSES_LAYERS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormLayersPass : Pass<"harmony-form-layers", "mlir::ModuleOp"> {
  let summary = "Cuts the model into a chain of layer functions";
  let description = [{
    Before: `@main` holds the whole forward and its `nn.loss` ops. After: `@main` (the
    training forward: the loss alone) and `@evaluate` (loss and outputs) are sequences of
    calls of functions marked `nn.layer`; equal layers call one function.

    The chain is cut where few bytes are live: between two heavy ops (products, look-ups in
    a trained table) at the first position with the least live bytes, if one value crosses
    it or its neighbours are wider. Products that are marked alike (`nn.undivided`), and what is
    between them, stay in one layer. What depends on inputs or on weights alone is cheap and
    has no place in the chain: it is repeated in every layer that reads it, so that masks
    and transposed weights never travel. Loss denominators, which depend on inputs alone,
    are gathered in `@prologue`.

    `nn.by_mode` is resolved: `@main` reads the value of training, `@evaluate` that of evaluation.

    Arguments that get a gradient (trained parameters, values of the chain) and results
    that receive one are marked `nn.differentiable`.
  }];
  let dependentDialects = ["mlir::func::FuncDialect", "nn::NNDialect"];
  let statistics = [
    Statistic<"layerCount", "layers", "Layers of the training forward">,
    Statistic<"functionCount", "layer-functions", "Distinct layer functions">
  ];
}

def VerifyLayersPass : Pass<"harmony-verify-layers", "mlir::ModuleOp"> {
  let summary = "Checks what form-layers promises";
  let description = [{
    `@main` and `@evaluate` consist of nn.get, calls of layer functions and nn.loss; every
    layer function is called; values cross layers forwards only; arguments are marked.
  }];
}

def FormGroupsPass : Pass<"harmony-form-groups", "mlir::ModuleOp"> {
  let summary = "Fuses the pointwise and row work of every function into groups";
  let description = [{
    Before: layer functions and their backwards of single ops. After: every pointwise op, reduction, softmax,
    normalisation and loss lies in an `nn.group`; products, scatters, concatenations, pads
    and views (reshape, transpose, slice) stay as they are. Groups depend on the function
    alone, not on packs, microbatch size or memory, so a value that is recomputed is
    computed by the same kernel.

    A group has a domain, the shape of its pointwise values. It takes in pointwise ops over
    the domain, reductions over trailing axes and pointwise work on their results, and, at
    its end, reductions over leading axes (gradients of biases and scales, the loss). Broadcasts,
    constants and iotas are repeated in every group that reads them.
  }];
  let dependentDialects = ["nn::NNDialect"];
  let statistics = [Statistic<"groupCount", "groups", "Groups formed">];
}

#endif // PASSES_LAYERS_PASSES_TD
