//===- GraphConverter.cpp - Nodes to tensor algebra -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/GraphConverter.h"

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

template <typename T>
static T load(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// One element in ONNX's raw layout.
static Element decode(Type type, const char *bytes) {
  Element element;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    uint64_t bits = floatType.getWidth() == 64   ? load<uint64_t>(bytes)
                    : floatType.getWidth() == 32 ? load<uint32_t>(bytes)
                                                 : load<uint16_t>(bytes);
    APFloat value(floatType.getFloatSemantics(),
                  APInt(floatType.getWidth(), bits));
    bool losesInfo = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    element.real = value.convertToDouble();
    return element;
  }
  bool isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  switch (onnx::getElementByteSize(type)) {
  case 1:
    element.integer = isUnsigned ? load<uint8_t>(bytes) : load<int8_t>(bytes);
    break;
  case 2:
    element.integer = isUnsigned ? load<uint16_t>(bytes) : load<int16_t>(bytes);
    break;
  case 4:
    element.integer = isUnsigned ? static_cast<int64_t>(load<uint32_t>(bytes))
                                 : load<int32_t>(bytes);
    break;
  default:
    element.integer = load<int64_t>(bytes);
    break;
  }
  return element;
}

Tensor harmony::normalize::knownFromBytes(TensorBuilder &builder,
                                          RankedTensorType type,
                                          ArrayRef<char> bytes) {
  int64_t count = type.getNumElements();
  unsigned size = onnx::getElementByteSize(type.getElementType());
  if (size == 0 || bytes.size() < static_cast<size_t>(count) * size)
    return builder.fail("elements of type " + toText(type.getElementType()) +
                        " are not supported");
  std::vector<Element> elements;
  elements.reserve(count);
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(decode(type.getElementType(), bytes.data() + i * size));
  Shape shape;
  for (int64_t extent : type.getShape())
    shape.push_back(Extent{extent, 0});
  return builder.known(type.getElementType(), shape, std::move(elements));
}

Tensor harmony::normalize::knownFromAttribute(TensorBuilder &builder,
                                              ElementsAttr elements) {
  onnx::FileMap files((StringRef()));
  auto type = dyn_cast<RankedTensorType>(elements.getShapedType());
  FailureOr<ArrayRef<char>> bytes = onnx::getElementBytes(elements, files);
  if (!type || failed(bytes))
    return builder.fail("elements of type " + toText(elements.getShapedType()) +
                        " are not supported");
  return knownFromBytes(builder, type, *bytes);
}

InFlightDiagnostic harmony::normalize::emitNodeError(onnx::NodeOp node) {
  StringRef domain = node.getDomain();
  return mlir::emitError(node.getLoc())
         << "node '" << node.getNodeName() << "' (" << domain
         << (domain.empty() ? "" : ".") << node.getOpType()
         << ", opset version " << node.getVersion() << "): ";
}

void GraphConverter::bind(Value value, Tensor tensor) {
  NodeValue converted;
  converted.tensor = std::move(tensor);
  bind(value, std::move(converted));
}

Tensor GraphConverter::get(Value value) const {
  auto entry = values.find(value);
  return entry == values.end() ? Tensor() : entry->second.tensor;
}

/// Why some operators never will be.
static StringRef getReason(StringRef name) {
  if (llvm::is_contained({"NonZero", "Unique", "NonMaxSuppression", "Compress"},
                         name))
    return ": the shape of its result depends on the data, and every extent "
           "must be known at compile time";
  return "";
}

LogicalResult GraphConverter::checkSupported(ArrayRef<Operation *> ops) {
  bool ok = true;
  const ConverterTable &table = getConverterTable();
  for (Operation *op : ops) {
    auto node = dyn_cast<onnx::NodeOp>(op);
    if (!node || table.find(node))
      continue;
    ok = false;
    InFlightDiagnostic error = emitNodeError(node);
    SmallVector<int64_t> versions =
        table.getVersions(node.getDomain(), node.getOpType());
    if (versions.empty()) {
      error << "the operator is not supported" << getReason(node.getOpType());
      continue;
    }
    error << "this version of the operator is not supported; supported are ";
    llvm::interleaveComma(versions, error);
  }
  return success(ok);
}

void GraphConverter::convert(onnx::NodeOp node) {
  SmallVector<NodeValue> inputs;
  for (Value operand : node.getInputs()) {
    auto entry = values.find(operand);
    inputs.push_back(entry == values.end() ? NodeValue() : entry->second);
    bool isAbsent = isa<NoneType>(operand.getType());
    if (!isAbsent && !inputs.back().tensor && !inputs.back().isSequence)
      return; // its node was refused
  }
  builder.startNode(node.getLoc());
  Binder binder(node, builder, inputs);
  (*getConverterTable().find(node))(binder);
  std::vector<NodeValue> outputs;
  std::string error = builder.takeError();
  if (error.empty()) {
    outputs = binder.finish();
    error = builder.takeError();
  }
  if (!error.empty()) {
    emitNodeError(node) << error;
    failed = true;
    return;
  }
  for (auto [result, output] : llvm::zip(node.getOutputs(), outputs))
    bind(result, std::move(output));
}

SmallVector<Operation *>
harmony::normalize::getLiveOps(Block &block, ArrayRef<Value> roots,
                               llvm::function_ref<bool(Operation *)> stop) {
  llvm::DenseSet<Operation *> live;
  SmallVector<Value> worklist(roots);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || (stop && stop(op)) || !live.insert(op).second)
      continue;
    worklist.append(op->operand_begin(), op->operand_end());
  }
  SmallVector<Operation *> ordered;
  for (Operation &op : block)
    if (live.contains(&op))
      ordered.push_back(&op);
  return ordered;
}
