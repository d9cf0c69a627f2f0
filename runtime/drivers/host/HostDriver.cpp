//===- HostDriver.cpp - Devices made of host memory and threads -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"

#include "runtime/drivers/host/Convolution.h"
#include "runtime/drivers/host/Faults.h"
#include "runtime/drivers/host/Gemm.h"
#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/drivers/host/LinkGate.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/drivers/host/WorkerPool.h"
#include "runtime/hal/CurrentCommand.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/mman.h>

namespace harmony::runtime {

namespace {

/// Reads as NaN in every floating type and as an index outside of every table.
constexpr int poisonByte = 0xff;
constexpr size_t maximalOperands = 64;
/// A compute queue that sleeps starts late: to wake a thread takes tens of
/// microseconds, under a hypervisor up to a hundred, and most copies that are
/// waited for are over sooner. For processors that nothing else needs.
constexpr std::chrono::microseconds patientSpin{200};
/// Bytes that one worker fills at a time.
constexpr int64_t fillBlock = 256 << 10;

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Neither traffic nor work for a link.
bool isCounted(HmSpace space) {
  return space != HM_SPACE_DUMP && space != HM_SPACE_RESULTS;
}

class HostQueue;

class HostDriver final : public Driver {
public:
  explicit HostDriver(const DriverOptions &options);

  void setHostMemory(HmSpace space, void *base, int64_t bytes,
                     unsigned copy) override;
  std::unique_ptr<Queue> createQueue(HmQueueKind kind,
                                     unsigned device) override;
  void abort() override;
  int64_t peak(unsigned device) const override;
  Traffic traffic() const override;
  void resetEvidence() override;
  Times times() const override;
  std::vector<std::vector<int64_t>> workerChunks() const override;
  int64_t libraryPeak() const override { return libraryScratchPeak(); }

private:
  friend class HostQueue;

  struct HostMemory {
    char *base = nullptr;
    int64_t bytes = 0;
  };

  char *addressOf(const Range &range) const;
  /// Whether kernels are library calls, which workers are prepared for.
  bool callsLibrary() const {
    return options.kernels.gemmCount || options.kernels.convolutionCount;
  }
  void prepareLibrary();
  WorkerPool &poolOf(HmQueueKind kind, unsigned device);
  void protectHost(int protection) const;

  DriverOptions options;
  std::vector<Convolution> convolutions; // by index of the section
  std::vector<Mapping> arenas;
  std::array<HostMemory, maximalCopies> host[HM_SPACE_RESULTS + 1];
  // With fewer threads than devices, several devices have one pool and their
  // launches take turns, so that no more threads compute than were asked for:
  // device d has pool d mod their number.
  std::vector<std::unique_ptr<WorkerPool>> pools;
  std::unique_ptr<WorkerPool> hostPool; // made when a host queue is
  std::unique_ptr<LinkGate> gate;       // where links are enforced
  int64_t scratchBytes = 0;
  const std::chrono::nanoseconds spinOfCompute;
  std::atomic<bool> aborted{false};
  std::vector<HostQueue *> queues;
  Evidence past; // of queues that are gone
};

class HostQueue final : public Queue {
public:
  HostQueue(HostDriver &driver, HmQueueKind kind, WorkerPool &pool)
      : driver(driver), kind(kind), pool(pool) {
    done.peak.resize(driver.arenas.size());
    driver.queues.push_back(this);
  }

  ~HostQueue() override;

  void attachThread() override;
  void copy(const Range &to, const Range &from, HmTraffic traffic) override;
  void fill(const Range &to, uint8_t value) override;
  void launch(unsigned kernel, const Range *operands, size_t count,
              int64_t extent, int64_t grain, const char *label) override;
  void release(const Range &range) override;
  void signal() override {
    int64_t value = reached.fetch_add(1, std::memory_order_acq_rel) + 1;
    signals[signalOf(value)].notify();
  }
  void wait(const Queue &other, int64_t value) override;
  int64_t timeline() const override {
    return reached.load(std::memory_order_acquire);
  }
  void finish() override {}

  const Evidence &evidence() const override { return done; }

  void wakeWaiters() {
    for (Signal &signal : signals)
      signal.notify();
  }

  Evidence done; // queues count apart so that counting needs no atomics

private:
  void move(const Range &to, char *target, const Range &from,
            const char *source, bool ordered);
  void setHostBytes(const Range &to, uint8_t value);

  char *touch(const Range &range) {
    char *address = driver.addressOf(range);
    if (range.space == HM_SPACE_DEVICE)
      done.peak[range.device] =
          std::max(done.peak[range.device], range.offset + range.bytes);
    return address;
  }

  HostDriver &driver;
  const HmQueueKind kind;
  WorkerPool &pool;
  std::atomic<int64_t> reached{0};
  /// The timeline takes every value once, and who waits for one is not woken by
  /// all before it: a value is announced by one signal of several.
  std::array<Signal, 16> signals;
  size_t signalOf(int64_t value) const {
    return static_cast<size_t>(value) % signals.size();
  }
};

// A kernel's context in the pool is its entry of the table.
void runGenerated(const void *context, void *const *buffers, int64_t begin,
                  int64_t end) {
  (*static_cast<const HmRangeFunction *>(context))(buffers, begin, end);
}
void runProduct(const void *context, void *const *buffers, int64_t begin,
                int64_t end) {
  runGemm(*static_cast<const HmGemm *>(context), buffers, begin, end);
}

void runConvolution(const void *context, void *const *buffers, int64_t begin,
                    int64_t end) {
  static_cast<const Convolution *>(context)->run(buffers, begin, end);
}

HostDriver::HostDriver(const DriverOptions &given)
    : options(given), spinOfCompute(computeSpin(given)) {
  installFaultHandlers();
  requireProcessor(options.isa);
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const DeviceOptions &device = options.devices[i];
    std::string what = "arena of device " + std::to_string(i);
    arenas.emplace_back(device.capacity, what.c_str());
    if (options.poison)
      std::memset(arenas[i].data(), poisonByte,
                  std::min(device.poisonBytes, device.capacity));
    scratchBytes = std::max(scratchBytes, device.libraryBytes);
  }
  if (callsLibrary())
    prepareLibrary();
  size_t threads = std::max(1u, options.threads);
  size_t count = std::min(threads, arenas.size());
  for (size_t i = 0; i < count; ++i)
    pools.push_back(std::make_unique<WorkerPool>(
        threads / count + (i < threads % count), options.chunk));
  if (options.enforceLinks)
    gate = std::make_unique<LinkGate>(options.links);
}

void HostDriver::prepareLibrary() {
  configureGemm(options.isa);
  attachGemmThread();
  int64_t measured = 0;
  for (size_t i = 0; i < options.kernels.gemmCount; ++i)
    measured = std::max(measured, warmGemm(options.kernels.gemms[i]));
  for (size_t i = 0; i < options.kernels.convolutionCount; ++i) {
    convolutions.emplace_back(options.kernels.convolutions[i]);
    measured = std::max(measured, convolutions.back().warm());
  }
  if (scratchBytes && measured > scratchBytes)
    throw Error(ExitCode::Internal,
                "the product library takes " + std::to_string(measured) +
                    " bytes of scratch in one call, the plan says " +
                    std::to_string(scratchBytes));
  scratchBytes = std::max(scratchBytes, measured);
}

void HostDriver::setHostMemory(HmSpace space, void *base, int64_t bytes,
                               unsigned copy) {
  host[space][copy] = {static_cast<char *>(base), bytes};
}

WorkerPool &HostDriver::poolOf(HmQueueKind kind, unsigned device) {
  if (kind != HM_QUEUE_HOST)
    return *pools[device % pools.size()];
  if (!hostPool)
    hostPool = std::make_unique<WorkerPool>(options.threads, options.chunk);
  return *hostPool;
}

std::unique_ptr<Queue> HostDriver::createQueue(HmQueueKind kind,
                                               unsigned device) {
  if (kind != HM_QUEUE_HOST && device >= arenas.size())
    throw Error(ExitCode::Internal,
                "a queue of device " + std::to_string(device) +
                    ", but there are " + std::to_string(arenas.size()) +
                    " devices");
  return std::make_unique<HostQueue>(*this, kind, poolOf(kind, device));
}

void HostDriver::abort() {
  aborted.store(true);
  for (HostQueue *queue : queues)
    queue->wakeWaiters();
}

char *HostDriver::addressOf(const Range &range) const {
  char *base = nullptr;
  int64_t bytes = 0;
  if (range.space == HM_SPACE_DEVICE) {
    if (range.device < arenas.size()) {
      base = arenas[range.device].data();
      bytes = arenas[range.device].size();
    }
  } else if (range.space <= HM_SPACE_RESULTS && range.copy < maximalCopies) {
    base = host[range.space][range.copy].base;
    bytes = host[range.space][range.copy].bytes;
  }
  if (!base || range.offset < 0 || range.bytes < 0 || range.bytes > bytes ||
      range.offset > bytes - range.bytes)
    throw Error(ExitCode::Internal, describe(range) +
                                        " out of range: the space has " +
                                        std::to_string(bytes) + " bytes");
  return base + range.offset;
}

void HostDriver::protectHost(int protection) const {
  for (HmSpace space : {HM_SPACE_HOST, HM_SPACE_BATCH})
    for (const HostMemory &memory : host[space])
      if (memory.base && (space != HM_SPACE_HOST || !options.hostStore))
        mprotect(memory.base, memory.bytes, protection);
  if (options.hostStore)
    options.hostStore->setAccessible(protection != PROT_NONE);
}

int64_t HostDriver::peak(unsigned device) const {
  int64_t highest = past.peak.empty() ? 0 : past.peak[device];
  for (const HostQueue *queue : queues)
    highest = std::max(highest, queue->done.peak[device]);
  return highest;
}

Traffic HostDriver::traffic() const {
  Traffic sum = past.traffic;
  for (const HostQueue *queue : queues)
    for (int i = 0; i < HM_TRAFFIC_COUNT; ++i)
      sum[i] += queue->done.traffic[i];
  return sum;
}

static void addTimes(Times &sum, const Times &times) {
  for (int i = 0; i < HM_FAMILY_COUNT; ++i)
    sum.kernels[i] += times.kernels[i];
  sum.copies += times.copies;
  sum.waits += times.waits;
}

Times HostDriver::times() const {
  Times sum = past.times;
  for (const HostQueue *queue : queues)
    addTimes(sum, queue->done.times);
  return sum;
}

void HostDriver::resetEvidence() {
  auto reset = [](Evidence &evidence) {
    std::fill(evidence.peak.begin(), evidence.peak.end(), 0);
    evidence.traffic = {};
    evidence.times = {};
  };
  reset(past);
  for (HostQueue *queue : queues)
    reset(queue->done);
}

std::vector<std::vector<int64_t>> HostDriver::workerChunks() const {
  std::vector<std::vector<int64_t>> counts;
  for (const std::unique_ptr<WorkerPool> &pool : pools)
    counts.push_back(pool->pieceCounts());
  counts.push_back(hostPool ? hostPool->pieceCounts() : std::vector<int64_t>());
  return counts;
}

HostQueue::~HostQueue() {
  driver.queues.erase(
      std::find(driver.queues.begin(), driver.queues.end(), this));
  driver.past.peak.resize(driver.arenas.size());
  for (size_t i = 0; i < done.peak.size(); ++i)
    driver.past.peak[i] = std::max(driver.past.peak[i], done.peak[i]);
  for (int i = 0; i < HM_TRAFFIC_COUNT; ++i)
    driver.past.traffic[i] += done.traffic[i];
  addTimes(driver.past.times, done.times);
}

void HostQueue::attachThread() {
  useFaultStack();
  if (!driver.callsLibrary() ||
      (kind != HM_QUEUE_COMPUTE && kind != HM_QUEUE_HOST))
    return;
  pool.runOnEach(
      [](const void *bytes, void *const *, int64_t, int64_t) {
        attachGemmThread();
        reserveLibraryScratch(*static_cast<const int64_t *>(bytes));
      },
      &driver.scratchBytes);
}

void HostQueue::copy(const Range &to, const Range &from, HmTraffic traffic) {
  if (from.bytes < to.bytes)
    throw Error(ExitCode::Internal, "copy of " + std::to_string(to.bytes) +
                                        " bytes from " + describe(from));
  char *source =
      touch(Range{from.space, from.device, from.offset, to.bytes, from.copy});
  char *target = touch(to);
  const bool counts = isCounted(to.space) && isCounted(from.space);
  auto start = driver.options.timing ? std::chrono::steady_clock::now()
                                     : std::chrono::steady_clock::time_point();
  {
    LinkGate::Passage passage(counts ? driver.gate.get() : nullptr,
                              endpointOf(from.space, from.device),
                              endpointOf(to.space, to.device), to.bytes);
    move(to, target, from, source, counts);
  }
  if (counts)
    done.traffic[traffic] += to.bytes;
  if (driver.options.timing)
    done.times.copies += secondsSince(start);
}

/// What lies in the host store goes piece by piece, so that a range may be
/// larger than the memory behind it.
void HostQueue::move(const Range &to, char *target, const Range &from,
                     const char *source, bool ordered) {
  HostStore *store = driver.options.hostStore;
  if (to.space == HM_SPACE_HOST && from.space == HM_SPACE_HOST) {
    const HostAccess both[] = {{to.offset, to.bytes, false, true},
                               {from.offset, to.bytes, true, false}};
    HostStorePresence presence(store, both, 2, ordered);
    std::memmove(target, source, to.bytes);
    return;
  }
  bool isTarget = to.space == HM_SPACE_HOST;
  if (!store || (!isTarget && from.space != HM_SPACE_HOST)) {
    std::memmove(target, source, to.bytes);
    return;
  }
  HostAccess whole{(isTarget ? to : from).offset, to.bytes, !isTarget,
                   isTarget};
  int64_t start = whole.offset;
  store->visit(
      whole,
      [&](char *address, int64_t bytes) {
        int64_t at = address - store->data() - start;
        std::memcpy(target + at, source + at, bytes);
      },
      ordered);
}

/// Of bytes in the host store, which other queues leave to the thread.
void HostQueue::setHostBytes(const Range &to, uint8_t value) {
  driver.options.hostStore->visit(
      {to.offset, to.bytes, false, true},
      [&](char *address, int64_t bytes) { std::memset(address, value, bytes); },
      true);
}

void HostQueue::fill(const Range &to, uint8_t value) {
  struct Fill {
    int64_t bytes;
    uint8_t value;
  } fill{to.bytes, value};
  void *address = touch(to);
  auto task = [](const void *context, void *const *buffers, int64_t begin,
                 int64_t end) {
    auto *shared = static_cast<const Fill *>(context);
    int64_t first = begin * fillBlock;
    std::memset(static_cast<char *>(*buffers) + first, shared->value,
                std::min(end * fillBlock, shared->bytes) - first);
  };
  auto start = driver.options.timing ? std::chrono::steady_clock::now()
                                     : std::chrono::steady_clock::time_point();
  int64_t blocks = (to.bytes + fillBlock - 1) / fillBlock;
  // Other queues leave the workers to the kernels.
  if (to.space == HM_SPACE_HOST && driver.options.hostStore)
    setHostBytes(to, value);
  else if (blocks > 1 && (kind == HM_QUEUE_COMPUTE || kind == HM_QUEUE_HOST))
    pool.run(task, &fill, &address, blocks, 1);
  else if (blocks > 0)
    task(&fill, &address, 0, blocks);
  if (driver.options.timing)
    done.times.kernels[HM_FAMILY_COPY] += secondsSince(start);
}

void HostQueue::launch(unsigned index, const Range *operands, size_t count,
                       int64_t extent, int64_t grain, const char *label) {
  CurrentCommand command;
  if (currentCommand)
    command = *currentCommand;
  command.label = label;
  CommandScope scope(&command);
  const KernelTable &table = driver.options.kernels;
  if (index >= table.kernelCount || count > maximalOperands)
    throw Error(ExitCode::Internal,
                "launch of kernel " + std::to_string(index) + " of " +
                    std::to_string(table.kernelCount) + " with " +
                    std::to_string(count) + " operands");
  const HmKernel &kernel = table.kernels[index];
  bool shieldHost = driver.options.paranoid && kind != HM_QUEUE_HOST;
  void *buffers[maximalOperands];
  HostAccess accesses[maximalOperands];
  size_t accessCount = 0;
  for (size_t i = 0; i < count; ++i) {
    if (shieldHost && (operands[i].space == HM_SPACE_HOST ||
                       operands[i].space == HM_SPACE_BATCH))
      throw Error(ExitCode::Internal, "a device's kernel has " +
                                          describe(operands[i]) +
                                          " as operand " + std::to_string(i));
    buffers[i] = touch(operands[i]);
    if (operands[i].space == HM_SPACE_HOST)
      accesses[accessCount++] = {operands[i].offset, operands[i].bytes,
                                 (operands[i].access & 1) != 0,
                                 (operands[i].access & 2) != 0};
  }
  RangeTask run = runGenerated;
  const void *context = nullptr;
  switch (kernel.kind) {
  case HM_KERNEL_GEMM:
    run = runProduct;
    context = &table.gemms[kernel.index];
    break;
  case HM_KERNEL_CONVOLUTION:
    run = runConvolution;
    context = &driver.convolutions[kernel.index];
    break;
  default:
    context = &table.functions[kernel.index];
    break;
  }
  auto start = driver.options.timing ? std::chrono::steady_clock::now()
                                     : std::chrono::steady_clock::time_point();
  HostStorePresence presence(driver.options.hostStore, accesses, accessCount,
                             true);
  if (shieldHost)
    driver.protectHost(PROT_NONE);
  try {
    pool.run(run, context, buffers, extent, grain);
  } catch (...) {
    if (shieldHost)
      driver.protectHost(PROT_READ | PROT_WRITE);
    throw;
  }
  if (shieldHost)
    driver.protectHost(PROT_READ | PROT_WRITE);
  if (driver.options.timing)
    done.times.kernels[kernel.family] += secondsSince(start);
}

void HostQueue::release(const Range &range) {
  char *address = driver.addressOf(range);
  if (!driver.options.poison)
    return;
  if (range.space == HM_SPACE_HOST && driver.options.hostStore)
    setHostBytes(range, poisonByte);
  else
    std::memset(address, poisonByte, range.bytes);
}

void HostQueue::wait(const Queue &other, int64_t value) {
  auto &queue = static_cast<const HostQueue &>(other);
  auto start = driver.options.timing ? std::chrono::steady_clock::now()
                                     : std::chrono::steady_clock::time_point();
  auto isOver = [&] {
    return queue.timeline() >= value ||
           driver.aborted.load(std::memory_order_acquire);
  };
  queue.signals[queue.signalOf(value)].await(
      isOver, kind == HM_QUEUE_COMPUTE ? driver.spinOfCompute : spinTime);
  if (driver.options.timing)
    done.times.waits += secondsSince(start);
  if (queue.timeline() < value)
    throw Aborted();
}

} // namespace

std::chrono::nanoseconds computeSpin(const DriverOptions &options) {
  size_t computing =
      std::max<size_t>(std::max(1u, options.threads), options.devices.size());
  // One is left to the threads that copy.
  return options.processors > computing ? patientSpin : spinTime;
}

std::unique_ptr<Driver> createHostDriver(const DriverOptions &options) {
  return std::make_unique<HostDriver>(options);
}

} // namespace harmony::runtime
