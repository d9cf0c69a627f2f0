//===- ExternalFile.h - Files that hold a model's tensors ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model names the files that hold its tensors, and a model can come from
// anyone: such a name must not reach out of the model's folder. Accepted is a
// regular file in that folder or below it, by a relative path without "..";
// neither it nor a folder on the way may be a symbolic link. The file is opened
// folder by folder without following links, so the check and the use see the
// same file.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_EXTERNALFILE_H
#define DIALECTS_ONNX_EXTERNALFILE_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace harmony::onnx {

/// Opens `name`, relative to `folder` ("" is the current one), for reading.
/// Returns a file descriptor, which the caller closes, and its size in bytes;
/// or -1 and in `error` what is wrong.
int openExternalFile(const std::string &folder, const std::string &name,
                     uint64_t &size, std::string &error);

/// What is wrong with the range of `length` bytes from `offset` on of a file of
/// `size` bytes. Empty if nothing is.
std::string checkExternalRange(uint64_t offset, uint64_t length, uint64_t size);

/// External files, each mapped once, read-only, until the object goes.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder) : folder(std::move(folder)) {}
  ExternalFiles(const ExternalFiles &) = delete;
  ExternalFiles &operator=(const ExternalFiles &) = delete;
  ~ExternalFiles();

  /// The first of `length` bytes of file `name` from `offset` on; null and
  /// `error` if they are not to be had. Zero bytes give a non-null pointer.
  const char *map(const std::string &name, uint64_t offset, uint64_t length,
                  std::string &error);

private:
  struct Mapping {
    const char *data = nullptr;
    uint64_t size = 0;
  };
  std::string folder;
  std::map<std::string, Mapping> mappings;
};

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_EXTERNALFILE_H
