//===- Machine.cpp - Devices and links ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Machine.h"

#include "compiler/Planner/Limits.h"
#include "compiler/Planner/Text.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace harmony::planner {

namespace {

std::string endpoint(int index) {
  return index == hostEndpoint ? "the host" : "device " + std::to_string(index);
}

bool isRate(double rate) { return rate >= minimalRate && rate <= maximalRate; }
constexpr const char *acceptedRate = "from 1 to 1e30";
constexpr const char *acceptedIfKnown = "0 (not known), or from 1 to 1e30";

bool isLatency(double seconds) {
  return seconds >= 0 && seconds <= maximalLatency;
}
constexpr const char *acceptedLatency = "from 0 to 1e9";

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

namespace {

/// What commands and links of a program can say: see runtime/program.h.
constexpr int maximalDevices = 256;
constexpr size_t maximalShares = 4;

/// See Machine::check.
class MachineCheck {
public:
  explicit MachineCheck(const Machine &machine)
      : machine(machine), count(static_cast<int>(machine.devices.size())) {}

  void run() {
    checkDevices();
    for (const Resource &resource : machine.resources)
      if (!isRate(resource.bytesPerSecond))
        refuse("resource '" + resource.name + "' has bandwidth " +
               numberText(resource.bytesPerSecond) + ", accepted is " +
               acceptedRate);
    for (const Link &link : machine.links) {
      checkLink(link);
      checkShares(link);
    }
    checkHost();
    for (int d = 0; d < count; ++d) {
      machine.link(hostEndpoint, d);
      machine.link(d, hostEndpoint);
    }
  }

private:
  const Machine &machine;
  const int count;                    ///< of devices
  std::set<std::pair<int, int>> ends; ///< of the links so far

  [[noreturn]] void refuse(const std::string &what) const {
    throw Error("machine '" + machine.name + "': " + what);
  }

  void checkDevices() const {
    if (count == 0 || count > maximalDevices)
      throw Error(
          "machine '" + machine.name + "' has " +
          (count == 0 ? "no device" : std::to_string(count) + " devices") +
          ", accepted is at least one and at most " +
          std::to_string(maximalDevices));
    for (int d = 0; d < count; ++d)
      if (int64_t capacity = machine.devices[d].capacity; capacity <= 0)
        refuse("capacity of device " + std::to_string(d) + " is " +
               std::to_string(capacity) + ", accepted is 1 or more");
    for (const Device &device : machine.devices) {
      checkSpeeds(device);
      checkProducts(device);
      checkMemory(device);
    }
  }

  void require(const Device &device, const char *what, double value, bool holds,
               const char *accepted) const {
    if (!holds)
      refuse(std::string(what) + " of device '" + device.name + "' is " +
             numberText(value) + ", accepted is " + accepted);
  }

  void checkSpeeds(const Device &device) const {
    require(device, "launchSeconds", device.launchSeconds,
            isLatency(device.launchSeconds), acceptedLatency);
    require(device, "workers", device.workers, device.workers >= 1,
            "1 or more");
    // Costs that are modelled need these; given costs do without.
    for (auto [what, rate] :
         {std::pair("flopsPerSecond", device.flopsPerSecond),
          {"bytesPerSecond", device.bytesPerSecond}})
      require(device, what, rate, rate == 0 || isRate(rate), acceptedRate);
    for (auto [what, rate] :
         {std::pair("operationsPerSecond", device.operationsPerSecond),
          {"updateBytesPerSecond", device.updateBytesPerSecond}})
      require(device, what, rate, rate == 0 || isRate(rate), acceptedIfKnown);
  }

  void checkProducts(const Device &device) const {
    std::set<int64_t> rows, columns, depths;
    std::set<std::tuple<int64_t, int64_t, int64_t>> points;
    for (const ProductRate &product : device.products) {
      require(device, "the rate of a product", product.flopsPerSecond,
              isRate(product.flopsPerSecond), acceptedRate);
      int64_t least = std::min({product.rows, product.columns, product.depth});
      require(device, "an extent of a product", static_cast<double>(least),
              least >= 1, "1 or more");
      rows.insert(product.rows);
      columns.insert(product.columns);
      depths.insert(product.depth);
      points.insert({product.rows, product.columns, product.depth});
    }
    require(device, "the number of different products",
            static_cast<double>(points.size()),
            points.size() == rows.size() * columns.size() * depths.size() &&
                points.size() == device.products.size(),
            "all combinations of their rows, columns and depths, each once");
  }

  void checkMemory(const Device &device) const {
    int64_t last = 0;
    for (const MemoryRate &rate : device.memory) {
      require(device, "the rate of memory", rate.bytesPerSecond,
              isRate(rate.bytesPerSecond), acceptedRate);
      require(device, "bytes of a rate of memory",
              static_cast<double>(rate.bytes), rate.bytes > last, "ascending");
      last = rate.bytes;
    }
  }

  static std::string nameOf(const Link &link) {
    return "link from " + endpoint(link.from) + " to " + endpoint(link.to);
  }

  void checkLink(const Link &link) {
    for (int end : {link.from, link.to})
      if (end < hostEndpoint || end >= count)
        refuse("link end is " + std::to_string(end) +
               ", accepted range is [-1, " + std::to_string(count - 1) + "]");
    if (link.from == link.to)
      refuse("link from " + endpoint(link.from) + " to itself");
    if (!ends.insert({link.from, link.to}).second)
      refuse("a second " + nameOf(link) +
             ", accepted is one in each direction");
    if (!isRate(link.bytesPerSecond) || !isLatency(link.latencySeconds))
      refuse(nameOf(link) + " has bandwidth " +
             numberText(link.bytesPerSecond) + " and latency " +
             numberText(link.latencySeconds) + ", accepted is " + acceptedRate +
             ", and " + acceptedLatency);
  }

  void checkShares(const Link &link) const {
    if (link.shares.size() > maximalShares)
      refuse(nameOf(link) + " shares " + std::to_string(link.shares.size()) +
             " resources, accepted are at most " +
             std::to_string(maximalShares));
    for (int share : link.shares)
      if (share < 0 || share >= static_cast<int>(machine.resources.size()))
        refuse(nameOf(link) + " shares resource " + std::to_string(share) +
               ", there are " + std::to_string(machine.resources.size()));
    if (std::set<int>(link.shares.begin(), link.shares.end()).size() !=
        link.shares.size())
      refuse(nameOf(link) + " shares a resource twice, accepted is once");
  }

  void checkHost() const {
    if (machine.hostBytes < 0)
      refuse("hostBytes is " + std::to_string(machine.hostBytes) +
             ", accepted is 0 (no limit) or more");
    if (machine.hostQueues < 1 || machine.hostQueues > maximalDevices)
      refuse("hostQueues is " + std::to_string(machine.hostQueues) +
             ", accepted range is [1, " + std::to_string(maximalDevices) + "]");
    double updates = machine.hostUpdateBytesPerSecond;
    if (updates != 0 && !isRate(updates))
      refuse("hostUpdateBytesPerSecond is " + numberText(updates) +
             ", accepted is " + acceptedIfKnown);
    if (!isLatency(machine.phaseSeconds))
      refuse("phaseSeconds is " + numberText(machine.phaseSeconds) +
             ", accepted is " + acceptedLatency);
  }
};

} // namespace

void Machine::check() const { MachineCheck(*this).run(); }

Machine Machine::uniform(const std::string &name, int count, int64_t capacity,
                         double linkBytesPerSecond, double linkLatencySeconds,
                         const Link &peer, double sharedHostBytesPerSecond) {
  Machine machine;
  machine.name = name;
  bool shared = sharedHostBytesPerSecond > 0;
  if (shared)
    machine.resources = {{"from the host", sharedHostBytesPerSecond},
                         {"to the host", sharedHostBytesPerSecond}};
  for (int d = 0; d < count; ++d) {
    machine.devices.push_back({"device" + std::to_string(d), capacity, 0, 0});
    for (bool in : {true, false}) {
      Link link{in ? hostEndpoint : d,
                in ? d : hostEndpoint,
                linkBytesPerSecond,
                linkLatencySeconds,
                {}};
      if (shared)
        link.shares.push_back(in ? 0 : 1);
      machine.links.push_back(std::move(link));
    }
  }
  for (int from = 0; peer.bytesPerSecond > 0 && from < count; ++from)
    for (int to = 0; to < count; ++to)
      if (from != to)
        machine.links.push_back(
            {from, to, peer.bytesPerSecond, peer.latencySeconds, peer.shares});
  return machine;
}

//===----------------------------------------------------------------------===//
// Machines by name
//===----------------------------------------------------------------------===//

namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

void setSpeeds(Machine &machine, double flopsPerSecond, double bytesPerSecond) {
  for (Device &device : machine.devices) {
    device.flopsPerSecond = flopsPerSecond;
    device.bytesPerSecond = bytesPerSecond;
  }
}

/// The machine model of Harmony's published artifact: eight GTX 1080 Ti of
/// which 10 GiB are used; 11.5 GiB/s between the host and all devices together,
/// each way; 8.2 GiB/s between any two devices, not shared; 40 ms to free a
/// pack; an update engine for each device. Products and memory as the board is
/// specified: 11.3 TFLOP/s, 484 GB/s.
Machine harmony1080Ti() {
  Link peer;
  peer.bytesPerSecond = 8.2 * gib;
  Machine machine = Machine::uniform("harmony-1080ti", 8, int64_t(10) << 30,
                                     11.5 * gib, 0, peer, 11.5 * gib);
  machine.hostQueues = 8;
  machine.phaseSeconds = 0.04;
  setSpeeds(machine, 11.3e12, 484e9);
  return machine;
}

/// The same with all copies between devices over one link.
Machine harmony1080TiOnePeerLink() {
  Machine machine = harmony1080Ti();
  machine.name = "harmony-1080ti-one-peer-link";
  int between = static_cast<int>(machine.resources.size());
  machine.resources.push_back({"between devices", 8.2 * gib});
  for (Link &link : machine.links)
    if (link.from != hostEndpoint && link.to != hostEndpoint)
      link.shares = {between};
  return machine;
}

/// The same with one update engine for all devices.
Machine harmony1080TiOneUpdateEngine() {
  Machine machine = harmony1080Ti();
  machine.name = "harmony-1080ti-one-update-engine";
  machine.hostQueues = 1;
  return machine;
}

/// Eight RTX 4090, of whose 24 GiB 24 GB are used: the rest is the driver's.
/// PCIe 4.0 x16 carries 31.5 GB/s, about 25 in large copies; two root
/// complexes' worth of them, 100 GB/s, for all devices together (assumed); no
/// copies between devices. 82.6 TFLOP/s (f32), 1008 GB/s.
Machine eight4090() {
  Machine machine =
      Machine::uniform("8x4090-24g", 8, 24000000000, 25e9, 10e-6, {}, 100e9);
  setSpeeds(machine, 82.6e12, 1008e9);
  return machine;
}

/// Eight H100 SXM, of whose 80 GiB 80 GB are used. PCIe 5.0 x16 carries 63
/// GB/s, about 55 in large copies; 220 GB/s for all devices together (assumed,
/// by the host's memory). NVLink 4 through switches: every device sends and
/// receives 450 GB/s, whoever the partners are. 67 TFLOP/s (f32), 3350 GB/s.
Machine eightH100() {
  Link peer;
  peer.bytesPerSecond = 450e9;
  peer.latencySeconds = 5e-6;
  Machine machine =
      Machine::uniform("8xh100-80g", 8, 80000000000, 55e9, 10e-6, peer, 220e9);
  setSpeeds(machine, 67e12, 3350e9);
  int ports = static_cast<int>(machine.resources.size());
  for (const Device &device : machine.devices) {
    machine.resources.push_back({device.name + " sends", 450e9});
    machine.resources.push_back({device.name + " receives", 450e9});
  }
  for (Link &link : machine.links)
    if (link.from != hostEndpoint && link.to != hostEndpoint)
      link.shares = {ports + 2 * link.from, ports + 2 * link.to + 1};
  return machine;
}

constexpr Machine (*makers[])() = {harmony1080Ti, harmony1080TiOnePeerLink,
                                   harmony1080TiOneUpdateEngine, eight4090,
                                   eightH100};

} // namespace

const char *name(Sharing sharing) {
  return sharing == Sharing::Static ? "static" : "max-min";
}

std::optional<Machine> Machine::named(std::string_view name) {
  for (Machine (*make)() : makers)
    if (Machine machine = make(); machine.name == name)
      return machine;
  return std::nullopt;
}

const std::vector<std::string> &Machine::names() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> names;
    for (Machine (*make)() : makers)
      names.push_back(make().name);
    return names;
  }();
  return list;
}

} // namespace harmony::planner
