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

FailureOr<EmittedKernel>
harmony::codegen::emitScatterAdd(nn::ScatterAddOp op, const KernelSpec &spec,
                                 ModuleOp kernels) {
  auto result = cast<RankedTensorType>(op.getResult().getType());
  auto indices = cast<RankedTensorType>(op.getIndices().getType());
  if (!result.hasStaticShape() || !indices.hasStaticShape())
    return op.emitOpError("as a kernel: types must be static"), failure();
  Type element = result.getElementType(), memory = getMemoryType(element);
  if (!isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 8)
    return op.emitOpError("as a kernel: elements of type ")
               << element << " cannot be added",
           failure();
  int64_t axis = op.getAxis(), batch = op.getBatchDims(),
          table = result.getDimSize(axis);
  int64_t indexRank = indices.getRank(), updateAxis = axis + indexRank - batch;
  ArrayRef<int64_t> resultStrides = spec.results[0].strides,
                    indexStrides = spec.operands[0].strides,
                    updateStrides = spec.operands[1].strides;
  assert(op->getOperand(0) == op.getIndices() &&
         "operand order of nn.scatter_add");

  // result [B.., P.., n, Q..], indices [B.., I..], updates [B.., P.., I.., Q..]
  Walk outerResult, outerIndices, scan, slice;
  for (int64_t i = 0; i < axis; ++i) {
    // Both walks cover (B, P); the second has no other stride than that of the
    // indices.
    outerResult.addApart(result.getDimSize(i),
                         {resultStrides[i], updateStrides[i]});
    outerIndices.addApart(result.getDimSize(i),
                          {i < batch ? indexStrides[i] : 0});
  }
  for (int64_t i = batch; i < indexRank; ++i)
    scan.add(indices.getDimSize(i),
             {indexStrides[i], updateStrides[axis + i - batch]});
  for (int64_t i = axis + 1; i < result.getRank(); ++i)
    slice.add(result.getDimSize(i),
              {resultStrides[i], updateStrides[updateAxis + i - axis - 1]});

  bool accumulate = !spec.accumulate.empty() && spec.accumulate[0];
  Launch launch;
  launch.extent = outerResult.getCount() * table;
  // Every range scans the indices: a few ranges are enough.
  constexpr int64_t kRanges = 16;
  launch.grain = llvm::divideCeil(launch.extent, kRanges);
  launch.family = HM_FAMILY_GATHER;
  launch.arguments = {{Argument::Operand, 0},
                      {Argument::Operand, 1},
                      {Argument::Result, 0, true}};
  auto body = [&](OpBuilder &builder, Location loc, ArrayRef<Value> pointers,
                  Value begin, Value end,
                  function_ref<Value(int64_t)> allocate) {
    RangeEmitter emitter(builder, loc);
    HostLanes target;
    Value rows = emitter.constant(table), zero = emitter.constant(0),
          one = emitter.constant(1);
    auto least = [&](Value lhs, Value rhs) {
      return arith::MinSIOp::create(builder, loc, lhs, rhs).getResult();
    };
    auto most = [&](Value lhs, Value rhs) {
      return arith::MaxSIOp::create(builder, loc, lhs, rhs).getResult();
    };
    // One table after the other: [low, high) are the rows of it that the range
    // has.
    Value firstTable = arith::DivSIOp::create(builder, loc, begin, rows);
    Value lastTable = arith::CeilDivSIOp::create(builder, loc, end, rows);
    emitter.loop(firstTable, lastTable, 1, [&](Value outer) {
      Value start = emitter.times(outer, table);
      Value low = most(arith::SubIOp::create(builder, loc, begin, start), zero);
      Value high = least(arith::SubIOp::create(builder, loc, end, start), rows);
      SmallVector<Value> offsets = emitter.locate(outer, outerResult, 2);
      Value indexOffset = emitter.locate(outer, outerIndices, 1).front();
      Value tableBase =
          getAddress(builder, loc, memory, pointers[2], offsets[0]);
      Value updateBase =
          getAddress(builder, loc, memory, pointers[1], offsets[1]);
      Type indexType = indices.getElementType();
      Value indexBase =
          getAddress(builder, loc, indexType, pointers[0], indexOffset);
      if (!accumulate)
        emitter.loop(low, high, 1, [&](Value row) {
          Value base = getAddress(builder, loc, memory, tableBase,
                                  emitter.times(row, resultStrides[axis]));
          emitter.forSlice(slice, 1, [&](bool lanes, ArrayRef<Value> at) {
            Value value = arith::ConstantOp::create(
                builder, loc, builder.getZeroAttr(memory));
            if (lanes)
              target.store(builder, loc, target.splat(builder, loc, value),
                           memory, base, at[0]);
            else
              storeElement(builder, loc, value, memory, base, at[0]);
          });
        });
      emitter.loop(
          zero, emitter.constant(scan.getCount()), 1, [&](Value position) {
            SmallVector<Value> at = emitter.locate(position, scan, 2);
            Value row = loadElement(builder, loc, indexType, indexBase, at[0]);
            if (indexType.getIntOrFloatBitWidth() < 64)
              row = arith::ExtSIOp::create(builder, loc, builder.getI64Type(),
                                           row);
            row = least(most(row, zero),
                        arith::SubIOp::create(builder, loc, rows, one));
            Value isMine = arith::AndIOp::create(
                builder, loc,
                arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                      row, low),
                arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                      row, high));
            auto guard = scf::IfOp::create(builder, loc, isMine,
                                           /*withElseRegion=*/false);
            // An index is that of one row.
            guard->setAttr(kTakenAttr, builder.getF64FloatAttr(
                                           1.0 / static_cast<double>(table)));
            OpBuilder::InsertionGuard insertion(builder);
            builder.setInsertionPointToStart(guard.thenBlock());
            Value to = getAddress(builder, loc, memory, tableBase,
                                  emitter.times(row, resultStrides[axis]));
            Value from = getAddress(builder, loc, memory, updateBase, at[1]);
            emitter.forSlice(
                slice, 2, [&](bool lanes, ArrayRef<Value> offsets) {
                  if (lanes) {
                    Value old =
                        target.load(builder, loc, memory, to, offsets[0]);
                    Value update =
                        target.load(builder, loc, memory, from, offsets[1]);
                    target.store(
                        builder, loc,
                        combine(builder, loc, nn::ReduceKind::sum, old, update),
                        memory, to, offsets[0]);
                  } else {
                    Value old =
                        loadElement(builder, loc, memory, to, offsets[0]);
                    Value update =
                        loadElement(builder, loc, memory, from, offsets[1]);
                    storeElement(
                        builder, loc,
                        combine(builder, loc, nn::ReduceKind::sum, old, update),
                        memory, to, offsets[0]);
                  }
                });
          });
    });
  };
  launch.function =
      buildRangeFunction(kernels, op.getLoc(), "scatter", 3, body);
  EmittedKernel kernel;
  kernel.launches.push_back(std::move(launch));
  return kernel;
}
