//===- ArtifactSchedule.h - Schedules of Harmony's artifact -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the published system's scheduler decides (github.com/msr-fiddle/harmony,
// 3_scheduler), and what its estimator says of it: the same events with the
// same durations and dependencies, on the simulator of our own plans. A
// schedule is a chain of tasks: forward packs, then backward packs from the
// last to the first; the last pack has no forward task, and every backward task
// makes the forward of its pack again from the pack's input.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_ARTIFACTSCHEDULE_H
#define COMPILER_PLANNER_ARTIFACTSCHEDULE_H

#include "compiler/Planner/ArtifactProfile.h"

namespace harmony::planner {

struct ArtifactPack {
  int firstLayer = 0, lastLayer = 0; ///< inclusive
};

struct ArtifactSchedule {
  std::string model;
  /// Harmony DP: every device runs all tasks for its share of the samples.
  /// Otherwise Harmony PP: tasks go round the devices, and each runs all
  /// samples.
  bool dataParallel = false;
  int devices = 1; ///< N
  int64_t batch = 0;
  int64_t forwardMicrobatch = 0, backwardMicrobatch = 0; ///< U_F, U_B
  /// Backward packs cover all layers in order, forward packs all before the
  /// last of those.
  std::vector<ArtifactPack> forwardPacks, backwardPacks;
};

/// Whether a document is such a schedule rather than one with a schema.
bool isArtifactSchedule(const nlohmann::json &document);

/// Keys model, mode (vPP or vDP), N, D, U_F, U_B, pack_fwd, pack_bwd (pairs of
/// first and last layer); others are left aside. Throws Error: a key is missing
/// or of another kind, the packs do not cover the layers, a microbatch does not
/// divide a device's samples.
ArtifactSchedule artifactScheduleFromJson(const nlohmann::json &document,
                                          const std::string &where);

/// What the estimator takes into account; the defaults are the artifact's. The
/// bandwidths, the time to free a pack and how devices share the host's link
/// are the machine's.
struct ArtifactRules {
  /// Work on the next microbatch and task is prefetched, results leave beside
  /// work (--prefetch_offload); if not, one follows the other.
  bool prefetch = false;
  /// An input may come two microbatches ahead under `prefetch`; if not, one.
  bool doubleBuffers = true;
  /// The backward of the profile holds the recomputation.
  bool backwardHoldsForward = true;
  /// Updates on the host run beside the device; if not, on its compute queue.
  bool updatesBeside = true;
  /// Sender and receiver of a copy between devices start it together.
  bool rendezvous = true;
  /// Of messages between the host's processes, shared by all, each crossing
  /// twice.
  double messageBytesPerSecond = 16.0 * 1024 * 1024 * 1024;
};

/// Bytes of one iteration, all devices together.
struct ArtifactBytes {
  // To devices.
  int64_t weightsIn = 0, buffersIn = 0, inputs = 0, stashIn = 0;
  int64_t valuesIn = 0;    ///< X through the host
  int64_t gradientsIn = 0; ///< dY through the host
  // From devices. Weights' gradients and buffers leave the first of data
  // parallel devices only.
  int64_t weightGradientsOut = 0, buffersOut = 0, stashOut = 0;
  int64_t valuesOut = 0;    ///< Y through the host
  int64_t gradientsOut = 0; ///< dX through the host
  // Between devices.
  int64_t peerValues = 0, peerGradients = 0;
  /// Weights and buffers that stay from a device's last forward task to its
  /// first backward task; not part of what goes in.
  int64_t weightsPinned = 0, buffersPinned = 0;

  /// To and from devices, without the batch's inputs.
  int64_t swapped() const;
};

struct ArtifactEstimate {
  double seconds = 0; ///< of one iteration
  /// By device: when its last event ends. Data parallel devices are estimated
  /// by the first.
  std::vector<double> deviceSeconds;
  ArtifactBytes bytes;
};

/// Throws Error: a schedule of more layers or devices than profile or machine
/// have, or a machine without the links that it uses. The estimate is the
/// artifact's own on Machine::named("harmony-1080ti") with Sharing::Static.
ArtifactEstimate estimateArtifact(const ArtifactSchedule &schedule,
                                  const ArtifactProfile &profile,
                                  const Machine &machine,
                                  const ArtifactRules &rules);

/// Document "harmony.estimate": iteration_s, device_s, bytes by kind, prefetch.
nlohmann::json toJson(const ArtifactEstimate &estimate,
                      const ArtifactSchedule &schedule,
                      const ArtifactRules &rules);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_ARTIFACTSCHEDULE_H
