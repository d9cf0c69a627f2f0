//===- Support.h - Shared by the tests of normalisation ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_NORMALIZE_SUPPORT_H
#define TEST_UNIT_NORMALIZE_SUPPORT_H

#include "dialects/NN/Evaluate.h"
#include "passes/Normalize/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace harmony::test {

/// A module, the context it lives in, and what went wrong.
struct Model {
  Model();
  /// Imports `path` and normalises it; `ok` tells whether that worked.
  Model(llvm::StringRef path, const NormalizeOptions &options);
  /// Runs further passes.
  bool run(std::unique_ptr<mlir::Pass> pass);
  /// Parses a module.
  bool parse(llvm::StringRef text);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string messages;
  bool ok = false;

  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
};

/// The tensors of a safetensors file; empty where it cannot be read.
llvm::StringMap<nn::HostTensor> readSafetensors(llvm::StringRef path,
                                                mlir::MLIRContext &context);

/// A tensor from a file that holds a serialised ONNX TensorProto.
bool readTensorProto(llvm::StringRef path, mlir::MLIRContext &context,
                     nn::HostTensor &tensor);

/// Writes `model` with the given files of TensorProtos as initializers to a new
/// temporary file, whose path it returns; "" where that fails.
std::string writeModelWithInitializers(llvm::StringRef model,
                                       llvm::ArrayRef<std::string> tensorFiles);

/// The name that a file with a serialised ONNX TensorProto has in it.
std::string readTensorName(llvm::StringRef path);

/// A tensor of f32.
nn::HostTensor makeFloats(mlir::MLIRContext &context,
                          llvm::ArrayRef<int64_t> shape,
                          std::vector<double> values);
nn::HostTensor makeIntegers(mlir::MLIRContext &context,
                            llvm::ArrayRef<int64_t> shape,
                            std::vector<int64_t> values);

} // namespace harmony::test

#endif // TEST_UNIT_NORMALIZE_SUPPORT_H
