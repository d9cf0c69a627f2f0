//===- Lanes.cpp - Lanes as vectors and as threads ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Kernel.h"
#include "passes/Codegen/LaneTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

//===----------------------------------------------------------------------===//
// Shared parts
//===----------------------------------------------------------------------===//

Value harmony::codegen::makeInteger(OpBuilder &builder, Location loc,
                                    int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI64IntegerAttr(value));
}

/// The greater (or lesser) of two floats, NaN if either is: three instructions
/// where arith.maximumf, which orders zeros as well, takes five. Of equal
/// values, as of zeros of both signs, it is `lhs`.
static Value selectExtreme(OpBuilder &builder, Location loc,
                           arith::CmpFPredicate predicate, Value lhs,
                           Value rhs) {
  Value isBetter = arith::CmpFOp::create(builder, loc, predicate, rhs, lhs);
  Value extreme = arith::SelectOp::create(builder, loc, isBetter, rhs, lhs);
  Value isNaN =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, rhs, rhs);
  return arith::SelectOp::create(builder, loc, isNaN, rhs, extreme);
}

Value harmony::codegen::combine(OpBuilder &builder, Location loc,
                                nn::ReduceKind kind, Value lhs, Value rhs) {
  Type element = getElementTypeOrSelf(lhs.getType());
  bool isFloat = isa<FloatType>(element), isBool = element.isInteger(1);
  switch (kind) {
  case nn::ReduceKind::sum:
    if (isFloat)
      return arith::AddFOp::create(builder, loc, lhs, rhs);
    if (isBool)
      return arith::OrIOp::create(builder, loc, lhs, rhs);
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case nn::ReduceKind::max:
    if (isFloat)
      return selectExtreme(builder, loc, arith::CmpFPredicate::OGT, lhs, rhs);
    if (isBool)
      return arith::OrIOp::create(builder, loc, lhs, rhs);
    return arith::MaxSIOp::create(builder, loc, lhs, rhs);
  case nn::ReduceKind::min:
    if (isFloat)
      return selectExtreme(builder, loc, arith::CmpFPredicate::OLT, lhs, rhs);
    if (isBool)
      return arith::AndIOp::create(builder, loc, lhs, rhs);
    return arith::MinSIOp::create(builder, loc, lhs, rhs);
  }
  llvm_unreachable("all kinds are covered");
}

TypedAttr harmony::codegen::getIdentity(nn::ReduceKind kind, Type element) {
  Builder builder(element.getContext());
  if (auto floating = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &semantics = floating.getFloatSemantics();
    if (kind == nn::ReduceKind::sum)
      return FloatAttr::get(element, APFloat::getZero(semantics));
    return FloatAttr::get(
        element,
        APFloat::getInf(semantics, /*Negative=*/kind == nn::ReduceKind::max));
  }
  unsigned width = element.getIntOrFloatBitWidth();
  if (kind == nn::ReduceKind::sum ||
      (width == 1 && kind == nn::ReduceKind::max))
    return IntegerAttr::get(element, APInt::getZero(width));
  if (width == 1)
    return IntegerAttr::get(element, APInt(1, 1));
  return IntegerAttr::get(element, kind == nn::ReduceKind::max
                                       ? APInt::getSignedMinValue(width)
                                       : APInt::getSignedMaxValue(width));
}

Type harmony::codegen::getMemoryType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8)
                              : element;
}

static Type withShapeOf(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

Value harmony::codegen::fromMemory(OpBuilder &builder, Location loc,
                                   Type element, Value value) {
  if (!element.isInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                               zero);
}

Value harmony::codegen::toMemory(OpBuilder &builder, Location loc,
                                 Value value) {
  if (!getElementTypeOrSelf(value.getType()).isInteger(1))
    return value;
  return arith::ExtUIOp::create(
      builder, loc, withShapeOf(value.getType(), builder.getI8Type()), value);
}

Value harmony::codegen::getAddress(OpBuilder &builder, Location loc,
                                   Type element, Value base, Value offset) {
  Type type = base.getType();
  if (auto vector = dyn_cast<VectorType>(offset.getType()))
    type = vector.clone(type);
  return LLVM::GEPOp::create(builder, loc, type, element, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

/// Bytes; of pointers as well.
static unsigned getAlignment(Type element) {
  return element.isIntOrFloat()
             ? std::max(1u, element.getIntOrFloatBitWidth() / 8)
             : 8;
}

Value harmony::codegen::loadElement(OpBuilder &builder, Location loc,
                                    Type element, Value base, Value offset) {
  Value address = getAddress(builder, loc, element, base, offset);
  return LLVM::LoadOp::create(builder, loc, element, address,
                              getAlignment(element));
}

void harmony::codegen::storeElement(OpBuilder &builder, Location loc,
                                    Value value, Type element, Value base,
                                    Value offset) {
  Value address = getAddress(builder, loc, element, base, offset);
  LLVM::StoreOp::create(builder, loc, value, address, getAlignment(element));
}

//===----------------------------------------------------------------------===//
// Host
//===----------------------------------------------------------------------===//

Type HostLanes::getLaneType(Type element) const {
  return VectorType::get({kLanes}, element);
}

Value HostLanes::splat(OpBuilder &builder, Location loc, Value scalar) const {
  return vector::BroadcastOp::create(builder, loc,
                                     getLaneType(scalar.getType()), scalar);
}

Value HostLanes::getIndex(OpBuilder &builder, Location loc, Value first) const {
  auto type = cast<VectorType>(getLaneType(builder.getI64Type()));
  auto lanes = llvm::to_vector(llvm::seq<int64_t>(kLanes));
  Value offsets = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(lanes)));
  return arith::AddIOp::create(builder, loc, splat(builder, loc, first),
                               offsets);
}

Value HostLanes::load(OpBuilder &builder, Location loc, Type element,
                      Value base, Value first) const {
  Value address = getAddress(builder, loc, element, base, first);
  return LLVM::LoadOp::create(builder, loc, getLaneType(element), address,
                              getAlignment(element));
}

void HostLanes::store(OpBuilder &builder, Location loc, Value value,
                      Type element, Value base, Value first) const {
  Value address = getAddress(builder, loc, element, base, first);
  LLVM::StoreOp::create(builder, loc, value, address, getAlignment(element));
}

static Value makeFullMask(OpBuilder &builder, Location loc, Type type) {
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(cast<ShapedType>(type), true));
}

Value HostLanes::gather(OpBuilder &builder, Location loc, Type element,
                        Value base, Value offsets) const {
  Value addresses = getAddress(builder, loc, element, base, offsets);
  Value mask = makeFullMask(builder, loc, getLaneType(builder.getI1Type()));
  return LLVM::masked_gather::create(
      builder, loc, getLaneType(element), addresses, mask, ValueRange(),
      builder.getI32IntegerAttr(getAlignment(element)));
}

void HostLanes::scatter(OpBuilder &builder, Location loc, Value value,
                        Type element, Value base, Value offsets) const {
  Value addresses = getAddress(builder, loc, element, base, offsets);
  Value mask = makeFullMask(builder, loc, getLaneType(builder.getI1Type()));
  LLVM::masked_scatter::create(
      builder, loc, value, addresses, mask,
      builder.getI32IntegerAttr(getAlignment(element)));
}

Value HostLanes::combineLanes(OpBuilder &builder, Location loc,
                              nn::ReduceKind kind, Value lanes) const {
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    auto low = llvm::to_vector(llvm::seq<int64_t>(half)),
         high = llvm::to_vector(llvm::seq<int64_t>(half, 2 * half));
    Value lower = vector::ShuffleOp::create(builder, loc, lanes, lanes, low);
    Value upper = vector::ShuffleOp::create(builder, loc, lanes, lanes, high);
    lanes = combine(builder, loc, kind, lower, upper);
  }
  return vector::ExtractOp::create(builder, loc, lanes, ArrayRef<int64_t>{0});
}

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

Value GpuLanes::getIndex(OpBuilder &builder, Location loc, Value first) const {
  return arith::AddIOp::create(builder, loc, first, lane);
}

Value GpuLanes::load(OpBuilder &builder, Location loc, Type element, Value base,
                     Value first) const {
  return loadElement(builder, loc, element, base,
                     getIndex(builder, loc, first));
}

void GpuLanes::store(OpBuilder &builder, Location loc, Value value,
                     Type element, Value base, Value first) const {
  storeElement(builder, loc, value, element, base,
               getIndex(builder, loc, first));
}

Value GpuLanes::gather(OpBuilder &builder, Location loc, Type element,
                       Value base, Value offsets) const {
  return loadElement(builder, loc, element, base, offsets);
}

void GpuLanes::scatter(OpBuilder &builder, Location loc, Value value,
                       Type element, Value base, Value offsets) const {
  storeElement(builder, loc, value, element, base, offsets);
}

Value GpuLanes::combineLanes(OpBuilder &builder, Location loc,
                             nn::ReduceKind kind, Value lanes) const {
  // Lane j and its partner add the same two values, so every lane ends with the
  // bits of lane 0 of the halving tree.
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    auto partner = gpu::ShuffleOp::create(builder, loc, lanes, half, kLanes,
                                          gpu::ShuffleMode::XOR);
    lanes = combine(builder, loc, kind, lanes, partner.getShuffleResult());
  }
  return lanes;
}

void GpuLanes::once(OpBuilder &builder, Location loc,
                    function_ref<void(OpBuilder &)> body) const {
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, makeInteger(builder, loc, 0));
  auto guard =
      scf::IfOp::create(builder, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder inner = guard.getThenBodyBuilder();
  body(inner);
}
