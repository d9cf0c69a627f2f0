//===- BuildValues.h - Values of a plan under construction ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDVALUES_H
#define COMPILER_PLANNER_BUILDVALUES_H

#include "compiler/Planner/BuildContext.h"

namespace harmony::planner {

/// How values and their gradients get from phase to phase (LinkValues.cpp);
/// buffers, transfers and copies (BuildValues.cpp).
class ValueBuilder {
public:
  explicit ValueBuilder(BuildContext &context)
      : b(context), problem(context.problem), choices(context.choices) {}

  /// Decides; gives Runs to phases that recompute while their gradients are
  /// still on the way, and roots to those that rings connect.
  void link();
  void emit();

private:
  /// One use of a value (or of its gradient) by a phase.
  struct Access {
    int phase = 0;
    Parts parts = 0;     ///< that touch it
    Parts writes = 0;    ///< those of them that write it
    bool stores = false; ///< to the home, behind this phase
    int segment = -1;    ///< in `segments`
    int next = -1;       ///< of its segment, in `accesses`
  };

  enum class Source {
    Run,   ///< its first phase makes it
    Batch, ///< the batch memory
    Home,
    Copy ///< from the segment `from`
  };

  /// A stretch that microbatches stay on a device.
  struct Segment {
    int first = -1, last = -1; ///< accesses, ascending, all of one chain
    Source source = Source::Run;
    int from = -1;       ///< Copy: the access behind which it is copied
    int buffer = -1;     ///< filled in with the events
    bool copied = false; ///< to another segment
    bool ring = false;   ///< Copy: into a ring
  };

  /// All of a value, or of its gradient.
  struct Flow {
    int value = -1;
    Content content = Content::Value;
    Range accesses; ///< by phase, in `accesses`
    Range segments; ///< in `segments`
  };

  /// A copy to a single phase, which may be into a ring.
  struct Edge {
    int from = 0, to = 0; ///< phases
    int segment = 0;
  };

  BuildContext &b;
  const Problem &problem;
  const Choices &choices;
  std::vector<Flow> flows; ///< of values and gradients, by value
  std::vector<Access> accesses;
  std::vector<Segment> segments;
  // For a while.
  struct Member {
    int chain, access;
  };
  std::vector<Member> members;
  struct Open {
    int device, segment;
  };
  std::vector<Open> open;
  std::vector<int> sources; ///< accesses
  /// Who had samples [begin, end) last.
  struct Last {
    int64_t begin, end;
    int access;
  };
  std::vector<Last> latest; ///< by samples
  std::vector<Edge> edges;

  Range findAccesses(int v);
  Parts partsBackward(int v, int consumer, int p) const;
  Range findGradientAccesses(int v);

  bool overlap(int p, int q) const;
  bool isNext(int p, int q) const;
  bool staysBetween(Place place, int p, int q) const;
  bool copiesBetween(Place place, int p, int q) const;
  bool usedBetween(const Flow &flow, int p, int q) const;
  void checkPassing(int v, int p, int q) const;

  int addSegment(Flow &flow, int access, Source source, int from = -1);
  void join(int access, int segment);
  void linkValue(Flow &flow);
  void linkChain(Flow &flow, const Member *begin, const Member *end);
  void linkGradient(Flow &flow);
  void takeLatest(int64_t begin, int64_t end, int access);
  void loadFromSources(Flow &flow, int access);
  bool wasThere(const Flow &flow, int access) const;
  void splitRuns(int p, int before);

  void chooseRings();
  bool mayRing(int p, int q) const;

  void addLoad(const Flow &flow, const Access &access, int event, int buffer);
  bool mayComeAhead(const Flow &flow, int p) const;
  bool isInner(const Segment &segment) const;
  void emitFlow(const Flow &flow);
  int makeSegmentBuffer(const Flow &flow, const Segment &segment);
  void coverCopied(int buffer, int from);
  int homeOf(const Flow &flow);
  int transfer(const Flow &flow, int p, bool load, int buffer);
  void addInnerValue(int v, int p, StepKind made, Content content);
  void addInnerGradient(int v, int p);
  void addRecomputed(int v);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDVALUES_H
