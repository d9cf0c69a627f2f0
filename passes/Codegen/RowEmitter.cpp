//===- RowEmitter.cpp - Row programs to loops -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is walked once per level of its reductions. What a later pass needs again is
// loaded and computed again, but for expensive functions, whose values stay in a small
// buffer on the stack. Values that are the same for the whole row are scalars computed
// between the passes.
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/RowEmitter.h"

#include "runtime/program.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

namespace {
/// Where elements are being computed: lanes starting at `first`, or the element `first`.
struct Block {
  Block(OpBuilder &builder, bool lanes, Value first) : builder(builder), lanes(lanes), first(first) {}

  OpBuilder &builder;
  bool lanes;
  Value first;
  DenseMap<unsigned, Value> values;   ///< of nodes
  SmallVector<Value> coordinates;     ///< along the inner axes
};

class RowEmitter {
public:
  RowEmitter(OpBuilder &builder, Location loc, const RowProgram &program, const RowFrame &frame)
      : builder(builder), rowBuilder(builder), loc(loc), program(program), frame(frame), target(frame.target) {}
  void run();

private:
  // Loops.
  void emitFlat();
  void emitRows();
  void emitChunks();
  void emitRow();
  void emitPass(unsigned pass, Value low, Value high, bool isStatic);
  using LoopBody = function_ref<SmallVector<Value>(OpBuilder &, Value, ValueRange)>;
  ValueRange emitLoop(OpBuilder &at, Value low, Value high, int64_t step, ValueRange initial, LoopBody body);
  SmallVector<Value> delinearise(OpBuilder &at, Value index, ArrayRef<int64_t> extents);

  // Values.
  Value getUniform(unsigned node);
  Value getValue(unsigned node, Block &block);
  Value computeRow(unsigned node, Block &block);
  Value loadRow(unsigned node, Block &block);
  Value combineChunks(unsigned node, Block *block);
  Value apply(OpBuilder &at, const RowNode &node, ValueRange operands, bool lanes);
  bool comparesIndices(const RowNode &node) const;
  Value compareNarrow(const RowNode &node, Block &block);
  Value convertIndex(OpBuilder &at, Value index, Type element, bool lanes);
  Value clampIndex(OpBuilder &at, Value index, int64_t extent, bool lanes);
  Value makeConstant(OpBuilder &at, TypedAttr value, bool lanes);

  // Addresses.
  Value getBase(unsigned memory, int64_t offset, const AxisStrides &strides);
  Value getNodeBase(unsigned node);
  Value getStoreBase(unsigned store);
  Value getInnerOffset(const AxisStrides &strides, Block &block);
  Value readMemory(Type element, Value base, const AxisStrides &strides, Block &block);
  void writeMemory(Value value, Value base, const AxisStrides &strides, Block &block);
  void storeRow(unsigned store, Block &block);
  void storeUniform(unsigned store);
  bool isContiguous(const AxisStrides &strides) const {
    return program.inner.size() == 1 && strides.inner.front() == 1;
  }

  // Passes.
  unsigned getPass(const RowStore &store) const;
  void planBuffers();
  void reach(unsigned node, unsigned pass, DenseMap<unsigned, unsigned> &firstPass, DenseSet<unsigned> &seen);

  OpBuilder &builder;
  OpBuilder rowBuilder; ///< in front of the pass that is being emitted
  Location loc;
  const RowProgram &program;
  const RowFrame &frame;
  const LaneTarget &target;

  unsigned passes = 0, currentPass = 0;
  SmallVector<Value> outerCoordinates;
  Value chunk;
  DenseMap<unsigned, Value> uniforms, nodeBases, storeBases;
  struct Buffer {
    unsigned pass; ///< that writes it
    Value base;
  };
  DenseMap<unsigned, Buffer> buffers;
};
} // namespace

//===----------------------------------------------------------------------===//
// Passes and buffers
//===----------------------------------------------------------------------===//

unsigned RowEmitter::getPass(const RowStore &store) const {
  return store.inPlace ? passes - 1 : program.nodes[store.node].level;
}

static bool isExpensive(const RowNode &node) {
  return node.kind == Node::Element &&
         (isa<math::MathDialect>(node.op->getDialect()) ? !isa<math::AbsFOp, math::FmaOp, math::CopySignOp>(node.op)
                                                         : isa<arith::DivFOp, arith::RemFOp>(node.op));
}

/// Visits the row values that a pass computes for `node`, stopping where an earlier
/// pass has left a buffer.
void RowEmitter::reach(unsigned number, unsigned pass, DenseMap<unsigned, unsigned> &firstPass,
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
      if (node.kind == Node::Reduce && program.nodes[node.operands[0]].level == pass)
        reach(node.operands[0], pass, firstPass, seen);
    for (const RowStore &store : program.stores)
      if (store.isRow && getPass(store) == pass)
        reach(store.node, pass, firstPass, seen);
  }
  int64_t left = target.hasRowBuffers() ? kStackBytes : 0;
  SmallVector<unsigned> wanted = llvm::to_vector(llvm::make_first_range(buffers));
  llvm::sort(wanted);
  for (unsigned node : wanted) {
    int64_t bytes = program.getRowLength() * getElementBytes(program.nodes[node].type);
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

SmallVector<Value> RowEmitter::delinearise(OpBuilder &at, Value index, ArrayRef<int64_t> extents) {
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

void RowEmitter::emitFlat() { emitPass(0, frame.begin, frame.end, /*isStatic=*/false); }

void RowEmitter::emitRows() {
  auto loop = scf::ForOp::create(builder, loc, frame.begin, frame.end, makeInteger(builder, loc, 1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  outerCoordinates = delinearise(builder, loop.getInductionVar(), program.outer);
  emitRow();
}

void RowEmitter::emitChunks() {
  // Index of the range: (kept outer axes, chunk).
  auto loop = scf::ForOp::create(builder, loc, frame.begin, frame.end, makeInteger(builder, loc, 1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  ArrayRef<int64_t> outer(program.outer);
  ArrayRef<int64_t> kept = outer.drop_back(program.reducedOuter), reduced = outer.take_back(program.reducedOuter);
  SmallVector<int64_t> extents(kept);
  extents.push_back(program.getChunks());
  SmallVector<Value> coordinates = delinearise(builder, loop.getInductionVar(), extents);
  chunk = coordinates.pop_back_val();

  // The partials of the chunk start from the identity.
  outerCoordinates = coordinates;
  outerCoordinates.append(reduced.size(), makeInteger(builder, loc, 0));
  Value zero = makeInteger(builder, loc, 0), length = makeInteger(builder, loc, program.getRowLength());
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
  for (size_t index = 0; index < program.stores.size(); ++index) {
    const RowStore &store = program.stores[index];
    if (!store.partial)
      continue;
    TypedAttr identity = getIdentity(store.reduction, program.nodes[store.node].type);
    Value base = getStoreBase(index);
    if (!store.isRow) {
      target.once(builder, loc, [&](OpBuilder &at) {
        Value value = toMemory(at, loc, makeConstant(at, identity, false));
        storeElement(at, loc, value, value.getType(), base, zero);
      });
      continue;
    }
    auto fill = [&](OpBuilder &at, bool lanes, Value first) {
      Block block(at, lanes, first);
      Value value = makeConstant(at, identity, lanes);
      if (lanes)
        writeMemory(value, base, store.strides, block);
      else
        target.once(at, loc, [&](OpBuilder &inner) {
          Block single(inner, false, first);
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
  Value high = arith::MinSIOp::create(builder, loc, arith::AddIOp::create(builder, loc, low, rows),
                                      makeInteger(builder, loc, program.getReducedRows()));
  auto inner = scf::ForOp::create(builder, loc, low, high, makeInteger(builder, loc, 1));
  builder.setInsertionPoint(inner.getBody()->getTerminator());
  outerCoordinates = coordinates;
  llvm::append_range(outerCoordinates, delinearise(builder, inner.getInductionVar(), reduced));
  emitRow();
}

void RowEmitter::emitRow() {
  Value low = makeInteger(builder, loc, 0), high = makeInteger(builder, loc, program.getRowLength());
  for (unsigned pass = 0; pass < passes; ++pass)
    emitPass(pass, low, high, /*isStatic=*/true);
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
  for (auto [index, store] : llvm::enumerate(program.stores))
    if (!store.isRow)
      storeUniform(index);
}

ValueRange RowEmitter::emitLoop(OpBuilder &at, Value low, Value high, int64_t step, ValueRange initial,
                                LoopBody body) {
  auto loop = scf::ForOp::create(at, loc, low, high, makeInteger(at, loc, step), initial);
  OpBuilder inner(at.getContext());
  if (initial.empty())
    inner.setInsertionPoint(loop.getBody()->getTerminator());
  else
    inner.setInsertionPointToEnd(loop.getBody());
  // Uniform values that the body asks for first are computed in front of the first loop
  // of the pass; rowBuilder stays there.
  if (rowBuilder.getInsertionBlock() == loop->getBlock() && rowBuilder.getInsertionPoint() == at.getInsertionPoint())
    rowBuilder.setInsertionPoint(loop);
  SmallVector<Value> next = body(inner, loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(inner, loc, next);
  return loop.getResults();
}

void RowEmitter::emitPass(unsigned pass, Value low, Value high, bool isStatic) {
  currentPass = pass;
  SmallVector<unsigned> reductions, stores;
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Reduce && program.nodes[node.operands[0]].level == pass)
      reductions.push_back(index);
  for (auto [index, store] : llvm::enumerate(program.stores))
    if (store.isRow && getPass(store) == pass)
      stores.push_back(index);

  auto body = [&](OpBuilder &at, bool lanes, Value first, ValueRange accumulators) {
    Block block(at, lanes, first);
    SmallVector<Value> next;
    for (auto [index, reduction] : llvm::enumerate(reductions)) {
      const RowNode &node = program.nodes[reduction];
      next.push_back(combine(at, loc, node.reduction, accumulators[index], getValue(node.operands[0], block)));
    }
    for (unsigned store : stores) // loads before stores: a buffer may be written in place
      getValue(program.stores[store].node, block);
    for (unsigned store : stores)
      storeRow(store, block);
    return next;
  };
  auto makeIdentities = [&](bool lanes) {
    SmallVector<Value> values;
    for (unsigned reduction : reductions)
      values.push_back(makeConstant(
          builder, getIdentity(program.nodes[reduction].reduction, program.nodes[reduction].type), lanes));
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
        emitLoop(builder, low, middle, kLanes, identities, [&](OpBuilder &at, Value first, ValueRange values) {
          return body(at, true, first, values);
        });
    for (auto [index, reduction] : llvm::enumerate(reductions))
      accumulators[index] = target.combineLanes(builder, loc, program.nodes[reduction].reduction, results[index]);
  }
  if (hasRest) {
    ValueRange results =
        emitLoop(builder, middle, high, 1, accumulators, [&](OpBuilder &at, Value first, ValueRange values) {
          return body(at, false, first, values);
        });
    accumulators.assign(results.begin(), results.end());
  }
  for (auto [index, reduction] : llvm::enumerate(reductions))
    uniforms[reduction] = accumulators[index];
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value RowEmitter::makeConstant(OpBuilder &at, TypedAttr value, bool lanes) {
  Value scalar = arith::ConstantOp::create(at, loc, value);
  return lanes ? target.splat(at, loc, scalar) : scalar;
}

Value RowEmitter::convertIndex(OpBuilder &at, Value index, Type element, bool lanes) {
  Type type = lanes ? target.getLaneType(element) : element;
  if (isa<FloatType>(element))
    return arith::SIToFPOp::create(at, loc, type, index);
  if (element.getIntOrFloatBitWidth() < 64)
    return arith::TruncIOp::create(at, loc, type, index);
  return index;
}

/// An i64 in [0, extent): an index that no check has seen must not leave the table.
Value RowEmitter::clampIndex(OpBuilder &at, Value index, int64_t extent, bool lanes) {
  Type wide = lanes ? target.getLaneType(at.getI64Type()) : Type(at.getI64Type());
  if (getElementTypeOrSelf(index.getType()).getIntOrFloatBitWidth() < 64)
    index = arith::ExtSIOp::create(at, loc, wide, index);
  index = arith::MaxSIOp::create(at, loc, index, makeConstant(at, at.getI64IntegerAttr(0), lanes));
  return arith::MinSIOp::create(at, loc, index, makeConstant(at, at.getI64IntegerAttr(extent - 1), lanes));
}

Value RowEmitter::apply(OpBuilder &at, const RowNode &node, ValueRange operands, bool lanes) {
  Type type = lanes ? target.getLaneType(node.type) : node.type;
  OperationState state(loc, node.op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(node.op->getAttrs());
  return at.create(state)->getResult(0);
}

/// Whether a node compares indices along the row, all of them small, with something
/// that is the same for the whole row: a class with a label, a column with a row.
bool RowEmitter::comparesIndices(const RowNode &node) const {
  auto compare = dyn_cast_or_null<arith::CmpIOp>(node.op);
  if (node.kind != Node::Element || !compare || compare.getPredicate() > arith::CmpIPredicate::sge)
    return false;
  return llvm::all_of(node.operands, [&](unsigned number) {
    const RowNode &operand = program.nodes[number];
    if (!operand.type.isInteger(64) || !operand.isRow)
      return operand.type.isInteger(64);
    int64_t most = 0;
    for (auto [extents, strides] : {std::pair(&program.outer, &operand.strides.outer),
                                    std::pair(&program.inner, &operand.strides.inner)})
      for (auto [extent, stride] : llvm::zip_equal(*extents, *strides))
        most += stride < 0 ? std::numeric_limits<int32_t>::max() : extent * stride;
    return operand.kind == Node::Iota && !program.flat && most < std::numeric_limits<int32_t>::max();
  });
}

/// Such a comparison in 32 bits: half the registers. Clamping what is compared with keeps
/// the order to every index.
Value RowEmitter::compareNarrow(const RowNode &node, Block &block) {
  OpBuilder &at = block.builder;
  Type narrow = at.getI32Type();
  SmallVector<Value> operands;
  for (unsigned number : node.operands) {
    if (program.nodes[number].isRow) {
      operands.push_back(arith::TruncIOp::create(at, loc, target.getLaneType(narrow), getValue(number, block)));
      continue;
    }
    Value value = getUniform(number);
    Value least = makeInteger(rowBuilder, loc, std::numeric_limits<int32_t>::min());
    Value most = makeInteger(rowBuilder, loc, std::numeric_limits<int32_t>::max());
    value = arith::MaxSIOp::create(rowBuilder, loc, value, least);
    value = arith::MinSIOp::create(rowBuilder, loc, value, most);
    value = arith::TruncIOp::create(rowBuilder, loc, narrow, value);
    operands.push_back(target.splat(at, loc, value));
  }
  return apply(at, node, operands, /*lanes=*/true);
}

/// A value that a whole row shares; emitted in front of the pass that asks first.
Value RowEmitter::getUniform(unsigned number) {
  if (auto known = uniforms.find(number); known != uniforms.end())
    return known->second;
  const RowNode &node = program.nodes[number];
  OpBuilder &at = rowBuilder;
  Value value;
  switch (node.kind) {
  case Node::Constant:
    value = arith::ConstantOp::create(at, loc, cast<TypedAttr>(node.value));
    break;
  case Node::Load: {
    Value loaded = loadElement(at, loc, getMemoryType(node.type), getNodeBase(number), makeInteger(at, loc, 0));
    value = fromMemory(at, loc, node.type, loaded);
    break;
  }
  case Node::Combine:
    value = combineChunks(number, nullptr);
    break;
  case Node::Iota: {
    Value index = makeInteger(at, loc, 0);
    for (auto [coordinate, stride] : llvm::zip_equal(outerCoordinates, node.strides.outer))
      if (stride)
        index = arith::AddIOp::create(
            at, loc, index, arith::MulIOp::create(at, loc, coordinate, makeInteger(at, loc, stride)));
    value = convertIndex(at, index, node.type, false);
    break;
  }
  case Node::Element: {
    SmallVector<Value> operands;
    for (unsigned operand : node.operands)
      operands.push_back(getUniform(operand));
    value = apply(at, node, operands, false);
    break;
  }
  case Node::Reduce:
    llvm_unreachable("a reduction is over before its value is used");
  }
  return uniforms[number] = value;
}

/// The partials of one element, or of lanes of them, in the order of the chunks.
Value RowEmitter::combineChunks(unsigned number, Block *block) {
  const RowNode &node = program.nodes[number];
  OpBuilder &at = block ? block->builder : rowBuilder;
  bool lanes = block && block->lanes;
  Value base = getNodeBase(number);
  Value initial = makeConstant(at, getIdentity(node.reduction, node.type), lanes);
  auto loop = scf::ForOp::create(at, loc, makeInteger(at, loc, 0), makeInteger(at, loc, node.chunks),
                                 makeInteger(at, loc, 1), initial);
  OpBuilder inner = OpBuilder::atBlockEnd(loop.getBody());
  Type memory = getMemoryType(node.type);
  Value offset = arith::MulIOp::create(inner, loc, loop.getInductionVar(), makeInteger(inner, loc, node.chunkStride));
  Value start = getAddress(inner, loc, memory, base, offset), value;
  if (block) {
    Block at(inner, block->lanes, block->first);
    value = readMemory(node.type, start, node.strides, at);
  } else {
    value = fromMemory(inner, loc, node.type, loadElement(inner, loc, memory, start, makeInteger(inner, loc, 0)));
  }
  scf::YieldOp::create(inner, loc, combine(inner, loc, node.reduction, loop.getRegionIterArg(0), value));
  return loop.getResult(0);
}

Value RowEmitter::getValue(unsigned number, Block &block) {
  if (auto known = block.values.find(number); known != block.values.end())
    return known->second;
  const RowNode &node = program.nodes[number];
  Value value;
  if (!node.isRow) {
    value = getUniform(number);
    if (block.lanes)
      value = target.splat(block.builder, loc, value);
  } else if (auto buffer = buffers.find(number); buffer != buffers.end()) {
    Type memory = getMemoryType(node.type);
    OpBuilder &at = block.builder;
    Value base = buffer->second.base;
    if (buffer->second.pass < currentPass) {
      value = block.lanes ? target.load(at, loc, memory, base, block.first)
                          : loadElement(at, loc, memory, base, block.first);
      value = fromMemory(at, loc, node.type, value);
    } else {
      value = computeRow(number, block);
      Value stored = toMemory(at, loc, value);
      if (block.lanes)
        target.store(at, loc, stored, memory, base, block.first);
      else
        storeElement(at, loc, stored, memory, base, block.first);
    }
  } else {
    value = computeRow(number, block);
  }
  return block.values[number] = value;
}

Value RowEmitter::computeRow(unsigned number, Block &block) {
  const RowNode &node = program.nodes[number];
  OpBuilder &at = block.builder;
  switch (node.kind) {
  case Node::Load:
    return loadRow(number, block);
  case Node::Combine:
    return combineChunks(number, &block);
  case Node::Iota: {
    Value index = getInnerOffset(node.strides, block);
    for (auto [coordinate, stride] : llvm::zip_equal(outerCoordinates, node.strides.outer)) {
      if (!stride)
        continue;
      Value part = arith::MulIOp::create(at, loc, coordinate, makeInteger(at, loc, stride));
      if (block.lanes)
        part = target.splat(at, loc, part);
      index = arith::AddIOp::create(at, loc, index, part);
    }
    return convertIndex(at, index, node.type, block.lanes);
  }
  case Node::Element: {
    if (block.lanes && comparesIndices(node))
      return compareNarrow(node, block);
    SmallVector<Value> operands;
    for (unsigned operand : node.operands)
      operands.push_back(getValue(operand, block));
    return apply(at, node, operands, block.lanes);
  }
  case Node::Constant:
  case Node::Reduce:
    break;
  }
  llvm_unreachable("the same for the whole row");
}

Value RowEmitter::loadRow(unsigned number, Block &block) {
  const RowNode &node = program.nodes[number];
  if (!node.indexed || !program.nodes[node.operands[0]].isRow)
    return readMemory(node.type, getNodeBase(number), node.strides, block);
  OpBuilder &at = block.builder;
  Value index = clampIndex(at, getValue(node.operands[0], block), node.indexExtent, block.lanes);
  Value offset = arith::MulIOp::create(
      at, loc, index, makeConstant(at, at.getI64IntegerAttr(node.indexStride), block.lanes));
  if (llvm::any_of(node.strides.inner, [](int64_t stride) { return stride != 0; }))
    offset = arith::AddIOp::create(at, loc, offset, getInnerOffset(node.strides, block));
  Type memory = getMemoryType(node.type);
  Value base = getNodeBase(number);
  Value value = block.lanes ? target.gather(at, loc, memory, base, offset)
                            : loadElement(at, loc, memory, base, offset);
  return fromMemory(at, loc, node.type, value);
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value RowEmitter::getBase(unsigned memory, int64_t offset, const AxisStrides &strides) {
  OpBuilder &at = rowBuilder;
  Value position = makeInteger(at, loc, offset);
  for (auto [coordinate, stride] : llvm::zip_equal(outerCoordinates, strides.outer))
    if (stride)
      position = arith::AddIOp::create(
          at, loc, position, arith::MulIOp::create(at, loc, coordinate, makeInteger(at, loc, stride)));
  return getAddress(at, loc, getMemoryType(program.memories[memory].element), frame.buffers[memory], position);
}

Value RowEmitter::getNodeBase(unsigned number) {
  if (auto known = nodeBases.find(number); known != nodeBases.end())
    return known->second;
  const RowNode &node = program.nodes[number];
  Value base = getBase(node.memory, node.offset, node.strides);
  if (node.indexed && !program.nodes[node.operands[0]].isRow) {
    OpBuilder &at = rowBuilder;
    Value index = clampIndex(at, getUniform(node.operands[0]), node.indexExtent, false);
    Value offset = arith::MulIOp::create(at, loc, index, makeInteger(at, loc, node.indexStride));
    base = getAddress(at, loc, getMemoryType(node.type), base, offset);
  }
  return nodeBases[number] = base;
}

Value RowEmitter::getStoreBase(unsigned number) {
  if (auto known = storeBases.find(number); known != storeBases.end())
    return known->second;
  const RowStore &store = program.stores[number];
  Value base = getBase(store.memory, store.offset, store.strides);
  if (store.partial) {
    Value offset =
        arith::MulIOp::create(rowBuilder, loc, chunk, makeInteger(rowBuilder, loc, store.chunkStride));
    base = getAddress(rowBuilder, loc, getMemoryType(program.memories[store.memory].element), base, offset);
  }
  return storeBases[number] = base;
}

/// Offset, or index, that the inner axes make for the elements of a block.
Value RowEmitter::getInnerOffset(const AxisStrides &strides, Block &block) {
  OpBuilder &at = block.builder;
  if (block.coordinates.empty()) {
    Value index = block.lanes ? target.getIndex(at, loc, block.first) : block.first;
    block.coordinates = delinearise(at, index, program.inner);
  }
  Value offset;
  for (auto [coordinate, stride] : llvm::zip_equal(block.coordinates, strides.inner)) {
    if (!stride)
      continue;
    Value part = coordinate;
    if (stride != 1)
      part = arith::MulIOp::create(at, loc, part, makeConstant(at, at.getI64IntegerAttr(stride), block.lanes));
    offset = offset ? arith::AddIOp::create(at, loc, offset, part).getResult() : part;
  }
  return offset ? offset : makeConstant(at, at.getI64IntegerAttr(0), block.lanes);
}

Value RowEmitter::readMemory(Type element, Value base, const AxisStrides &strides, Block &block) {
  OpBuilder &at = block.builder;
  Type memory = getMemoryType(element);
  Value value;
  if (block.lanes && isContiguous(strides))
    value = target.load(at, loc, memory, base, block.first);
  else if (block.lanes)
    value = target.gather(at, loc, memory, base, getInnerOffset(strides, block));
  else
    value = loadElement(at, loc, memory, base, getInnerOffset(strides, block));
  return fromMemory(at, loc, element, value);
}

void RowEmitter::writeMemory(Value value, Value base, const AxisStrides &strides, Block &block) {
  OpBuilder &at = block.builder;
  value = toMemory(at, loc, value);
  Type memory = getElementTypeOrSelf(value.getType());
  if (block.lanes && isContiguous(strides))
    target.store(at, loc, value, memory, base, block.first);
  else if (block.lanes)
    target.scatter(at, loc, value, memory, base, getInnerOffset(strides, block));
  else
    storeElement(at, loc, value, memory, base, getInnerOffset(strides, block));
}

void RowEmitter::storeRow(unsigned number, Block &block) {
  const RowStore &store = program.stores[number];
  Type element = program.nodes[store.node].type;
  Value value = getValue(store.node, block), base = getStoreBase(number);
  auto write = [&](Block &where) {
    Value result = value;
    if (store.accumulate || store.partial) {
      nn::ReduceKind kind = store.partial ? store.reduction : nn::ReduceKind::sum;
      result = combine(where.builder, loc, kind, readMemory(element, base, store.strides, where), value);
    }
    writeMemory(result, base, store.strides, where);
  };
  if (block.lanes)
    return write(block);
  target.once(block.builder, loc, [&](OpBuilder &at) {
    Block single(at, false, block.first);
    write(single);
  });
}

void RowEmitter::storeUniform(unsigned number) {
  const RowStore &store = program.stores[number];
  const RowNode &node = program.nodes[store.node];
  Value value = getUniform(store.node), base = getStoreBase(number);
  builder.restoreInsertionPoint(rowBuilder.saveInsertionPoint());
  target.once(builder, loc, [&](OpBuilder &at) {
    Value zero = makeInteger(at, loc, 0), result = value;
    Type memory = getMemoryType(node.type);
    if (store.accumulate || store.partial) {
      nn::ReduceKind kind = store.partial ? store.reduction : nn::ReduceKind::sum;
      Value old = fromMemory(at, loc, node.type, loadElement(at, loc, memory, base, zero));
      result = combine(at, loc, kind, old, value);
    }
    storeElement(at, loc, toMemory(at, loc, result), memory, base, zero);
  });
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
}

void harmony::codegen::emitRowProgram(OpBuilder &builder, Location loc, const RowProgram &program,
                                      const RowFrame &frame) {
  RowEmitter(builder, loc, program, frame).run();
}

//===----------------------------------------------------------------------===//
// What launches need to know
//===----------------------------------------------------------------------===//

static int64_t product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

int64_t RowProgram::getRowLength() const { return product(inner); }

int64_t RowProgram::getReducedRows() const { return product(ArrayRef<int64_t>(outer).take_back(reducedOuter)); }

int64_t RowProgram::getChunks() const { return llvm::divideCeil(getReducedRows(), kChunkRows); }

int64_t RowProgram::getExtent() const {
  if (flat)
    return getRowLength();
  if (chunked)
    return product(ArrayRef<int64_t>(outer).drop_back(reducedOuter)) * getChunks();
  return product(outer);
}

int64_t RowProgram::getGrain() const {
  // Enough elements to be worth a worker's attention.
  constexpr int64_t kElements = 16384;
  if (flat)
    return kElements;
  return std::max<int64_t>(1, kElements / (getRowLength() * (chunked ? kChunkRows : 1)));
}

int RowProgram::getFamily() const {
  if (chunked)
    return HM_FAMILY_COLUMN;
  bool computes = false, gathers = false;
  for (const RowNode &node : nodes) {
    if (node.kind == Node::Reduce)
      return HM_FAMILY_ROW;
    computes |= node.kind == Node::Element || node.kind == Node::Combine;
    gathers |= node.indexed;
  }
  return gathers ? HM_FAMILY_GATHER : computes ? HM_FAMILY_POINTWISE : HM_FAMILY_COPY;
}
