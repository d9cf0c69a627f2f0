//===- TensorData.h - The data of ONNX tensors ---------------- -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_TENSORDATA_H
#define COMPILER_IMPORT_TENSORDATA_H

#include "onnx/onnx_pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace harmony {

/// Offset and length of `tensor`'s data in its external file, whose name goes
/// to `file`. `length` is left alone where the model states none. Returns what
/// is wrong; empty if all is well.
std::string readExternalReference(const ::onnx::TensorProto &tensor,
                                  std::string &file, uint64_t &offset,
                                  uint64_t &length);

/// Bytes that `tensor` has in ONNX's raw layout. Returns what is wrong with its
/// type or shape; empty if all is well.
std::string getTensorSize(const ::onnx::TensorProto &tensor, uint64_t &bytes);

/// The message for TensorProto::DataType `type`, which has no layout here.
std::string describeUnsupportedType(int type);

/// The data of `tensor`, which is not external, in ONNX's raw layout.
std::vector<char> collectData(const ::onnx::TensorProto &tensor);

} // namespace harmony

#endif // COMPILER_IMPORT_TENSORDATA_H
