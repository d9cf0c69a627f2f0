//===- Problem.h - What is to be planned ------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program (a training step, or a forward-only pass over one batch) as the
// planner sees it: a chain of layers with costs and byte counts. No MLIR, no
// ONNX: the compiler fills it in, or it is read from JSON ("harmony.profile").
//
// Layers are numbered in execution order; a value may skip layers, so that a
// cut between two layers is the set of the values which cross it. All sizes are
// bytes, all times seconds. `u` is a microbatch size in samples, `D` the batch.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PROBLEM_H
#define COMPILER_PLANNER_PROBLEM_H

#include "compiler/Planner/Error.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace harmony::planner {

/// Where the optimizer may update a tensor.
enum class UpdatePlace { Any, Host, Device };

/// One layer's use of a tensor, by index; the k-th entry over all layers that
/// has `gradient` set for a tensor is that tensor's gradient use k.
struct GradientUse {
  int layer = 0;
  int position = 0; ///< in Layer::tensors
};

/// A variable: parameter, frozen parameter, buffer or constant that layers
/// read. Tied weights are one tensor read by several layers.
struct Tensor {
  std::string name;
  int64_t bytes = 0;
  bool trainable = false;
  int64_t gradientBytes = 0; ///< of each gradient use; 0 if not trainable
  int64_t stateBytes = 0;    ///< optimizer state, all slots together
  UpdatePlace updatePlace = UpdatePlace::Any;
  /// The scalar (ScalarRole::Contribution) that this tensor's gradient gives to
  /// what all updates wait for, e.g. its sum of squares; -1: none.
  int contribution = -1;
  /// Derived by Problem::link(), in layer order: the order of addition.
  std::vector<GradientUse> gradientUses;

  /// To update it on the host with one gradient; below 0: by
  /// Problem::hostUpdate.
  double hostUpdateSeconds = -1;
};

/// An activation or a batch input. A microbatch of u samples has
/// bytesPerSample * u + fixedBytes bytes.
struct Value {
  std::string name;
  int64_t bytesPerSample = 0;
  int64_t fixedBytes = 0;
  /// A gradient value of the same size exists. Each consumer whose ValueUse has
  /// `gradient` adds to it, the one of highest layer index first.
  bool differentiable = false;
  /// Delivered to the host, every microbatch of it (forward-only programs).
  bool output = false;
  /// Samples lie one after the other, bytesPerSample each, and nothing else
  /// (fixedBytes is 0): any run of samples is a microbatch, so that phases of
  /// different microbatch sizes may exchange it through the host store.
  bool sliceable = false;

  /// Derived by Problem::link(). producer -1: a batch input, which lies in the
  /// host's batch memory and is copied in by microbatch.
  int producer = -1;
  std::vector<int> consumers; ///< ascending, without repetition

  int64_t bytes(int64_t microbatch) const {
    return bytesPerSample * microbatch + fixedBytes;
  }
  bool isInput() const { return producer < 0; }
};

/// One way of keeping a saved block from forward to backward: its first
/// `bytes`, from which, and from inputs and tensors, the rest is made again.
struct Keep {
  int64_t bytes = 0;
  double recomputeSeconds = 0;
  int64_t recomputeWorkspace = 0;
};

/// What one layer function costs at one microbatch size.
struct Cost {
  int64_t microbatch = 0;
  double forwardSeconds = 0;
  double backwardSeconds = 0; ///< without recomputing the forward
  int64_t savedBytes = 0; ///< what backward needs besides inputs and tensors
  int64_t forwardWorkspace = 0; ///< transient, beside operands and saved block
  int64_t backwardWorkspace = 0;
  /// By level from 1 on, bytes ascending up to savedBytes, which takes no
  /// recomputation. Empty: all of the block is the only level.
  std::vector<Keep> keeps = {};

  //===--- levels of keeping; 0: nothing, the outputs are made again too
  //---===//

  int levels() const {
    return keeps.empty() ? 1 : static_cast<int>(keeps.size());
  }
  int64_t keptBytes(int level) const {
    return level == 0 ? 0 : keeps.empty() ? savedBytes : keeps[level - 1].bytes;
  }
  int64_t restBytes(int level) const { return savedBytes - keptBytes(level); }
  /// Of a layer with something to make again.
  double recomputeSeconds(int level) const {
    return level == 0      ? forwardSeconds
           : keeps.empty() ? 0
                           : keeps[level - 1].recomputeSeconds;
  }
  int64_t recomputeWorkspace(int level) const {
    return level == 0      ? forwardWorkspace
           : keeps.empty() ? 0
                           : keeps[level - 1].recomputeWorkspace;
  }
};

/// A layer function; equal layers share one.
struct Function {
  std::string name;
  /// One for each of Problem::microbatches, in that order; all have as many
  /// levels of keeping.
  std::vector<Cost> costs;
};

/// Recomputations of any level read it.
inline constexpr int everyLevel = std::numeric_limits<int>::max();

struct TensorUse {
  int tensor = 0;
  bool gradient = false; ///< backward accumulates into a gradient of this use
  bool backwardReads = false; ///< backward reads the tensor's value
  bool forwardWrites =
      false; ///< forward updates the tensor in place, once a
             ///< microbatch (running statistics); recomputing does not
  /// Recomputations at lower levels of keeping read it, from this one on none:
  /// what is kept already comes behind it. 1 or more, since at level 0 all of
  /// the forward is made again.
  int recomputeReads = everyLevel;
};

struct ValueUse {
  int value = 0;
  bool backwardReads = false; ///< backward reads the value again
  bool gradient = false;      ///< backward contributes to the value's gradient
  int recomputeReads = everyLevel; ///< as TensorUse::recomputeReads
};

struct Layer {
  std::string name;
  int function = 0;
  std::vector<TensorUse> tensors;
  std::vector<ValueUse> inputs;
  std::vector<int> outputs; ///< values
  bool isLoss = false;      ///< forward adds to the accumulator scalars
};

/// A few bytes that stay on the devices that use them throughout. Seeds are
/// computed on the host by the prologue (from the whole batch) and copied in
/// before the step; accumulators are zeroed before the first layer and copied
/// out after the last, one for each data-parallel group; exactly one layer adds
/// to an accumulator. A contribution is computed from one tensor's complete
/// gradient, where the tensor is updated, and copied out if that is a device.
enum class ScalarRole { Seed, Accumulator, Contribution };
struct Scalar {
  std::string name;
  int64_t bytes = 0;
  ScalarRole role = ScalarRole::Accumulator;
  /// Of an accumulator: the loss layer that adds to it. link() fills it in
  /// where there is but one.
  int layer = -1;
};

/// Seconds to update a tensor of b bytes: perTensor + b * perByte.
struct UpdateCost {
  double perTensor = 0;
  double perByte = 0;
  double seconds(int64_t bytes) const {
    return perTensor + perByte * static_cast<double>(bytes);
  }
};

struct Problem {
  std::string name;
  bool training = true;   ///< false: forward phases alone, nothing is updated
  int64_t batch = 1;      ///< D, samples of one execution
  bool splittable = true; ///< false: the only microbatch is the whole batch
  /// What is computed for a sample depends on the others of its microbatch: the
  /// backward of a layer has the microbatches of its forward.
  bool mixing = false;
  /// Candidates, ascending, from 1 to D: those for which costs are known. A
  /// phase's size is one of them; they need not divide D.
  std::vector<int64_t> microbatches;
  /// A host task reads all contributions and computes scalars that every update
  /// reads: updates are deferred and follow it.
  bool epilogue = false;
  std::vector<Tensor> tensors;
  std::vector<Value> values;
  std::vector<Function> functions;
  std::vector<Layer> layers;
  std::vector<Scalar> scalars;
  UpdateCost hostUpdate, deviceUpdate;

  /// Derives producers, consumers and gradient uses from `layers`. Call once
  /// the layers stand, and again when they change. Throws Error on an index
  /// that is out of range or a value with two producers.
  void link();

  /// Throws Error unless the problem is one that can be planned: see the
  /// comments on the members. Calls nothing; link() must have been called.
  void check() const;

  const Cost &cost(int layer,
                   int64_t microbatch) const; ///< Error if not a candidate
  /// Whether any forward updates a tensor: samples then go in order.
  bool forwardsWrite() const;
  int layerCount() const { return static_cast<int>(layers.size()); }
  /// The highest level of keeping: everything.
  int levels(int layer) const {
    return functions[layers[layer].function].costs.front().levels();
  }
  /// Parameters + one gradient per use + optimizer state, each once.
  int64_t trainingStateBytes() const;
  /// How many consumers contribute to the gradient of `value`.
  int contributions(int value) const;
  /// Seconds of all forward and backward functions over D, at the microbatch
  /// that makes them least: no recomputation, no transfer.
  double computeBoundSeconds() const;
};

/// The yardstick for the least capacity: the maximum over the layers, at the
/// smallest microbatch, of what one direction of one layer can have live at
/// once (tensors, gradients, values in and out and their gradients, saved
/// block, workspace) plus the scalars. Not a floor: a backward that does not
/// read a tensor does without it.
int64_t lowerBound(const Problem &problem);

/// The layer that attains lowerBound.
int largestLayer(const Problem &problem);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PROBLEM_H
