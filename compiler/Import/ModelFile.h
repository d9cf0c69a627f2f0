//===- ModelFile.h - Reading and writing ONNX files ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_MODELFILE_H
#define COMPILER_IMPORT_MODELFILE_H

#include "compiler/Import/Import.h"

#include "onnx/onnx_pb.h"

#include <string>

namespace harmony {

/// PyTorch's exporter tells in this metadata what an initializer is.
inline constexpr const char *kindKey =
    "pkg.torch.export.graph_signature.InputSpec.kind";

/// Reads the model at `path` into `model`. Returns what is wrong; empty if all
/// is well.
std::string readModel(const std::string &path, ::onnx::ModelProto &model);

/// Writes `model` into `text`. Returns what is wrong; empty if all is well.
std::string writeModel(const ::onnx::ModelProto &model, ModelFormat format,
                       std::string &text);

} // namespace harmony

#endif // COMPILER_IMPORT_MODELFILE_H
