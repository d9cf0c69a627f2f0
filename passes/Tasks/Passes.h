//===- Passes.h - Functions to tasks ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_PASSES_H
#define PASSES_TASKS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace harmony {

#define GEN_PASS_DECL
#include "passes/Tasks/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Tasks/Passes.h.inc"

} // namespace harmony

#endif // PASSES_TASKS_PASSES_H
