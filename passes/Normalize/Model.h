//===- Model.h - What a model's inputs and initializers are -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_MODEL_H
#define PASSES_NORMALIZE_MODEL_H

#include "dialects/NN/NN.h"
#include "passes/Normalize/GraphConverter.h"
#include "passes/Normalize/Passes.h"

namespace harmony::normalize {

/// The types of the graph's inputs in nn: symbolic dimensions bound, the batch
/// found.
struct GraphInputs {
  llvm::SmallVector<mlir::RankedTensorType> types;
  /// Samples per step where the model fixes them, else 0.
  int64_t fixedBatch = 0;
};

/// The batch is the symbol on axis 0 of the inputs (or `options.batchSymbol`).
/// Without symbols on axis 0 it is the extent that all inputs have there; a
/// forward graph has no batch then. Reports every dimension that has no value.
mlir::FailureOr<GraphInputs> resolveInputs(onnx::GraphOp graph,
                                           const NormalizeOptions &options);

/// What an initializer is to training, and why.
struct RoleDecision {
  nn::Role role = nn::Role::constant;
  std::string reason;
  /// Its elements are known to the compiler; otherwise it is a variable.
  bool isKnown = false;
  /// The exporter has made it from other tensors.
  bool isExporters = false;
  /// A parameter since nothing says otherwise; a scalar that is none, for all
  /// that its name says.
  bool isGuess = false;
};

/// Decides by, in this order: the training graph; --freeze and --trainable;
/// what the exporter says (`kind`); the rules of README.md.
class RoleRules {
public:
  /// Fails with a diagnostic where an expression is not valid.
  static mlir::FailureOr<RoleRules> create(mlir::ModuleOp module,
                                           const NormalizeOptions &options);
  /// Initializers that the training graph differentiates by and updates.
  llvm::SmallSetVector<mlir::Attribute, 16> differentiated, updated;
  /// Running statistics of BatchNormalization, whatever else is said of them.
  llvm::SmallSetVector<mlir::Attribute, 16> statistics;
  bool isTrainingGraph = false;
  /// The exporter marks parameters: one without a mark is of its making.
  bool exporterMarks = false;

  /// Floats that say how to compute and must be known for it: the scales and
  /// the region of Resize. Exporters that fold constants make initializers of
  /// them.
  llvm::SmallSetVector<mlir::Attribute, 4> settings;

  void findSettings(mlir::ModuleOp module);
  /// Finds the running statistics: operands 3 and 4 of the nodes. Warns of one
  /// that is read as something else too.
  void findStatistics(mlir::ModuleOp module);
  RoleDecision decide(onnx::InitializerOp initializer,
                      onnx::FileMap &files) const;

private:
  std::vector<std::string> trainable, freeze;
};

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_MODEL_H
