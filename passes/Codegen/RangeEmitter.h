//===- RangeEmitter.h - Loops over slices of two tensors --------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels that are no row programs (scatters, windows) are written with.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_RANGEEMITTER_H
#define PASSES_CODEGEN_RANGEEMITTER_H

#include "passes/Codegen/Kernel.h"
#include "passes/Codegen/LaneTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace harmony::codegen {

/// Axes that are walked in row-major order, with their strides in each of
/// several tensors.
struct Walk {
  using Strides = llvm::SmallVector<int64_t, 3>;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<Strides> strides; ///< by axis

  /// Adds an axis; it becomes one with the axis before where all tensors step
  /// on.
  void add(int64_t extent, Strides steps) {
    if (extent == 1)
      return;
    bool continues = !extents.empty();
    for (size_t i = 0; continues && i < steps.size(); ++i)
      continues = strides.back()[i] == steps[i] * extent;
    if (continues) {
      extents.back() *= extent;
      strides.back() = std::move(steps);
      return;
    }
    addApart(extent, std::move(steps));
  }
  /// Adds an axis whose coordinate is needed.
  void addApart(int64_t extent, Strides steps) {
    extents.push_back(extent);
    strides.push_back(std::move(steps));
  }
  int64_t getCount() const {
    int64_t count = 1;
    for (int64_t extent : extents)
      count *= extent;
    return count;
  }
  bool isContiguous() const {
    return extents.size() == 1 &&
           llvm::all_of(strides[0], [](int64_t stride) { return stride == 1; });
  }
};

/// Writes integer arithmetic and loops at the insertion point of `builder`.
class RangeEmitter {
public:
  RangeEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value constant(int64_t value) {
    return makeInteger(builder, loc, value);
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  mlir::Value times(mlir::Value value, int64_t factor) {
    if (factor == 1)
      return value;
    return mlir::arith::MulIOp::create(builder, loc, value, constant(factor));
  }

  /// The coordinates of a flat index.
  llvm::SmallVector<mlir::Value> delinearise(mlir::Value index,
                                             llvm::ArrayRef<int64_t> extents) {
    llvm::SmallVector<mlir::Value> coordinates(extents.size());
    for (size_t axis = extents.size(); axis-- > 0;) {
      coordinates[axis] = index;
      if (axis == 0)
        break;
      mlir::Value extent = constant(extents[axis]);
      coordinates[axis] =
          mlir::arith::RemUIOp::create(builder, loc, index, extent);
      index = mlir::arith::DivUIOp::create(builder, loc, index, extent);
    }
    return coordinates;
  }

  /// Offsets of the walk's flat index in `tensors` tensors.
  llvm::SmallVector<mlir::Value> locate(mlir::Value index, const Walk &walk,
                                        size_t tensors) {
    llvm::SmallVector<mlir::Value> offsets(tensors, constant(0));
    for (auto [coordinate, strides] :
         llvm::zip_equal(delinearise(index, walk.extents), walk.strides))
      for (size_t i = 0; i < tensors; ++i)
        offsets[i] = add(offsets[i], times(coordinate, strides[i]));
    return offsets;
  }

  void loop(mlir::Value low, mlir::Value high, int64_t step,
            llvm::function_ref<void(mlir::Value)> body) {
    auto op = mlir::scf::ForOp::create(builder, loc, low, high, constant(step));
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op.getBody()->getTerminator());
    body(op.getInductionVar());
  }

  /// For every element of a slice of `tensors` tensors: lanes where all are
  /// contiguous.
  void forSlice(
      const Walk &slice, size_t tensors,
      llvm::function_ref<void(bool lanes, llvm::ArrayRef<mlir::Value> offsets)>
          body) {
    int64_t count = slice.getCount(), whole = 0;
    if (slice.isContiguous()) {
      whole = count / kLanes * kLanes;
      if (whole)
        loop(constant(0), constant(whole), kLanes, [&](mlir::Value index) {
          body(true, llvm::SmallVector<mlir::Value>(tensors, index));
        });
    }
    if (whole < count)
      loop(constant(whole), constant(count), 1, [&](mlir::Value index) {
        body(false, locate(index, slice, tensors));
      });
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_RANGEEMITTER_H
