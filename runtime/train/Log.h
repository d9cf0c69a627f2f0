//===- Log.h - What a run tells about itself --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_LOG_H
#define RUNTIME_TRAIN_LOG_H

#include "runtime/hal/Driver.h"
#include "runtime/hal/HostStore.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace harmony::runtime {

struct StepRecord {
  int64_t step = 0; // from 1
  double loss = 0;  // of the step's forward, before its update
  double rate = 0;
  std::optional<double> gradientNorm; // before clipping, of programs that clip
  double seconds = 0; // from the end of the step before to the end of this one
  int64_t samples = 0;
  const Traffic *traffic = nullptr;
  const std::vector<int64_t> *peaks = nullptr;
  int64_t hostPeak = 0;    // bytes resident in the process, measured so far
  int64_t hostPlanned = 0; // bytes declared, without the runtime itself
  bool isVirtual = false;  // seconds are those of the virtual clock
  // Of the host store, where it is on disk, since the record before.
  std::optional<HostStoreEvidence> disk;
};

struct EvaluationRecord {
  int64_t step = 0; // steps trained
  bool hasLoss = false;
  double loss = 0;
  int64_t samples = 0;     // evaluated
  int64_t lossSamples = 0; // of which the loss tells: whole batches
  bool hasAccuracy = false;
  int64_t correct = 0, counted = 0;
};

/// Standard output (a progress bar on a terminal, plain lines elsewhere) and,
/// where asked for, JSON lines in a file. step() allocates nothing.
class Log {
public:
  /// `path` empty: no file. A log that is there is renamed to `path` + ".old".
  /// Throws Failure when the file cannot be created.
  Log(const std::string &path, int64_t totalSteps);
  ~Log();
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;

  void step(const StepRecord &record);
  void evaluation(const EvaluationRecord &record);
  /// A line on standard output.
  void note(const std::string &text);

private:
  void keepOld();
  void writeLine(const char *text, size_t length);
  void drawBar(const StepRecord &record);
  void endBar();

  const int64_t totalSteps;
  const bool terminal;
  std::string path;
  std::FILE *file = nullptr;
  std::vector<char> line;
  std::chrono::steady_clock::time_point start, lastDrawn;
  bool barShown = false;
  double secondsSinceLine = 0; // of plain lines
  int64_t samplesSinceLine = 0;
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_LOG_H
