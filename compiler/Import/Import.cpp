//===- Import.cpp - ONNX models to the onnx dialect -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/Import.h"

#include "compiler/Import/ImportAttributes.h"
#include "compiler/Import/ModelCheck.h"
#include "compiler/Import/ModelFile.h"
#include "compiler/Import/TensorData.h"
#include "dialects/ONNX/ONNX.h"
#include "dialects/ONNX/Schema.h"
#include "dialects/ONNX/TracedCall.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <exception>

using namespace mlir;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;

namespace harmony {
namespace {

class Importer {
public:
  Importer(StringRef path, MLIRContext &context, const ImportOptions &options)
      : path(path), folder(llvm::sys::path::parent_path(path).str()),
        builder(&context), options(options),
        attributes(builder, folder,
                   [this](const Twine &problem) { emitError(problem); }) {}

  OwningOpRef<ModuleOp> run();

private:
  /// Names and values of one graph.
  struct Scope {
    const llvm::StringMap<onnx::InitializerOp> &initializers;
    std::map<std::string, TypeProto> types;
    llvm::StringMap<Value> values;
    Value none;
  };

  void emitError(const Twine &problem);
  StringAttr makeSymbol(StringRef name);

  Type importValueType(Scope &scope, const std::string &name);
  void importModuleAttributes();
  void importInitializers(const GraphProto &graph, int first,
                          StringRef training, const llvm::StringSet<> &state,
                          llvm::StringMap<onnx::InitializerOp> &initializers);
  onnx::GraphOp
  importGraph(const GraphProto &graph, StringRef symbol,
              const llvm::StringMap<onnx::InitializerOp> &initializers);
  Value lookup(Scope &scope, const std::string &name, const std::string &what);
  void importNode(Scope &scope, const NodeProto &node);
  void importGradient(Scope &scope, const NodeProto &node, ArrayRef<Type> types,
                      ArrayAttr names);
  void
  importTraining(int index,
                 const llvm::StringMap<onnx::InitializerOp> &mainInitializers);

  std::string path, folder;
  OpBuilder builder;
  const ImportOptions &options;
  AttributeImporter attributes;
  PreparedModel prepared;
  OwningOpRef<ModuleOp> module;
  llvm::StringSet<> symbols;
  bool failed = false;
};

void Importer::emitError(const Twine &problem) {
  failed = true;
  mlir::emitError(builder.getUnknownLoc()) << path << ": " << problem;
}

StringAttr Importer::makeSymbol(StringRef name) {
  std::string symbol = name.str();
  for (unsigned i = 0; !symbols.insert(symbol).second; ++i)
    symbol = (name + "_" + Twine(i)).str();
  return builder.getStringAttr(symbol);
}

//===----------------------------------------------------------------------===//
// Module and initializers
//===----------------------------------------------------------------------===//

void Importer::importModuleAttributes() {
  const ::onnx::ModelProto &model = prepared.model;
  (*module)->setAttr("onnx.ir_version",
                     builder.getI64IntegerAttr(model.ir_version()));
  NamedAttrList opsets;
  for (const auto &[domain, version] : prepared.opsets)
    opsets.set(domain.empty() ? StringRef("ai.onnx") : StringRef(domain),
               builder.getI64IntegerAttr(version));
  (*module)->setAttr("onnx.opset", opsets.getDictionary(builder.getContext()));
  if (!model.producer_name().empty())
    (*module)->setAttr("onnx.producer",
                       builder.getStringAttr(model.producer_name()));
  if (!model.producer_version().empty())
    (*module)->setAttr("onnx.producer_version",
                       builder.getStringAttr(model.producer_version()));
  if (DictionaryAttr metadata =
          attributes.importMetadata(model.metadata_props(), ""))
    (*module)->setAttr("onnx.metadata", metadata);
}

/// Imports the initializers of `graph` from number `first` on.
void Importer::importInitializers(
    const GraphProto &graph, int first, StringRef training,
    const llvm::StringSet<> &state,
    llvm::StringMap<onnx::InitializerOp> &initializers) {
  llvm::StringSet<> inputs;
  for (const ValueInfoProto &input : graph.input())
    inputs.insert(input.name());
  llvm::StringMap<const ValueInfoProto *> infos;
  for (const auto *list :
       {&graph.value_info(), &graph.input(), &graph.output()})
    for (const ValueInfoProto &value : *list)
      if (value.metadata_props_size())
        infos[value.name()] = &value;

  for (int i = first; i < graph.initializer_size(); ++i) {
    const TensorProto &tensor = graph.initializer(i);
    std::string what = "initializer \"" + tensor.name() + "\"";
    Attribute value;
    uint64_t size = 0;
    std::string problem = getTensorSize(tensor, size);
    if (problem.empty() && tensor.data_location() == TensorProto::EXTERNAL) {
      std::string file;
      uint64_t offset = 0, length = size;
      problem = readExternalReference(tensor, file, offset, length);
      value =
          onnx::ExternalAttr::get(builder.getContext(), file, offset, length);
      (*module)->setAttr("onnx.source", builder.getStringAttr(path));
    } else if (problem.empty()) {
      value = attributes.importTensor(tensor, what);
    }
    if (!problem.empty())
      emitError(what + ": " + problem);
    if (!problem.empty() || !value)
      continue;
    auto type = RankedTensorType::get(
        ArrayRef(tensor.dims().data(), tensor.dims().size()),
        attributes.importElementType(tensor.data_type()));

    google::protobuf::RepeatedPtrField<::onnx::StringStringEntryProto> entries =
        tensor.metadata_props();
    if (auto info = infos.find(tensor.name()); info != infos.end())
      entries.MergeFrom(info->second->metadata_props());
    StringAttr kind;
    for (const auto &entry : entries)
      if (entry.key() == kindKey)
        kind = builder.getStringAttr(entry.value());
    if (!training.empty() && !kind)
      kind = builder.getStringAttr(
          state.contains(tensor.name()) ? "STATE" : "CONSTANT_TENSOR");

    StringAttr symbol = makeSymbol(tensor.name());
    initializers[tensor.name()] = onnx::InitializerOp::create(
        builder, NameLoc::get(builder.getStringAttr(tensor.name())), symbol,
        TypeAttr::get(type), value,
        symbol.getValue() == tensor.name()
            ? StringAttr()
            : builder.getStringAttr(tensor.name()),
        kind,
        training.empty() ? FlatSymbolRefAttr()
                         : builder.getAttr<FlatSymbolRefAttr>(training),
        attributes.importMetadata(entries, kindKey),
        inputs.contains(tensor.name()) ? builder.getUnitAttr() : UnitAttr());
  }
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

Type Importer::importValueType(Scope &scope, const std::string &name) {
  if (name.empty())
    return builder.getNoneType();
  auto type = scope.types.find(name);
  if (type == scope.types.end())
    return onnx::UnknownType::get(builder.getContext());
  return attributes.importType(type->second, "value \"" + name + "\"");
}

Value Importer::lookup(Scope &scope, const std::string &name,
                       const std::string &what) {
  if (name.empty()) {
    if (!scope.none)
      scope.none = onnx::NoneOp::create(builder, builder.getUnknownLoc(),
                                        builder.getNoneType());
    return scope.none;
  }
  if (Value value = scope.values.lookup(name))
    return value;
  auto initializer = scope.initializers.find(name);
  if (initializer == scope.initializers.end()) {
    emitError(what + ": there is no value \"" + name + "\" at this place");
    return nullptr;
  }
  onnx::InitializerOp symbol = initializer->second;
  Value value = onnx::InitialValueOp::create(
      builder, symbol.getLoc(), symbol.getType(), SymbolRefAttr::get(symbol));
  scope.values[name] = value;
  return value;
}

void Importer::importGradient(Scope &scope, const NodeProto &node,
                              ArrayRef<Type> types, ArrayAttr names) {
  std::string what = describeNode(node);
  auto resolve = [&](const auto &list) {
    SmallVector<Value> values;
    for (const std::string &name : list)
      values.push_back(lookup(scope, name, what));
    return values;
  };
  const AttributeProto *xs = findAttribute(node, "xs"),
                       *zs = findAttribute(node, "zs"),
                       *y = findAttribute(node, "y");
  Value target = lookup(scope, y->s(), what + ": attribute \"y\"");
  SmallVector<Value> variables = resolve(xs->strings());
  SmallVector<Value> fixed = zs ? resolve(zs->strings()) : SmallVector<Value>();
  SmallVector<Value> at = resolve(node.input());
  if (failed)
    return;
  auto op = onnx::GradientOp::create(
      builder, NameLoc::get(builder.getStringAttr(getNodeName(node))), types,
      target, variables, fixed, at, names);
  for (auto [name, result] : llvm::zip(node.output(), op.getGradients()))
    if (!name.empty())
      scope.values[name] = result;
}

void Importer::importNode(Scope &scope, const NodeProto &node) {
  std::string what = describeNode(node);
  SmallVector<Type> types;
  SmallVector<Attribute> outputNames;
  for (const std::string &output : node.output()) {
    types.push_back(importValueType(scope, output));
    outputNames.push_back(builder.getStringAttr(output));
    if (!types.back())
      return;
  }
  ArrayAttr names = builder.getArrayAttr(outputNames);
  if (isGradient(node)) {
    importGradient(scope, node, types, names);
    return;
  }
  SmallVector<Value> inputs;
  for (const std::string &input : node.input()) {
    inputs.push_back(lookup(scope, input, what));
    if (!inputs.back())
      return;
  }
  NamedAttrList list;
  for (const AttributeProto &attribute : node.attribute()) {
    Attribute value = attributes.importAttribute(attribute, what);
    if (!value)
      return;
    list.set(attribute.name(), value);
  }
  std::string domain = normalizeDomain(node.domain());
  auto op = onnx::NodeOp::create(
      builder, NameLoc::get(builder.getStringAttr(getNodeName(node))), types,
      builder.getStringAttr(node.op_type()), builder.getStringAttr(domain),
      builder.getI64IntegerAttr(onnx::getSinceVersion(node.op_type(), domain,
                                                      prepared.opsets[domain])),
      list.getDictionary(builder.getContext()), names, inputs);
  if (options.nodeMetadata) {
    if (DictionaryAttr metadata =
            attributes.importMetadata(node.metadata_props(), ""))
      op->setAttr("onnx.metadata", metadata);
  } else {
    for (const auto &entry : node.metadata_props())
      if (entry.key() == onnx::kTracedCallKey &&
          onnx::needsTracedCall(node.op_type(), entry.value()))
        op->setAttr("onnx.metadata",
                    builder.getDictionaryAttr(builder.getNamedAttr(
                        entry.key(), builder.getStringAttr(entry.value()))));
  }
  for (auto [name, result] : llvm::zip(node.output(), op.getOutputs()))
    if (!name.empty())
      scope.values[name] = result;
}

onnx::GraphOp Importer::importGraph(
    const GraphProto &graph, StringRef name,
    const llvm::StringMap<onnx::InitializerOp> &initializers) {
  OpBuilder::InsertionGuard guard(builder);
  Scope scope{initializers, {}, {}, {}};
  for (const auto *list :
       {&graph.value_info(), &graph.output(), &graph.input()})
    for (const ValueInfoProto &value : *list)
      if (value.has_type())
        scope.types[value.name()] = value.type();

  StringAttr symbol = makeSymbol(name);
  OperationState state(NameLoc::get(builder.getStringAttr(path)),
                       onnx::GraphOp::getOperationName());
  state.addRegion()->push_back(new Block);
  state.addAttribute(SymbolTable::getSymbolAttrName(), symbol);
  state.addAttribute(onnx::GraphOp::getFunctionTypeAttrName(OperationName(
                         state.name.getStringRef(), builder.getContext())),
                     TypeAttr::get(builder.getFunctionType({}, {})));
  if (symbol.getValue() != graph.name())
    state.addAttribute("onnx.name", builder.getStringAttr(graph.name()));
  auto op = cast<onnx::GraphOp>(builder.create(state));
  Block *block = &op.getBody().front();

  SmallVector<Attribute> argumentAttributes, resultAttributes;
  for (const ValueInfoProto &input : graph.input()) {
    if (initializers.contains(input.name()))
      continue;
    Type type = importValueType(scope, input.name());
    if (!type)
      continue;
    scope.values[input.name()] = block->addArgument(
        type, NameLoc::get(builder.getStringAttr(input.name())));
    argumentAttributes.push_back(attributes.describeValue(input));
  }
  builder.setInsertionPointToEnd(block);
  for (const NodeProto &node : graph.node())
    importNode(scope, node);
  SmallVector<Value> results;
  for (const ValueInfoProto &output : graph.output()) {
    if (failed)
      return op;
    Value result =
        lookup(scope, output.name(), "graph \"" + graph.name() + "\"");
    if (!result)
      return op;
    results.push_back(result);
    resultAttributes.push_back(attributes.describeValue(output));
  }
  onnx::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  op.setFunctionType(builder.getFunctionType(block->getArgumentTypes(),
                                             TypeRange(ValueRange(results))));
  op.setArgAttrsAttr(builder.getArrayAttr(argumentAttributes));
  op.setResAttrsAttr(builder.getArrayAttr(resultAttributes));
  return op;
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

void Importer::importTraining(
    int index, const llvm::StringMap<onnx::InitializerOp> &mainInitializers) {
  const auto &info = prepared.model.training_info(index);
  const PreparedTraining &training =
      prepared.trainings[static_cast<size_t>(index)];
  StringAttr step = makeSymbol("step");
  llvm::StringSet<> state;
  for (const auto *list :
       {&info.update_binding(), &info.initialization_binding()})
    for (const auto &entry : *list)
      state.insert(entry.key());

  llvm::StringMap<onnx::InitializerOp> initializers = mainInitializers;
  importInitializers(training.algorithm,
                     prepared.model.graph().initializer_size(), step, state,
                     initializers);
  auto importBindings = [&](const auto &list) {
    SmallVector<Attribute> bindings;
    for (const auto &entry : list)
      if (onnx::InitializerOp initializer = initializers.lookup(entry.key()))
        bindings.push_back(
            builder.getArrayAttr({SymbolRefAttr::get(initializer),
                                  builder.getStringAttr(entry.value())}));
    return builder.getArrayAttr(bindings);
  };
  onnx::GraphOp algorithm =
      importGraph(training.algorithm, "algorithm", initializers);
  FlatSymbolRefAttr initialization;
  ArrayAttr set;
  if (training.hasInitialization) {
    llvm::StringMap<onnx::InitializerOp> own;
    importInitializers(training.initialization, 0, step, {}, own);
    initialization = SymbolRefAttr::get(
        importGraph(training.initialization, "initialization", own));
    set = importBindings(info.initialization_binding());
  }
  onnx::TrainingOp::create(
      builder, NameLoc::get(step), step, SymbolRefAttr::get(algorithm),
      importBindings(info.update_binding()), initialization, set);
}

OwningOpRef<ModuleOp> Importer::run() {
  ::onnx::ModelProto model;
  std::string problem = readModel(path, model);
  if (!problem.empty()) {
    emitError(problem);
    return nullptr;
  }
  std::vector<std::string> problems;
  prepareModel(std::move(model), folder, prepared, problems);
  for (const std::string &text : prepared.warnings)
    emitWarning(builder.getUnknownLoc()) << path << ": " << text;
  for (const std::string &text : problems)
    emitError(text);
  if (failed)
    return nullptr;

  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(path)));
  builder.setInsertionPointToEnd(module->getBody());
  importModuleAttributes();
  const GraphProto &graph = prepared.model.graph();
  llvm::StringMap<onnx::InitializerOp> initializers;
  importInitializers(graph, 0, "", {}, initializers);
  importGraph(graph, "main", initializers);
  for (int i = 0; i < prepared.model.training_info_size(); ++i)
    importTraining(i, initializers);
  if (failed || mlir::failed(verify(*module)))
    return nullptr;
  return std::move(module);
}

} // namespace

OwningOpRef<ModuleOp> importModel(StringRef path, MLIRContext &context,
                                  const ImportOptions &options) {
  context.loadDialect<onnx::ONNXDialect>();
  try {
    return Importer(path, context, options).run();
  } catch (const std::exception &error) {
    emitError(UnknownLoc::get(&context)) << path << ": " << error.what();
    return nullptr;
  }
}

LogicalResult printModelFile(StringRef path, MLIRContext &context,
                             raw_ostream &stream) {
  ::onnx::ModelProto model;
  std::string text;
  std::string problem = readModel(path.str(), model);
  if (problem.empty())
    problem = writeModel(model,
                         model.training_info_size() ? ModelFormat::ProtoText
                                                    : ModelFormat::OnnxText,
                         text);
  if (!problem.empty())
    return emitError(UnknownLoc::get(&context)) << path << ": " << problem;
  stream << text;
  return success();
}

} // namespace harmony
