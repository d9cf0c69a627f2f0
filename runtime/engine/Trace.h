//===- Trace.h - What a run did when ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_TRACE_H
#define RUNTIME_ENGINE_TRACE_H

#include "runtime/engine/Blob.h"

#include <chrono>
#include <string>
#include <vector>

namespace harmony::runtime {

/// Records of the last executions of every program, for Chrome's trace viewer
/// and Perfetto. All memory is allocated at first. Format: docs/Runtime.md.
class Trace {
public:
  /// Executions kept of each program; fewer where they would take more than
  /// maximalRecords, but one at least.
  static constexpr int64_t maximalExecutions = 8;
  static constexpr int64_t maximalRecords = 1 << 20;

  /// `isVirtual`: times come from the virtual clock. The blob outlives it.
  Trace(const Blob &blob, bool isVirtual);

  /// A queue begins execution number `execution` of its program; what it
  /// records now replaces the oldest that is kept. As record(), by one thread
  /// at a time for each queue.
  void begin(HmProgramKind kind, size_t queue, int64_t execution);

  /// A command took from `begin` to `end`, seconds since the start.
  void record(HmProgramKind kind, size_t queue, size_t command,
              int64_t iteration, double begin, double end);

  /// Seconds since the trace was made; real time.
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }
  /// Of its records.
  int64_t bytes() const;
  bool isVirtual() const { return virtualTimes; }

  /// Throws Failure where the file cannot be written.
  void write(const std::string &path) const;

private:
  struct Record {
    double begin, end;
    int64_t iteration;
    uint32_t command;
  };
  struct Execution {
    int64_t number = -1; // -1: none yet
    std::vector<Record> records;
    size_t used = 0;
  };
  struct Track {
    std::vector<Execution> kept; // execution n in slot n mod size
    size_t slot = 0;
  };

  void writeTrack(std::string &out, HmProgramKind kind, size_t queue,
                  int thread) const;
  int processOf(const HmQueue &queue) const;

  const Blob &blob;
  const bool virtualTimes;
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  std::vector<Track> tracks[HM_PROGRAM_COUNT];
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_TRACE_H
