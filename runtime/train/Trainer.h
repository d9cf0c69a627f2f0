//===- Trainer.h - The training loop ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_TRAINER_H
#define RUNTIME_TRAIN_TRAINER_H

#include "runtime/train/PayloadLoader.h"

#include <string>
#include <vector>

namespace harmony::runtime {

/// The whole of a training executable: parses the arguments, trains, evaluates,
/// saves. Returns the exit code; throws Error. Installs handlers for SIGINT and
/// SIGTERM while it runs: the step in progress is finished and saved.
int runExecutable(const Payload &payload,
                  const std::vector<std::string> &arguments);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_TRAINER_H
