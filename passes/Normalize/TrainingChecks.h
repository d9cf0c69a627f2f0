//===- TrainingChecks.h - Whether what should train does -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exporters fold, transpose and copy weights, and graphs cut gradients. Each
// function tells all tensors that it is about in one diagnostic.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_TRAININGCHECKS_H
#define PASSES_NORMALIZE_TRAININGCHECKS_H

#include "passes/Normalize/Model.h"

#include "llvm/ADT/MapVector.h"

#include <utility>

namespace harmony::normalize {

/// Which variables the loss has a gradient by.
struct GradientPaths {
  llvm::DenseSet<mlir::Attribute> trained;
  /// Variables that only values without gradient lead to: the first node on
  /// the way back from the loss that lets no gradient pass.
  llvm::MapVector<mlir::Attribute, mlir::Operation *> cut;
};

/// Walks back from the losses of `body`. Integers and booleans carry no
/// gradient; rounding has a derivative of zero.
GradientPaths findGradientPaths(mlir::Block &body);

/// The names that onnxscript's optimizer says it has folded into `initializer`;
/// empty where it says nothing.
llvm::SmallVector<std::string> getFoldedNames(onnx::InitializerOp initializer);

/// Names for a diagnostic, quoted: the first `limit`, and how many more.
std::string listNames(llvm::ArrayRef<std::string> names, size_t limit = 8);

using DecidedInitializer = std::pair<onnx::InitializerOp, RoleDecision>;

/// Warns of parameters that the exporter has made of others, of those whose
/// names are not those of parameters in a file without marks, and of constants
/// of the exporter's that were parameters.
void warnOfExporter(mlir::ModuleOp module,
                    llvm::ArrayRef<DecidedInitializer> initializers);

/// Warns of losses that were traced with label smoothing, which exporters drop.
void warnOfLostSmoothing(mlir::ModuleOp module);

/// Warns of nodes whose traced calls read the result of a detach that the graph
/// does not have.
void warnOfLostDetach(mlir::ModuleOp module);

/// Fails where a parameter's elements are not f32.
llvm::LogicalResult
checkElementTypes(mlir::ModuleOp module,
                  llvm::ArrayRef<DecidedInitializer> initializers);

/// Warns of parameters that have the elements of another one, as they are or
/// transposed: a tied weight, which trains apart.
void warnOfCopies(mlir::ModuleOp module,
                  llvm::ArrayRef<DecidedInitializer> variables,
                  onnx::FileMap &files);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_TRAININGCHECKS_H
