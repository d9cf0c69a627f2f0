//===- Available.cpp - What a process can still get -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Available.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sched.h>
#include <sstream>

namespace harmony::runtime {

namespace {

constexpr int64_t noLimit = std::numeric_limits<int64_t>::max();

/// The number behind `key`; the first of the file if that is empty. Nothing
/// where there is none, as for "max".
std::optional<int64_t> numberIn(const std::string &path,
                                const std::string &key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value;
    if ((key.empty() || (words >> word && word == key)) && words >> value)
      return value;
  }
  return std::nullopt;
}

bool contains(const std::string &list, const std::string &word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// Bytes that the group in a folder leaves.
int64_t memoryLeftIn(const std::string &folder, bool isSecond) {
  std::optional<int64_t> limit =
      numberIn(folder + (isSecond ? "memory.max" : "memory.limit_in_bytes"));
  std::optional<int64_t> usage = numberIn(
      folder + (isSecond ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !usage)
    return noLimit;
  int64_t cache = numberIn(folder + "memory.stat",
                           isSecond ? "inactive_file" : "total_inactive_file")
                      .value_or(0);
  return std::max<int64_t>(0, *limit - *usage + cache);
}

/// Whole processors whose time the group in a folder has.
int64_t processorsOf(const std::string &folder, bool isSecond) {
  int64_t quota = -1, period = 0;
  if (isSecond) {
    std::ifstream(folder + "cpu.max") >> quota >> period; // "max": fails
  } else {
    quota = numberIn(folder + "cpu.cfs_quota_us").value_or(-1);
    period = numberIn(folder + "cpu.cfs_period_us").value_or(0);
  }
  return quota > 0 && period > 0 ? std::max<int64_t>(1, quota / period)
                                 : noLimit;
}

/// Of a group's folder, which ends with a slash, of the second version or not.
using Limit = int64_t (*)(const std::string &, bool);

/// The least of the groups from `path` up to the mount point.
int64_t leastAbove(const std::string &mount, std::string path, bool isSecond,
                   Limit limit) {
  int64_t least = noLimit;
  for (;;) {
    least = std::min(least, limit(mount + path + "/", isSecond));
    if (path.find('/') == std::string::npos)
      return least;
    path.erase(path.rfind('/'));
  }
}

/// As /proc/self/mountinfo has it.
struct Mount {
  std::string root, point, type, options;

  static bool parse(const std::string &line, Mount &mount) {
    std::istringstream words(line);
    std::string skipped, device;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    while (words >> skipped && skipped != "-")
      ;
    return static_cast<bool>(words >> mount.type >> device >> mount.options);
  }

  bool has(const std::string &controller, bool isSecond) const {
    return isSecond ? type == "cgroup2"
                    : type == "cgroup" && contains(options, controller);
  }
};

/// The least of all groups that the process is in.
int64_t leastInGroups(const std::string &root, const std::string &controller,
                      Limit limit) {
  int64_t least = noLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  // hierarchy number, controllers, path
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    bool isSecond = controllers.empty();
    if (!isSecond && !contains(controllers, controller))
      continue;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string text; std::getline(mounts, text);) {
      Mount mount;
      if (!Mount::parse(text, mount) || !mount.has(controller, isSecond))
        continue;
      // A container sees a part of the hierarchy.
      std::string below = path;
      if (mount.root != "/")
        below = path.compare(0, mount.root.size(), mount.root) == 0
                    ? path.substr(mount.root.size())
                    : "";
      if (below == "/")
        below.clear();
      least = std::min(least,
                       leastAbove(root + mount.point, below, isSecond, limit));
    }
  }
  return least;
}

} // namespace

int64_t availableMemory(const std::string &root) {
  std::optional<int64_t> kibibytes =
      numberIn(root + "/proc/meminfo", "MemAvailable:");
  int64_t left = leastInGroups(root, "memory", memoryLeftIn);
  if (kibibytes)
    left = std::min(left, *kibibytes * 1024);
  return left == noLimit ? -1 : left;
}

unsigned availableProcessors(const std::string &root) {
  cpu_set_t set;
  int64_t processors =
      sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
  return static_cast<unsigned>(
      std::clamp<int64_t>(leastInGroups(root, "cpu", processorsOf), 1,
                          std::max<int64_t>(1, processors)));
}

} // namespace harmony::runtime
