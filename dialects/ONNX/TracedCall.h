//===- TracedCall.h - What PyTorch's exporter has traced --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_TRACEDCALL_H
#define DIALECTS_ONNX_TRACEDCALL_H

#include "dialects/ONNX/ONNX.h"

namespace harmony::onnx {

/// Key of a node's metadata under which torch.onnx keeps the traced call:
/// "%e : ... = call_function[target=torch.ops.aten.embedding.default](args =
/// (%weight, %indices, 0), kwargs = {})". Arguments for which ONNX has no place
/// are found nowhere else.
inline constexpr llvm::StringLiteral kTracedCallKey = "pkg.torch.onnx.fx_node";

/// Whether something in the traced call of a node of this operator is for the
/// functions below.
bool needsTracedCall(llvm::StringRef opType, llvm::StringRef call);

/// Argument `index`, called `name`, of the call of aten.`function` that `node`
/// was traced from: its text, "" where the call leaves it out. Nothing where
/// the node notes no such call.
std::optional<llvm::StringRef> getTracedArgument(NodeOp node,
                                                 llvm::StringRef function,
                                                 unsigned index,
                                                 llvm::StringRef name);

/// `%e` of the call above; "" where the node notes none.
llvm::StringRef getTracedName(NodeOp node);

/// The results of detach, `%detach_2`, among the arguments of the traced call.
llvm::SmallVector<llvm::StringRef> getDetachedArguments(NodeOp node);

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_TRACEDCALL_H
