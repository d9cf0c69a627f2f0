//===- Measurements.cpp - What an executable measured ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Measurements.h"

#include "compiler/Planner/JsonReader.h"
#include "compiler/Planner/Limits.h"
#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Text.h"

#include <algorithm>

namespace harmony::planner {

Measurements measurementsFromJson(const json &document,
                                  const std::string &where) {
  Reader reader(document, where);
  reader.schema("harmony.measurements");
  Measurements result;
  result.where = where;
  reader.text("model");
  reader.text("compiler");
  result.numericsKey = reader.text("numerics_key");
  result.device = reader.text("device");
  result.library = reader.text("library");
  result.isa = reader.text("isa");
  result.threads = reader.index("threads");
  result.devices = reader.index("devices");
  result.enforcedLinks = reader.boolean("enforced_links");
  auto positive = [](Reader &item, const char *key) {
    double value = item.real(key);
    if (!(value >= 0 && value <= maximalLatency))
      throw Error(item.at(key) + " is " + numberText(value) +
                  ", accepted is from 0 to 1e9");
    return value;
  };
  reader.objects("tasks", [&](Reader &item) {
    Measurements::Task task;
    task.key = item.text("key");
    task.name = item.text("name");
    task.kind = item.oneOf<Measurements::Kind>(
        "kind", {"forward", "recompute", "backward", "prologue", "contribution",
                 "epilogue", "update"});
    task.onHost = item.oneOf<int>("place", {"device", "host"}) == 1;
    task.bytes = item.integer("bytes");
    item.integer("samples");
    task.seconds = positive(item, "seconds");
    result.tasks.push_back(std::move(task));
  });
  reader.objects("transfers", [&](Reader &item) {
    Measurements::Transfer transfer;
    transfer.from = item.index("from");
    transfer.to = item.index("to");
    transfer.copies = item.integer("copies");
    transfer.bytes = item.integer("bytes");
    transfer.seconds = positive(item, "seconds");
    result.transfers.push_back(transfer);
  });
  reader.done();
  return result;
}

void setMeasuredLinks(Machine &machine, const Measurements &measurements) {
  constexpr double shortest = 64 << 10;
  if (measurements.enforcedLinks)
    return;
  for (const Measurements::Transfer &transfer : measurements.transfers)
    for (Link &link : machine.links) {
      if (link.from != transfer.from || link.to != transfer.to ||
          transfer.copies <= 0)
        continue;
      double bytes = static_cast<double>(transfer.bytes) /
                     static_cast<double>(transfer.copies);
      if (bytes < shortest || !(transfer.seconds > 0))
        continue;
      // The latency is the machine's.
      double moving = std::max(transfer.seconds - link.latencySeconds,
                               transfer.seconds / 2);
      link.bytesPerSecond = bytes / moving;
    }
}

std::optional<UpdateCost> measuredUpdates(const Measurements &measurements,
                                          bool onHost) {
  double seconds = 0, bytes = 0, count = 0, least = 0;
  for (const Measurements::Task &task : measurements.tasks) {
    if (task.kind != Measurements::Kind::Update || task.onHost != onHost)
      continue;
    least = count == 0 ? task.seconds : std::min(least, task.seconds);
    seconds += task.seconds;
    bytes += static_cast<double>(task.bytes);
    ++count;
  }
  if (!(bytes > 0))
    return std::nullopt;
  // One size alone says nothing about the start.
  double start = count > 1 ? least : 0;
  return UpdateCost{start, std::max(0.0, seconds - count * start) / bytes};
}

} // namespace harmony::planner
