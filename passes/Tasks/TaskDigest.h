//===- TaskDigest.h - What tells tasks apart --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_TASKDIGEST_H
#define PASSES_TASKS_TASKDIGEST_H

#include "dialects/Harmony/Harmony.h"

#include <string>

namespace harmony {

/// The first 16 hexadecimal digits of a SHA-256.
std::string digest(llvm::StringRef text);

/// The code of a task, a line for each launch: kernels (their names are hashes
/// of what they compute), extents, products and their blocks, convolutions. Not
/// where operands lie, nor the grain.
void describeTask(schedule::TaskOp task, llvm::raw_ostream &stream);

/// The digest of that: the key of measured costs.
std::string digestTask(schedule::TaskOp task);

} // namespace harmony

#endif // PASSES_TASKS_TASKDIGEST_H
