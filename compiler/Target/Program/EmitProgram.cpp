//===- EmitProgram.cpp - Programs to the command table --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Program/EmitProgram.h"

#include "compiler/Target/Program/EmitTables.h"
#include "dialects/NN/NN.h"
#include "passes/Memory/Memory.h"
#include "passes/Tasks/TaskDigest.h"
#include "passes/Tasks/View.h"

#include "llvm/ADT/StringMap.h"

#include <cstring>
#include <utility>

using namespace mlir;
using namespace harmony;
using namespace harmony::schedule;

namespace {

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
      : module(module), info(info), symbols(module),
        tables(module, symbols, sections) {}

  FailureOr<EmittedProgram> emit() {
    if (failed(tables.addInputs()) || failed(addPrograms()) ||
        failed(tables.addVariables()) || failed(tables.addOutputs()) ||
        failed(tables.addLosses()) || failed(tables.addLinks()))
      return failure();
    tables.addScalars();
    tables.addDevices(info.libraryBytes);
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
  TableWriter tables;
  int64_t dumpBytes = 0;
  // The program and queue under way.
  uint32_t programKind = 0;
  llvm::StringMap<uint32_t> queueIndex;
  llvm::StringMap<uint32_t> taskIndex; ///< in the section, by name
  SmallVector<int64_t> periods;
  int64_t trips = 1;
  bool looped = false;
  bool signallable = false; ///< the last command may carry the event's signal

  //===--- places --------------------------------------------------------===//

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
      base = tables.useInput(name, programKind);
      ref.space = HM_SPACE_BATCH;
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
      entry.combines = module->hasAttr(nn::kWholeBatchAttr);
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
      return addTask(op, run.getTaskAttr(),
                     static_cast<HmTaskKind>(run.getDirection()), 0,
                     run.getAt(), run.getLabel(), run.getEvent(),
                     run.getSeconds(), run.getLastSeconds());
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
      return resolve(copy.op, place.getValue(),
                     host ? copy.offset : copy.firstByte, copy.bytes, access,
                     host ? copy.step : 0);
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
      tables.addDump(update.getVariable(), dumpBytes);
      dumpBytes = alignTo64(dumpBytes + bytes);
      addCommand(HM_OP_COPY, update.getEvent(),
                 ("gradient of " + update.getVariable()).str(), {to, *from})
          .traffic = HM_TRAFFIC_OUTPUT;
    }
    auto type = cast<RankedTensorType>(
        symbols.lookup<nn::VariableOp>(update.getVariable()).getType());
    return addTask(update, update.getTaskAttr(), HM_TASK_UPDATE,
                   tensorBytes(type), update.getAt(), update.getVariable(),
                   update.getEvent(), update.getSeconds());
  }

  /// The entry of a task in the section; `bytes`: of the parameter of an
  /// update.
  uint32_t getTask(TaskOp task, HmTaskKind kind, int64_t bytes) {
    auto [entry, inserted] = taskIndex.try_emplace(
        task.getSymName(), static_cast<uint32_t>(sections.tasks.size()));
    if (inserted)
      sections.tasks.push_back({sections.addString(task.getSymName()),
                                sections.addString(digestTask(task)),
                                static_cast<uint32_t>(kind), 0, bytes});
    return entry->second;
  }

  LogicalResult addTask(Operation *op, FlatSymbolRefAttr name, HmTaskKind kind,
                        int64_t bytes, ArrayAttr at, StringRef label,
                        int64_t event, std::optional<llvm::APFloat> seconds,
                        std::optional<llvm::APFloat> last = std::nullopt) {
    auto task = symbols.lookup<TaskOp>(name.getValue());
    uint32_t index = getTask(task, kind, bytes);
    bool begins = true;
    double left = seconds ? seconds->convertToDouble() : 0;
    double leftAtEnd = last ? last->convertToDouble() : 0;
    for (Operation &body : task.getBlock()) {
      SmallVector<HmRef> refs;
      for (RefAttr slot : getRefs(&body)) {
        auto address = cast<AtAttr>(at[slot.getSlot()]);
        FailureOr<HmRef> ref = resolve(op, address.getPlace().getValue(),
                                       address.getOffset() + slot.getOffset(),
                                       slot.getBytes(), slot.getAccess());
        if (failed(ref))
          return failure();
        refs.push_back(*ref);
      }
      addBody(body, refs, label, event);
      HmCommand &command = sections.commands.back();
      command.task = index + 1;
      command.begins = std::exchange(begins, false);
      // The first launch stands for the task.
      if (command.op == HM_OP_LAUNCH) {
        command.seconds = std::exchange(left, 0);
        command.lastSeconds = std::exchange(leftAtEnd, 0);
      }
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
    if (auto launch = dyn_cast<ConvolutionOp>(body)) {
      HmConvolution convolution = launch.getConvolution();
      uint32_t kernel = sections.getKernel(convolution);
      HmCommand &command =
          addCommand(HM_OP_LAUNCH, event, text("convolution"), refs);
      command.kernel = kernel;
      command.a = (convolution.samples + convolution.blockSamples - 1) /
                  convolution.blockSamples;
      command.b = 1;
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
    header.diskPath = sections.addString(info.diskPath);
    header.diskMemory = info.diskMemory;
    header.dumpBytes = dumpBytes;
  }
};

} // namespace

FailureOr<EmittedProgram> harmony::emitProgram(ModuleOp module,
                                               const ProgramInfo &info) {
  return Emitter(module, info).emit();
}
