//===- ImportAttributes.cpp - Types, tensors and attributes of nodes ------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/ImportAttributes.h"

#include "compiler/Import/ModelCheck.h"
#include "compiler/Import/TensorData.h"
#include "dialects/ONNX/InitializerData.h"
#include "dialects/ONNX/ONNX.h"

using namespace mlir;
using namespace harmony;
using ::onnx::AttributeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;

Type AttributeImporter::importElementType(int type) {
  switch (type) {
  case TensorProto::FLOAT:
    return builder.getF32Type();
  case TensorProto::DOUBLE:
    return builder.getF64Type();
  case TensorProto::FLOAT16:
    return builder.getF16Type();
  case TensorProto::BFLOAT16:
    return builder.getBF16Type();
  case TensorProto::BOOL:
    return builder.getI1Type();
  case TensorProto::INT8:
    return builder.getIntegerType(8);
  case TensorProto::INT16:
    return builder.getIntegerType(16);
  case TensorProto::INT32:
    return builder.getIntegerType(32);
  case TensorProto::INT64:
    return builder.getIntegerType(64);
  case TensorProto::UINT8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case TensorProto::UINT16:
    return builder.getIntegerType(16, /*isSigned=*/false);
  case TensorProto::UINT32:
    return builder.getIntegerType(32, /*isSigned=*/false);
  case TensorProto::UINT64:
    return builder.getIntegerType(64, /*isSigned=*/false);
  case TensorProto::COMPLEX64:
    return ComplexType::get(builder.getF32Type());
  case TensorProto::COMPLEX128:
    return ComplexType::get(builder.getF64Type());
  case TensorProto::FLOAT8E4M3FN:
    return Float8E4M3FNType::get(builder.getContext());
  case TensorProto::FLOAT8E4M3FNUZ:
    return Float8E4M3FNUZType::get(builder.getContext());
  case TensorProto::FLOAT8E5M2:
    return Float8E5M2Type::get(builder.getContext());
  case TensorProto::FLOAT8E5M2FNUZ:
    return Float8E5M2FNUZType::get(builder.getContext());
  case TensorProto::FLOAT8E8M0:
    return Float8E8M0FNUType::get(builder.getContext());
  default:
    return nullptr;
  }
}

Type AttributeImporter::importType(const TypeProto &type,
                                   const std::string &what) {
  switch (type.value_case()) {
  case TypeProto::kTensorType: {
    const auto &tensor = type.tensor_type();
    if (tensor.elem_type() == TensorProto::UNDEFINED)
      return onnx::UnknownType::get(builder.getContext());
    Type element = importElementType(tensor.elem_type());
    if (!element) {
      emitError(what + ": " + describeUnsupportedType(tensor.elem_type()));
      return nullptr;
    }
    if (!tensor.has_shape())
      return UnrankedTensorType::get(element);
    SmallVector<int64_t> shape;
    for (const auto &dim : tensor.shape().dim())
      shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0
                          ? dim.dim_value()
                          : ShapedType::kDynamic);
    return RankedTensorType::get(shape, element);
  }
  case TypeProto::kSequenceType: {
    Type element = importType(type.sequence_type().elem_type(), what);
    return element ? onnx::SequenceType::get(builder.getContext(), element)
                   : Type();
  }
  case TypeProto::kOptionalType: {
    Type element = importType(type.optional_type().elem_type(), what);
    return element ? onnx::OptionalType::get(builder.getContext(), element)
                   : Type();
  }
  case TypeProto::VALUE_NOT_SET:
    return onnx::UnknownType::get(builder.getContext());
  default:
    emitError(what +
              ": maps, sparse tensors and opaque values are not supported");
    return nullptr;
  }
}

ArrayAttr AttributeImporter::importDims(const TypeProto &type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape())
    return nullptr;
  SmallVector<Attribute> dims;
  for (const auto &dim : type.tensor_type().shape().dim()) {
    if (dim.has_dim_value())
      dims.push_back(builder.getI64IntegerAttr(dim.dim_value()));
    else // Shape inference makes up names of the form unk__0.
      dims.push_back(builder.getStringAttr(
          StringRef(dim.dim_param()).starts_with("unk__") ? StringRef()
                                                          : dim.dim_param()));
  }
  return builder.getArrayAttr(dims);
}

DictionaryAttr AttributeImporter::importMetadata(
    const google::protobuf::RepeatedPtrField<::onnx::StringStringEntryProto>
        &entries,
    StringRef without) {
  NamedAttrList attributes;
  for (const auto &entry : entries)
    if (entry.key() != without && !entry.key().empty())
      attributes.set(entry.key(), builder.getStringAttr(entry.value()));
  return attributes.empty() ? DictionaryAttr()
                            : attributes.getDictionary(builder.getContext());
}

ElementsAttr AttributeImporter::importTensor(const TensorProto &tensor,
                                             const std::string &what) {
  uint64_t size = 0;
  std::string problem = getTensorSize(tensor, size);
  if (problem.empty()) {
    Type element = importElementType(tensor.data_type());
    auto type = RankedTensorType::get(
        ArrayRef(tensor.dims().data(), tensor.dims().size()), element);
    std::vector<char> bytes;
    if (tensor.data_location() == TensorProto::EXTERNAL) {
      std::string file;
      uint64_t offset = 0, length = size;
      problem = readExternalReference(tensor, file, offset, length);
      const char *data = problem.empty()
                             ? externalFiles.map(file, offset, length, problem)
                             : nullptr;
      if (data)
        bytes.assign(data, data + length);
    } else {
      bytes = collectData(tensor);
    }
    if (problem.empty()) {
      if (ElementsAttr elements =
              onnx::makeElements(type, bytes, tensor.name()))
        return elements;
      problem = "has " + std::to_string(bytes.size()) +
                " bytes of data, its type and shape make " +
                std::to_string(size);
    }
  }
  emitError(what + ": " + problem);
  return nullptr;
}

Attribute AttributeImporter::importAttribute(const AttributeProto &attribute,
                                             const std::string &what) {
  std::string name = what + ": attribute \"" + attribute.name() + "\"";
  auto strings = [&](const auto &list) {
    SmallVector<Attribute> values;
    for (const std::string &value : list)
      values.push_back(builder.getStringAttr(value));
    return builder.getArrayAttr(values);
  };
  switch (attribute.type()) {
  case AttributeProto::FLOAT:
    return builder.getF32FloatAttr(attribute.f());
  case AttributeProto::INT:
    return IntegerAttr::get(builder.getIntegerType(64, /*isSigned=*/true),
                            attribute.i());
  case AttributeProto::STRING:
    return builder.getStringAttr(attribute.s());
  case AttributeProto::TENSOR:
    return importTensor(attribute.t(), name);
  case AttributeProto::FLOATS:
    return builder.getDenseF32ArrayAttr(
        ArrayRef(attribute.floats().data(), attribute.floats().size()));
  case AttributeProto::INTS:
    return builder.getDenseI64ArrayAttr(
        ArrayRef(attribute.ints().data(), attribute.ints().size()));
  case AttributeProto::STRINGS:
    return strings(attribute.strings());
  case AttributeProto::TENSORS: {
    SmallVector<Attribute> values;
    for (const TensorProto &tensor : attribute.tensors()) {
      values.push_back(importTensor(tensor, name));
      if (!values.back())
        return nullptr;
    }
    return builder.getArrayAttr(values);
  }
  case AttributeProto::TYPE_PROTO: {
    Type type = importType(attribute.tp(), name);
    return type ? TypeAttr::get(type) : TypeAttr();
  }
  default:
    emitError(name + ": attributes of kind " +
              AttributeProto::AttributeType_Name(attribute.type()) +
              " are not supported");
    return nullptr;
  }
}

DictionaryAttr AttributeImporter::describeValue(const ValueInfoProto &value) {
  NamedAttrList attributes;
  attributes.set("onnx.name", builder.getStringAttr(value.name()));
  if (ArrayAttr dims = importDims(value.type()))
    attributes.set("onnx.dims", dims);
  return attributes.getDictionary(builder.getContext());
}
