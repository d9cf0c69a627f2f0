//===- RunBuilder.h - Tasks of a plan bound to its places -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_RUNBUILDER_H
#define PASSES_SCHEDULE_RUNBUILDER_H

#include "passes/Schedule/PlaceBuilder.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace harmony {

/// The place of a slot; null: the plan has none.
using SlotBinding = llvm::function_ref<schedule::AtAttr(schedule::SlotAttr)>;

/// Runs of tasks while a program grows: what its packs and its work outside of
/// packs share. `symbols` are those of the module as it was before its places.
class RunBuilder {
public:
  /// Keeps references.
  RunBuilder(mlir::ModuleOp module, const Model &model,
             const planner::Plan &plan, schedule::ProgramKind kind)
      : module(module), model(model), problem(model.problem), plan(plan),
        builder(module.getContext()), symbols(module),
        places(module, model, plan, kind) {}

  mlir::ModuleOp module;
  const Model &model;
  const planner::Problem &problem;
  const planner::Plan &plan;
  mlir::OpBuilder builder;
  mlir::SymbolTable symbols;
  PlaceBuilder places;

  mlir::FlatSymbolRefAttr ref(mlir::StringRef name) {
    return mlir::FlatSymbolRefAttr::get(module.getContext(), name);
  }
  /// Null for no place.
  schedule::AtAttr at(mlir::StringRef place, int64_t offset = 0);
  /// Null for no time.
  mlir::FloatAttr seconds(double seconds);

  /// Into how many parts a plan's groups and the uses of a tensor divide its
  /// gradient.
  int partsOf(int tensor) const;

  /// Says that the plan has no buffer for `what` at an event.
  mlir::LogicalResult missing(const mlir::Twine &what, int64_t event);

  /// Appends the places of all slots of a task, in their order.
  mlir::LogicalResult bindSlots(schedule::TaskOp task, int64_t event,
                                SlotBinding bind,
                                mlir::SmallVectorImpl<mlir::Attribute> &at);

  /// Adds a harmony.run of `workSeconds`, after which its phase takes
  /// `lastSeconds` more.
  mlir::LogicalResult addRun(schedule::TaskOp task,
                             schedule::Direction direction, int64_t layer,
                             mlir::StringRef label, int64_t event,
                             SlotBinding bind, double workSeconds = 0,
                             double lastSeconds = 0);
};

} // namespace harmony

#endif // PASSES_SCHEDULE_RUNBUILDER_H
