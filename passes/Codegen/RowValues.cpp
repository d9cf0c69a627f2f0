//===- RowValues.cpp - Values and addresses of a row ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/RowEmission.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value RowEmitter::makeConstant(OpBuilder &at, TypedAttr value, bool lanes) {
  Value scalar = arith::ConstantOp::create(at, loc, value);
  return lanes ? target.splat(at, loc, scalar) : scalar;
}

Value RowEmitter::convertIndex(OpBuilder &at, Value index, Type element,
                               bool lanes) {
  Type type = lanes ? target.getLaneType(element) : element;
  if (isa<FloatType>(element))
    return arith::SIToFPOp::create(at, loc, type, index);
  if (element.getIntOrFloatBitWidth() < 64)
    return arith::TruncIOp::create(at, loc, type, index);
  return index;
}

/// An i64 in [0, extent): an index that no check has seen must not leave the
/// table.
Value RowEmitter::clampIndex(OpBuilder &at, Value index, int64_t extent,
                             bool lanes) {
  Type wide =
      lanes ? target.getLaneType(at.getI64Type()) : Type(at.getI64Type());
  if (getElementTypeOrSelf(index.getType()).getIntOrFloatBitWidth() < 64)
    index = arith::ExtSIOp::create(at, loc, wide, index);
  index = arith::MaxSIOp::create(
      at, loc, index, makeConstant(at, at.getI64IntegerAttr(0), lanes));
  return arith::MinSIOp::create(
      at, loc, index,
      makeConstant(at, at.getI64IntegerAttr(extent - 1), lanes));
}

Value RowEmitter::apply(OpBuilder &at, const RowNode &node, ValueRange operands,
                        bool lanes) {
  Type type = lanes ? target.getLaneType(node.type) : node.type;
  OperationState state(loc, node.op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(node.op->getAttrs());
  return at.create(state)->getResult(0);
}

/// Whether a node compares indices along the row, all of them small, with
/// something that is the same for the whole row: a class with a label, a column
/// with a row.
bool RowEmitter::comparesIndices(const RowNode &node) const {
  auto compare = dyn_cast_or_null<arith::CmpIOp>(node.op);
  if (node.kind != Node::Element || !compare ||
      compare.getPredicate() > arith::CmpIPredicate::sge)
    return false;
  return llvm::all_of(node.operands, [&](unsigned number) {
    const RowNode &operand = program.nodes[number];
    if (!operand.type.isInteger(64) || !operand.isRow)
      return operand.type.isInteger(64);
    int64_t most = 0;
    for (auto [extents, strides] :
         {std::pair(&program.outer, &operand.strides.outer),
          std::pair(&program.inner, &operand.strides.inner)})
      for (auto [extent, stride] : llvm::zip_equal(*extents, *strides))
        most +=
            stride < 0 ? std::numeric_limits<int32_t>::max() : extent * stride;
    return operand.kind == Node::Iota && !program.flat &&
           most < std::numeric_limits<int32_t>::max();
  });
}

/// Such a comparison in 32 bits: half the registers. Clamping what is compared
/// with keeps the order to every index.
Value RowEmitter::compareNarrow(const RowNode &node, RowBlock &block) {
  OpBuilder &at = block.builder;
  Type narrow = at.getI32Type();
  SmallVector<Value> operands;
  for (unsigned number : node.operands) {
    if (program.nodes[number].isRow) {
      operands.push_back(arith::TruncIOp::create(
          at, loc, target.getLaneType(narrow), getValue(number, block)));
      continue;
    }
    Value value = getUniform(number);
    Value least =
        makeInteger(rowBuilder, loc, std::numeric_limits<int32_t>::min());
    Value most =
        makeInteger(rowBuilder, loc, std::numeric_limits<int32_t>::max());
    value = arith::MaxSIOp::create(rowBuilder, loc, value, least);
    value = arith::MinSIOp::create(rowBuilder, loc, value, most);
    value = arith::TruncIOp::create(rowBuilder, loc, narrow, value);
    operands.push_back(target.splat(at, loc, value));
  }
  return apply(at, node, operands, /*lanes=*/true);
}

/// A value that a whole row shares; emitted in front of the pass that asks
/// first.
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
    Value loaded = loadElement(at, loc, getMemoryType(node.type),
                               getNodeBase(number), makeInteger(at, loc, 0));
    value = fromMemory(at, loc, node.type, loaded);
    break;
  }
  case Node::Combine:
    value = combineChunks(number, nullptr);
    break;
  case Node::Iota: {
    Value index = makeInteger(at, loc, 0);
    for (auto [coordinate, stride] :
         llvm::zip_equal(outerCoordinates, node.strides.outer))
      if (stride)
        index = arith::AddIOp::create(
            at, loc, index,
            arith::MulIOp::create(at, loc, coordinate,
                                  makeInteger(at, loc, stride)));
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

/// The partials of one element, or of lanes of them, in the order of the
/// chunks.
Value RowEmitter::combineChunks(unsigned number, RowBlock *block) {
  const RowNode &node = program.nodes[number];
  OpBuilder &at = block ? block->builder : rowBuilder;
  bool lanes = block && block->lanes;
  Value base = getNodeBase(number);
  Value initial =
      makeConstant(at, getIdentity(node.reduction, node.type), lanes);
  auto loop = scf::ForOp::create(at, loc, makeInteger(at, loc, 0),
                                 makeInteger(at, loc, node.chunks),
                                 makeInteger(at, loc, 1), initial);
  OpBuilder inner = OpBuilder::atBlockEnd(loop.getBody());
  Type memory = getMemoryType(node.type);
  Value offset =
      arith::MulIOp::create(inner, loc, loop.getInductionVar(),
                            makeInteger(inner, loc, node.chunkStride));
  Value start = getAddress(inner, loc, memory, base, offset), value;
  if (block) {
    RowBlock at(inner, block->lanes, block->first);
    value = readMemory(node.type, start, node.strides, at);
  } else {
    value = fromMemory(
        inner, loc, node.type,
        loadElement(inner, loc, memory, start, makeInteger(inner, loc, 0)));
  }
  scf::YieldOp::create(
      inner, loc,
      combine(inner, loc, node.reduction, loop.getRegionIterArg(0), value));
  return loop.getResult(0);
}

Value RowEmitter::getValue(unsigned number, RowBlock &block) {
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

Value RowEmitter::computeRow(unsigned number, RowBlock &block) {
  const RowNode &node = program.nodes[number];
  OpBuilder &at = block.builder;
  switch (node.kind) {
  case Node::Load:
    return loadRow(number, block);
  case Node::Combine:
    return combineChunks(number, &block);
  case Node::Iota: {
    Value index = getInnerOffset(node.strides, block);
    for (auto [coordinate, stride] :
         llvm::zip_equal(outerCoordinates, node.strides.outer)) {
      if (!stride)
        continue;
      Value part = arith::MulIOp::create(at, loc, coordinate,
                                         makeInteger(at, loc, stride));
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

Value RowEmitter::loadRow(unsigned number, RowBlock &block) {
  const RowNode &node = program.nodes[number];
  if (!node.indexed || !program.nodes[node.operands[0]].isRow)
    return readMemory(node.type, getNodeBase(number), node.strides, block);
  OpBuilder &at = block.builder;
  Value index = clampIndex(at, getValue(node.operands[0], block),
                           node.indexExtent, block.lanes);
  Value offset = arith::MulIOp::create(
      at, loc, index,
      makeConstant(at, at.getI64IntegerAttr(node.indexStride), block.lanes));
  if (llvm::any_of(node.strides.inner,
                   [](int64_t stride) { return stride != 0; }))
    offset = arith::AddIOp::create(at, loc, offset,
                                   getInnerOffset(node.strides, block));
  Type memory = getMemoryType(node.type);
  Value base = getNodeBase(number);
  Value value = block.lanes ? target.gather(at, loc, memory, base, offset)
                            : loadElement(at, loc, memory, base, offset);
  return fromMemory(at, loc, node.type, value);
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value RowEmitter::getBase(unsigned memory, int64_t offset,
                          const AxisStrides &strides) {
  OpBuilder &at = rowBuilder;
  Value position = makeInteger(at, loc, offset);
  for (auto [coordinate, stride] :
       llvm::zip_equal(outerCoordinates, strides.outer))
    if (stride)
      position = arith::AddIOp::create(
          at, loc, position,
          arith::MulIOp::create(at, loc, coordinate,
                                makeInteger(at, loc, stride)));
  return getAddress(at, loc, getMemoryType(program.memories[memory].element),
                    frame.buffers[memory], position);
}

Value RowEmitter::getNodeBase(unsigned number) {
  if (auto known = nodeBases.find(number); known != nodeBases.end())
    return known->second;
  const RowNode &node = program.nodes[number];
  Value base = getBase(node.memory, node.offset, node.strides);
  if (node.indexed && !program.nodes[node.operands[0]].isRow) {
    OpBuilder &at = rowBuilder;
    Value index =
        clampIndex(at, getUniform(node.operands[0]), node.indexExtent, false);
    Value offset = arith::MulIOp::create(
        at, loc, index, makeInteger(at, loc, node.indexStride));
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
        arith::MulIOp::create(rowBuilder, loc, chunk,
                              makeInteger(rowBuilder, loc, store.chunkStride));
    base = getAddress(rowBuilder, loc,
                      getMemoryType(program.memories[store.memory].element),
                      base, offset);
  }
  return storeBases[number] = base;
}

/// Offset, or index, that the inner axes make for the elements of a block.
Value RowEmitter::getInnerOffset(const AxisStrides &strides, RowBlock &block) {
  OpBuilder &at = block.builder;
  if (block.coordinates.empty()) {
    Value index =
        block.lanes ? target.getIndex(at, loc, block.first) : block.first;
    block.coordinates = delinearise(at, index, program.inner);
  }
  Value offset;
  for (auto [coordinate, stride] :
       llvm::zip_equal(block.coordinates, strides.inner)) {
    if (!stride)
      continue;
    Value part = coordinate;
    if (stride != 1)
      part = arith::MulIOp::create(
          at, loc, part,
          makeConstant(at, at.getI64IntegerAttr(stride), block.lanes));
    offset = offset ? arith::AddIOp::create(at, loc, offset, part).getResult()
                    : part;
  }
  return offset ? offset
                : makeConstant(at, at.getI64IntegerAttr(0), block.lanes);
}

Value RowEmitter::readMemory(Type element, Value base,
                             const AxisStrides &strides, RowBlock &block) {
  OpBuilder &at = block.builder;
  Type memory = getMemoryType(element);
  Value value;
  if (block.lanes && isContiguous(strides))
    value = target.load(at, loc, memory, base, block.first);
  else if (block.lanes)
    value =
        target.gather(at, loc, memory, base, getInnerOffset(strides, block));
  else
    value = loadElement(at, loc, memory, base, getInnerOffset(strides, block));
  return fromMemory(at, loc, element, value);
}

void RowEmitter::writeMemory(Value value, Value base,
                             const AxisStrides &strides, RowBlock &block) {
  OpBuilder &at = block.builder;
  value = toMemory(at, loc, value);
  Type memory = getElementTypeOrSelf(value.getType());
  if (block.lanes && isContiguous(strides))
    target.store(at, loc, value, memory, base, block.first);
  else if (block.lanes)
    target.scatter(at, loc, value, memory, base,
                   getInnerOffset(strides, block));
  else
    storeElement(at, loc, value, memory, base, getInnerOffset(strides, block));
}

void RowEmitter::storeRow(unsigned number, RowBlock &block) {
  const RowStore &store = program.stores[number];
  Type element = program.nodes[store.node].type;
  Value value = getValue(store.node, block), base = getStoreBase(number);
  auto write = [&](RowBlock &where) {
    Value result = value;
    if (store.accumulate || store.partial) {
      nn::ReduceKind kind =
          store.partial ? store.reduction : nn::ReduceKind::sum;
      result = combine(where.builder, loc, kind,
                       readMemory(element, base, store.strides, where), value);
    }
    writeMemory(result, base, store.strides, where);
  };
  if (block.lanes)
    return write(block);
  target.once(block.builder, loc, [&](OpBuilder &at) {
    RowBlock single(at, false, block.first);
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
      nn::ReduceKind kind =
          store.partial ? store.reduction : nn::ReduceKind::sum;
      Value old = fromMemory(at, loc, node.type,
                             loadElement(at, loc, memory, base, zero));
      result = combine(at, loc, kind, old, value);
    }
    storeElement(at, loc, toMemory(at, loc, result), memory, base, zero);
  });
  rowBuilder.restoreInsertionPoint(builder.saveInsertionPoint());
}
