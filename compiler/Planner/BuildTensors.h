//===- BuildTensors.h - Tensors of a plan under construction ----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_BUILDTENSORS_H
#define COMPILER_PLANNER_BUILDTENSORS_H

#include "compiler/Planner/BuildContext.h"
#include "compiler/Planner/CountingSort.h"

namespace harmony::planner {

/// Loads and stores of tensors (BuildTensors.cpp); gradients, contributions
/// and updates (BuildUpdates.cpp).
class TensorBuilder {
public:
  explicit TensorBuilder(BuildContext &context);
  /// Decides where each tensor is exchanged and updated; couples phases.
  void plan();
  void emit();

private:
  /// The phase of an update.
  static constexpr int update = -1;

  /// One use by a phase, or the update on a device.
  struct Access {
    int phase = 0;
    Parts parts = 0;  ///< that touch it
    Parts writes = 0; ///< those of them that write it
  };

  /// Accesses between which the tensor stays on their device.
  struct Stretch {
    Range accesses;     ///< in `stretchAccesses`
    bool dirty = false; ///< one of them writes
    int buffer = -1;    ///< filled in with the events
  };

  struct Decision {
    Range accesses;  ///< by phase, in `runAccesses`
    Range stretches; ///< in `stretches`, unless it is resident
    Range loads;     ///< in `loads`: of the stretches, those of one pack, which
                     ///< the groups run side by side, together
    Range residents; ///< in `residents`, filled in with the events
    Range parts;     ///< in `parts`, likewise
    /// Written by phases on several devices.
    bool exchanged = false;
    bool resident = false;
    bool updated = false, onHost = false;
    bool byOthers = false; ///< updated on a device of Choices::others
    int owner = -1;        ///< the device that updates; -1: none, or the host
    int lastAdd = -1;      ///< the last phase that adds to a gradient
    /// The section in which all parts are complete; an update on a device
    /// gets those of other devices there.
    int collectPhase = -1;
    int updatePhase = -1; ///< the section that holds the update
    // Device updates, filled in with the events.
    int updateBuffer = -1;
    bool loadForUpdate = false;
    /// Behind which part of `updatePhase` the update is; -1: behind the phase.
    int updatePart = -1;
    /// Of the phase that adds last there: it is updated among its Runs.
    bool updatedBeside = false;
  };

  /// A part of a gradient, once complete.
  struct Part {
    int number = 0;
    int lastPhase = -1; ///< that adds
    int device = -1, buffer = -1;
    bool stored = false;
  };

  /// A copy that stays on a device.
  struct Resident {
    int device = -1, buffer = -1;
  };

  /// Stretches that begin with a load, in `loaded`.
  using Loads = Range;

  BuildContext &b;
  const Problem &problem;
  const Choices &choices;
  /// (layer, position) of every use of a tensor.
  std::vector<std::vector<std::pair<int, int>>> uses;

  // Of the plan at hand.
  std::vector<Decision> decisions; ///< by tensor
  std::vector<Access> runAccesses, stretchAccesses;
  std::vector<Stretch> stretches;
  std::vector<Loads> loads;
  std::vector<int> loaded; ///< in `stretches`
  std::vector<Resident> residents;
  std::vector<Part> parts;
  // For a while.
  struct Placed {
    int device;
    Access access;
  };
  std::vector<Placed> placed;
  std::vector<int> latest; ///< phase by group
  std::vector<int> packs;  ///< of loads
  std::vector<int>
      packDevices;          ///< by the first load of a pack: its last device
  std::vector<int> ordered; ///< tensors
  CountingSort<int> sort;
  struct Spread {
    int phase, part, tensor;
  };
  std::vector<Spread> spread;

  int tensorCount() const { return static_cast<int>(problem.tensors.size()); }
  int deviceOf(const Access &access) const {
    return b.phase(access.phase).device;
  }
  int deviceOf(const Access &access, const Decision &decision) const {
    return access.phase == update ? decision.owner : deviceOf(access);
  }

  void findAccesses(int t);
  Elements<const Access> accessesOf(int t) const {
    return elementsOf(runAccesses, decisions[t].accesses);
  }
  Elements<Part> partsOf(int t) {
    return elementsOf(parts, decisions[t].parts);
  }
  void decideExchange(int t);
  void decideUpdate(int t);
  void followParts(int t);
  bool collects(int t) const;
  void follow(int p, int device);

  void addResident(int t);
  void addStretches(int t);
  int ordinal(const Access &access, const Decision &decision) const;
  bool staysFor(int t, const Access &from, const Access &to, bool dirty) const;
  void cutStretches(int t);
  void findLoads(int t);
  void addLoads(Loads group);
  void addStretch(int t, Stretch &stretch);

  const Access &firstOf(const Stretch &stretch) const {
    return stretchAccesses[stretch.accesses.begin];
  }
  int phaseOf(const Stretch &load) const { return firstOf(load).phase; }
  int deviceOf(const Stretch &load) const { return deviceOf(firstOf(load)); }
  const Stretch &loadAt(Loads group, int i) const {
    return stretches[loaded[group.begin + i]];
  }
  Gather gatherOf(int t) const;
  bool canGather(Loads group) const;
  int gatherPoint(Loads group) const;
  int makeLoad(int t, const Stretch &load, int need);
  int makeCopy(int t, const Stretch &from, const Stretch &to, int need);
  int needOf(Loads group) const;
  void addLoad(int t, Loads group);
  void gatherFromOne(int t, Loads group);
  bool gatherSlices(int t, Loads group);

  bool holds(int t, const Part &part) const;
  bool isNear(const Part &part, int phase) const;
  void addGradients(int t);
  bool leavesBetween(int t, int before, int p) const;
  void passPart(int t, Part &part, int p, int need);
  Part addPart(int t, int use, int group);
  void storePart(int t, Part &part, EventList &list);
  void storeAmong(int t, Part &part);
  int loadPart(int t, const Part &part, int device, EventList &list);
  int copyPart(int t, const Part &part, int device, EventList &list);
  void leaveBehind(int t, const Part &part);
  int collectPart(int t, const Part &part);
  void makeRoomForOthers(int t, int event);
  void storeBehind(int t, int buffer);
  int ownersPhase(int t, int layer) const;
  void addContributions();
  void addHostContribution(int t);
  void addDeviceContribution(int t);
  int ownerOf(int t) const;
  bool isUpdatedLater(int t) const;
  int coverFromComplete(int buffer, int p, int layer);
  int besidePhase(int t) const;
  int completePart(int t, int p) const;
  int earliestPart(int t) const;
  void spreadUpdates();
  void addUpdates();
  void addHostUpdate(int t);
  void addDeviceUpdate(int t, EventList &pendingStores, EventList &refreshes);
  void addState(int t, int event, EventList &list, EventList &stores);
  void refreshResidents(int t, EventList &stores, EventList &refreshes);
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_BUILDTENSORS_H
