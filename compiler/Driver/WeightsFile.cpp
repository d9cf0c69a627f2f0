//===- WeightsFile.cpp - Initial weights as safetensors -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/WeightsFile.h"

#include "runtime/train/Payload.h"
#include "runtime/train/Safetensors.h"

using namespace harmony;

std::string harmony::writeWeightsFile(const std::string &path,
                                      const std::vector<WeightsEntry> &entries,
                                      const std::string &fingerprint) {
  std::vector<runtime::Array> arrays;
  for (const WeightsEntry &entry : entries) {
    runtime::Array array;
    array.file = path;
    array.key = entry.name;
    array.type = entry.type;
    array.shape = entry.shape;
    array.data = entry.owned.empty() ? entry.data : entry.owned.data();
    array.bytes = entry.bytes;
    arrays.push_back(array);
  }
  try {
    runtime::writeSafetensors(path, arrays,
                              {{HM_FINGERPRINT_KEY, fingerprint}});
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}
