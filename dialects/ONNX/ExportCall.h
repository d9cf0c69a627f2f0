//===- ExportCall.h - The export that messages recommend -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_EXPORTCALL_H
#define DIALECTS_ONNX_EXPORTCALL_H

namespace harmony::onnx {

/// With it, every parameter stays one initializer under its own name.
inline constexpr const char *kExportCall =
    "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, "
    "optimize=False)";

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_EXPORTCALL_H
