//===- InitializerData.cpp - The bytes of an initializer ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/ONNX/InitializerData.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace harmony::onnx {

/// Larger tensors are resources: a dense attribute is hashed and uniqued.
static constexpr size_t maximumDenseBytes = 64 * 1024;

static std::string getSourceFolder(ModuleOp module) {
  auto source = module->getAttrOfType<StringAttr>("onnx.source");
  return source ? llvm::sys::path::parent_path(source.getValue()).str()
                : std::string();
}

FileMap::FileMap(ModuleOp module) : files(getSourceFolder(module)) {}

unsigned getElementByteSize(Type elementType) {
  if (auto complex = dyn_cast<ComplexType>(elementType))
    return 2 * getElementByteSize(complex.getElementType());
  if (elementType.isInteger(1))
    return 1;
  if (!elementType.isIntOrFloat() || elementType.getIntOrFloatBitWidth() % 8)
    return 0;
  return elementType.getIntOrFloatBitWidth() / 8;
}

FailureOr<ArrayRef<char>> getElementBytes(ElementsAttr elements,
                                          FileMap &files) {
  ShapedType type = elements.getShapedType();
  size_t elementSize = getElementByteSize(type.getElementType());
  if (elementSize == 0)
    return failure();
  size_t count = static_cast<size_t>(type.getNumElements());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || blob->getData().size() != count * elementSize)
      return failure();
    return blob->getData();
  }
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return failure();
  if (type.getElementType().isInteger(1)) {
    std::vector<char> &bytes = files.expanded.emplace_back();
    bytes.reserve(count);
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value);
    return ArrayRef<char>(bytes);
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat())
    return raw;
  std::vector<char> &bytes = files.expanded.emplace_back();
  bytes.reserve(count * elementSize);
  for (size_t i = 0; i < count; ++i)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return ArrayRef<char>(bytes);
}

FailureOr<ArrayRef<char>> getInitializerBytes(InitializerOp initializer,
                                              FileMap &files) {
  if (auto external = dyn_cast<ExternalAttr>(initializer.getValue())) {
    std::string error;
    const char *data =
        files.files.map(external.getFile().str(), external.getOffset(),
                        external.getLength(), error);
    if (!data) {
      initializer.emitOpError()
          << "\"" << initializer.getOnnxName() << "\": " << error;
      return failure();
    }
    return ArrayRef<char>(data, external.getLength());
  }
  if (auto elements = dyn_cast<ElementsAttr>(initializer.getValue())) {
    FailureOr<ArrayRef<char>> bytes = getElementBytes(elements, files);
    if (succeeded(bytes))
      return bytes;
  }
  initializer.emitOpError()
      << "\"" << initializer.getOnnxName() << "\": no data to read in "
      << initializer.getType()
      << "; accepted are element types of whole bytes, with their data present";
  return failure();
}

ElementsAttr makeElements(RankedTensorType type, ArrayRef<char> bytes,
                          StringRef name) {
  Type elementType = type.getElementType();
  size_t elementSize = getElementByteSize(elementType);
  if (elementSize == 0 ||
      bytes.size() != static_cast<size_t>(type.getNumElements()) * elementSize)
    return nullptr;
  if (elementType.isInteger(1)) {
    SmallVector<bool> values(
        llvm::map_range(bytes, [](char byte) { return byte != 0; }));
    return DenseElementsAttr::get(type, values);
  }
  if (bytes.size() <= maximumDenseBytes)
    return DenseElementsAttr::getFromRawBuffer(type, bytes);
  return DenseResourceElementsAttr::get(
      type, name,
      HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, /*align=*/64,
                                                    /*dataIsMutable=*/false));
}

} // namespace harmony::onnx
