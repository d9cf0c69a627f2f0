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

static constexpr StringLiteral kDetached = "%detach";

bool harmony::onnx::needsTracedCall(StringRef opType, StringRef call) {
  return opType == "Gather" || opType == "SoftmaxCrossEntropyLoss" ||
         call.contains(kDetached);
}

static StringRef getTracedCall(NodeOp node) {
  auto metadata = node->getAttrOfType<DictionaryAttr>("onnx.metadata");
  auto call =
      metadata ? metadata.getAs<StringAttr>(kTracedCallKey) : StringAttr();
  return call ? call.getValue() : StringRef();
}

StringRef harmony::onnx::getTracedName(NodeOp node) {
  return getTracedCall(node).take_until([](char c) { return c == ' '; });
}

SmallVector<StringRef> harmony::onnx::getDetachedArguments(NodeOp node) {
  SmallVector<StringRef> names;
  StringRef rest = getTracedCall(node).split("(args = (").second;
  for (size_t at; (at = rest.find(kDetached)) != StringRef::npos;) {
    names.push_back(rest.drop_front(at).take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '%'; }));
    rest = rest.drop_front(at + names.back().size());
  }
  return names;
}

std::optional<StringRef> harmony::onnx::getTracedArgument(NodeOp node,
                                                          StringRef function,
                                                          unsigned index,
                                                          StringRef name) {
  StringRef call = getTracedCall(node);
  std::string target = ("aten." + function + ".default](args = (").str();
  size_t start = call.find(target);
  if (start == StringRef::npos)
    return std::nullopt;
  auto [positional, named] = call.drop_front(start + target.size()).split(')');
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
