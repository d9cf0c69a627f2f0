//===- Normalizer.h - From a model to nn ------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_NORMALIZER_H
#define PASSES_NORMALIZE_NORMALIZER_H

#include "passes/Normalize/Model.h"
#include "passes/Normalize/Padding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace harmony::normalize {

/// Turns a module of the onnx dialect into one of nn, in place.
class Normalizer {
public:
  /// `wholeBatch`: the batch is an extent of so many samples, and nothing
  /// follows it; 0: every value knows its batch axis.
  Normalizer(mlir::ModuleOp module, const NormalizeOptions &options,
             int64_t wholeBatch = 0);
  mlir::LogicalResult run();

private:
  struct Output {
    std::string name;
    Tensor tensor;
    mlir::Location location;
  };

  mlir::LogicalResult findGraph();
  mlir::LogicalResult bindInputs();
  mlir::LogicalResult decideRoles();
  mlir::LogicalResult convertForward();
  mlir::LogicalResult checkBatchNorms(llvm::ArrayRef<mlir::Operation *> ops);
  Tensor bindInitializer(GraphConverter &converter, onnx::InitialValueOp op);
  mlir::LogicalResult findLoss();
  mlir::LogicalResult appendLoss();
  mlir::LogicalResult emitLoss();
  mlir::LogicalResult emitOutputs();
  Tensor bindInput(mlir::Value argument, mlir::Type elementType);
  mlir::LogicalResult convertUpdates();
  void annotateIndices();
  void noteUnsplittable();
  mlir::LogicalResult createVariables();

  // The update part of a training graph: see TrainingGraph.cpp.
  friend class UpdateConverter;

  mlir::ModuleOp module;
  const NormalizeOptions &options;
  int64_t wholeBatch;
  mlir::MLIRContext *context;
  onnx::GraphOp graph;
  onnx::TrainingOp training;
  onnx::GradientOp gradient;
  onnx::FileMap files;
  RoleRules rules;
  PaddingRows padding;
  llvm::DenseMap<mlir::Attribute, RoleDecision>
      roles; ///< by initializer symbol
  llvm::StringMap<onnx::InitializerOp> initializers;
  mlir::func::FuncOp main;
  std::unique_ptr<RandomSource> random;
  std::unique_ptr<TensorBuilder> builder;
  std::unique_ptr<GraphConverter> converter;
  std::vector<Output> outputs;
  Tensor loss;
  mlir::Location lossLocation;
  /// Variables that the update part uses.
  llvm::DenseSet<mlir::Attribute> usedByUpdates;
};

/// Removes pure operations without uses.
void eraseDeadOps(mlir::Block &block);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_NORMALIZER_H
