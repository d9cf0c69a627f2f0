//===- EmitTables.h - What a program works on -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_TARGET_PROGRAM_EMITTABLES_H
#define COMPILER_TARGET_PROGRAM_EMITTABLES_H

#include "compiler/Target/Program/BlobWriter.h"
#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"

#include "mlir/IR/BuiltinOps.h"

namespace harmony {

/// Writes the sections beside queues and commands: inputs, variables, outputs,
/// loss terms, scalars, devices and their links. Errors are reported at the op.
class TableWriter {
public:
  /// All outlive the writer.
  TableWriter(mlir::ModuleOp module, mlir::SymbolTable &symbols,
              BlobWriter &sections);

  /// Before the commands: lays out the batch space.
  mlir::LogicalResult addInputs();
  /// Where an input begins in the batch space; a program of a kind reads it.
  int64_t useInput(mlir::StringRef place, uint32_t programKind);

  /// Where the update of a parameter puts the parts of its gradient, in order;
  /// before addVariables().
  void addDump(mlir::StringRef parameter, int64_t offset) {
    dumps[parameter].push_back(offset);
  }

  mlir::LogicalResult addVariables();
  mlir::LogicalResult addOutputs();
  mlir::LogicalResult addLosses();
  void addScalars();
  /// `libraryBytes`: scratch of one library call.
  void addDevices(int64_t libraryBytes);
  mlir::LogicalResult addLinks();

private:
  mlir::ModuleOp module;
  mlir::SymbolTable &symbols;
  BlobWriter &sections;
  llvm::StringMap<int64_t> variableHomes;      ///< host offset by variable
  llvm::StringMap<size_t> inputIndex;          ///< in the section, by place
  llvm::StringMap<std::vector<int64_t>> dumps; ///< by parameter

  void indexVariableHomes();
  mlir::FailureOr<HmType> requireType(mlir::Operation *op, mlir::Type type);
  uint32_t addDims(mlir::RankedTensorType type, bool samples);
  mlir::LogicalResult addConstant(nn::VariableOp variable,
                                  mlir::RankedTensorType type,
                                  HmVariable &entry);
};

} // namespace harmony

#endif // COMPILER_TARGET_PROGRAM_EMITTABLES_H
