//===- Array.h - Arrays and the files that hold them ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_ARRAY_H
#define RUNTIME_TRAIN_ARRAY_H

#include "runtime/program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace harmony::runtime {

/// One array of a data or weights file, in C order. Copies share the bytes.
struct Array {
  std::string file; // for messages
  std::string key;
  HmType type = HM_F32;
  std::vector<int64_t> shape;
  const char *data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

/// "f32 [12, 64]": for messages.
std::string describe(unsigned type, const std::vector<int64_t> &shape);

/// Element count times element size; -1 when it overflows.
int64_t arrayBytes(unsigned type, const std::vector<int64_t> &shape);

/// The integer or boolean of HmType `type` at `from`.
int64_t readInteger(unsigned type, const char *from);

/// A file (or several) that holds arrays under names. Arrays are read when
/// asked for, so an array that nobody needs may be of a kind that cannot be
/// read.
class ArraySource {
public:
  virtual ~ArraySource() = default;
  virtual const std::string &file() const = 0;
  virtual std::vector<std::string> names() const = 0;
  /// `name` is one of names(). Throws Data naming file, key, expected and
  /// found.
  virtual Array load(const std::string &name) const = 0;
};

/// SOURCE of --data: FILE.npz, FILE.safetensors or NAME=FILE.npy. Throws Data.
std::unique_ptr<ArraySource> openSource(const std::string &source);

/// The array in a .npy file's bytes. numpy's format description, versions 1
/// to 3. Big-endian arrays, those in Fortran order, and integers of widths that
/// HmType does not have (which get the next one that holds them) are copied;
/// others share `bytes`, which `owner` keeps.
Array parseNpy(const std::string &file, const std::string &key,
               const char *bytes, size_t size,
               std::shared_ptr<const void> owner);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_ARRAY_H
