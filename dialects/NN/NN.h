//===- NN.h - Training tensor algebra ---------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NN_H
#define DIALECTS_NN_NN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/NN/NNDialect.h.inc"
#include "dialects/NN/NNEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttributes.h.inc"
#define GET_OP_CLASSES
#include "dialects/NN/NNOps.h.inc"

namespace harmony::nn {

/// Names of attributes on functions and their arguments and results.
inline constexpr llvm::StringLiteral kNameAttr =
    "nn.name"; ///< of a graph input or output
/// Of the graph input that the runtime makes: what nn.random reads.
inline constexpr llvm::StringLiteral kSampleKeysAttr = "nn.sample_keys";
inline constexpr llvm::StringLiteral kLayerAttr = "nn.layer"; ///< of functions
inline constexpr llvm::StringLiteral kLayerNameAttr =
    "nn.layer_name"; ///< of calls
/// Of products: those with equal names, and what is between them, make one
/// layer. Gone when layers are formed.
inline constexpr llvm::StringLiteral kUndividedAttr = "nn.undivided";
/// Of arguments that get a gradient and results that receive one.
inline constexpr llvm::StringLiteral kDifferentiableAttr = "nn.differentiable";
/// Of a forward: how many values it saves; of a backward's argument: which.
inline constexpr llvm::StringLiteral kSavedAttr = "nn.saved";
/// Of a backward's arguments and results: the forward argument, the forward
/// result whose cotangent it is, the argument whose gradient it is.
inline constexpr llvm::StringLiteral kPrimalAttr = "nn.primal";
inline constexpr llvm::StringLiteral kCotangentAttr = "nn.cotangent";
inline constexpr llvm::StringLiteral kGradientAttr = "nn.gradient";
/// Of a result of a layer function: the argument whose variable it is assigned
/// to (nn.assign).
inline constexpr llvm::StringLiteral kAssignsAttr = "nn.assigns";
/// Of a module whose training step cannot be split into microbatches without
/// changing what it computes: an array of texts, each of which names a node and
/// why.
inline constexpr llvm::StringLiteral kUnsplittableAttr = "nn.unsplittable";

/// Of a module whose samples cannot be told apart, in evaluation neither:
/// every microbatch has exactly so many.
inline constexpr llvm::StringLiteral kWholeBatchAttr = "nn.whole_batch";

/// The batch attribute of a type, null where the type has none.
BatchAttr getBatch(mlir::Type type);

/// A ranked tensor type whose extent `axis` is factor * u; a static type where
/// axis is negative.
mlir::RankedTensorType getBatchType(llvm::ArrayRef<int64_t> shape,
                                    mlir::Type element, int64_t axis,
                                    int64_t factor);

/// The same shape and batch with another element type.
mlir::RankedTensorType withElementType(mlir::RankedTensorType type,
                                       mlir::Type element);

/// The static type that `type` stands for when a microbatch has `samples`
/// samples.
mlir::RankedTensorType instantiate(mlir::RankedTensorType type,
                                   int64_t samples);

/// Types of results, given valid operands and attributes; used by builders and
/// verifiers. They fail without a diagnostic when the op would be invalid.
mlir::FailureOr<mlir::RankedTensorType>
inferTranspose(mlir::RankedTensorType operand,
               llvm::ArrayRef<int64_t> permutation);
mlir::FailureOr<mlir::RankedTensorType>
inferReduce(mlir::RankedTensorType operand, llvm::ArrayRef<int64_t> axes);
mlir::FailureOr<mlir::RankedTensorType> inferDotGeneral(
    mlir::RankedTensorType lhs, mlir::RankedTensorType rhs,
    llvm::ArrayRef<int64_t> lhsBatch, llvm::ArrayRef<int64_t> rhsBatch,
    llvm::ArrayRef<int64_t> lhsContract, llvm::ArrayRef<int64_t> rhsContract);
mlir::FailureOr<mlir::RankedTensorType>
inferGather(mlir::RankedTensorType operand, mlir::RankedTensorType indices,
            int64_t axis, int64_t batchDims);
mlir::FailureOr<mlir::RankedTensorType> inferConcat(mlir::TypeRange operands,
                                                    int64_t axis);

} // namespace harmony::nn

#endif // DIALECTS_NN_NN_H
