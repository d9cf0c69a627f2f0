//===- TensorMutator.cpp - Changes of types and tensors -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutator.h"

#include <cstring>

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;
using onnx::ValueInfoProto;

namespace harmony::fuzz {
namespace {

/// Types that a mutation writes; the last are no element types.
constexpr int elementTypes[] = {TensorProto::FLOAT,
                                TensorProto::FLOAT,
                                TensorProto::INT64,
                                TensorProto::INT64,
                                TensorProto::INT32,
                                TensorProto::BOOL,
                                TensorProto::DOUBLE,
                                TensorProto::FLOAT16,
                                TensorProto::BFLOAT16,
                                TensorProto::UINT8,
                                TensorProto::INT8,
                                TensorProto::UINT64,
                                TensorProto::STRING,
                                TensorProto::INT4,
                                TensorProto::COMPLEX64,
                                TensorProto::UNDEFINED,
                                77};

} // namespace

int Mutator::pickElementType() { return pick(elementTypes); }

void Mutator::changeType(TypeProto &type) {
  if (random.oneIn(15)) {
    TypeProto element = type;
    type.Clear();
    switch (random.below(4)) {
    case 0:
      *type.mutable_sequence_type()->mutable_elem_type() = element;
      return;
    case 1:
      *type.mutable_optional_type()->mutable_elem_type() = element;
      return;
    case 2:
      type.mutable_map_type()->set_key_type(TensorProto::INT64);
      return;
    default:
      return;
    }
  }
  auto &tensor = *type.mutable_tensor_type();
  if (random.oneIn(5)) {
    tensor.set_elem_type(pickElementType());
    return;
  }
  if (random.oneIn(20)) {
    tensor.clear_shape();
    return;
  }
  auto &dims = *tensor.mutable_shape()->mutable_dim();
  if (dims.empty() || random.oneIn(6)) {
    dims.Add()->set_dim_value(random.integer());
    return;
  }
  size_t index = random.below(static_cast<size_t>(dims.size()));
  auto &dim = dims[static_cast<int>(index)];
  switch (random.below(6)) {
  case 0:
    eraseAt(dims, index);
    return;
  case 1:
    dim.clear_value();
    return;
  case 2:
    dim.set_dim_param(random.oneIn(2) ? "N" : "S");
    return;
  default:
    dim.set_dim_value(random.integer());
    return;
  }
}

void Mutator::changeValues(GraphProto &graph) {
  auto &list = random.oneIn(3)   ? *graph.mutable_output()
               : random.oneIn(4) ? *graph.mutable_value_info()
                                 : *graph.mutable_input();
  size_t count = static_cast<size_t>(list.size());
  if (count == 0 || random.oneIn(8)) {
    ValueInfoProto &value = *list.Add();
    value.set_name(pickName(graph));
    value.mutable_type()->mutable_tensor_type()->set_elem_type(
        pickElementType());
    changeType(*value.mutable_type());
    return;
  }
  size_t index = random.below(count);
  ValueInfoProto &value = list[static_cast<int>(index)];
  switch (random.below(10)) {
  case 0:
    eraseAt(list, index);
    return;
  case 1:
    value.set_name(pickName(graph));
    return;
  case 2:
    list.SwapElements(static_cast<int>(index),
                      static_cast<int>(random.below(count)));
    return;
  default:
    changeType(*value.mutable_type());
    return;
  }
}

/// Other values of an integer tensor: shapes, axes, indices.
void Mutator::changeNumbers(TensorProto &tensor) {
  int64_t value = random.integer();
  if (tensor.int64_data_size())
    tensor.set_int64_data(static_cast<int>(random.below(
                              static_cast<size_t>(tensor.int64_data_size()))),
                          value);
  else if (tensor.raw_data().size() >= 8)
    std::memcpy(tensor.mutable_raw_data()->data() +
                    8 * random.below(tensor.raw_data().size() / 8),
                &value, 8);
  else if (tensor.int32_data_size())
    tensor.set_int32_data(static_cast<int>(random.below(
                              static_cast<size_t>(tensor.int32_data_size()))),
                          static_cast<int32_t>(value));
  else
    tensor.set_data_type(pickElementType());
}

void Mutator::makeExternal(TensorProto &tensor) {
  static const char *const locations[] = {"data.bin",
                                          "data.bin",
                                          "data.bin",
                                          "sub/data.bin",
                                          "empty.bin",
                                          "link.bin",
                                          "out/etc/passwd",
                                          "../data.bin",
                                          "/etc/passwd",
                                          "sub",
                                          "pipe",
                                          "none",
                                          "",
                                          "sub/../data.bin",
                                          "./data.bin"};
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_int64_data();
  tensor.clear_external_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto add = [&](const std::string &key, const std::string &value) {
    auto &entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", pick(locations));
  if (random.oneIn(2))
    add("offset", random.oneIn(3) ? std::to_string(random.integer())
                                  : std::to_string(random.below(70)));
  if (random.oneIn(2))
    add("length", random.oneIn(3) ? std::to_string(random.integer())
                                  : std::to_string(random.below(70)));
  if (random.oneIn(10))
    add(random.oneIn(2) ? "offset" : "", "x");
}

void Mutator::changeTensor(TensorProto &tensor) {
  auto &dims = *tensor.mutable_dims();
  switch (random.below(10)) {
  case 0: // the data stays
    dims.Add(random.integer());
    return;
  case 1:
    if (dims.empty())
      return;
    dims.Set(static_cast<int>(random.below(static_cast<size_t>(dims.size()))),
             random.integer());
    return;
  case 2:
    tensor.set_data_type(pickElementType());
    return;
  case 3:
    makeExternal(tensor);
    return;
  case 4: { // new data of a new shape
    tensor.Clear();
    size_t size = 1;
    for (size_t rank = random.below(4); rank > 0; --rank) {
      size_t extent = random.below(4);
      tensor.add_dims(static_cast<int64_t>(extent));
      size *= extent;
    }
    bool integers = random.oneIn(2);
    tensor.set_data_type(integers ? TensorProto::INT64 : TensorProto::FLOAT);
    for (size_t i = 0; i < size; ++i)
      if (integers)
        tensor.add_int64_data(random.integer());
      else
        tensor.add_float_data(static_cast<float>(random.integer()));
    return;
  }
  case 5:
    if (tensor.has_raw_data() && random.oneIn(2))
      tensor.mutable_raw_data()->resize(tensor.raw_data().size() / 2);
    else
      tensor.add_float_data(1);
    return;
  case 6: { // a shape without data
    std::string name = tensor.name();
    tensor.Clear();
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::FLOAT);
    for (size_t rank = random.below(5); rank > 0; --rank)
      tensor.add_dims(random.integer());
    return;
  }
  default:
    changeNumbers(tensor);
    return;
  }
}

void Mutator::addTensor(GraphProto &graph) {
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(pickName(graph));
  tensor.set_data_type(TensorProto::FLOAT);
  for (size_t rank = random.below(3); rank > 0; --rank)
    tensor.add_dims(1 + static_cast<int64_t>(random.below(3)));
  int64_t size = 1;
  for (int64_t dim : tensor.dims())
    size *= dim;
  for (int64_t i = 0; i < size; ++i)
    tensor.add_float_data(0.5f);
}

void Mutator::changeTensors(GraphProto &graph) {
  auto &list = *graph.mutable_initializer();
  if (list.empty() || random.oneIn(8)) {
    addTensor(graph);
    return;
  }
  size_t index = random.below(static_cast<size_t>(list.size()));
  TensorProto &tensor = list[static_cast<int>(index)];
  switch (random.below(8)) {
  case 0:
    eraseAt(list, index);
    return;
  case 1:
    tensor.set_name(pickName(graph));
    return;
  case 2: {
    TensorProto copy = tensor;
    *graph.add_initializer() = copy;
    return;
  }
  case 3: { // computed by a node
    NodeProto node;
    node.set_op_type("Constant");
    node.add_output(tensor.name());
    AttributeProto &attribute = *node.add_attribute();
    attribute.set_name("value");
    attribute.set_type(AttributeProto::TENSOR);
    *attribute.mutable_t() = tensor;
    eraseAt(list, index);
    *graph.add_node() = node;
    for (int i = graph.node_size() - 1; i > 0; --i)
      graph.mutable_node()->SwapElements(i, i - 1);
    return;
  }
  case 4: { // given from outside
    ValueInfoProto &input = *graph.add_input();
    input.set_name(tensor.name());
    auto &type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    for (int64_t dim : tensor.dims())
      type.mutable_shape()->add_dim()->set_dim_value(dim);
    if (random.oneIn(2))
      eraseAt(list, index);
    return;
  }
  default:
    changeTensor(tensor);
    return;
  }
}

} // namespace harmony::fuzz
