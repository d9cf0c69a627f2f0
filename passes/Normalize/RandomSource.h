//===- RandomSource.h - What random operators draw from ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random bits are a function of seed, step, sample, element and operator
// (nn.random). The first three come as an input that the runtime makes, added
// to the model where something random is; the operator as a constant, so that
// equal layers are one function.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_RANDOMSOURCE_H
#define PASSES_NORMALIZE_RANDOMSOURCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace harmony::normalize {

class RandomSource {
public:
  explicit RandomSource(mlir::func::FuncOp function) : function(function) {}

  /// The argument with the keys of the samples; added when first asked for.
  mlir::Value getKeys();
  /// A new variable with the stream of the operator of this name: a hash of it,
  /// or the next number where another operator has that.
  mlir::FlatSymbolRefAttr addStream(llvm::StringRef name);

private:
  mlir::func::FuncOp function;
  mlir::Value keys;
  llvm::DenseSet<int64_t> streams;
};

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_RANDOMSOURCE_H
