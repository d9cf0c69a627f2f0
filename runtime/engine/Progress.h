//===- Progress.h - Does a program run to its end? --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_PROGRESS_H
#define RUNTIME_ENGINE_PROGRESS_H

#include "runtime/program.h"

#include <string>

namespace harmony::runtime {

class Blob;

/// Replays waits and signals alone, for the first two executions (later ones
/// differ from the second in nothing: all waits move by a period). Returns an
/// empty string when every queue ends, otherwise which queue waits for what.
/// Since queues are sequential and timelines only grow, one order that ends
/// proves that every order does.
std::string findStuckWait(const Blob &blob, HmProgramKind kind);

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_PROGRESS_H
