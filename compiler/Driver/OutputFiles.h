//===- OutputFiles.h - What a command writes --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The border between the runtime's files, which throw, and MLIR code, which
// does not. A file is complete or not changed at all. Functions return a
// message on failure, "" otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_OUTPUTFILES_H
#define COMPILER_DRIVER_OUTPUTFILES_H

#include "compiler/Driver/Options.h"
#include "runtime/program.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace harmony {

/// One tensor: its bytes lie at `data`, in `owned` where that is not empty, or
/// at `offset` of `file` where that is not: there they stay.
struct WeightsEntry {
  std::string name;
  HmType type = HM_F32;
  std::vector<int64_t> shape;
  const char *data = nullptr;
  std::vector<char> owned;
  std::string file; ///< absolute path
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Tries every file that `options` names for writing, before the work begins:
/// whether it can be written, and that it is neither another output nor
/// something that the command reads.
std::string checkOutputs(const CompilerOptions &options);

/// Whether an output is one of the model's external data files.
std::string checkOutputsApart(const CompilerOptions &options,
                              const std::set<std::string> &externalFiles);

std::string writeTextFile(const std::string &path, const std::string &text);

/// An executable and the safetensors file of its weights: both are complete
/// before either replaces what was there.
struct ExecutableFiles {
  std::string path;
  std::vector<std::string_view> parts; ///< the executable, piece by piece
  std::vector<WeightsEntry> weights;
  std::string fingerprint;
};
std::string writeExecutableFiles(const ExecutableFiles &files);

} // namespace harmony

#endif // COMPILER_DRIVER_OUTPUTFILES_H
