//===- Safetensors.h - The safetensors format -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Eight bytes of header length, a JSON header, then the tensors' bytes without
// gaps (https://github.com/huggingface/safetensors, "Format"). The reader
// refuses everything that the format does not allow.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_SAFETENSORS_H
#define RUNTIME_TRAIN_SAFETENSORS_H

#include "runtime/train/Array.h"
#include "runtime/train/FileMapping.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace harmony::runtime {

class SafetensorsFile {
public:
  /// Maps the file and checks all of its header. Throws Data naming file and
  /// key.
  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return filePath; }
  /// In the order of their bytes.
  std::vector<std::string> names() const;
  /// Null when there is none. The array shares the mapping.
  const Array *find(const std::string &name) const;
  const std::map<std::string, std::string> &metadata() const { return info; }

private:
  std::string filePath;
  std::vector<Array> arrays;
  std::map<std::string, size_t> indices;
  std::map<std::string, std::string> info;
};

/// Writes a file under a temporary name beside `path`, syncs it and renames it,
/// so that `path` is either the old file or the complete new one. Throws
/// Failure.
void writeSafetensors(const std::string &path, const std::vector<Array> &arrays,
                      const std::map<std::string, std::string> &metadata);

/// Whether writeSafetensors could write there, tried before there is something
/// to lose. Throws Failure.
void checkWritable(const std::string &path);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_SAFETENSORS_H
