//===- Evaluate.h - Reference interpreter of nn -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates functions of nn, arith and math ops on host tensors, one op at a
// time: the yardstick for adjoints (finite differences), converters and
// kernels. Composites mean what decompose() says. Not fast, on purpose.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_EVALUATE_H
#define DIALECTS_NN_EVALUATE_H

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace harmony::nn {

/// A tensor in host memory, row-major. Floating elements of any width are held
/// as doubles; integers are sign-extended, except that i1 is 0 or 1. Exactly
/// one of `floats` and `integers` is used.
struct HostTensor {
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> integers;

  HostTensor() = default;
  /// Zeros of a static type.
  explicit HostTensor(mlir::RankedTensorType type);
  bool isFloat() const { return mlir::isa<mlir::FloatType>(element); }
  int64_t size() const;
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, element);
  }
};

/// A tensor from a constant's elements.
HostTensor toHostTensor(mlir::DenseElementsAttr elements);

struct EvaluateOptions {
  /// u, what the batch extents of types are multiples of.
  int64_t samples = 1;
  /// Round f32 results to float after each op. Otherwise f32 is computed as
  /// real numbers are: in double, f32 constants as they are.
  bool roundToFloat = false;
  /// Values of variables that nn.get reads; others have their initial value,
  /// which must be elements or absent (zero).
  llvm::StringMap<HostTensor> variables;
  /// Receives scale * numerator / denominator of each nn.loss, in order, where
  /// not null. A denominator that is absent is count * samples, or count where
  /// constant.
  llvm::SmallVectorImpl<double> *losses = nullptr;
  /// Receives the values of nn.assign by variable, where not null.
  llvm::StringMap<HostTensor> *assigned = nullptr;
};

/// The results of `function` for `inputs`, whose types must be the arguments'
/// for `options.samples`. Calls are followed. Ops that the interpreter does not
/// know and inputs that do not fit are reported at the op.
mlir::FailureOr<llvm::SmallVector<HostTensor>>
evaluate(mlir::func::FuncOp function, llvm::ArrayRef<HostTensor> inputs,
         const EvaluateOptions &options = {});

} // namespace harmony::nn

#endif // DIALECTS_NN_EVALUATE_H
