//===- InitializerData.h - The bytes of an initializer ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_INITIALIZERDATA_H
#define DIALECTS_ONNX_INITIALIZERDATA_H

#include "dialects/ONNX/ExternalFile.h"
#include "dialects/ONNX/ONNX.h"

#include <deque>
#include <vector>

namespace harmony::onnx {

/// Gives access to the data of initializers, wherever it is. External files are
/// mapped on first use and stay mapped until the object goes.
class FileMap {
public:
  /// External files are looked up in the folder of the module's `onnx.source`.
  explicit FileMap(mlir::ModuleOp module);
  explicit FileMap(llvm::StringRef folder) : files(folder.str()) {}

private:
  friend mlir::FailureOr<llvm::ArrayRef<char>>
  getElementBytes(mlir::ElementsAttr, FileMap &);
  friend mlir::FailureOr<llvm::ArrayRef<char>>
  getInitializerBytes(InitializerOp, FileMap &);

  ExternalFiles files;
  /// Data that MLIR stores in another form: splats and booleans.
  std::deque<std::vector<char>> expanded;
};

/// The elements of `initializer` in ONNX's raw layout: row-major,
/// little-endian, one byte per boolean. Valid as long as `files` and the
/// context. An error has been emitted at the initializer where the result is a
/// failure.
mlir::FailureOr<llvm::ArrayRef<char>>
getInitializerBytes(InitializerOp initializer, FileMap &files);

/// The same for a dense or resource attribute; fails, without a diagnostic, for
/// other kinds and for types without a whole number of bytes per element.
mlir::FailureOr<llvm::ArrayRef<char>>
getElementBytes(mlir::ElementsAttr elements, FileMap &files);

/// The attribute for `bytes` in ONNX's raw layout: dense up to 64 KiB, a
/// resource (which copies the bytes) above. Null if the number of bytes does
/// not fit the type or the element type has no whole number of bytes.
mlir::ElementsAttr makeElements(mlir::RankedTensorType type,
                                llvm::ArrayRef<char> bytes,
                                llvm::StringRef name);

/// Bytes per element in ONNX's raw layout; 0 for types that are packed.
unsigned getElementByteSize(mlir::Type elementType);

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_INITIALIZERDATA_H
