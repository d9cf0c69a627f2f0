//===- Driver.h - The device interface --------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A driver is a set of devices behind one interface; the engine knows no other.
// What a driver must do is written down as tests in
// test/unit/runtime/Conformance.cpp, which run against every driver.
//
// Ownership: the driver owns arenas, workers and queues. Memory outside of
// devices belongs to the caller, who hands it over with setHostMemory and keeps
// it mapped until it is replaced or the driver is gone.
//
// Errors: everything throws Error. A range outside of its space throws before a
// byte is touched.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_DRIVER_H
#define RUNTIME_HAL_DRIVER_H

#include "runtime/hal/Error.h"
#include "runtime/hal/HostStore.h"
#include "runtime/hal/Links.h"
#include "runtime/program.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace harmony::runtime {

/// Bytes [offset, offset + bytes) of a space, a reference whose iteration is
/// fixed.
struct Range {
  HmSpace space;
  unsigned device;
  int64_t offset;
  int64_t bytes;
  unsigned copy = 0;   // of a space that has several, see setHostMemory
  unsigned access = 3; // operands of launches: as in HmRef
};

/// The code that launches refer to. Nothing is copied: the arrays outlive the
/// driver.
struct KernelTable {
  const HmKernel *kernels = nullptr;
  size_t kernelCount = 0;
  const HmRangeFunction *functions = nullptr;
  size_t functionCount = 0;
  const HmGemm *gemms = nullptr;
  size_t gemmCount = 0;
  const HmConvolution *convolutions = nullptr;
  size_t convolutionCount = 0;
};

struct DeviceOptions {
  int64_t capacity = 0; // bytes of the arena; no range may end beyond
  int64_t poisonBytes =
      0; // first bytes of the arena to poison at start, when asked to poison
  int64_t libraryBytes =
      0; // scratch of the largest library call; 0: measured at start
};

struct DriverOptions {
  std::vector<DeviceOptions> devices;
  KernelTable kernels;
  HmIsa isa = HM_ISA_AVX2;
  unsigned threads = 1; // over all devices
  /// That the process may use. Where some are left over, waiting may cost
  /// processor time.
  unsigned processors = 1;
  int64_t chunk =
      0; // tests: indices to a worker at a time; 0: chosen by the driver
  bool poison = false; // unwritten and released bytes read as NaN
  bool paranoid =
      false; // the host store is unreadable while a device's kernel runs
  bool timing = false; // fill in Times
  LinkTable links;
  bool enforceLinks = false; // a copy takes the time that its link needs
  /// Behind the host store, where commands have to enter what they touch of it:
  /// its memory is handed over by setHostMemory as well. Outlives the driver.
  HostStore *hostStore = nullptr;
};

using Traffic = std::array<int64_t, HM_TRAFFIC_COUNT>;

/// Seconds that queues spent, summed over queues; all zero without timing.
struct Times {
  std::array<double, HM_FAMILY_COUNT> kernels{};
  double copies = 0;
  double waits = 0;
};

/// What a queue's commands have done, all complete ones together; the plan
/// plays no part.
struct Evidence {
  std::vector<int64_t> peak; // highest end address touched in each arena
  Traffic traffic{};         // bytes copied
  Times times;
};

/// An in-order queue of one device (or of the host) with its timeline, a
/// counter that only `signal` advances. One thread at a time issues commands. A
/// driver may execute them later than the call returns, but in order, and each
/// command starts only after the one before it is complete.
class Queue {
public:
  virtual ~Queue() = default;

  /// Called by the thread that will issue the commands, before the first.
  virtual void attachThread() = 0;

  /// to = from. `from` holds at least to.bytes; both may lie in any space but
  /// to is not constant. Counted as `traffic`, unless one of them lies in the
  /// dump or the results space.
  virtual void copy(const Range &to, const Range &from, HmTraffic traffic) = 0;

  /// Every byte of `to` becomes `value`.
  virtual void fill(const Range &to, uint8_t value) = 0;

  /// Kernel over [0, extent), at least `grain` indices to a worker at a time
  /// (the last piece may be smaller). Operands in the order of the kernel's
  /// parameters. `label` names the command in errors and outlives the call's
  /// execution.
  virtual void launch(unsigned kernel, const Range *operands, size_t count,
                      int64_t extent, int64_t grain, const char *label) = 0;

  /// The bytes are dead: poisoned where asked for.
  virtual void release(const Range &range) = 0;

  /// The timeline advances by one when all commands before are complete.
  virtual void signal() = 0;

  /// Commands after this start once the timeline of `other` is at least
  /// `value`. Throws Aborted when the driver is aborted meanwhile.
  virtual void wait(const Queue &other, int64_t value) = 0;

  /// The value that the timeline has reached.
  virtual int64_t timeline() const = 0;

  /// Returns when every command issued is complete; throws what went wrong in
  /// them.
  virtual void finish() = 0;

  /// Since the queue was made, or the driver's resetEvidence. Read by the
  /// thread that issues commands, or while none is in flight.
  virtual const Evidence &evidence() const = 0;
};

class Driver {
public:
  virtual ~Driver() = default;

  /// Of batch and scalars there may be two copies, of which executions that
  /// overlap take turns.
  static constexpr unsigned maximalCopies = 2;

  /// The memory behind a space that is not a device's, or behind one copy of
  /// it. Replaces what was there. Called while no command is in flight that
  /// uses it. The dump space may stay without memory.
  virtual void setHostMemory(HmSpace space, void *base, int64_t bytes,
                             unsigned copy = 0) = 0;

  /// `device` is ignored for host queues. The queue dies with the driver at the
  /// latest.
  virtual std::unique_ptr<Queue> createQueue(HmQueueKind kind,
                                             unsigned device) = 0;

  /// Every wait, current and future, throws Aborted.
  virtual void abort() = 0;

  // The evidence of all queues. Read while no command is in flight.

  /// The highest end address touched in the arena since the last resetEvidence.
  virtual int64_t peak(unsigned device) const = 0;
  /// Bytes copied since the last resetEvidence.
  virtual Traffic traffic() const = 0;
  virtual void resetEvidence() = 0;
  virtual Times times() const = 0;
  /// Pieces of launches that each worker has run, one list for each pool of
  /// workers, the host's last. Pool i serves the devices d with d mod
  /// (number of pools without the host's) = i.
  virtual std::vector<std::vector<int64_t>> workerChunks() const = 0;
  /// The most scratch that one library call has taken, in bytes.
  virtual int64_t libraryPeak() const = 0;
};

/// "device 0 bytes [64, 128)": for error messages.
std::string describe(const Range &range);

/// Which end of a link memory of a space is at: its device, or the host.
inline int endpointOf(unsigned space, unsigned device) {
  return space == HM_SPACE_DEVICE ? static_cast<int>(device) : HM_HOST_ENDPOINT;
}

} // namespace harmony::runtime

#endif // RUNTIME_HAL_DRIVER_H
