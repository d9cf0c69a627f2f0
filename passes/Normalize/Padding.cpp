//===- Padding.cpp - Rows of tables that stand for nothing ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Padding.h"

#include "dialects/ONNX/TracedCall.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

/// A flag for the same table goes before.
void PaddingRows::readTracedCalls(ModuleOp module) {
  module.walk([&](onnx::NodeOp node) {
    std::optional<StringRef> index =
        onnx::getTracedArgument(node, "embedding", 2, "padding_idx");
    auto read = node.getInputs().empty()
                    ? onnx::InitialValueOp()
                    : node.getInputs()[0].getDefiningOp<onnx::InitialValueOp>();
    if (!index || !read || node.getOpType() != "Gather")
      return;
    auto table =
        module.lookupSymbol<onnx::InitializerOp>(read.getInitializer());
    RankedTensorType type = table.getTensorType();
    int64_t row = -1; // none
    bool exists = !index->getAsInteger(10, row) && row >= 0 &&
                  type.getRank() > 0 && row < type.getDimSize(0);
    chosen.try_emplace(table.getOnnxName(),
                       exists ? std::optional<int64_t>(row) : std::nullopt);
  });
}

LogicalResult PaddingRows::parse(ModuleOp module, ArrayRef<std::string> flags) {
  for (const std::string &flag : flags) {
    auto [name, value] = StringRef(flag).rsplit('=');
    onnx::InitializerOp table;
    for (auto initializer : module.getOps<onnx::InitializerOp>())
      if (initializer.getOnnxName() == name)
        table = initializer;
    if (!table)
      return module.emitError("--padding " + flag +
                              ": no initializer is named '" + name + "'");
    RankedTensorType type = table.getTensorType();
    int64_t rows = type.getRank() ? type.getDimSize(0) : 0, row = -1;
    bool isNumber = !value.getAsInteger(10, row);
    if (value != "none" && (!isNumber || row < 0 || row >= rows))
      return table.emitError("--padding " + flag +
                             ": accepted are none and rows of '" + name +
                             "', 0 to " + Twine(rows - 1));
    chosen[name] = isNumber ? std::optional<int64_t>(row) : std::nullopt;
    flagged[name] = flag;
  }
  readTracedCalls(module);
  return success();
}

/// The one row whose elements are all zero; nothing where there is none, or
/// several.
static std::optional<int64_t> findZeroRow(onnx::InitializerOp table,
                                          onnx::FileMap &files) {
  RankedTensorType type = table.getTensorType();
  if (type.getRank() != 2 || !isa<FloatType>(type.getElementType()) ||
      type.getDimSize(0) < 2)
    return std::nullopt;
  FailureOr<ArrayRef<char>> bytes = onnx::getInitializerBytes(table, files);
  if (failed(bytes))
    return std::nullopt;
  std::optional<int64_t> found;
  size_t width = bytes->size() / type.getDimSize(0);
  for (int64_t row = 0; row < type.getDimSize(0); ++row) {
    if (!llvm::all_of(bytes->slice(row * width, width),
                      [](char byte) { return byte == 0; }))
      continue;
    if (found)
      return std::nullopt;
    found = row;
  }
  return found;
}

std::optional<int64_t> PaddingRows::find(onnx::InitializerOp table,
                                         onnx::FileMap &files) {
  asked.insert(table.getOnnxName());
  if (auto entry = chosen.find(table.getOnnxName()); entry != chosen.end())
    return entry->second;
  auto [entry, isNew] = found.try_emplace(table);
  if (isNew && (entry->second = findZeroRow(table, files)))
    table.emitWarning("'" + table.getOnnxName() + "': row " +
                      Twine(*entry->second) +
                      " is zero and the others are not, as with padding_idx, "
                      "which exporters drop: it gets no gradient from look-ups "
                      "(--padding " +
                      table.getOnnxName() + "=none trains it)");
  return entry->second;
}

void PaddingRows::warnOfUnused(ModuleOp module) const {
  for (const auto &flag : flagged)
    if (!asked.contains(flag.getKey()))
      emitWarning(module.getLoc())
          << "--padding " << flag.getValue() << ": no look-up trains rows of '"
          << flag.getKey() << "', so it changes "
          << "nothing";
}
