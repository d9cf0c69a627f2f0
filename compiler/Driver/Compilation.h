//===- Compilation.h - The stages of one compilation ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_DRIVER_COMPILATION_H
#define COMPILER_DRIVER_COMPILATION_H

#include "compiler/Driver/Measured.h"
#include "compiler/Driver/Planning.h"
#include "compiler/Target/Host/HostTarget.h"
#include "passes/Pipelines.h"
#include "passes/Tasks/CostModel.h"
#include "passes/Tasks/Model.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <chrono>
#include <memory>
#include <optional>

namespace harmony {

/// What the flags say to the first stages.
PipelineOptions getPipelineOptions(const CompilerOptions &options);

/// One model on its way through the stages. Each stage returns an exit code;
/// after one that is not kDone nothing more can be done.
class Compilation {
public:
  Compilation(const CompilerOptions &options, mlir::MLIRContext &context);

  int import();
  int normalize();
  int layers();
  int differentiate();
  /// Lowers tasks and plans both programs.
  int plan();
  int schedule();
  int memory();
  /// Kernels to a shared object with the program in it.
  int codegen(llvm::SmallVectorImpl<char> &payload);
  /// Executable and weights.
  int write(llvm::ArrayRef<char> payload);

  /// Begins behind `differentiate` with a module that somebody else owns, and
  /// gives it back.
  void adopt(mlir::ModuleOp other) { module = other; }
  void release() { (void)module.release(); }
  /// The samples per step, from the model or from --batch.
  int findBatch();

  mlir::ModuleOp getModule() { return *module; }
  const planner::Planned &getPlan() const {
    return training ? trainingPlan.planned : evaluationPlan.planned;
  }
  const planner::Problem &getProblem() const {
    return training ? trainingModel.problem : evaluationModel.problem;
  }
  const planner::Machine &getMachine() const {
    return training ? trainingPlan.machine : evaluationPlan.machine;
  }
  const std::string &getNumericsKey() const { return numericsKey; }
  /// For people.
  std::string describePlan() const;
  /// Likewise, with --explain; else empty.
  const std::string &getExplanation() const { return explanation; }

  /// Runs `stage` under its name: times it, dumps the module.
  int run(const std::string &name, llvm::function_ref<int()> stage);
  void printTimes() const;

private:
  int runPasses(llvm::function_ref<void(mlir::OpPassManager &)> build);
  /// `flags` are the options, or as --explain changes them.
  int planOne(Model &model, PlanOutcome &outcome, bool forTraining,
              const planner::Machine &machine, const planner::Plan *given,
              const CompilerOptions &flags);
  /// Training step and evaluation, and their key; once more where it was called
  /// before.
  int planBoth(const planner::Machine &machine, const planner::Plan *given);
  /// The plan of --keep-numerics itself, where no other has its key.
  int takeKeptPlan(const planner::Machine &machine);
  /// Plans the training step, or what there is, on another machine, as if it
  /// had been given; the module stays as it is.
  PlanOutcome planOn(planner::Machine machine, const CompilerOptions &flags);
  /// --profile: gives links their measured rates.
  int takeMeasurements(planner::Machine &machine);
  /// Says what measured costs were used for, and keeps --keep-numerics.
  int reportNumerics() const;
  std::string makeFingerprint();
  void removeUnusedTasks();
  int checkSplitting(size_t devices) const;
  /// Whether the plan splits the batch of a model that combines samples.
  bool isMixed() const;
  int error(const std::string &message, int exitCode = kRefused) const;

  const CompilerOptions &options;
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module, kernels;
  HostTarget target;
  bool training = true;
  bool ownOptimizer = false; ///< the model brings its own
  int64_t batch = 0;
  Model trainingModel, evaluationModel;
  PlanOutcome trainingPlan, evaluationPlan;
  std::optional<planner::Measurements> measurements;
  planner::Machine costMachine; ///< whose rates the cost model has
  std::unique_ptr<CostModel> costs;
  NumericsPins pins; ///< of --keep-numerics; empty key: none
  std::string numericsKey, fingerprint, explanation;
  struct StageTime {
    std::string stage;
    double wall, processor; ///< seconds
  };
  std::vector<StageTime> times;
  int stages = 0;
};

} // namespace harmony

#endif // COMPILER_DRIVER_COMPILATION_H
