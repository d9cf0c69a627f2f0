//===- Machine.cpp - Devices and links ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Machine.h"

namespace harmony::planner {

namespace {

std::string endpoint(int index) {
  return index == hostEndpoint ? "the host" : "device " + std::to_string(index);
}

} // namespace

bool Machine::hasLink(int from, int to) const {
  for (const Link &link : links)
    if (link.from == from && link.to == to)
      return true;
  return false;
}

const Link &Machine::link(int from, int to) const {
  for (const Link &link : links)
    if (link.from == from && link.to == to)
      return link;
  throw Error("machine '" + name + "' has no link from " + endpoint(from) +
              " to " + endpoint(to));
}

void Machine::check() const {
  int count = static_cast<int>(devices.size());
  if (count == 0)
    throw Error("machine '" + name +
                "' has no device, accepted is at least one");
  for (int d = 0; d < count; ++d)
    if (devices[d].capacity <= 0)
      throw Error("machine '" + name + "': capacity of device " +
                  std::to_string(d) + " is " +
                  std::to_string(devices[d].capacity) +
                  ", accepted is 1 or more");
  for (const Link &link : links) {
    for (int end : {link.from, link.to})
      if (end < hostEndpoint || end >= count)
        throw Error("machine '" + name + "': link end is " +
                    std::to_string(end) + ", accepted range is [-1, " +
                    std::to_string(count - 1) + "]");
    if (link.from == link.to)
      throw Error("machine '" + name + "': link from " + endpoint(link.from) +
                  " to itself");
    if (!(link.bytesPerSecond > 0) || !(link.latencySeconds >= 0))
      throw Error("machine '" + name + "': link from " + endpoint(link.from) +
                  " to " + endpoint(link.to) + " has bandwidth " +
                  std::to_string(link.bytesPerSecond) + " and latency " +
                  std::to_string(link.latencySeconds) +
                  ", accepted is more than 0, and 0 or more");
  }
  for (const Resource &resource : resources)
    if (!(resource.bytesPerSecond > 0))
      throw Error("machine '" + name + "': resource '" + resource.name +
                  "' has bandwidth " + std::to_string(resource.bytesPerSecond) +
                  ", accepted is more than 0");
  for (const Link &link : links)
    for (int share : link.shares)
      if (share < 0 || share >= static_cast<int>(resources.size()))
        throw Error("machine '" + name + "': link from " + endpoint(link.from) +
                    " to " + endpoint(link.to) + " shares resource " +
                    std::to_string(share) + ", there are " +
                    std::to_string(resources.size()));
  if (hostBytes < 0)
    throw Error("machine '" + name + "': hostBytes is " +
                std::to_string(hostBytes) +
                ", accepted is 0 (no limit) or more");
  for (int d = 0; d < count; ++d) {
    link(hostEndpoint, d);
    link(d, hostEndpoint);
  }
}

Machine Machine::uniform(const std::string &name, int count, int64_t capacity,
                         double linkBytesPerSecond, double linkLatencySeconds) {
  Machine machine;
  machine.name = name;
  for (int d = 0; d < count; ++d) {
    machine.devices.push_back({"device" + std::to_string(d), capacity, 0, 0});
    machine.links.push_back(
        {hostEndpoint, d, linkBytesPerSecond, linkLatencySeconds, {}});
    machine.links.push_back(
        {d, hostEndpoint, linkBytesPerSecond, linkLatencySeconds, {}});
  }
  return machine;
}

} // namespace harmony::planner
