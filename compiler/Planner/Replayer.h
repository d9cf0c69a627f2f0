//===- Replayer.h - Two executions, byte by byte ----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every event reads and writes, by the meaning of the problem:
// ReplayAccess.cpp has the accesses, Replay.cpp the events, ReplayRun.cpp the
// steps of a Run, ReplayEnds.cpp what holds before and after.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_REPLAYER_H
#define COMPILER_PLANNER_REPLAYER_H

#include "compiler/Planner/BufferIndex.h"
#include "compiler/Planner/ReplayOrder.h"

#include <unordered_map>

namespace harmony::planner {

class Replayer : ReplayOrder {
public:
  Replayer(const Plan &plan, const Problem &problem, Report &report);
  void run();

private:
  /// Space 0 is the host store, 1 + d device d; the last has a byte for the
  /// prologue and one for the epilogue: what they compute is nowhere else.
  std::vector<Space> spaces;
  BufferIndex buffers;
  std::unordered_map<int64_t, int> homeIndex;
  std::vector<Extent> shares; ///< samples of each group
  /// Layers whose outputs a B phase makes again, ascending.
  std::vector<std::vector<int>> madeAgain;
  /// Of tensors: how often an update or a forward has written it.
  std::vector<int64_t> tensorVersion;
  /// Of layers whose forward writes tensors: samples it has done, over all
  /// executions.
  std::vector<int64_t> written;

  bool seeded = false; ///< there is a prologue

  bool indexHomes();

  //===--- accesses: ReplayAccess.cpp ---===//

  struct Bytes {
    int space = -1;
    int64_t begin = 0, end = 0;
    const Buffer *buffer = nullptr; ///< none in the host store
    int64_t skipped = 0;            ///< bytes of the thing before these
    int64_t base() const { return begin - skipped; }
    explicit operator bool() const { return space >= 0; }
  };

  /// What is found on a device at the event under way; reports "live-range" if
  /// nothing is, and "size" if it has not `bytes` bytes (-1: any).
  Bytes on(int device, Content content, int object, int use, int step,
           int64_t bytes = -1);
  Bytes home(HomeKind kind, int object, int use);
  Bytes mark(EventKind kind) const;

  /// What the bytes hold, after checking that the access is ordered after what
  /// it reads. Nothing if they hold different things.
  Held load(Bytes bytes, const char *rule);
  void expect(Bytes bytes, Held expected, const char *rule = "read");
  void store(Bytes bytes, Held held);
  /// A transfer of `what`, whatever its version or count.
  void copy(Bytes from, Bytes to, Held what);

  bool inLiveRange(const Buffer *buffer, const Stamp &writer) const;
  void noteReader(Space::Segment &segment);
  std::string print(const Held &held) const;

  //===--- what bytes are to hold ---===//
  // `base` is left out: a thing begins where the access does, but for samples
  // that lie one after the other (placed()).

  Held tensor(int t, int64_t version) const {
    return {Held::Tensor, t, -1, 0, 0, 0, version, 0};
  }
  Held state(int t, int64_t version) const {
    return {Held::State, t, -1, 0, 0, 0, version, 0};
  }
  Held gradient(int t, int part, int64_t samples) const {
    return {Held::Gradient, t, part, execution, 0, 0, samples, 0};
  }
  Held scalar(int s, int use, int64_t count) const {
    return {Held::Scalar, s, use, execution, 0, 0, count, 0};
  }
  Held mark() const { return {Held::Mark, 0, -1, execution, 0, 0, 0, 0}; }
  Held microbatch(Held::Kind kind, int object, int64_t count = 0) const {
    const Phase &phase = plan.phases[plan.events[self.event].phase];
    return {kind,
            object,
            -1,
            execution,
            phase.firstSample + iteration * phase.microbatch,
            phase.microbatch,
            count,
            0};
  }
  Held value(int v) const { return microbatch(Held::Value, v); }
  Held valueGradient(int v, int64_t count) const {
    return microbatch(Held::ValueGradient, v, count);
  }
  /// With the base that it has at an address.
  Held placed(Held held, int64_t address) const;

  /// Samples of its group's share before the microbatch under way.
  int64_t sharePosition(const Phase &phase) const {
    return phase.firstSample + iteration * phase.microbatch -
           shares[phase.group].offset;
  }

  //===--- events: Replay.cpp ---===//

  void execute(const Event &event) override;
  void prologue();
  void storeScalar(const Event &event);
  void loadValue(const Event &event);
  void contribute(const Event &event);
  void epilogue();
  void update(const Event &event);
  void expectGradients(const Event &event);
  /// What a transfer of an event moves, and where it is found on a device.
  Held moved(const Event &event) const;
  Bytes endOnDevice(const Event &event, int device);
  Bytes endAtHome(const Event &event);
  Bytes sliceOf(const Event &event, Bytes whole) const;

  //===--- the steps of a Run: ReplayRun.cpp ---===//

  void runSteps(const Event &event);
  void runForward(const Phase &phase, const Step &step, int s);
  void runBackward(const Phase &phase, int layer, int s);
  Bytes operand(const Phase &phase, int v, int s);
  Bytes gradientOperand(const Phase &phase, int v, int s);
  Bytes savedBlock(const Phase &phase, int layer, int part, int s);
  bool makesAgain(int phase, int v) const;
  void readTensor(const Phase &phase, const TensorUse &use, int s,
                  bool anyVersion);
  void writeTensors(const Phase &phase, int layer, int s);
  void readSeeds(const Phase &phase, int s);
  void accumulateLoss(const Phase &phase, int layer, int s);
  void addToValueGradient(const Phase &phase, int v, int layer, int s);
  void addToGradient(const Phase &phase, int t, int layer, int position, int s);

  //===--- before and after: ReplayEnds.cpp ---===//

  void placeInitial();
  void checkFinal();
  int64_t finalVersion(Held::Kind kind, int t) const;
  void finalCheck(Bytes bytes, Held expected, const std::string &what);
  Held finalHeld(Bytes bytes);
  Bytes allOf(const Home &home) const {
    return {0, home.offset, home.offset + home.bytes(), nullptr};
  }
  const Home *findHome(HomeKind kind, int object, int use) const;
  void checkOutput(int v);
  void checkAccumulator(int s);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_REPLAYER_H
