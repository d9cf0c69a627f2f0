//===- Link.cpp - Shared objects in process -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Host/HostTarget.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace harmony;

FailureOr<SmallVector<char, 0>> harmony::linkSharedObject(ArrayRef<char> object,
                                                          std::string &error) {
  // lld reads and writes files; these live as long as this call, whatever ends
  // it.
  SmallString<128> input, output;
  int inputDescriptor, outputDescriptor;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "harmonyc", "o", inputDescriptor, input)) {
    error = "temporary object: " + code.message();
    return failure();
  }
  llvm::ToolOutputFile inputFile(input, inputDescriptor);
  inputFile.os().write(object.data(), object.size());
  inputFile.os().close();
  if (inputFile.os().has_error()) {
    error = "temporary object " + input.str().str() + ": " +
            inputFile.os().error().message();
    inputFile.os().clear_error();
    return failure();
  }
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "harmonyc", "so", outputDescriptor, output)) {
    error = "temporary shared object: " + code.message();
    return failure();
  }
  llvm::ToolOutputFile outputFile(output, outputDescriptor);
  outputFile.os().close();

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const char *arguments[] = {"ld.lld",
                             "-shared",
                             "--hash-style=gnu",
                             "--build-id=none",
                             "-z",
                             "separate-code",
                             "-z",
                             "relro",
                             "-o",
                             output.c_str(),
                             input.c_str()};
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode) {
    error = messages;
    return failure();
  }
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) {
    error = "linked object " + output.str().str() + ": " +
            buffer.getError().message();
    return failure();
  }
  StringRef bytes = (*buffer)->getBuffer();
  return SmallVector<char, 0>(bytes.begin(), bytes.end());
}
