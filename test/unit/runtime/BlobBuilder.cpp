//===- BlobBuilder.cpp - Programs made by hand ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/BlobBuilder.h"

#include <algorithm>
#include <cstring>

namespace harmony::runtime::test {

static constexpr int64_t floatBytes = sizeof(float);

static int64_t typeBytesOf(HmType type) {
  return type == HM_F64 || type == HM_I64   ? 8
         : type == HM_F32 || type == HM_I32 ? 4
                                            : 1;
}

static int64_t product(const std::vector<int64_t> &shape, size_t from) {
  int64_t n = 1;
  for (size_t i = from; i < shape.size(); ++i)
    n *= shape[i];
  return n;
}

BlobBuilder::BlobBuilder() {
  string("");
  header.model = string("hand.onnx");
  header.compiler = string("test");
  header.numericsKey = string("key");
  header.fingerprint = string("f00d");
  header.planSummary = string("one plan");
  header.isa = HM_ISA_AVX2;
  header.optimizer = HM_OPTIMIZER_SGD;
}

HmString BlobBuilder::string(const std::string &text) {
  auto at = static_cast<HmString>(strings.size());
  strings.insert(strings.end(), text.c_str(), text.c_str() + text.size() + 1);
  return at;
}

uint32_t BlobBuilder::dims(const std::vector<int64_t> &extents) {
  auto at = static_cast<uint32_t>(dimList.size());
  dimList.insert(dimList.end(), extents.begin(), extents.end());
  return at;
}

void BlobBuilder::device(int64_t capacity, int64_t libraryBytes) {
  devices.push_back({capacity, 0, 0, libraryBytes});
}

void BlobBuilder::link(int32_t from, int32_t to, double bytesPerSecond,
                       double latencySeconds, uint32_t share) {
  links.push_back({from,
                   to,
                   bytesPerSecond,
                   latencySeconds,
                   {share, HM_NONE, HM_NONE, HM_NONE},
                   0,
                   0});
}

uint32_t BlobBuilder::resource(const std::string &name, double bytesPerSecond) {
  resources.push_back({string(name), 0, bytesPerSecond});
  return static_cast<uint32_t>(resources.size() - 1);
}

int64_t BlobBuilder::constant(const std::vector<float> &values) {
  auto at = static_cast<int64_t>(constants.size());
  auto *bytes = reinterpret_cast<const char *>(values.data());
  constants.insert(constants.end(), bytes,
                   bytes + values.size() * sizeof(float));
  return at;
}

void BlobBuilder::variable(const std::string &name, HmRole role,
                           const std::vector<int64_t> &shape, int64_t home,
                           std::vector<int64_t> gradientHomes,
                           int64_t initial) {
  HmVariable v{};
  v.name = string(name);
  v.type = HM_F32;
  v.role = role;
  v.rank = static_cast<uint8_t>(shape.size());
  v.dims = dims(shape);
  v.bytes = product(shape, 0) * floatBytes;
  v.home = home;
  v.initial = initial;
  variables.push_back(v);
  gradients.emplace_back();
  for (int64_t g : gradientHomes) {
    gradients.back().push_back({g});
    header.dumpBytes = std::max(header.dumpBytes, g + v.bytes);
  }
  header.hostBytes = std::max(header.hostBytes, home + v.bytes);
}

HmInput &BlobBuilder::input(const std::string &name, HmType type,
                            const std::vector<int64_t> &shape, int64_t offset,
                            uint32_t usedBy) {
  HmInput in{};
  in.name = string(name);
  in.type = static_cast<uint8_t>(type);
  in.rank = static_cast<uint8_t>(shape.size());
  in.dims = dims(shape);
  in.sampleBytes = product(shape, 1) * typeBytesOf(type);
  in.offset = offset;
  in.usedBy = usedBy;
  inputs.push_back(in);
  return inputs.back();
}

void BlobBuilder::output(const std::string &name,
                         const std::vector<int64_t> &shape, int64_t home) {
  HmOutput out{};
  out.name = string(name);
  out.type = HM_F32;
  out.rank = static_cast<uint8_t>(shape.size());
  out.dims = dims(shape);
  out.sampleBytes = product(shape, 1) * floatBytes;
  out.home = home;
  outputs.push_back(out);
}

void BlobBuilder::lossTerm(int64_t numerator, int64_t denominator, float scale,
                           HmProgramKind program) {
  lossTerms.push_back(
      {numerator, denominator, scale, static_cast<uint32_t>(program)});
  header.hostBytes =
      std::max(header.hostBytes, std::max(numerator, denominator) + floatBytes);
}

void BlobBuilder::scalar(HmScalarKind kind, uint32_t index) {
  scalars.push_back({static_cast<uint32_t>(kind), index});
  header.scalarCount = std::max<int64_t>(header.scalarCount, index + 1);
}

uint32_t BlobBuilder::kernel(const std::string &name, uint32_t function,
                             HmFamily family) {
  kernels.push_back({string(name), HM_KERNEL_GENERATED, function,
                     static_cast<uint32_t>(family)});
  return static_cast<uint32_t>(kernels.size() - 1);
}

uint32_t BlobBuilder::gemm(const std::string &name, const HmGemm &gemm) {
  gemms.push_back(gemm);
  kernels.push_back({string(name), HM_KERNEL_GEMM,
                     static_cast<uint32_t>(gemms.size() - 1), HM_FAMILY_GEMM});
  return static_cast<uint32_t>(kernels.size() - 1);
}

uint32_t BlobBuilder::convolution(const std::string &name,
                                  const HmConvolution &shape) {
  convolutions.push_back(shape);
  kernels.push_back({string(name), HM_KERNEL_CONVOLUTION,
                     static_cast<uint32_t>(convolutions.size() - 1),
                     HM_FAMILY_GEMM});
  return static_cast<uint32_t>(kernels.size() - 1);
}

using QueueBuilder = BlobBuilder::QueueBuilder;

HmCommand &QueueBuilder::add(HmOpcode op, const std::vector<HmRef> &refs) {
  HmCommand c{};
  c.op = static_cast<uint8_t>(op);
  c.first = static_cast<uint32_t>(builder->refs.size());
  c.count = static_cast<uint32_t>(refs.size());
  c.label = builder->string("command" + std::to_string(commands.size()));
  builder->refs.insert(builder->refs.end(), refs.begin(), refs.end());
  commands.push_back(c);
  return commands.back();
}

QueueBuilder &QueueBuilder::loop(int64_t iterations) {
  add(HM_OP_LOOP, {}).a = iterations;
  return *this;
}
QueueBuilder &QueueBuilder::end() {
  add(HM_OP_END, {});
  return *this;
}
QueueBuilder &QueueBuilder::wait(uint32_t other, int64_t a, int64_t b,
                                 uint32_t divide, uint32_t first) {
  HmCommand &c = add(HM_OP_WAIT, {});
  c.first = first;
  c.kernel = other;
  c.a = a;
  c.b = b;
  c.count = divide;
  return *this;
}
QueueBuilder &QueueBuilder::copy(HmRef to, HmRef from, HmTraffic traffic) {
  add(HM_OP_COPY, {to, from}).traffic = static_cast<uint8_t>(traffic);
  return *this;
}
QueueBuilder &QueueBuilder::fill(HmRef to, int64_t value) {
  add(HM_OP_FILL, {to}).a = value;
  return *this;
}
QueueBuilder &QueueBuilder::launch(uint32_t kernel,
                                   const std::vector<HmRef> &operands,
                                   int64_t extent, int64_t grain) {
  HmCommand &c = add(HM_OP_LAUNCH, operands);
  c.kernel = kernel;
  c.a = extent;
  c.b = grain;
  return *this;
}
QueueBuilder &QueueBuilder::release(HmRef ref) {
  add(HM_OP_RELEASE, {ref});
  return *this;
}
QueueBuilder &QueueBuilder::takes(double seconds, double lastSeconds) {
  commands.back().seconds = seconds;
  commands.back().lastSeconds = lastSeconds;
  return *this;
}
QueueBuilder &QueueBuilder::label(const std::string &text) {
  commands.back().label = builder->string(text);
  return *this;
}
QueueBuilder &QueueBuilder::signal() {
  commands.back().signal = 1;
  return *this;
}

QueueBuilder &BlobBuilder::queue(HmProgramKind program, const std::string &name,
                                 HmQueueKind kind, uint32_t device) {
  queues[program].push_back(std::make_unique<QueueBuilder>());
  QueueBuilder &q = *queues[program].back();
  q.builder = this;
  q.queue.name = string(name);
  q.queue.kind = kind;
  q.queue.device = device;
  return q;
}

void BlobBuilder::program(HmProgramKind kind, int64_t batch) {
  header.programs[kind].present = 1;
  header.programs[kind].batch = batch;
}

void BlobBuilder::count(HmProgramKind kind, QueueBuilder &q) {
  q.queue.period = 0;
  int64_t iterations = 1;
  for (const HmCommand &c : q.commands) {
    iterations = c.op == HM_OP_LOOP ? c.a : c.op == HM_OP_END ? 1 : iterations;
    q.queue.period += c.signal * iterations;
    if (c.op == HM_OP_WAIT || c.op == HM_OP_RELEASE)
      continue;
    for (int64_t i = 0; i < iterations; ++i)
      for (uint32_t r = 0; r < c.count; ++r) {
        const HmRef &ref = refs[c.first + r];
        if (ref.space != HM_SPACE_DEVICE)
          continue;
        int64_t divide = std::max<int64_t>(1, ref.divide);
        int64_t slot = ref.modulo ? i / divide % ref.modulo : i / divide;
        int64_t end =
            ref.offset + slot * ref.stride + i % divide * ref.part + ref.bytes;
        HmDevice &d = devices[ref.device];
        int64_t &peak = kind == HM_PROGRAM_EVALUATE ? d.evaluatePeak : d.peak;
        if (kind == HM_PROGRAM_STEP || kind == HM_PROGRAM_EVALUATE)
          peak = std::max(peak, end);
      }
    if (c.op == HM_OP_COPY && refs[c.first].space != HM_SPACE_DUMP)
      header.programs[kind].traffic[c.traffic] +=
          refs[c.first].bytes * iterations;
  }
}

BlobBuilder::Bytes BlobBuilder::finish() {
  std::vector<char> out(sizeof(HmHeader));
  auto append = [&](const void *data, size_t count, size_t size,
                    size_t alignment) {
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    HmSection section{static_cast<uint32_t>(out.size()),
                      static_cast<uint32_t>(count)};
    auto *bytes = static_cast<const char *>(data);
    out.insert(out.end(), bytes, bytes + count * size);
    return section;
  };
  auto section = [&](const auto &list) {
    return append(list.data(), list.size(), sizeof(list[0]), 8);
  };

  for (HmProgram &program : header.programs)
    std::fill(std::begin(program.traffic), std::end(program.traffic), 0);
  for (HmDevice &d : devices)
    d.peak = d.evaluatePeak = 0;
  std::vector<HmCommand> commandList;
  std::vector<uint32_t> firsts;
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
    for (auto &q : queues[p]) {
      count(static_cast<HmProgramKind>(p), *q);
      firsts.push_back(static_cast<uint32_t>(commandList.size()));
      commandList.insert(commandList.end(), q->commands.begin(),
                         q->commands.end());
    }
  header.strings = section(strings);
  header.dims = section(dimList);
  header.constants = append(constants.data(), constants.size(), 1, 64);
  header.devices = section(devices);
  header.links = section(links);
  header.resources = section(resources);
  std::vector<HmGradient> gradientList;
  std::vector<uint32_t> gradientFirsts;
  for (auto &list : gradients) {
    gradientFirsts.push_back(static_cast<uint32_t>(gradientList.size()));
    gradientList.insert(gradientList.end(), list.begin(), list.end());
  }
  header.gradients = section(gradientList);
  for (size_t i = 0; i < variables.size(); ++i)
    variables[i].gradients = {
        static_cast<uint32_t>(header.gradients.offset +
                              gradientFirsts[i] * sizeof(HmGradient)),
        static_cast<uint32_t>(gradients[i].size())};
  header.variables = section(variables);
  header.inputs = section(inputs);
  header.outputs = section(outputs);
  header.lossTerms = section(lossTerms);
  header.scalars = section(scalars);
  header.kernels = section(kernels);
  header.gemms = section(gemms);
  header.convolutions = section(convolutions);
  header.refs = section(refs);
  header.commands = section(commandList);
  std::vector<HmQueue> queueList;
  size_t next = 0;
  for (auto &program : queues)
    for (auto &q : program) {
      q->queue.commands = {
          static_cast<uint32_t>(header.commands.offset +
                                firsts[next++] * sizeof(HmCommand)),
          static_cast<uint32_t>(q->commands.size())};
      queueList.push_back(q->queue);
    }
  header.queues = section(queueList);
  uint32_t first = 0;
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
    header.programs[p].queues = {
        static_cast<uint32_t>(header.queues.offset + first * sizeof(HmQueue)),
        static_cast<uint32_t>(queues[p].size())};
    first += queues[p].size();
  }
  header.magic = HM_PROGRAM_MAGIC;
  header.version = HM_PROGRAM_VERSION;
  header.size = static_cast<uint32_t>(out.size());
  std::memcpy(out.data(), &header, sizeof(header));

  Bytes result;
  result.size = out.size();
  result.data.reset(
      static_cast<char *>(std::aligned_alloc(64, (out.size() + 63) / 64 * 64)));
  std::memcpy(result.data.get(), out.data(), out.size());
  return result;
}

HmRef onDevice(unsigned device, int64_t offset, int64_t bytes, int64_t stride,
               uint32_t modulo) {
  return {HM_SPACE_DEVICE,
          static_cast<uint8_t>(device),
          3,
          modulo,
          offset,
          stride,
          bytes,
          0,
          0,
          0};
}

HmRef in(HmSpace space, int64_t offset, int64_t bytes, int64_t stride,
         uint32_t modulo) {
  return {static_cast<uint8_t>(space),
          0,
          3,
          modulo,
          offset,
          stride,
          bytes,
          0,
          0,
          0};
}

} // namespace harmony::runtime::test
