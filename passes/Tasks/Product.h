//===- Product.h - dot_general as library calls -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_PRODUCT_H
#define PASSES_TASKS_PRODUCT_H

#include "passes/Tasks/View.h"
#include "runtime/program.h"

namespace mlir {
class Operation;
} // namespace mlir
namespace harmony::nn {
class DotGeneralOp;
} // namespace harmony::nn

namespace harmony {

/// One dot_general as a batch of row-major matrix products on strided operands.
struct Product {
  HmGemm gemm;
  bool swapped =
      false; ///< A is the right operand: the product computes the transpose
  int64_t blocks = 0; ///< extent of the launch
  double flops = 0;
};

/// Which operand has strides that no product can read or write.
enum class ProductObstacle { None, Lhs, Rhs, Result };

/// Maps `op`, on static types, to a product. `accumulate` adds to the result.
/// An obstacle names what must be made contiguous first.
ProductObstacle mapProduct(nn::DotGeneralOp op, const View &lhs,
                           const View &rhs, const View &result, bool accumulate,
                           Product &product);

/// How a copy of an operand of a product lies: batched axes, then free ones,
/// then contracted ones, the contracted ones in the order that they have in
/// the memory of the other operand. The right operand has its free axes last,
/// unless they step the furthest where it lies now (`view`): a weight of a
/// convolution is reordered row by row. The result names no buffer.
View orderForProduct(nn::DotGeneralOp op, bool isLhs, const View &view,
                     const View &other);

/// How a result of a product lies that is copied to where it belongs, which no
/// product can write (`now`): row-major; or, where that is how it lies now,
/// with the free axes of each operand in the order that they have in the
/// operand's memory. The result names no buffer.
View orderResultOfProduct(nn::DotGeneralOp op, const View &lhs, const View &rhs,
                          const View &now);

} // namespace harmony

#endif // PASSES_TASKS_PRODUCT_H
