//===- AvailableMemory.cpp - What a process can still get -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/AvailableMemory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
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

/// What the cgroups from `path` up to the mount point leave.
int64_t leftIn(const std::string &mount, std::string path, bool isSecond) {
  int64_t left = noLimit;
  for (;;) {
    std::string folder = mount + path + "/";
    std::optional<int64_t> limit =
        numberIn(folder + (isSecond ? "memory.max" : "memory.limit_in_bytes"));
    std::optional<int64_t> usage = numberIn(
        folder + (isSecond ? "memory.current" : "memory.usage_in_bytes"));
    if (limit && usage) {
      int64_t cache =
          numberIn(folder + "memory.stat",
                   isSecond ? "inactive_file" : "total_inactive_file")
              .value_or(0);
      left = std::min(left, std::max<int64_t>(0, *limit - *usage + cache));
    }
    if (path.find('/') == std::string::npos)
      return left;
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

  bool isMemory(bool isSecond) const {
    return isSecond ? type == "cgroup2"
                    : type == "cgroup" && contains(options, "memory");
  }
};

int64_t leftInCgroups(const std::string &root) {
  int64_t left = noLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  // hierarchy number, controllers, path
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    bool isSecond = controllers.empty();
    if (!isSecond && !contains(controllers, "memory"))
      continue;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string text; std::getline(mounts, text);) {
      Mount mount;
      if (!Mount::parse(text, mount) || !mount.isMemory(isSecond))
        continue;
      // A container sees a part of the hierarchy.
      std::string below = path;
      if (mount.root != "/")
        below = path.compare(0, mount.root.size(), mount.root) == 0
                    ? path.substr(mount.root.size())
                    : "";
      if (below == "/")
        below.clear();
      left = std::min(left, leftIn(root + mount.point, below, isSecond));
    }
  }
  return left;
}

} // namespace

int64_t availableMemory(const std::string &root) {
  std::optional<int64_t> kibibytes =
      numberIn(root + "/proc/meminfo", "MemAvailable:");
  int64_t left = leftInCgroups(root);
  if (kibibytes)
    left = std::min(left, *kibibytes * 1024);
  return left == noLimit ? -1 : left;
}

} // namespace harmony::runtime
