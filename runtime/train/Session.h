//===- Session.h - Memory, driver and engine of one run ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_SESSION_H
#define RUNTIME_TRAIN_SESSION_H

#include "runtime/drivers/host/Mapping.h"
#include "runtime/engine/Engine.h"
#include "runtime/hal/HostStore.h"
#include "runtime/train/Array.h"
#include "runtime/train/Options.h"
#include "runtime/train/PayloadLoader.h"
#include "runtime/train/Safetensors.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace harmony::runtime {

/// Everything that a run computes with. Knows where the current values of the
/// variables are: in the host store, or partly on the devices between load and
/// store.
class Session {
public:
  /// What the executions of one program have measured.
  struct Totals {
    int64_t executions = 0;
    Traffic traffic{};          // bytes, all executions
    Traffic lastTraffic{};      // bytes, the last execution
    std::vector<int64_t> peaks; // highest end address in each arena
    Times times;
    double virtualSeconds = 0; // the last execution, on the virtual clock
  };

  /// Maps host memory and sets the variables to their initial values: the
  /// weights file beside the executable or --init-from, zeros for optimizer
  /// state, the blob's constants. Throws NoDevice or Data.
  Session(const Payload &payload, const Blob &blob, const Options &options);
  ~Session();

  /// Creates devices and engine; prepares the library. Throws NoDevice. Before
  /// run().
  void prepare();

  /// Runs LOAD if the devices do not hold what stays on them.
  void ensureLoaded();
  /// Runs STORE if the host store is not current.
  void ensureStored();
  /// Executes a program once on the batch set last. No step is under way.
  void run(HmProgramKind kind, bool dump = false);

  /// A step begins, and may go on while later ones begin: less than
  /// stepsInFlight() are under way. Number n (from 0) reads copy n mod
  /// stepsInFlight() of batch and scalars.
  void beginStep(bool dump);
  /// Returns when the oldest step under way is over.
  void finishStep();
  unsigned stepsInFlight() const { return options.paranoid ? 1 : 2; }
  unsigned stepsUnderWay() const { return engine->underWay(HM_PROGRAM_STEP); }

  /// `copy` as steps count them; other programs read copy 0.
  void setBatch(char *batchSpace, unsigned copy = 0);
  /// Two batch buffers, blob.header().batchBytes each.
  std::array<char *, 2> batchBuffers() const {
    return {batches[0].data(), batches[1].data()};
  }
  float *scalars(unsigned copy) const {
    return reinterpret_cast<float *>(scalarSpace.data() + copy * scalarBytes());
  }
  /// Bytes of the host store, while nothing is under way.
  void readHost(int64_t offset, char *to, int64_t bytes) const;
  float hostFloat(int64_t offset) const;
  const HostStore &store() const { return *hostStore; }
  /// What the last step finished left at the home of a loss term.
  float stepResult(int64_t home) const;

  /// What --save writes: parameters, frozen ones, buffers and state.
  /// ensureStored first.
  void saveWeights(const std::string &path) const;
  /// After a dumped step. Returns the name of the first gradient that is not
  /// finite, or an empty string.
  std::string saveGradients(const std::string &path) const;
  /// The first parameter with a value that is not finite, or an empty string.
  std::string findNonFinite() const;

  const Totals &totals(HmProgramKind kind) const { return measured[kind]; }
  const Driver &driver() const { return *devices; }

  /// Bytes that the run is known to take beforehand: host store, batches,
  /// scalars, gradients to dump, peaks of the arenas, scratch of the library,
  /// the program, the trace. The resident peak of the process is at most
  /// hostMemoryConstant more, data sets and files to write apart.
  int64_t plannedHostBytes() const;
  static constexpr int64_t hostMemoryConstant = int64_t(64) << 20;
  /// The most bytes that the process has had resident; 0 where the system does
  /// not say. Allocates nothing.
  static int64_t measuredHostBytes();
  /// Where asked for.
  void writeTrace() const;
  void writeProfile();

  /// Compares what was measured with the plan; throws Internal naming both
  /// numbers.
  void checkAgainstPlan() const;

private:
  void measure(HmProgramKind kind);
  /// Of one copy.
  int64_t scalarBytes() const;
  /// Throws NoDevice where less is available than the run needs with a host
  /// store that takes `storeBytes`.
  void checkMemory(int64_t storeBytes) const;
  int64_t bytesBesideStore() const;
  std::unique_ptr<HostStore> makeHostStore() const;
  void writeHost(int64_t offset, const char *from, int64_t bytes);
  std::string compareWeights(const SafetensorsFile &file) const;
  void loadWeights(const std::string &path, bool initFrom);

  const Payload &payload;
  const Blob &blob;
  const Options &options;
  std::unique_ptr<HostStore> hostStore;
  Mapping dumpSpace, scalarSpace;
  std::vector<Mapping> batches;
  bool onDevices = false;
  Totals measured[HM_PROGRAM_COUNT];
  std::unique_ptr<Driver> devices;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<Profile> profile;
  std::unique_ptr<Engine> engine; // gone before the three above
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_SESSION_H
