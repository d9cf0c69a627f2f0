//===- Profile.h - What tasks and transfers cost ----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_PROFILE_H
#define RUNTIME_ENGINE_PROFILE_H

#include "runtime/engine/Blob.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace harmony::runtime {

/// What is measured where, beside the costs themselves: other devices, library
/// versions or numbers of threads have other costs.
struct ProfileOrigin {
  std::string device;  // the processor's name
  std::string library; // products': name and version
  unsigned threads = 1;
  bool enforcedLinks = false;
};

/// Measures training steps and evaluations while they run: the mean of each
/// task and link over one execution, of which the median over the last
/// executions is written. The first execution, which touches fresh memory and
/// makes the library generate code, does not count. All memory is allocated at
/// first. Format: docs/Runtime.md.
class Profile {
public:
  /// Executions that the median is over.
  static constexpr size_t maximalSamples = 64;

  /// The blob outlives it.
  explicit Profile(const Blob &blob);

  /// Seconds of a steady clock.
  static double now() {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// A queue begins an execution of a program. One thread at a time for each
  /// queue, here and below.
  void begin(HmProgramKind kind, size_t queue, int64_t execution);
  /// A command, no wait, took from `begin` to `end`.
  void record(HmProgramKind kind, size_t queue, size_t command, double begin,
              double end);

  /// JSON, schema harmony.measurements. While nothing runs: the execution that
  /// was begun last counts as complete. Throws Failure where the file cannot be
  /// written, or where nothing was measured.
  void write(const std::string &path, const ProfileOrigin &origin);

private:
  /// A task on a queue, or the copies of a queue over one link.
  struct Item {
    double seconds = 0; // of this execution
    int64_t count = 0;
    std::vector<float> samples; // seconds of one, maximalSamples at most
    size_t used = 0;            // samples taken, in a ring
    int64_t copyBytes = 0;      // of all copies of an execution
    int64_t copies = 0;         // of an execution
  };
  struct Track {
    int64_t execution = -1;
    std::vector<int> itemOf; // by command; -1: not measured
    std::vector<Item> items;
    std::vector<uint32_t> tasks; // by item: HmCommand::task, 0 for a link
    struct Ends {
      int from, to;
    };
    std::vector<Ends> links; // by item, where that is a link
    double last = 0;         // end of the task's command before
  };

  void close(Track &track) const;

  const Blob &blob;
  std::vector<Track> tracks[HM_PROGRAM_COUNT]; // by queue
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_PROFILE_H
