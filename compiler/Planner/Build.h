//===- Build.h - From choices to a plan -------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stages between a set of decisions and a complete plan:
//   build        choices -> events in issue order, buffers with live ranges
//   liveBytes    the least peak that any addresses can reach
//   allocate     offsets on devices and in the host store
//   synchronize  waits, from the conflicts that addresses and homes make
//   simulate     time
// The search calls the first two for many choices and the rest for few.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILD_H
#define COMPILER_PLANNER_BUILD_H

#include "compiler/Planner/Plan.h"

#include <limits>
#include <memory>
#include <tuple>

namespace harmony::planner {

/// Where a value that several phases use is between two of them.
enum class Place {
  Host,     ///< always through its stash in the host store
  Adjacent, ///< on the device from one phase to the next of the same samples,
            ///< or copied to the next one's device; else through the stash
  Device    ///< on the device from the first use to the last, and copied to
            ///< every other device that uses it
};

/// How a tensor gets to devices of several groups that run the same pack.
enum class Gather : char {
  Each,  ///< every device loads all of it from the host
  One,   ///< one loads it, the others copy it from there
  Slices ///< each, of up to Choices::slices, loads a slice, and copies it to
         ///< all others
};

/// A phase to be: see Phase.
struct PhaseChoice {
  int device = 0;
  int group = 0;
  PhaseKind kind = PhaseKind::Forward;
  int firstLayer = 0, lastLayer = 0;
  int64_t microbatch = 1, firstSample = 0, trips = 1;
  /// See Phase::keep. F has the levels of the B of the same layer, samples,
  /// microbatch and device where that keeps bytes.
  std::vector<int> keep = {};
  /// Has the layers of the phase before on its device, and is not apart from
  /// it: tensors stay, the pack after is loaded when the first of these begins.
  bool goesOn = false;

  bool operator==(const PhaseChoice &o) const {
    return std::tie(device, group, kind, firstLayer, lastLayer, microbatch,
                    firstSample, trips, keep, goesOn) ==
           std::tie(o.device, o.group, o.kind, o.firstLayer, o.lastLayer,
                    o.microbatch, o.firstSample, o.trips, o.keep, o.goesOn);
  }
};

/// Every layer's highest level.
std::vector<int> keepAll(const Problem &problem, int firstLayer, int lastLayer);

/// Everything that is decided before addresses.
struct Choices {
  /// In issue order, which goes by samples where a layer's forward writes a
  /// tensor. Every layer's forward (and, in training, backward) covers all
  /// samples once; a group's devices are its own.
  std::vector<PhaseChoice> phases;
  int groups = 1; ///< data-parallel
  /// Deferred where the problem has an epilogue.
  UpdateOrder update = UpdateOrder::JustInTime;
  bool stay = true;    ///< false: nothing stays on a device between phases
  bool overlap = true; ///< loads one phase ahead, stores one phase behind
  /// The steps of a phase are up to so many Runs of about equal time, so that
  /// what its first layers need, or its last ones leave, is waited for by them
  /// alone; parts of gradients then go to the device that updates while the
  /// rest of the backward runs, and updates stand among the Runs of phases of
  /// one microbatch. 1 to mostRuns.
  int runs = 1;
  static constexpr int mostRuns = 32;
  int slots = 2; ///< of the rings through which values are swapped
  /// Values that a phase begins with may come during the phase before it on its
  /// device: their places are others than what that phase uses.
  bool valuesAhead = false;
  /// B phases recompute all that they need before their first backward.
  /// False: a layer whose operands are all there begins a segment, which is
  /// recomputed when the backward comes to it, so that the saved blocks of one
  /// segment are live at a time.
  bool recomputeAhead = true;
  /// Copies from device to device where the machine has a link; false: all
  /// goes through the host store.
  bool peers = true;

  /// By tensor. `resident`: never leaves the devices that use it (ignored for
  /// what the host updates, and where forward phases on several devices write
  /// it); `pinned`: stays between its uses on a device in one execution;
  /// `stateResident`: likewise of its optimizer state; `holdGradient`: a
  /// gradient whose update comes in a later phase waits for it on the device.
  std::vector<char> resident, pinned, stateResident, holdGradient, updateOnHost;
  /// By tensor: the device that updates it, -1: that of the last phase that
  /// adds to its gradient. Empty: -1 throughout.
  std::vector<int> owner;
  /// By tensor, of what is loaded for a pack. Devices without a link go their
  /// own way. Empty: Each throughout.
  std::vector<Gather> gather;
  /// Of a tensor that is gathered in slices, for a pack: at most so many.
  int slices = std::numeric_limits<int>::max();
  /// By tensor: the group whose device loads what is gathered from One; beyond
  /// the groups that run the pack, the first. Empty: 0 throughout.
  std::vector<int> loader;
  /// By value: of the value and of its gradient.
  std::vector<Place> place, gradientPlace;

  /// For the search, where equal groups are judged by one of them: so many
  /// others do the same on devices of their own and are left out. The group
  /// updates one tensor in so many on its device, as tensors' states are a part
  /// of what they are in all (Filling::OneGroup), and has room for what the
  /// others give it of the gradients. Such a plan has no meaning of its own.
  int others = 0;
  /// They have links to each other, by which they gather what each loads its
  /// part of.
  bool othersGather = false;

  bool operator==(const Choices &o) const {
    auto all = [](const Choices &c) {
      return std::tie(c.groups, c.update, c.stay, c.overlap, c.runs, c.slots,
                      c.valuesAhead, c.recomputeAhead, c.peers, c.resident,
                      c.pinned, c.stateResident, c.holdGradient, c.updateOnHost,
                      c.owner, c.gather, c.slices, c.loader, c.place,
                      c.gradientPlace, c.others, c.othersGather, c.phases);
    };
    return all(*this) == all(o);
  }
};

/// An event touches a buffer (or a home): what synchronize() orders.
struct Touch {
  int event = 0;
  int index = 0; ///< in Plan::buffers or Plan::homes
  bool writes = false;
  /// The bytes that all iterations touch; `whole`: all of it.
  static constexpr int64_t whole = -1;
  int64_t offset = 0, bytes = whole;
};

/// A plan under construction.
struct Draft {
  Plan plan;
  std::vector<Touch> bufferTouches, homeTouches;
  /// The scalars that prologue and epilogue give to the updates: no place of
  /// the host store, but ordered as one. `index` is 0.
  std::vector<Touch> scalarTouches;
};

/// Events, buffers and homes without offsets, waits and time. Linear in their
/// number. The choices must be consistent with the problem; throws Error where
/// a value that is not sliceable would have to pass between phases of different
/// microbatches.
Draft build(const Problem &problem, const Machine &machine,
            const Choices &choices);

/// build() over and over, in the same memory. The problem and the machine must
/// outlive it and stay as they are.
class PlanBuilder {
public:
  PlanBuilder(const Problem &problem, const Machine &machine);
  ~PlanBuilder();

  /// As build(). Its own, until it builds again; may be moved from.
  Draft &build(const Choices &choices);

  struct Peaks {
    std::vector<int64_t> bytes; ///< as liveBytes()
    int64_t events = 0;
  };
  /// Of the plan that build() makes, of which no more is made than that takes.
  Peaks peaks(const Choices &choices);

private:
  class Builder;
  std::unique_ptr<Builder> builder;
};

/// The most bytes that are live at once on each device, alignment included.
std::vector<int64_t> liveBytes(const Plan &plan);

/// Static packing of live ranges: what is resident first, then the rest by
/// several first-fit orders, of which the lowest peak is kept. Sets offsets,
/// peaks and host bytes. `enough`: by device, the peak at which no lower one is
/// sought.
void allocate(Plan &plan, const std::vector<int64_t> &enough = {});

/// allocate() over and over, in the same memory.
class Allocator {
public:
  Allocator();
  ~Allocator();
  void allocate(Plan &plan, const std::vector<int64_t> &enough);

private:
  class Packer;
  std::unique_ptr<Packer> packer;
};

/// Adds the waits that two consecutive executions need and queue order does not
/// already give.
void synchronize(Draft &draft);

/// synchronize() over and over, in the same memory.
class Synchronizer {
public:
  Synchronizer();
  ~Synchronizer();
  void synchronize(Draft &draft);

private:
  class Walk;
  std::unique_ptr<Walk> walk;
};

/// Simulates executions until they are periodic; sets `seconds` and
/// `computeSeconds`. Transfers under way on a link share it equally.
void simulate(Plan &plan, const Problem &problem, const Machine &machine);

/// One line of the simulated timeline of the last execution.
struct Interval {
  int event = 0;
  int64_t iteration = 0;
  double begin = 0, end = 0; ///< seconds from the end of the execution before;
                             ///< what overlaps with it begins below 0
};
std::vector<Interval> timeline(const Plan &plan, const Problem &problem,
                               const Machine &machine);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILD_H
