//===- ModelCheck.h - What must hold before a model is imported -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_MODELCHECK_H
#define COMPILER_IMPORT_MODELCHECK_H

#include "onnx/onnx_pb.h"

#include <map>
#include <string>
#include <vector>

namespace harmony {

/// A training_info whose graphs stand for themselves.
struct PreparedTraining {
  /// The combined training graph: the inference graph, then the algorithm.
  ::onnx::GraphProto algorithm;
  bool hasInitialization = false;
  ::onnx::GraphProto initialization;
};

/// A model without model-local functions, with inferred types.
struct PreparedModel {
  /// Everything but training_info's graphs; its bindings are there.
  ::onnx::ModelProto model;
  std::vector<PreparedTraining> trainings;
  /// Domain ("" for ai.onnx) to operator set.
  std::map<std::string, int64_t> opsets;
  /// What is strange and can be read nevertheless.
  std::vector<std::string> warnings;
};

/// Checks `model`, whose external files are in `folder`, and prepares it. Every
/// problem is appended to `problems`; the result counts only if there is none.
void prepareModel(::onnx::ModelProto model, const std::string &folder,
                  PreparedModel &prepared, std::vector<std::string> &problems);

/// 'node "name" (Type)': how messages call a node. Without a name, by its first
/// output's.
std::string describeNode(const ::onnx::NodeProto &node);

/// The name that stands for `node` in locations: its own or its first output's.
std::string getNodeName(const ::onnx::NodeProto &node);

/// The attribute `name` of `node`, or null.
const ::onnx::AttributeProto *findAttribute(const ::onnx::NodeProto &node,
                                            const char *name);

/// `domain` with the two spellings of ONNX's own domain made one.
inline std::string normalizeDomain(const std::string &domain) {
  return domain == "ai.onnx" ? "" : domain;
}

/// Whether `node` is ai.onnx.preview.training's Gradient.
inline bool isGradient(const ::onnx::NodeProto &node) {
  return node.op_type() == "Gradient" &&
         node.domain() == "ai.onnx.preview.training";
}

} // namespace harmony

#endif // COMPILER_IMPORT_MODELCHECK_H
