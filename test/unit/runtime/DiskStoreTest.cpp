//===- DiskStoreTest.cpp - The host store on disk -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/DiskStore.h"
#include "runtime/drivers/host/MemoryStore.h"
#include "runtime/engine/HostAccesses.h"
#include "runtime/hal/Error.h"
#include "runtime/hal/SplitMix.h"
#include "test/unit/runtime/LinearModel.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace harmony::runtime {
namespace {

using test::TemporaryFolder;

constexpr int64_t block = 4096;

HostAccess access(int64_t offset, int64_t bytes, bool reads, bool writes,
                  bool whole = false, bool joins = false) {
  return {offset, bytes, reads, writes, whole, joins};
}
HostAccess readOf(int64_t offset, int64_t bytes) {
  return access(offset, bytes, true, false);
}
HostAccess writeOf(int64_t offset, int64_t bytes) {
  return access(offset, bytes, false, true);
}

class DiskStoreTest : public testing::Test {
protected:
  DiskStoreOptions make(int64_t bytes, int64_t memory,
                        std::vector<HostAccess> step = {}) {
    DiskStoreOptions options;
    options.path = folder / "";
    options.bytes = bytes;
    options.memory = memory;
    options.accesses[HM_PROGRAM_STEP] = std::move(step);
    options.guard = true;
    return options;
  }

  /// Executes what the store expects, piece by piece.
  template <typename Function>
  static void execute(DiskStore &store, const std::vector<HostAccess> &step,
                      Function function) {
    store.begin(HM_PROGRAM_STEP);
    for (const HostAccess &a : step)
      store.visit(
          a, [&](char *address, int64_t bytes) { function(a, address, bytes); },
          true);
  }

  static std::string message(const DiskStoreOptions &options, ExitCode code) {
    try {
      DiskStore store(options);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), code);
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder;
};

TEST_F(DiskStoreTest, HoldsWhatWasWrittenInAFractionOfTheMemory) {
  // Ranges that begin and end anywhere, with most of them away at any time.
  constexpr int64_t size = 61 * block + 100;
  DiskStore store(make(size, 5 * block));
  std::vector<char> expected(size);
  SplitMix random(7);
  for (int i = 0; i < 800; ++i) {
    int64_t offset = static_cast<int64_t>(random.below(size));
    int64_t bytes = static_cast<int64_t>(
        1 + random.below(std::min<int64_t>(size - offset, 3 * block)));
    int64_t at = offset;
    if (random.below(2)) {
      store.visit(
          writeOf(offset, bytes),
          [&](char *address, int64_t count) {
            for (int64_t j = 0; j < count; ++j)
              address[j] = expected[at + j] = static_cast<char>(random.next());
            at += count;
          },
          false);
    } else {
      store.visit(
          readOf(offset, bytes),
          [&](const char *address, int64_t count) {
            ASSERT_EQ(std::memcmp(address, &expected[at], count), 0)
                << i << ": " << at;
            at += count;
          },
          false);
    }
  }
  EXPECT_GT(store.evidence().bytesRead, 100 * block);
  EXPECT_GT(store.evidence().bytesWritten, 100 * block);
  EXPECT_TRUE(folder.list().empty()) << "the file has no name";
}

TEST_F(DiskStoreTest, TakesNoMoreMemoryThanItMay) {
  constexpr int64_t size = 256 * block;
  std::vector<HostAccess> step;
  for (int64_t b = 0; b < 256; ++b)
    step.push_back(access(b * block, block, true, true));
  DiskStoreOptions options = make(size, 20 * block, step);
  options.guard = false;
  DiskStore store(options);
  EXPECT_EQ(store.blockSize(), block);
  EXPECT_EQ(store.memoryBytes(), 20 * block);
  unsigned char pages[256];
  int64_t most = 0;
  for (int i = 0; i < 3; ++i)
    execute(store, step, [&](const HostAccess &a, char *address, int64_t) {
      ++*address;
      EXPECT_EQ(*address, i + 1) << a.offset;
      ASSERT_EQ(mincore(store.data(), size, pages), 0);
      int64_t resident = 0;
      for (unsigned char page : pages)
        resident += page & 1;
      most = std::max(most, resident);
    });
  EXPECT_LE(most, 20);
  EXPECT_GE(most, 15) << "memory that it may take is used";
}

TEST_F(DiskStoreTest, ThreadsThatMeetInBlocks) {
  // Eight threads have 3000 bytes each, so that blocks are shared by several,
  // and all but one need them at once; there is memory for one such need.
  constexpr int count = 8;
  constexpr int64_t own = 3000, size = count * own;
  std::vector<HostAccess> step;
  for (int i = 0; i < count; ++i)
    step.push_back(access(i * own, own, true, true, true));
  DiskStoreOptions options = make(size, 0, step);
  options.memory = DiskStore::leastMemory(options);
  EXPECT_EQ(options.memory, 2 * block);
  DiskStore store(options);
  store.begin(HM_PROGRAM_STEP);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        HostStorePresence presence(&store, &step[t], 1, true);
        char *mine = store.data() + t * own;
        for (int64_t j = 0; j < own; ++j)
          wrong += mine[j]++ != static_cast<char>(i);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(DiskStoreTest, ReadsNoMoreThanTheBestReplacement) {
  // A round over 256 blocks with memory for 128: at best 127 of them are still
  // there when they are needed again. Some memory holds what is being read.
  // (The least recently used block leaving, none of them would be.)
  constexpr int64_t count = 256, frames = 128, rounds = 10;
  std::vector<HostAccess> step;
  for (int64_t b = 0; b < count; ++b)
    step.push_back(readOf(b * block, block));
  DiskStore store(make(count * block, frames * block, step));
  for (int64_t b = 0; b < count; ++b)
    store.visit(
        writeOf(b * block, block),
        [&](char *address, int64_t bytes) { std::memset(address, 'x', bytes); },
        false);
  int64_t before = store.evidence().bytesRead;
  for (int64_t i = 0; i < rounds; ++i)
    execute(store, step, [](const HostAccess &, const char *address, int64_t) {
      EXPECT_EQ(*address, 'x');
    });
  int64_t perRound = (store.evidence().bytesRead - before) / rounds / block;
  EXPECT_GE(perRound, count - frames);
  EXPECT_LE(perRound, count - frames / 2);
}

TEST_F(DiskStoreTest, DataThatIsDeadIsNotWritten) {
  // As activations are stashed: each block written, read soon after and written
  // anew in the next round.
  std::vector<HostAccess> step;
  constexpr int64_t count = 64;
  for (int64_t b = 0; b < count; ++b) {
    step.push_back(writeOf(b * block, block));
    if (b >= 4)
      step.push_back(readOf((b - 4) * block, block));
  }
  for (int64_t b = count - 4; b < count; ++b)
    step.push_back(readOf(b * block, block));
  auto run = [&](const DiskStoreOptions &options) {
    DiskStore store(options);
    for (char i = 1; i < 10; ++i)
      execute(store, step,
              [&](const HostAccess &a, char *address, int64_t bytes) {
                if (a.writes)
                  std::memset(address, i, bytes);
                else
                  EXPECT_EQ(address[bytes - 1], i);
              });
    return store.evidence();
  };
  DiskStoreOptions options = make(count * block, 12 * block, step);
  EXPECT_EQ(run(options).bytesWritten, 0);
  EXPECT_EQ(run(options).bytesRead, 0);
  // What is read after the run must not be lost.
  options.kept = {{0, count * block}};
  EXPECT_GT(run(options).bytesWritten, 8 * (count - 12) * block);
}

TEST_F(DiskStoreTest, WhatIsKeptCanBeReadAtAnyTime) {
  // Between executions the next access of everything is a write of all of it,
  // for which memory is made ready ahead.
  constexpr int64_t count = 24;
  std::vector<HostAccess> step;
  for (int64_t b = 0; b < count; ++b)
    step.push_back(writeOf(b * block, block));
  DiskStoreOptions options = make(count * block, 8 * block, step);
  options.kept = {{0, count * block}};
  DiskStore store(options);
  for (char i = 1; i < 6; ++i) {
    execute(store, step, [&](const HostAccess &, char *address, int64_t bytes) {
      std::memset(address, i, bytes);
    });
    store.visit(
        readOf(0, count * block),
        [&](const char *address, int64_t bytes) {
          EXPECT_EQ(address[0], i);
          EXPECT_EQ(address[bytes - 1], i);
        },
        false);
  }
}

TEST_F(DiskStoreTest, MemoryThatIsTooLittle) {
  // Three operands of a launch, two of which share a block.
  std::vector<HostAccess> step = {
      access(0, 10 * block, true, true, true),
      access(100 * block, 64, true, false, true, true),
      access(100 * block + 64, 5 * block, true, false, true, true),
      readOf(0, 200 * block)};
  DiskStoreOptions options = make(200 * block, 0, step);
  int64_t least = DiskStore::leastMemory(options);
  EXPECT_EQ(least, 16 * block);
  options.memory = least - 1;
  std::string text = message(options, ExitCode::NoDevice);
  EXPECT_NE(text.find("--disk-memory is 65535 bytes"), std::string::npos)
      << text;
  EXPECT_NE(text.find("needs 65536"), std::string::npos) << text;
  options.memory = least;
  EXPECT_EQ(message(options, ExitCode::NoDevice), "");
}

TEST_F(DiskStoreTest, BlocksAreLargeWhereMemoryAllows) {
  EXPECT_EQ(DiskStore(make(int64_t(64) << 20, int64_t(256) << 20)).blockSize(),
            int64_t(2) << 20);
  EXPECT_EQ(DiskStore(make(int64_t(64) << 20, int64_t(16) << 20)).blockSize(),
            int64_t(256) << 10);
  DiskStore empty(make(0, 8192));
  EXPECT_EQ(empty.memoryBytes(), 0);
}

TEST_F(DiskStoreTest, FoldersThatDoNotServe) {
  DiskStoreOptions options = make(100, 8192);
  options.path = folder / "none";
  std::string text = message(options, ExitCode::Failure);
  EXPECT_NE(text.find("--disk-path " + options.path +
                      ": no file can be made there: No such file"),
            std::string::npos)
      << text;
  options = make(int64_t(1) << 60, int64_t(1) << 20);
  text = message(options, ExitCode::NoDevice);
  EXPECT_NE(text.find("needs a file of 1152921504606846976 bytes: "),
            std::string::npos)
      << text;
}

TEST_F(DiskStoreTest, TransfersThatFail) {
  // From one device reads end at once, to the other nothing can be written.
  for (const char *device : {"/dev/null", "/dev/full"}) {
    DiskStore store(make(64 * block, 2 * block));
    auto visit = [&](const HostAccess &range) {
      store.visit(
          range,
          [](char *address, int64_t bytes) { std::memset(address, 1, bytes); },
          false);
    };
    visit(writeOf(0, 32 * block));
    int other = open(device, O_RDWR | O_CLOEXEC);
    ASSERT_GE(dup2(other, store.descriptor()), 0);
    close(other);
    // Once a transfer has failed, every command fails that needs one.
    for (int i = 0; i < 2; ++i)
      try {
        visit(readOf(0, block));
        visit(writeOf(32 * block, 32 * block));
        ADD_FAILURE() << device;
      } catch (const Error &error) {
        EXPECT_EQ(error.exitCode(), ExitCode::Failure);
        std::string text = error.what();
        EXPECT_NE(text.find("4096 bytes at "), std::string::npos) << text;
        EXPECT_NE(text.find(device == std::string("/dev/null")
                                ? ": reading"
                                : ": No space left on device"),
                  std::string::npos)
            << text;
      }
  }
}

TEST_F(DiskStoreTest, BytesThatAreAwayAreUnreadable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DiskStore store(make(16 * block, 2 * block));
  auto touch = [&] { *static_cast<volatile char *>(store.data()) = 1; };
  EXPECT_DEATH(touch(), "");
  store.visit(writeOf(0, 1), [&](char *, int64_t) { touch(); }, false);
}

TEST_F(DiskStoreTest, NothingMovesWhileTheStoreIsClosed) {
  std::vector<HostAccess> step;
  for (int64_t b = 0; b < 32; ++b)
    step.push_back(access(b * block, block, true, true));
  DiskStore store(make(32 * block, 8 * block, step));
  for (char i = 1; i < 4; ++i)
    execute(store, step, [&](const HostAccess &, char *address, int64_t) {
      EXPECT_EQ(++*address, i);
      store.setAccessible(false);
      HostStoreEvidence before = store.evidence();
      std::this_thread::yield();
      EXPECT_EQ(store.evidence().bytesRead, before.bytesRead);
      store.setAccessible(true);
    });
}

TEST(MemoryStoreTest, AFileThatTheSystemPages) {
  TemporaryFolder folder;
  MemoryStore store(3 * block + 5, folder / "");
  EXPECT_TRUE(folder.list().empty());
  EXPECT_EQ(store.data()[3 * block + 4], 0);
  store.data()[3 * block + 4] = 1;
  EXPECT_EQ(store.size(), 3 * block + 5);
}

TEST(HostAccessesTest, OfTheLinearModel) {
  test::BlobBuilder builder = test::linearModel();
  auto bytes = builder.finish();
  Blob blob(bytes.data.get(), bytes.size, test::linearKernelCount);
  auto text = [&](HmProgramKind kind) {
    std::string all;
    for (const HostAccess &a : hostAccesses(blob, kind, false))
      all += std::string(a.reads ? "r" : "") + (a.writes ? "w" : "") +
             std::to_string(a.offset) + "+" + std::to_string(a.bytes) + " ";
    return all;
  };
  // The commands that dump are not there.
  EXPECT_EQ(text(HM_PROGRAM_STEP), "w64+4 ");
  EXPECT_EQ(text(HM_PROGRAM_LOAD), "r0+12 ");
  EXPECT_EQ(text(HM_PROGRAM_STORE), "w0+12 ");
  EXPECT_EQ(text(HM_PROGRAM_EVALUATE), "r0+12 w72+4 w128+16 ");
  std::vector<std::pair<int64_t, int64_t>> kept = {
      {0, 12}, {68, 4}, {128, 16}, {64, 4}, {68, 4}, {72, 4}, {68, 4}};
  EXPECT_EQ(keptHostRanges(blob), kept);
}

} // namespace
} // namespace harmony::runtime
