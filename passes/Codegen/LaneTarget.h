//===- LaneTarget.h - Where the lanes of a row are --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row program works on blocks of 32 consecutive elements ("lanes") and, for
// what is left of a row, on single elements. On the host a block is a vector
// value; on a GPU each thread of a warp holds one lane of it. The rest of the
// emitter does not know.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_LANETARGET_H
#define PASSES_CODEGEN_LANETARGET_H

#include "dialects/NN/NN.h"

#include "mlir/IR/Builders.h"

namespace harmony::codegen {

class LaneTarget {
public:
  virtual ~LaneTarget() = default;

  /// Elements that a row block holds; kLanes for reductions.
  virtual mlir::Type getLaneType(mlir::Type element) const = 0;
  /// A scalar in every lane.
  virtual mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value scalar) const = 0;
  /// first + lane, as i64 lanes.
  virtual mlir::Value getIndex(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value first) const = 0;
  /// Lane j is (or becomes) the element at base + first + j; `element` is a
  /// type of memory.
  virtual mlir::Value load(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Type element, mlir::Value base,
                           mlir::Value first) const = 0;
  virtual void store(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value value, mlir::Type element, mlir::Value base,
                     mlir::Value first) const = 0;
  /// The same at base + offsets, i64 lanes.
  virtual mlir::Value gather(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Type element, mlir::Value base,
                             mlir::Value offsets) const = 0;
  virtual void scatter(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value value, mlir::Type element, mlir::Value base,
                       mlir::Value offsets) const = 0;
  /// Combines lane j with j + 16, then 8, 4, 2, 1; every thread has the result.
  virtual mlir::Value combineLanes(mlir::OpBuilder &builder, mlir::Location loc,
                                   nn::ReduceKind kind,
                                   mlir::Value lanes) const = 0;
  /// Runs `body`, which writes single elements, once per row.
  virtual void once(mlir::OpBuilder &builder, mlir::Location loc,
                    llvm::function_ref<void(mlir::OpBuilder &)> body) const = 0;
  /// Whether values of a row can be kept between passes in memory of the
  /// kernel's own.
  virtual bool hasRowBuffers() const = 0;
};

/// Lanes as elements of vector<32>.
class HostLanes : public LaneTarget {
public:
  mlir::Type getLaneType(mlir::Type element) const override;
  mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value scalar) const override;
  mlir::Value getIndex(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value first) const override;
  mlir::Value load(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Type element, mlir::Value base,
                   mlir::Value first) const override;
  void store(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
             mlir::Type element, mlir::Value base,
             mlir::Value first) const override;
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Type element, mlir::Value base,
                     mlir::Value offsets) const override;
  void scatter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
               mlir::Type element, mlir::Value base,
               mlir::Value offsets) const override;
  mlir::Value combineLanes(mlir::OpBuilder &builder, mlir::Location loc,
                           nn::ReduceKind kind,
                           mlir::Value lanes) const override;
  void once(mlir::OpBuilder &builder, mlir::Location loc,
            llvm::function_ref<void(mlir::OpBuilder &)> body) const override {
    body(builder);
  }
  bool hasRowBuffers() const override { return true; }
};

/// Lanes as the threads of a warp: every value is a scalar.
class GpuLanes : public LaneTarget {
public:
  /// `lane` is the thread's number in its warp, i64.
  explicit GpuLanes(mlir::Value lane) : lane(lane) {}
  mlir::Type getLaneType(mlir::Type element) const override { return element; }
  mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value scalar) const override {
    return scalar;
  }
  mlir::Value getIndex(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value first) const override;
  mlir::Value load(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Type element, mlir::Value base,
                   mlir::Value first) const override;
  void store(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
             mlir::Type element, mlir::Value base,
             mlir::Value first) const override;
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Type element, mlir::Value base,
                     mlir::Value offsets) const override;
  void scatter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
               mlir::Type element, mlir::Value base,
               mlir::Value offsets) const override;
  mlir::Value combineLanes(mlir::OpBuilder &builder, mlir::Location loc,
                           nn::ReduceKind kind,
                           mlir::Value lanes) const override;
  void once(mlir::OpBuilder &builder, mlir::Location loc,
            llvm::function_ref<void(mlir::OpBuilder &)> body) const override;
  bool hasRowBuffers() const override { return false; }

private:
  mlir::Value lane;
};

/// Parts that both targets and the emitter share.
mlir::Value makeInteger(mlir::OpBuilder &builder, mlir::Location loc,
                        int64_t value);
/// kind(lhs, rhs) on scalars or vectors. Booleans: sum and max are or, min is
/// and.
mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                    nn::ReduceKind kind, mlir::Value lhs, mlir::Value rhs);
/// The value that changes nothing under `kind`.
mlir::TypedAttr getIdentity(nn::ReduceKind kind, mlir::Type element);
/// base + offset elements of a type of memory.
mlir::Value getAddress(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Type element, mlir::Value base,
                       mlir::Value offset);
/// One element; `element` is a type of memory.
mlir::Value loadElement(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Type element, mlir::Value base,
                        mlir::Value offset);
void storeElement(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Value value, mlir::Type element, mlir::Value base,
                  mlir::Value offset);
/// The type that a value has in memory: i8 for i1.
mlir::Type getMemoryType(mlir::Type element);
/// Between a value and its form in memory, scalars and vectors alike.
mlir::Value fromMemory(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Type element, mlir::Value value);
mlir::Value toMemory(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value value);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_LANETARGET_H
