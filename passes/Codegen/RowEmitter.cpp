//===- RowEmitter.cpp - Row programs to loops -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is walked once per level of its reductions. What a later pass needs
// again is loaded and computed again, but for expensive functions, whose values
// stay in a small buffer on the stack. Values that are the same for the whole
// row are scalars computed between the passes.
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/RowEmission.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;
//===----------------------------------------------------------------------===//
// Passes and buffers
//===----------------------------------------------------------------------===//

unsigned RowEmitter::getPass(const RowStore &store) const {
  return store.inPlace ? passes - 1 : program.nodes[store.node].level;
}

static bool isExpensive(const RowNode &node) {
  return node.kind == Node::Element &&
         (isa<math::MathDialect>(node.op->getDialect())
              ? !isa<math::AbsFOp, math::FmaOp, math::CopySignOp>(node.op)
              : isa<arith::DivFOp, arith::RemFOp>(node.op));
}

/// Visits the row values that a pass computes for `node`, stopping where an
/// earlier pass has left a buffer.
void RowEmitter::reach(unsigned number, unsigned pass,
                       DenseMap<unsigned, unsigned> &firstPass,
                       DenseSet<unsigned> &seen) {
  const RowNode &node = program.nodes[number];
  if (!node.isRow || !seen.insert(number).second)
    return;
  auto [first, isNew] = firstPass.try_emplace(number, pass);
  if (!isNew && first->second < pass && isExpensive(node)) {
    buffers.try_emplace(number, Buffer{first->second, Value()});
    return;
  }
  for (unsigned operand : node.operands)
    reach(operand, pass, firstPass, seen);
}

void RowEmitter::planBuffers() {
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Reduce)
      passes = std::max(passes, program.nodes[node.operands[0]].level + 1);
  for (const RowStore &store : program.stores)
    if (store.isRow)
      passes = std::max(passes, program.nodes[store.node].level + 1);
  DenseMap<unsigned, unsigned> firstPass;
  for (unsigned pass = 0; pass < passes; ++pass) {
    DenseSet<unsigned> seen;
    for (const RowNode &node : program.nodes)
      if (node.kind == Node::Reduce &&
          program.nodes[node.operands[0]].level == pass)
        reach(node.operands[0], pass, firstPass, seen);
    for (const RowStore &store : program.stores)
      if (store.isRow && getPass(store) == pass)
        reach(store.node, pass, firstPass, seen);
  }
  int64_t left = target.hasRowBuffers() ? kStackBytes : 0;
  SmallVector<unsigned> wanted =
      llvm::to_vector(llvm::make_first_range(buffers));
  llvm::sort(wanted);
  for (unsigned node : wanted) {
    int64_t bytes =
        program.getRowLength() * getElementBytes(program.nodes[node].type);
    bytes = llvm::alignTo(bytes, 64);
    if (bytes > left) {
      buffers.erase(node);
      continue;
    }
    left -= bytes;
    buffers[node].base = frame.allocate(bytes);
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void RowEmitter::run() {
  planBuffers();
  if (program.flat)
    emitFlat();
  else if (program.chunked)
    emitChunks();
  else
    emitRows();
}

SmallVector<Value> RowEmitter::delinearise(OpBuilder &at, Value index,
                                           ArrayRef<int64_t> extents) {
  // The outermost extent does not appear: it is that of the range.
  SmallVector<Value> coordinates(extents.size());
  for (size_t axis = extents.size(); axis-- > 1;) {
    Value extent = makeInteger(at, loc, extents[axis]);
    if (auto type = dyn_cast<VectorType>(index.getType()))
      extent = target.splat(at, loc, extent);
    coordinates[axis] = arith::RemUIOp::create(at, loc, index, extent);
    index = arith::DivUIOp::create(at, loc, index, extent);
  }
  if (!extents.empty())
    coordinates[0] = index;
  return coordinates;
}

void RowEmitter::emitFlat() {
  emitPass(0, frame.begin, frame.end, /*isStatic=*/false);
}

void RowEmitter::emitRows() {
  auto loop = scf::ForOp::create(builder, loc, frame.begin, frame.end,
                                 makeInteger(builder, loc, 1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  outerCoordinates =
      delinearise(builder, loop.getInductionVar(), program.outer);
  emitRow();
}

void RowEmitter::emitChunks() {
  // Index of the range: (kept outer axes, chunk).
  auto loop = scf::ForOp::create(builder, loc, frame.begin, frame.end,
                                 makeInteger(builder, loc, 1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  ArrayRef<int64_t> outer(program.outer);
  ArrayRef<int64_t> kept = outer.drop_back(program.reducedOuter),
                    reduced = outer.take_back(program.reducedOuter);
  SmallVector<int64_t> extents(kept);
  extents.push_back(program.getChunks());
  SmallVector<Value> coordinates =
      delinearise(builder, loop.getInductionVar(), extents);
  chunk = coordinates.pop_back_val();

  // The partials of the chunk start from the identity.
  outerCoordinates = coordinates;
  outerCoordinates.append(reduced.size(), makeInteger(builder, loc, 0));
  Value zero = makeInteger(builder, loc, 0),
        length = makeInteger(builder, loc, program.getRowLength());
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
  for (size_t index = 0; index < program.stores.size(); ++index) {
    const RowStore &store = program.stores[index];
    if (!store.partial)
      continue;
    TypedAttr identity =
        getIdentity(store.reduction, program.nodes[store.node].type);
    Value base = getStoreBase(index);
    if (!store.isRow) {
      target.once(builder, loc, [&](OpBuilder &at) {
        Value value = toMemory(at, loc, makeConstant(at, identity, false));
        storeElement(at, loc, value, value.getType(), base, zero);
      });
      continue;
    }
    auto fill = [&](OpBuilder &at, bool lanes, Value first) {
      RowBlock block(at, lanes, first);
      Value value = makeConstant(at, identity, lanes);
      if (lanes)
        writeMemory(value, base, store.strides, block);
      else
        target.once(at, loc, [&](OpBuilder &inner) {
          RowBlock single(inner, false, first);
          writeMemory(value, base, store.strides, single);
        });
    };
    int64_t whole = program.getRowLength() / kLanes * kLanes;
    if (whole)
      emitLoop(builder, zero, makeInteger(builder, loc, whole), kLanes, {},
               [&](OpBuilder &at, Value first, ValueRange) {
                 fill(at, true, first);
                 return SmallVector<Value>();
               });
    if (whole != program.getRowLength())
      emitLoop(builder, makeInteger(builder, loc, whole), length, 1, {},
               [&](OpBuilder &at, Value first, ValueRange) {
                 fill(at, false, first);
                 return SmallVector<Value>();
               });
  }
  storeBases.clear();

  Value rows = makeInteger(builder, loc, kChunkRows);
  Value low = arith::MulIOp::create(builder, loc, chunk, rows);
  Value high = arith::MinSIOp::create(
      builder, loc, arith::AddIOp::create(builder, loc, low, rows),
      makeInteger(builder, loc, program.getReducedRows()));
  auto inner =
      scf::ForOp::create(builder, loc, low, high, makeInteger(builder, loc, 1));
  builder.setInsertionPoint(inner.getBody()->getTerminator());
  outerCoordinates = coordinates;
  llvm::append_range(outerCoordinates,
                     delinearise(builder, inner.getInductionVar(), reduced));
  emitRow();
}

void RowEmitter::emitRow() {
  Value low = makeInteger(builder, loc, 0),
        high = makeInteger(builder, loc, program.getRowLength());
  for (unsigned pass = 0; pass < passes; ++pass)
    emitPass(pass, low, high, /*isStatic=*/true);
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
  for (auto [index, store] : llvm::enumerate(program.stores))
    if (!store.isRow)
      storeUniform(index);
}

ValueRange RowEmitter::emitLoop(OpBuilder &at, Value low, Value high,
                                int64_t step, ValueRange initial,
                                LoopBody body) {
  auto loop = scf::ForOp::create(at, loc, low, high, makeInteger(at, loc, step),
                                 initial);
  OpBuilder inner(at.getContext());
  if (initial.empty())
    inner.setInsertionPoint(loop.getBody()->getTerminator());
  else
    inner.setInsertionPointToEnd(loop.getBody());
  // Uniform values that the body asks for first are computed in front of the
  // first loop of the pass; rowBuilder stays there.
  if (rowBuilder.getInsertionBlock() == loop->getBlock() &&
      rowBuilder.getInsertionPoint() == at.getInsertionPoint())
    rowBuilder.setInsertionPoint(loop);
  SmallVector<Value> next =
      body(inner, loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(inner, loc, next);
  return loop.getResults();
}

void RowEmitter::emitPass(unsigned pass, Value low, Value high, bool isStatic) {
  currentPass = pass;
  SmallVector<unsigned> reductions, stores;
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Reduce &&
        program.nodes[node.operands[0]].level == pass)
      reductions.push_back(index);
  for (auto [index, store] : llvm::enumerate(program.stores))
    if (store.isRow && getPass(store) == pass)
      stores.push_back(index);

  auto body = [&](OpBuilder &at, bool lanes, Value first,
                  ValueRange accumulators) {
    RowBlock block(at, lanes, first);
    SmallVector<Value> next;
    for (auto [index, reduction] : llvm::enumerate(reductions)) {
      const RowNode &node = program.nodes[reduction];
      next.push_back(combine(at, loc, node.reduction, accumulators[index],
                             getValue(node.operands[0], block)));
    }
    for (unsigned store :
         stores) // loads before stores: a buffer may be written in place
      getValue(program.stores[store].node, block);
    for (unsigned store : stores)
      storeRow(store, block);
    return next;
  };
  auto makeIdentities = [&](bool lanes) {
    SmallVector<Value> values;
    for (unsigned reduction : reductions)
      values.push_back(
          makeConstant(builder,
                       getIdentity(program.nodes[reduction].reduction,
                                   program.nodes[reduction].type),
                       lanes));
    return values;
  };

  SmallVector<Value> accumulators = makeIdentities(false);
  Value middle;
  bool hasBlocks = true, hasRest = true;
  if (isStatic) {
    int64_t length = program.getRowLength(), whole = length / kLanes * kLanes;
    middle = makeInteger(builder, loc, whole);
    hasBlocks = whole > 0;
    hasRest = whole < length;
  } else {
    Value lanes = makeInteger(builder, loc, kLanes);
    Value length = arith::SubIOp::create(builder, loc, high, low);
    Value rest = arith::RemUIOp::create(builder, loc, length, lanes);
    middle = arith::SubIOp::create(builder, loc, high, rest);
  }
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
  if (hasBlocks) {
    SmallVector<Value> identities = makeIdentities(true);
    rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
    ValueRange results =
        emitLoop(builder, low, middle, kLanes, identities,
                 [&](OpBuilder &at, Value first, ValueRange values) {
                   return body(at, true, first, values);
                 });
    for (auto [index, reduction] : llvm::enumerate(reductions))
      accumulators[index] = target.combineLanes(
          builder, loc, program.nodes[reduction].reduction, results[index]);
  }
  if (hasRest) {
    ValueRange results =
        emitLoop(builder, middle, high, 1, accumulators,
                 [&](OpBuilder &at, Value first, ValueRange values) {
                   return body(at, false, first, values);
                 });
    accumulators.assign(results.begin(), results.end());
  }
  for (auto [index, reduction] : llvm::enumerate(reductions))
    uniforms[reduction] = accumulators[index];
}

void harmony::codegen::emitRowProgram(OpBuilder &builder, Location loc,
                                      const RowProgram &program,
                                      const RowFrame &frame) {
  RowEmitter(builder, loc, program, frame).run();
}
