//===- ModelMutator.cpp - Changes of a model's parts ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ModelMutator.h"

#include "onnx/defs/parser.h"
#include "onnx/defs/schema.h"
#include "test/fuzz/Mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TypeProto;
using onnx::ValueInfoProto;

namespace harmony::fuzz {
namespace {

const std::vector<onnx::OpSchema> &schemas() {
  static const std::vector<onnx::OpSchema> all =
      onnx::OpSchemaRegistry::get_all_schemas();
  return all;
}

} // namespace

/// Mostly the main graph.
GraphProto &Mutator::pickGraph() {
  if (model.training_info_size() && random.oneIn(2)) {
    auto &training = *model.mutable_training_info(static_cast<int>(
        random.below(static_cast<size_t>(model.training_info_size()))));
    return random.oneIn(5) ? *training.mutable_initialization()
                           : *training.mutable_algorithm();
  }
  return *model.mutable_graph();
}

/// A name of some value; at times one that nothing has.
std::string Mutator::pickName(const GraphProto &graph) {
  std::vector<std::string> names;
  for (const NodeProto &node : graph.node()) {
    names.insert(names.end(), node.output().begin(), node.output().end());
    names.insert(names.end(), node.input().begin(), node.input().end());
  }
  for (const ValueInfoProto &value : graph.input())
    names.push_back(value.name());
  for (const TensorProto &tensor : graph.initializer())
    names.push_back(tensor.name());
  if (names.empty() || random.oneIn(20))
    return random.oneIn(2) ? "nowhere" : "";
  return names[random.below(names.size())];
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

void Mutator::changeNode(GraphProto &graph) {
  auto &nodes = *graph.mutable_node();
  if (nodes.empty() || random.oneIn(12)) {
    NodeProto &node = *graph.add_node();
    const onnx::OpSchema &schema = schemas()[random.below(schemas().size())];
    node.set_op_type(schema.Name());
    node.set_domain(schema.domain());
    for (int i = 0, n = std::min(schema.min_input() +
                                     static_cast<int>(random.below(3)),
                                 std::min(schema.max_input(), 6));
         i < n; ++i)
      node.add_input(pickName(graph));
    node.add_output("new" + std::to_string(random.below(1000)));
    if (random.oneIn(2))
      graph.mutable_node()->SwapElements(
          nodes.size() - 1,
          static_cast<int>(random.below(static_cast<size_t>(nodes.size()))));
    return;
  }
  size_t count = static_cast<size_t>(nodes.size());
  size_t index = random.below(count);
  NodeProto &node = *graph.mutable_node(static_cast<int>(index));
  switch (random.below(12)) {
  case 0:
    eraseAt(nodes, index);
    return;
  case 1: {
    NodeProto copy = node;
    *graph.add_node() = copy;
    return;
  }
  case 2:
    nodes.SwapElements(static_cast<int>(index),
                       static_cast<int>(random.below(count)));
    return;
  case 3: { // an operator of the same number of inputs is refused later
    std::vector<const onnx::OpSchema *> fitting;
    for (const onnx::OpSchema &schema : schemas())
      if (schema.min_input() <= node.input_size() &&
          schema.max_input() >= node.input_size())
        fitting.push_back(&schema);
    if (!fitting.empty()) {
      const onnx::OpSchema &schema = *fitting[random.below(fitting.size())];
      node.set_op_type(schema.Name());
      node.set_domain(schema.domain());
      if (random.oneIn(2))
        node.clear_attribute();
    }
    return;
  }
  case 4:
    if (random.oneIn(3))
      node.set_op_type(random.oneIn(2) ? "NoSuchOperator" : "");
    else
      node.set_name(pickName(graph));
    return;
  case 5: // a chain of the same operator
    for (size_t i = 0, n = 1 + random.below(4); i < n; ++i) {
      NodeProto copy = graph.node(static_cast<int>(index));
      if (copy.input_size() == 0 || copy.output_size() == 0)
        return;
      copy.set_input(0, copy.output(0));
      copy.set_output(0, copy.output(0) + "_");
      *graph.add_node() = copy;
    }
    return;
  case 6:
  case 7:
  case 8:
    changeEdges(graph, node);
    return;
  case 9:
    addAttribute(node);
    return;
  default:
    if (node.attribute_size() == 0)
      addAttribute(node);
    else
      changeAttribute(node);
    return;
  }
}

void Mutator::changeEdges(GraphProto &graph, NodeProto &node) {
  bool input = !random.oneIn(4);
  auto &list = input ? *node.mutable_input() : *node.mutable_output();
  size_t count = static_cast<size_t>(list.size());
  if (count == 0 || random.oneIn(6)) {
    *list.Add() = input ? pickName(graph) : "more";
    return;
  }
  int index = static_cast<int>(random.below(count));
  switch (random.below(5)) {
  case 0:
    eraseAt(list, static_cast<size_t>(index));
    return;
  case 1:
    list.SwapElements(index, static_cast<int>(random.below(count)));
    return;
  case 2:
    list[index].clear();
    return;
  default: // may close a cycle, or define a value twice
    list[index] = pickName(graph);
    return;
  }
}

void Mutator::fillAttribute(AttributeProto &attribute, int kind) {
  std::string name = attribute.name();
  attribute.Clear();
  attribute.set_name(name);
  attribute.set_type(static_cast<AttributeProto::AttributeType>(kind));
  static const char *const words[] = {
      "",        "mean",  "sum",        "none",          "constant",
      "reflect", "edge",  "SAME_UPPER", "VALID",         "NOTSET",
      "linear",  "cubic", "nearest",    "bidirectional", "forward",
      "x",       "NCHW",  "tanh",       "nosuchword"};
  static const float floats[] = {0.0f,  1.0f,  -1.0f, 0.5f,
                                 1e-5f, 1e30f, 2.0f,  __builtin_nanf("")};
  size_t length = random.below(5);
  switch (kind) {
  case AttributeProto::FLOAT:
    attribute.set_f(pick(floats));
    break;
  case AttributeProto::INT:
    attribute.set_i(random.integer());
    break;
  case AttributeProto::STRING:
    attribute.set_s(pick(words));
    break;
  case AttributeProto::TENSOR:
    changeTensor(*attribute.mutable_t());
    break;
  case AttributeProto::FLOATS:
    for (size_t i = 0; i < length; ++i)
      attribute.add_floats(pick(floats));
    break;
  case AttributeProto::INTS:
    for (size_t i = 0; i < length; ++i)
      attribute.add_ints(random.integer());
    break;
  case AttributeProto::STRINGS:
    for (size_t i = 0; i < length; ++i)
      attribute.add_strings(pick(words));
    break;
  case AttributeProto::GRAPH:
    *attribute.mutable_g() = model.graph();
    break;
  default:
    break;
  }
}

void Mutator::addAttribute(NodeProto &node) {
  const onnx::OpSchema *schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), node.domain());
  AttributeProto &attribute = *node.add_attribute();
  if (!schema || schema->attributes().empty() || random.oneIn(10)) {
    attribute.set_name("axis");
    fillAttribute(attribute, 1 + static_cast<int>(random.below(14)));
    return;
  }
  auto entry = schema->attributes().begin();
  std::advance(entry, random.below(schema->attributes().size()));
  attribute.set_name(entry->first);
  fillAttribute(attribute, static_cast<int>(entry->second.type));
}

void Mutator::changeAttribute(NodeProto &node) {
  size_t index = random.below(static_cast<size_t>(node.attribute_size()));
  AttributeProto &attribute = *node.mutable_attribute(static_cast<int>(index));
  switch (random.below(10)) {
  case 0:
    eraseAt(*node.mutable_attribute(), index);
    return;
  case 1:
    fillAttribute(attribute, static_cast<int>(random.below(15)));
    return;
  case 2:
    attribute.set_name(random.oneIn(2) ? "" : "axes");
    return;
  case 3: {
    AttributeProto copy = attribute;
    *node.add_attribute() = copy;
    return;
  }
  case 4:
    attribute.set_ref_attr_name("outer");
    return;
  default:
    if (attribute.ints_size() && !random.oneIn(4))
      attribute.set_ints(static_cast<int>(random.below(
                             static_cast<size_t>(attribute.ints_size()))),
                         random.integer());
    else if (attribute.type() == AttributeProto::TENSOR)
      changeTensor(*attribute.mutable_t());
    else
      fillAttribute(attribute, attribute.type());
    return;
  }
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

void Mutator::changeModel() {
  static const int64_t opsets[] = {1,  5,  6,  7,  9,  10, 11, 12,
                                   13, 14, 15, 16, 17, 18, 20, 21,
                                   22, 23, 24, 25, 0,  -1, 99, INT64_MAX};
  static const char *const domains[] = {"", "ai.onnx", "ai.onnx.ml",
                                        "ai.onnx.preview.training", "com.x"};
  static const char *const names[] = {"main", "forward", "entropy", "mse", ""};
  switch (random.below(8)) {
  case 0:
    model.set_ir_version(random.oneIn(2) ? random.integer() : 10);
    return;
  case 1:
    model.mutable_graph()->set_name(pick(names));
    return;
  case 2: {
    auto &entry = *model.add_metadata_props();
    entry.set_key(random.oneIn(2) ? "key" : "");
    entry.set_value(std::string(random.below(20), '\xff'));
    return;
  }
  case 3: {
    auto &opset = *model.add_opset_import();
    opset.set_domain(pick(domains));
    opset.set_version(pick(opsets));
    return;
  }
  default:
    if (model.opset_import_size() == 0)
      model.add_opset_import();
    model
        .mutable_opset_import(static_cast<int>(
            random.below(static_cast<size_t>(model.opset_import_size()))))
        ->set_version(pick(opsets));
    return;
  }
}

/// Puts a node into a function of its own, which may call itself.
void Mutator::makeFunction(GraphProto &graph) {
  if (graph.node_size() == 0)
    return;
  NodeProto &node = *graph.mutable_node(
      static_cast<int>(random.below(static_cast<size_t>(graph.node_size()))));
  auto &function = *model.add_functions();
  function.set_name("f" + std::to_string(random.below(3)));
  function.set_domain("local");
  for (size_t i = 0, n = 1 + random.below(3); i < n; ++i) {
    NodeProto &body = *function.add_node();
    body = node;
    if (i) { // calls of other functions
      body.set_op_type("f" + std::to_string(random.below(3)));
      body.set_domain("local");
      for (std::string &output : *body.mutable_output())
        output += std::to_string(i);
    }
  }
  for (const std::string &input : node.input())
    function.add_input(input);
  for (const std::string &output : node.output())
    function.add_output(output);
  for (const AttributeProto &attribute : node.attribute())
    if (random.oneIn(2)) {
      function.add_attribute(attribute.name());
      for (NodeProto &body : *function.mutable_node())
        for (AttributeProto &inner : *body.mutable_attribute())
          if (inner.name() == attribute.name())
            inner.set_ref_attr_name(attribute.name());
    }
  for (const auto &opset : model.opset_import())
    *function.add_opset_import() = opset;
  if (!random.oneIn(5)) {
    auto &local = *function.add_opset_import();
    local.set_domain("local");
    local.set_version(1);
    auto &opset = *model.add_opset_import();
    opset.set_domain("local");
    opset.set_version(1);
  }
  node.set_op_type(function.name());
  node.set_domain("local");
}

void Mutator::changeTraining() {
  if (model.training_info_size() == 0) {
    auto &training = *model.add_training_info();
    NodeProto &node = *training.mutable_algorithm()->add_node();
    node.set_op_type(random.oneIn(2) ? "Gradient" : "Identity");
    if (node.op_type() == "Gradient") {
      node.set_domain("ai.onnx.preview.training");
      auto &xs = *node.add_attribute();
      xs.set_name("xs");
      xs.set_type(AttributeProto::STRINGS);
      xs.add_strings(pickName(model.graph()));
      auto &y = *node.add_attribute();
      y.set_name("y");
      y.set_type(AttributeProto::STRING);
      y.set_s(model.graph().output_size() ? model.graph().output(0).name()
                                          : "");
      auto &opset = *model.add_opset_import();
      opset.set_domain("ai.onnx.preview.training");
      opset.set_version(1);
    }
    node.add_input(pickName(model.graph()));
    node.add_output("step");
    training.mutable_algorithm()->add_output()->set_name("step");
    training.mutable_algorithm()->set_name("algorithm");
  }
  auto &training = *model.mutable_training_info(static_cast<int>(
      random.below(static_cast<size_t>(model.training_info_size()))));
  auto &bindings = random.oneIn(4) ? *training.mutable_initialization_binding()
                                   : *training.mutable_update_binding();
  if (bindings.empty() || random.oneIn(3)) {
    auto &entry = *bindings.Add();
    entry.set_key(model.graph().initializer_size()
                      ? model.graph().initializer(0).name()
                      : "");
    entry.set_value("step");
    return;
  }
  size_t index = random.below(static_cast<size_t>(bindings.size()));
  if (random.oneIn(3))
    eraseAt(bindings, index);
  else if (random.oneIn(2))
    bindings[static_cast<int>(index)].set_value(pickName(training.algorithm()));
  else
    bindings[static_cast<int>(index)].set_key(pickName(model.graph()));
}

void Mutator::mutate() {
  for (size_t n = 1 + random.below(3); n > 0; --n) {
    GraphProto &graph = pickGraph();
    size_t part = random.below(100);
    if (part < 45)
      changeNode(graph);
    else if (part < 62)
      changeValues(graph);
    else if (part < 86)
      changeTensors(graph);
    else if (part < 94)
      changeModel();
    else if (part < 97)
      makeFunction(graph);
    else
      changeTraining();
  }
}

void Mutator::join(const ModelProto &other) {
  GraphProto &graph = *model.mutable_graph();
  if (other.graph().node_size() == 0)
    return;
  for (size_t n = 1 + random.below(3); n > 0; --n) {
    NodeProto node = other.graph().node(static_cast<int>(
        random.below(static_cast<size_t>(other.graph().node_size()))));
    for (std::string &input : *node.mutable_input()) {
      const TensorProto *tensor = nullptr;
      for (const TensorProto &candidate : other.graph().initializer())
        if (candidate.name() == input)
          tensor = &candidate;
      if (tensor && !random.oneIn(3)) {
        *graph.add_initializer() = *tensor;
        input += "_joined";
        graph.mutable_initializer(graph.initializer_size() - 1)
            ->set_name(input);
      } else if (!input.empty()) {
        input = pickName(graph);
      }
    }
    std::string last;
    for (std::string &output : *node.mutable_output())
      if (!output.empty())
        last = output += "_joined";
    *graph.add_node() = node;
    // What comes behind reads it, or it is a result.
    if (random.oneIn(2) && graph.output_size())
      graph.mutable_output(0)->set_name(last);
  }
}

bool parseModel(const uint8_t *data, size_t size, ModelProto &model) {
  std::string text(reinterpret_cast<const char *>(data), size);
  if (text.empty() || text[0] != '<')
    return model.ParseFromString(text);
  try {
    return onnx::OnnxParser::Parse(model, text.c_str()).IsOK();
  } catch (const std::exception &) {
    return false;
  }
}

void mutateModel(ModelProto &model, uint64_t seed) {
  Mutator(model, seed).mutate();
}

void joinModels(ModelProto &model, const ModelProto &other, uint64_t seed) {
  Mutator(model, seed).join(other);
}

} // namespace harmony::fuzz
