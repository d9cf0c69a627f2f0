//===- Contribution.cpp - Reductions of gradients -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Contribution.h"

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace harmony;

void normalize::stageReductions(func::FuncOp function) {
  for (auto reduce :
       llvm::to_vector(function.getBody().front().getOps<nn::ReduceOp>())) {
    auto type = cast<RankedTensorType>(reduce.getOperand().getType());
    ArrayRef<int64_t> axes = reduce.getAxes();
    if (reduce.getKind() != nn::ReduceKind::sum || axes.size() < 2 ||
        axes.back() != type.getRank() - 1)
      continue;
    OpBuilder builder(reduce);
    FailureOr<RankedTensorType> rows = nn::inferReduce(type, axes.back());
    if (failed(rows))
      continue;
    Value sums = nn::ReduceOp::create(builder, reduce.getLoc(), *rows,
                                      reduce.getOperand(), reduce.getKind(),
                                      axes.back());
    reduce.getOperandMutable().assign(sums);
    reduce.setAxes(axes.drop_back());
  }
}
