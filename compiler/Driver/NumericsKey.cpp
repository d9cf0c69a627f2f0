//===- NumericsKey.cpp - What decides the bits of a training step ---------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/NumericsKey.h"

#include "passes/Tasks/TaskDigest.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"

#include <map>
#include <set>

using namespace mlir;
using namespace harmony;

namespace {

/// How the samples of the minibatch are divided for one direction of one layer:
/// from the first sample of a run of microbatches to their size and group.
struct Part {
  int64_t microbatch = 0, trips = 0;
  int group = 0;
};
using Division = std::map<int64_t, Part>;

struct LayerDivision {
  Division forward, backward;
};

std::vector<LayerDivision> divide(const planner::Plan &plan, int layers) {
  std::vector<LayerDivision> result(layers);
  for (const planner::Phase &phase : plan.phases)
    for (int layer = phase.firstLayer; layer <= phase.lastLayer; ++layer) {
      Part part{phase.microbatch, phase.trips, phase.group};
      if (phase.kind != planner::PhaseKind::Backward)
        result[layer].forward[phase.firstSample] = part;
      if (phase.kind != planner::PhaseKind::Forward)
        result[layer].backward[phase.firstSample] = part;
    }
  return result;
}

/// Parts of one size that follow each other in a group are one.
std::vector<Part> mergedParts(const Division &division) {
  std::vector<Part> parts;
  for (const auto &[sample, part] : division) {
    if (!parts.empty() && parts.back().microbatch == part.microbatch &&
        parts.back().group == part.group)
      parts.back().trips += part.trips;
    else
      parts.push_back(part);
  }
  return parts;
}

/// `4`: microbatches of 4 throughout; `3x2+2x1`: two of three samples, then one
/// of two.
std::string divisionText(const Division &division) {
  std::vector<Part> parts = mergedParts(division);
  if (llvm::all_of(parts, [&](const Part &part) {
        return part.microbatch == parts[0].microbatch;
      }))
    return parts.empty() ? "" : std::to_string(parts[0].microbatch);
  std::string text;
  for (const Part &part : parts)
    text += (text.empty() ? "" : "+") + std::to_string(part.microbatch) + "x" +
            std::to_string(part.trips);
  return text;
}

/// The size of the microbatch that holds `sample`.
int64_t sizeAt(const Division &division, int64_t sample) {
  auto after = division.upper_bound(sample);
  return after == division.begin() ? 0 : std::prev(after)->second.microbatch;
}

/// Where a pack begins again from the forward's values.
std::string levelsText(const planner::Phase &phase) {
  std::string text;
  for (int level : phase.keep)
    text += (text.empty() ? "/" : ".") + std::to_string(level);
  return text;
}

/// Backward packs that make values again in other microbatches than the forward
/// made them: what they begin from still has the forward's bits.
std::string recomputeText(const planner::Plan &plan,
                          const std::vector<LayerDivision> &layers) {
  std::set<std::string> packs;
  for (const planner::Phase &phase : plan.phases) {
    if (phase.kind != planner::PhaseKind::Backward)
      continue;
    for (int layer = phase.firstLayer; layer <= phase.lastLayer; ++layer)
      if (sizeAt(layers[layer].forward, phase.firstSample) !=
          phase.microbatch) {
        packs.insert(std::to_string(phase.firstLayer) + ".." +
                     std::to_string(phase.lastLayer) + "@" +
                     std::to_string(phase.firstSample) + levelsText(phase));
        break;
      }
  }
  return llvm::join(packs, ",");
}

} // namespace

std::string harmony::makeNumericsKey(ModuleOp module, const Model &model,
                                     const planner::Plan &plan,
                                     StringRef target) {
  bool training = model.problem.training;
  std::string text, sizes, last;
  llvm::raw_string_ostream stream(text);
  // Names of tasks begin with function and size; what follows says which of the
  // gradients of values are added to.
  std::map<std::string, schedule::TaskOp> tasks;
  for (auto task : module.getOps<schedule::TaskOp>())
    tasks.emplace(task.getSymName().str(), task);
  auto addExactly = [&](const std::string &name) {
    if (auto task = tasks.find(name); task != tasks.end())
      describeTask(task->second, stream);
  };
  auto addBeginning = [&](const std::string &name) {
    addExactly(name);
    for (auto task = tasks.lower_bound(name + ".add");
         task != tasks.end() && StringRef(task->first).starts_with(name + ".");
         ++task)
      describeTask(task->second, stream);
  };

  std::vector<LayerDivision> divisions =
      divide(plan, static_cast<int>(model.layers.size()));
  for (auto [layer, division] : llvm::zip(model.layers, divisions)) {
    std::string forward = divisionText(division.forward),
                backward = divisionText(division.backward);
    std::string entry =
        "u" + forward + (training && backward != forward ? "/" + backward : "");
    if (entry != last)
      sizes += (sizes.empty() ? "" : ",") + entry;
    last = entry;
    std::set<int64_t> forwardSizes, backwardSizes;
    for (const auto &[sample, part] : division.forward)
      forwardSizes.insert(part.microbatch);
    for (const auto &[sample, part] : division.backward)
      backwardSizes.insert(part.microbatch);
    for (int64_t size : forwardSizes)
      addExactly(forwardTaskName(layer.function, size));
    if (training)
      for (int64_t size : backwardSizes)
        addBeginning(backwardTaskName(layer.function, size, {}));
  }
  for (const UpdateBinding &update : model.updates)
    if (!update.function.empty())
      addExactly(updateTaskName(update.function, 1));
  for (const std::string &function : model.contributions)
    if (!function.empty())
      addExactly(contributionTaskName(function, 1));
  addExactly(epilogueTaskName());
  // Groups have gradients of their own, so what each of them has counts.
  if (plan.groups > 1)
    for (const LayerDivision &division : divisions)
      for (const Division *direction : {&division.forward, &division.backward})
        for (const Part &part : mergedParts(*direction))
          stream << part.group << ':' << part.microbatch << 'x' << part.trips
                 << ' ';
  stream << "recomputed " << recomputeText(plan, divisions) << '\n';

  std::string key = target.str() + "-dnnl2-D" + std::to_string(plan.batch);
  if (plan.groups > 1)
    key += "-G" + std::to_string(plan.groups);
  // Many different sizes make a long text, of which the digest is enough.
  if (sizes.size() > 60) {
    stream << sizes << '\n';
    sizes = "various";
  }
  return key + "-" + sizes + "-" + digest(text);
}
