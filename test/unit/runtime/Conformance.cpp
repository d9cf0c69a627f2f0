//===- Conformance.cpp - What every driver must do ------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A new driver adds itself to the list at the end and has to pass everything
// here. The kernels are looked up by number: a driver for other processors
// brings its own code for these few.
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/hal/GemmShape.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

namespace harmony::runtime {
namespace {

enum KernelNumber : unsigned {
  AddOne,
  AddIndex,
  Throwing,
  Fault,
  Product,
  BatchedProduct
};

float *floats(void *buffer) { return static_cast<float *>(buffer); }

void addOne(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    floats(b[1])[i] = floats(b[0])[i] + 1;
}
void addIndex(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    floats(b[0])[i] += static_cast<float>(i);
}
void throwing(void *const *, int64_t begin, int64_t) {
  if (begin >= 5)
    throw std::runtime_error("kernel failed");
}
void fault(void *const *, int64_t, int64_t) {
  // Never the address of anything: the first page is not mapped.
  *reinterpret_cast<volatile int *>(8) = 1;
}

const HmRangeFunction functions[] = {addOne, addIndex, throwing, fault};

// 50 x 70 x 33 in blocks of 16 x 32, so that both last blocks are smaller.
constexpr HmGemm product{50,        70,        33,        40,        71, 72,
                         {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 16, 32,
                         0,         0,         0,         {}};
// Six products of 8 x 9 x 10, A transposed, B transposed and shared,
// accumulating.
constexpr HmGemm batched{
    8, 9, 10, 8, 10, 9, {2, 3, 1}, {240, 80, 0}, {0, 90, 0}, {216, 72, 0},
    4, 4, 1,  1, 1,  {}};
const HmGemm gemms[] = {product, batched};
const HmKernel kernels[] = {
    {0, HM_KERNEL_GENERATED, AddOne, HM_FAMILY_POINTWISE},
    {0, HM_KERNEL_GENERATED, AddIndex, HM_FAMILY_UPDATE},
    {0, HM_KERNEL_GENERATED, Throwing, HM_FAMILY_ROW},
    {0, HM_KERNEL_GENERATED, Fault, HM_FAMILY_ROW},
    {0, HM_KERNEL_GEMM, 0, HM_FAMILY_GEMM},
    {0, HM_KERNEL_GEMM, 1, HM_FAMILY_GEMM}};

struct Factory {
  const char *name;
  std::unique_ptr<Driver> (*create)(const DriverOptions &);
};

class Conformance : public testing::TestWithParam<Factory> {
protected:
  static constexpr int64_t capacity = 1 << 20;

  void SetUp() override {
    options.devices = {{capacity, capacity, 0}, {capacity, capacity, 0}};
    options.kernels = {kernels,   std::size(kernels),
                       functions, std::size(functions),
                       gemms,     std::size(gemms)};
    options.isa = HM_ISA_AVX2;
    options.threads = 4;
    host.resize(1 << 18);
  }

  void start() {
    driver = GetParam().create(options);
    driver->setHostMemory(HM_SPACE_HOST, host.data(), hostBytes());
  }

  std::unique_ptr<Queue> queue(HmQueueKind kind = HM_QUEUE_COMPUTE,
                               unsigned device = 0) {
    std::unique_ptr<Queue> q = driver->createQueue(kind, device);
    q->attachThread();
    return q;
  }

  int64_t hostBytes() const {
    return static_cast<int64_t>(host.size() * sizeof(float));
  }

  static Range device(int64_t offset, int64_t bytes, unsigned number = 0) {
    return {HM_SPACE_DEVICE, number, offset, bytes};
  }
  static Range store(int64_t offset, int64_t bytes) {
    return {HM_SPACE_HOST, 0, offset, bytes};
  }

  /// Copies floats of the host store to the device and back is how tests see
  /// memory.
  void toDevice(Queue &q, int64_t offset, const std::vector<float> &values) {
    std::copy(values.begin(), values.end(), host.begin());
    int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
    q.copy(device(offset, bytes), store(0, bytes), HM_TRAFFIC_SWAP_IN);
    q.finish();
  }
  std::vector<float> fromDevice(Queue &q, int64_t offset, size_t count,
                                unsigned number = 0) {
    int64_t bytes = static_cast<int64_t>(count * sizeof(float));
    q.copy(store(0, bytes), device(offset, bytes, number), HM_TRAFFIC_SWAP_OUT);
    q.finish();
    return {host.begin(), host.begin() + static_cast<int64_t>(count)};
  }

  DriverOptions options;
  std::vector<float> host;
  std::unique_ptr<Driver> driver;
};

std::vector<float> ramp(size_t count, float scale = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] =
        scale * static_cast<float>(static_cast<int64_t>(i * 37 % 101) - 50);
  return values;
}

TEST_P(Conformance, CopiesBothWaysAndBetweenDevices) {
  start();
  auto q = queue(HM_QUEUE_IN), other = queue(HM_QUEUE_PEER, 1);
  std::vector<float> values = ramp(1000);
  toDevice(*q, 64, values);
  other->copy(device(128, 4000, 1), device(64, 4000, 0), HM_TRAFFIC_PEER);
  other->finish();
  EXPECT_EQ(fromDevice(*other, 128, 1000, 1), values);
}

TEST_P(Conformance, OneToEightDevicesPassValuesAround) {
  for (unsigned devices = 1; devices <= 8; ++devices) {
    options.devices.assign(devices, {capacity, capacity, 0});
    options.threads = 3;
    options.poison = true;
    start();
    // Device d adds d, the one after takes it over at another address; two
    // rounds, every device with queues and a thread of its own.
    std::vector<std::unique_ptr<Queue>> compute, peer;
    for (unsigned d = 0; d < devices; ++d) {
      compute.push_back(driver->createQueue(HM_QUEUE_COMPUTE, d));
      peer.push_back(driver->createQueue(HM_QUEUE_PEER, d));
    }
    auto first = queue(HM_QUEUE_IN, 0);
    std::vector<float> values = ramp(100);
    toDevice(*first, 0, values);
    first->signal();
    auto at = [](unsigned d) { return 512 * static_cast<int64_t>(d); };
    std::vector<std::thread> threads;
    for (unsigned d = 0; d < devices; ++d)
      threads.emplace_back([&, d] {
        compute[d]->attachThread();
        peer[d]->attachThread();
        for (int64_t round = 0; round < 2; ++round) {
          if (d == 0 && round == 0)
            compute[d]->wait(*first, 1);
          else
            compute[d]->wait(*peer[(d + devices - 1) % devices],
                             d == 0 ? round : round + 1);
          Range here[] = {device(at(d), 400, d), device(at(d), 400, d)};
          for (unsigned i = 0; i < d; ++i)
            compute[d]->launch(AddOne, here, 2, 100, 1, "add one");
          compute[d]->signal();
          peer[d]->wait(*compute[d], round + 1);
          unsigned next = (d + 1) % devices;
          if (next != d)
            peer[d]->copy(device(at(next), 400, next), here[0],
                          HM_TRAFFIC_PEER);
          peer[d]->signal();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    float added = static_cast<float>(devices * (devices - 1));
    for (float &value : values)
      value += added;
    auto back = queue(HM_QUEUE_OUT, 0);
    EXPECT_EQ(fromDevice(*back, 0, 100), values) << devices;
    EXPECT_EQ(driver->traffic()[HM_TRAFFIC_PEER],
              devices == 1 ? 0 : 2 * 400 * static_cast<int64_t>(devices));
    for (unsigned d = 0; d < devices; ++d)
      EXPECT_EQ(driver->peak(d), at(d) + 400);
    // Poison stays within its device.
    back->release(device(0, 400, devices - 1));
    float found = fromDevice(*back, 0, 1, devices - 1)[0];
    EXPECT_TRUE(std::isnan(found));
    if (devices > 1)
      EXPECT_EQ(fromDevice(*back, 0, 100), values);
  }
}

TEST_P(Conformance, FewerThreadsThanDevicesAreShared) {
  for (unsigned threads : {1u, 2u, 3u, 5u, 8u}) {
    options.devices.assign(4, {capacity, capacity, 0});
    options.threads = threads;
    start();
    size_t workers = 0;
    std::vector<std::vector<int64_t>> pools = driver->workerChunks();
    for (size_t i = 0; i + 1 < pools.size(); ++i)
      workers += pools[i].size();
    EXPECT_EQ(workers, threads);
    EXPECT_EQ(pools.size(), std::min(threads, 4u) + 1);
    EXPECT_TRUE(pools.back().empty()); // nobody works for the host
  }
}

TEST_P(Conformance, CountsTrafficByClassAndPeakFromCommands) {
  start();
  auto q = queue(), second = queue(HM_QUEUE_OUT);
  toDevice(*q, 256, ramp(16));
  second->copy(store(0, 32), device(0, 32), HM_TRAFFIC_OUTPUT);
  second->fill(device(1000, 24), 0);
  second->release(device(5000, 1000));
  second->finish();
  Traffic traffic = driver->traffic();
  EXPECT_EQ(traffic[HM_TRAFFIC_SWAP_IN], 64);
  EXPECT_EQ(traffic[HM_TRAFFIC_OUTPUT], 32);
  EXPECT_EQ(traffic[HM_TRAFFIC_PEER], 0);
  EXPECT_EQ(driver->peak(0), 1024); // a release touches nothing
  EXPECT_EQ(driver->peak(1), 0);
  second.reset(); // what a queue did outlives it
  EXPECT_EQ(driver->peak(0), 1024);
  EXPECT_EQ(driver->traffic()[HM_TRAFFIC_OUTPUT], 32);
  driver->resetEvidence();
  EXPECT_EQ(driver->peak(0), 0);
  EXPECT_EQ(driver->traffic()[HM_TRAFFIC_SWAP_IN], 0);
}

TEST_P(Conformance, DumpedGradientsAreNoTraffic) {
  start();
  std::vector<float> dump(8);
  driver->setHostMemory(HM_SPACE_DUMP, dump.data(), 32);
  auto q = queue();
  q->fill(device(0, 32), 0);
  q->copy({HM_SPACE_DUMP, 0, 0, 32}, device(0, 32), HM_TRAFFIC_SWAP_OUT);
  q->finish();
  EXPECT_EQ(driver->traffic()[HM_TRAFFIC_SWAP_OUT], 0);
}

TEST_P(Conformance, FillsBytes) {
  start();
  auto q = queue();
  toDevice(*q, 0, ramp(4));
  q->fill(device(4, 8), 0);
  EXPECT_EQ(fromDevice(*q, 0, 4), (std::vector<float>{-50, 0, 0, -40}));
}

TEST_P(Conformance, LaunchesCoverTheRangeOnceWhateverThePieces) {
  for (int64_t chunk : {0, 1, 3, 7, 1000}) {
    options.chunk = chunk;
    start();
    auto q = queue();
    for (int64_t extent : {1, 2, 99, 1000}) {
      std::vector<float> values = ramp(1000);
      toDevice(*q, 0, values);
      Range in = device(0, 4000), out = device(4096, 4000);
      Range operands[] = {in, out};
      q->fill(out, 0);
      q->launch(AddOne, operands, 2, extent, 4, "add one");
      q->launch(AddIndex, &out, 1, extent, 1, "add index");
      std::vector<float> result = fromDevice(*q, 4096, 1000);
      for (int64_t i = 0; i < 1000; ++i)
        ASSERT_EQ(result[i],
                  i < extent ? values[i] + 1 + static_cast<float>(i) : 0);
    }
  }
}

TEST_P(Conformance, TinyChunksReachEveryWorker) {
  options.chunk = 1;
  options.threads = 6;
  start();
  auto q = queue();
  Range out = device(0, 4000);
  q->fill(out, 0);
  q->launch(AddIndex, &out, 1, 100, 1, "add index");
  q->finish();
  std::vector<std::vector<int64_t>> chunks = driver->workerChunks();
  ASSERT_EQ(chunks[0].size(), 3u); // six threads over two devices
  int64_t sum = 0;
  for (int64_t count : chunks[0]) {
    EXPECT_GT(count, 0);
    sum += count;
  }
  EXPECT_EQ(sum, 100);
}

TEST_P(Conformance, HostQueuesWorkOnTheHostStore) {
  start();
  auto q = queue(HM_QUEUE_HOST, HM_NONE);
  std::fill_n(host.begin(), 10, 1.0f);
  Range operands[] = {store(0, 40), store(400, 40)};
  q->launch(AddOne, operands, 2, 10, 1, "update");
  q->finish();
  EXPECT_EQ(host[100], 2);
  EXPECT_EQ(host[109], 2);
}

/// The reference in double; B of the batched product does not move along axis
/// 0.
std::vector<float> reference(const HmGemm &g, const std::vector<float> &a,
                             const std::vector<float> &b,
                             std::vector<float> c) {
  for (int64_t b0 = 0; b0 < g.batch[0]; ++b0)
    for (int64_t b1 = 0; b1 < g.batch[1]; ++b1)
      for (int64_t i = 0; i < g.m; ++i)
        for (int64_t j = 0; j < g.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < g.k; ++k)
            sum += static_cast<double>(
                       a[b0 * g.strideA[0] + b1 * g.strideA[1] +
                         (g.transA ? k * g.lda + i : i * g.lda + k)]) *
                   b[b0 * g.strideB[0] + b1 * g.strideB[1] +
                     (g.transB ? j * g.ldb + k : k * g.ldb + j)];
          float &out = c[b0 * g.strideC[0] + b1 * g.strideC[1] + i * g.ldc + j];
          out = static_cast<float>(sum) + (g.accumulate ? out : 0);
        }
  return c;
}

TEST_P(Conformance, ProductsAreExactOnSmallIntegersAndIgnoreWhatTheyOverwrite) {
  for (int64_t chunk : {0, 1}) {
    options.chunk = chunk;
    options.poison = true;
    start();
    auto q = queue();
    for (unsigned kernel : {Product, BatchedProduct}) {
      const HmGemm &g = gemms[kernel == Product ? 0 : 1];
      GemmSpans spans = gemmSpans(g);
      std::vector<float> a = ramp(spans.a), b = ramp(spans.b, 2),
                         c = ramp(spans.c, 3);
      Range operands[] = {device(0, spans.a * 4), device(65536, spans.b * 4),
                          device(131072, spans.c * 4)};
      toDevice(*q, 0, a);
      toDevice(*q, 65536, b);
      if (g.accumulate)
        toDevice(*q, 131072, c); // otherwise C holds NaN
      q->launch(kernel, operands, 3, gemmBlocks(g), 1, "product");
      std::vector<float> found = fromDevice(*q, 131072, spans.c);
      std::vector<float> expected = reference(g, a, b, c);
      for (int64_t i = 0; i < g.batch[0] * g.batch[1]; ++i)
        for (int64_t row = 0; row < g.m; ++row)
          for (int64_t column = 0; column < g.n; ++column) {
            int64_t at = i / g.batch[1] * g.strideC[0] +
                         i % g.batch[1] * g.strideC[1] + row * g.ldc + column;
            ASSERT_EQ(found[at], expected[at])
                << kernel << " at " << row << ", " << column;
          }
    }
  }
}

TEST_P(Conformance, WaitsOrderQueuesOfDifferentThreads) {
  start();
  auto producer = queue(HM_QUEUE_IN), consumer = queue();
  constexpr int rounds = 200;
  // A channel of one slot: the consumer frees it, the producer fills it.
  std::thread filling([&] {
    for (int i = 0; i < rounds; ++i) {
      producer->wait(*consumer, i);
      producer->fill(device(0, 4), static_cast<uint8_t>(i));
      producer->signal();
    }
    producer->finish();
  });
  for (int i = 0; i < rounds; ++i) {
    consumer->wait(*producer, i + 1);
    consumer->copy(store(4 * i, 4), device(0, 4), HM_TRAFFIC_SWAP_OUT);
    consumer->signal();
  }
  consumer->finish();
  filling.join();
  EXPECT_EQ(producer->timeline(), rounds);
  auto *bytes = reinterpret_cast<unsigned char *>(host.data());
  for (int i = 0; i < rounds; ++i)
    ASSERT_EQ(bytes[4 * i], static_cast<unsigned char>(i));
}

TEST_P(Conformance, ManyWaitersOfOneTimelineEachGoOnAtTheirValue) {
  // With processors to spare, and without.
  for (unsigned processors : {1u, 64u}) {
    options.processors = processors;
    start();
    auto producer = queue(HM_QUEUE_IN);
    constexpr int64_t values = 50, waiters = 6;
    std::vector<std::unique_ptr<Queue>> waiting;
    for (int64_t w = 0; w < waiters; ++w)
      waiting.push_back(queue(w % 2 ? HM_QUEUE_COMPUTE : HM_QUEUE_OUT));
    std::vector<std::thread> threads;
    for (int64_t w = 0; w < waiters; ++w)
      threads.emplace_back([&, w] {
        // Some wait for each value, some for few of them.
        for (int64_t value = 1; value <= values; value += w + 1) {
          waiting[w]->wait(*producer, value);
          EXPECT_GE(producer->timeline(), value);
        }
      });
    for (int64_t value = 1; value <= values; ++value) {
      // Long enough for waiters to sleep, at times.
      if (value % 5 == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      producer->signal();
    }
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(producer->timeline(), values);
  }
}

TEST_P(Conformance, AbortEndsWaits) {
  start();
  auto q = queue(), other = queue(HM_QUEUE_IN);
  std::thread waiting([&] { EXPECT_THROW(q->wait(*other, 1), Aborted); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  driver->abort();
  waiting.join();
  EXPECT_THROW(other->wait(*q, 1), Aborted);
}

TEST_P(Conformance, UnwrittenAndReleasedBytesAreNotANumber) {
  options.poison = true;
  start();
  auto q = queue();
  EXPECT_TRUE(std::isnan(fromDevice(*q, capacity - 4, 1)[0]));
  toDevice(*q, 0, {1, 2, 3});
  q->release(device(4, 4));
  std::vector<float> found = fromDevice(*q, 0, 3);
  EXPECT_EQ(found[0], 1);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], 3);
}

TEST_P(Conformance, ReleaseChangesNothingUnlessAskedTo) {
  start();
  auto q = queue();
  toDevice(*q, 0, {1, 2, 3});
  q->release(device(0, 12));
  EXPECT_EQ(fromDevice(*q, 0, 3), (std::vector<float>{1, 2, 3}));
}

TEST_P(Conformance, RangesOutsideOfTheirSpaceAreRefused) {
  start();
  auto q = queue();
  Range bad[] = {device(capacity - 4, 8), device(-4, 8),
                 device(capacity + 4, 0), device(0, capacity + 1),
                 device(0, 4, 2),         {HM_SPACE_BATCH, 0, 0, 4},
                 device(INT64_MAX, 8)};
  for (const Range &range : bad)
    EXPECT_THROW(
        {
          q->fill(range, 1);
          q->finish();
        },
        Error)
        << describe(range);
  try {
    q->fill(device(capacity - 4, 8), 0);
    q->finish();
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "device 0 bytes [1048572, +8) out of range: the "
                               "space has 1048576 bytes");
  }
  EXPECT_THROW(
      {
        q->copy(device(0, 8), store(0, 4), HM_TRAFFIC_SWAP_IN);
        q->finish();
      },
      Error);
  EXPECT_EQ(driver->peak(0), 0);
}

TEST_P(Conformance, ExceptionsOfKernelsReachTheCaller) {
  options.chunk = 1;
  start();
  auto q = queue();
  Range out = device(0, 400);
  for (int round = 0; round < 3; ++round)
    EXPECT_THROW(
        {
          q->launch(Throwing, &out, 1, 50, 1, "throwing");
          q->finish();
        },
        std::runtime_error);
  q->fill(out, 0);
  q->launch(AddIndex, &out, 1, 100, 1, "add index"); // the workers are alive
  EXPECT_EQ(fromDevice(*q, 0, 100)[99], 99);
}

#ifndef HARMONY_SANITIZED
TEST_P(Conformance, FaultsOfKernelsEndTheProcessAndNameTheCommand) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        options.chunk = 1;
        start();
        auto q = queue();
        Range out = device(0, 400);
        q->launch(Fault, &out, 1, 50, 1, "layer 3: softmax");
        q->finish();
      },
      testing::ExitedWithCode(static_cast<int>(ExitCode::Internal)),
      "invalid memory access at 0x0000000000000008 in 'layer 3: softmax'");
}
#endif

TEST_P(Conformance, ParanoidKernelsCannotNameTheHostStore) {
  options.paranoid = true;
  start();
  auto q = queue(), onHost = queue(HM_QUEUE_HOST, HM_NONE);
  Range operands[] = {store(0, 40), device(0, 40)};
  EXPECT_THROW(
      {
        q->launch(AddOne, operands, 2, 10, 1, "reads the host");
        q->finish();
      },
      Error);
  Range own[] = {store(0, 40), store(40, 40)};
  onHost->launch(AddOne, own, 2, 10, 1, "update");
  onHost->finish();
}

TEST_P(Conformance, TimesAreKeptByFamily) {
  options.timing = true;
  start();
  auto q = queue();
  Range out = device(0, 400000);
  q->fill(out, 0);
  q->launch(AddIndex, &out, 1, 100000, 1, "update");
  q->copy(store(0, 400000), out, HM_TRAFFIC_SWAP_OUT);
  q->finish();
  Times times = driver->times();
  EXPECT_GT(times.kernels[HM_FAMILY_UPDATE], 0);
  EXPECT_EQ(times.kernels[HM_FAMILY_GEMM], 0);
  EXPECT_GT(times.copies, 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance,
                         testing::Values(Factory{"host", createHostDriver}),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
} // namespace harmony::runtime
