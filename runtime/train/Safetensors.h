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

#include "runtime/hal/AtomicFile.h"
#include "runtime/train/Array.h"
#include "runtime/train/FileMapping.h"

#include <functional>
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

  /// Adds the tensors of ExternalFile::describe in the metadata, if there are
  /// any: for weights files that harmonyc wrote, since the paths are followed.
  /// Throws Data, also where a file is not the one that was described.
  void addExternal();

private:
  std::string filePath;
  std::vector<Array> arrays;
  std::map<std::string, size_t> indices;
  std::map<std::string, std::string> info;
};

/// A file of which a weights file uses parts.
struct ExternalFile {
  std::string path; // absolute
  const FileMapping *mapping = nullptr;
  std::vector<Array> arrays; // within the mapping

  /// For the metadata of a weights file, under HM_EXTERNAL_KEY.
  static std::string describe(const std::vector<ExternalFile> &files);
};

/// Writes a file that is complete or not changed at all. Throws Failure.
void writeSafetensors(const std::string &path, const std::vector<Array> &arrays,
                      const std::map<std::string, std::string> &metadata);
/// The same, to be committed by the caller. `write`: writes the bytes of an
/// array, where they are not in memory.
void writeSafetensors(AtomicFile &file, const std::vector<Array> &arrays,
                      const std::map<std::string, std::string> &metadata,
                      const std::function<void(const Array &)> &write = {});

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_SAFETENSORS_H
