//===- Schema.cpp - The ONNX library's operator schemas -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/ONNX/Schema.h"

#include "onnx/defs/schema.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <sstream>

namespace harmony::onnx {
namespace {

using ::onnx::OpSchema;
using ::onnx::OpSchemaRegistry;

std::string describeOperator(const std::string &opType,
                             const std::string &domain) {
  std::string text = "operator \"" + opType + "\"";
  if (!domain.empty())
    text += " of domain \"" + domain + "\"";
  return text;
}

/// The schema of exactly this since-version, or null.
const OpSchema *findSchema(const std::string &opType, const std::string &domain,
                           int64_t version) {
  if (version < 1 || version > std::numeric_limits<int>::max())
    return nullptr;
  const OpSchema *schema =
      OpSchemaRegistry::Schema(opType, static_cast<int>(version), domain);
  return schema && schema->since_version() == version ? schema : nullptr;
}

/// Checks presence and number of inputs or outputs; `what` is "input" or
/// "output".
void checkParameters(const std::vector<OpSchema::FormalParameter> &formal,
                     const std::vector<bool> &present, int minimum, int maximum,
                     const char *what, std::vector<std::string> &problems) {
  int count = static_cast<int>(present.size());
  // Trailing absent values are as good as left out.
  while (count > 0 && !present[count - 1])
    --count;
  if (count < minimum || count > maximum) {
    std::ostringstream text;
    text << "has " << count << ' ' << what << (count == 1 ? "" : "s")
         << ", accepted are ";
    if (maximum == std::numeric_limits<int>::max())
      text << minimum << " or more";
    else if (minimum == maximum)
      text << minimum;
    else
      text << minimum << " to " << maximum;
    problems.push_back(text.str());
    return;
  }
  for (int i = 0; i < count; ++i) {
    if (present[i] || formal.empty())
      continue;
    const OpSchema::FormalParameter &parameter =
        formal[std::min<size_t>(static_cast<size_t>(i), formal.size() - 1)];
    if (std::string(what) == "input" &&
        parameter.GetOption() == OpSchema::Single)
      problems.push_back(std::string(what) + " " + std::to_string(i) + " (\"" +
                         parameter.GetName() + "\") is required, but absent");
  }
}

void checkAttributes(const OpSchema &schema, const NodeDescription &node,
                     std::vector<std::string> &problems) {
  const auto &known = schema.attributes();
  for (const NodeDescription::NamedKind &attribute : node.attributes) {
    auto it = known.find(attribute.name);
    if (it == known.end()) {
      std::string text =
          "has no attribute \"" + attribute.name + "\"; accepted are ";
      if (known.empty())
        text += "none";
      bool first = true;
      std::vector<std::string> names;
      for (const auto &entry : known)
        names.push_back(entry.first);
      std::sort(names.begin(), names.end());
      for (const std::string &name : names) {
        text += (first ? "\"" : ", \"") + name + "\"";
        first = false;
      }
      problems.push_back(text);
      continue;
    }
    auto expected =
        static_cast<AttributeKind>(static_cast<int>(it->second.type));
    if (attribute.kind == expected)
      continue;
    if (attribute.kind == AttributeKind::EmptyList &&
        (expected == AttributeKind::Strings ||
         expected == AttributeKind::Tensors))
      continue;
    problems.push_back("attribute \"" + attribute.name + "\" is " +
                       getKindName(attribute.kind) + ", accepted is " +
                       getKindName(expected));
  }
  std::vector<std::string> missing;
  for (const auto &[name, attribute] : known) {
    auto sameName = [&name = name](const NodeDescription::NamedKind &a) {
      return a.name == name;
    };
    if (attribute.required &&
        std::none_of(node.attributes.begin(), node.attributes.end(), sameName))
      missing.push_back("attribute \"" + name + "\" is required, but absent");
  }
  std::sort(missing.begin(), missing.end());
  problems.insert(problems.end(), missing.begin(), missing.end());
}

} // namespace

const char *getKindName(AttributeKind kind) {
  switch (kind) {
  case AttributeKind::EmptyList:
    return "an empty list";
  case AttributeKind::Unknown:
    return "of an unknown kind";
  case AttributeKind::Float:
    return "FLOAT";
  case AttributeKind::Int:
    return "INT";
  case AttributeKind::String:
    return "STRING";
  case AttributeKind::Tensor:
    return "TENSOR";
  case AttributeKind::Graph:
    return "GRAPH";
  case AttributeKind::Floats:
    return "FLOATS";
  case AttributeKind::Ints:
    return "INTS";
  case AttributeKind::Strings:
    return "STRINGS";
  case AttributeKind::Tensors:
    return "TENSORS";
  case AttributeKind::Graphs:
    return "GRAPHS";
  case AttributeKind::SparseTensor:
    return "SPARSE_TENSOR";
  case AttributeKind::SparseTensors:
    return "SPARSE_TENSORS";
  case AttributeKind::Type:
    return "TYPE_PROTO";
  case AttributeKind::Types:
    return "TYPE_PROTOS";
  }
  return "of an unknown kind";
}

std::string checkNode(const NodeDescription &node) {
  try {
    const OpSchema *schema = findSchema(node.opType, node.domain, node.version);
    if (!schema) {
      std::vector<int64_t> versions = getVersions(node.opType, node.domain);
      if (versions.empty())
        return describeOperator(node.opType, node.domain) + " is not known";
      std::ostringstream text;
      text << describeOperator(node.opType, node.domain) << " has no version "
           << node.version << "; its versions are ";
      for (size_t i = 0; i < versions.size(); ++i)
        text << (i ? ", " : "") << versions[i];
      return text.str();
    }
    std::vector<std::string> problems;
    checkParameters(schema->inputs(), node.inputs, schema->min_input(),
                    schema->max_input(), "input", problems);
    checkParameters(schema->outputs(), node.outputs, schema->min_output(),
                    schema->max_output(), "output", problems);
    checkAttributes(*schema, node, problems);
    if (problems.empty())
      return "";
    std::string text = describeOperator(node.opType, node.domain) +
                       " (version " + std::to_string(node.version) + "): ";
    for (size_t i = 0; i < problems.size(); ++i)
      text += (i ? "; " : "") + problems[i];
    return text;
  } catch (const std::exception &error) {
    return describeOperator(node.opType, node.domain) + ": " + error.what();
  }
}

int64_t getNewestOpset(const std::string &domain) {
  try {
    const auto &ranges =
        OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    auto it = ranges.find(domain);
    return it == ranges.end() ? 0 : it->second.second;
  } catch (const std::exception &) {
    return 0;
  }
}

int64_t getSinceVersion(const std::string &opType, const std::string &domain,
                        int64_t opset) {
  try {
    if (opset < 1 || opset > std::numeric_limits<int>::max())
      return 0;
    const OpSchema *schema =
        OpSchemaRegistry::Schema(opType, static_cast<int>(opset), domain);
    if (!schema)
      return 0;
    const OpSchema *newest = OpSchemaRegistry::Schema(opType, domain);
    bool isWithdrawn =
        schema->Deprecated() && (!newest || newest->Deprecated());
    return isWithdrawn ? 0 : schema->since_version();
  } catch (const std::exception &) {
    return 0;
  }
}

bool isReplaced(const std::string &opType, const std::string &domain,
                int64_t opset) {
  try {
    if (opset < 1 || opset > std::numeric_limits<int>::max())
      return false;
    const OpSchema *schema =
        OpSchemaRegistry::Schema(opType, static_cast<int>(opset), domain);
    return schema && schema->Deprecated() &&
           getSinceVersion(opType, domain, opset) != 0;
  } catch (const std::exception &) {
    return false;
  }
}

AttributeKind getAttributeKind(const std::string &opType,
                               const std::string &domain, int64_t version,
                               const std::string &name) {
  try {
    const OpSchema *schema = findSchema(opType, domain, version);
    if (!schema)
      return AttributeKind::Unknown;
    auto it = schema->attributes().find(name);
    return it == schema->attributes().end()
               ? AttributeKind::Unknown
               : static_cast<AttributeKind>(static_cast<int>(it->second.type));
  } catch (const std::exception &) {
    return AttributeKind::Unknown;
  }
}

std::vector<int64_t> getVersions(const std::string &opType,
                                 const std::string &domain) {
  // Walks down from the newest: each lookup gives the version in force.
  std::vector<int64_t> versions;
  for (int64_t opset = getNewestOpset(domain); opset > 0;) {
    int64_t version = 0;
    try {
      const OpSchema *schema =
          OpSchemaRegistry::Schema(opType, static_cast<int>(opset), domain);
      version = schema ? schema->since_version() : 0;
    } catch (const std::exception &) {
    }
    if (version == 0)
      break;
    versions.push_back(version);
    opset = version - 1;
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

} // namespace harmony::onnx
