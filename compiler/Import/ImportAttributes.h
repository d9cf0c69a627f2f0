//===- ImportAttributes.h - Types, tensors and attributes of nodes *- C++
//-*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_IMPORTATTRIBUTES_H
#define COMPILER_IMPORT_IMPORTATTRIBUTES_H

#include "compiler/Import/ModelFile.h"
#include "dialects/ONNX/ExternalFile.h"

#include "mlir/IR/Builders.h"

#include <functional>

namespace harmony {

/// Makes MLIR's types and attributes of what a model's file says of tensors,
/// values and nodes. `what`, of all functions, is what errors are about. After
/// an error they return null.
class AttributeImporter {
public:
  /// Keeps a reference to the builder. `folder` is where files with the data of
  /// tensors lie.
  AttributeImporter(mlir::Builder &builder, const std::string &folder,
                    std::function<void(const llvm::Twine &problem)> emitError)
      : builder(builder), externalFiles(folder),
        emitError(std::move(emitError)) {}

  /// MLIR's type for TensorProto::DataType `type`; null, without an error, if
  /// there is none.
  mlir::Type importElementType(int type);
  mlir::Type importType(const ::onnx::TypeProto &type, const std::string &what);

  /// Sizes and names of a tensor's axes; null, without an error, if nothing is
  /// known of them.
  mlir::ArrayAttr importDims(const ::onnx::TypeProto &type);

  /// All entries but those of key `without`; null, without an error, if there
  /// are no others.
  mlir::DictionaryAttr importMetadata(
      const google::protobuf::RepeatedPtrField<::onnx::StringStringEntryProto>
          &entries,
      llvm::StringRef without);

  mlir::ElementsAttr importTensor(const ::onnx::TensorProto &tensor,
                                  const std::string &what);
  mlir::Attribute importAttribute(const ::onnx::AttributeProto &attribute,
                                  const std::string &what);

  /// The attributes of a graph's argument or result.
  mlir::DictionaryAttr describeValue(const ::onnx::ValueInfoProto &value);

private:
  mlir::Builder &builder;
  onnx::ExternalFiles externalFiles;
  std::function<void(const llvm::Twine &problem)> emitError;
};

} // namespace harmony

#endif // COMPILER_IMPORT_IMPORTATTRIBUTES_H
