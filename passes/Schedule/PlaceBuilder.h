//===- PlaceBuilder.h - Inputs, homes and buffers of a plan ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PLACEBUILDER_H
#define PASSES_SCHEDULE_PLACEBUILDER_H

#include "passes/Schedule/Swaps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <tuple>

namespace harmony {

/// Adds the places of one plan to a module and finds them again: what
/// buildProgram's packs and updates are bound to. Places are named after the
/// model's values and variables; a name that is taken gets a number.
class PlaceBuilder {
public:
  PlaceBuilder(mlir::ModuleOp module, const Model &model,
               const planner::Plan &plan, schedule::ProgramKind kind);

  /// Inputs, scalars, homes, outputs, buffers and loss terms.
  mlir::LogicalResult build();

  /// A symbol that the module does not have yet.
  std::string symbol(const mlir::Twine &wanted);

  /// The buffer of what is live at a point, empty where the plan has none.
  std::string find(planner::Content content, int object, int use, int device,
                   planner::Point point, int64_t firstSample = 0) const;
  /// The home of the plan, empty where it has none.
  std::string findHome(planner::HomeKind homeKind, int object,
                       int use = -1) const;
  /// The home of a buffer of the plan, or its batch input; empty: it has none.
  std::string homeOf(const planner::Buffer &buffer) const;
  /// By Plan::buffers.
  const std::string &buffer(int index) const { return buffers[index]; }

  /// By graph input; empty where there is none.
  std::string input(int64_t index) const;
  /// What the prologue writes for a loss term; empty where there is none.
  std::string denominator(int64_t term) const;
  std::string seed(int64_t term) const;
  /// Scratch of tasks on the host that one of its queues runs.
  const std::string &hostWorkspace(int lane) const {
    return workspaces[static_cast<size_t>(lane)];
  }
  /// A scalar of the step or a variable's home; empty for what is neither.
  std::string variable(mlir::StringRef name) const;
  /// Where a state variable begins in its tensor's state block.
  int64_t stateOffset(int tensor, int64_t position) const;

private:
  mlir::ModuleOp module;
  const Model &model;
  const planner::Problem &problem;
  const planner::Plan &plan;
  schedule::ProgramKind kind;
  mlir::MLIRContext *context;
  mlir::OpBuilder builder;
  mlir::SymbolTable symbols;
  /// The first plan built owns the homes' numbers.
  bool isPrimary = true;

  std::map<std::tuple<planner::HomeKind, int, int>, std::string> homes;
  std::vector<std::string> inputs, buffers;
  planner::BufferIndex index;
  std::vector<std::string> denominators, unusedSeeds; ///< by loss term
  std::vector<std::string> workspaces;                ///< by queue of the host
  llvm::StringMap<std::string> variableHome; ///< of those with one of their own
  llvm::StringMap<int> taken; ///< the last number given to a name

  bool isEvaluation() const { return kind == schedule::ProgramKind::evaluate; }
  mlir::FlatSymbolRefAttr ref(mlir::StringRef name) const {
    return mlir::FlatSymbolRefAttr::get(context, name);
  }
  mlir::func::FuncOp getGraph() const;
  mlir::FailureOr<std::pair<int64_t, bool>>
  getSampleBytes(mlir::RankedTensorType type, mlir::StringRef what,
                 mlir::StringRef name);
  mlir::LogicalResult addInputs();
  mlir::DenseI64ArrayAttr getRange(mlir::func::FuncOp graph, unsigned index);
  void addScalars();
  mlir::LogicalResult addOutputs();
  std::string createHome(const mlir::Twine &name, schedule::Content content,
                         int64_t bytes, mlir::ArrayRef<std::string> variables,
                         int64_t id, int64_t sampleBytes = 0,
                         int64_t fixedBytes = 0);
  std::string sharedHome(const mlir::Twine &name, schedule::Content content,
                         int64_t bytes);
  mlir::LogicalResult addHomes();
  std::string homeName(const planner::Home &home) const;
  mlir::LogicalResult checkState(const planner::Home &home,
                                 mlir::ArrayRef<std::string> variables);
  mlir::LogicalResult addPrologueHomes();
  mlir::LogicalResult addLosses();
  void addBuffers();
  std::string bufferName(const planner::Buffer &buffer) const;
};

} // namespace harmony

#endif // PASSES_SCHEDULE_PLACEBUILDER_H
