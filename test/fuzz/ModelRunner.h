//===- ModelRunner.h - A model through the first stages ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_MODELRUNNER_H
#define TEST_FUZZ_MODELRUNNER_H

#include <string>
#include <vector>

namespace harmony::fuzz {

/// What the command line would say about a model.
struct RunOptions {
  std::vector<std::string> dims; ///< "name=value"
  std::string loss;
  bool forward = false;
};

/// Imports the file at `path`, reads the data of every initializer, and writes
/// the model and reads it again. Aborts where a stage fails without an error or
/// works with one, or where what was written is refused.
void runImport(const std::string &path);

/// Imports and normalises the file at `path`. Aborts as runImport, and where
/// what was normalised is not what normalisation promises.
void runNormalize(const std::string &path, const RunOptions &options);

} // namespace harmony::fuzz

#endif // TEST_FUZZ_MODELRUNNER_H
