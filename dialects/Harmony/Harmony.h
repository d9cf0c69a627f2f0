//===- Harmony.h - Tasks, programs and memory -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_HARMONY_HARMONY_H
#define DIALECTS_HARMONY_HARMONY_H

#include "runtime/program.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Harmony/HarmonyDialect.h.inc"
#include "dialects/Harmony/HarmonyEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Harmony/HarmonyAttributes.h.inc"
#define GET_OP_CLASSES
#include "dialects/Harmony/HarmonyOps.h.inc"

namespace harmony::schedule {

/// Alignment of every place, and of every variable within a home of several.
inline constexpr int64_t kAlignment = 64;
inline int64_t alignTo64(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// What the transfer ops have in common. Null for other ops.
struct Copy {
  mlir::Operation *op = nullptr;
  mlir::FlatSymbolRefAttr source, destination;
  int64_t bytes = 0;                ///< of one iteration
  int64_t offset = 0, step = 0;     ///< of the host's side
  int64_t firstByte = 0;            ///< of the devices' sides
  int64_t from = kHost, to = kHost; ///< devices
  int64_t event = -1;
  HmTraffic traffic = HM_TRAFFIC_SWAP_IN;

  static constexpr int64_t kHost = -1;
  explicit operator bool() const { return op; }
  bool toDevice() const { return to != kHost; }
  bool isPeer() const { return from != kHost && to != kHost; }
  int64_t device() const { return toDevice() ? to : from; }
  /// The buffer on device(), and the other side.
  llvm::StringRef buffer() const {
    return (toDevice() ? destination : source).getValue();
  }
  llvm::StringRef otherPlace() const {
    return (toDevice() ? source : destination).getValue();
  }
};
Copy getCopy(mlir::Operation *op);

/// What an op of a task reads and writes, in the order of its operands.
llvm::SmallVector<RefAttr> getRefs(mlir::Operation *op);

/// The plan event an op belongs to, -1 for ops that have none.
int64_t getEvent(mlir::Operation *op);
void setEvent(mlir::Operation *op, int64_t event);

} // namespace harmony::schedule

#endif // DIALECTS_HARMONY_HARMONY_H
