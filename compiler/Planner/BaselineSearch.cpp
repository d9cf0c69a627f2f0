//===- BaselineSearch.cpp - The best plan on virtualised memory -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Baselines.h"
#include "compiler/Planner/Layout.h"
#include "compiler/Planner/SearchResult.h"

namespace harmony::planner {

namespace {

/// Addresses need more than the pieces: how often the limits are lowered.
constexpr int mostAttempts = 12;

class BaselineSearch {
public:
  BaselineSearch(const Problem &problem, const Machine &machine,
                 const SearchOptions &options)
      : problem(problem), machine(machine), options(options),
        pipeline(options.schedule == Schedule::PpSwap),
        devices(static_cast<int>(machine.devices.size())),
        groups(pipeline ? 1
                        : static_cast<int>(
                              std::min<int64_t>(devices, problem.batch))) {
    // As many replicas as there are samples, and microbatches to share them by.
    while (groups > 1 && microbatches().empty())
      --groups;
    checkPins();
  }

  Least<Baseline> least() const {
    Baseline baseline{pipeline, groups, microbatches().front(),
                      options.recompute == Recompute::None,
                      options.updatePlace != UpdatePlace::Device};
    Draft draft = leastDraft(baseline);
    return {draft.plan.peakBytes, baseline};
  }

  Result run() {
    Least<Baseline> smallest = least();
    if (!smallest.fits(machine))
      return refuse(problem, machine, smallest.peaks);
    for (int64_t u : microbatches())
      for (bool keep : {false, true})
        if (options.recompute == Recompute::Auto ||
            keep == (options.recompute == Recompute::None))
          consider({pipeline, groups, u, keep,
                    options.updatePlace != UpdatePlace::Device});
    if (!best && hostNeeded == 0)
      finish(leastDraft(smallest.choices));
    if (!best)
      return refuseHost(problem, machine, smallest.peaks, hostNeeded);
    Planned planned;
    planned.plan = std::move(*best);
    planned.minDeviceBytes = smallest.bytes();
    planned.boundBytes = lowerBound(problem);
    planned.candidates = simulated;
    planned.schedule = options.schedule;
    return planned;
  }

private:
  const Problem &problem;
  const Machine &machine;
  const SearchOptions &options;
  bool pipeline;
  int devices, groups;
  std::optional<Plan> best;
  int simulated = 0;
  int64_t hostNeeded = 0;

  void checkPins() const {
    if (microbatches().empty())
      throw Error(
          "the microbatch of " + std::string(name(options.schedule)) +
          " is pinned to " + std::to_string(options.microbatch.value_or(0)) +
          ", accepted is one into which the problem can be split over " +
          std::to_string(groups) + " devices");
    for (const Layer &layer : problem.layers)
      for (const TensorUse &use : layer.tensors)
        if (use.forwardWrites && groups > 1)
          throw Error(
              "the forward of layer '" + layer.name + "' updates tensor '" +
              problem.tensors[use.tensor].name +
              "' sample by sample, and the replicas of dp-swap run side "
              "by side; accepted is pp-swap");
    if (options.update == UpdateOrder::JustInTime)
      throw Error("updates are pinned to just in time, but those of " +
                  std::string(name(options.schedule)) + " are deferred");
    if (options.updatePlace == UpdatePlace::Host)
      throw Error("updates are pinned to the host, but those of " +
                  std::string(name(options.schedule)) + " are on the devices");
  }

  std::vector<int64_t> microbatches() const {
    std::vector<int64_t> sizes;
    for (int64_t u : options.microbatch
                         ? std::vector<int64_t>{*options.microbatch}
                         : problem.microbatches)
      if (u <= problem.batch && canSplit(problem, groups, u))
        sizes.push_back(u);
    return sizes;
  }

  /// With the least limits under which there is a plan.
  Draft leastDraft(const Baseline &baseline) const {
    std::vector<int64_t> limits = leastLimits(problem, machine, baseline);
    std::optional<Draft> draft;
    while (!(draft = virtualised(problem, machine, baseline, limits)))
      for (int64_t &limit : limits)
        limit += limit / 8 + bufferAlignment; // what cannot leave
    allocate(draft->plan);
    draft->plan.peakBytes.resize(devices, 0);
    return std::move(*draft);
  }

  void consider(const Baseline &baseline) {
    std::vector<int64_t> limits;
    for (const Device &device : machine.devices)
      limits.push_back(device.capacity);
    for (int attempt = 0; attempt < mostAttempts; ++attempt) {
      std::optional<Draft> draft =
          virtualised(problem, machine, baseline, limits);
      if (!draft)
        return;
      allocate(draft->plan);
      draft->plan.peakBytes.resize(devices, 0);
      bool fits = true;
      for (int d = 0; d < devices; ++d) {
        int64_t over = draft->plan.peakBytes[d] - machine.devices[d].capacity;
        if (over <= 0)
          continue;
        fits = false;
        limits[d] -= over / 2 + machine.devices[d].capacity / 64;
      }
      if (fits)
        return finish(std::move(*draft));
    }
  }

  void finish(Draft draft) {
    Plan &plan = draft.plan;
    if (machine.hostBytes > 0 && plan.hostBytes > machine.hostBytes) {
      hostNeeded = hostNeeded == 0 ? plan.hostBytes
                                   : std::min(hostNeeded, plan.hostBytes);
      return;
    }
    synchronize(draft);
    simulate(plan, problem, machine);
    ++simulated;
    if (!best || plan.seconds < best->seconds)
      best = std::move(plan);
  }
};

} // namespace

Result solveBaseline(const Problem &problem, const Machine &machine,
                     const SearchOptions &options) {
  return BaselineSearch(problem, machine, options).run();
}

int64_t leastBaselineBytes(const Problem &problem, const Machine &machine,
                           const SearchOptions &options) {
  return BaselineSearch(problem, machine, options).least().bytes();
}

} // namespace harmony::planner
