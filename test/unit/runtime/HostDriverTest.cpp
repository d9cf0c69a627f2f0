//===- HostDriverTest.cpp - What is the host driver's own -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/drivers/host/WorkerPool.h"
#include "runtime/hal/Futex.h"
#include "runtime/hal/GemmShape.h"
#include "runtime/train/Shuffle.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <thread>

namespace harmony::runtime {
namespace {

// Blocks of the size that compilers choose, with edges, and a batched
// transposed one.
const HmGemm gemms[] = {{200,
                         300,
                         500,
                         500,
                         300,
                         300,
                         {1, 1, 1},
                         {},
                         {},
                         {},
                         128,
                         256,
                         0,
                         0,
                         0,
                         {}},
                        {64,
                         96,
                         48,
                         64,
                         48,
                         96,
                         {5, 1, 1},
                         {3072, 0, 0},
                         {4608, 0, 0},
                         {6144, 0, 0},
                         64,
                         96,
                         1,
                         1,
                         1,
                         {}}};
const HmKernel kernels[] = {{0, HM_KERNEL_GEMM, 0, HM_FAMILY_GEMM},
                            {0, HM_KERNEL_GEMM, 1, HM_FAMILY_GEMM}};

class Products {
public:
  explicit Products(unsigned threads, int64_t chunk = 0,
                    int64_t libraryBytes = 0) {
    DriverOptions options;
    options.devices = {{8 << 20, 0, libraryBytes}};
    options.kernels = {kernels, 2, nullptr, 0, gemms, 2};
    options.threads = threads;
    options.chunk = chunk;
    driver = createHostDriver(options);
    driver->setHostMemory(HM_SPACE_HOST, host.data(), host.size());
    queue = driver->createQueue(HM_QUEUE_COMPUTE, 0);
    queue->attachThread();
    SplitMix random(1);
    auto *values = reinterpret_cast<float *>(host.data());
    for (int64_t i = 0; i < host.size() / 4; ++i)
      values[i] = static_cast<float>(random.symmetric());
    queue->copy(arena(0, 6 << 20), store(6 << 20), HM_TRAFFIC_SWAP_IN);
  }

  void multiply() {
    for (unsigned k = 0; k < 2; ++k) {
      GemmSpans spans = gemmSpans(gemms[k]);
      Range operands[] = {arena(0, spans.a * 4), arena(1 << 20, spans.b * 4),
                          arena((4 + k) << 20, spans.c * 4)};
      queue->launch(k, operands, 3, gemmBlocks(gemms[k]), 1, "product");
    }
  }

  std::vector<char> result() {
    queue->copy(store(2 << 20), arena(4 << 20, 2 << 20), HM_TRAFFIC_SWAP_OUT);
    return {host.data(), host.data() + (2 << 20)};
  }

  std::unique_ptr<Driver> driver;

private:
  static Range arena(int64_t offset, int64_t bytes) {
    return {HM_SPACE_DEVICE, 0, offset, bytes};
  }
  static Range store(int64_t bytes) { return {HM_SPACE_HOST, 0, 0, bytes}; }

  Mapping host{6 << 20, "host"};
  std::unique_ptr<Queue> queue;
};

TEST(HostProducts, BitsDoNotDependOnThreadsOrChunks) {
  Products plain(1);
  plain.multiply();
  plain.multiply();
  std::vector<char> expected = plain.result();
  for (unsigned threads : {2, 3, 7})
    for (int64_t chunk : {0, 1, 2}) {
      Products other(threads, chunk);
      other.multiply();
      other.multiply();
      EXPECT_EQ(other.result(), expected)
          << threads << " threads, chunk " << chunk;
    }
}

TEST(HostProducts, ScratchComesFromTheWorkers) {
  if (!haveAllocationHooks())
    GTEST_SKIP() << "this build has no allocation hooks";
  Products products(3, 1);
  int64_t before = allocationCount();
  setAllocationCounting(true);
  for (int i = 0; i < 50; ++i)
    products.multiply();
  setAllocationCounting(false);
  EXPECT_EQ(allocationCount() - before, 0);
  EXPECT_GT(products.driver->libraryPeak(), 0);
  EXPECT_THROW(Products(1, 0, 1), Error); // less than the library takes
  Products exact(1, 0, products.driver->libraryPeak());
}

TEST(HostProducts, RunOnOurThreadsAlone) {
  auto threadCount = [] {
    std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  auto before = threadCount();
  Products products(3, 1);
  products.multiply();
  EXPECT_EQ(threadCount(), before + 2);
}

TEST(HostProducts, TheRuntimeAloneMeasuresScratch) {
  if (!haveAllocationHooks())
    GTEST_SKIP() << "this build has no allocation hooks";
  test::TemporaryFolder folder;
  test::writeFile(
      folder / "gemms",
      std::string(reinterpret_cast<const char *>(gemms), sizeof(gemms)));
  auto ask = [&](const std::string &isa) {
    std::string command = HARMONY_RUNTIME " --library-scratch " + isa + " < " +
                          (folder / "gemms") + " > " + (folder / "bytes") +
                          " 2>&1";
    return std::system(command.c_str());
  };
  ASSERT_EQ(ask("avx2"), 0);
  std::istringstream bytes(test::readFile(folder / "bytes"));
  int64_t first = 0, second = 0;
  bytes >> first >> second;
  Products products(1);
  products.multiply();
  EXPECT_GT(first, 0);
  EXPECT_TRUE(bytes);
  EXPECT_GE(products.driver->libraryPeak(), std::max(first, second));
  EXPECT_NE(ask("sse2"), 0);
}

float *hostValues;

TEST(Paranoid, KernelsOfDevicesCannotReadTheHostStore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Mapping host(4096, "host");
  hostValues = reinterpret_cast<float *>(host.data());
  const HmRangeFunction functions[] = {[](void *const *b, int64_t, int64_t) {
    *static_cast<volatile float *>(b[0]) =
        *static_cast<volatile float *>(hostValues);
  }};
  const HmKernel kernel = {0, HM_KERNEL_GENERATED, 0, HM_FAMILY_COPY};
  DriverOptions options;
  options.devices = {{64, 0, 0}};
  options.kernels = {&kernel, 1, functions, 1, nullptr, 0};
  Range operand = {HM_SPACE_DEVICE, 0, 0, 4};
  auto launch = [&](HmQueueKind kind) {
    std::unique_ptr<Driver> driver = createHostDriver(options);
    driver->setHostMemory(HM_SPACE_HOST, host.data(), host.size());
    driver->createQueue(kind, 0)->launch(0, &operand, 1, 1, 1, "peeping");
  };
  launch(HM_QUEUE_COMPUTE);
  options.paranoid = true;
  launch(HM_QUEUE_HOST);
  EXPECT_DEATH(launch(HM_QUEUE_COMPUTE), "");
}

TEST(LibraryScratch, ReallocatesAndFreesWithinACall) {
  if (!haveAllocationHooks())
    GTEST_SKIP() << "this build has no allocation hooks";
  std::thread([] {
    reserveLibraryScratch(1000); // rounded up to a page
    void *outside = malloc(10);
    {
      LibraryCall call;
      auto *volatile p = static_cast<char *>(malloc(100));
      EXPECT_TRUE(isLibraryScratch(p));
      std::memset(p, 3, 100);
      p = static_cast<char *>(realloc(p, 300));
      EXPECT_TRUE(isLibraryScratch(p));
      EXPECT_EQ(p[99], 3);
      auto *volatile zeros = static_cast<char *>(calloc(10, 10));
      EXPECT_EQ(zeros[50], 0);
      void *volatile aligned = aligned_alloc(512, 512);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 512, 0u);
      void *volatile large =
          malloc(100000); // what does not fit comes from elsewhere
      EXPECT_FALSE(isLibraryScratch(large));
      free(large);
      free(aligned);
      free(zeros);
      free(p);
      free(outside);
    }
    EXPECT_GT(libraryScratchPeak(), 100000);
    void *volatile later = malloc(10);
    EXPECT_FALSE(isLibraryScratch(later));
    free(later);
  }).join();
}

TEST(WorkerPool, ManySmallLaunches) {
  WorkerPool pool(4, 0);
  std::vector<int> counts(64);
  void *buffers[] = {counts.data()};
  for (int round = 0; round < 20000; ++round)
    pool.run(
        [](const void *, void *const *b, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            ++static_cast<int *>(b[0])[i];
        },
        nullptr, buffers, 1 + round % 64, 1);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(counts[i], 20000 / 64 * (64 - i) + std::max(0, 20000 % 64 - i));
}

TEST(Mapping, LiesBetweenUnreadablePages) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Mapping memory(4096, "test");
  memory.data()[0] = memory.data()[4095] = 1;
  EXPECT_DEATH(static_cast<volatile char *>(memory.data())[4096] = 1, "");
  EXPECT_DEATH(static_cast<volatile char *>(memory.data())[-1] = 1, "");
  EXPECT_THROW(Mapping(int64_t(1) << 60, "arena of device 0"), Error);
}

TEST(Signal, IsNotNeededByWhoSpins) {
  Signal signal;
  std::atomic<bool> isAsked{false}, isReady{false}, isOver{false};
  std::thread waiter([&] {
    auto ready = [&] {
      isAsked = true;
      return isReady.load(std::memory_order_acquire);
    };
    signal.await(ready, std::chrono::hours(1));
    isOver = true;
  });
  while (!isAsked)
    std::this_thread::yield();
  // Who spins as briefly as others sleeps by then.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  isReady = true;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!isOver && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(isOver) << "it sleeps";
  signal.notify();
  waiter.join();
}

TEST(ComputeQueues, SpinLongerWhereAProcessorIsSpare) {
  auto spin = [](unsigned devices, unsigned threads, unsigned processors) {
    DriverOptions options;
    options.devices.resize(devices);
    options.threads = threads;
    options.processors = processors;
    return computeSpin(options);
  };
  EXPECT_GT(spin(1, 1, 2), spinTime);
  EXPECT_GT(spin(2, 3, 4), spinTime);
  EXPECT_EQ(spin(1, 1, 1), spinTime);
  EXPECT_EQ(spin(1, 4, 4), spinTime);
  // Every device has a thread that computes, however few were asked for.
  EXPECT_EQ(spin(4, 1, 4), spinTime);
  EXPECT_GT(spin(4, 1, 5), spinTime);
  EXPECT_EQ(spin(1, 0, 1), spinTime);
}

} // namespace
} // namespace harmony::runtime
