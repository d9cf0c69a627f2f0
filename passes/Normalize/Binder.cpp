//===- Binder.cpp - A node as its converter sees it -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"

#include "dialects/ONNX/TracedCall.h"
#include "passes/Normalize/Passes.h"
#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Binder::Binder(onnx::NodeOp node, TensorBuilder &builder,
               ArrayRef<NodeValue> inputs)
    : node(node), builder(builder), inputs(inputs), readInputs(inputs.size()),
      outputs(node.getNumResults()) {}

int64_t Binder::version() const { return onnx::NodeOp(node).getVersion(); }

std::optional<StringRef>
Binder::tracedArgument(StringRef function, unsigned index, StringRef name) {
  return onnx::getTracedArgument(node, function, index, name);
}

std::string Binder::stableName() {
  StringRef name = node.getNodeName();
  return (name.empty() ? onnx::getValueName(node->getResult(0)) : name).str();
}

bool Binder::hasInput(unsigned index) const {
  return onnx::NodeOp(node).hasInput(index);
}

Tensor Binder::input(unsigned index) {
  if (!hasInput(index))
    return refuse("input " + Twine(index) + " is absent");
  return optionalInput(index);
}

Tensor Binder::optionalInput(unsigned index) {
  if (!hasInput(index))
    return Tensor();
  readInputs[index] = true;
  if (inputs[index].isSequence)
    return refuse("input " + Twine(index) + " is a sequence");
  return inputs[index].tensor;
}

ArrayRef<Tensor> Binder::sequence(unsigned index) {
  if (!hasInput(index) || !inputs[index].isSequence) {
    refuse("input " + Twine(index) + " is not a sequence");
    return {};
  }
  readInputs[index] = true;
  return inputs[index].sequence;
}

std::optional<std::vector<Element>> Binder::elements(unsigned index) {
  Tensor tensor = input(index);
  if (!tensor)
    return std::nullopt;
  if (!tensor.isKnown() || tensor.isFloat()) {
    refuse("input " + Twine(index) +
           " must be integers known at compile time: accepted are constants "
           "and what follows from the shapes of inputs");
    return std::nullopt;
  }
  return tensor.elements();
}

std::optional<SmallVector<int64_t>> Binder::integers(unsigned index) {
  std::optional<std::vector<Element>> known = elements(index);
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> result;
  for (const Element &element : *known) {
    if (!element.isConstant()) {
      refuse("input " + Twine(index) + " depends on the batch size");
      return std::nullopt;
    }
    result.push_back(element.integer);
  }
  return result;
}

Attribute Binder::attribute(StringRef name) {
  readAttributes.insert(name);
  return node.getNodeAttribute(name);
}

int64_t Binder::integer(StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(attribute(name));
  return value ? value.getValue().getSExtValue() : otherwise;
}

double Binder::real(StringRef name, double otherwise) {
  auto value = dyn_cast_or_null<FloatAttr>(attribute(name));
  return value ? value.getValueAsDouble() : otherwise;
}

std::string Binder::string(StringRef name, StringRef otherwise) {
  auto value = dyn_cast_or_null<StringAttr>(attribute(name));
  return (value ? value.getValue() : otherwise).str();
}

std::optional<SmallVector<int64_t>> Binder::integerList(StringRef name) {
  Attribute value = attribute(name);
  if (auto list = dyn_cast_or_null<DenseI64ArrayAttr>(value))
    return SmallVector<int64_t>(list.asArrayRef());
  if (auto list = dyn_cast_or_null<ArrayAttr>(value); list && list.empty())
    return SmallVector<int64_t>();
  return std::nullopt;
}

int64_t Binder::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    refuse("axis is " + Twine(axis) + ", accepted is [" + Twine(-rank) + ", " +
           Twine(rank - 1) + "]");
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

SmallVector<int64_t> Binder::axes(ArrayRef<int64_t> list, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t entry : list)
    result.push_back(axis(entry, rank));
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    refuse("an axis is named twice");
  return result;
}

unsigned Binder::outputCount() const { return outputs.size(); }

bool Binder::isOutputUsed(unsigned index) const {
  return index < outputs.size() &&
         !onnx::NodeOp(node).getResult(index).use_empty();
}

void Binder::output(unsigned index, Tensor tensor) {
  outputs[index].tensor = std::move(tensor);
}

void Binder::outputSequence(unsigned index, std::vector<Tensor> tensors) {
  outputs[index].sequence = std::move(tensors);
  outputs[index].isSequence = true;
}

std::vector<NodeValue> Binder::finish() {
  for (auto [index, wasRead] : llvm::enumerate(readInputs))
    if (!wasRead && hasInput(index))
      refuse("input " + Twine(index) + " is not supported");
  for (NamedAttribute entry : node.getNodeAttributes())
    if (!readAttributes.contains(entry.getName().strref())) {
      std::string value;
      llvm::raw_string_ostream(value) << entry.getValue();
      refuse("attribute '" + entry.getName().strref() + "' = " + value +
             " is not supported");
    }
  for (auto [index, value] : llvm::enumerate(outputs))
    if (isOutputUsed(index) && !value.tensor && !value.isSequence)
      refuse("output " + Twine(index) + " is not supported");
  return std::move(outputs);
}

//===----------------------------------------------------------------------===//
// ConverterTable
//===----------------------------------------------------------------------===//

static std::string makeKey(StringRef domain, StringRef name) {
  return (domain + ":" + name).str();
}

ConverterTable::ConverterTable() {
  addElementwiseConverters(*this);
  addShapeConverters(*this);
  addIndexConverters(*this);
  addReductionConverters(*this);
  addProductConverters(*this);
  addAttentionConverters(*this);
  addConvolutionConverters(*this);
  addBatchNormConverters(*this);
  addNormalizationConverters(*this);
  addPadConverters(*this);
  addResizeConverters(*this);
  addLossConverters(*this);
  addRecurrentConverters(*this);
  addSelectConverters(*this);
  addRandomConverters(*this);
  addEinsumConverters(*this);
}

void ConverterTable::onOp(StringRef name,
                          std::initializer_list<int64_t> versions,
                          Converter converter, StringRef domain) {
  for (int64_t version : versions)
    converters[makeKey(domain, name)][version] = converter;
}

const Converter *ConverterTable::find(onnx::NodeOp node) const {
  auto entry = converters.find(makeKey(node.getDomain(), node.getOpType()));
  if (entry == converters.end())
    return nullptr;
  auto version = entry->second.find(node.getVersion());
  return version == entry->second.end() ? nullptr : &version->second;
}

SmallVector<int64_t> ConverterTable::getVersions(StringRef domain,
                                                 StringRef name) const {
  SmallVector<int64_t> versions;
  auto entry = converters.find(makeKey(domain, name));
  if (entry != converters.end())
    for (const auto &[version, converter] : entry->second)
      versions.push_back(version);
  return versions;
}

std::vector<std::pair<std::string, std::vector<int64_t>>>
ConverterTable::list() const {
  std::vector<std::pair<std::string, std::vector<int64_t>>> result;
  for (const auto &entry : converters) {
    std::vector<int64_t> versions;
    for (const auto &[version, converter] : entry.getValue())
      versions.push_back(version);
    StringRef name = entry.getKey();
    result.emplace_back(
        (name.starts_with(":") ? name.drop_front() : name).str(), versions);
  }
  std::sort(result.begin(), result.end());
  return result;
}

const ConverterTable &harmony::normalize::getConverterTable() {
  static const ConverterTable table;
  return table;
}

std::vector<std::pair<std::string, std::vector<int64_t>>>
harmony::getConvertibleOperators() {
  return getConverterTable().list();
}

Type harmony::normalize::getElementType(MLIRContext *context,
                                        int64_t onnxType) {
  Builder builder(context);
  auto unsignedType = [&](unsigned width) {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  };
  switch (onnxType) {
  case 1:
    return builder.getF32Type();
  case 2:
    return unsignedType(8);
  case 3:
    return builder.getIntegerType(8);
  case 4:
    return unsignedType(16);
  case 5:
    return builder.getIntegerType(16);
  case 6:
    return builder.getI32Type();
  case 7:
    return builder.getI64Type();
  case 9:
    return builder.getI1Type();
  case 10:
    return builder.getF16Type();
  case 11:
    return builder.getF64Type();
  case 12:
    return unsignedType(32);
  case 13:
    return unsignedType(64);
  case 16:
    return builder.getBF16Type();
  default:
    return Type();
  }
}
