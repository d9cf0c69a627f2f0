//===- ONNX.h - The onnx dialect -------------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_ONNX_ONNX_H
#define DIALECTS_ONNX_ONNX_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/ONNX/ONNXDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ONNX/ONNXTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ONNX/ONNXAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/ONNX/ONNXOps.h.inc"

namespace harmony::onnx {

/// The inference graph of `module`: the one that no onnx.training names. Null
/// if there is none.
GraphOp getMainGraph(mlir::ModuleOp module);

/// The ONNX name of `value`: of an argument, an initializer or a node's output.
/// "" where it has none.
llvm::StringRef getValueName(mlir::Value value);

/// One entry of onnx.training's `update` or `set`. The verifier has made sure
/// of the form of the array.
struct Binding {
  mlir::FlatSymbolRefAttr initializer;
  llvm::StringRef result;
};
llvm::SmallVector<Binding> getBindings(mlir::ArrayAttr bindings);

/// The index of the result of `graph` with the ONNX name `name`, or -1.
int findResult(GraphOp graph, llvm::StringRef name);

} // namespace harmony::onnx

#endif // DIALECTS_ONNX_ONNX_H
