//===- ModelMutator.h - Changes of a model's parts --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_MODELMUTATOR_H
#define TEST_FUZZ_MODELMUTATOR_H

#include "onnx/onnx_pb.h"

#include <cstddef>
#include <cstdint>

namespace harmony::fuzz {

/// Reads ONNX text where the input begins with '<', else ONNX protobuf. False
/// where it is neither.
bool parseModel(const uint8_t *data, size_t size, onnx::ModelProto &model);

/// Changes one to four parts of `model`: nodes, edges, attributes, types,
/// extents, tensors, external data, operator sets, functions, training_info.
/// What comes out is seldom valid, and seldom refused for its form alone.
void mutateModel(onnx::ModelProto &model, uint64_t seed);

/// Appends nodes of `other`, and what they read, to `model`.
void joinModels(onnx::ModelProto &model, const onnx::ModelProto &other,
                uint64_t seed);

} // namespace harmony::fuzz

#endif // TEST_FUZZ_MODELMUTATOR_H
