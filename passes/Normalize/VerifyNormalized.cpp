//===- VerifyNormalized.cpp - What normalisation promises -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/Normalize/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSet.h"

namespace harmony {
#define GEN_PASS_DEF_VERIFYNORMALIZEDPASS
#include "passes/Normalize/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

struct VerifyNormalizedPass
    : harmony::impl::VerifyNormalizedPassBase<VerifyNormalizedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool ok = true;
    module.walk([&](Operation *op) { ok &= succeeded(verifyOp(op)); });
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main) {
      module.emitError("a normalised module has a function 'main'");
      return signalPassFailure();
    }
    ok &= succeeded(verifyMain(main));
    ok &= succeeded(verifyUpdates(module));
    ok &= succeeded(verifyEpilogue(module));
    if (!ok)
      signalPassFailure();
  }

  static bool isAllowed(Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    return dialect == "nn" || dialect == "arith" || dialect == "math" ||
           dialect == "func" || dialect == "builtin";
  }

  static LogicalResult verifyOp(Operation *op) {
    if (!isAllowed(op))
      return op->emitError("'")
             << op->getName()
             << "' is left; a normalised module holds nn, arith, math and func";
    if (!op->hasTrait<OpTrait::Elementwise>())
      return success();
    for (Type type :
         llvm::concat<Type>(SmallVector<Type>(op->getOperandTypes()),
                            SmallVector<Type>(op->getResultTypes()))) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      auto first = dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (!tensor || !first || tensor.getShape() != first.getShape() ||
          tensor.getEncoding() != first.getEncoding())
        return op->emitError("an elementwise operation needs operands and "
                             "results of one shape and batch");
    }
    return success();
  }

  static LogicalResult verifyMain(func::FuncOp main) {
    llvm::StringSet<> names;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto name = main.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
      if (!name || !names.insert(name.getValue()).second)
        return main.emitError("argument ")
               << i << " of 'main' needs a name of its own (" << nn::kNameAttr
               << ")";
      auto type = dyn_cast<RankedTensorType>(main.getArgument(i).getType());
      nn::BatchAttr batch = nn::getBatch(type);
      if (!type || (!batch && !type.hasStaticShape()) ||
          (batch && batch.getAxis() != 0))
        return main.emitError("input '")
               << name.getValue() << "' has type " << type
               << ", expected a static tensor, or one with the batch on axis 0";
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (!main.getResultAttrOfType<StringAttr>(i, nn::kNameAttr))
        return main.emitError("result ")
               << i << " of 'main' needs a name (" << nn::kNameAttr << ")";
    llvm::DenseSet<Attribute> assigned;
    for (auto assign : main.getBody().front().getOps<nn::AssignOp>())
      if (!assigned.insert(assign.getVariableAttr()).second ||
          !assign.getValue().getDefiningOp())
        return assign.emitError("assigns ")
               << assign.getVariableAttr()
               << ", accepted is one value that main computes";
    bool ok = true;
    for (auto loss : main.getBody().front().getOps<nn::LossOp>())
      if (loss.getDenominator() && dependsOnTrained(loss.getDenominator())) {
        loss.emitError("the denominator depends on a trained variable; it "
                       "must depend on inputs alone");
        ok = false;
      }
    return success(ok);
  }

  /// Whether a value changes from step to step other than by the inputs.
  static bool dependsOnTrained(Value value) {
    SmallVector<Value> worklist{value};
    llvm::DenseSet<Operation *> seen;
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op).second)
        continue;
      if (auto read = dyn_cast<nn::GetOp>(op)) {
        auto variable = SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(
            op, read.getVariableAttr());
        if (!variable || variable.getRole() == nn::Role::parameter ||
            variable.getRole() == nn::Role::state)
          return true;
      }
      worklist.append(op->operand_begin(), op->operand_end());
    }
    return false;
  }

  /// At most one update per parameter, and of parameters alone.
  static LogicalResult verifyUpdates(ModuleOp module) {
    llvm::DenseMap<Attribute, nn::OptimizeOp> updates;
    for (auto update : module.getOps<nn::OptimizeOp>()) {
      auto variable =
          module.lookupSymbol<nn::VariableOp>(update.getParameter());
      if (variable && variable.getRole() != nn::Role::parameter) {
        InFlightDiagnostic error = update.emitError("updates ")
                                   << update.getParameterAttr()
                                   << ", which is not a parameter";
        error.attachNote(variable.getLoc()) << "the variable is declared here";
        return error;
      }
      auto [position, inserted] =
          updates.try_emplace(update.getParameterAttr(), update);
      if (inserted)
        continue;
      InFlightDiagnostic error = update.emitError("updates ")
                                 << update.getParameterAttr()
                                 << " a second time";
      error.attachNote(position->second.getLoc()) << "the first update is here";
      return error;
    }
    return success();
  }

  /// At most one epilogue, which reads every contribution, one to a parameter.
  static LogicalResult verifyEpilogue(ModuleOp module) {
    SmallVector<nn::EpilogueOp> epilogues(module.getOps<nn::EpilogueOp>());
    if (epilogues.size() > 1)
      return epilogues[1].emitError("is the second of the module");
    llvm::SmallSetVector<Attribute, 16> parameters;
    for (auto contribution : module.getOps<nn::ContributionOp>())
      if (!parameters.insert(contribution.getParameterAttr()))
        return contribution.emitError("is the second of ")
               << contribution.getParameterAttr();
    SmallVector<Attribute> read;
    if (!epilogues.empty())
      llvm::append_range(read, epilogues[0].getContributions());
    for (Attribute parameter : read)
      if (!parameters.remove(parameter))
        return epilogues[0].emitError("reads the contribution of ")
               << parameter << ", which has none or is read twice";
    if (!parameters.empty())
      return module.emitError("no nn.epilogue reads the contribution of ")
             << parameters.front();
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> harmony::createVerifyNormalizedPass() {
  return std::make_unique<VerifyNormalizedPass>();
}
