//===- ONNX.cpp - The onnx dialect ----------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/ONNX/ONNX.h"

#include "dialects/ONNX/InitializerData.h"
#include "dialects/ONNX/Schema.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

// A bare integer in the assembly of an operation.
static ParseResult parsePlainInteger(OpAsmParser &parser,
                                     IntegerAttr &attribute) {
  int64_t value = 0;
  if (parser.parseInteger(value))
    return failure();
  attribute = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printPlainInteger(OpAsmPrinter &printer, Operation *,
                              IntegerAttr attribute) {
  printer << attribute.getInt();
}

#include "dialects/ONNX/ONNXDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ONNX/ONNXTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ONNX/ONNXAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/ONNX/ONNXOps.cpp.inc"

namespace harmony::onnx {

void ONNXDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/ONNX/ONNXTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/ONNX/ONNXAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/ONNX/ONNXOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

GraphOp getMainGraph(ModuleOp module) {
  llvm::StringSet<> training;
  for (TrainingOp op : module.getOps<TrainingOp>()) {
    training.insert(op.getAlgorithm());
    if (op.getInitialization())
      training.insert(*op.getInitialization());
  }
  for (GraphOp graph : module.getOps<GraphOp>())
    if (!training.contains(graph.getSymName()))
      return graph;
  return nullptr;
}

static StringRef getListedName(std::optional<ArrayAttr> names, unsigned index) {
  if (!names || index >= names->size())
    return "";
  return cast<StringAttr>((*names)[index]).getValue();
}

static StringRef getNameAttribute(DictionaryAttr attributes) {
  auto name =
      attributes ? attributes.getAs<StringAttr>("onnx.name") : StringAttr();
  return name ? name.getValue() : StringRef();
}

StringRef getValueName(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto graph = dyn_cast<GraphOp>(argument.getOwner()->getParentOp());
    return graph ? graph.getArgumentName(argument.getArgNumber()) : StringRef();
  }
  unsigned index = cast<OpResult>(value).getResultNumber();
  return TypeSwitch<Operation *, StringRef>(value.getDefiningOp())
      .Case<NodeOp, GradientOp>(
          [&](auto op) { return getListedName(op.getResultNames(), index); })
      .Case<InitialValueOp>([](InitialValueOp op) {
        auto initializer = SymbolTable::lookupNearestSymbolFrom<InitializerOp>(
            op, op.getInitializerAttr());
        return initializer ? initializer.getOnnxName() : op.getInitializer();
      })
      .Default(StringRef());
}

SmallVector<Binding> getBindings(ArrayAttr bindings) {
  SmallVector<Binding> result;
  for (auto pair : bindings.getAsRange<ArrayAttr>())
    result.push_back({cast<FlatSymbolRefAttr>(pair[0]),
                      cast<StringAttr>(pair[1]).getValue()});
  return result;
}

int findResult(GraphOp graph, StringRef name) {
  for (unsigned i = 0, e = graph.getNumResults(); i < e; ++i)
    if (graph.getResultName(i) == name)
      return static_cast<int>(i);
  return -1;
}

//===----------------------------------------------------------------------===//
// NodeOp
//===----------------------------------------------------------------------===//

static AttributeKind classify(Attribute attribute) {
  return TypeSwitch<Attribute, AttributeKind>(attribute)
      .Case<FloatAttr>([](FloatAttr value) {
        return value.getType().isF32() ? AttributeKind::Float
                                       : AttributeKind::Unknown;
      })
      .Case<IntegerAttr>([](IntegerAttr value) {
        return value.getType().isSignedInteger(64) ? AttributeKind::Int
                                                   : AttributeKind::Unknown;
      })
      .Case<StringAttr>([](auto) { return AttributeKind::String; })
      .Case<DenseF32ArrayAttr>([](auto) { return AttributeKind::Floats; })
      .Case<DenseI64ArrayAttr>([](auto) { return AttributeKind::Ints; })
      .Case<TypeAttr>([](auto) { return AttributeKind::Type; })
      .Case<ElementsAttr>([](auto) { return AttributeKind::Tensor; })
      .Case<ArrayAttr>([](ArrayAttr list) {
        if (list.empty())
          return AttributeKind::EmptyList;
        if (llvm::all_of(list, llvm::IsaPred<StringAttr>))
          return AttributeKind::Strings;
        if (llvm::all_of(list, llvm::IsaPred<ElementsAttr>))
          return AttributeKind::Tensors;
        return AttributeKind::Unknown;
      })
      .Default(AttributeKind::Unknown);
}

/// Checks that `names`, where it is there, has one string per result.
static LogicalResult verifyResultNames(Operation *op,
                                       std::optional<ArrayAttr> names) {
  if (names && names->size() != op->getNumResults())
    return op->emitOpError() << "has " << names->size() << " result names for "
                             << op->getNumResults() << " results";
  return success();
}

LogicalResult NodeOp::verify() {
  NodeDescription description;
  description.opType = getOpType().str();
  description.domain = getDomain().str();
  description.version = getVersion();
  for (NamedAttribute attribute : getNodeAttributes())
    description.attributes.push_back(
        {attribute.getName().str(), classify(attribute.getValue())});
  for (Value input : getInputs())
    description.inputs.push_back(!isa<NoneType>(input.getType()));
  for (Value output : getOutputs())
    description.outputs.push_back(!isa<NoneType>(output.getType()));
  std::string problem = checkNode(description);
  if (!problem.empty())
    return emitOpError() << problem;
  return verifyResultNames(*this, getResultNames());
}

StringRef NodeOp::getNodeName() {
  if (auto name = dyn_cast<NameLoc>(getLoc()))
    return name.getName().getValue();
  return getListedName(getResultNames(), 0);
}

bool NodeOp::hasInput(unsigned index) {
  return index < getInputs().size() &&
         !isa<NoneType>(getInputs()[index].getType());
}

Value NodeOp::getInputOrNull(unsigned index) {
  return hasInput(index) ? getInputs()[index] : Value();
}

Attribute NodeOp::getNodeAttribute(StringRef name) {
  return getNodeAttributes().get(name);
}

static void setResultNames(Operation *op, std::optional<ArrayAttr> names,
                           OpAsmSetValueNameFn setName) {
  for (OpResult result : op->getResults()) {
    StringRef name = getListedName(names, result.getResultNumber());
    if (!name.empty() || isa<NoneType>(result.getType()))
      setName(result, name.empty() ? "absent" : name);
  }
}

void NodeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setResultNames(*this, getResultNames(), setName);
}

//===----------------------------------------------------------------------===//
// GradientOp
//===----------------------------------------------------------------------===//

LogicalResult GradientOp::verify() {
  size_t variables = getXs().size() + getZs().size();
  if (getXs().empty())
    return emitOpError() << "has no xs; one or more are needed";
  if (getAt().size() != variables)
    return emitOpError() << "has " << getAt().size() << " inputs for "
                         << variables
                         << " variables (xs and zs); one for each is needed";
  if (getGradients().size() > getXs().size())
    return emitOpError() << "has " << getGradients().size() << " results for "
                         << getXs().size() << " xs";
  SmallVector<Value> all(getXs());
  llvm::append_range(all, getZs());
  llvm::SmallDenseSet<Value> seen;
  for (auto [index, value] : llvm::enumerate(all)) {
    if (!seen.insert(value).second)
      return emitOpError()
             << "names \"" << getValueName(value)
             << "\" twice among xs and zs; each value may be there once";
    if (failed(
            verifyCompatibleShape(value.getType(), getAt()[index].getType())) ||
        getElementTypeOrSelf(value.getType()) !=
            getElementTypeOrSelf(getAt()[index].getType()))
      return emitOpError() << "input " << index << " has type "
                           << getAt()[index].getType()
                           << ", the variable it replaces has "
                           << value.getType();
  }
  for (auto [x, gradient] : llvm::zip(getXs(), getGradients()))
    if (!isa<NoneType>(gradient.getType()) && gradient.getType() != x.getType())
      return emitOpError() << "a result has type " << gradient.getType()
                           << ", its x has " << x.getType();
  return verifyResultNames(*this, getResultNames());
}

void GradientOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setResultNames(*this, getResultNames(), setName);
}

//===----------------------------------------------------------------------===//
// Initializers
//===----------------------------------------------------------------------===//

void NoneOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "none");
}

RankedTensorType InitializerOp::getTensorType() {
  return cast<RankedTensorType>(getType());
}

uint64_t InitializerOp::getByteSize() {
  RankedTensorType type = getTensorType();
  return static_cast<uint64_t>(type.getNumElements()) *
         getElementByteSize(type.getElementType());
}

LogicalResult InitializerOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError() << "has type " << getType()
                         << "; a static shape is needed";
  if (getElementByteSize(type.getElementType()) == 0)
    return emitOpError() << "has elements of type " << type.getElementType()
                         << "; a type of whole bytes is needed";
  if (auto external = dyn_cast<ExternalAttr>(getValue())) {
    if (external.getLength() != getByteSize())
      return emitOpError() << "refers to " << external.getLength() << " bytes, "
                           << type << " has " << getByteSize();
    return success();
  }
  auto elements = dyn_cast<ElementsAttr>(getValue());
  if (!elements)
    return emitOpError() << "has value " << getValue()
                         << "; accepted are #onnx.external, a dense attribute "
                            "and a dense resource";
  if (elements.getShapedType() != type)
    return emitOpError() << "has type " << type << ", its value has "
                         << elements.getShapedType();
  return success();
}

LogicalResult InitialValueOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto initializer = symbols.lookupNearestSymbolFrom<InitializerOp>(
      *this, getInitializerAttr());
  if (!initializer)
    return emitOpError() << "there is no onnx.initializer "
                         << getInitializerAttr();
  if (initializer.getType() == getType())
    return success();
  InFlightDiagnostic diagnostic = emitOpError() << "has type " << getType()
                                                << ", the initializer has "
                                                << initializer.getType();
  diagnostic.attachNote(initializer.getLoc()) << "the initializer is here";
  return diagnostic;
}

void InitialValueOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getInitializer());
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

StringRef GraphOp::getArgumentName(unsigned index) {
  return getNameAttribute(
      function_interface_impl::getArgAttrDict(*this, index));
}

StringRef GraphOp::getResultName(unsigned index) {
  return getNameAttribute(
      function_interface_impl::getResultAttrDict(*this, index));
}

void GraphOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  if (region.empty())
    return;
  for (BlockArgument argument : region.getArguments()) {
    StringRef name = getArgumentName(argument.getArgNumber());
    if (!name.empty())
      setName(argument, name);
  }
}

/// Checks onnx.dims of an argument or result against its type.
static LogicalResult verifyDims(GraphOp graph, DictionaryAttr attributes,
                                Type type, Twine what) {
  Attribute attribute = attributes ? attributes.get("onnx.dims") : Attribute();
  if (!attribute)
    return success();
  auto dims = dyn_cast<ArrayAttr>(attribute);
  if (!dims || !llvm::all_of(dims, llvm::IsaPred<StringAttr, IntegerAttr>))
    return graph.emitOpError()
           << what << " has onnx.dims " << attribute
           << "; accepted is an array of integers and strings";
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && static_cast<size_t>(tensor.getRank()) != dims.size())
    return graph.emitOpError()
           << what << " has " << dims.size() << " onnx.dims, " << type
           << " has rank " << tensor.getRank();
  return success();
}

LogicalResult GraphOp::verifyRegions() {
  for (auto [index, type] : llvm::enumerate(getArgumentTypes()))
    if (failed(verifyDims(*this,
                          function_interface_impl::getArgAttrDict(*this, index),
                          type, "argument " + Twine(index))))
      return failure();
  for (auto [index, type] : llvm::enumerate(getResultTypes()))
    if (failed(verifyDims(
            *this, function_interface_impl::getResultAttrDict(*this, index),
            type, "result " + Twine(index))))
      return failure();
  return success();
}

LogicalResult ReturnOp::verify() {
  auto graph = cast<GraphOp>((*this)->getParentOp());
  if (TypeRange(getOperandTypes()) != TypeRange(graph.getResultTypes()))
    return emitOpError() << "has operands of types " << getOperandTypes()
                         << ", the graph returns " << graph.getResultTypes();
  return success();
}

//===----------------------------------------------------------------------===//
// TrainingOp
//===----------------------------------------------------------------------===//

static LogicalResult verifyBindingForm(Operation *op, ArrayAttr bindings,
                                       StringRef what) {
  for (Attribute entry : bindings) {
    auto pair = dyn_cast<ArrayAttr>(entry);
    if (!pair || pair.size() != 2 || !isa<FlatSymbolRefAttr>(pair[0]) ||
        !isa<StringAttr>(pair[1]))
      return op->emitOpError() << "`" << what << "` has the entry " << entry
                               << "; accepted is [@initializer, \"result\"]";
  }
  return success();
}

LogicalResult TrainingOp::verify() {
  if (getInitialization().has_value() != getSet().has_value())
    return emitOpError()
           << "needs both or neither of `initialization` and `set`";
  if (failed(verifyBindingForm(*this, getUpdate(), "update")))
    return failure();
  return getSet() ? verifyBindingForm(*this, *getSet(), "set") : success();
}

static LogicalResult verifyBindings(TrainingOp op, ArrayAttr bindings,
                                    StringRef what, FlatSymbolRefAttr graphName,
                                    SymbolTableCollection &symbols) {
  auto graph = symbols.lookupNearestSymbolFrom<GraphOp>(op, graphName);
  if (!graph)
    return op.emitOpError() << "there is no onnx.graph " << graphName;
  llvm::SmallDenseSet<Attribute> seen;
  for (const Binding &binding : getBindings(bindings)) {
    auto initializer =
        symbols.lookupNearestSymbolFrom<InitializerOp>(op, binding.initializer);
    if (!initializer)
      return op.emitOpError()
             << "`" << what << "` names " << binding.initializer
             << ", which is no onnx.initializer";
    if (initializer.getTraining() &&
        *initializer.getTraining() != op.getSymName())
      return op.emitOpError()
             << "`" << what << "` names " << binding.initializer
             << ", which belongs to @" << *initializer.getTraining();
    if (!seen.insert(binding.initializer).second)
      return op.emitOpError()
             << "`" << what << "` names " << binding.initializer << " twice";
    int result = findResult(graph, binding.result);
    if (result < 0)
      return op.emitOpError()
             << "`" << what << "` takes " << binding.initializer << " from \""
             << binding.result << "\", which is no result of " << graphName;
    Type type = graph.getResultTypes()[static_cast<unsigned>(result)];
    if (isa<TensorType>(type) &&
        (failed(verifyCompatibleShape(type, initializer.getType())) ||
         getElementTypeOrSelf(type) !=
             getElementTypeOrSelf(initializer.getType())))
      return op.emitOpError()
             << "`" << what << "` takes " << binding.initializer << " of type "
             << initializer.getType() << " from \"" << binding.result
             << "\" of type " << type;
  }
  return success();
}

LogicalResult TrainingOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyBindings(*this, getUpdate(), "update", getAlgorithmAttr(),
                            symbols)))
    return failure();
  if (getSet() && failed(verifyBindings(*this, *getSet(), "set",
                                        getInitializationAttr(), symbols)))
    return failure();
  // No initializer is updated by two steps.
  llvm::SmallDenseSet<Attribute> own;
  for (const Binding &binding : getBindings(getUpdate()))
    own.insert(binding.initializer);
  for (auto other : (*this)->getParentRegion()->getOps<TrainingOp>()) {
    if (other == *this)
      break;
    for (const Binding &binding : getBindings(other.getUpdate())) {
      if (!own.contains(binding.initializer))
        continue;
      InFlightDiagnostic diagnostic =
          emitOpError() << "`update` names " << binding.initializer
                        << ", which @" << other.getSymName() << " updates";
      diagnostic.attachNote(other.getLoc()) << "the other step is here";
      return diagnostic;
    }
  }
  return success();
}

} // namespace harmony::onnx
