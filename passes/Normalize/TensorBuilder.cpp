//===- TensorBuilder.cpp - Sources and sinks of tensors -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

/// Constants above this size become variables, in bytes.
static constexpr int64_t kInlineConstantBytes = 1024;

TensorBuilder::TensorBuilder(ModuleOp module, OpBuilder builder)
    : module(module), builder(builder), location(module.getLoc()) {}

void TensorBuilder::startNode(Location newLocation) {
  location = newLocation;
  error.clear();
  reads.clear();
  undivided = {};
}

std::string TensorBuilder::takeError() {
  return std::exchange(error, std::string());
}

Tensor TensorBuilder::fail(const Twine &message) {
  if (error.empty())
    error = message.str();
  return Tensor();
}

unsigned TensorBuilder::OpInfo::getHashValue(const Operation *op) {
  return OperationEquivalence::computeHash(
      const_cast<Operation *>(op), OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
}

bool TensorBuilder::OpInfo::isEqual(const Operation *a, const Operation *b) {
  if (a == b)
    return true;
  if (a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() ||
      b == getEmptyKey())
    return false;
  return OperationEquivalence::isEquivalentTo(
      const_cast<Operation *>(a), const_cast<Operation *>(b),
      OperationEquivalence::exactValueMatch, nullptr,
      OperationEquivalence::IgnoreLocations);
}

/// Keeps one of equal operations. Reads of variables stay apart: every use of a
/// tied weight has its own gradient.
Value TensorBuilder::unique(Operation *op) {
  if (isa<nn::GetOp>(op))
    return op->getResult(0);
  auto [position, inserted] = emitted.insert(op);
  if (inserted)
    return op->getResult(0);
  op->erase();
  return (*position)->getResult(0);
}

RankedTensorType TensorBuilder::getType(ArrayRef<Extent> shape,
                                        Type onnxElementType) {
  Type element = onnxElementType;
  if (auto integer = dyn_cast<IntegerType>(element);
      integer && !integer.isSignless())
    element = IntegerType::get(element.getContext(), integer.getWidth());
  SmallVector<int64_t> extents;
  for (const Extent &extent : shape)
    extents.push_back(extent.size);
  int64_t axis = getBatchAxis(shape);
  return nn::getBatchType(extents, element, axis,
                          axis < 0 ? 1 : shape[axis].factor);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Tensor TensorBuilder::known(Type type, ArrayRef<Extent> shape,
                            std::vector<Element> elements) {
  auto data = std::make_shared<TensorData>();
  data->elementType = type;
  data->shape.assign(shape.begin(), shape.end());
  data->content =
      std::make_shared<const std::vector<Element>>(std::move(elements));
  return Tensor(data);
}

Tensor TensorBuilder::scalar(Type type, double value) {
  Element element;
  if (isa<FloatType>(type))
    element.real = roundTo(type, value);
  else
    element.integer = static_cast<int64_t>(value);
  return known(type, {}, {element});
}

Tensor TensorBuilder::vectorOf(ArrayRef<Element> integers) {
  return known(builder.getI64Type(),
               {Extent{static_cast<int64_t>(integers.size()), 0}},
               std::vector<Element>(integers.begin(), integers.end()));
}

Tensor TensorBuilder::withValue(Type type, ArrayRef<Extent> shape,
                                Value value) {
  auto data = std::make_shared<TensorData>();
  data->elementType = type;
  data->shape.assign(shape.begin(), shape.end());
  data->value = value;
  return Tensor(data);
}

static Shape getShape(RankedTensorType type) {
  Shape shape;
  nn::BatchAttr batch = nn::getBatch(type);
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    bool isBatch = batch && batch.getAxis() == axis;
    shape.push_back(isBatch ? Extent{0, batch.getFactor()}
                            : Extent{type.getDimSize(axis), 0});
  }
  return shape;
}

Tensor TensorBuilder::fromValue(Value value, Type onnxElementType) {
  return withValue(onnxElementType,
                   getShape(mlir::cast<RankedTensorType>(value.getType())),
                   value);
}

Tensor TensorBuilder::fromVariable(FlatSymbolRefAttr variable,
                                   RankedTensorType type,
                                   Type onnxElementType) {
  Tensor tensor = withValue(onnxElementType, getShape(type), Value());
  tensor->variable = variable;
  return tensor;
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

/// `elements`, which are constant, as an attribute of `type`.
static TypedAttr toAttribute(RankedTensorType type,
                             ArrayRef<Element> elements) {
  // Masks have millions of elements: the common types go without APFloat.
  auto collect = [&](auto convert) {
    SmallVector<decltype(convert(Element()))> values;
    values.reserve(elements.size());
    for (const Element &element : elements)
      values.push_back(convert(element));
    return DenseElementsAttr::get(type, ArrayRef(values));
  };
  Type elementType = type.getElementType();
  if (elementType.isF32())
    return collect([](const Element &e) { return static_cast<float>(e.real); });
  if (elementType.isInteger(1))
    return collect([](const Element &e) { return e.integer != 0; });
  if (auto floatType = dyn_cast<FloatType>(elementType))
    return collect([&](const Element &element) {
      APFloat value(element.real);
      bool losesInfo = false;
      value.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      return value;
    });
  return collect([width = type.getElementTypeBitWidth()](const Element &e) {
    return APInt(width, static_cast<uint64_t>(e.integer), /*isSigned=*/false,
                 /*implicitTrunc=*/true);
  });
}

/// The constant without its unit axes; a scalar where all elements are equal.
Value TensorBuilder::constantValue(const Tensor &tensor) {
  SmallVector<Extent> shape;
  std::optional<Element> splat = tensor.splat();
  ArrayRef<Element> elements =
      splat ? ArrayRef(*splat) : ArrayRef(tensor.elements());
  if (!splat)
    for (const Extent &extent : tensor.shape())
      if (extent.forOneSample() != 1)
        shape.push_back(Extent{extent.forOneSample(), 0});
  RankedTensorType type = getType(shape, tensor.type());
  if (tensor->constant)
    return nn::GetOp::create(builder, location, type, tensor->constant);
  for (const Element &element : elements) {
    if (element.isConstant())
      continue;
    fail("its value depends on " +
         Twine(element.sample ? "the position of the sample in the minibatch"
                              : "the number of samples of the minibatch") +
         ", which is not the same for every microbatch");
    return Value();
  }
  TypedAttr attribute = toAttribute(type, elements);
  if (type.getNumElements() *
          std::max<int64_t>(type.getElementTypeBitWidth() / 8, 1) <=
      kInlineConstantBytes)
    return emit<arith::ConstantOp>(attribute);

  FlatSymbolRefAttr &symbol = constantVariables[attribute];
  if (!symbol) {
    std::string name;
    do {
      name = ("constant_" + Twine(constantCount++)).str();
    } while (module.lookupSymbol(name));
    OpBuilder moduleBuilder = OpBuilder::atBlockBegin(module.getBody());
    nn::VariableOp::create(moduleBuilder, location, name, type,
                           nn::Role::constant, attribute);
    symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
  }
  tensor->constant = symbol;
  return nn::GetOp::create(builder, location, type, symbol);
}

Value TensorBuilder::materialize(const Tensor &tensor) {
  return tensor ? materializeAs(tensor, tensor.shape()) : Value();
}

Value TensorBuilder::materializeAs(const Tensor &tensor,
                                   ArrayRef<Extent> shape) {
  if (!tensor)
    return Value();
  if (tensor.isBatchSum()) {
    refuseBatchSum(tensor, "is used");
    return Value();
  }
  if (tensor->base)
    return materializeAs(tensor->base, shape);
  if (!tensor->unusable.empty()) {
    fail(tensor->unusable);
    return Value();
  }

  int64_t offset = static_cast<int64_t>(shape.size()) - tensor.rank();
  RankedTensorType target = getType(shape, tensor.type());
  SmallVector<int64_t> axes;
  if (tensor->content) {
    Value value = constantValue(tensor);
    if (!value || value.getType() == target)
      return value;
    if (mlir::cast<RankedTensorType>(value.getType()).getRank() != 0)
      for (int64_t axis = 0; axis < tensor.rank(); ++axis)
        if (tensor.shape()[axis].forOneSample() != 1)
          axes.push_back(axis + offset);
    // k elements per sample: the samples are a new axis.
    int64_t batchAxis = tensor.batchAxis();
    if (batchAxis >= 0 && tensor.shape()[batchAxis].factor > 1 &&
        !axes.empty()) {
      Shape split(shape);
      int64_t position = batchAxis + offset;
      split[position] = Extent{shape[position].factor, 0};
      split.insert(split.begin() + position, Extent{0, 1});
      for (int64_t &axis : axes)
        axis += axis >= position;
      value = emit<nn::BroadcastOp>(getType(split, tensor.type()), value, axes);
      return emit<nn::ReshapeOp>(target, value);
    }
    return emit<nn::BroadcastOp>(target, value, axes);
  }
  Value value = tensor->value;
  if (!value && tensor->channelsLast)
    value = tensor->value = materialize(toChannelsFirst(tensor->channelsLast));
  if (!value && tensor->channelsLast)
    return value;
  if (!value) {
    Value &read = reads[tensor->variable];
    if (!read)
      read = nn::GetOp::create(builder, location,
                               getType(tensor.shape(), tensor.type()),
                               tensor->variable);
    value = read;
  }
  if (value.getType() == target)
    return value;
  for (int64_t axis = 0; axis < tensor.rank(); ++axis)
    axes.push_back(axis + offset);
  // Repeating along axes that a reshape has only just inserted needs no
  // reshape.
  if (auto producer = value.getDefiningOp<nn::ReshapeOp>()) {
    Shape source =
        getShape(mlir::cast<RankedTensorType>(producer.getOperand().getType()));
    SmallVector<int64_t> kept;
    size_t next = 0;
    for (auto [axis, extent] : llvm::enumerate(tensor.shape())) {
      if (next < source.size() && source[next] == extent) {
        kept.push_back(axes[axis]);
        ++next;
      } else if (!extent.isOne()) {
        break;
      }
    }
    if (next == source.size() &&
        getElementCount(source) == getElementCount(tensor.shape()))
      return emit<nn::BroadcastOp>(target, producer.getOperand(), kept);
  }
  return emit<nn::BroadcastOp>(target, value, axes);
}
