//===- EmitTables.cpp - What a program works on ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Program/EmitTables.h"

#include "passes/Memory/Memory.h"

#include <algorithm>
#include <cstring>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

static_assert(static_cast<int>(nn::Role::parameter) == HM_ROLE_PARAMETER &&
              static_cast<int>(nn::Role::constant) == HM_ROLE_CONSTANT);

static std::optional<HmType> getType(Type type) {
  if (type.isF32())
    return HM_F32;
  if (type.isF64())
    return HM_F64;
  if (type.isF16())
    return HM_F16;
  if (type.isBF16())
    return HM_BF16;
  if (type.isInteger(1))
    return HM_BOOL;
  if (type.isUnsignedInteger(8))
    return HM_U8;
  if (type.isInteger(8))
    return HM_I8;
  if (type.isInteger(32))
    return HM_I32;
  if (type.isInteger(64))
    return HM_I64;
  return std::nullopt;
}

static int64_t getElementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

static int64_t getBytes(RankedTensorType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

TableWriter::TableWriter(ModuleOp module, SymbolTable &symbols,
                         BlobWriter &sections)
    : module(module), symbols(symbols), sections(sections) {
  indexVariableHomes();
}

void TableWriter::indexVariableHomes() {
  for (auto home : module.getOps<HomeOp>()) {
    int64_t offset = home.getOffset().value_or(0);
    for (auto name : home.getVariables().getAsRange<FlatSymbolRefAttr>()) {
      auto variable = symbols.lookup<nn::VariableOp>(name.getValue());
      variableHomes[name.getValue()] = offset;
      if (variable)
        offset +=
            alignTo64(getBytes(cast<RankedTensorType>(variable.getType())));
    }
  }
}

int64_t TableWriter::useInput(StringRef place, uint32_t programKind) {
  HmInput &input = sections.inputs[inputIndex.lookup(place)];
  input.usedBy |= 1u << programKind;
  return input.offset;
}

FailureOr<HmType> TableWriter::requireType(Operation *op, Type type) {
  std::optional<HmType> converted = getType(type);
  if (!converted)
    return op->emitOpError() << "has element type " << type
                             << ", which programs do not know; accepted are "
                                "f16, bf16, f32, f64, i1, i8, ui8, i32, i64";
  return *converted;
}

LogicalResult TableWriter::addInputs() {
  SmallVector<InputOp> inputs(module.getOps<InputOp>());
  llvm::sort(inputs,
             [](InputOp a, InputOp b) { return a.getIndex() < b.getIndex(); });
  int64_t batch = 1, end = 0;
  for (auto program : module.getOps<ProgramOp>())
    batch = std::max(batch, program.getBatch());
  for (InputOp input : inputs) {
    auto type = cast<RankedTensorType>(input.getType());
    FailureOr<HmType> element = requireType(input, type.getElementType());
    if (failed(element))
      return failure();
    HmInput entry = {};
    entry.name = sections.addString(input.getName());
    entry.type = *element;
    entry.rank = type.getRank();
    entry.perStep = input.getPerStep();
    entry.dims = addDims(type, !input.getPerStep());
    entry.sampleBytes = input.getSampleBytes();
    entry.offset = end;
    entry.source =
        input->hasAttr(nn::kSampleKeysAttr) ? HM_INPUT_KEYS : HM_INPUT_DATA;
    if (input.getRange() && (*element == HM_I64 || *element == HM_I32)) {
      entry.checked = 1;
      entry.low = (*input.getRange())[0];
      entry.high = (*input.getRange())[1];
      entry.hasIgnored = input.getIgnored().has_value();
      entry.ignored = input.getIgnored().value_or(0);
    }
    inputIndex[input.getSymName()] = sections.inputs.size();
    end = alignTo64(end + entry.sampleBytes * (input.getPerStep() ? 1 : batch));
    sections.inputs.push_back(entry);
  }
  sections.header.batchBytes = end;
  return success();
}

/// Extents; the sample axis, which is the first, as 0.
uint32_t TableWriter::addDims(RankedTensorType type, bool samples) {
  uint32_t first = sections.dims.size();
  for (auto [axis, extent] : llvm::enumerate(type.getShape()))
    sections.dims.push_back(samples && axis == 0 ? 0 : extent);
  return first;
}

LogicalResult TableWriter::addVariables() {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getRole() == nn::Role::scalar)
      continue;
    auto type = cast<RankedTensorType>(variable.getType());
    FailureOr<HmType> element = requireType(variable, type.getElementType());
    if (failed(element))
      return failure();
    auto home = variableHomes.find(variable.getSymName());
    if (home == variableHomes.end())
      return variable.emitOpError() << "has no home in the host store";
    HmVariable entry;
    std::memset(&entry, 0, sizeof(entry));
    entry.name = sections.addString(variable.getSymName());
    entry.type = *element;
    entry.role = static_cast<uint8_t>(variable.getRole());
    entry.rank = type.getRank();
    entry.dims = addDims(type, false);
    entry.bytes = getBytes(type);
    entry.home = home->second;
    entry.initial = -1;
    if (variable.getRole() == nn::Role::constant &&
        failed(addConstant(variable, type, entry)))
      return failure();
    entry.gradients = {static_cast<uint32_t>(sections.gradients.size()), 0};
    if (auto dump = dumps.find(variable.getSymName()); dump != dumps.end())
      for (int64_t offset : dump->second) {
        sections.gradients.push_back({offset});
        ++entry.gradients.count;
      }
    sections.variables.push_back(entry);
  }
  return success();
}

LogicalResult TableWriter::addConstant(nn::VariableOp variable,
                                       RankedTensorType type,
                                       HmVariable &entry) {
  sections.constants.resize(alignTo64(sections.constants.size()), '\0');
  entry.initial = sections.constants.size();
  size_t begin = sections.constants.size();
  sections.constants.resize(begin + entry.bytes, '\0');
  char *to = sections.constants.data() + begin;
  Attribute initial = variable.getInitialAttr();
  if (!initial)
    return success(); // zero
  if (auto dense = dyn_cast<DenseElementsAttr>(initial)) {
    if (type.getElementType().isInteger(1)) {
      for (bool element : dense.getValues<bool>())
        *to++ = element;
      return success();
    }
    ArrayRef<char> raw = dense.getRawData();
    for (int64_t done = 0; done < entry.bytes; done += raw.size())
      std::memcpy(to + done, raw.data(),
                  std::min<int64_t>(raw.size(), entry.bytes - done));
    return success();
  }
  return variable.emitOpError() << "is a constant whose value " << initial
                                << " is no dense elements attribute";
}

LogicalResult TableWriter::addOutputs() {
  for (auto output : module.getOps<OutputOp>()) {
    auto type = cast<RankedTensorType>(output.getType());
    FailureOr<HmType> element = requireType(output, type.getElementType());
    if (failed(element))
      return failure();
    auto home = symbols.lookup<HomeOp>(output.getHome());
    if (!home || !home.getOffset())
      return output.emitOpError()
             << "lies in @" << output.getHome()
             << ", which is no harmony.home with an address";
    HmOutput entry;
    std::memset(&entry, 0, sizeof(entry));
    entry.name = sections.addString(output.getName());
    entry.type = *element;
    entry.rank = type.getRank();
    entry.perStep = output.getPerStep();
    entry.dims = addDims(type, !output.getPerStep());
    entry.sampleBytes = output.getSampleBytes();
    entry.home = *home.getOffset();
    sections.outputs.push_back(entry);
  }
  return success();
}

LogicalResult TableWriter::addLosses() {
  for (auto loss : module.getOps<LossOp>()) {
    auto numerator = symbols.lookup<HomeOp>(loss.getNumerator());
    auto denominator = symbols.lookup<HomeOp>(loss.getDenominator());
    for (HomeOp home : {numerator, denominator})
      if (!home || !home.getOffset())
        return loss.emitOpError()
               << "refers to what is no harmony.home with an address";
    sections.lossTerms.push_back(
        {*numerator.getOffset(), *denominator.getOffset(),
         static_cast<float>(loss.getScale().convertToDouble()),
         static_cast<uint32_t>(loss.getProgram())});
  }
  return success();
}

void TableWriter::addScalars() {
  for (auto scalar : module.getOps<ScalarOp>()) {
    ++sections.header.scalarCount;
    if (scalar.getKind() >= 0)
      sections.scalars.push_back({static_cast<uint32_t>(scalar.getKind()),
                                  static_cast<uint32_t>(scalar.getIndex())});
  }
}

void TableWriter::addDevices(int64_t libraryBytes) {
  for (auto device : module.getOps<DeviceOp>()) {
    int64_t step = getPeakBytes(module, ProgramKind::step, device.getIndex());
    int64_t evaluate =
        getPeakBytes(module, ProgramKind::evaluate, device.getIndex());
    sections.devices.push_back(
        {std::max(step, evaluate), step, evaluate, libraryBytes});
  }
}

LogicalResult TableWriter::addLinks() {
  llvm::StringMap<uint32_t> resources;
  for (auto resource : module.getOps<ResourceOp>()) {
    resources[resource.getSymName()] = sections.resources.size();
    sections.resources.push_back(
        {sections.addString(resource.getSymName()), 0,
         resource.getBytesPerSecond().convertToDouble()});
  }
  for (auto link : module.getOps<LinkOp>()) {
    HmLink entry;
    std::memset(&entry, 0, sizeof(entry));
    entry.from = static_cast<int32_t>(link.getFrom());
    entry.to = static_cast<int32_t>(link.getTo());
    entry.bytesPerSecond = link.getBytesPerSecond().convertToDouble();
    entry.latencySeconds = link.getLatencySeconds().convertToDouble();
    entry.fixed = link.getFixed();
    std::fill(std::begin(entry.shares), std::end(entry.shares), HM_NONE);
    if (link.getShares().size() > HM_LINK_SHARES)
      return link.emitOpError()
             << "shares " << link.getShares().size()
             << " resources, expected at most " << HM_LINK_SHARES;
    for (auto [position, share] :
         llvm::enumerate(link.getShares().getAsRange<FlatSymbolRefAttr>()))
      entry.shares[position] = resources.lookup(share.getValue());
    sections.links.push_back(entry);
  }
  return success();
}
