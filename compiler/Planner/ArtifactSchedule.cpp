//===- ArtifactSchedule.cpp - Reading schedules of the artifact -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ArtifactSchedule.h"

#include <nlohmann/json.hpp>

namespace harmony::planner {

using nlohmann::json;

namespace {

/// A whole number from `least` to `most` under `key`.
int64_t integer(const json &document, const char *key, const std::string &where,
                int64_t least, int64_t most) {
  auto it = document.find(key);
  if (it == document.end() || !it->is_number_integer() ||
      it->get<int64_t>() < least || it->get<int64_t>() > most)
    throw Error(where + "." + key + " is " +
                (it == document.end() ? "missing" : it->dump()) +
                ", accepted range is [" + std::to_string(least) + ", " +
                std::to_string(most) + "]");
  return it->get<int64_t>();
}

/// Packs that cover layers from 0 on without gaps.
std::vector<ArtifactPack> packs(const json &document, const char *key,
                                const std::string &where) {
  std::string at = where + "." + key;
  auto it = document.find(key);
  if (it == document.end() || !it->is_array())
    throw Error(at + " is missing or no list, accepted is a list of pairs of "
                     "first and last layer");
  std::vector<ArtifactPack> list;
  int next = 0;
  for (const json &item : *it) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_number_integer() ||
        !item[1].is_number_integer() || item[0].get<int64_t>() != next ||
        item[1].get<int64_t>() < next || item[1].get<int64_t>() > INT32_MAX - 1)
      throw Error(at + "[" + std::to_string(list.size()) + "] is " +
                  item.dump() + ", accepted is [" + std::to_string(next) +
                  ", last layer]");
    list.push_back({next, item[1].get<int>()});
    next = list.back().lastLayer + 1;
  }
  return list;
}

} // namespace

bool isArtifactSchedule(const json &document) {
  return document.is_object() && !document.contains("schema") &&
         document.contains("pack_bwd");
}

ArtifactSchedule artifactScheduleFromJson(const json &document,
                                          const std::string &where) {
  constexpr int64_t most = 1 << 30;
  ArtifactSchedule schedule;
  for (const char *key : {"model", "mode"})
    if (!document.contains(key) || !document[key].is_string())
      throw Error(where + "." + key + " is missing or no text");
  schedule.model = document["model"].get<std::string>();
  std::string mode = document["mode"].get<std::string>();
  if (mode != "vPP" && mode != "vDP")
    throw Error(where + ".mode is '" + mode + "', accepted are vPP, vDP");
  schedule.dataParallel = mode == "vDP";
  schedule.devices = static_cast<int>(integer(document, "N", where, 1, 256));
  schedule.batch = integer(document, "D", where, 1, most);
  if (schedule.dataParallel && schedule.batch % schedule.devices != 0)
    throw Error(where + ".D is " + std::to_string(schedule.batch) +
                ", accepted is a multiple of N (" +
                std::to_string(schedule.devices) + ") under vDP");
  int64_t samples =
      schedule.batch / (schedule.dataParallel ? schedule.devices : 1);
  for (auto [key, microbatch] :
       {std::pair("U_F", &schedule.forwardMicrobatch),
        std::pair("U_B", &schedule.backwardMicrobatch)}) {
    *microbatch = integer(document, key, where, 1, most);
    if (samples % *microbatch != 0)
      throw Error(where + "." + key + " is " + std::to_string(*microbatch) +
                  ", accepted are divisors of a device's " +
                  std::to_string(samples) + " samples");
  }
  schedule.forwardPacks = packs(document, "pack_fwd", where);
  schedule.backwardPacks = packs(document, "pack_bwd", where);
  if (schedule.backwardPacks.empty())
    throw Error(where + ".pack_bwd is empty, accepted is one pack or more");
  int last = schedule.forwardPacks.empty()
                 ? -1
                 : schedule.forwardPacks.back().lastLayer;
  int needed = schedule.backwardPacks.back().firstLayer - 1;
  if (last != needed)
    throw Error(where + ".pack_fwd ends with layer " + std::to_string(last) +
                ", accepted is the last before the last of pack_bwd, " +
                std::to_string(needed));
  return schedule;
}

int64_t ArtifactBytes::swapped() const {
  return weightsIn + buffersIn + stashIn + valuesIn + gradientsIn +
         weightGradientsOut + buffersOut + stashOut + valuesOut + gradientsOut;
}

json toJson(const ArtifactEstimate &estimate, const ArtifactSchedule &schedule,
            const ArtifactRules &rules) {
  const ArtifactBytes &bytes = estimate.bytes;
  return {
      {"schema", "harmony.estimate"},
      {"version", 1},
      {"model", schedule.model},
      {"mode", schedule.dataParallel ? "vDP" : "vPP"},
      {"devices", schedule.devices},
      {"batch", schedule.batch},
      {"prefetch", rules.prefetch},
      {"iteration_s", estimate.seconds},
      {"samples_per_s", static_cast<double>(schedule.batch) / estimate.seconds},
      {"device_s", estimate.deviceSeconds},
      {"swap_bytes", bytes.swapped()},
      {"peer_bytes", bytes.peerValues + bytes.peerGradients},
      {"bytes_in",
       {{"weights", bytes.weightsIn},
        {"buffers", bytes.buffersIn},
        {"inputs", bytes.inputs},
        {"stash", bytes.stashIn},
        {"values", bytes.valuesIn},
        {"gradients", bytes.gradientsIn}}},
      {"bytes_out",
       {{"weight_gradients", bytes.weightGradientsOut},
        {"buffers", bytes.buffersOut},
        {"stash", bytes.stashOut},
        {"values", bytes.valuesOut},
        {"gradients", bytes.gradientsOut}}},
      {"bytes_peer",
       {{"values", bytes.peerValues}, {"gradients", bytes.peerGradients}}},
      {"bytes_pinned",
       {{"weights", bytes.weightsPinned}, {"buffers", bytes.buffersPinned}}}};
}

} // namespace harmony::planner
