//===- Plan.h - What the planner decides ------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan is one iteration of a program that is repeated: events in issue order,
// each on a queue, with explicit waits; and every buffer with its address. What
// a compiler needs is here: nothing has to be decided again downstream.
//
// Order. Every queue executes its events in the order of `events`. The value
// transfers of a phase and its Runs are its group (LoadValue ... Run StoreValue
// CopyValue ...), each a loop over the phase's microbatches; where there are
// several they are adjacent in `events`. Those of one group that share a queue
// are one loop there, iteration by iteration: see queueLoops. Beyond queue
// order only waits order anything. A wait may name an event of a later group (a
// ring into which another device's phase copies); that nothing deadlocks is for
// verify() to show.
//
// Samples. A phase covers samples [firstSample, firstSample + trips *
// microbatch) of the minibatch. Every layer's forward and backward cover all
// samples exactly once, by one phase or several: data-parallel groups have
// shares of their own, and a share that the microbatch size does not divide
// ends with a phase of one smaller microbatch.
//
// Groups. A data-parallel group is a set of devices which has the whole model
// and a share of the samples. Its gradient of a tensor's use is a part: part
// group * uses + use, so that parts are added in the order of groups, and of
// uses within a group. Everything here that says `use` of a gradient means the
// part.
//
// Addresses. At most one buffer that holds a given thing of given samples is
// live on a device at a (event, step), so that an operand is found by find().
// Buffers whose live ranges
// overlap have disjoint addresses; where addresses are reused the waits order
// the last user before the next.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PLAN_H
#define COMPILER_PLANNER_PLAN_H

#include "compiler/Planner/Machine.h"
#include "compiler/Planner/Problem.h"

#include <array>
#include <optional>

namespace harmony::planner {

/// Alignment of every offset, on devices and in the host store.
inline constexpr int64_t bufferAlignment = 64;

/// The least multiple of bufferAlignment that holds so many bytes.
constexpr int64_t alignedBytes(int64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

enum class UpdateOrder {
  JustInTime, ///< a tensor is updated right after its last gradient use, or
              ///< one phase later where parts come from other devices
  Deferred    ///< all tensors are updated after the last backward phase
};

enum class PhaseKind {
  Forward, ///< F: forward of first..last for each microbatch
  Turn,    ///< T: forward, then backward, for each microbatch
  Backward ///< B: backward last..first, each layer after what is recomputed
           ///< for it
};

enum class StepKind {
  Forward,
  Recompute, ///< the forward again: writes neither scalars nor tensors
  Backward
};

/// One layer function call of a phase's microbatch.
struct Step {
  int layer = 0;
  StepKind kind = StepKind::Forward;
};

/// All microbatches of one pack of layers in one direction.
struct Phase {
  int device = 0;
  PhaseKind kind = PhaseKind::Forward;
  int firstLayer = 0, lastLayer = 0;
  int64_t microbatch = 0;  ///< u
  int64_t firstSample = 0; ///< of the minibatch
  int64_t trips = 1;       ///< microbatches
  /// Microbatches of the same layers and direction with lower samples: where
  /// those of a value that is not sliceable lie in its home.
  int64_t firstMicrobatch = 0;
  int group = 0; ///< data-parallel
  /// The pack is freed behind it, which takes Machine::phaseSeconds. False: the
  /// next phase on the device goes on with the same layers.
  bool frees = true;
  /// What is kept from F to B, by layer - firstLayer: see level(). Empty: 0
  /// throughout, as for T.
  std::vector<int> keep;
  std::vector<Step> steps; ///< of one microbatch, in order

  /// Level 0: B makes the layer's saved block again, and with it its outputs
  /// for what else it makes again. From level 1 on B reads the outputs of the
  /// forward, and Cost::keptBytes(level) of the saved block stay on the device
  /// from the F of the same microbatches, which has the same level; the rest of
  /// the block is made again.
  int level(int layer) const {
    return keep.empty() ? 0 : keep[static_cast<size_t>(layer - firstLayer)];
  }
};

enum class QueueKind { Compute, In, Out, Peer, Host };

/// Lane 0 of In, Out and Peer carries tensors, states and gradients, lane 1
/// values and scalars, so that a large tensor does not hold up the next
/// microbatch; both share the link. A Peer queue belongs to the sender and
/// copies to any other device; gradients have lane 2 there, so that tensors
/// which are gathered ahead do not hold them up. Lanes of the host are its
/// update engines, up to Machine::hostQueues.
struct Queue {
  QueueKind kind = QueueKind::Compute;
  int device = 0; ///< hostEndpoint for Host
  int lane = 0;
};

enum class EventKind {
  Prologue,      ///< host: computes the seeds from the batch
  LoadScalar,    ///< in: a seed
  ZeroScalar,    ///< compute: an accumulator
  StoreScalar,   ///< out: an accumulator
  LoadTensor,    ///< in
  StoreTensor,   ///< out
  LoadState,     ///< in: optimizer state
  StoreState,    ///< out
  ZeroGradient,  ///< compute: of (tensor, use)
  StoreGradient, ///< out, to the landing buffer of (tensor, use)
  LoadGradient,  ///< in, from it
  Contribute, ///< host or compute queue: a scalar from all parts' gradients of
              ///< tensor `object`, where it will be updated
  Epilogue,   ///< host: after all contributions, before all updates
  Update,     ///< host or compute queue: consumes all parts' gradients
  Run,        ///< compute: the steps of `phase`, for each microbatch
  LoadValue,  ///< in, loop: a value (stash or batch input) for `phase`
  StoreValue, ///< out, loop: to its stash, or an output to its place
  LoadValueGradient,  ///< in, loop
  StoreValueGradient, ///< out, loop
  CopyTensor,         ///< peer: from `source` to `device`, as all copies
  CopyGradient,       ///< peer: part `use` of tensor `object`
  CopyValue, ///< peer, loop, in the group of the phase that makes the value
  CopyValueGradient ///< peer, loop, in the group of the phase that adds to it
};

struct Wait {
  static constexpr int whole = -1;
  int event = 0;
  /// `whole`: before the first iteration, for all of `event`. Otherwise
  /// iteration i waits for iteration (i / every) * times + times - 1 - lag of
  /// `event`, and not at all where that is negative. A lag > 0 may name a later
  /// event. `times`: how many microbatches of the awaited phase make one of
  /// this phase; `every`: how many of this phase one of the awaited makes; one
  /// of them is 1, and both are where the microbatch sizes are equal.
  int lag = whole;
  /// The event of the execution before (always whole); satisfied in the first.
  bool previousStep = false;
  int64_t times = 1, every = 1;
};

struct Event {
  EventKind kind = EventKind::Run;
  int queue = 0;   ///< in Plan::queues
  int device = 0;  ///< whose arena it touches; copies: the destination
  int source = -1; ///< copies: the device that sends
  int object = -1; ///< tensor, value or scalar
  /// Gradient part; of an accumulator the group; -1 elsewhere.
  int use = -1;
  int phase = -1; ///< Run and value transfers
  /// Run: steps [firstStep, endStep) of the phase. A B phase that begins with
  /// recomputation may have two Runs, so that this does not wait for the
  /// gradients of its outputs.
  int firstStep = 0, endStep = 0;
  bool onHost = false; ///< Update
  int64_t trips = 1;
  int64_t bytes = 0; ///< transfers: of one iteration
  /// LoadTensor and CopyTensor: where in the tensor these bytes begin, a
  /// multiple of bufferAlignment. Slices that fill one buffer make up the
  /// whole.
  int64_t firstByte = 0;
  std::vector<Wait> waits;
};

enum class Content {
  Tensor,
  State,
  Gradient, ///< (tensor, use)
  Value,
  ValueGradient,
  RecomputedValue, ///< a value made again inside a B phase; operands of that
                   ///< phase produced in it are found here, not under Value
  Saved,           ///< of layer `object`
  Workspace,       ///< of layer `object`, one step
  Scalar
};

/// Buffer::use of what is kept of a saved block.
inline constexpr int keptPart = 0;

/// A point of the issue order: a step of a Run (its number in the phase), or
/// step 0 of another event.
struct Point {
  int event = 0;
  int step = 0;
  bool operator<(const Point &o) const {
    return event != o.event ? event < o.event : step < o.step;
  }
  bool operator<=(const Point &o) const { return !(o < *this); }
  bool operator==(const Point &o) const {
    return event == o.event && step == o.step;
  }
};

struct Buffer {
  Content content = Content::Tensor;
  int object = -1; ///< tensor, value, layer or scalar
  /// Gradient part; of an accumulator the group; of a saved block keptPart for
  /// its beginning, which is kept, and -1 for the rest.
  int use = -1;
  /// Of the phases whose microbatches it holds: values, their gradients and
  /// saved blocks; 0 elsewhere.
  int64_t firstSample = 0;
  int device = 0;
  int64_t offset = 0;
  int64_t slotBytes =
      0; ///< of one microbatch, or of the whole where slots is 1
  int64_t stride =
      0; ///< between slots; a multiple of bufferAlignment if slots > 1
  int64_t slots = 1;       ///< microbatch i lies in slot i % slots
  Point first, last;       ///< live range, inclusive
  bool persistent = false; ///< live throughout and across executions

  int64_t bytes() const { return (slots - 1) * stride + slotBytes; }
  int64_t end() const { return offset + bytes(); }
  int64_t address(int64_t iteration) const {
    return offset + iteration % slots * stride;
  }
};

enum class HomeKind { Tensor, State, Gradient, Value, ValueGradient, Scalar };

/// A place in the host store. Values (stashes and outputs) have all samples of
/// the minibatch, without gaps: see homeExtent.
struct Home {
  HomeKind kind = HomeKind::Tensor;
  int object = -1;
  int use = -1; ///< gradient part; of an accumulator the group
  int64_t offset = 0;
  int64_t size = 0; ///< bytes
  int64_t bytes() const { return size; }
};

enum class Traffic { SwapIn, SwapOut, Peer, Input, Output };
inline constexpr int trafficCount = 5;

/// A transfer of what stays on a device, before the first execution or before
/// the state is saved.
struct ResidentTransfer {
  Content content = Content::Tensor; ///< Tensor or State
  int object = -1;
  int device = 0;
  int buffer = -1;
};

/// Names the rule that does not hold and, where two events are involved, both.
struct Violation {
  std::string rule; ///< e.g. "read-after-write"
  std::string message;
  int first = -1, second = -1; ///< events
};

struct Plan {
  std::string problem; ///< name
  int64_t batch = 0;
  int groups = 1; ///< data-parallel
  UpdateOrder update = UpdateOrder::JustInTime;
  std::vector<Queue> queues;
  std::vector<Phase> phases;
  std::vector<Event> events;
  std::vector<Buffer> buffers;
  std::vector<Home> homes;
  std::vector<ResidentTransfer> load; ///< before the first execution
  std::vector<ResidentTransfer>
      store; ///< what `load` brought and executions changed

  std::vector<int64_t> peakBytes; ///< of each device: highest end address
  int64_t hostBytes = 0;          ///< of the host store
  std::array<int64_t, trafficCount> traffic{}; ///< bytes of one execution
  double seconds = 0;        ///< of one execution in steady state, simulated
  double firstSeconds = 0;   ///< of the first execution, which starts idle
  double computeSeconds = 0; ///< of which the busiest compute queue computes

  /// The buffer that holds something at a point, or null.
  const Buffer *find(Content content, int object, int use, int device, Point at,
                     int64_t firstSample = 0) const;
  const Home *findHome(HomeKind kind, int object, int use = -1) const;

  /// Replays two executions, with nothing but queue order and waits ordering
  /// events, and checks every rule of verifyRules. Independent of how the plan
  /// was made. Empty: the plan is valid. Stops after `limit` violations.
  std::vector<Violation> verify(const Problem &problem, const Machine &machine,
                                int limit = 1) const;
};

/// Seconds of one step of a phase, for one microbatch.
double stepSeconds(const Problem &problem, const Phase &phase, Step step);

/// Bytes in the host store, from its start.
struct Extent {
  int64_t offset = 0, bytes = 0;
};
/// Microbatch `iteration` of a phase in the home of a value or its gradient:
/// sample s lies at s * bytesPerSample, behind the fixedBytes of all
/// microbatches before. Other homes (phase -1): the whole.
Extent homeExtent(const Plan &plan, const Problem &problem, const Home &home,
                  int phase, int64_t iteration);

/// Every rule that verify() can name.
extern const std::vector<std::string> verifyRules;

/// What a queue executes next: `trips` times its events, in order. Events that
/// are no loop stand alone, with one trip.
struct QueueLoop {
  std::vector<int> events;
  int64_t trips = 1;
};
/// By queue, in execution order.
std::vector<std::vector<QueueLoop>> queueLoops(const Plan &plan);

/// Every iteration of every event advances its queue's timeline by one. Where
/// the signals of an event lie: iteration i of the n-th execution (from 0) is
/// done when the timeline reaches n * period + start + i * stride + 1.
struct Signals {
  int64_t start = 0, stride = 1;
};
struct Timelines {
  std::vector<int64_t> period;  ///< by queue: signals of one execution
  std::vector<Signals> signals; ///< by event
};
Timelines timelines(const Plan &plan);

/// A wait as a queue executes it: in iteration i of the n-th execution, until
/// the timeline of `queue` reaches n * period + base + (i / every) *
/// perIteration; not at all in iterations before `from`, where the plan asks
/// for nothing.
struct TimelineWait {
  int queue = 0;
  int64_t base = 0, perIteration = 0, every = 1, from = 0;
};
TimelineWait timelineWait(const Plan &plan, const Timelines &timelines,
                          const Wait &wait);

bool isTransfer(EventKind kind);
/// What the bytes of a transfer count as.
Traffic trafficOf(const Event &event, const Problem &problem);
/// Bytes by class that one execution moves.
std::array<int64_t, trafficCount> trafficOf(const Plan &plan,
                                            const Problem &problem);

/// A transfer that the plan needs, in issue order. The schedule pass first
/// swaps around every pack, then elides what this list does not hold.
struct Transfer {
  int event = 0;
  EventKind kind = EventKind::LoadTensor;
  int object = -1, use = -1, phase = -1, device = 0, source = -1;
  int64_t bytes = 0; ///< over all iterations
  int64_t firstByte = 0;
  Traffic traffic = Traffic::SwapIn;
};
std::vector<Transfer> requiredTransfers(const Plan &plan,
                                        const Problem &problem);

/// Events that bring a tensor or its state to a device which has had the same
/// until after its last computation: a second copy, which is legal but waste.
std::vector<int> redundantLoads(const Plan &plan);

/// The packs of the turn, of a group, that go forward and backward: several go
/// on with the backward of a microbatch behind the forward of another one
/// (1F1B).
int turnPacksOf(const Plan &plan);

const char *name(EventKind kind);
const char *name(PhaseKind kind);
const char *name(QueueKind kind);
const char *name(Content content);
const char *name(HomeKind kind);
const char *name(Traffic traffic);
/// "Run B1 [4..7]", "LoadTensor fc1.weight": for messages.
std::string describe(const Plan &plan, const Problem &problem, int event);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PLAN_H
