//===- Padding.h - Rows of tables that stand for nothing --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_PADDING_H
#define PASSES_NORMALIZE_PADDING_H

#include "dialects/ONNX/InitializerData.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace harmony::normalize {

/// The row of an embedding that gets no gradient from look-ups: PyTorch's
/// padding_idx, which ONNX has no place for. --padding NAME=ROW says it,
/// NAME=none that there is none; then the call that the exporter has traced,
/// which it notes on the node. Without either a table of which exactly one row
/// is zero has it: PyTorch makes that row zero, and it stays so.
class PaddingRows {
public:
  /// Reads the flags, and the calls noted on nodes of `module`; reports flags
  /// that fit no initializer.
  mlir::LogicalResult parse(mlir::ModuleOp module,
                            llvm::ArrayRef<std::string> flags);

  /// The row of a table that is trained, if there is one. Warns once of a row
  /// that no flag has named.
  std::optional<int64_t> find(onnx::InitializerOp table, onnx::FileMap &files);

  /// Warns of flags for tables that were not asked for: they change nothing.
  void warnOfUnused(mlir::ModuleOp module) const;

private:
  void readTracedCalls(mlir::ModuleOp module);

  llvm::StringMap<std::string> flagged; ///< flags by the table's name
  llvm::StringSet<> asked;              ///< names of tables looked up

  llvm::StringMap<std::optional<int64_t>> chosen; ///< by the model's name
  llvm::DenseMap<mlir::Operation *, std::optional<int64_t>> found;
};

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_PADDING_H
