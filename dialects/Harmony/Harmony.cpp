//===- Harmony.cpp - The dialect, tasks and places ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Harmony/Harmony.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony::schedule;

#include "dialects/Harmony/HarmonyDialect.cpp.inc"
#include "dialects/Harmony/HarmonyEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Harmony/HarmonyAttributes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Harmony/HarmonyOps.cpp.inc"

void HarmonyDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Harmony/HarmonyAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Harmony/HarmonyOps.cpp.inc"
      >();
}

// The enums are written into the blob as they are.
static_assert(static_cast<int>(Family::gemm) == HM_FAMILY_GEMM &&
              static_cast<int>(Family::update) == HM_FAMILY_UPDATE);
static_assert(static_cast<int>(ConvolutionDirection::weights) ==
              HM_CONVOLUTION_WEIGHTS);
static_assert(static_cast<int>(ProgramKind::load) == HM_PROGRAM_LOAD &&
              static_cast<int>(ProgramKind::evaluate) == HM_PROGRAM_EVALUATE);
static_assert(static_cast<int>(QueueKind::compute) == HM_QUEUE_COMPUTE &&
              static_cast<int>(QueueKind::host) == HM_QUEUE_HOST);

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

LogicalResult SlotAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               SlotKind kind, int64_t index, int64_t bytes) {
  if (index < 0)
    return emitError() << "slot index is " << index << ", expected at least 0";
  if (bytes < 0)
    return emitError() << "slot size is " << bytes
                       << " bytes, expected at least 0";
  if ((kind == SlotKind::workspace || kind == SlotKind::parameter) &&
      index != 0)
    return emitError() << "slot index of " << stringifySlotKind(kind) << " is "
                       << index << ", expected 0: a task has one";
  return success();
}

void TaskOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   ArrayRef<SlotAttr> slots) {
  state.getOrAddProperties<Properties>().sym_name = builder.getStringAttr(name);
  state.getOrAddProperties<Properties>().slots =
      builder.getArrayAttr(SmallVector<Attribute>(slots.begin(), slots.end()));
  state.addRegion()->emplaceBlock();
}

int64_t TaskOp::findSlot(SlotKind kind, int64_t index) {
  for (auto [position, attribute] : llvm::enumerate(getSlots())) {
    auto slot = cast<SlotAttr>(attribute);
    if (slot.getKind() == kind && slot.getIndex() == index)
      return position;
  }
  return -1;
}

int64_t TaskOp::getWorkspaceBytes() {
  int64_t position = findSlot(SlotKind::workspace);
  return position < 0 ? 0 : getSlot(position).getBytes();
}

LogicalResult TaskOp::verify() {
  for (auto [position, attribute] : llvm::enumerate(getSlots())) {
    auto slot = cast<SlotAttr>(attribute);
    if (findSlot(slot.getKind(), slot.getIndex()) !=
        static_cast<int64_t>(position))
      return emitOpError() << "has slot " << stringifySlotKind(slot.getKind())
                           << " " << slot.getIndex() << " twice";
  }
  for (Operation &op : getBlock())
    if (!isa<LaunchOp, GemmOp, ConvolutionOp, FillOp>(op))
      return emitOpError() << "holds '" << op.getName()
                           << "', expected harmony.launch, harmony.gemm, "
                              "harmony.convolution or harmony.fill";
  return success();
}

static LogicalResult verifyRef(Operation *op, RefAttr ref) {
  auto task = op->getParentOfType<TaskOp>();
  int64_t slots = task.getSlots().size();
  if (ref.getSlot() < 0 || ref.getSlot() >= slots)
    return op->emitOpError()
           << "refers to slot " << ref.getSlot() << " of @" << task.getSymName()
           << ", which has " << slots << " slots";
  int64_t size = task.getSlot(ref.getSlot()).getBytes();
  if (ref.getOffset() < 0 || ref.getBytes() < 0 || ref.getOffset() > size ||
      ref.getBytes() > size - ref.getOffset())
    return op->emitOpError() << "touches bytes [" << ref.getOffset() << ", "
                             << ref.getOffset() + ref.getBytes() << ") of slot "
                             << ref.getSlot() << " of @" << task.getSymName()
                             << ", which has " << size << " bytes";
  return success();
}

SmallVector<RefAttr> harmony::schedule::getRefs(Operation *op) {
  if (auto fill = dyn_cast<FillOp>(op))
    return {fill.getRef()};
  return llvm::to_vector(
      op->getAttrOfType<ArrayAttr>("refs").getAsRange<RefAttr>());
}

static LogicalResult verifyRefs(Operation *op, ArrayAttr refs) {
  for (Attribute ref : refs)
    if (failed(verifyRef(op, cast<RefAttr>(ref))))
      return failure();
  return success();
}

static ArrayAttr getRefArray(OpBuilder &builder, ArrayRef<RefAttr> refs) {
  return builder.getArrayAttr(SmallVector<Attribute>(refs.begin(), refs.end()));
}

void LaunchOp::build(OpBuilder &builder, OperationState &state,
                     StringRef kernel, ArrayRef<RefAttr> refs, int64_t extent,
                     int64_t grain, Family family) {
  build(builder, state, TypeRange(),
        FlatSymbolRefAttr::get(builder.getContext(), kernel),
        getRefArray(builder, refs), builder.getI64IntegerAttr(extent),
        builder.getI64IntegerAttr(grain),
        FamilyAttr::get(builder.getContext(), family));
}

LogicalResult LaunchOp::verify() {
  if (getExtent() < 1)
    return emitOpError() << "extent is " << getExtent()
                         << ", expected at least 1";
  if (getGrain() < 1)
    return emitOpError() << "grain is " << getGrain()
                         << ", expected at least 1";
  return verifyRefs(*this, getRefs());
}

LogicalResult FillOp::verify() {
  if (getValue() < 0 || getValue() > 255)
    return emitOpError() << "value is " << getValue()
                         << ", expected a byte in [0, 255]";
  if (getRef().getAccess() != Access::Write)
    return emitOpError() << "has access "
                         << stringifyAccess(getRef().getAccess())
                         << ", expected w";
  return verifyRef(*this, getRef());
}

void GemmOp::build(OpBuilder &builder, OperationState &state,
                   const HmGemm &gemm, ArrayRef<RefAttr> refs) {
  auto flag = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  build(builder, state, TypeRange(), getRefArray(builder, refs),
        builder.getDenseI64ArrayAttr({gemm.m, gemm.n, gemm.k}),
        builder.getDenseI64ArrayAttr({gemm.lda, gemm.ldb, gemm.ldc}),
        builder.getDenseI64ArrayAttr(gemm.batch),
        builder.getDenseI64ArrayAttr(gemm.strideA),
        builder.getDenseI64ArrayAttr(gemm.strideB),
        builder.getDenseI64ArrayAttr(gemm.strideC),
        builder.getDenseI64ArrayAttr({gemm.blockM, gemm.blockN}),
        flag(gemm.transA), flag(gemm.transB), flag(gemm.accumulate));
}

HmGemm GemmOp::getGemm() {
  HmGemm gemm = {};
  gemm.m = getShape()[0];
  gemm.n = getShape()[1];
  gemm.k = getShape()[2];
  gemm.lda = getLeading()[0];
  gemm.ldb = getLeading()[1];
  gemm.ldc = getLeading()[2];
  for (int d = 0; d < 3; ++d) {
    gemm.batch[d] = getBatch()[d];
    gemm.strideA[d] = getStrideA()[d];
    gemm.strideB[d] = getStrideB()[d];
    gemm.strideC[d] = getStrideC()[d];
  }
  gemm.blockM = getBlock()[0];
  gemm.blockN = getBlock()[1];
  gemm.transA = getTransA();
  gemm.transB = getTransB();
  gemm.accumulate = getAccumulate();
  return gemm;
}

LogicalResult GemmOp::verify() {
  if (getRefs().size() != 3)
    return emitOpError() << "has " << getRefs().size()
                         << " references, expected 3: A, B and C";
  struct Entry {
    const char *name;
    ArrayRef<int64_t> values;
    size_t count;
    int64_t least;
  };
  Entry entries[] = {
      {"shape", getShape(), 3, 1},     {"leading", getLeading(), 3, 1},
      {"batch", getBatch(), 3, 1},     {"strideA", getStrideA(), 3, 0},
      {"strideB", getStrideB(), 3, 0}, {"strideC", getStrideC(), 3, 0},
      {"block", getBlock(), 2, 1}};
  for (const Entry &entry : entries) {
    if (entry.values.size() != entry.count)
      return emitOpError() << entry.name << " has " << entry.values.size()
                           << " entries, expected " << entry.count;
    for (int64_t value : entry.values)
      if (value < entry.least)
        return emitOpError() << entry.name << " holds " << value
                             << ", expected at least " << entry.least;
  }
  auto output = cast<RefAttr>(getRefs()[2]);
  Access expected = getAccumulate() ? Access::ReadWrite : Access::Write;
  if (output.getAccess() != expected)
    return emitOpError() << "has access " << stringifyAccess(output.getAccess())
                         << " to C, expected " << stringifyAccess(expected);
  return verifyRefs(*this, getRefs());
}

void ConvolutionOp::build(OpBuilder &builder, OperationState &state,
                          const HmConvolution &c, ArrayRef<RefAttr> refs) {
  build(
      builder, state, TypeRange(),
      ConvolutionDirectionAttr::get(
          builder.getContext(), static_cast<ConvolutionDirection>(c.direction)),
      getRefArray(builder, refs),
      builder.getDenseI64ArrayAttr({c.samples, c.blockSamples}),
      builder.getDenseI64ArrayAttr({c.channels, c.outputs}),
      builder.getDenseI64ArrayAttr(c.image),
      builder.getDenseI64ArrayAttr(c.out),
      builder.getDenseI64ArrayAttr(c.kernel),
      builder.getDenseI64ArrayAttr(c.strides),
      builder.getDenseI64ArrayAttr(c.low), builder.getDenseI64ArrayAttr(c.high),
      builder.getI64IntegerAttr(c.lanes));
}

HmConvolution ConvolutionOp::getConvolution() {
  HmConvolution c = {};
  c.samples = getSamples()[0];
  c.blockSamples = getSamples()[1];
  c.channels = getChannels()[0];
  c.outputs = getChannels()[1];
  for (int axis = 0; axis < 2; ++axis) {
    c.image[axis] = getImage()[axis];
    c.out[axis] = getOut()[axis];
    c.kernel[axis] = getKernel()[axis];
    c.strides[axis] = getStrides()[axis];
    c.low[axis] = getLow()[axis];
    c.high[axis] = getHigh()[axis];
  }
  c.direction = static_cast<uint32_t>(getDirection());
  c.lanes = getLanes();
  return c;
}

LogicalResult ConvolutionOp::verify() {
  if (getRefs().size() != 3)
    return emitOpError() << "has " << getRefs().size()
                         << " references, expected 3";
  std::pair<const char *, ArrayRef<int64_t>> pairs[] = {
      {"samples", getSamples()}, {"channels", getChannels()},
      {"image", getImage()},     {"out", getOut()},
      {"kernel", getKernel()},   {"strides", getStrides()},
      {"low", getLow()},         {"high", getHigh()}};
  for (auto [name, values] : pairs) {
    if (values.size() != 2)
      return emitOpError() << name << " has " << values.size()
                           << " entries, expected 2";
    int64_t least =
        StringRef(name) == "low" || StringRef(name) == "high" ? 0 : 1;
    for (int64_t value : values)
      if (value < least)
        return emitOpError()
               << name << " holds " << value << ", expected at least " << least;
  }
  if (getLanes() != 8 && getLanes() != 16)
    return emitOpError() << "lanes is " << getLanes() << ", expected 8 or 16";
  auto output = cast<RefAttr>(getRefs()[2]);
  if (output.getAccess() != Access::Write)
    return emitOpError() << "has access " << stringifyAccess(output.getAccess())
                         << " to what it computes, expected w";
  return verifyRefs(*this, getRefs());
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static LogicalResult verifyExtent(Operation *op, int64_t bytes,
                                  std::optional<int64_t> offset) {
  if (bytes < 0)
    return op->emitOpError()
           << "has " << bytes << " bytes, expected at least 0";
  if (offset && *offset % kAlignment)
    return op->emitOpError() << "lies at " << *offset
                             << ", expected a multiple of " << kAlignment;
  return success();
}

LogicalResult HomeOp::verify() {
  if (getSampleBytes() < 0 || getFixedBytes() < 0)
    return emitOpError() << "has " << getSampleBytes()
                         << " bytes for a sample and " << getFixedBytes()
                         << " for a microbatch, expected at least 0 of each";
  return verifyExtent(*this, getBytes(), getOffset());
}

LogicalResult BufferOp::verify() {
  if (failed(verifyExtent(*this, getBytes(), getOffset())))
    return failure();
  if (getSlots() < 1)
    return emitOpError() << "has " << getSlots()
                         << " slots, expected at least 1";
  if (getFirstSample() < 0)
    return emitOpError() << "begins at sample " << getFirstSample()
                         << ", expected at least 0";
  if (getSlots() > 1 && (getStride() < getBytes() || getStride() % kAlignment))
    return emitOpError() << "has stride " << getStride()
                         << ", expected a multiple of " << kAlignment
                         << " of at least " << getBytes();
  if (getLive().size() != 2)
    return emitOpError() << "live has " << getLive().size()
                         << " entries, expected the first and the last event";
  return success();
}
