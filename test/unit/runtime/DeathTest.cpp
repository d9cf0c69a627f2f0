//===- DeathTest.cpp - Runs that end badly end at once --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every case runs in a process of its own with an alarm: a hang is a failure.
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/engine/Engine.h"
#include "test/unit/runtime/BlobBuilder.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace harmony::runtime {
namespace {

using namespace test;

thread_local bool isHelper = true; // false: the thread of a queue

void throwing(void *const *, int64_t begin, int64_t) {
  if (begin >= 3)
    throw std::runtime_error("the kernel failed");
}
void exiting(void *const *, int64_t, int64_t) { pthread_exit(nullptr); }
void vanishing(void *const *, int64_t, int64_t) { syscall(SYS_exit, 0); }
void vanishingHelper(void *const *, int64_t, int64_t) {
  if (isHelper)
    syscall(SYS_exit, 0);
  usleep(10000); // leaves pieces to the helpers
}
void aborting(void *const *, int64_t, int64_t) { abort(); }
void dividing(void *const *, int64_t, int64_t) { raise(SIGFPE); }
void overflowing(void *const *b, int64_t begin, int64_t end) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(begin);
  if (begin < INT64_MAX)
    overflowing(b, begin + 1, end);
  frame[1] = frame[0];
}
/// Writes the first byte behind the arena; its operand is the arena's last.
void overrunning(void *const *b, int64_t, int64_t) {
  static_cast<volatile char *>(b[0])[1] = 1;
}
void marking(void *const *, int64_t, int64_t) { isHelper = false; }

const HmRangeFunction functions[] = {throwing,        exiting,     vanishing,
                                     vanishingHelper, aborting,    dividing,
                                     overflowing,     overrunning, marking};
enum Kernel : uint32_t {
  Throwing,
  Exiting,
  Vanishing,
  VanishingHelper,
  Aborting,
  Dividing,
  Overflowing,
  Overrunning,
  Marking
};

constexpr int64_t capacity = 4096;

/// Device 1 runs a kernel that ends badly; device 0 and the host wait for it.
class Deaths : public testing::Test {
protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    options.threads = 4;
    options.chunk = 1;
  }

  void build(Kernel kernel) {
    builder.header.hostBytes = capacity;
    for (int i = 0; i < 2; ++i)
      builder.device(capacity);
    for (uint32_t i = 0; i < std::size(functions); ++i)
      builder.kernel("kernel", i);
    HmRef last = onDevice(1, capacity - 1, 1);
    builder.queue(HM_PROGRAM_STEP, "d0.compute", HM_QUEUE_COMPUTE, 0)
        .wait(1, 4)
        .fill(onDevice(0, 0, 4), 1)
        .signal();
    builder.queue(HM_PROGRAM_STEP, "d1.compute", HM_QUEUE_COMPUTE, 1)
        .launch(Marking, {last}, 1)
        .loop(4)
        .launch(kernel, {last}, 8)
        .label("layer 3: softmax")
        .signal()
        .end();
    builder.queue(HM_PROGRAM_STEP, "host", HM_QUEUE_HOST, HM_NONE)
        .wait(0, 1)
        .fill(in(HM_SPACE_HOST, 0, 4), 1)
        .signal();
    builder.program(HM_PROGRAM_STEP, 1);
  }

  /// Ends the process with what the engine says.
  [[noreturn]] void run(bool singleThread = false, char *host = nullptr) {
    alarm(30);
    bytes = builder.finish();
    Blob blob(bytes.data.get(), bytes.size, std::size(functions));
    for (const HmDevice &d : blob.devices())
      options.devices.push_back({d.capacity, 0, 0});
    options.kernels = kernelTable(blob, functions, std::size(functions));
    auto driver = createHostDriver(options);
    Mapping store(capacity, "host store");
    driver->setHostMemory(HM_SPACE_HOST, host ? host : store.data(), capacity);
    EngineOptions engineOptions;
    engineOptions.singleThread = singleThread;
    Engine engine(blob, *driver, engineOptions);
    try {
      engine.run(HM_PROGRAM_STEP);
    } catch (const Error &error) {
      fprintf(stderr, "error: %s\n", error.what());
      _exit(static_cast<int>(error.exitCode()));
    }
    _exit(0);
  }

  void expect(Kernel kernel, const std::string &what) {
    build(kernel);
    std::string where = "device 1, queue 'd1.compute' command 2 .launch 'layer "
                        "3: softmax'., iteration 0";
    for (bool singleThread : {false, true})
      EXPECT_EXIT(run(singleThread),
                  testing::ExitedWithCode(static_cast<int>(ExitCode::Internal)),
                  what.empty() ? "error: " + where + ": the kernel failed"
                               : "internal error: " + what + " in " + where);
  }

  BlobBuilder builder;
  BlobBuilder::Bytes bytes;
  DriverOptions options;
};

TEST_F(Deaths, AKernelThatThrows) { expect(Throwing, ""); }

TEST_F(Deaths, AThreadThatEnds) { expect(Exiting, "a thread was ended"); }

#ifndef HARMONY_SANITIZED // sanitizers have handlers and stacks of their own
TEST_F(Deaths, ASignalInAWorker) {
  expect(Dividing, "arithmetic fault at 0x[0-9a-f]+");
}

TEST_F(Deaths, AnAbortInAKernel) { expect(Aborting, "abort"); }

TEST_F(Deaths, AnOverflowOfTheStack) {
  expect(Overflowing, "invalid memory access at 0x[0-9a-f]+");
}

TEST_F(Deaths, AWriteBetweenArenas) {
  expect(Overrunning, "invalid memory access at 0x[0-9a-f]+");
}

TEST_F(Deaths, AWorkerThatVanishes) {
  build(VanishingHelper);
  for (int64_t chunk : {0, 1}) {
    options.chunk = chunk;
    EXPECT_EXIT(run(), testing::ExitedWithCode(70),
                "internal error: a worker thread has ended in device 1, queue "
                "'d1.compute' command 2");
  }
}

TEST_F(Deaths, AQueueThatVanishes) {
  options.threads = 1;
  build(Vanishing);
  EXPECT_EXIT(run(), testing::ExitedWithCode(70),
              "internal error: the thread of a queue has ended in "
              "'d1.compute'");
}

TEST_F(Deaths, ACopyThatFails) {
  // The host store is a file that becomes shorter under the run.
  TemporaryFolder folder;
  writeFile(folder / "store", std::string(capacity, 'x'));
  int file = open((folder / "store").c_str(), O_RDWR | O_CLOEXEC);
  auto *store = static_cast<char *>(
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_EQ(ftruncate(file, 0), 0);
  builder.header.hostBytes = capacity;
  builder.device(capacity);
  builder.queue(HM_PROGRAM_STEP, "d0.in", HM_QUEUE_IN, 0)
      .copy(onDevice(0, 0, 64), in(HM_SPACE_HOST, 0, 64))
      .label("fc1.weight")
      .signal();
  builder.queue(HM_PROGRAM_STEP, "d0.compute", HM_QUEUE_COMPUTE, 0)
      .wait(0, 1)
      .fill(onDevice(0, 0, 4), 1);
  builder.program(HM_PROGRAM_STEP, 1);
  EXPECT_EXIT(run(false, store), testing::ExitedWithCode(70),
              "internal error: invalid memory access at 0x[0-9a-f]+ in device "
              "0, queue 'd0.in' command 0 .copy 'fc1.weight'., iteration 0");
  munmap(store, capacity);
  close(file);
}
#endif

} // namespace
} // namespace harmony::runtime
