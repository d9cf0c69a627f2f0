//===- Export.cpp - The onnx dialect to ONNX models -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/Import.h"

#include "compiler/Import/ModelFile.h"
#include "dialects/ONNX/InitializerData.h"
#include "dialects/ONNX/ONNX.h"
#include "dialects/ONNX/Schema.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FileSystem.h"
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

/// Data above this goes to a file of its own: protobuf ends at 2 GiB.
constexpr uint64_t maximumEmbeddedBytes = uint64_t(1) << 30;

/// External data starts at multiples of this, so that it can be mapped.
constexpr uint64_t externalAlignment = 4096;

int exportElementType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return TensorProto::BOOL;
    case 8:
      return isUnsigned ? TensorProto::UINT8 : TensorProto::INT8;
    case 16:
      return isUnsigned ? TensorProto::UINT16 : TensorProto::INT16;
    case 32:
      return isUnsigned ? TensorProto::UINT32 : TensorProto::INT32;
    case 64:
      return isUnsigned ? TensorProto::UINT64 : TensorProto::INT64;
    default:
      return TensorProto::UNDEFINED;
    }
  }
  if (auto complex = dyn_cast<ComplexType>(type))
    return complex.getElementType().isF32()   ? TensorProto::COMPLEX64
           : complex.getElementType().isF64() ? TensorProto::COMPLEX128
                                              : TensorProto::UNDEFINED;
  return llvm::TypeSwitch<Type, int>(type)
      .Case<Float32Type>([](auto) { return TensorProto::FLOAT; })
      .Case<Float64Type>([](auto) { return TensorProto::DOUBLE; })
      .Case<Float16Type>([](auto) { return TensorProto::FLOAT16; })
      .Case<BFloat16Type>([](auto) { return TensorProto::BFLOAT16; })
      .Case<Float8E4M3FNType>([](auto) { return TensorProto::FLOAT8E4M3FN; })
      .Case<Float8E4M3FNUZType>(
          [](auto) { return TensorProto::FLOAT8E4M3FNUZ; })
      .Case<Float8E5M2Type>([](auto) { return TensorProto::FLOAT8E5M2; })
      .Case<Float8E5M2FNUZType>(
          [](auto) { return TensorProto::FLOAT8E5M2FNUZ; })
      .Case<Float8E8M0FNUType>([](auto) { return TensorProto::FLOAT8E8M0; })
      .Default([](auto) { return TensorProto::UNDEFINED; });
}

class Exporter {
public:
  /// External data, if there is to be any, is written to `dataPath`.
  Exporter(ModuleOp module, std::string dataPath)
      : module(module), files(module), dataPath(std::move(dataPath)) {}

  LogicalResult run(::onnx::ModelProto &model);

private:
  /// Names of the values of one graph.
  struct Scope {
    DenseMap<Value, std::string> names;
    llvm::StringSet<> used;
  };

  std::string nameValue(Scope &scope, Value value);
  LogicalResult exportType(Operation *op, Type type, ArrayAttr dims,
                           TypeProto &proto);
  LogicalResult exportValue(onnx::GraphOp graph, Type type,
                            DictionaryAttr attributes, ValueInfoProto &value);
  LogicalResult exportTensor(Operation *op, ElementsAttr elements,
                             TensorProto &tensor);
  LogicalResult exportAttribute(onnx::NodeOp node, NamedAttribute attribute,
                                AttributeProto &proto);
  LogicalResult exportNode(Scope &scope, Operation &op, NodeProto &proto);
  LogicalResult exportInitializer(onnx::InitializerOp initializer,
                                  GraphProto &proto);
  LogicalResult exportGraph(onnx::GraphOp graph, onnx::GraphOp prefix,
                            GraphProto &proto);
  LogicalResult exportTraining(onnx::TrainingOp training, onnx::GraphOp main,
                               ::onnx::TrainingInfoProto &proto);
  void exportModuleAttributes(::onnx::ModelProto &model);
  LogicalResult openData();

  ModuleOp module;
  onnx::FileMap files;
  std::string dataPath;
  std::unique_ptr<llvm::raw_fd_ostream> data;
};

/// Everything of a graph that becomes a NodeProto.
SmallVector<Operation *> collectNodes(onnx::GraphOp graph) {
  SmallVector<Operation *> nodes;
  for (Operation &op : graph.getBody().front())
    if (isa<onnx::NodeOp, onnx::GradientOp>(op))
      nodes.push_back(&op);
  return nodes;
}

std::string Exporter::nameValue(Scope &scope, Value value) {
  if (isa<NoneType>(value.getType()))
    return "";
  auto it = scope.names.find(value);
  if (it != scope.names.end())
    return it->second;
  std::string base = onnx::getValueName(value).str();
  if (base.empty())
    base = "value";
  std::string name = base;
  for (unsigned i = 0; !scope.used.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  return scope.names[value] = name;
}

LogicalResult Exporter::exportType(Operation *op, Type type, ArrayAttr dims,
                                   TypeProto &proto) {
  if (auto sequence = dyn_cast<onnx::SequenceType>(type))
    return exportType(op, sequence.getElementType(), nullptr,
                      *proto.mutable_sequence_type()->mutable_elem_type());
  if (auto optional = dyn_cast<onnx::OptionalType>(type))
    return exportType(op, optional.getElementType(), nullptr,
                      *proto.mutable_optional_type()->mutable_elem_type());
  auto tensor = dyn_cast<TensorType>(type);
  int elementType = tensor ? exportElementType(tensor.getElementType())
                           : TensorProto::UNDEFINED;
  if (elementType == TensorProto::UNDEFINED)
    return op->emitOpError()
           << "has type " << type << ", which ONNX does not have";
  proto.mutable_tensor_type()->set_elem_type(elementType);
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return success();
  auto *shape = proto.mutable_tensor_type()->mutable_shape();
  for (auto [index, size] : llvm::enumerate(ranked.getShape())) {
    auto *dim = shape->add_dim();
    auto symbol = dims && index < dims.size()
                      ? dyn_cast<StringAttr>(dims[index])
                      : StringAttr();
    if (!ShapedType::isDynamic(size))
      dim->set_dim_value(size);
    else if (symbol && !symbol.empty())
      dim->set_dim_param(symbol.str());
  }
  return success();
}

LogicalResult Exporter::exportValue(onnx::GraphOp graph, Type type,
                                    DictionaryAttr attributes,
                                    ValueInfoProto &value) {
  if (isa<onnx::UnknownType>(type))
    return success();
  return exportType(graph, type,
                    attributes ? attributes.getAs<ArrayAttr>("onnx.dims")
                               : ArrayAttr(),
                    *value.mutable_type());
}

LogicalResult Exporter::exportTensor(Operation *op, ElementsAttr elements,
                                     TensorProto &tensor) {
  ShapedType type = elements.getShapedType();
  FailureOr<ArrayRef<char>> bytes = onnx::getElementBytes(elements, files);
  int elementType = exportElementType(type.getElementType());
  if (failed(bytes) || elementType == TensorProto::UNDEFINED)
    return op->emitOpError()
           << "has a tensor of type " << type
           << " that ONNX does not have, or whose data is not present";
  tensor.set_data_type(elementType);
  for (int64_t size : type.getShape())
    tensor.add_dims(size);
  tensor.set_raw_data(bytes->data(), bytes->size());
  return success();
}

LogicalResult Exporter::exportAttribute(onnx::NodeOp node,
                                        NamedAttribute attribute,
                                        AttributeProto &proto) {
  proto.set_name(attribute.getName().str());
  auto kind = [&](AttributeProto::AttributeType type) {
    proto.set_type(type);
    return success();
  };
  return llvm::TypeSwitch<Attribute, LogicalResult>(attribute.getValue())
      .Case<FloatAttr>([&](FloatAttr value) {
        proto.set_f(value.getValue().convertToFloat());
        return kind(AttributeProto::FLOAT);
      })
      .Case<IntegerAttr>([&](IntegerAttr value) {
        proto.set_i(value.getValue().getSExtValue());
        return kind(AttributeProto::INT);
      })
      .Case<StringAttr>([&](StringAttr value) {
        proto.set_s(value.str());
        return kind(AttributeProto::STRING);
      })
      .Case<DenseF32ArrayAttr>([&](DenseF32ArrayAttr values) {
        for (float value : values.asArrayRef())
          proto.add_floats(value);
        return kind(AttributeProto::FLOATS);
      })
      .Case<DenseI64ArrayAttr>([&](DenseI64ArrayAttr values) {
        for (int64_t value : values.asArrayRef())
          proto.add_ints(value);
        return kind(AttributeProto::INTS);
      })
      .Case<TypeAttr>([&](TypeAttr value) {
        proto.set_type(AttributeProto::TYPE_PROTO);
        return exportType(node, value.getValue(), nullptr, *proto.mutable_tp());
      })
      .Case<ElementsAttr>([&](ElementsAttr value) {
        proto.set_type(AttributeProto::TENSOR);
        return exportTensor(node, value, *proto.mutable_t());
      })
      .Case<ArrayAttr>([&](ArrayAttr values) {
        // An empty list does not show what it is a list of; the schema does.
        bool tensors = onnx::getAttributeKind(
                           node.getOpType().str(), node.getDomain().str(),
                           node.getVersion(),
                           proto.name()) == onnx::AttributeKind::Tensors;
        for (Attribute value : values) {
          if (auto string = dyn_cast<StringAttr>(value))
            proto.add_strings(string.str());
          else if (failed(exportTensor(node, cast<ElementsAttr>(value),
                                       *proto.add_tensors())))
            return LogicalResult(failure());
        }
        return kind(tensors ? AttributeProto::TENSORS
                            : AttributeProto::STRINGS);
      })
      .Default([&](Attribute value) {
        return node.emitOpError()
               << "has attribute \"" << proto.name() << "\" = " << value
               << ", which ONNX does not have";
      });
}

LogicalResult Exporter::exportNode(Scope &scope, Operation &op,
                                   NodeProto &proto) {
  if (auto gradient = dyn_cast<onnx::GradientOp>(op)) {
    proto.set_op_type("Gradient");
    proto.set_domain("ai.onnx.preview.training");
    auto addNames = [&](const char *name, ValueRange values) {
      AttributeProto *attribute = proto.add_attribute();
      attribute->set_name(name);
      attribute->set_type(AttributeProto::STRINGS);
      for (Value value : values)
        attribute->add_strings(nameValue(scope, value));
    };
    addNames("xs", gradient.getXs());
    if (!gradient.getZs().empty())
      addNames("zs", gradient.getZs());
    AttributeProto *y = proto.add_attribute();
    y->set_name("y");
    y->set_type(AttributeProto::STRING);
    y->set_s(nameValue(scope, gradient.getY()));
    for (Value value : gradient.getAt())
      proto.add_input(nameValue(scope, value));
  } else {
    auto node = cast<onnx::NodeOp>(op);
    proto.set_op_type(node.getOpType().str());
    if (!node.getDomain().empty())
      proto.set_domain(node.getDomain().str());
    for (Value value : node.getInputs())
      proto.add_input(nameValue(scope, value));
    for (NamedAttribute attribute : node.getNodeAttributes())
      if (failed(exportAttribute(node, attribute, *proto.add_attribute())))
        return failure();
    if (auto metadata = op.getAttrOfType<DictionaryAttr>("onnx.metadata"))
      for (NamedAttribute entry : metadata) {
        auto *pair = proto.add_metadata_props();
        pair->set_key(entry.getName().str());
        pair->set_value(cast<StringAttr>(entry.getValue()).str());
      }
  }
  for (Value value : op.getResults())
    proto.add_output(nameValue(scope, value));
  auto name = dyn_cast<NameLoc>(op.getLoc());
  if (name && (proto.output_size() == 0 || name.getName() != proto.output(0)))
    proto.set_name(name.getName().str());
  return success();
}

LogicalResult Exporter::openData() {
  std::error_code error;
  data = std::make_unique<llvm::raw_fd_ostream>(dataPath + ".tmp", error);
  if (error)
    return module.emitError()
           << "cannot write " << dataPath << ": " << error.message();
  return success();
}

LogicalResult Exporter::exportInitializer(onnx::InitializerOp initializer,
                                          GraphProto &proto) {
  TensorProto &tensor = *proto.add_initializer();
  RankedTensorType type = initializer.getTensorType();
  tensor.set_name(initializer.getOnnxName().str());
  tensor.set_data_type(exportElementType(type.getElementType()));
  for (int64_t size : type.getShape())
    tensor.add_dims(size);
  FailureOr<ArrayRef<char>> bytes =
      onnx::getInitializerBytes(initializer, files);
  if (failed(bytes))
    return failure();
  if (data) {
    data->write_zeros(static_cast<unsigned>(
        llvm::alignTo(data->tell(), externalAlignment) - data->tell()));
    auto add = [&](const char *key, const std::string &value) {
      auto *entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    tensor.set_data_location(TensorProto::EXTERNAL);
    add("location", llvm::sys::path::filename(dataPath).str());
    add("offset", std::to_string(data->tell()));
    add("length", std::to_string(bytes->size()));
    data->write(bytes->data(), bytes->size());
  } else {
    tensor.set_raw_data(bytes->data(), bytes->size());
  }

  bool stated = initializer.getKind() && !initializer.getTraining();
  if (stated || initializer.getMetadata()) {
    ValueInfoProto &value = *proto.add_value_info();
    value.set_name(tensor.name());
    if (failed(exportType(initializer, type, nullptr, *value.mutable_type())))
      return failure();
    auto add = [&](StringRef key, StringRef text) {
      auto *entry = value.add_metadata_props();
      entry->set_key(key.str());
      entry->set_value(text.str());
    };
    if (stated)
      add(kindKey, *initializer.getKind());
    if (auto metadata = initializer.getMetadata())
      for (NamedAttribute entry : *metadata)
        add(entry.getName(), cast<StringAttr>(entry.getValue()).getValue());
  }
  if (initializer.getOverridable()) {
    ValueInfoProto &input = *proto.add_input();
    input.set_name(tensor.name());
    return exportType(initializer, type, nullptr, *input.mutable_type());
  }
  return success();
}

/// Exports `graph` without what it shares with `prefix` (null: with nothing),
/// which it has to begin with.
LogicalResult Exporter::exportGraph(onnx::GraphOp graph, onnx::GraphOp prefix,
                                    GraphProto &proto) {
  auto name = graph->getAttrOfType<StringAttr>("onnx.name");
  proto.set_name(name ? name.str() : graph.getSymName().str());
  SmallVector<Operation *> nodes = collectNodes(graph), shared;
  unsigned arguments = 0, results = 0;
  if (prefix) {
    shared = collectNodes(prefix);
    arguments = prefix.getNumArguments();
    results = prefix.getNumResults();
    bool same = shared.size() <= nodes.size() &&
                arguments <= graph.getNumArguments() &&
                results <= graph.getNumResults();
    for (size_t i = 0; same && i < shared.size(); ++i) {
      same = shared[i]->getName() == nodes[i]->getName() &&
             shared[i]->getAttrDictionary() == nodes[i]->getAttrDictionary();
    }
    if (!same)
      return graph.emitOpError()
             << "does not begin with the nodes of @" << prefix.getSymName()
             << "; only a combined training graph can be written";
  }

  // Names that users see come first, so that they stay as they are. An output
  // that is an input or an initializer has that name already.
  Scope scope;
  for (auto [index, argument] : llvm::enumerate(graph.getArguments()))
    nameValue(scope, argument);
  for (Operation &op : graph.getBody().front())
    if (isa<onnx::InitialValueOp>(op))
      nameValue(scope, op.getResult(0));
  Operation *terminator = graph.getBody().front().getTerminator();

  for (unsigned i = arguments; i < graph.getNumArguments(); ++i) {
    ValueInfoProto &input = *proto.add_input();
    input.set_name(nameValue(scope, graph.getArgument(i)));
    if (failed(exportValue(graph, graph.getArgumentTypes()[i],
                           function_interface_impl::getArgAttrDict(graph, i),
                           input)))
      return failure();
  }
  for (auto [index, op] : llvm::enumerate(nodes)) {
    NodeProto node;
    if (failed(exportNode(scope, *op, node)))
      return failure();
    if (index < shared.size())
      continue;
    *proto.add_node() = node;
    // Exporters know types that shape inference cannot find again.
    for (Value result : op->getResults()) {
      if (!isa<TensorType, onnx::SequenceType, onnx::OptionalType>(
              result.getType()) ||
          llvm::is_contained(terminator->getOperands(), result))
        continue;
      ValueInfoProto &value = *proto.add_value_info();
      value.set_name(nameValue(scope, result));
      if (failed(
              exportType(op, result.getType(), nullptr, *value.mutable_type())))
        return failure();
    }
  }
  for (unsigned i = results; i < graph.getNumResults(); ++i) {
    ValueInfoProto &output = *proto.add_output();
    output.set_name(nameValue(scope, terminator->getOperand(i)));
    if (failed(exportValue(graph, graph.getResultTypes()[i],
                           function_interface_impl::getResultAttrDict(graph, i),
                           output)))
      return failure();
  }
  return success();
}

LogicalResult Exporter::exportTraining(onnx::TrainingOp training,
                                       onnx::GraphOp main,
                                       ::onnx::TrainingInfoProto &proto) {
  auto algorithm = module.lookupSymbol<onnx::GraphOp>(training.getAlgorithm());
  if (failed(exportGraph(algorithm, main, *proto.mutable_algorithm())))
    return failure();
  llvm::StringSet<> initialValues;
  onnx::GraphOp initialization;
  if (training.getInitialization()) {
    initialization =
        module.lookupSymbol<onnx::GraphOp>(*training.getInitialization());
    if (failed(exportGraph(initialization, nullptr,
                           *proto.mutable_initialization())))
      return failure();
    for (auto value : initialization.getOps<onnx::InitialValueOp>())
      initialValues.insert(value.getInitializer());
  }
  for (auto initializer : module.getOps<onnx::InitializerOp>()) {
    if (initializer.getTraining() != training.getSymName())
      continue;
    bool initial = initialValues.contains(initializer.getSymName());
    if (failed(exportInitializer(initializer,
                                 initial ? *proto.mutable_initialization()
                                         : *proto.mutable_algorithm())))
      return failure();
  }
  auto exportBindings = [&](ArrayAttr bindings, auto *list) {
    for (const onnx::Binding &binding : onnx::getBindings(bindings)) {
      auto *entry = list->Add();
      auto initializer =
          module.lookupSymbol<onnx::InitializerOp>(binding.initializer);
      entry->set_key(initializer.getOnnxName().str());
      entry->set_value(binding.result.str());
    }
  };
  exportBindings(training.getUpdate(), proto.mutable_update_binding());
  if (training.getSet())
    exportBindings(*training.getSet(), proto.mutable_initialization_binding());
  return success();
}

void Exporter::exportModuleAttributes(::onnx::ModelProto &model) {
  auto version = module->getAttrOfType<IntegerAttr>("onnx.ir_version");
  model.set_ir_version(version ? version.getInt()
                               : ::onnx::Version::IR_VERSION);
  if (auto producer = module->getAttrOfType<StringAttr>("onnx.producer"))
    model.set_producer_name(producer.str());
  if (auto producer =
          module->getAttrOfType<StringAttr>("onnx.producer_version"))
    model.set_producer_version(producer.str());
  if (auto opsets = module->getAttrOfType<DictionaryAttr>("onnx.opset"))
    for (NamedAttribute opset : opsets)
      if (auto number = dyn_cast<IntegerAttr>(opset.getValue())) {
        auto *import = model.add_opset_import();
        import->set_domain(
            opset.getName() == "ai.onnx" ? "" : opset.getName().str());
        import->set_version(number.getInt());
      }
  if (auto metadata = module->getAttrOfType<DictionaryAttr>("onnx.metadata"))
    for (NamedAttribute entry : metadata)
      if (auto text = dyn_cast<StringAttr>(entry.getValue())) {
        auto *pair = model.add_metadata_props();
        pair->set_key(entry.getName().str());
        pair->set_value(text.str());
      }
}

LogicalResult Exporter::run(::onnx::ModelProto &model) {
  onnx::GraphOp main = onnx::getMainGraph(module);
  if (!main)
    return module.emitError() << "there is no onnx.graph to write";
  uint64_t bytes = 0;
  for (auto initializer : module.getOps<onnx::InitializerOp>())
    bytes += initializer.getByteSize();
  if (bytes > maximumEmbeddedBytes && !dataPath.empty() && failed(openData()))
    return failure();
  exportModuleAttributes(model);
  if (failed(exportGraph(main, nullptr, *model.mutable_graph())))
    return failure();
  for (auto initializer : module.getOps<onnx::InitializerOp>())
    if (!initializer.getTraining() &&
        failed(exportInitializer(initializer, *model.mutable_graph())))
      return failure();
  for (auto training : module.getOps<onnx::TrainingOp>())
    if (failed(exportTraining(training, main, *model.add_training_info())))
      return failure();
  if (!data)
    return success();
  data->close();
  std::error_code error = data->error();
  data->clear_error();
  if (!error)
    error = llvm::sys::fs::rename(dataPath + ".tmp", dataPath);
  if (error)
    return module.emitError()
           << "cannot write " << dataPath << ": " << error.message();
  return success();
}

/// Builds the text of the model. External data goes to `dataPath`, if not
/// empty.
LogicalResult writeText(ModuleOp module, const std::string &dataPath,
                        ModelFormat format, std::string &text) {
  try {
    ::onnx::ModelProto model;
    if (failed(Exporter(module, dataPath).run(model)))
      return failure();
    std::string problem = writeModel(model, format, text);
    return problem.empty() ? success()
                           : LogicalResult(module.emitError() << problem);
  } catch (const std::exception &error) {
    return module.emitError() << error.what();
  }
}

} // namespace

LogicalResult exportModel(ModuleOp module, StringRef path) {
  return exportModel(module, path, getModelFormat(path));
}

LogicalResult exportModel(ModuleOp module, StringRef path, ModelFormat format) {
  std::string text;
  if (failed(writeText(module, (path + ".data").str(), format, text)))
    return failure();
  std::string temporary = (path + ".tmp").str();
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(temporary, error);
    if (!error) {
      stream << text;
      stream.close();
      error = stream.error();
      stream.clear_error();
    }
  }
  if (!error)
    error = llvm::sys::fs::rename(temporary, path);
  if (error)
    return module.emitError()
           << "cannot write " << path << ": " << error.message();
  return success();
}

LogicalResult exportModel(ModuleOp module, raw_ostream &stream,
                          ModelFormat format) {
  std::string text;
  if (failed(writeText(module, "", format, text)))
    return failure();
  stream << text;
  return success();
}

} // namespace harmony
