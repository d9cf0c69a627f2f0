//===- FormConvolutions.h - Convolutions as library calls -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_FORMCONVOLUTIONS_H
#define PASSES_TASKS_FORMCONVOLUTIONS_H

#include "runtime/program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony::nn {
class ConvolutionOp;
} // namespace harmony::nn

namespace harmony {

/// Attribute of the module: channels in a block of the weights, which is the
/// width of the target's vectors, 8 or 16; 16 where it is missing.
inline constexpr llvm::StringLiteral kLanesAttr = "harmony.lanes";

/// Turns products of windows in a function of static types into nn.convolution,
/// where the library has one that is faster (docs/Codegen.md). Weights are
/// brought into blocks, and their gradients out of these, by reshapes and
/// transpositions, which the lowering makes copies of:
///
///   product(window(x), w)  ->  convolution forward(x, blocks(w))
///   fold(product(d, w))    ->  convolution image(d, blocks(w))
///   product(d, window(x))  ->  blocks^-1(sum(convolution weights(d, x)))
///
/// What becomes one, and its blocks of samples, is a function of shapes alone.
void formConvolutions(mlir::func::FuncOp function, int64_t lanes);

/// The library call that computes `op`.
HmConvolution getConvolution(nn::ConvolutionOp op);

} // namespace harmony

#endif // PASSES_TASKS_FORMCONVOLUTIONS_H
