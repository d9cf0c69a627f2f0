//===- Import.h - ONNX models to the onnx dialect and back -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model file comes as ONNX protobuf (any name), as ONNX text (.onnxtext) or
// as protobuf text (.textproto, .pbtxt, .prototxt). ONNX text has no syntax for
// training_info. No exception leaves these functions.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_IMPORT_H
#define COMPILER_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace harmony {

struct ImportOptions {
  /// Keep the metadata of nodes (where an exporter writes module scopes and the
  /// like) as `onnx.metadata` of onnx.node.
  bool nodeMetadata = false;
};

/// Reads the model at `path`: checks it (as the ONNX checker does, and more
/// strictly for external data and training_info, which the checker leaves
/// alone), inlines model-local functions, infers shapes as far as the ONNX
/// library can, and builds the onnx dialect, which it loads into `context`.
/// External data is not read, only its presence and size are checked.
///
/// On failure returns null; every problem found has been emitted as an error of
/// its own at an unknown location, with a message that starts with `path`.
mlir::OwningOpRef<mlir::ModuleOp>
importModel(llvm::StringRef path, mlir::MLIRContext &context,
            const ImportOptions &options = {});

/// How a model is written.
enum class ModelFormat { Binary, OnnxText, ProtoText };

/// The format that the ending of `path` stands for.
ModelFormat getModelFormat(llvm::StringRef path);

/// Writes `module` (onnx dialect) to `path`, which is replaced once all is
/// written. The data of initializers goes into the file or, where it exceeds
/// 1 GiB in all (protobuf ends at 2 GiB), into PATH.data beside it. Fails with
/// a diagnostic.
llvm::LogicalResult exportModel(mlir::ModuleOp module, llvm::StringRef path);
llvm::LogicalResult exportModel(mlir::ModuleOp module, llvm::StringRef path,
                                ModelFormat format);

/// Writes `module` to a stream, all data within.
llvm::LogicalResult exportModel(mlir::ModuleOp module,
                                llvm::raw_ostream &stream, ModelFormat format);

/// Prints the model file at `path` as text, as it is: nothing is checked beyond
/// its form. Protobuf text where the model has training_info, else ONNX text.
/// Fails with a diagnostic at an unknown location of `context`.
llvm::LogicalResult printModelFile(llvm::StringRef path,
                                   mlir::MLIRContext &context,
                                   llvm::raw_ostream &stream);

} // namespace harmony

#endif // COMPILER_IMPORT_IMPORT_H
