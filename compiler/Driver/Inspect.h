//===- Inspect.h - What harmonyc makes of a model ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_INSPECT_H
#define COMPILER_DRIVER_INSPECT_H

#include "compiler/Driver/Options.h"

#include "mlir/IR/MLIRContext.h"

namespace harmony {

/// `harmonyc inspect`: inputs, outputs, loss, what trains and why, ties,
/// operators, layers, levels of keeping. What is not supported is on stderr;
/// returns the exit code.
int inspectModel(const CompilerOptions &options, mlir::MLIRContext &context);

} // namespace harmony

#endif // COMPILER_DRIVER_INSPECT_H
