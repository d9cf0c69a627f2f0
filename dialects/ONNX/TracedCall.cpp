//===- TracedCall.cpp - What PyTorch's exporter has traced ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/ONNX/TracedCall.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::onnx;

bool harmony::onnx::needsTracedCall(StringRef opType) {
  return opType == "Gather" || opType == "SoftmaxCrossEntropyLoss";
}

std::optional<StringRef> harmony::onnx::getTracedArgument(NodeOp node,
                                                          StringRef function,
                                                          unsigned index,
                                                          StringRef name) {
  auto metadata = node->getAttrOfType<DictionaryAttr>("onnx.metadata");
  auto call =
      metadata ? metadata.getAs<StringAttr>(kTracedCallKey) : StringAttr();
  if (!call)
    return std::nullopt;
  std::string target = ("aten." + function + ".default](args = (").str();
  size_t start = call.getValue().find(target);
  if (start == StringRef::npos)
    return std::nullopt;
  auto [positional, named] =
      call.getValue().drop_front(start + target.size()).split(')');
  SmallVector<StringRef> arguments;
  positional.split(arguments, ',');
  if (index < arguments.size())
    return arguments[index].trim();
  size_t key = named.find((name + ": ").str());
  if (key == StringRef::npos)
    return StringRef();
  return named.drop_front(key + name.size() + 2)
      .take_until([](char c) { return c == ',' || c == '}'; })
      .trim();
}
