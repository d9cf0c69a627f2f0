//===- Executable.h - The files that a compilation leaves -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_EXECUTABLE_H
#define COMPILER_DRIVER_EXECUTABLE_H

#include "mlir/IR/BuiltinOps.h"

#include <set>
#include <string>

namespace harmony {

/// The external data files that the model at `path` names, as it was imported.
std::set<std::string> externalFiles(mlir::ModuleOp imported,
                                    const std::string &path);

/// Writes runtime, payload and trailer (runtime/train/Payload.h) to `path` and
/// the initial values of the module's parameters, buffers and states to `path`
/// + HM_WEIGHTS_SUFFIX. Both are complete before either replaces what was
/// there. Returns a message on failure.
std::string writeExecutable(const std::string &path,
                            llvm::ArrayRef<char> payload, mlir::ModuleOp module,
                            const std::string &fingerprint, bool stayInFiles);

} // namespace harmony

#endif // COMPILER_DRIVER_EXECUTABLE_H
