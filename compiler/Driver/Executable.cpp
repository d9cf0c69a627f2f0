//===- Executable.cpp - The files that a compilation leaves ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Executable.h"

#include "compiler/Driver/OutputFiles.h"
#include "dialects/NN/NN.h"
#include "dialects/ONNX/ONNX.h"
#include "passes/Tasks/View.h"
#include "runtime/train/Payload.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace harmony;

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

std::set<std::string> harmony::externalFiles(ModuleOp imported,
                                             const std::string &path) {
  std::set<std::string> files;
  imported.walk([&](onnx::InitializerOp initializer) {
    auto external = dyn_cast<onnx::ExternalAttr>(initializer.getValue());
    if (!external)
      return;
    llvm::SmallString<128> file(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(file, external.getFile());
    files.insert(file.str().str());
  });
  return files;
}

using FileBuffers = llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>>;

/// The initial values of the module's parameters, buffers and states; `files`
/// keeps what they refer to. With `stayInFiles` those in external data files of
/// the model are named only. Returns a message on failure.
static std::string collectWeights(ModuleOp module, bool stayInFiles,
                                  FileBuffers &files,
                                  std::vector<WeightsEntry> &entries) {
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
    auto file = dyn_cast_or_null<nn::FileAttr>(variable.getInitialAttr());
    if (file && stayInFiles) {
      llvm::SmallString<128> path(file.getPath());
      if (std::error_code failure = llvm::sys::fs::make_absolute(path))
        return file.getPath().str() + ": " + failure.message();
      entry.file = path.str().str();
      entry.offset = file.getOffset();
    } else if (file) {
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
  return "";
}

std::string harmony::writeExecutable(const std::string &path,
                                     ArrayRef<char> payload, ModuleOp module,
                                     const std::string &fingerprint,
                                     bool stayInFiles) {
  // The runtime stands beside the compiler.
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> runtimePath(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(runtimePath, "harmony-train-host");
  auto runtime = llvm::MemoryBuffer::getFile(runtimePath, /*IsText=*/false,
                                             /*RequiresNullTerminator=*/false);
  if (!runtime)
    return std::string(runtimePath) + ": " + runtime.getError().message() +
           ": the runtime is part of the compiler's installation";
  ExecutableFiles files;
  FileBuffers buffers;
  files.path = path;
  files.fingerprint = fingerprint;
  if (std::string message =
          collectWeights(module, stayInFiles, buffers, files.weights);
      !message.empty())
    return message;
  uint64_t size = (*runtime)->getBufferSize();
  uint64_t offset = llvm::alignTo(size, HM_PAYLOAD_ALIGNMENT);
  std::string zeros(offset - size, '\0');
  HmPayloadTrailer trailer = {offset, payload.size(), {}};
  memcpy(trailer.magic, HM_PAYLOAD_MAGIC, sizeof trailer.magic);
  files.parts = {std::string_view((*runtime)->getBufferStart(), size),
                 zeros,
                 {payload.data(), payload.size()},
                 {reinterpret_cast<const char *>(&trailer), sizeof trailer}};
  return writeExecutableFiles(files);
}
