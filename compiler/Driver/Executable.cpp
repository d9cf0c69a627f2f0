//===- Executable.cpp - The files that a compilation leaves ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Executable.h"

#include "compiler/Driver/WeightsFile.h"
#include "dialects/NN/NN.h"
#include "passes/Tasks/View.h"
#include "runtime/train/Payload.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace harmony;

std::string harmony::writeExecutable(StringRef path, ArrayRef<char> payload) {
  // The runtime stands beside the compiler.
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> runtimePath(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(runtimePath, "harmony-train-host");
  auto runtime = llvm::MemoryBuffer::getFile(runtimePath, /*IsText=*/false,
                                             /*RequiresNullTerminator=*/false);
  if (!runtime)
    return std::string(runtimePath) + ": " + runtime.getError().message() +
           ": the runtime is part of the compiler's installation";

  auto temporary = llvm::sys::fs::TempFile::create(
      path + ".%%%%%%.tmp", llvm::sys::fs::all_read | llvm::sys::fs::all_write |
                                llvm::sys::fs::all_exe);
  if (!temporary)
    return path.str() + ": " + llvm::toString(temporary.takeError());
  {
    llvm::raw_fd_ostream stream(temporary->FD, /*shouldClose=*/false);
    stream << (*runtime)->getBuffer();
    uint64_t offset =
        llvm::alignTo((*runtime)->getBufferSize(), HM_PAYLOAD_ALIGNMENT);
    stream.write_zeros(offset - (*runtime)->getBufferSize());
    stream.write(payload.data(), payload.size());
    HmPayloadTrailer trailer = {offset, payload.size(), {}};
    memcpy(trailer.magic, HM_PAYLOAD_MAGIC, sizeof trailer.magic);
    stream.write(reinterpret_cast<const char *>(&trailer), sizeof trailer);
    stream.flush();
    if (std::error_code failure = stream.error()) {
      stream.clear_error();
      llvm::consumeError(temporary->discard());
      return path.str() + ": " + failure.message();
    }
  }
  if (llvm::Error failure = temporary->keep(path))
    return path.str() + ": " + llvm::toString(std::move(failure));
  if (std::error_code failure = llvm::sys::fs::setPermissions(
          path,
          static_cast<llvm::sys::fs::perms>(0777 & ~llvm::sys::fs::getUmask())))
    return path.str() + ": " + failure.message();
  return "";
}

static HmType typeCode(Type element) {
  if (element.isF32())
    return HM_F32;
  if (element.isF64())
    return HM_F64;
  if (element.isInteger(64))
    return HM_I64;
  if (element.isInteger(32))
    return HM_I32;
  if (element.isInteger(1))
    return HM_BOOL;
  return HM_I8;
}

std::string harmony::writeWeights(StringRef executable, ModuleOp module,
                                  const std::string &fingerprint) {
  std::vector<WeightsEntry> entries;
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    // Optimizer state begins at zero, constants are part of the program.
    if (variable.getRole() > nn::Role::state)
      continue;
    auto type = cast<RankedTensorType>(variable.getType());
    WeightsEntry entry;
    entry.name = variable.getSymName().str();
    entry.type = typeCode(type.getElementType());
    entry.shape.assign(type.getShape().begin(), type.getShape().end());
    int64_t bytes = tensorBytes(type);
    if (auto file = dyn_cast_or_null<nn::FileAttr>(variable.getInitialAttr())) {
      auto &buffer = files[file.getPath()];
      if (!buffer) {
        auto opened = llvm::MemoryBuffer::getFile(
            file.getPath(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
        if (!opened)
          return file.getPath().str() + ": " + opened.getError().message();
        buffer = std::move(*opened);
      }
      if (file.getOffset() < 0 ||
          static_cast<uint64_t>(file.getOffset() + file.getLength()) >
              buffer->getBufferSize())
        return file.getPath().str() + ": too short for tensor '" + entry.name +
               "'";
      entry.data = buffer->getBufferStart() + file.getOffset();
    } else if (auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(
                   variable.getInitialAttr())) {
      entry.data = resource.getRawHandle().getBlob()->getData().data();
    } else {
      auto dense =
          dyn_cast_or_null<DenseElementsAttr>(variable.getInitialAttr());
      entry.owned.resize(bytes);
      if (dense && type.getElementType().isInteger(1)) {
        // Packed bits in the attribute, bytes in the file.
        for (auto [index, value] : llvm::enumerate(dense.getValues<bool>()))
          entry.owned[index] = value;
      } else if (dense && dense.isSplat()) {
        ArrayRef<char> element = dense.getRawData();
        for (int64_t at = 0; at < bytes; at += element.size())
          memcpy(entry.owned.data() + at, element.data(), element.size());
      } else if (dense) {
        memcpy(entry.owned.data(), dense.getRawData().data(), bytes);
      }
    }
    entry.bytes = bytes;
    entries.push_back(std::move(entry));
  }
  return writeWeightsFile((executable + HM_WEIGHTS_SUFFIX).str(), entries,
                          fingerprint);
}
