//===- PayloadGenerator.cpp - Writes a hand-made program as source --------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/LinearModel.h"

#include <cstdio>

/// Stands in for the compiler: the program goes to standard output as a C++
/// array.
int main() {
  using namespace harmony::runtime::test;
  BlobBuilder::Bytes bytes = linearModel().finish();
  std::printf("#include <stdint.h>\n"
              "extern \"C\" {\n"
              "extern const uint64_t harmony_program_size;\n"
              "const uint64_t harmony_program_size = %llu;\n"
              "extern const unsigned char harmony_program[%llu];\n"
              "alignas(64) const unsigned char harmony_program[%llu] = {",
              static_cast<unsigned long long>(bytes.size),
              static_cast<unsigned long long>(bytes.size),
              static_cast<unsigned long long>(bytes.size));
  for (uint64_t i = 0; i < bytes.size; ++i)
    std::printf("%u,", static_cast<unsigned char>(bytes.data.get()[i]));
  std::printf("};\n}\n");
}
