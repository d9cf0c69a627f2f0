//===- WeightsFile.h - Initial weights as safetensors -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_WEIGHTSFILE_H
#define COMPILER_DRIVER_WEIGHTSFILE_H

#include "runtime/program.h"

#include <string>
#include <vector>

namespace harmony {

/// One tensor: its bytes lie at `data`, or in `owned` where that is not empty.
struct WeightsEntry {
  std::string name;
  HmType type = HM_F32;
  std::vector<int64_t> shape;
  const char *data = nullptr;
  std::vector<char> owned;
  int64_t bytes = 0;
};

/// Writes a safetensors file, complete or not at all. Returns a message on
/// failure.
std::string writeWeightsFile(const std::string &path,
                             const std::vector<WeightsEntry> &entries,
                             const std::string &fingerprint);

} // namespace harmony

#endif // COMPILER_DRIVER_WEIGHTSFILE_H
