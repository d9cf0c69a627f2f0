//===- ModelFuzzer.cpp - Damaged models -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is a model, as ONNX protobuf or ONNX text; mutations change its
// parts rather than its bytes. How it is normalised follows from its graph's
// name: "forward..." has no loss, "entropy..." and "mse..." get that one. Every
// symbolic dimension but N and batch, the samples, is 3.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ModelMutator.h"
#include "test/fuzz/ModelRunner.h"
#include "test/fuzz/Sandbox.h"

#include <cstring>
#include <set>

using namespace harmony::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Sandbox sandbox;
  onnx::ModelProto model;
  if (!parseModel(data, size, model))
    return 0;
  std::set<std::string> symbols;
  for (const auto &input : model.graph().input())
    for (const auto &dim : input.type().tensor_type().shape().dim())
      if (!dim.dim_param().empty() && dim.dim_param() != "N" &&
          dim.dim_param() != "batch")
        symbols.insert(dim.dim_param());
  RunOptions options;
  for (const std::string &symbol : symbols)
    options.dims.push_back(symbol + "=3");
  const std::string &name = model.graph().name();
  options.forward = name.rfind("forward", 0) == 0;
  if (name.rfind("entropy", 0) == 0)
    options.loss = "cross-entropy";
  if (name.rfind("mse", 0) == 0)
    options.loss = "mse";
  std::string bytes = model.SerializeAsString();
  runNormalize(sandbox.write("model.onnx", bytes.data(), bytes.size()),
               options);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maximum, unsigned seed) {
  onnx::ModelProto model;
  if (!parseModel(data, size, model))
    model.Clear();
  mutateModel(model, seed);
  std::string bytes = model.SerializeAsString();
  if (bytes.size() > maximum)
    return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first,
                                            size_t firstSize,
                                            const uint8_t *second,
                                            size_t secondSize, uint8_t *output,
                                            size_t maximum, unsigned seed) {
  onnx::ModelProto model, other;
  if (!parseModel(first, firstSize, model) ||
      !parseModel(second, secondSize, other))
    return 0;
  joinModels(model, other, seed);
  std::string bytes = model.SerializeAsString();
  if (bytes.size() > maximum)
    return 0;
  std::memcpy(output, bytes.data(), bytes.size());
  return bytes.size();
}
