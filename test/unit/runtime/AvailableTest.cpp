//===- AvailableTest.cpp - What a process can still get -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Available.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

namespace harmony::runtime {
namespace {

class AvailableTest : public testing::Test {
protected:
  void put(const std::string &path, const std::string &text) {
    std::string full = folder / path;
    std::filesystem::create_directories(
        std::filesystem::path(full).parent_path());
    test::writeFile(full, text);
  }
  int64_t available() { return availableMemory(root()); }
  /// At most that of the machine.
  unsigned processors() { return availableProcessors(root()); }
  std::string root() {
    std::string path = folder / "";
    return path.substr(0, path.size() - 1);
  }

  test::TemporaryFolder folder;
};

TEST_F(AvailableTest, MemoryOfTheSystem) {
  EXPECT_EQ(available(), -1);
  put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(available(), 4000 * 1024);
  EXPECT_GT(availableMemory(), 1 << 20);
}

TEST_F(AvailableTest, MemoryOfTheFirstVersionsGroups) {
  put("proc/meminfo", "MemAvailable: 4000 kB\n");
  put("proc/self/cgroup", "5:cpu:/x\n4:memory,other:/outer/inner\n0::/\n");
  put("proc/self/mountinfo",
      "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "31 25 0:27 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup "
      "rw,memory\n");
  EXPECT_EQ(available(), 4000 * 1024) << "groups that cannot be read";
  const std::string base = "sys/fs/cgroup/memory/";
  put(base + "outer/inner/memory.limit_in_bytes", "9223372036854771712\n");
  put(base + "outer/inner/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(available(), 4000 * 1024) << "no limit";
  put(base + "outer/memory.limit_in_bytes", "100000\n");
  put(base + "outer/memory.usage_in_bytes", "70000\n");
  EXPECT_EQ(available(), 30000) << "of the group above";
  put(base + "outer/memory.stat", "cache 7\ntotal_inactive_file 500\n");
  EXPECT_EQ(available(), 30500);
  put(base + "outer/inner/memory.limit_in_bytes", "900\n");
  EXPECT_EQ(available(), 0) << "more is used than may be";
}

TEST_F(AvailableTest, MemoryOfTheSecondVersionsGroups) {
  put("proc/meminfo", "MemAvailable: 4000 kB\n");
  put("proc/self/cgroup", "0::/box/job\n");
  // The container's mount begins at its own group.
  put("proc/self/mountinfo",
      "31 25 0:27 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/job/memory.max", "max\n");
  put("sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(available(), 4000 * 1024);
  put("sys/fs/cgroup/job/memory.max", "20000\n");
  put("sys/fs/cgroup/job/memory.stat", "inactive_file 100\n");
  EXPECT_EQ(available(), 15100);
  put("sys/fs/cgroup/memory.max", "6000\n");
  put("sys/fs/cgroup/memory.current", "5500\n");
  EXPECT_EQ(available(), 500);
}

TEST_F(AvailableTest, ProcessorsOfGroups) {
  const unsigned all = availableProcessors("/nowhere");
  if (all < 2)
    GTEST_SKIP() << "one processor: no group can leave less";
  put("proc/self/cgroup", "0::/box/job\n");
  put("proc/self/mountinfo", "31 25 0:27 / /groups rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(processors(), all) << "groups that cannot be read";
  put("groups/box/job/cpu.max", "max 100000\n");
  EXPECT_EQ(processors(), all) << "no limit";
  put("groups/box/cpu.max", "190000 100000\n");
  EXPECT_EQ(processors(), 1u) << "whole ones, of the group above";
  put("groups/box/cpu.max", "2000 100000\n");
  EXPECT_EQ(processors(), 1u) << "a part of one";
  put("groups/box/cpu.max", "100000000 100000\n");
  EXPECT_EQ(processors(), all) << "more than there are";

  put("proc/self/cgroup", "4:cpu,cpuacct:/job\n0::/\n");
  put("proc/self/mountinfo",
      "30 25 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  put("cpu/job/cpu.cfs_period_us", "50000\n");
  put("cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(processors(), all) << "no limit, first version";
  put("cpu/job/cpu.cfs_quota_us", "99999\n");
  EXPECT_EQ(processors(), 1u);
}

} // namespace
} // namespace harmony::runtime
