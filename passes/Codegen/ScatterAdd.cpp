//===- ScatterAdd.cpp - Kernels that add at indices -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/ScatterAdd.h"

#include "passes/Codegen/RangeEmitter.h"
#include "runtime/program.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

namespace {

/// result [B.., P.., n, Q..], indices [B.., I..], updates [B.., P.., I.., Q..]:
/// a table for each (B, P), whose n rows are (Q).
struct ScatterWalks {
  Walk tables;       ///< (B, P): result, updates
  Walk tableIndices; ///< the same, of the indices
  Walk scan;         ///< (I): indices, updates
  Walk slice;        ///< (Q): result, updates
  int64_t rows = 0, rowStride = 0;

  ScatterWalks(nn::ScatterAddOp op, const KernelSpec &spec) {
    auto result = cast<RankedTensorType>(op.getResult().getType());
    auto indices = cast<RankedTensorType>(op.getIndices().getType());
    int64_t axis = op.getAxis(), batch = op.getBatchDims(),
            indexRank = indices.getRank(),
            updateAxis = axis + indexRank - batch;
    ArrayRef<int64_t> resultStrides = spec.results[0].strides,
                      indexStrides = spec.operands[0].strides,
                      updateStrides = spec.operands[1].strides;
    rows = result.getDimSize(axis);
    rowStride = resultStrides[axis];
    for (int64_t i = 0; i < axis; ++i) {
      tables.addApart(result.getDimSize(i),
                      {resultStrides[i], updateStrides[i]});
      tableIndices.addApart(result.getDimSize(i),
                            {i < batch ? indexStrides[i] : 0});
    }
    for (int64_t i = batch; i < indexRank; ++i)
      scan.add(indices.getDimSize(i),
               {indexStrides[i], updateStrides[axis + i - batch]});
    for (int64_t i = axis + 1; i < result.getRank(); ++i)
      slice.add(result.getDimSize(i),
                {resultStrides[i], updateStrides[updateAxis + i - axis - 1]});
  }
};

/// The code of a range of rows of all tables.
class ScatterEmitter {
public:
  ScatterEmitter(OpBuilder &builder, Location loc, const ScatterWalks &walks,
                 Type indexType, Type memory)
      : builder(builder), loc(loc), walks(walks), indexType(indexType),
        memory(memory), emitter(builder, loc),
        rows(emitter.constant(walks.rows)), zero(emitter.constant(0)),
        one(emitter.constant(1)) {}

  /// One table after the other. `pointers`: indices, updates, result.
  void emit(ArrayRef<Value> pointers, Value begin, Value end, bool accumulate) {
    Value first = arith::DivSIOp::create(builder, loc, begin, rows);
    Value last = arith::CeilDivSIOp::create(builder, loc, end, rows);
    emitter.loop(first, last, 1, [&](Value table) {
      Value start = emitter.times(table, walks.rows);
      low = most(arith::SubIOp::create(builder, loc, begin, start), zero);
      high = least(arith::SubIOp::create(builder, loc, end, start), rows);
      SmallVector<Value> offsets = emitter.locate(table, walks.tables, 2);
      Value indexOffset = emitter.locate(table, walks.tableIndices, 1).front();
      tableBase = getAddress(builder, loc, memory, pointers[2], offsets[0]);
      updateBase = getAddress(builder, loc, memory, pointers[1], offsets[1]);
      indexBase = getAddress(builder, loc, indexType, pointers[0], indexOffset);
      if (!accumulate)
        clear();
      add();
    });
  }

private:
  OpBuilder &builder;
  Location loc;
  const ScatterWalks &walks;
  Type indexType, memory;
  RangeEmitter emitter;
  HostLanes target;
  Value rows, zero, one;
  // Of the table at hand: [low, high) are the rows of it that the range has.
  Value low, high, tableBase, updateBase, indexBase;

  Value least(Value lhs, Value rhs) {
    return arith::MinSIOp::create(builder, loc, lhs, rhs);
  }
  Value most(Value lhs, Value rhs) {
    return arith::MaxSIOp::create(builder, loc, lhs, rhs);
  }
  Value addressOf(Value row) {
    return getAddress(builder, loc, memory, tableBase,
                      emitter.times(row, walks.rowStride));
  }

  void clear() {
    emitter.loop(low, high, 1, [&](Value row) {
      Value base = addressOf(row);
      emitter.forSlice(
          walks.slice, 1, [&](bool lanes, ArrayRef<Value> offsets) {
            Value value = arith::ConstantOp::create(
                builder, loc, builder.getZeroAttr(memory));
            if (lanes)
              target.store(builder, loc, target.splat(builder, loc, value),
                           memory, base, offsets[0]);
            else
              storeElement(builder, loc, value, memory, base, offsets[0]);
          });
    });
  }

  /// Every index is read, and what it adds to is added to if it is of the
  /// range.
  void add() {
    Value count = emitter.constant(walks.scan.getCount());
    emitter.loop(zero, count, 1, [&](Value position) {
      SmallVector<Value> at = emitter.locate(position, walks.scan, 2);
      Value row = loadElement(builder, loc, indexType, indexBase, at[0]);
      if (indexType.getIntOrFloatBitWidth() < 64)
        row = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), row);
      row = least(most(row, zero),
                  arith::SubIOp::create(builder, loc, rows, one));
      Value isMine = arith::AndIOp::create(
          builder, loc,
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, row,
                                low),
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, row,
                                high));
      auto guard = scf::IfOp::create(builder, loc, isMine,
                                     /*withElseRegion=*/false);
      // An index is that of one row.
      guard->setAttr(kTakenAttr, builder.getF64FloatAttr(
                                     1.0 / static_cast<double>(walks.rows)));
      OpBuilder::InsertionGuard insertion(builder);
      builder.setInsertionPointToStart(guard.thenBlock());
      Value to = addressOf(row);
      addSlice(to, getAddress(builder, loc, memory, updateBase, at[1]));
    });
  }

  void addSlice(Value to, Value from) {
    auto sum = [&](Value old, Value update) {
      return combine(builder, loc, nn::ReduceKind::sum, old, update);
    };
    emitter.forSlice(walks.slice, 2, [&](bool lanes, ArrayRef<Value> offsets) {
      if (lanes) {
        Value old = target.load(builder, loc, memory, to, offsets[0]);
        Value update = target.load(builder, loc, memory, from, offsets[1]);
        target.store(builder, loc, sum(old, update), memory, to, offsets[0]);
      } else {
        Value old = loadElement(builder, loc, memory, to, offsets[0]);
        Value update = loadElement(builder, loc, memory, from, offsets[1]);
        storeElement(builder, loc, sum(old, update), memory, to, offsets[0]);
      }
    });
  }
};

} // namespace

FailureOr<EmittedKernel>
harmony::codegen::emitScatterAdd(nn::ScatterAddOp op, const KernelSpec &spec,
                                 ModuleOp kernels) {
  auto result = cast<RankedTensorType>(op.getResult().getType());
  auto indices = cast<RankedTensorType>(op.getIndices().getType());
  if (!result.hasStaticShape() || !indices.hasStaticShape())
    return op.emitOpError("as a kernel: types must be static"), failure();
  Type element = result.getElementType();
  if (!isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 8)
    return op.emitOpError("as a kernel: elements of type ")
               << element << " cannot be added",
           failure();
  assert(op->getOperand(0) == op.getIndices() &&
         "operand order of nn.scatter_add");

  ScatterWalks walks(op, spec);
  bool accumulate = !spec.accumulate.empty() && spec.accumulate[0];
  Launch launch;
  launch.extent = walks.tables.getCount() * walks.rows;
  // Every range scans the indices: a few ranges are enough.
  constexpr int64_t kRanges = 16;
  launch.grain = llvm::divideCeil(launch.extent, kRanges);
  launch.family = HM_FAMILY_GATHER;
  launch.arguments = {{Argument::Operand, 0},
                      {Argument::Operand, 1},
                      {Argument::Result, 0, true}};
  auto body = [&](OpBuilder &builder, Location loc, ArrayRef<Value> pointers,
                  Value begin, Value end, function_ref<Value(int64_t)>) {
    ScatterEmitter(builder, loc, walks, indices.getElementType(),
                   getMemoryType(element))
        .emit(pointers, begin, end, accumulate);
  };
  launch.function =
      buildRangeFunction(kernels, op.getLoc(), "scatter", 3, body);
  EmittedKernel kernel;
  kernel.launches.push_back(std::move(launch));
  return kernel;
}
