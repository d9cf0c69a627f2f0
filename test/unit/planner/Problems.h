//===- Problems.h - Small problems for the planner's tests ------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_PLANNER_PROBLEMS_H
#define TEST_UNIT_PLANNER_PROBLEMS_H

#include "compiler/Planner/Build.h"

#include <random>

namespace harmony::planner::test {

/// `layers` equal layers: a weight of `weight` bytes with Adam state,
/// activations of `activation` bytes a sample, a saved block of twice that.
/// Times are in proportion to weight. The first layer reads the input "x", the
/// last is the loss.
Problem chain(int layers, int64_t batch, int64_t weight = 4096,
              int64_t activation = 512);

/// Two layers whose forward takes 1 s and backward 2 s a microbatch, weights of
/// 1e9 bytes (1 s on the link of machine()), values of 64 bytes (`nothing`).
Problem heavy(int64_t batch);
/// Seconds that no work of heavy() is shorter than.
inline constexpr double nothing = 1e-5;

/// Dense layers of given widths (f32), labels read by the loss layer.
Problem mlp(const std::vector<int64_t> &widths, int64_t batch);

/// Embedding, `blocks` equal blocks that all read one mask, and a head tied to
/// the embedding, whose logits are saved for the loss.
Problem transformer(int blocks, int64_t batch, int64_t width, int64_t sequence,
                    int64_t vocabulary);

/// The forward of a problem alone; the last layer's output is delivered.
Problem evaluation(const Problem &training);

/// Random layers, skips, ties, buffers that forward writes, several losses.
Problem random(std::mt19937 &generator);

/// Choices that leave nothing on the device.
Choices leastChoices(const Problem &problem, int64_t microbatch,
                     int layersPerPack = 1);
/// Choices at random, consistent with the problem.
Choices randomChoices(const Problem &problem, std::mt19937 &generator);

/// The random problem with costs for every microbatch size, and at random with
/// values that can be sliced and with an epilogue; with a batch of its own if
/// that is not 0.
Problem randomSizes(std::mt19937 &generator, int64_t batch = 0);
/// `devices` devices, of which some have links to each other.
Machine randomMachine(int devices, std::mt19937 &generator);
/// Choices at random for several devices: groups, packs of either direction,
/// rings and devices at random, sizes that leave a smaller microbatch, groups
/// in turn or one behind the other, turns of several packs, rounds.
Choices randomChoices(const Problem &problem, const Machine &machine,
                      std::mt19937 &generator);

/// A complete plan.
Plan makePlan(const Problem &problem, const Choices &choices);
Plan makePlan(const Problem &problem, const Machine &machine,
              const Choices &choices);

/// One device; a link of 1 GB/s each way without latency.
Machine machine(int64_t capacity);
inline constexpr int64_t unlimited = int64_t(1) << 50;

/// All violations as text; empty for a valid plan.
std::string problemsOf(const Plan &plan, const Problem &problem,
                       const Machine &machine = test::machine(unlimited));

} // namespace harmony::planner::test

#endif // TEST_UNIT_PLANNER_PROBLEMS_H
