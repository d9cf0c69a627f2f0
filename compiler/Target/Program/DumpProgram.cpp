//===- DumpProgram.cpp - The command table as text ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Program/EmitProgram.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace harmony;

namespace {

class Dumper {
public:
  Dumper(const std::vector<char> &blob, llvm::raw_ostream &os)
      : base(blob.data()),
        header(*reinterpret_cast<const HmHeader *>(blob.data())), os(os) {}

  void dump() {
    os << "program of " << string(header.model) << ", "
       << string(header.compiler) << "\n";
    os << "numerics key " << string(header.numericsKey) << "\n";
    os << "host " << header.hostBytes << " batch " << header.batchBytes
       << " dump " << header.dumpBytes << " scalars " << header.scalarCount
       << " constants " << header.constants.count << "\n";
    dumpTables();
    static const char *const kinds[] = {"load", "step", "store", "evaluate"};
    for (int kind = 0; kind < HM_PROGRAM_COUNT; ++kind)
      if (header.programs[kind].present)
        dumpProgram(kinds[kind], header.programs[kind]);
  }

private:
  const char *base;
  const HmHeader &header;
  llvm::raw_ostream &os;

  const char *string(HmString offset) {
    return base + header.strings.offset + offset;
  }
  template <typename T>
  llvm::ArrayRef<T> list(const HmSection &section) {
    return {reinterpret_cast<const T *>(base + section.offset), section.count};
  }

  void dumpShape(uint32_t first, unsigned rank) {
    llvm::ArrayRef<int64_t> dims =
        list<int64_t>(header.dims).slice(first, rank);
    os << "[";
    llvm::interleaveComma(dims, os);
    os << "]";
  }

  void dumpTables() {
    static const char *const types[] = {"f32", "f64",  "i64", "i32", "i8",
                                        "u8",  "bool", "f16", "bf16"};
    static const char *const roles[] = {"parameter", "frozen",    "buffer",
                                        "state",     "optimizer", "constant"};
    for (auto [index, device] : llvm::enumerate(list<HmDevice>(header.devices)))
      os << "device " << index << " capacity " << device.capacity << " peak "
         << device.peak << " evaluate peak " << device.evaluatePeak
         << " library " << device.libraryBytes << "\n";
    for (const HmResource &resource : list<HmResource>(header.resources))
      os << "resource " << string(resource.name) << " "
         << llvm::format("%g", resource.bytesPerSecond) << " B/s\n";
    for (const HmLink &link : list<HmLink>(header.links)) {
      os << "link " << link.from << " to " << link.to << " "
         << llvm::format("%g", link.bytesPerSecond) << " B/s latency "
         << llvm::format("%g", link.latencySeconds);
      for (uint32_t share : link.shares)
        if (share != HM_NONE)
          os << " shares " << share;
      os << "\n";
    }
    for (const HmVariable &variable : list<HmVariable>(header.variables)) {
      os << "variable " << string(variable.name) << " " << roles[variable.role]
         << " " << types[variable.type];
      dumpShape(variable.dims, variable.rank);
      os << " at " << variable.home;
      if (variable.initial >= 0)
        os << " initial " << variable.initial;
      for (const HmGradient &gradient : list<HmGradient>(variable.gradients))
        os << " gradient " << gradient.home;
      os << "\n";
    }
    for (const HmInput &input : list<HmInput>(header.inputs)) {
      os << "input " << string(input.name) << " " << types[input.type];
      dumpShape(input.dims, input.rank);
      os << " at " << input.offset << " sample " << input.sampleBytes
         << (input.perStep ? " per step" : "");
      if (input.checked)
        os << " in [" << input.low << ", " << input.high << ")";
      if (input.hasIgnored)
        os << " or " << input.ignored;
      os << " used by " << input.usedBy
         << (input.source == HM_INPUT_KEYS ? " keys" : "") << "\n";
    }
    for (const HmOutput &output : list<HmOutput>(header.outputs)) {
      os << "output " << string(output.name) << " " << types[output.type];
      dumpShape(output.dims, output.rank);
      os << " at " << output.home << " sample " << output.sampleBytes
         << (output.perStep ? " per step" : "") << "\n";
    }
    for (const HmLossTerm &term : list<HmLossTerm>(header.lossTerms))
      os << "loss of program " << term.program << ": " << term.scale << " * @"
         << term.numerator << " / @" << term.denominator << "\n";
    for (const HmScalar &scalar : list<HmScalar>(header.scalars))
      os << "scalar " << scalar.index << " kind " << scalar.kind << "\n";
    for (auto [index, kernel] : llvm::enumerate(list<HmKernel>(header.kernels)))
      os << "kernel " << index << " " << string(kernel.name)
         << (kernel.kind == HM_KERNEL_GEMM          ? " product "
             : kernel.kind == HM_KERNEL_CONVOLUTION ? " convolution "
                                                    : " function ")
         << kernel.index << " family " << kernel.family << "\n";
  }

  void dumpProgram(const char *name, const HmProgram &program) {
    os << "program " << name << " batch " << program.batch
       << (program.combines ? " combined" : "") << " traffic in "
       << program.traffic[HM_TRAFFIC_SWAP_IN] << " out "
       << program.traffic[HM_TRAFFIC_SWAP_OUT] << " peer "
       << program.traffic[HM_TRAFFIC_PEER] << " input "
       << program.traffic[HM_TRAFFIC_INPUT] << " output "
       << program.traffic[HM_TRAFFIC_OUTPUT] << "\n";
    llvm::ArrayRef<HmQueue> queues = list<HmQueue>(program.queues);
    for (const HmQueue &queue : queues) {
      os << "  queue " << string(queue.name) << " period " << queue.period
         << "\n";
      const char *indent = "    ";
      for (const HmCommand &command : list<HmCommand>(queue.commands)) {
        if (command.op == HM_OP_END)
          indent = "    ";
        os << indent;
        dumpCommand(command, queues);
        if (command.op == HM_OP_LOOP)
          indent = "      ";
      }
    }
  }

  void dumpCommand(const HmCommand &command, llvm::ArrayRef<HmQueue> queues) {
    static const char *const opcodes[] = {"loop", "end",    "wait",   "copy",
                                          "fill", "launch", "release"};
    static const char *const traffics[] = {"swap in", "swap out", "peer",
                                           "input", "output"};
    os << opcodes[command.op];
    switch (command.op) {
    case HM_OP_LOOP:
      os << " " << command.a;
      break;
    case HM_OP_WAIT:
      os << " " << string(queues[command.kernel].name) << " >= " << command.a;
      if (command.b)
        os << " + " << command.b << "i";
      if (command.b && command.count > 1)
        os << "/" << command.count;
      if (command.first)
        os << " from " << command.first;
      break;
    case HM_OP_COPY:
      os << " " << traffics[command.traffic];
      break;
    case HM_OP_FILL:
      os << " " << command.a;
      break;
    case HM_OP_LAUNCH:
      os << " kernel " << command.kernel << " over " << command.a << " by "
         << command.b;
      break;
    default:
      break;
    }
    if (command.op != HM_OP_WAIT)
      for (const HmRef &ref :
           list<HmRef>(header.refs).slice(command.first, command.count))
        dumpRef(ref);
    if (command.op != HM_OP_WAIT && command.op != HM_OP_END &&
        *string(command.label))
      os << " '" << string(command.label) << "'";
    if (command.id != HM_NONE)
      os << " event " << command.id;
    if (command.seconds > 0)
      os << " takes " << llvm::format("%g", command.seconds);
    if (command.lastSeconds > 0)
      os << " and at the end " << llvm::format("%g", command.lastSeconds);
    if (command.signal)
      os << " signal";
    os << "\n";
  }

  void dumpRef(const HmRef &ref) {
    static const char *const spaces[] = {"device",  "host",     "batch",
                                         "scalars", "constant", "dump"};
    static const char *const accesses[] = {"", "r", "w", "rw"};
    os << " " << spaces[ref.space];
    if (ref.space == HM_SPACE_DEVICE)
      os << static_cast<int>(ref.device);
    os << "[" << ref.offset;
    std::string slot = ref.divide > 1 ? "i/" + std::to_string(ref.divide) : "i";
    if (ref.modulo)
      os << " + " << slot << "%" << ref.modulo << "*" << ref.stride;
    else if (ref.stride)
      os << " + " << slot << "*" << ref.stride;
    if (ref.divide > 1)
      os << " + i%" << ref.divide << "*" << ref.part;
    os << ", " << ref.bytes << "]" << accesses[ref.access & 3];
  }
};

} // namespace

std::string harmony::dumpProgram(const std::vector<char> &blob) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Dumper(blob, os).dump();
  return text;
}
