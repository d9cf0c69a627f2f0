//===- Options.h - The command line of a training executable ----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_OPTIONS_H
#define RUNTIME_TRAIN_OPTIONS_H

#include "runtime/engine/Blob.h"
#include "runtime/train/Schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harmony::runtime {

struct Options {
  std::vector<std::string> data;
  std::vector<std::string> validation;
  bool synthetic = false;
  int64_t steps = -1; // -1: epochs decide
  int64_t epochs = 1;
  uint64_t seed = 0;
  bool shuffle = true;
  Hyperparameters hyperparameters;

  std::string save;
  std::string dumpGradients;
  std::string initFrom;
  int64_t evaluateEvery = 0; // 0: once, after training
  bool evaluateOnly = false;
  std::string metricOutput, metricLabels; // accuracy; empty: none
  std::string outputs;
  std::string log;
  unsigned threads = 1;
  std::optional<uint64_t> adversarialSeed; // implies poison
  bool enforceLinks = false;
  bool virtualTime = false;
  std::string diskPath;    // folder of the host store; empty: in memory
  uint64_t diskMemory = 0; // bytes of that store in memory; 0: chosen
  std::string trace;
  std::string profile;
  bool timeReport = false;
  bool dryRun = false;
  bool version = false;
  bool printPlan = false;

  // For tests.
  int64_t chunk = 0;
  bool poison = false;
  bool paranoid = false;
  bool countAllocations = false;
  bool diskPaging = false; // the system pages the store on disk
  bool countWaits = false;
  bool findRaces = false;
  std::optional<int64_t> lateWait;
  std::optional<int64_t> dropWait;
  std::optional<int64_t> earlyRelease; // implies poison
};

/// Parses the arguments (without the program's name) for the optimizer of
/// `blob`. Throws Usage for unknown flags, values out of range and flags that
/// do not go together or with this program. Returns false when --help was asked
/// for and printed.
bool parseOptions(const std::vector<std::string> &arguments, const Blob &blob,
                  Options &options);

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_OPTIONS_H
