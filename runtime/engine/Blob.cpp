//===- Blob.cpp - The program, read and checked ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Blob.h"

#include "runtime/engine/Cursor.h"
#include "runtime/engine/Progress.h"
#include "runtime/hal/ConvolutionShape.h"
#include "runtime/hal/Error.h"
#include "runtime/hal/GemmShape.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

namespace harmony::runtime {

static constexpr struct {
  const char *name;
  int64_t bytes;
} typeTable[] = {{"f32", 4}, {"f64", 8},  {"i64", 8}, {"i32", 4}, {"i8", 1},
                 {"u8", 1},  {"bool", 1}, {"f16", 2}, {"bf16", 2}};
static constexpr unsigned typeCount = sizeof(typeTable) / sizeof(typeTable[0]);

int64_t typeBytes(unsigned type) { return typeTable[type].bytes; }
const char *typeName(unsigned type) { return typeTable[type].name; }

static constexpr int64_t maximalIterations = int64_t(1) << 24;
static constexpr int64_t maximalStride = int64_t(1) << 30;
static constexpr uint32_t maximalOperands = 64;
/// Bytes, elements and extents: what a process can address with 48 bits.
/// Products of two and sums of such products fit 128 bits, an array's bytes 64.
static constexpr int64_t maximalExtent = int64_t(1) << 47;

/// One pass over the blob; `where` always names the entry being looked at.
class BlobChecker {
public:
  BlobChecker(const Blob &blob, uint64_t size, uint64_t functionCount)
      : blob(blob), size(size), functionCount(functionCount) {}

  void checkAll() {
    checkSections();
    checkHeader();
    checkTables();
    checkLinks();
    checkVariables();
    checkInputsAndOutputs();
    checkKernels();
    checkTasks();
    for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
      if (blob.head->programs[p].present)
        checkProgram(static_cast<HmProgramKind>(p));
  }

  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ExitCode::Internal, "corrupt program: " + where + what);
  }

private:
  void require(bool condition, const char *what) const {
    if (!condition)
      fail(what);
  }

  void requireIn(int64_t value, int64_t low, int64_t end,
                 const char *what) const {
    if (value < low || value >= end)
      fail(std::string(what) + " is " + std::to_string(value) +
           ", accepted range is [" + std::to_string(low) + ", " +
           std::to_string(end) + ")");
  }

  /// [offset, offset + bytes) inside of [0, space).
  void requireInside(int64_t offset, int64_t bytes, int64_t space,
                     const char *what) const {
    if (offset < 0 || bytes < 0 || bytes > space || offset > space - bytes)
      fail(std::string(what) + " at " + std::to_string(offset) + " of " +
           std::to_string(bytes) + " bytes exceeds the " +
           std::to_string(space) + " bytes there are");
  }

  void at(const char *section, size_t index) {
    where = std::string(section) + " " + std::to_string(index) + ": ";
  }

  template <typename T>
  void checkSection(const HmSection &section, const char *name,
                    uint32_t alignment = 8) const {
    uint64_t end =
        section.offset + static_cast<uint64_t>(section.count) * sizeof(T);
    if (section.offset % alignment || section.offset < sizeof(HmHeader) ||
        end > size)
      if (section.count)
        fail(std::string("section ") + name + " at " +
             std::to_string(section.offset) + " with " +
             std::to_string(section.count) +
             " entries does not fit a blob of " + std::to_string(size) +
             " bytes");
  }

  /// A section that is part of another.
  template <typename T>
  void checkPart(const HmSection &part, const HmSection &whole,
                 const char *name) const {
    if (!part.count)
      return;
    uint64_t end = part.offset + static_cast<uint64_t>(part.count) * sizeof(T);
    uint64_t wholeEnd =
        whole.offset + static_cast<uint64_t>(whole.count) * sizeof(T);
    if (part.offset < whole.offset || end > wholeEnd ||
        (part.offset - whole.offset) % sizeof(T))
      fail(std::string(name) + " at " + std::to_string(part.offset) + " with " +
           std::to_string(part.count) +
           " entries lie outside of their section");
  }

  void checkString(HmString string, const char *what) const {
    requireIn(string, 0, blob.head->strings.count, what);
  }

  void checkSections() {
    const HmHeader &h = *blob.head;
    checkSection<char>(h.strings, "strings");
    checkSection<int64_t>(h.dims, "dims");
    checkSection<char>(h.constants, "constants", 64);
    checkSection<HmDevice>(h.devices, "devices");
    checkSection<HmVariable>(h.variables, "variables");
    checkSection<HmGradient>(h.gradients, "gradients");
    checkSection<HmInput>(h.inputs, "inputs");
    checkSection<HmOutput>(h.outputs, "outputs");
    checkSection<HmLossTerm>(h.lossTerms, "loss terms");
    checkSection<HmScalar>(h.scalars, "scalars");
    checkSection<HmKernel>(h.kernels, "kernels");
    checkSection<HmGemm>(h.gemms, "gemms");
    checkSection<HmConvolution>(h.convolutions, "convolutions");
    checkSection<HmRef>(h.refs, "refs");
    checkSection<HmCommand>(h.commands, "commands");
    checkSection<HmQueue>(h.queues, "queues");
    checkSection<HmLink>(h.links, "links");
    checkSection<HmResource>(h.resources, "resources");
    checkSection<HmTask>(h.tasks, "tasks");
    require(h.strings.count && blob.string(h.strings.count - 1)[0] == 0,
            "the string section does not end in NUL");
  }

  void checkHeader() {
    const HmHeader &h = *blob.head;
    where = "header: ";
    for (HmString s : {h.model, h.compiler, h.numericsKey, h.fingerprint,
                       h.planSummary, h.diskPath})
      checkString(s, "string");
    requireIn(h.isa, 0, HM_ISA_AVX512 + 1, "isa");
    requireIn(h.optimizer, 0, HM_OPTIMIZER_NONE + 1, "optimizer");
    requireIn(h.weightsKind, 0, 1, "weightsKind");
    for (int64_t bytes :
         {h.hostBytes, h.dumpBytes, h.batchBytes, h.scalarCount})
      requireIn(bytes, 0, maximalExtent, "size of a space");
    requireIn(h.diskMemory, 0, INT64_MAX, "memory of a store on disk");
  }

  void checkTables() {
    const HmHeader &h = *blob.head;
    require(h.devices.count >= 1, "no device");
    require(h.devices.count <= 256, "more than 256 devices");
    for (size_t i = 0; i < blob.devices().size(); ++i) {
      const HmDevice &d = blob.devices()[i];
      at("device", i);
      requireIn(d.capacity, 0, maximalExtent, "capacity");
      requireIn(d.peak, 0, d.capacity + 1, "peak");
      requireIn(d.evaluatePeak, 0, d.capacity + 1, "evaluatePeak");
      requireIn(d.libraryBytes, 0, maximalExtent, "libraryBytes");
    }
    for (size_t i = 0; i < blob.lossTerms().size(); ++i) {
      const HmLossTerm &t = blob.lossTerms()[i];
      at("loss term", i);
      requireInside(t.numerator, 4, h.hostBytes, "numerator");
      requireInside(t.denominator, 4, h.hostBytes, "denominator");
      requireIn(t.program, 0, HM_PROGRAM_COUNT, "program");
    }
    for (size_t i = 0; i < blob.scalars().size(); ++i) {
      at("scalar", i);
      requireIn(blob.scalars()[i].kind, 0, HM_SCALAR_COUNT, "kind");
      requireIn(blob.scalars()[i].index, 0, h.scalarCount, "index");
    }
  }

  void checkTasks() {
    for (size_t i = 0; i < blob.tasks().size(); ++i) {
      const HmTask &task = blob.tasks()[i];
      at("task", i);
      checkString(task.name, "name");
      checkString(task.key, "key");
      requireIn(task.kind, 0, HM_TASK_KIND_COUNT, "kind");
      requireIn(task.bytes, 0, maximalExtent, "bytes");
    }
  }

  void requireSeconds(double value, const char *what) const {
    if (!std::isfinite(value) || value < 0)
      fail(std::string(what) + " is " + std::to_string(value) +
           ", accepted are finite values from 0");
  }

  void requireRate(double value, const char *what) const {
    if (!std::isfinite(value) || value <= 0)
      fail(std::string(what) + " is " + std::to_string(value) +
           ", accepted are finite values above 0");
  }

  void checkLinks() {
    for (size_t i = 0; i < blob.resources().size(); ++i) {
      at("resource", i);
      checkString(blob.resources()[i].name, "name");
      requireRate(blob.resources()[i].bytesPerSecond, "bandwidth");
    }
    std::set<std::pair<int32_t, int32_t>> seen;
    int64_t devices = blob.head->devices.count;
    for (size_t i = 0; i < blob.links().size(); ++i) {
      const HmLink &link = blob.links()[i];
      at("link", i);
      requireIn(link.from, HM_HOST_ENDPOINT, devices, "from");
      requireIn(link.to, HM_HOST_ENDPOINT, devices, "to");
      require(link.from != link.to, "both ends are the same");
      require(seen.insert({link.from, link.to}).second,
              "a second link between the same ends");
      requireRate(link.bytesPerSecond, "bandwidth");
      requireSeconds(link.latencySeconds, "latency");
      requireIn(link.fixed, 0, 2, "fixed");
      for (uint32_t share : link.shares)
        if (share != HM_NONE)
          requireIn(share, 0, blob.head->resources.count, "shared resource");
    }
  }

  /// Elements of dims[skip..], checked to be positive and not to overflow.
  int64_t elements(uint32_t first, unsigned rank, unsigned skip) const {
    const HmSection &dims = blob.head->dims;
    require(static_cast<uint64_t>(first) + rank <= dims.count,
            "dims out of range");
    int64_t count = 1;
    for (unsigned i = skip; i < rank; ++i) {
      int64_t extent = blob.dims(first, rank)[i];
      requireIn(extent, 0, maximalExtent, "extent");
      if (__builtin_mul_overflow(count, extent, &count) ||
          count > maximalExtent)
        fail("too many elements");
    }
    return count;
  }

  void checkVariables() {
    const HmHeader &h = *blob.head;
    for (size_t i = 0; i < blob.variables().size(); ++i) {
      const HmVariable &v = blob.variables()[i];
      at("variable", i);
      checkString(v.name, "name");
      where = "variable '" + std::string(blob.string(v.name)) + "': ";
      requireIn(v.type, 0, typeCount, "type");
      requireIn(v.role, 0, HM_ROLE_CONSTANT + 1, "role");
      require(v.bytes == elements(v.dims, v.rank, 0) * typeBytes(v.type),
              "bytes do not follow from its shape");
      requireInside(v.home, v.bytes, h.hostBytes, "home");
      if (v.role == HM_ROLE_CONSTANT)
        requireInside(v.initial, v.bytes, h.constants.count, "initial value");
      checkPart<HmGradient>(v.gradients, h.gradients, "gradients");
      for (const HmGradient &g : blob.gradients(v))
        requireInside(g.home, v.bytes, h.dumpBytes, "gradient");
      require(!v.gradients.count || v.type == HM_F32,
              "only f32 variables have gradients");
    }
  }

  void checkInputsAndOutputs() {
    const HmHeader &h = *blob.head;
    auto bytesOf = [&](const char *kind, size_t i, HmString name, unsigned type,
                       unsigned rank, uint32_t dims, bool perStep,
                       int64_t sampleBytes) {
      at(kind, i);
      checkString(name, "name");
      where = std::string(kind) + " '" + blob.string(name) + "': ";
      requireIn(type, 0, typeCount, "type");
      require(perStep || rank >= 1, "has no sample axis");
      require(sampleBytes ==
                  elements(dims, rank, perStep ? 0 : 1) * typeBytes(type),
              "sampleBytes do not follow from its shape");
    };
    for (size_t i = 0; i < blob.inputs().size(); ++i) {
      const HmInput &in = blob.inputs()[i];
      bytesOf("input", i, in.name, in.type, in.rank, in.dims, in.perStep,
              in.sampleBytes);
      require(!in.checked || in.type == HM_I64 || in.type == HM_I32,
              "only integer inputs are checked");
      requireIn(in.source, 0, HM_INPUT_KEYS + 1, "source");
      require(in.source != HM_INPUT_KEYS ||
                  (in.type == HM_I64 && !in.perStep &&
                   in.sampleBytes == 3 * typeBytes(HM_I64)),
              "keys are three int64 a sample");
      for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
        if (h.programs[p].present && (in.usedBy >> p & 1))
          requireInside(in.offset, batchBytes(in.sampleBytes, in.perStep, p),
                        h.batchBytes, "batch");
    }
    for (size_t i = 0; i < blob.outputs().size(); ++i) {
      const HmOutput &out = blob.outputs()[i];
      bytesOf("output", i, out.name, out.type, out.rank, out.dims, out.perStep,
              out.sampleBytes);
      if (h.programs[HM_PROGRAM_EVALUATE].present)
        requireInside(
            out.home,
            batchBytes(out.sampleBytes, out.perStep, HM_PROGRAM_EVALUATE),
            h.hostBytes, "home");
    }
  }

  int64_t batchBytes(int64_t sampleBytes, bool perStep, int program) const {
    int64_t bytes = sampleBytes;
    int64_t batch = blob.head->programs[program].batch;
    requireIn(batch, 1, maximalExtent, "batch");
    if (!perStep && __builtin_mul_overflow(bytes, batch, &bytes))
      fail("batch too large");
    return bytes;
  }

  void checkKernels() {
    const HmHeader &h = *blob.head;
    for (size_t i = 0; i < blob.kernels().size(); ++i) {
      const HmKernel &k = blob.kernels()[i];
      at("kernel", i);
      checkString(k.name, "name");
      requireIn(k.kind, 0, HM_KERNEL_CONVOLUTION + 1, "kind");
      requireIn(k.family, 0, HM_FAMILY_COUNT, "family");
      requireIn(k.index, 0,
                k.kind == HM_KERNEL_GEMM          ? h.gemms.count
                : k.kind == HM_KERNEL_CONVOLUTION ? h.convolutions.count
                                                  : functionCount,
                "index");
    }
    for (size_t i = 0; i < blob.gemms().size(); ++i) {
      const HmGemm &g = blob.gemms()[i];
      at("gemm", i);
      for (int64_t extent : {g.m, g.n, g.k, g.batch[0], g.batch[1], g.batch[2],
                             g.blockM, g.blockN})
        requireIn(extent, 1, maximalExtent, "extent");
      for (int j = 0; j < 3; ++j)
        for (int64_t stride : {g.strideA[j], g.strideB[j], g.strideC[j]})
          requireIn(stride, 0, maximalExtent, "batch stride");
      requireIn(g.lda, g.transA ? g.m : g.k, maximalExtent, "lda");
      requireIn(g.ldb, g.transB ? g.k : g.n, maximalExtent, "ldb");
      requireIn(g.ldc, g.n, maximalExtent, "ldc");
    }
    for (size_t i = 0; i < blob.convolutions().size(); ++i) {
      at("convolution", i);
      checkConvolution(blob.convolutions()[i]);
    }
  }

  void checkConvolution(const HmConvolution &c) {
    requireIn(c.direction, 0, HM_CONVOLUTION_DIRECTION_COUNT, "direction");
    require(c.lanes == 8 || c.lanes == 16, "lanes are neither 8 nor 16");
    // The library counts with 32 bits in places.
    constexpr int64_t limit = int64_t(1) << 31;
    requireIn(c.samples, 1, limit, "samples");
    requireIn(c.blockSamples, 1, c.samples + 1, "samples of a block");
    for (int64_t extent : {c.channels, c.outputs})
      requireIn(extent, 1, limit, "channels");
    require(c.outputs % c.lanes == 0 &&
                (c.channels < c.lanes || c.channels % c.lanes == 0),
            "channels are not in whole blocks");
    for (int i = 0; i < 2; ++i) {
      for (int64_t extent : {c.image[i], c.out[i], c.kernel[i], c.strides[i]})
        requireIn(extent, 1, limit, "extent");
      requireIn(c.low[i], 0, c.kernel[i], "padding in front");
      requireIn(c.high[i], 0, c.kernel[i], "padding behind");
      int64_t room = c.image[i] + c.low[i] + c.high[i] - c.kernel[i];
      require(room >= 0 && room / c.strides[i] + 1 == c.out[i],
              "the extents of image and result do not agree");
    }
  }

  int64_t spaceBytes(const HmRef &ref) const {
    const HmHeader &h = *blob.head;
    switch (ref.space) {
    case HM_SPACE_DEVICE:
      requireIn(ref.device, 0, h.devices.count, "device of a reference");
      return blob.devices()[ref.device].capacity;
    case HM_SPACE_HOST:
      return h.hostBytes;
    case HM_SPACE_BATCH:
      return h.batchBytes;
    case HM_SPACE_SCALARS:
      return h.scalarCount * static_cast<int64_t>(sizeof(float));
    case HM_SPACE_CONSTANT:
      return h.constants.count;
    case HM_SPACE_DUMP:
      return h.dumpBytes;
    }
    fail("space of a reference is " + std::to_string(ref.space));
  }

  void checkRef(const HmRef &ref, int64_t iterations) const {
    int64_t space = spaceBytes(ref);
    requireIn(ref.stride, -maximalExtent, maximalExtent, "stride");
    requireIn(ref.part, -maximalExtent, maximalExtent, "part");
    requireInside(ref.offset, ref.bytes, space, "reference");
    // Extremes lie at the corners of (slot, part), the last slot being cut off
    // by the end of the loop.
    int64_t last = iterations - 1, divide = std::max<int64_t>(1, ref.divide);
    int64_t lastSlot = last / divide;
    if (ref.modulo)
      lastSlot = std::min<int64_t>(lastSlot, ref.modulo - 1);
    int64_t start = lastSlot * divide;
    for (int64_t i : {std::min(start + divide - 1, last), start, start - 1,
                      std::min(divide - 1, last)})
      if (i > 0)
        requireInside(checkedOffset(ref, i), ref.bytes, space,
                      "reference of the last iteration");
  }

  int64_t checkedOffset(const HmRef &ref, int64_t iteration) const {
    int64_t divide = std::max<int64_t>(1, ref.divide),
            slot = iteration / divide, moved = 0, part = 0, offset = 0;
    if (ref.modulo)
      slot %= ref.modulo;
    if (__builtin_mul_overflow(slot, ref.stride, &moved) ||
        __builtin_mul_overflow(iteration % divide, ref.part, &part) ||
        __builtin_add_overflow(ref.offset, moved, &offset) ||
        __builtin_add_overflow(offset, part, &offset))
      fail("a reference overflows");
    return offset;
  }

  void checkCommandRefs(const HmCommand &c, int64_t iterations) const {
    if (c.op == HM_OP_WAIT)
      return;
    require(static_cast<uint64_t>(c.first) + c.count <= blob.head->refs.count,
            "references out of range");
    const HmRef *refs = blob.refs().data() + c.first;
    for (uint32_t i = 0; i < c.count; ++i)
      checkRef(refs[i], iterations);
    auto expectCount = [&](uint32_t count) {
      if (c.count != count)
        fail(std::to_string(c.count) + " references, expected " +
             std::to_string(count));
    };
    switch (c.op) {
    case HM_OP_COPY:
      expectCount(2);
      require(refs[1].bytes >= refs[0].bytes,
              "the source is shorter than the target");
      require(refs[0].space != HM_SPACE_CONSTANT, "writes a constant");
      requireIn(c.traffic, 0, HM_TRAFFIC_COUNT, "traffic");
      break;
    case HM_OP_FILL:
      expectCount(1);
      requireIn(c.a, 0, 256, "byte value");
      break;
    case HM_OP_RELEASE:
      expectCount(1);
      break;
    case HM_OP_LAUNCH:
      checkLaunch(c, refs);
      break;
    default:
      expectCount(0);
    }
  }

  void checkLaunch(const HmCommand &c, const HmRef *refs) const {
    requireIn(c.kernel, 0, blob.head->kernels.count, "kernel");
    requireIn(c.count, 1, maximalOperands + 1, "operand count");
    requireIn(c.a, 0, INT64_MAX, "extent");
    requireSeconds(c.seconds, "duration");
    requireSeconds(c.lastSeconds, "duration of the last iteration");
    const HmKernel &kernel = blob.kernels()[c.kernel];
    if (kernel.kind == HM_KERNEL_GENERATED)
      return;
    std::string what;
    int64_t blocks;
    std::array<int64_t, 3> expected;
    if (kernel.kind == HM_KERNEL_GEMM) {
      const HmGemm &gemm = blob.gemms()[kernel.index];
      what = "product";
      blocks = gemmBlocks(gemm);
      GemmSpans spans = gemmSpans(gemm);
      expected = {spans.a, spans.b, spans.c};
    } else {
      const HmConvolution &convolution = blob.convolutions()[kernel.index];
      what = "convolution";
      blocks = convolutionBlocks(convolution);
      expected = convolutionOperands(convolution);
    }
    if (c.count != 3)
      fail("a " + what + " has three operands");
    if (c.a != blocks)
      fail("extent is " + std::to_string(c.a) + ", the " + what + " has " +
           std::to_string(blocks) + " blocks");
    for (int i = 0; i < 3; ++i)
      if (refs[i].bytes / static_cast<int64_t>(sizeof(float)) < expected[i])
        fail("operand " + std::to_string(i) + " of the " + what + " has " +
             std::to_string(refs[i].bytes) + " bytes, it spans " +
             std::to_string(expected[i]) + " floats");
  }

  void checkProgram(HmProgramKind kind) {
    const HmProgram &program = blob.head->programs[kind];
    where = std::string("program ") + std::to_string(kind) + ": ";
    requireSeconds(program.seconds, "duration");
    checkPart<HmQueue>(program.queues, blob.head->queues, "queues");
    for (const HmQueue &queue : blob.queues(kind))
      checkQueue(kind, queue);
    where = std::string("program ") + std::to_string(kind) + ": ";
    std::string stuck = findStuckWait(blob, kind);
    if (!stuck.empty())
      fail(stuck);
  }

  void checkQueue(HmProgramKind kind, const HmQueue &queue) {
    checkString(queue.name, "queue name");
    where = std::string("queue '") + blob.string(queue.name) + "': ";
    requireIn(queue.kind, 0, HM_QUEUE_HOST + 1, "kind");
    if (queue.kind != HM_QUEUE_HOST)
      requireIn(queue.device, 0, blob.head->devices.count, "device");
    checkPart<HmCommand>(queue.commands, blob.head->commands, "commands");
    int64_t iterations = 1;
    bool inLoop = false;
    int64_t signals = 0;
    Span<HmCommand> commands = blob.commands(queue);
    for (size_t i = 0; i < commands.size(); ++i) {
      const HmCommand &c = commands[i];
      where = std::string("queue '") + blob.string(queue.name) + "' command " +
              std::to_string(i) + ": ";
      checkString(c.label, "label");
      requireIn(c.op, 0, HM_OP_RELEASE + 1, "opcode");
      requireIn(c.signal, 0, 2, "signal");
      requireIn(c.task, 0, int64_t(blob.head->tasks.count) + 1, "task");
      if (c.op == HM_OP_LOOP) {
        require(!inLoop, "loops do not nest");
        require(!c.signal, "a loop has no signal");
        requireIn(c.a, 0, maximalIterations, "iterations");
        inLoop = true;
        iterations = c.a;
      } else if (c.op == HM_OP_END) {
        require(inLoop, "end without a loop");
        require(!c.signal, "the end of a loop has no signal");
        inLoop = false;
        iterations = 1;
      } else if (c.op == HM_OP_WAIT) {
        requireIn(c.kernel, 0, blob.queues(kind).size(), "queue waited for");
        requireIn(c.a, -maximalExtent, maximalExtent, "value waited for");
        requireIn(c.b, -maximalStride, maximalStride, "stride of the wait");
      }
      if (iterations > 0)
        checkCommandRefs(c, iterations);
      signals += c.signal * iterations;
    }
    where = std::string("queue '") + blob.string(queue.name) + "': ";
    require(!inLoop, "a loop without end");
    if (signals != queue.period)
      fail("period is " + std::to_string(queue.period) +
           ", its commands signal " + std::to_string(signals) + " times");
  }

  const Blob &blob;
  const uint64_t size;
  const uint64_t functionCount;
  std::string where;
};

Blob::Blob(const void *data, uint64_t size, uint64_t functionCount)
    : bytes(static_cast<const char *>(data)),
      head(static_cast<const HmHeader *>(data)) {
  auto fail = [](const std::string &what) {
    throw Error(ExitCode::Internal, "corrupt program: " + what);
  };
  if (reinterpret_cast<uintptr_t>(data) % 64)
    fail("not aligned to 64 bytes");
  if (size < sizeof(HmHeader))
    fail(std::to_string(size) + " bytes are less than a header");
  if (head->magic != HM_PROGRAM_MAGIC)
    fail("wrong magic number");
  if (head->version != HM_PROGRAM_VERSION)
    fail("version " + std::to_string(head->version) +
         ", this runtime reads version " + std::to_string(HM_PROGRAM_VERSION));
  if (head->size != size)
    fail("the header says " + std::to_string(head->size) +
         " bytes, there are " + std::to_string(size));
  BlobChecker(*this, size, functionCount).checkAll();
}

} // namespace harmony::runtime
