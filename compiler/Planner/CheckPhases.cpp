//===- CheckPhases.cpp - What the phases of a plan cover ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replay.h"

#include <algorithm>
#include <utility>

namespace harmony::planner {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

bool hasForward(const Phase &phase) {
  return phase.kind != PhaseKind::Backward;
}
bool hasBackward(const Phase &phase) {
  return phase.kind != PhaseKind::Forward;
}
int64_t endSample(const Phase &phase) {
  return phase.firstSample + phase.trips * phase.microbatch;
}

class Phases {
public:
  Phases(const Plan &plan, const Problem &problem, const Machine &machine,
         Report &report)
      : plan(plan), problem(problem),
        devices(static_cast<int>(machine.devices.size())), report(report) {}

  void check() {
    for (int p = 0; p < static_cast<int>(plan.phases.size()); ++p)
      checkPhase(p);
    if (!report.violations().empty())
      return;
    checkFrees();
    checkGroups();
    for (int l = 0; l < problem.layerCount(); ++l) {
      checkCoverage(l, "forward", forward[l]);
      if (problem.training)
        checkCoverage(l, "backward", backward[l]);
      else if (!backward[l].empty())
        report.add("coverage", "layer " + number(l) +
                                   " has a backward in a program without");
      if (report.full())
        return;
      checkKeep(l);
      if (problem.training && problem.mixing)
        checkMixing(l);
    }
  }

private:
  const Plan &plan;
  const Problem &problem;
  int devices;
  Report &report;
  /// By layer: the phases with its forward or backward, ascending by sample
  /// once checkCoverage() has run.
  std::vector<std::vector<int>> forward =
      std::vector<std::vector<int>>(problem.layers.size());
  std::vector<std::vector<int>> backward = forward;

  static std::string text(int p) { return "phase " + number(p); }

  void checkPhase(int p) {
    const Phase &phase = plan.phases[p];
    if (phase.device < 0 || phase.device >= devices || phase.firstLayer < 0 ||
        phase.firstLayer > phase.lastLayer ||
        phase.lastLayer >= problem.layerCount()) {
      report.add("structure", text(p) + " is of layers " +
                                  number(phase.firstLayer) + " to " +
                                  number(phase.lastLayer) + " on device " +
                                  number(phase.device));
      return;
    }
    if (phase.group < 0 || phase.group >= plan.groups ||
        phase.firstSample < 0 || phase.trips < 1 ||
        phase.trips > problem.batch || phase.microbatch < 1 ||
        phase.microbatch > problem.batch || endSample(phase) > problem.batch) {
      report.add("coverage",
                 text(p) + " of group " + number(phase.group) + " has " +
                     number(phase.trips) + " microbatches of " +
                     number(phase.microbatch) + " from sample " +
                     number(phase.firstSample) +
                     ", accepted are groups below " + number(plan.groups) +
                     " and samples below " + number(problem.batch));
      return;
    }
    if (!std::binary_search(problem.microbatches.begin(),
                            problem.microbatches.end(), phase.microbatch))
      report.add("microbatch",
                 text(p) + " has microbatches of " + number(phase.microbatch) +
                     ", accepted is one of the problem's candidates");
    if (!levelsExist(phase)) {
      report.add("coverage", text(p) + " keeps layers at levels that they do "
                                       "not have, or does so in a turn");
      return;
    }
    checkSteps(p);
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l) {
      if (hasForward(phase))
        forward[l].push_back(p);
      if (hasBackward(phase))
        backward[l].push_back(p);
    }
  }

  /// A pack that is not freed is that of the next phase on the device.
  void checkFrees() {
    std::vector<int> next(devices, -1);
    for (int p = static_cast<int>(plan.phases.size()) - 1; p >= 0; --p) {
      const Phase &phase = plan.phases[p];
      int after = std::exchange(next[phase.device], p);
      if (!phase.frees &&
          (after < 0 || plan.phases[after].firstLayer != phase.firstLayer ||
           plan.phases[after].lastLayer != phase.lastLayer))
        report.add("structure",
                   text(p) +
                       " does not free its pack, with which no phase of "
                       "device " +
                       number(phase.device) + " goes on");
    }
  }

  bool levelsExist(const Phase &phase) const {
    if (phase.keep.empty())
      return true;
    size_t layers = static_cast<size_t>(phase.lastLayer - phase.firstLayer) + 1;
    if (phase.kind == PhaseKind::Turn || phase.keep.size() != layers)
      return false;
    for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
      if (phase.level(l) < 0 || phase.level(l) > problem.levels(l))
        return false;
    return true;
  }

  /// Forward steps ascend, backward steps descend, all layers. What is
  /// recomputed, once before its backward, may be fewer.
  void checkSteps(int p) {
    const Phase &phase = plan.phases[p];
    std::vector<Step> expected;
    if (hasForward(phase))
      for (int l = phase.firstLayer; l <= phase.lastLayer; ++l)
        expected.push_back({l, StepKind::Forward});
    if (hasBackward(phase))
      for (int l = phase.lastLayer; l >= phase.firstLayer; --l)
        expected.push_back({l, StepKind::Backward});
    std::vector<Step> found;
    std::vector<char> recomputed(
        static_cast<size_t>(phase.lastLayer - phase.firstLayer) + 1, 0);
    for (const Step &step : phase.steps)
      if (step.kind != StepKind::Recompute) {
        found.push_back(step);
      } else if (phase.kind != PhaseKind::Backward ||
                 step.layer < phase.firstLayer ||
                 step.layer > phase.lastLayer ||
                 (!found.empty() && step.layer >= found.back().layer) ||
                 recomputed[step.layer - phase.firstLayer]++) {
        report.add("coverage", text(p) + " recomputes layer " +
                                   number(step.layer) + " where it may not");
      }
    bool same = found.size() == expected.size();
    for (size_t i = 0; same && i < found.size(); ++i)
      same = found[i].layer == expected[i].layer &&
             found[i].kind == expected[i].kind;
    if (!same)
      report.add("coverage", "the steps of " + text(p) +
                                 " are not one forward and backward of each of "
                                 "its layers in order");
  }

  /// Shares follow each other; phases stay within that of their group.
  void checkGroups() {
    std::vector<Extent> shares = groupShares(plan);
    int64_t next = 0;
    for (size_t g = 0; g < shares.size(); ++g) {
      if (shares[g].offset != next || shares[g].bytes == 0)
        report.add("coverage", "group " + number(static_cast<int64_t>(g)) +
                                   " has " + number(shares[g].bytes) +
                                   " samples from " + number(shares[g].offset) +
                                   ", accepted is 1 or more from " +
                                   number(next));
      next = shares[g].offset + shares[g].bytes;
    }
    for (int p = 0; p < static_cast<int>(plan.phases.size()); ++p) {
      const Phase &phase = plan.phases[p];
      const Extent &share = shares[phase.group];
      if (phase.firstSample < share.offset ||
          endSample(phase) > share.offset + share.bytes)
        report.add("coverage", text(p) +
                                   " has samples outside of the share of "
                                   "its group " +
                                   number(phase.group));
    }
  }

  void checkCoverage(int l, const char *direction, std::vector<int> &phases) {
    std::sort(phases.begin(), phases.end(), [&](int a, int b) {
      int64_t x = plan.phases[a].firstSample, y = plan.phases[b].firstSample;
      return x != y ? x < y : a < b;
    });
    int64_t sample = 0, microbatch = 0;
    for (int p : phases) {
      const Phase &phase = plan.phases[p];
      if (phase.firstSample != sample) {
        report.add("coverage", std::string("the ") + direction + " of layer " +
                                   number(l) + " has samples up to " +
                                   number(sample) + ", and " + text(p) +
                                   " those from " + number(phase.firstSample));
        return;
      }
      if (phase.firstMicrobatch != microbatch) {
        report.add("coverage", text(p) + " has microbatches from " +
                                   number(phase.firstMicrobatch) +
                                   ", the phases before it end with " +
                                   number(microbatch));
        return;
      }
      sample = endSample(phase);
      microbatch += phase.trips;
    }
    if (sample != plan.batch)
      report.add("coverage", std::string("the ") + direction + " of layer " +
                                 number(l) + " has " + number(sample) +
                                 " samples, accepted is " + number(plan.batch));
  }

  /// Samples that are computed together forwards are so backwards.
  void checkMixing(int l) {
    auto starts = [&](const std::vector<int> &phases) {
      std::vector<int64_t> samples;
      for (int p : phases)
        for (int64_t i = 0; i < plan.phases[p].trips; ++i)
          samples.push_back(plan.phases[p].firstSample +
                            i * plan.phases[p].microbatch);
      return samples;
    };
    if (starts(forward[l]) != starts(backward[l]))
      report.add("microbatch",
                 "the backward of layer " + number(l) +
                     " has other microbatches than its forward, which the "
                     "samples of one depend on");
  }

  /// What F keeps, the B of the same microbatches on the same device has.
  void checkKeep(int l) {
    auto disagree = [&](int p) {
      report.add("coverage",
                 text(p) + " keeps what layer " + number(l) +
                     " makes, but its other direction has not the same "
                     "microbatches on the same device, or does not keep as "
                     "much");
    };
    auto partner = [&](const std::vector<int> &phases, int p) {
      const Phase &phase = plan.phases[p];
      return std::any_of(phases.begin(), phases.end(), [&](int other) {
        const Phase &o = plan.phases[other];
        return o.level(l) == phase.level(l) && o.device == phase.device &&
               o.group == phase.group && o.firstSample == phase.firstSample &&
               o.microbatch == phase.microbatch && o.trips == phase.trips;
      });
    };
    auto keeps = [&](int p) {
      const Phase &phase = plan.phases[p];
      return problem.cost(l, phase.microbatch).keptBytes(phase.level(l)) > 0;
    };
    for (int p : forward[l])
      if (keeps(p) && !partner(backward[l], p))
        disagree(p);
    for (int p : backward[l])
      if (keeps(p) && !partner(forward[l], p))
        disagree(p);
  }
};

} // namespace

std::vector<Extent> groupShares(const Plan &plan) {
  std::vector<Extent> shares(static_cast<size_t>(plan.groups));
  for (const Phase &phase : plan.phases) {
    if (!hasForward(phase))
      continue;
    Extent &share = shares[phase.group];
    int64_t end = endSample(phase);
    if (share.bytes > 0) {
      end = std::max(end, share.offset + share.bytes);
      share.offset = std::min(share.offset, phase.firstSample);
    } else {
      share.offset = phase.firstSample;
    }
    share.bytes = end - share.offset;
  }
  return shares;
}

int64_t microbatchCount(const Plan &plan, const Problem &problem, int value,
                        bool gradient) {
  const Value &what = problem.values[value];
  int layer = what.isInput()
                  ? (what.consumers.empty() ? 0 : what.consumers.front())
                  : what.producer;
  int64_t count = 0;
  for (const Phase &phase : plan.phases)
    if (phase.firstLayer <= layer && layer <= phase.lastLayer &&
        (gradient ? hasBackward(phase) : hasForward(phase)))
      count += phase.trips;
  return count;
}

void checkPhases(const Plan &plan, const Problem &problem,
                 const Machine &machine, Report &report) {
  if (plan.batch != problem.batch || plan.groups < 1 ||
      plan.groups > plan.batch || plan.phases.empty()) {
    report.add("structure",
               "the plan is for a batch of " + number(plan.batch) + " in " +
                   number(plan.groups) + " groups with " +
                   number(static_cast<int64_t>(plan.phases.size())) +
                   " phases, the problem has a batch of " +
                   number(problem.batch));
    return;
  }
  Phases(plan, problem, machine, report).check();
}

} // namespace harmony::planner
