//===- MeasurementsTest.cpp - Measured costs and rates --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Measurements.h"
#include "compiler/Planner/Json.h"
#include "compiler/Planner/Machine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace harmony::planner;
using nlohmann::json;

namespace {

json document() {
  return json::parse(R"({
    "schema": "harmony.measurements", "version": 1, "model": "m",
    "compiler": "1", "numerics_key": "k", "device": "d", "library": "l",
    "isa": "avx2", "threads": 2, "devices": 1, "enforced_links": false,
    "tasks": [
      {"key": "aa", "name": "layer_0.u4", "kind": "forward", "place": "device",
       "bytes": 0, "samples": 9, "seconds": 0.5},
      {"key": "bb", "name": "update.a", "kind": "update", "place": "host",
       "bytes": 1000, "samples": 9, "seconds": 0.002},
      {"key": "cc", "name": "update.b", "kind": "update", "place": "host",
       "bytes": 5000, "samples": 9, "seconds": 0.006}],
    "transfers": [
      {"from": -1, "to": 0, "copies": 4, "bytes": 4000000, "seconds": 0.002},
      {"from": 0, "to": -1, "copies": 4, "bytes": 4000, "seconds": 0.002}]
  })");
}

std::string messageOf(const json &text) {
  try {
    measurementsFromJson(text, "f");
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Measurements, AreRead) {
  Measurements found = measurementsFromJson(document(), "f");
  ASSERT_EQ(found.tasks.size(), 3u);
  EXPECT_EQ(found.tasks[0].key, "aa");
  EXPECT_EQ(found.tasks[0].kind, Measurements::Kind::Forward);
  EXPECT_FALSE(found.tasks[0].onHost);
  EXPECT_TRUE(found.tasks[1].onHost);
  EXPECT_EQ(found.threads, 2);
  EXPECT_EQ(found.transfers[0].bytes, 4000000);
}

TEST(Measurements, WrongOnesAreRefused) {
  json text = document();
  text["tasks"][0]["kind"] = "sideways";
  EXPECT_NE(messageOf(text).find("f.tasks[0].kind is 'sideways', accepted are"),
            std::string::npos);
  text = document();
  text["tasks"][0]["seconds"] = -1;
  EXPECT_NE(messageOf(text).find("f.tasks[0].seconds is -1"),
            std::string::npos);
  text = document();
  text.erase("isa");
  EXPECT_EQ(messageOf(text), "f: key 'isa' is missing");
  text = document();
  text["schema"] = "harmony.profile";
  EXPECT_NE(messageOf(text).find("accepted is 'harmony.measurements'"),
            std::string::npos);
}

TEST(Measurements, LinksGetWhatLongCopiesReached) {
  Machine machine = Machine::uniform("m", 1, 1000, 1e6, 0.001);
  Measurements found = measurementsFromJson(document(), "f");
  setMeasuredLinks(machine, found);
  // 1 MB a copy in 2 ms, of which the latency is one; short copies tell
  // nothing.
  EXPECT_DOUBLE_EQ(machine.link(hostEndpoint, 0).bytesPerSecond, 1e9);
  EXPECT_DOUBLE_EQ(machine.link(0, hostEndpoint).bytesPerSecond, 1e6);
  found.enforcedLinks = true;
  Machine enforced = Machine::uniform("m", 1, 1000, 1e6, 0.001);
  setMeasuredLinks(enforced, found);
  EXPECT_DOUBLE_EQ(enforced.link(hostEndpoint, 0).bytesPerSecond, 1e6);
}

TEST(Measurements, UpdatesKeepTheirSum) {
  Measurements found = measurementsFromJson(document(), "f");
  EXPECT_FALSE(measuredUpdates(found, /*onHost=*/false).has_value());
  std::optional<UpdateCost> cost = measuredUpdates(found, /*onHost=*/true);
  ASSERT_TRUE(cost.has_value());
  EXPECT_DOUBLE_EQ(cost->perTensor, 0.002);
  EXPECT_NEAR(cost->seconds(1000) + cost->seconds(5000), 0.008, 1e-12);
}

Machine measuredMachine() {
  Machine machine = Machine::uniform("m", 1, 1000, 1e6, 0);
  Device &device = machine.devices[0];
  device.flopsPerSecond = device.bytesPerSecond = 1e9;
  device.workers = 2;
  device.launchSeconds = 3e-6;
  device.operationsPerSecond = 5e9;
  device.updateBytesPerSecond = 7e9;
  for (int64_t rows : {4, 64})
    for (int64_t depth : {8, 16})
      device.products.push_back({rows, 32, depth, 1e9 * double(rows)});
  device.memory = {{100, 2e9}, {10000, 1e9}};
  machine.hostUpdateBytesPerSecond = 6e9;
  return machine;
}

TEST(MachineRates, SurviveJson) {
  Machine machine = measuredMachine();
  machine.check();
  Machine again = machineFromJson(toJson(machine), "f");
  EXPECT_EQ(toJson(again), toJson(machine));
  EXPECT_EQ(again.devices[0].products.size(), 4u);
  EXPECT_EQ(again.devices[0].workers, 2);
  EXPECT_DOUBLE_EQ(again.devices[0].launchSeconds, 3e-6);
  EXPECT_DOUBLE_EQ(again.hostUpdateBytesPerSecond, 6e9);
}

TEST(MachineRates, AreChecked) {
  auto expect = [](const char *message, auto change) {
    Machine machine = measuredMachine();
    change(machine.devices[0]);
    try {
      machine.check();
      FAIL() << "accepted, expected " << message;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  };
  expect("all combinations", [](Device &d) { d.products.pop_back(); });
  expect("all combinations",
         [](Device &d) { d.products.push_back(d.products[0]); });
  expect("the rate of a product",
         [](Device &d) { d.products[1].flopsPerSecond = 0; });
  expect("an extent of a product", [](Device &d) { d.products[0].rows = 0; });
  expect("ascending", [](Device &d) { d.memory[1].bytes = 100; });
  expect("the rate of memory",
         [](Device &d) { d.memory[0].bytesPerSecond = -1; });
  expect("workers", [](Device &d) { d.workers = 0; });
  expect("launchSeconds", [](Device &d) { d.launchSeconds = -1; });
}

} // namespace
