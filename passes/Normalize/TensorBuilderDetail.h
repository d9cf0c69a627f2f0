//===- TensorBuilderDetail.h - Shared by the parts of TensorBuilder -*- C++
//-*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_TENSORBUILDERDETAIL_H
#define PASSES_NORMALIZE_TENSORBUILDERDETAIL_H

#include "passes/Normalize/TensorBuilder.h"

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace harmony::normalize {

template <typename Op, typename... Args>
mlir::Value TensorBuilder::emit(Args &&...args) {
  return unique(Op::create(builder, location, std::forward<Args>(args)...));
}

/// The type as MLIR spells it, for messages.
std::string toText(mlir::Type type);
std::string toText(mlir::Attribute attribute);

/// The argument of the function that the elements of `value` are taken from, by
/// reshaping, slicing, padding and transposing alone; null where there is none.
mlir::BlockArgument getInput(mlir::Value value);
inline bool isFromInput(mlir::Value value) { return value && getInput(value); }

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_TENSORBUILDERDETAIL_H
