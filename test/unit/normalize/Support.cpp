//===- Support.cpp - Shared by the tests of normalisation -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "compiler/Import/Import.h"
#include "dialects/ONNX/ONNX.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

Model::Model() {
  context.loadDialect<nn::NNDialect, onnx::ONNXDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
}

Model::Model(StringRef path, const NormalizeOptions &options) : Model() {
  module = importModel(path, context);
  ok = module && run(createNormalizePass(options)) &&
       run(createVerifyNormalizedPass());
}

bool Model::run(std::unique_ptr<Pass> pass) {
  PassManager manager(&context);
  manager.addPass(std::move(pass));
  return succeeded(manager.run(*module));
}

bool Model::parse(StringRef text) {
  module = parseSourceString<ModuleOp>(text, &context);
  return ok = bool(module);
}

/// Fills a tensor from little-endian elements.
static HostTensor decode(Type element, ArrayRef<int64_t> shape,
                         const char *bytes) {
  HostTensor tensor(RankedTensorType::get(shape, element));
  auto load = [&](auto sample, int64_t i) {
    std::memcpy(&sample, bytes + i * sizeof(sample), sizeof(sample));
    return sample;
  };
  unsigned width = element.getIntOrFloatBitWidth();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (element.isF64())
      tensor.floats[i] = load(double(), i);
    else if (element.isF32())
      tensor.floats[i] = load(float(), i);
    else if (width == 64)
      tensor.integers[i] = load(int64_t(), i);
    else if (width == 32)
      tensor.integers[i] = load(int32_t(), i);
    else if (width == 16)
      tensor.integers[i] = load(int16_t(), i);
    else
      tensor.integers[i] = load(int8_t(), i);
  }
  return tensor;
}

llvm::StringMap<HostTensor>
harmony::test::readSafetensors(StringRef path, MLIRContext &context) {
  llvm::StringMap<HostTensor> tensors;
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return tensors;
  StringRef data = (*file)->getBuffer();
  uint64_t length = 0;
  std::memcpy(&length, data.data(), 8);
  llvm::Expected<llvm::json::Value> header =
      llvm::json::parse(data.substr(8, length));
  if (!header) {
    llvm::consumeError(header.takeError());
    return tensors;
  }
  for (const auto &entry : *header->getAsObject()) {
    const llvm::json::Object *object = entry.second.getAsObject();
    std::optional<StringRef> type = object->getString("dtype");
    if (!type)
      continue; // metadata
    Builder builder(&context);
    Type element = *type == "F32"   ? Type(builder.getF32Type())
                   : *type == "F64" ? Type(builder.getF64Type())
                   : *type == "I32" ? Type(builder.getI32Type())
                                    : Type(builder.getI64Type());
    SmallVector<int64_t> shape;
    for (const llvm::json::Value &extent : *object->getArray("shape"))
      shape.push_back(*extent.getAsInteger());
    int64_t offset = *(*object->getArray("data_offsets"))[0].getAsInteger();
    tensors[StringRef(entry.first)] =
        decode(element, shape, data.data() + 8 + length + offset);
  }
  return tensors;
}

namespace {
/// The fields of a protocol buffer message, one after the other.
class FieldReader {
public:
  explicit FieldReader(StringRef data) : data(data) {}

  bool next() {
    if (data.empty())
      return false;
    uint64_t key = readVarint();
    field = key >> 3;
    number = 0;
    bytes = StringRef();
    switch (key & 7) {
    case 0:
      number = readVarint();
      return true;
    case 1:
      return take(8);
    case 2:
      return take(readVarint());
    case 5:
      return take(4);
    default:
      return false;
    }
  }
  uint64_t readVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; !data.empty(); shift += 7) {
      auto byte = static_cast<uint8_t>(data.front());
      data = data.drop_front();
      value |= uint64_t(byte & 127) << shift;
      if (!(byte & 128))
        break;
    }
    return value;
  }
  bool isEmpty() const { return data.empty(); }

  uint64_t field = 0, number = 0;
  StringRef bytes;

private:
  bool take(size_t size) {
    bytes = data.take_front(size);
    data = data.drop_front(std::min(size, data.size()));
    return true;
  }
  StringRef data;
};
} // namespace

bool harmony::test::readTensorProto(StringRef path, MLIRContext &context,
                                    HostTensor &tensor) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return false;
  SmallVector<int64_t> shape;
  Type element;
  std::string raw;
  FieldReader reader((*file)->getBuffer());
  while (reader.next()) {
    if (reader.field == 1 && reader.bytes.empty())
      shape.push_back(reader.number);
    for (FieldReader packed(reader.field == 1 ? reader.bytes : StringRef());
         !packed.isEmpty();)
      shape.push_back(packed.readVarint());
    Builder builder(&context);
    if (reader.field == 2)
      switch (reader.number) {
      case 1:
        element = builder.getF32Type();
        break;
      case 2:
      case 3:
        element = builder.getIntegerType(8);
        break;
      case 4:
      case 5:
        element = builder.getIntegerType(16);
        break;
      case 6:
      case 12:
        element = builder.getI32Type();
        break;
      case 7:
      case 13:
        element = builder.getI64Type();
        break;
      case 9:
        element = builder.getI1Type();
        break;
      case 11:
        element = builder.getF64Type();
        break;
      default:
        return false;
      }
    if (reader.field == 9)
      raw = reader.bytes.str();
  }
  if (!element)
    return false;
  int64_t bytes = std::max(element.getIntOrFloatBitWidth() / 8, 1u);
  for (int64_t extent : shape)
    bytes *= extent;
  if (static_cast<int64_t>(raw.size()) != bytes)
    return false;
  tensor = decode(element, shape, raw.data());
  return true;
}

static void appendVarint(std::string &bytes, uint64_t value) {
  for (; value >= 128; value >>= 7)
    bytes.push_back(static_cast<char>(value | 128));
  bytes.push_back(static_cast<char>(value));
}

static std::string makeField(unsigned number, StringRef bytes) {
  std::string field;
  appendVarint(field, number << 3 | 2);
  appendVarint(field, bytes.size());
  return field + bytes.str();
}

std::string
harmony::test::writeModelWithInitializers(StringRef model,
                                          ArrayRef<std::string> tensorFiles) {
  auto file = llvm::MemoryBuffer::getFile(model);
  if (!file)
    return "";
  // A message that stands twice in another is merged: a second ModelProto.graph
  // (field 7) adds to GraphProto.initializer (field 5).
  std::string initializers;
  for (const std::string &path : tensorFiles) {
    auto tensor = llvm::MemoryBuffer::getFile(path);
    if (!tensor)
      return "";
    initializers += makeField(5, (*tensor)->getBuffer());
  }
  int descriptor = -1;
  SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("node", "onnx", descriptor, path))
    return "";
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << (*file)->getBuffer() << makeField(7, initializers);
  return path.str().str();
}

std::string harmony::test::readTensorName(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return "";
  for (FieldReader reader((*file)->getBuffer()); reader.next();)
    if (reader.field == 8)
      return reader.bytes.str();
  return "";
}

HostTensor harmony::test::makeFloats(MLIRContext &context,
                                     ArrayRef<int64_t> shape,
                                     std::vector<double> values) {
  HostTensor tensor(RankedTensorType::get(shape, Float32Type::get(&context)));
  tensor.floats = std::move(values);
  return tensor;
}

HostTensor harmony::test::makeIntegers(MLIRContext &context,
                                       ArrayRef<int64_t> shape,
                                       std::vector<int64_t> values) {
  HostTensor tensor(
      RankedTensorType::get(shape, IntegerType::get(&context, 64)));
  tensor.integers = std::move(values);
  return tensor;
}
