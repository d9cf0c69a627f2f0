//===- UpdateConverter.h - The updates of a training graph ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a training graph computes from gradients and state falls into four kinds
// of functions: one elementwise function per parameter (nn.optimize); one
// function for all work on scalars that needs no gradient, such as step
// counters and bias corrections (nn.step_scalars); and for scalars that depend
// on gradients, such as a global norm, one reduction per gradient
// (nn.contribution) and one function of what they give (nn.epilogue). A binding
// reads old values, whatever its place: scalars of the step before are read by
// nn.step_scalars alone, which runs first.
//
// Formulas of Adam, Momentum and Adagrad: onnx/defs/training/defs.cc, opset
// ai.onnx.preview.training 1. An optimizer node over n tensors is n updates.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_UPDATECONVERTER_H
#define PASSES_NORMALIZE_UPDATECONVERTER_H

#include "passes/Normalize/Normalizer.h"
#include "passes/Normalize/TensorBuilderDetail.h"

namespace harmony::normalize {

/// One parameter with what is updated along with it.
struct Update {
  mlir::Attribute parameter;
  unsigned gradientIndex = 0;
  mlir::Value value; ///< the new parameter
  llvm::SmallVector<std::pair<mlir::Attribute, mlir::Value>> states;
};

/// What a scalar is: a value of the graph, or a part of an optimizer node.
using ScalarKey = std::pair<const void *, llvm::StringRef>;

/// A function that grows arguments on demand.
class GrowingFunction {
public:
  enum class Kind { Steps, Update, Contribution, Epilogue };

  /// `reader` is what diagnostics call it.
  GrowingFunction(mlir::ModuleOp module, const llvm::Twine &name, Kind kind,
                  const llvm::Twine &reader)
      : kind(kind), reader(reader.str()) {
    mlir::OpBuilder moduleBuilder =
        mlir::OpBuilder::atBlockEnd(module.getBody());
    function =
        mlir::func::FuncOp::create(moduleBuilder, module.getLoc(), name.str(),
                                   moduleBuilder.getFunctionType({}, {}));
    function.setPrivate();
    body = function.addEntryBlock();
    builder = std::make_unique<TensorBuilder>(
        module, mlir::OpBuilder::atBlockEnd(body));
    converter = std::make_unique<GraphConverter>(*builder);
  }

  Tensor addArgument(mlir::RankedTensorType type, mlir::Type onnxElementType) {
    return builder->fromValue(body->addArgument(type, function.getLoc()),
                              onnxElementType);
  }
  Tensor insertArgument(unsigned index, mlir::RankedTensorType type) {
    return builder->fromValue(
        body->insertArgument(index, type, function.getLoc()),
        type.getElementType());
  }

  /// Returns `results` and sets the function's type.
  void finish(llvm::ArrayRef<mlir::Value> results) {
    mlir::func::ReturnOp::create(builder->getBuilder(), function.getLoc(),
                                 results);
    function.setFunctionType(
        mlir::FunctionType::get(function.getContext(), body->getArgumentTypes(),
                                mlir::ValueRange(results).getTypes()));
    eraseDeadOps(*body);
  }

  /// Binds every read of the initializer to a tensor.
  void bindReads(onnx::GraphOp graph, mlir::Attribute initializer,
                 Tensor tensor) {
    for (auto read : graph.getBody().front().getOps<onnx::InitialValueOp>())
      if (read.getInitializerAttr() == initializer)
        converter->bind(read.getResult(), tensor);
  }

  Kind kind;
  std::string reader;
  mlir::func::FuncOp function;
  mlir::Block *body = nullptr;
  std::unique_ptr<TensorBuilder> builder;
  std::unique_ptr<GraphConverter> converter;
  Update *update = nullptr; ///< of a function of that kind

  /// Variables of role scalar that are arguments, the tensors by key.
  llvm::SmallVector<mlir::Attribute> scalarArguments;
  llvm::DenseMap<ScalarKey, Tensor> scalarTensors;
  /// Variables that the results are written to.
  llvm::SmallVector<mlir::Attribute> writes;
  llvm::SmallVector<mlir::Value> written;
};

class UpdateConverter {
public:
  explicit UpdateConverter(Normalizer &normalizer)
      : n(normalizer), context(normalizer.context),
        steps(normalizer.module, "step_scalars", GrowingFunction::Kind::Steps,
              "a scalar of the step"),
        epilogue(normalizer.module, "epilogue", GrowingFunction::Kind::Epilogue,
                 "a scalar that updates of several parameters read") {}

  mlir::LogicalResult run();

private:
  mlir::LogicalResult sortBindings();
  mlir::LogicalResult convertParameter(Update &update);
  mlir::LogicalResult
  convertStates(GrowingFunction &function,
                llvm::ArrayRef<std::pair<mlir::Attribute, mlir::Value>> states);
  void emitSteps();
  void emitEpilogue();

  /// What a value is computed from: parameters (by their value or their
  /// gradient). Follows only the tensors of one index through optimizer nodes.
  void collectParameters(mlir::Value value,
                         llvm::SmallSetVector<mlir::Attribute, 4> &parameters,
                         llvm::DenseSet<mlir::Value> &seen);
  llvm::SmallVector<mlir::Value> getOperands(mlir::Value value);
  /// Computed from scalars alone, without a gradient.
  bool isScalar(mlir::Value value);
  /// What a value is computed from, beside scalars and constants.
  struct Sources {
    /// The parameters whose gradients it is.
    llvm::SmallSetVector<mlir::Attribute, 4> gradients;
    bool readsTensors = false; ///< parameters or their state
  };
  const Sources &getSources(mlir::Value value);
  /// One element, from gradients alone: computed by the epilogue for `update`.
  bool isShared(mlir::Value value, const Update &update);
  /// One element, from the elements of one gradient: a contribution.
  bool isReducedGradient(mlir::Value value);

  Tensor evaluate(GrowingFunction &function, mlir::Value value);
  /// The same where the value is no argument: computed in the function itself.
  Tensor evaluateNode(GrowingFunction &function, mlir::Value value);
  class OptimizerFormulas;
  Tensor evaluateOptimizer(GrowingFunction &function, onnx::NodeOp node,
                           mlir::Value value);
  Tensor readInitializer(GrowingFunction &function, onnx::InitialValueOp read);

  /// A value that `producer` (step_scalars or epilogue) computes, as an
  /// argument of `function`; inline where it is constant.
  Tensor scalarArgument(GrowingFunction &function, GrowingFunction &producer,
                        ScalarKey key, llvm::StringRef name,
                        mlir::Location location,
                        llvm::function_ref<Tensor()> compute);
  /// A reduced gradient as an argument of the epilogue.
  Tensor contributionArgument(mlir::Value value);
  std::string getFreeName(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  /// base^exponent for an integer exponent >= 0, by squaring, in double
  /// precision.
  Tensor powerOf(double base, const Tensor &exponent);

  Tensor refuse(mlir::Value value, const llvm::Twine &message) {
    mlir::emitError(value.getLoc(), message);
    failed = true;
    return Tensor();
  }

  static bool isOptimizer(onnx::NodeOp node) {
    return node.getDomain() == "ai.onnx.preview.training";
  }

  Normalizer &n;
  mlir::MLIRContext *context;
  GrowingFunction steps, epilogue;
  std::vector<Update> updates;
  /// By who computes the new value.
  llvm::SmallVector<std::pair<mlir::Attribute, mlir::Value>> stepStates,
      epilogueStates;
  llvm::DenseMap<mlir::Value, bool> scalarCache;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Sources>> sourceCache;
  llvm::SmallVector<mlir::Attribute> reads; ///< of step_scalars
  llvm::DenseMap<ScalarKey, mlir::FlatSymbolRefAttr> scalarVariables;
  /// In the order of the epilogue's arguments.
  struct Contribution {
    mlir::Attribute parameter;
    mlir::func::FuncOp function;
    Tensor argument;
  };
  std::vector<Contribution> contributions;
  bool failed = false;
};

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_UPDATECONVERTER_H
