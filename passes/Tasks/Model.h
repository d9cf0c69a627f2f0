//===- Model.h - The layered model as the planner sees it -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bridge between IR and planner: a planner::Problem for one of the module's
// two programs (training step, evaluation), and what its indices stand for.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TASKS_MODEL_H
#define PASSES_TASKS_MODEL_H

#include "compiler/Planner/Problem.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace harmony {

/// What an argument or result of a layer function is: exactly one index is set.
struct Binding {
  int tensor = -1; ///< Problem::tensors; of a result: it is stored there
  int value = -1;  ///< Problem::values
  int scalar = -1; ///< Problem::scalars: a loss accumulator; results only
};

/// One layer: a call in @main or @evaluate.
struct LayerBinding {
  std::string function; ///< symbol of the layer function; its backward is
                        ///< `function + ".bwd"`
  std::vector<Binding> arguments,
      results; ///< of the forward function, without saved results
  /// For each result the scalar that is its cotangent (a loss term's seed), or
  /// -1: then it is the gradient of the value.
  std::vector<int> cotangentScalar;
};

/// A term of the loss: scale * numerator / denominator.
struct LossBinding {
  int accumulator =
      -1; ///< Problem::scalars: the numerator, summed over microbatches
  int seed =
      -1; ///< Problem::scalars: scale / denominator; -1 when not training
  double scale = 1;
};

/// How one tensor is updated (nn.optimize), by Problem::tensors index; empty
/// function: not trained.
struct UpdateBinding {
  std::string function; ///< nn.optimize's
  std::vector<std::string>
      states; ///< variables, in slot order; slot s of the state
              ///< block begins at the sum of the aligned sizes before
  std::vector<std::string> scalars; ///< variables of role scalar
};

struct Model {
  planner::Problem problem;
  std::vector<LayerBinding> layers; ///< by Problem::layers
  std::vector<std::string>
      tensorVariable; ///< by Problem::tensors: symbol of the nn.variable
  std::vector<int>
      valueInput; ///< by Problem::values: index of the graph input, or -1
  std::vector<int> outputs; ///< by @evaluate's result: Problem::values
  std::vector<LossBinding> losses;
  std::vector<UpdateBinding> updates; ///< by Problem::tensors
  /// By Problem::tensors: function of nn.contribution; empty: none.
  std::vector<std::string> contributions;
  std::vector<std::string>
      prologueVariables; ///< that the prologue reads: tables of class weights
};

/// Names of the tasks (harmony.task) that the programs run, each lowered for
/// one microbatch size. `accumulate`: gradient of forward argument i is added
/// to what is there (always so for tensors); listed are the value arguments for
/// which it is.
std::string forwardTaskName(const std::string &function, int64_t microbatch);
/// The forward again, inside a backward phase, at a level of keeping
/// (planner::Phase::level): loss accumulators are left alone; from level 1 on
/// it makes nothing but the rest of the saved block.
std::string recomputeTaskName(const std::string &function, int64_t microbatch,
                              int level);
std::string backwardTaskName(const std::string &function, int64_t microbatch,
                             const std::vector<int> &accumulate);
/// Update of a tensor with `uses` gradient uses.
std::string updateTaskName(const std::string &function, int uses);
/// What the gradient of a tensor gives to the epilogue (gradient k: of use k;
/// result 0: the scalar, one f32, and behind it what computing it takes: as
/// many bytes as Problem::scalars says).
std::string contributionTaskName(const std::string &function, int uses);
/// Once per step on the host: denominators and seeds of the loss from the batch
/// inputs (argument i: graph input i; parameter j: Model::prologueVariables[j];
/// result 2k: denominator of term k, result 2k+1: its seed).
inline const char *prologueTaskName() { return "host.prologue"; }
/// nn.step_scalars: argument i: reads[i], result j: writes[j]; absent if the
/// module has none.
inline const char *stepScalarsTaskName() { return "host.step_scalars"; }
/// nn.epilogue, on the host after all contributions and before all updates: of
/// n contributions, argument i: of the i-th tensor that has one, by
/// Problem::tensors; argument n + i: reads[i]; result j: writes[j]. Absent
/// unless Problem::epilogue.
inline const char *epilogueTaskName() { return "host.epilogue"; }

} // namespace harmony

#endif // PASSES_TASKS_MODEL_H
