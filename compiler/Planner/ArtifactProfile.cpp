//===- ArtifactProfile.cpp - Profiles of Harmony's artifact ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/ArtifactProfile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace harmony::planner {

using nlohmann::json;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// numpy.interp over the samples of one layer.
double interpolate(const std::vector<ArtifactSample> &samples,
                   std::vector<double> ArtifactSample::*of, int layer,
                   int64_t microbatch) {
  auto above = std::find_if(samples.begin(), samples.end(),
                            [&](const ArtifactSample &sample) {
                              return sample.microbatch >= microbatch;
                            });
  if (above == samples.end())
    return (samples.back().*of)[layer];
  if (above == samples.begin() || above->microbatch == microbatch)
    return ((*above).*of)[layer];
  auto below = above - 1;
  double from = ((*below).*of)[layer], to = ((*above).*of)[layer];
  double slope =
      (to - from) / static_cast<double>(above->microbatch - below->microbatch);
  return slope * static_cast<double>(microbatch - below->microbatch) + from;
}

template <typename T>
std::vector<T> listOf(const json &object, const char *key, size_t layers,
                      const std::string &where) {
  auto it = object.find(key);
  std::string at = where + "." + key;
  if (it == object.end())
    throw Error(where + ": key '" + key + "' is missing");
  if (!it->is_array() || it->size() != layers)
    throw Error(at +
                (it->is_array()
                     ? " has " + std::to_string(it->size()) + " entries"
                     : " is no list") +
                ", accepted is one for each of the " + std::to_string(layers) +
                " layers");
  std::vector<T> list;
  for (size_t i = 0; i < it->size(); ++i) {
    const json &item = (*it)[i];
    if (!item.is_number() || item.get<double>() < 0)
      throw Error(at + "[" + std::to_string(i) + "] is " + item.dump() +
                  ", accepted is a number of 0 or more");
    list.push_back(item.get<T>());
  }
  return list;
}

std::vector<ArtifactSample> samplesOf(const json &document, const char *key,
                                      size_t layers, const std::string &where) {
  std::string at = where + "." + key;
  auto it = document.find(key);
  if (it == document.end() || !it->is_object() || it->empty())
    throw Error(at + " is missing or empty, accepted is an object with one "
                     "entry for each microbatch size");
  std::vector<ArtifactSample> samples;
  for (const auto &[size, item] : it->items()) {
    ArtifactSample sample;
    if (size.empty() || size.size() > 9 ||
        size.find_first_not_of("0123456789") != std::string::npos ||
        (sample.microbatch = std::stoll(size)) < 1)
      throw Error(at + ": key '" + size + "', accepted is a microbatch size");
    sample.seconds = listOf<double>(item, "t", layers, at + "." + size);
    sample.bytes = listOf<double>(item, "mem", layers, at + "." + size);
    samples.push_back(std::move(sample));
  }
  std::sort(samples.begin(), samples.end(),
            [](const ArtifactSample &a, const ArtifactSample &b) {
              return a.microbatch < b.microbatch;
            });
  return samples;
}

} // namespace

bool isArtifactProfile(const json &document) {
  return document.is_object() && !document.contains("schema") &&
         document.contains("R") && document.contains("W_bytes");
}

ArtifactProfile artifactProfileFromJson(const json &document,
                                        const std::string &where) {
  if (!document.contains("R") || !document["R"].is_number_integer() ||
      document["R"].get<int64_t>() < 1)
    throw Error(where + ".R is missing or no count of layers, accepted is 1 or "
                        "more");
  size_t layers = document["R"].get<size_t>();
  ArtifactProfile profile;
  profile.name = document.value("model", where);
  profile.weightBytes = listOf<int64_t>(document, "W_bytes", layers, where);
  profile.bufferBytes = listOf<int64_t>(document, "B_bytes", layers, where);
  profile.stateBytes = listOf<int64_t>(document, "K_bytes", layers, where);
  profile.inputBytes = listOf<int64_t>(document, "X_bytes_u1", layers, where);
  profile.updateSeconds =
      listOf<double>(document, "upd_cpu_sec", layers, where);
  profile.forward = samplesOf(document, "fwd", layers, where);
  profile.backward = samplesOf(document, "bwd", layers, where);
  return profile;
}

//===----------------------------------------------------------------------===//
// Interpolation
//===----------------------------------------------------------------------===//

double ArtifactProfile::forwardSeconds(int layer, int64_t microbatch) const {
  return interpolate(forward, &ArtifactSample::seconds, layer, microbatch);
}
double ArtifactProfile::backwardSeconds(int layer, int64_t microbatch) const {
  return interpolate(backward, &ArtifactSample::seconds, layer, microbatch);
}
double ArtifactProfile::forwardBytes(int layer, int64_t microbatch) const {
  return interpolate(forward, &ArtifactSample::bytes, layer, microbatch);
}
double ArtifactProfile::backwardBytes(int layer, int64_t microbatch) const {
  return interpolate(backward, &ArtifactSample::bytes, layer, microbatch);
}

int64_t ArtifactProfile::largestMicrobatch() const {
  return std::min(forward.back().microbatch, backward.back().microbatch);
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t largestPiece = int64_t(64) << 20;
constexpr int64_t mostPieces = 8;

class ProblemMaker {
public:
  ProblemMaker(const ArtifactProfile &profile, const Device &device)
      : profile(profile), device(device) {}

  Problem make(int64_t batch, const std::vector<int64_t> &microbatches) {
    problem.name = profile.name;
    problem.batch = batch;
    for (int64_t u : microbatches)
      if (u <= profile.largestMicrobatch())
        problem.microbatches.push_back(u);
    if (problem.microbatches.empty())
      throw Error("profile '" + profile.name +
                  "' has no microbatch size for a batch of " +
                  std::to_string(batch) + ", it was measured up to " +
                  std::to_string(profile.largestMicrobatch()));
    for (int l = 0; l < profile.layerCount(); ++l)
      addLayer(l);
    problem.scalars.push_back({"loss", 4, ScalarRole::Accumulator, -1});
    setUpdateCosts();
    problem.link();
    problem.check();
    return std::move(problem);
  }

private:
  const ArtifactProfile &profile;
  const Device &device;
  Problem problem;

  void addLayer(int l) {
    std::string name = "layer" + std::to_string(l);
    Layer layer;
    layer.name = name;
    layer.function = functionOf(l);
    addTensors(l, layer);
    Value value;
    value.name = "x" + std::to_string(l);
    value.bytesPerSample = std::max<int64_t>(1, profile.inputBytes[l]);
    value.differentiable = l > 0;
    value.sliceable = true;
    problem.values.push_back(std::move(value));
    layer.inputs.push_back({l, true, l > 0});
    if (l + 1 < profile.layerCount())
      layer.outputs.push_back(l + 1);
    else
      layer.isLoss = true;
    problem.layers.push_back(std::move(layer));
  }

  void addTensors(int l, Layer &layer) {
    int64_t bytes = profile.weightBytes[l];
    int64_t pieces =
        std::min(mostPieces, (bytes + largestPiece - 1) / largestPiece);
    auto share = [&](int64_t all, int64_t piece) {
      return all * (piece + 1) / pieces - all * piece / pieces;
    };
    for (int64_t piece = 0; piece < pieces; ++piece) {
      Tensor tensor;
      tensor.name = layer.name + ".weight" + std::to_string(piece);
      tensor.bytes = share(bytes, piece);
      tensor.trainable = true;
      tensor.gradientBytes = tensor.bytes;
      tensor.stateBytes = share(profile.stateBytes[l], piece);
      tensor.hostUpdateSeconds = profile.updateSeconds[l] *
                                 static_cast<double>(tensor.bytes) /
                                 static_cast<double>(bytes);
      layer.tensors.push_back(
          {static_cast<int>(problem.tensors.size()), true, true, false});
      problem.tensors.push_back(std::move(tensor));
    }
    if (profile.bufferBytes[l] == 0)
      return;
    Tensor buffer;
    buffer.name = layer.name + ".buffer";
    buffer.bytes = profile.bufferBytes[l];
    layer.tensors.push_back(
        {static_cast<int>(problem.tensors.size()), false, true, false});
    problem.tensors.push_back(std::move(buffer));
  }

  /// Layers whose numbers are equal share a function.
  int functionOf(int l) {
    Function function;
    for (int64_t u : problem.microbatches)
      function.costs.push_back(costOf(l, u));
    auto equal = [&](const Function &other) {
      for (size_t i = 0; i < other.costs.size(); ++i) {
        const Cost &a = other.costs[i], &b = function.costs[i];
        if (a.forwardSeconds != b.forwardSeconds ||
            a.backwardSeconds != b.backwardSeconds ||
            a.savedBytes != b.savedBytes ||
            a.forwardWorkspace != b.forwardWorkspace)
          return false;
      }
      return true;
    };
    auto same =
        std::find_if(problem.functions.begin(), problem.functions.end(), equal);
    if (same != problem.functions.end())
      return static_cast<int>(same - problem.functions.begin());
    function.name = "function" + std::to_string(problem.functions.size());
    problem.functions.push_back(std::move(function));
    return static_cast<int>(problem.functions.size()) - 1;
  }

  Cost costOf(int l, int64_t u) const {
    Cost cost;
    cost.microbatch = u;
    cost.forwardSeconds = profile.forwardSeconds(l, u);
    cost.backwardSeconds =
        std::max(0.0, profile.backwardSeconds(l, u) - cost.forwardSeconds);
    int64_t weight = profile.weightBytes[l], buffer = profile.bufferBytes[l];
    int64_t in = profile.inputBytes[l] * u;
    int64_t out =
        l + 1 < profile.layerCount() ? profile.inputBytes[l + 1] * u : 0;
    auto beside = [](double peak, int64_t counted) {
      return std::max<int64_t>(0,
                               static_cast<int64_t>(std::ceil(peak)) - counted);
    };
    cost.savedBytes =
        beside(profile.backwardBytes(l, u), 2 * weight + buffer + 2 * in + out);
    cost.forwardWorkspace =
        beside(profile.forwardBytes(l, u),
               weight + buffer + in + out + cost.savedBytes);
    // The outputs alone, which are what the original stashes, or everything.
    cost.keeps = {{0, cost.forwardSeconds, cost.forwardWorkspace},
                  {cost.savedBytes, 0, 0}};
    return cost;
  }

  void setUpdateCosts() {
    int64_t weights = 0, states = 0;
    double seconds = 0;
    for (int l = 0; l < profile.layerCount(); ++l) {
      weights += profile.weightBytes[l];
      states += profile.stateBytes[l];
      seconds += profile.updateSeconds[l];
    }
    if (weights == 0)
      return;
    problem.hostUpdate.perByte = seconds / static_cast<double>(weights);
    // Parameter and state are read and written, the gradient is read.
    problem.deviceUpdate.perByte =
        (3 + 2 * static_cast<double>(states) / static_cast<double>(weights)) /
        device.bytesPerSecond;
  }
};

} // namespace

Problem problemOf(const ArtifactProfile &profile, int64_t batch,
                  const std::vector<int64_t> &microbatches,
                  const Device &device) {
  return ProblemMaker(profile, device).make(batch, microbatches);
}

} // namespace harmony::planner
