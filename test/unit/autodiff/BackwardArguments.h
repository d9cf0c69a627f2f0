//===- BackwardArguments.h - What a backward is called with -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_AUTODIFF_BACKWARDARGUMENTS_H
#define TEST_UNIT_AUTODIFF_BACKWARDARGUMENTS_H

#include "dialects/NN/Evaluate.h"
#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace harmony {

/// The arguments of `backward` by the attributes that autodiff gives them:
/// inputs of `forward`, its saved results (the last of `outputs`), and the
/// cotangents of its other results.
inline std::vector<nn::HostTensor>
getBackwardArguments(mlir::func::FuncOp forward, mlir::func::FuncOp backward,
                     llvm::ArrayRef<nn::HostTensor> inputs,
                     llvm::ArrayRef<nn::HostTensor> outputs,
                     llvm::ArrayRef<nn::HostTensor> cotangents) {
  int64_t firstSaved =
      forward.getNumResults() -
      forward->getAttrOfType<mlir::IntegerAttr>(nn::kSavedAttr).getInt();
  std::vector<nn::HostTensor> arguments;
  for (unsigned i = 0; i < backward.getNumArguments(); ++i) {
    auto get = [&](llvm::StringRef name) {
      return backward.getArgAttrOfType<mlir::IntegerAttr>(i, name);
    };
    if (auto primal = get(nn::kPrimalAttr))
      arguments.push_back(inputs[primal.getInt()]);
    else if (auto saved = get(nn::kSavedAttr))
      arguments.push_back(outputs[firstSaved + saved.getInt()]);
    else
      arguments.push_back(cotangents[get(nn::kCotangentAttr).getInt()]);
  }
  return arguments;
}

} // namespace harmony

#endif // TEST_UNIT_AUTODIFF_BACKWARDARGUMENTS_H
