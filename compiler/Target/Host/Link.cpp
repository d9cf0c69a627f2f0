//===- Link.cpp - Shared objects in process -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Host/HostTarget.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace harmony;

FailureOr<SmallVector<char, 0>> harmony::linkSharedObject(ArrayRef<char> object,
                                                          std::string &error) {
  // lld reads and writes files; these live as long as this call.
  SmallString<128> input, output;
  int descriptor;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "harmonyc", "o", descriptor, input)) {
    error = "temporary object: " + code.message();
    return failure();
  }
  auto removeInput =
      llvm::make_scope_exit([&] { llvm::sys::fs::remove(input); });
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream.write(object.data(), object.size());
    stream.flush();
    if (stream.has_error()) {
      error = "temporary object " + input.str().str() + ": " +
              stream.error().message();
      stream.clear_error();
      return failure();
    }
  }
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("harmonyc", "so", output)) {
    error = "temporary shared object: " + code.message();
    return failure();
  }
  auto removeOutput =
      llvm::make_scope_exit([&] { llvm::sys::fs::remove(output); });

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
