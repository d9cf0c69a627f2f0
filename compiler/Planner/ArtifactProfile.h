//===- ArtifactProfile.h - Profiles of Harmony's artifact -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the published system's profiler measured of a model on a GTX 1080 Ti
// (github.com/msr-fiddle/harmony, MIT), as one JSON document with the keys R,
// W_bytes, B_bytes, K_bytes, X_bytes_u1, upd_cpu_sec, fwd and bwd. The model is
// a chain of layers. Numbers are kept as they are written.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_ARTIFACTPROFILE_H
#define COMPILER_PLANNER_ARTIFACTPROFILE_H

#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Problem.h"

#include <nlohmann/json_fwd.hpp>

namespace harmony::planner {

/// Of all layers at one microbatch size.
struct ArtifactSample {
  int64_t microbatch = 0;
  std::vector<double> seconds;
  std::vector<double> bytes; ///< most in use at once
};

struct ArtifactProfile {
  std::string name;
  /// By layer: weights, buffers that are not trained, optimizer state.
  std::vector<int64_t> weightBytes, bufferBytes, stateBytes;
  std::vector<int64_t> inputBytes;   ///< by layer: of one sample (X)
  std::vector<double> updateSeconds; ///< by layer: on the host
  /// Ascending. A backward sample contains one forward: the recomputation.
  std::vector<ArtifactSample> forward, backward;

  int layerCount() const { return static_cast<int>(weightBytes.size()); }

  /// Of a layer at a microbatch size: linear between samples, constant beyond
  /// (numpy.interp), as the artifact has it.
  double forwardSeconds(int layer, int64_t microbatch) const;
  double backwardSeconds(int layer, int64_t microbatch) const;
  double forwardBytes(int layer, int64_t microbatch) const;
  double backwardBytes(int layer, int64_t microbatch) const;
  /// The largest microbatch that was measured in both directions.
  int64_t largestMicrobatch() const;
};

/// Whether a document is such a profile rather than one with a schema.
bool isArtifactProfile(const nlohmann::json &document);

/// Throws Error: a key is missing, a list has not one entry per layer.
ArtifactProfile artifactProfileFromJson(const nlohmann::json &document,
                                        const std::string &where);

/// The training step of such a model. A layer's weight is cut into equal
/// tensors of at most 64 MiB, but no more than eight, as a compiled layer has
/// several, so that updates
/// and shards can be dealt; each has its share of state and of the measured
/// time on the host. On a device an update reads and writes at the memory's
/// bandwidth. Backward takes what the profile has less the forward in it. Of
/// the measured peak in backward all that is not weight, gradient, buffer,
/// input, its gradient or the output's gradient is saved from the forward: the
/// profile does not tell it from what is transient, so this is too much rather
/// than too little. `microbatches`: ascending; Error if none was measured.
Problem problemOf(const ArtifactProfile &profile, int64_t batch,
                  const std::vector<int64_t> &microbatches,
                  const Device &device);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_ARTIFACTPROFILE_H
