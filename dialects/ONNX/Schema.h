//===- Schema.h - The ONNX library's operator schemas ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the dialect asks the ONNX library, without its headers and without its
// exceptions: both end in Schema.cpp. The domain "ai.onnx" is spelled "".
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_SCHEMA_H
#define DIALECTS_ONNX_SCHEMA_H

#include <cstdint>
#include <string>
#include <vector>

namespace harmony::onnx {

/// The kinds of AttributeProto, with its numbers. EmptyList is a list whose
/// element kind cannot be seen.
enum class AttributeKind {
  EmptyList = -1,
  Unknown = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  Type = 13,
  Types = 14
};

/// What of a node the schema speaks about.
struct NodeDescription {
  std::string opType;
  std::string domain;
  /// Since-version of the operator.
  int64_t version = 0;
  struct NamedKind {
    std::string name;
    AttributeKind kind;
  };
  std::vector<NamedKind> attributes;
  /// One entry per input or output: whether it is there.
  std::vector<bool> inputs, outputs;
};

/// What is wrong with `node`, all of it, separated by "; ". Empty if it is
/// fine.
std::string checkNode(const NodeDescription &node);

/// The newest operator set of `domain` that the library knows; 0 for a domain
/// that it does not know.
int64_t getNewestOpset(const std::string &domain);

/// The since-version of `opType` in operator set `opset` of `domain`; 0 if
/// there is no such operator in it, or if it is withdrawn: its newest version
/// is deprecated (Scatter).
int64_t getSinceVersion(const std::string &opType, const std::string &domain,
                        int64_t opset);

/// Whether the version in force is deprecated, but a later one of the operator
/// is not (GroupNormalization 18): in use, though the library's checker refuses
/// it.
bool isReplaced(const std::string &opType, const std::string &domain,
                int64_t opset);

/// The kind that the schema gives attribute `name`; Unknown if it has none.
AttributeKind getAttributeKind(const std::string &opType,
                               const std::string &domain, int64_t version,
                               const std::string &name);

/// All since-versions of `opType` in `domain`, ascending.
std::vector<int64_t> getVersions(const std::string &opType,
                                 const std::string &domain);

/// "FLOAT", "INTS", ...
const char *getKindName(AttributeKind kind);

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_SCHEMA_H
