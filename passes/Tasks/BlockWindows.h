//===- BlockWindows.h - Convolutions a few samples at a time ----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_BLOCKWINDOWS_H
#define PASSES_TASKS_BLOCKWINDOWS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony {

/// Bytes of windows that are made at a time, and most of the workspace of a
/// convolution. Windows that fit the caches are multiplied faster than they
/// would be read from memory; fewer would make the rows of a product short.
inline constexpr int64_t kWindowBytes = int64_t(4) << 20;

/// Splits the products of windows in a function of static types into blocks of
/// samples or, where one sample has too many windows, of rows (the first
/// windowed axis), so that never all windows of a microbatch exist at once:
///
///   product(window(x), w)  ->  concat(product(window(slice(x)), w)..)
///   fold(product(d, w))    ->  concat(fold(product(slice(d), w))..)
///   product(d, window(x))  ->  product(slice(d), window(slice(x))) + ..
///
/// the last being the gradient of a weight; its sum is a chain of arith.addf
/// outside of any group, each of which the lowering turns into a product that
/// adds to memory. Blocks are a function of shapes alone.
void blockWindows(mlir::func::FuncOp function);

} // namespace harmony

#endif // PASSES_TASKS_BLOCKWINDOWS_H
