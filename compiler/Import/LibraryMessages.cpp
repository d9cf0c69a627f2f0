//===- LibraryMessages.cpp - The ONNX library's messages, reworded --------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/LibraryMessages.h"

#include <algorithm>
#include <cctype>
#include <sstream>

using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;

namespace harmony {
namespace {

/// '(op_type:T, node name: N): text' and the like, as this file calls a node.
std::string renameNode(const std::string &line) {
  const std::string head = "(op_type:";
  size_t end = line.find("): ");
  if (line.compare(0, head.size(), head) != 0 || end == std::string::npos)
    return line;
  std::string type = line.substr(head.size(), end - head.size()), name;
  const std::string separator = ", node name: ";
  if (size_t at = type.find(separator); at != std::string::npos) {
    name = " \"" + type.substr(at + separator.size()) + "\"";
    type.resize(at);
  }
  return "node" + name + " (" + type + "): " + line.substr(end + 3);
}

/// `text` with every run of white space made one space.
std::string joinLines(const std::string &text) {
  std::string line, word;
  for (std::istringstream stream(text); stream >> word;)
    line += (line.empty() ? "" : " ") + word;
  return line;
}

/// `float [N, 3]`, for messages.
std::string describeType(const TypeProto &type) {
  const auto &tensor = type.tensor_type();
  if (!type.has_tensor_type() ||
      !TensorProto::DataType_IsValid(tensor.elem_type()))
    return "?";
  std::string text = TensorProto::DataType_Name(
      static_cast<TensorProto::DataType>(tensor.elem_type()));
  std::transform(text.begin(), text.end(), text.begin(), ::tolower);
  if (!tensor.has_shape())
    return text;
  std::string dims;
  for (const auto &dim : tensor.shape().dim()) {
    dims += dims.empty() ? "" : ", ";
    dims += dim.has_dim_value()       ? std::to_string(dim.dim_value())
            : dim.dim_param().empty() ? "?"
                                      : dim.dim_param();
  }
  return text + " [" + dims + "]";
}

} // namespace

std::vector<std::string> splitMessage(const std::string &text) {
  const std::string context = "\n\n==> Context: ";
  if (size_t at = text.find(context); at != std::string::npos)
    return {joinLines(text.substr(0, at)) + " (" +
            joinLines(text.substr(at + context.size())) + ")"};
  const std::string header = "Inference error(s): ";
  size_t at = text.find(header);
  if (at == std::string::npos)
    return {joinLines(text)};
  std::vector<std::string> lines, consequences;
  std::istringstream stream(text.substr(at + header.size()));
  for (std::string line; std::getline(stream, line);) {
    if (line.empty())
      continue;
    bool consequence = line.find("expected to have type but instead is null") !=
                       std::string::npos;
    for (const char *mark : {"[ShapeInferenceError] ", "[TypeInferenceError] "})
      if (size_t position = line.find(mark); position != std::string::npos)
        line.erase(position, std::string(mark).size());
    (consequence ? consequences : lines)
        .push_back("shape inference: " + renameNode(line));
  }
  return lines.empty() ? consequences : lines;
}

std::map<std::string, TypeProto> collectTypes(const GraphProto &graph) {
  std::map<std::string, TypeProto> types;
  for (const auto *list :
       {&graph.input(), &graph.output(), &graph.value_info()})
    for (const auto &value : *list)
      if (value.has_type())
        types[value.name()] = value.type();
  for (const TensorProto &tensor : graph.initializer()) {
    auto &type = *types[tensor.name()].mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    type.clear_shape();
    type.mutable_shape();
    for (int64_t dim : tensor.dims())
      type.mutable_shape()->add_dim()->set_dim_value(dim);
  }
  return types;
}

void addInputTypes(const GraphProto &graph, std::vector<std::string> &lines) {
  std::map<std::string, TypeProto> types = collectTypes(graph);
  for (std::string &line : lines)
    for (const NodeProto &node : graph.node()) {
      if (line.find("node \"" + node.name() + "\" (") == std::string::npos)
        continue;
      // Some operators' messages name the node again.
      if (size_t at = line.find(" in node " + node.op_type() + " (");
          at != std::string::npos)
        line.resize(at);
      std::string inputs;
      for (const std::string &input : node.input())
        if (auto type = types.find(input); type != types.end())
          inputs += (inputs.empty() ? "; its inputs are \"" : ", \"") + input +
                    "\" " + describeType(type->second);
      line += inputs;
      break;
    }
}

} // namespace harmony
