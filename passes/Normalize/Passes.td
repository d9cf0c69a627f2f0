//===- Passes.td - From onnx to nn --------------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_PASSES_TD
#define PASSES_NORMALIZE_PASSES_TD

include "mlir/Pass/PassBase.td"

def NormalizePass : Pass<"harmony-normalize", "::mlir::ModuleOp"> {
  let summary = "Give an ONNX model its meaning in nn";
  let description = [{
    Before: a module of the onnx dialect. After: nn.variables, func.func @main, and
    for a training graph nn.optimize and nn.step_scalars with their functions; see
    README.md here. No opset differences, no shape arithmetic, no dead code, every
    extent static but for the microbatch. Everything that is not supported is reported
    in one run.
  }];
  let constructor = "::harmony::createNormalizePass()";
  let dependentDialects = ["::harmony::nn::NNDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::func::FuncDialect"];
  let options = [
    ListOption<"dims", "dims", "std::string", "Values of symbolic dimensions, name=value each; not the batch">,
    Option<"batchSymbol", "batch-symbol", "std::string", "\"\"",
           "Name of the symbolic dimension that is the batch; default: axis 0 of the inputs">,
    Option<"loss", "loss", "std::string", "\"\"", "Append this loss: cross-entropy or mse">,
    Option<"lossOutput", "loss-output", "std::string", "\"\"", "Name of the output that is the loss">,
    ListOption<"trainable", "trainable", "std::string", "Regular expressions of initializers that are trained">,
    ListOption<"freeze", "freeze", "std::string", "Regular expressions of initializers that are not trained">,
    ListOption<"padding", "padding", "std::string", "Rows of tables that look-ups give no gradient: name=row, name=none">,
    Option<"forward", "forward", "bool", "false", "No loss: outputs alone">,
    Option<"batchNorm", "batch-norm", "std::string", "\"\"",
           "What BatchNormalization of the inference form is: as-exported or train; default: refused where all are">,
    Option<"runningVariance", "bn-running-var", "std::string", "\"\"",
           "Running variance of torch (N - 1) or onnx (N); default: onnx for a training graph">,
    Option<"samples", "samples", "int64_t", "0",
           "Normalise a model that combines samples for microbatches of so many; 0: refuse it">,
    Option<"fuse", "fuse", "bool", "true", "Put composites together that exporters have taken apart">
  ];
}

def AddOptimizerPass : Pass<"harmony-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Update every parameter by a built-in optimizer";
  let description = [{
    Adds to every parameter that has none yet an nn.optimize with PyTorch's
    semantics, one function per shape, the optimizer's state variables, and the step's
    scalars, which the runtime writes. With clipping every gradient is first multiplied by
    min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does: nn.contribution
    and nn.epilogue.
  }];
  let constructor = "::harmony::createAddOptimizerPass()";
  let dependentDialects = ["::harmony::nn::NNDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "adamw, adam or sgd">,
    Option<"clipGradientNorm", "clip-grad-norm", "bool", "false", "Clip gradients by their global norm">
  ];
}

def VerifyNormalizedPass : Pass<"harmony-verify-normalized", "::mlir::ModuleOp"> {
  let summary = "Check what normalisation promises";
  let constructor = "::harmony::createVerifyNormalizedPass()";
}

#endif // PASSES_NORMALIZE_PASSES_TD
