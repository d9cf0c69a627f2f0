//===- Binder.h - A node as its converter sees it ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A converter reads inputs and attributes through the binder, which notes what
// was read. A node that has an input, an attribute or a used output that its
// converter did not look at is refused: nothing is ever skipped in silence.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_BINDER_H
#define PASSES_NORMALIZE_BINDER_H

#include "dialects/ONNX/ONNX.h"
#include "passes/Normalize/TensorBuilder.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>

namespace harmony::normalize {

/// The value of an ONNX value: a tensor, or a sequence of tensors.
struct NodeValue {
  Tensor tensor;
  std::vector<Tensor> sequence;
  bool isSequence = false;
};

class Binder {
public:
  /// `inputs` has one entry per operand of `node`.
  Binder(onnx::NodeOp node, TensorBuilder &builder,
         llvm::ArrayRef<NodeValue> inputs);

  TensorBuilder &build() { return builder; }
  Tensor refuse(const llvm::Twine &message) { return builder.fail(message); }
  int64_t version() const;
  /// The node's name, or its first output's.
  std::string stableName();

  unsigned inputCount() const { return inputs.size(); }
  bool hasInput(unsigned index) const;
  /// A required input.
  Tensor input(unsigned index);
  /// Null, without an error, where the input is absent.
  Tensor optionalInput(unsigned index);
  llvm::ArrayRef<Tensor> sequence(unsigned index);
  /// The elements of an integer input that must be known.
  std::optional<std::vector<Element>> elements(unsigned index);
  /// The same without N and n in them.
  std::optional<llvm::SmallVector<int64_t>> integers(unsigned index);

  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string string(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> integerList(llvm::StringRef name);
  /// Any attribute; null if absent.
  mlir::Attribute attribute(llvm::StringRef name);
  /// Reads an attribute that cannot change the result for the given reason.
  void ignore(llvm::StringRef name) { readAttributes.insert(name); }

  /// See onnx::getTracedArgument.
  std::optional<llvm::StringRef> tracedArgument(llvm::StringRef function,
                                                unsigned index,
                                                llvm::StringRef name);

  /// An axis in [-rank, rank), made non-negative; refuses others.
  int64_t axis(int64_t axis, int64_t rank);
  /// The same for a list, sorted.
  llvm::SmallVector<int64_t> axes(llvm::ArrayRef<int64_t> axes, int64_t rank);

  unsigned outputCount() const;
  bool isOutputUsed(unsigned index) const;
  void output(unsigned index, Tensor tensor);
  void outputSequence(unsigned index, std::vector<Tensor> tensors);

  /// The outputs, once the converter is through; an error is left in the
  /// builder where something was not read.
  std::vector<NodeValue> finish();

private:
  onnx::NodeOp node;
  TensorBuilder &builder;
  llvm::ArrayRef<NodeValue> inputs;
  std::vector<bool> readInputs;
  llvm::StringSet<> readAttributes;
  std::vector<NodeValue> outputs;
};

using Converter = std::function<void(Binder &)>;

/// The converters, by domain, operator and since-version.
class ConverterTable {
public:
  ConverterTable();

  /// Registers `converter` for since-versions between which the operator does
  /// not change in what it reads here.
  void onOp(llvm::StringRef name, std::initializer_list<int64_t> versions,
            Converter converter, llvm::StringRef domain = "");
  /// Null where there is none.
  const Converter *find(onnx::NodeOp node) const;
  /// Versions that have a converter.
  llvm::SmallVector<int64_t> getVersions(llvm::StringRef domain,
                                         llvm::StringRef name) const;
  std::vector<std::pair<std::string, std::vector<int64_t>>> list() const;

private:
  llvm::StringMap<std::map<int64_t, Converter>> converters;
};

const ConverterTable &getConverterTable();

// Parts of the table.
void addElementwiseConverters(ConverterTable &table);
void addShapeConverters(ConverterTable &table);
void addIndexConverters(ConverterTable &table);
void addReductionConverters(ConverterTable &table);
void addProductConverters(ConverterTable &table);
void addAttentionConverters(ConverterTable &table);
void addConvolutionConverters(ConverterTable &table);
void addBatchNormConverters(ConverterTable &table);
void addNormalizationConverters(ConverterTable &table);
void addPadConverters(ConverterTable &table);
void addResizeConverters(ConverterTable &table);
void addLossConverters(ConverterTable &table);
void addRecurrentConverters(ConverterTable &table);
void addSelectConverters(ConverterTable &table);
void addRandomConverters(ConverterTable &table);
void addEinsumConverters(ConverterTable &table);

bool isBatchNorm(onnx::NodeOp node);
/// Whether a BatchNormalization normalises by statistics of the batch.
bool isTrainingBatchNorm(onnx::NodeOp node);

/// The MLIR type of ONNX's element type number, null for what MLIR has no type
/// for.
mlir::Type getElementType(mlir::MLIRContext *context, int64_t onnxType);

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_BINDER_H
