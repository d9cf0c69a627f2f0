//===- Options.h - What the command line says -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_OPTIONS_H
#define COMPILER_DRIVER_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harmony {

/// Exit codes of harmonyc.
enum ExitCode {
  kDone = 0,
  kRefused = 1,
  kUsage = 2,
  kDoesNotFit = 3,
  kInternalError = 70
};

enum class Command { Compile, Plan, Inspect, Machine, Ops };

/// `11GiB`, `512MB`, `4096` (bytes), or `50%`: a share of the training state.
struct MemorySize {
  int64_t bytes = 0;
  /// Of the training state, over all devices together; 0: `bytes` counts.
  double share = 0;
};

/// Everything that the command line decides, for all commands.
struct CompilerOptions {
  Command command = Command::Compile;
  std::string program; ///< argv[0]
  std::string model;
  std::string output;
  bool weightsFromModel = false;

  std::string target = "host"; ///< host, host:avx2, host:avx512
  std::optional<MemorySize> deviceMemory;
  std::optional<MemorySize> hostMemory;
  std::string diskPath; ///< of the host store; empty: in memory
  std::optional<MemorySize> diskMemory;
  std::string machine;        ///< name or file; empty: built in
  std::optional<int> devices; ///< default: the machine's; built in: 1

  std::optional<int64_t> batch;
  std::optional<int64_t> microbatch;
  std::vector<std::string> dims; ///< NAME=VALUE
  bool forward = false;
  std::string optimizer; ///< empty: the graph's own, else adamw
  bool clipGradNorm = false;
  std::string loss, lossOutput;
  std::vector<std::string> trainable, freeze;
  std::vector<std::string> padding; ///< "name=row", "name=none"
  std::string batchNorm;            ///< empty, as-exported, train
  std::string runningVariance;      ///< empty: by the optimizer; torch, onnx
  bool allowBatchMixing = false;    ///< split what combines samples

  std::string schedule = "auto";
  std::string residency = "auto", update = "auto", recompute = "auto",
              optimizerOn = "auto";
  /// No flag: on the built-in machine, plans that update on the device are
  /// preferred to others that are as good. Others of --explain are not.
  bool preferDeviceUpdates = true;
  std::optional<int> pack;
  std::optional<uint64_t> randomPlan; ///< seed; hidden: for tests

  std::string profile;      ///< measured costs
  std::string keepNumerics; ///< plan, executable, measured costs, or a key
  std::optional<unsigned> threads; ///< of `machine`; none: all processors
  std::string planIn, planOut;
  std::string estimator = "plan"; ///< of `plan`: plan, artifact
  bool prefetch = false;          ///< of the artifact's estimator
  std::string trace;              ///< of `plan`: the simulated timeline
  std::string svg;                ///< of `plan`: a picture of it
  bool explain = false;
  std::string dumpStages;
  std::string stopAfter;
  bool timeReport = false;
};

/// The stages that --stop-after and --dump-stages name, in order.
extern const std::vector<std::string> kStages;

/// Parses the command line. Returns nothing when all is said (--help,
/// --version, a usage error, which is printed); then `exitCode` is set.
std::optional<CompilerOptions> parseCommandLine(int argc, char **argv,
                                                int &exitCode);

/// Parses a size; nothing if the text is none.
std::optional<MemorySize> parseMemorySize(const std::string &text);

/// Bytes of a host store on disk that may be in memory: --disk-memory, else
/// --host-memory; 0: the executable chooses.
int64_t diskMemory(const CompilerOptions &options);

/// What --machine knows by name, for messages.
std::string machineNames();

} // namespace harmony

#endif // COMPILER_DRIVER_OPTIONS_H
