//===- ScatterAdd.cpp - Kernels that add at indices -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/ScatterAdd.h"

#include "runtime/program.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

namespace {
/// Axes that are walked in row-major order, with the strides of two tensors.
struct Walk {
  SmallVector<int64_t> extents, first, second;

  void add(int64_t extent, int64_t firstStride, int64_t secondStride) {
    if (extent == 1)
      return;
    if (!extents.empty() && first.back() == firstStride * extent &&
        second.back() == secondStride * extent) {
      extents.back() *= extent;
      first.back() = firstStride;
      second.back() = secondStride;
      return;
    }
    extents.push_back(extent);
    first.push_back(firstStride);
    second.push_back(secondStride);
  }
  int64_t getCount() const {
    int64_t count = 1;
    for (int64_t extent : extents)
      count *= extent;
    return count;
  }
};

class ScatterEmitter {
public:
  ScatterEmitter(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  Value constant(int64_t value) { return makeInteger(builder, loc, value); }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  Value times(Value value, int64_t factor) {
    return arith::MulIOp::create(builder, loc, value, constant(factor));
  }

  /// Offsets that the flat index of a walk has in its two tensors.
  std::pair<Value, Value> locate(Value index, const Walk &walk) {
    Value first = constant(0), second = first;
    for (size_t axis = walk.extents.size(); axis-- > 0;) {
      Value coordinate = index;
      if (axis > 0) {
        Value extent = constant(walk.extents[axis]);
        coordinate = arith::RemUIOp::create(builder, loc, index, extent);
        index = arith::DivUIOp::create(builder, loc, index, extent);
      }
      first = add(first, times(coordinate, walk.first[axis]));
      second = add(second, times(coordinate, walk.second[axis]));
    }
    return {first, second};
  }

  void loop(Value low, Value high, int64_t step,
            function_ref<void(Value)> body) {
    auto op = scf::ForOp::create(builder, loc, low, high, constant(step));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op.getBody()->getTerminator());
    body(op.getInductionVar());
  }

  /// For every element of a slice: lanes where both tensors are contiguous.
  void
  forSlice(const Walk &slice,
           function_ref<void(bool lanes, Value first, Value second)> body) {
    int64_t count = slice.getCount(), whole = 0;
    if (slice.extents.size() == 1 && slice.first[0] == 1 &&
        slice.second[0] == 1) {
      whole = count / kLanes * kLanes;
      if (whole)
        loop(constant(0), constant(whole), kLanes,
             [&](Value index) { body(true, index, index); });
    }
    if (whole < count)
      loop(constant(whole), constant(count), 1, [&](Value index) {
        auto [first, second] = locate(index, slice);
        body(false, first, second);
      });
  }

  OpBuilder &builder;
  Location loc;
};
} // namespace

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
    outerResult.extents.push_back(result.getDimSize(i));
    outerResult.first.push_back(resultStrides[i]);
    outerResult.second.push_back(updateStrides[i]);
    outerIndices.extents.push_back(result.getDimSize(i));
    outerIndices.first.push_back(i < batch ? indexStrides[i] : 0);
    outerIndices.second.push_back(0);
  }
  for (int64_t i = batch; i < indexRank; ++i)
    scan.add(indices.getDimSize(i), indexStrides[i],
             updateStrides[axis + i - batch]);
  for (int64_t i = axis + 1; i < result.getRank(); ++i)
    slice.add(result.getDimSize(i), resultStrides[i],
              updateStrides[updateAxis + i - axis - 1]);

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
    ScatterEmitter emitter(builder, loc);
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
      auto [tableOffset, updateOffset] = emitter.locate(outer, outerResult);
      Value indexOffset = emitter.locate(outer, outerIndices).first;
      Value tableBase =
          getAddress(builder, loc, memory, pointers[2], tableOffset);
      Value updateBase =
          getAddress(builder, loc, memory, pointers[1], updateOffset);
      Type indexType = indices.getElementType();
      Value indexBase =
          getAddress(builder, loc, indexType, pointers[0], indexOffset);
      if (!accumulate)
        emitter.loop(low, high, 1, [&](Value row) {
          Value base = getAddress(builder, loc, memory, tableBase,
                                  emitter.times(row, resultStrides[axis]));
          emitter.forSlice(slice, [&](bool lanes, Value offset, Value) {
            Value value = arith::ConstantOp::create(
                builder, loc, builder.getZeroAttr(memory));
            if (lanes)
              target.store(builder, loc, target.splat(builder, loc, value),
                           memory, base, offset);
            else
              storeElement(builder, loc, value, memory, base, offset);
          });
        });
      emitter.loop(
          zero, emitter.constant(scan.getCount()), 1, [&](Value position) {
            auto [indexAt, updateAt] = emitter.locate(position, scan);
            Value row =
                loadElement(builder, loc, indexType, indexBase, indexAt);
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
            OpBuilder::InsertionGuard insertion(builder);
            builder.setInsertionPointToStart(guard.thenBlock());
            Value to = getAddress(builder, loc, memory, tableBase,
                                  emitter.times(row, resultStrides[axis]));
            Value from = getAddress(builder, loc, memory, updateBase, updateAt);
            emitter.forSlice(
                slice, [&](bool lanes, Value toOffset, Value fromOffset) {
                  if (lanes) {
                    Value old = target.load(builder, loc, memory, to, toOffset);
                    Value update =
                        target.load(builder, loc, memory, from, fromOffset);
                    target.store(
                        builder, loc,
                        combine(builder, loc, nn::ReduceKind::sum, old, update),
                        memory, to, toOffset);
                  } else {
                    Value old = loadElement(builder, loc, memory, to, toOffset);
                    Value update =
                        loadElement(builder, loc, memory, from, fromOffset);
                    storeElement(
                        builder, loc,
                        combine(builder, loc, nn::ReduceKind::sum, old, update),
                        memory, to, toOffset);
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
