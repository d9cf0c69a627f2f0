//===- EmitProgram.cpp - Programs to the command table --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Program/EmitProgram.h"

#include "compiler/Target/Program/BlobWriter.h"
#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "passes/Memory/Memory.h"

#include "llvm/ADT/StringMap.h"

#include <cstring>
#include <map>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

static_assert(static_cast<int>(nn::Role::parameter) == HM_ROLE_PARAMETER &&
              static_cast<int>(nn::Role::constant) == HM_ROLE_CONSTANT);

namespace {

std::optional<HmType> getType(Type type) {
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

int64_t getElementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

/// The node's name where the location has one.
StringRef getName(Location location) {
  StringRef name;
  location->walk([&](Location part) {
    auto named = dyn_cast<NameLoc>(part);
    if (!named)
      return WalkResult::advance();
    name = named.getName();
    return WalkResult::interrupt();
  });
  return name;
}

class Emitter {
public:
  Emitter(ModuleOp module, const ProgramInfo &info)
      : module(module), info(info), symbols(module) {}

  FailureOr<EmittedProgram> emit() {
    for (auto program : module.getOps<ProgramOp>())
      batch = std::max(batch, program.getBatch());
    indexVariableHomes();
    if (failed(addInputs()) || failed(addPrograms()) ||
        failed(addVariables()) || failed(addOutputs()) || failed(addLosses()))
      return failure();
    addScalars();
    addDevices();
    addLinks();
    addHeader();
    EmittedProgram emitted;
    emitted.blob = sections.layOut();
    emitted.kernels = std::move(sections.kernelNames);
    if (emitted.blob.empty())
      return module.emitError()
             << "the program takes more than " << UINT32_MAX << " bytes";
    return emitted;
  }

private:
  ModuleOp module;
  const ProgramInfo &info;
  SymbolTable symbols;
  BlobWriter sections;
  HmHeader &header = sections.header;
  int64_t batch = 1;
  llvm::StringMap<int64_t> variableHomes; ///< host offset by variable
  llvm::StringMap<int64_t> inputOffsets;  ///< in the batch space, by place
  llvm::StringMap<std::vector<int64_t>>
      dumps; ///< dump offsets by parameter and use
  int64_t dumpBytes = 0;
  std::map<std::pair<std::string, uint32_t>, int> usedBy; ///< (input, program)
  // The program and queue under way.
  uint32_t programKind = 0;
  llvm::StringMap<uint32_t> queueIndex;
  SmallVector<int64_t> periods;
  int64_t trips = 1;
  bool looped = false;
  bool signallable = false; ///< the last command may carry the event's signal

  FailureOr<HmType> requireType(Operation *op, Type type) {
    std::optional<HmType> converted = getType(type);
    if (!converted)
      return op->emitOpError() << "has element type " << type
                               << ", which programs do not know; accepted are "
                                  "f16, bf16, f32, f64, i1, i8, ui8, i32, i64";
    return *converted;
  }

  //===--- places --------------------------------------------------------===//

  void indexVariableHomes() {
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

  static int64_t getBytes(RankedTensorType type) {
    return type.getNumElements() * getElementBytes(type.getElementType());
  }

  LogicalResult addInputs() {
    SmallVector<InputOp> inputs(module.getOps<InputOp>());
    llvm::sort(inputs, [](InputOp a, InputOp b) {
      return a.getIndex() < b.getIndex();
    });
    int64_t end = 0;
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
      entry.source = input->hasAttr(nn::kSampleKeysAttr) ? HM_INPUT_KEYS
                                                         : HM_INPUT_DATA;
      if (input.getRange() && (*element == HM_I64 || *element == HM_I32)) {
        entry.checked = 1;
        entry.low = (*input.getRange())[0];
        entry.high = (*input.getRange())[1];
        entry.hasIgnored = input.getIgnored().has_value();
        entry.ignored = input.getIgnored().value_or(0);
      }
      inputOffsets[input.getSymName()] = end;
      end =
          alignTo64(end + entry.sampleBytes * (input.getPerStep() ? 1 : batch));
      sections.inputs.push_back(entry);
    }
    header.batchBytes = end;
    return success();
  }

  /// Extents; the sample axis, which is the first, as 0.
  uint32_t addDims(RankedTensorType type, bool samples) {
    uint32_t first = sections.dims.size();
    for (auto [axis, extent] : llvm::enumerate(type.getShape()))
      sections.dims.push_back(samples && axis == 0 ? 0 : extent);
    return first;
  }

  /// The address of bytes of a place. `step`: what the host's side of a copy
  /// advances by with each iteration.
  FailureOr<HmRef> resolve(Operation *op, StringRef name, int64_t offset,
                           int64_t bytes, Access access, int64_t step = 0) {
    HmRef ref;
    std::memset(&ref, 0, sizeof(ref));
    ref.access = static_cast<uint16_t>(access);
    ref.bytes = bytes;
    ref.stride = looped ? step : 0;
    Operation *place = symbols.lookup(name);
    std::optional<int64_t> base;
    if (auto buffer = dyn_cast_or_null<BufferOp>(place)) {
      base = buffer.getOffset();
      ref.space = HM_SPACE_DEVICE;
      ref.device = buffer.getDevice();
      bool ring = looped && buffer.getSlots() > 1;
      ref.stride = ring ? buffer.getStride() : 0;
      ref.modulo = ring ? buffer.getSlots() : 0;
    } else if (auto home = dyn_cast_or_null<HomeOp>(place)) {
      base = home.getOffset();
      ref.space = HM_SPACE_HOST;
    } else if (isa_and_nonnull<InputOp>(place)) {
      base = inputOffsets[name];
      ref.space = HM_SPACE_BATCH;
      usedBy[{name.str(), programKind}] = 1;
    } else if (auto scalar = dyn_cast_or_null<ScalarOp>(place)) {
      base = scalar.getIndex() * static_cast<int64_t>(sizeof(float));
      ref.space = HM_SPACE_SCALARS;
    } else {
      return op->emitOpError() << "uses @" << name << ", which is no place";
    }
    if (!base)
      return op->emitOpError()
             << "uses @" << name
             << ", which has no address: assign addresses first";
    ref.offset = *base + offset;
    return ref;
  }

  //===--- commands ------------------------------------------------------===//

  HmCommand &addCommand(HmOpcode opcode, int64_t event, StringRef label,
                        ArrayRef<HmRef> refs = {}) {
    HmCommand command;
    std::memset(&command, 0, sizeof(command));
    command.op = opcode;
    command.id = static_cast<uint32_t>(event);
    command.label = sections.addString(label);
    if (!refs.empty())
      command.first = sections.addRefs(refs);
    command.count = refs.size();
    sections.commands.push_back(command);
    signallable = opcode == HM_OP_COPY || opcode == HM_OP_FILL ||
                  opcode == HM_OP_LAUNCH || opcode == HM_OP_RELEASE;
    return sections.commands.back();
  }

  LogicalResult addPrograms() {
    for (auto program : module.getOps<ProgramOp>()) {
      programKind = static_cast<uint32_t>(program.getKind());
      HmProgram &entry = header.programs[programKind];
      if (entry.present)
        return program.emitOpError() << "is the second program of kind "
                                     << stringifyProgramKind(program.getKind());
      entry.present = 1;
      entry.batch = program.getBatch();
      entry.queues = {static_cast<uint32_t>(sections.queues.size()), 0};
      queueIndex.clear();
      periods.clear();
      for (Operation &op : program.getBlock()) {
        auto queue = dyn_cast<QueueOp>(op);
        if (!queue)
          return op.emitOpError()
                 << "stands in no queue: schedule queues first";
        queueIndex[queue.getSymName()] = entry.queues.count++;
        periods.push_back(queue.getPeriod());
      }
      for (auto queue : program.getOps<QueueOp>())
        if (failed(addQueue(queue, entry)))
          return failure();
    }
    return success();
  }

  LogicalResult addQueue(QueueOp queue, HmProgram &program) {
    HmQueue entry;
    std::memset(&entry, 0, sizeof(entry));
    entry.name = sections.addString(queue.getSymName());
    entry.kind = static_cast<uint32_t>(queue.getKind());
    entry.device = queue.getDevice() < 0
                       ? HM_NONE
                       : static_cast<uint32_t>(queue.getDevice());
    entry.period = queue.getPeriod();
    entry.commands = {static_cast<uint32_t>(sections.commands.size()), 0};
    signallable = false;
    for (Operation &op : queue.getBlock()) {
      auto loop = dyn_cast<ForOp>(op);
      if (!loop) {
        if (failed(addOp(&op, program)))
          return failure();
        continue;
      }
      addCommand(HM_OP_LOOP, -1, loop.getLabel()).a = loop.getTrips();
      looped = true;
      trips = loop.getTrips();
      for (Operation &inner : loop.getBlock())
        if (failed(addOp(&inner, program)))
          return failure();
      looped = false;
      trips = 1;
      addCommand(HM_OP_END, -1, loop.getLabel());
    }
    entry.commands.count = sections.commands.size() - entry.commands.offset;
    sections.queues.push_back(entry);
    return success();
  }

  LogicalResult addOp(Operation *op, HmProgram &program) {
    if (Copy copy = getCopy(op))
      return addCopy(copy, program);
    if (auto wait = dyn_cast<WaitOp>(op)) {
      uint32_t queue = queueIndex.lookup(wait.getQueue());
      HmCommand &command = addCommand(HM_OP_WAIT, -1, wait.getQueue());
      command.kernel = queue;
      command.a =
          wait.getValue() - (wait.getPreviousStep() ? periods[queue] : 0);
      command.b = wait.getSlope();
      command.first = static_cast<uint32_t>(wait.getFrom());
      command.count = static_cast<uint32_t>(wait.getEvery());
      return success();
    }
    if (isa<SignalOp>(op))
      return addSignal();
    if (auto run = dyn_cast<RunOp>(op))
      return addTask(op, run.getTaskAttr(), run.getAt(), run.getLabel(),
                     run.getEvent(), run.getSeconds());
    if (auto update = dyn_cast<UpdateOp>(op))
      return addUpdate(update);
    if (auto zero = dyn_cast<ZeroOp>(op))
      return addBufferCommand(op, HM_OP_FILL, zero.getBuffer(),
                              zero.getEvent());
    if (auto release = dyn_cast<ReleaseOp>(op))
      return addBufferCommand(op, HM_OP_RELEASE, release.getBuffer(), -1);
    return op->emitOpError() << "is no command of a queue";
  }

  LogicalResult addCopy(const Copy &copy, HmProgram &program) {
    auto side = [&](FlatSymbolRefAttr place, int64_t device, Access access) {
      bool host = device == Copy::kHost;
      return resolve(copy.op, place.getValue(), host ? copy.offset : 0,
                     copy.bytes, access, host ? copy.step : 0);
    };
    FailureOr<HmRef> to = side(copy.destination, copy.to, Access::Write);
    FailureOr<HmRef> from = side(copy.source, copy.from, Access::Read);
    if (failed(to) || failed(from))
      return failure();
    addCommand(HM_OP_COPY, copy.event, copy.buffer(), {*to, *from}).traffic =
        static_cast<uint8_t>(copy.traffic);
    program.traffic[copy.traffic] += copy.bytes * trips;
    return success();
  }

  /// The event's last command carries its signal; an event without commands
  /// needs one.
  LogicalResult addSignal() {
    if (!signallable || sections.commands.back().signal) {
      HmRef nothing;
      std::memset(&nothing, 0, sizeof(nothing));
      nothing.space = HM_SPACE_DEVICE;
      nothing.access = static_cast<uint16_t>(Access::Write);
      addCommand(HM_OP_FILL, -1, "", {nothing});
    }
    sections.commands.back().signal = 1;
    signallable = false;
    return success();
  }

  LogicalResult addBufferCommand(Operation *op, HmOpcode opcode, StringRef name,
                                 int64_t event) {
    auto buffer = symbols.lookup<BufferOp>(name);
    if (!buffer)
      return op->emitOpError()
             << "uses @" << name << ", which is no harmony.buffer";
    bool whole = !looped && opcode == HM_OP_RELEASE;
    FailureOr<HmRef> ref =
        resolve(op, name, 0, whole ? buffer.getTotalBytes() : buffer.getBytes(),
                Access::Write);
    if (failed(ref))
      return failure();
    addCommand(opcode, event, name, {*ref});
    return success();
  }

  LogicalResult addUpdate(UpdateOp update) {
    auto task = symbols.lookup<TaskOp>(update.getTask());
    std::vector<int64_t> &homes = dumps[update.getVariable()];
    for (int64_t use = 0;; ++use) {
      int64_t position = task.findSlot(SlotKind::gradient, use);
      if (position < 0)
        break;
      auto address = cast<AtAttr>(update.getAt()[position]);
      int64_t bytes = task.getSlot(position).getBytes();
      FailureOr<HmRef> from = resolve(update, address.getPlace().getValue(),
                                      address.getOffset(), bytes, Access::Read);
      if (failed(from))
        return failure();
      HmRef to;
      std::memset(&to, 0, sizeof(to));
      to.space = HM_SPACE_DUMP;
      to.access = static_cast<uint16_t>(Access::Write);
      to.offset = dumpBytes;
      to.bytes = bytes;
      homes.push_back(dumpBytes);
      dumpBytes = alignTo64(dumpBytes + bytes);
      addCommand(HM_OP_COPY, update.getEvent(),
                 ("gradient of " + update.getVariable()).str(), {to, *from})
          .traffic = HM_TRAFFIC_OUTPUT;
    }
    return addTask(update, update.getTaskAttr(), update.getAt(),
                   update.getVariable(), update.getEvent(),
                   update.getSeconds());
  }

  LogicalResult addTask(Operation *op, FlatSymbolRefAttr name, ArrayAttr at,
                        StringRef label, int64_t event,
                        std::optional<llvm::APFloat> seconds) {
    auto task = symbols.lookup<TaskOp>(name.getValue());
    double left = seconds ? seconds->convertToDouble() : 0;
    for (Operation &body : task.getBlock()) {
      SmallVector<RefAttr> slots;
      if (auto fill = dyn_cast<FillOp>(body))
        slots.push_back(fill.getRef());
      else
        llvm::append_range(
            slots, body.getAttrOfType<ArrayAttr>("refs").getAsRange<RefAttr>());
      SmallVector<HmRef> refs;
      for (RefAttr slot : slots) {
        auto address = cast<AtAttr>(at[slot.getSlot()]);
        FailureOr<HmRef> ref = resolve(op, address.getPlace().getValue(),
                                       address.getOffset() + slot.getOffset(),
                                       slot.getBytes(), slot.getAccess());
        if (failed(ref))
          return failure();
        refs.push_back(*ref);
      }
      addBody(body, refs, label, event);
      // The first launch stands for the task.
      HmCommand &command = sections.commands.back();
      if (command.op == HM_OP_LAUNCH)
        command.seconds = std::exchange(left, 0);
    }
    return success();
  }

  void addBody(Operation &body, ArrayRef<HmRef> refs, StringRef label,
               int64_t event) {
    StringRef node = getName(body.getLoc());
    auto text = [&](StringRef fallback) {
      return (label + ": " + (node.empty() ? fallback : node)).str();
    };
    if (auto fill = dyn_cast<FillOp>(body)) {
      addCommand(HM_OP_FILL, event, text("fill"), refs).a = fill.getValue();
      return;
    }
    if (auto launch = dyn_cast<LaunchOp>(body)) {
      uint32_t kernel = sections.getKernel(
          launch.getKernel(), static_cast<HmFamily>(launch.getFamily()));
      HmCommand &command =
          addCommand(HM_OP_LAUNCH, event, text(launch.getKernel()), refs);
      command.kernel = kernel;
      command.a = launch.getExtent();
      command.b = launch.getGrain();
      return;
    }
    HmGemm gemm = cast<GemmOp>(body).getGemm();
    uint32_t kernel = sections.getKernel(gemm);
    HmCommand &command = addCommand(HM_OP_LAUNCH, event, text("gemm"), refs);
    command.kernel = kernel;
    command.a = gemm.batch[0] * gemm.batch[1] * gemm.batch[2] *
                ((gemm.m + gemm.blockM - 1) / gemm.blockM) *
                ((gemm.n + gemm.blockN - 1) / gemm.blockN);
    command.b = 1;
  }

  //===--- tables --------------------------------------------------------===//

  LogicalResult addVariables() {
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

  LogicalResult addConstant(nn::VariableOp variable, RankedTensorType type,
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

  LogicalResult addOutputs() {
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

  LogicalResult addLosses() {
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

  void addScalars() {
    for (auto scalar : module.getOps<ScalarOp>()) {
      ++header.scalarCount;
      if (scalar.getKind() >= 0)
        sections.scalars.push_back({static_cast<uint32_t>(scalar.getKind()),
                                    static_cast<uint32_t>(scalar.getIndex())});
    }
  }

  void addDevices() {
    for (auto device : module.getOps<DeviceOp>())
      sections.devices.push_back(
          {device.getCapacity(),
           getPeakBytes(module, ProgramKind::step, device.getIndex()),
           getPeakBytes(module, ProgramKind::evaluate, device.getIndex()),
           info.libraryBytes});
  }

  void addLinks() {
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
      std::fill(std::begin(entry.shares), std::end(entry.shares), HM_NONE);
      for (auto [position, share] :
           llvm::enumerate(link.getShares().getAsRange<FlatSymbolRefAttr>()))
        entry.shares[position] = resources.lookup(share.getValue());
      sections.links.push_back(entry);
    }
  }

  void addHeader() {
    header.model = sections.addString(info.model);
    header.compiler = sections.addString(info.compiler);
    header.numericsKey = sections.addString(info.numericsKey);
    header.fingerprint = sections.addString(info.fingerprint);
    header.planSummary = sections.addString(info.planSummary);
    header.isa = info.isa;
    header.optimizer = info.optimizer;
    header.weightsKind = 0;
    header.hostBytes = alignTo64(getHostBytes(module));
    header.dumpBytes = dumpBytes;
    unsigned position = 0;
    SmallVector<InputOp> inputs(module.getOps<InputOp>());
    llvm::sort(inputs, [](InputOp a, InputOp b) {
      return a.getIndex() < b.getIndex();
    });
    for (InputOp input : inputs) {
      for (uint32_t kind = 0; kind < HM_PROGRAM_COUNT; ++kind)
        if (usedBy.count({input.getSymName().str(), kind}))
          sections.inputs[position].usedBy |= 1u << kind;
      ++position;
    }
  }
};

} // namespace

FailureOr<EmittedProgram> harmony::emitProgram(ModuleOp module,
                                               const ProgramInfo &info) {
  return Emitter(module, info).emit();
}
