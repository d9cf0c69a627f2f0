//===- ImportFuzzer.cpp - Bytes as model files ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte of the input says by which ending the rest is read: 'o' ONNX
// protobuf, 't' ONNX text, 'p' protobuf text.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ModelRunner.h"
#include "test/fuzz/Sandbox.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static harmony::fuzz::Sandbox sandbox;
  if (size == 0)
    return 0;
  const char *name = data[0] == 't'   ? "model.onnxtext"
                     : data[0] == 'p' ? "model.textproto"
                                      : "model.onnx";
  harmony::fuzz::runImport(sandbox.write(name, data + 1, size - 1));
  return 0;
}
