//===- RowEmitter.h - Row programs to loops ---------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_ROWEMITTER_H
#define PASSES_CODEGEN_ROWEMITTER_H

#include "passes/Codegen/LaneTarget.h"
#include "passes/Codegen/RowProgram.h"

namespace harmony::codegen {

/// What a function that holds a row program provides.
struct RowFrame {
  const LaneTarget &target;
  llvm::ArrayRef<mlir::Value>
      buffers;            ///< one pointer per memory of the program
  mlir::Value begin, end; ///< i64: indices of the range to compute
  /// Stack memory that lives as long as the function, aligned for lanes.
  llvm::function_ref<mlir::Value(int64_t bytes)> allocate;
};

/// Emits the loops of a row program at the builder's insertion point.
void emitRowProgram(mlir::OpBuilder &builder, mlir::Location loc,
                    const RowProgram &program, const RowFrame &frame);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_ROWEMITTER_H
